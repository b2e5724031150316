"""The query sets tuple-H: balanced by the number of links that must be predicted, for four graphs, with checksums.

    python benchmarks/tuple_h.py --data $TUPLET_DATA -o FOLDER            makes FOLDER/GRAPH.parquet of each graph
    python benchmarks/tuple_h.py --data $TUPLET_DATA -o FOLDER --record   and writes their checksums down

What is made is compared with benchmarks/tuple_h.json, and the exit code is 1 if a checksum differs. A set that is
there already is read and not made again. docs/benchmark/tuple-h.md is the datasheet.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tuplet.lab.bench.hardness import STRATA
from tuplet.lab.bench.queries import QuerySet, read, write
from tuplet.lab.bench.query_types import select
from tuplet.lab.bench.run import default_workers
from tuplet.lab.bench.sampling import sample
from tuplet.progress import Progress
from tuplet.read.read import read as read_graph

GRAPHS = ("fb15k-237", "nell995", "fb15k", "codex-m")
PER_STRATUM, SEED = 50, 0
RECORD = Path(__file__).with_suffix(".json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("TUPLET_DATA"), help="folder of dataset folders")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--record", action="store_true")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("set TUPLET_DATA or give --data")
    recorded: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    different = []
    for name in arguments.graphs.split(","):
        queries = made(name, arguments)
        found = {"sha256": queries.digest, **counts(queries)}
        print(json.dumps({"graph": name, **found}))
        if arguments.record:
            recorded[name] = found
            ordered = {graph: recorded[graph] for graph in GRAPHS if graph in recorded}
            RECORD.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
        elif name not in recorded:
            print(f"{name}: no checksum is written down yet; --record does", file=sys.stderr)
        elif recorded[name] != found:
            different.append(name)
    if different:
        print(f"not the sets of {RECORD.name}: {', '.join(different)}", file=sys.stderr)
    return int(bool(different))


def made(name: str, arguments: argparse.Namespace) -> QuerySet:
    """The set of a graph: read if it is there, else sampled and written."""
    path = arguments.output / f"{name}.parquet"
    if path.exists():
        return read(path)
    graph = read_graph(arguments.data / name)
    with Progress() as progress:
        queries = sample(
            graph,
            select("tuple-h"),
            PER_STRATUM,
            SEED,
            balance=True,
            workers=arguments.workers,
            progress=progress.counting(name),
        )
    write(queries, path, graph)
    return queries


def counts(queries: QuerySet) -> dict[str, Any]:
    """The answers in each stratum, and shape by shape."""
    strata = [(q.shape, int(q.strata[0])) for q in queries if q.strata is not None]
    total, cells = Counter(stratum for _, stratum in strata), Counter(strata)
    return {
        "queries": len(queries),
        "strata": [total[n] for n in range(1, STRATA + 1)],
        "shapes": {shape: [cells[shape, n] for n in range(1, STRATA + 1)] for shape in queries.by_shape()},
    }


if __name__ == "__main__":
    sys.exit(main())
