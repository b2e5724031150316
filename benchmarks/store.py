"""Stores from truth tables made elsewhere: time to index, to open, to add and remove facts; resident memory.

    python benchmarks/store.py DATASET_FOLDER TABLE.parquet [--work DIR]

Opening is timed in new processes with the files in the page cache, importing excluded; memory is what the process holds
after it has read every array of the store.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

OPEN = """
import json, resource, sys, time
from tuplet.truth.store_folder import StoreFiles
def resident():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmRSS"))
before = resident()
began = time.perf_counter()
store = StoreFiles.open(sys.argv[1])
opened = time.perf_counter() - began
size = sum(array.nbytes for array in store.table.arrays().values())
for array in store.table.arrays().values():
    array.max() if len(array) else None
print(json.dumps({"open_ms": round(1000 * opened, 1), "table_mb": round(size / 1e6, 1),
                  "resident_mb": round(resident() / 1e6, 1), "resident_before_mb": round(before / 1e6, 1)}))
"""


def opened(store: Path, times: int) -> dict[str, Any]:
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", OPEN, str(store)], check=True, capture_output=True).stdout)
        for _ in range(times)
    ]
    return {**runs[-1], "open_ms": min(run["open_ms"] for run in runs), "all_open_ms": [run["open_ms"] for run in runs]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--work", type=Path, help="folder for the store (default: a temporary one)")
    parser.add_argument("--observed", default="train,valid")
    parser.add_argument("--times", type=int, default=5, help="processes that open the store")
    arguments = parser.parse_args()
    from tuplet.build import make
    from tuplet.read.read import read
    from tuplet.truth.edit import add_facts, remove_facts
    from tuplet.truth.recipes import Given

    work = arguments.work or Path(tempfile.mkdtemp())
    path = work / f"{arguments.dataset.name}.store"
    began = time.perf_counter()
    graph = read(arguments.dataset)
    graph_read = time.perf_counter()
    observed = arguments.observed.split(",")
    store = make(graph, Given(arguments.table, observed, calibration="given"), path, force=True)
    indexed = time.perf_counter()
    report: dict[str, Any] = {
        "dataset": arguments.dataset.name,
        "edges": store.table.edges,
        "read_graph_s": round(graph_read - began, 2),
        "index_s": round(indexed - graph_read, 2),
        **opened(path, arguments.times),
    }
    heads, relation, tails = (column[:1000] for column in graph.edges("test"))
    facts = list(
        zip(graph.entities.names(heads), graph.relations.names(relation), graph.entities.names(tails), strict=True)
    )
    for name, change in (("add_1000_s", add_facts), ("remove_1000_s", remove_facts)):
        began = time.perf_counter()
        change(path, facts)
        report[name] = round(time.perf_counter() - began, 2)
    print(json.dumps(report))
    if arguments.work is None:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
