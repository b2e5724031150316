"""How long an engine needs for a file of benchmark queries, metrics included.

python benchmarks/evaluation.py --store STORE --queries QUERIES.parquet --engine exact --workers 2
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from tuplet.lab.bench.queries import QuerySet, read_any
from tuplet.lab.bench.report import Result
from tuplet.lab.bench.results import RunSettings
from tuplet.lab.bench.run import default_workers, run
from tuplet.progress import Progress


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True, help="made by benchmarks/sampling.py -o")
    parser.add_argument("--engine", default="exact")
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--per-shape", type=int, help="only the first so many queries of each shape")
    arguments = parser.parse_args()
    queries = read_any(arguments.queries)
    if arguments.per_shape:
        kept = (q for members in queries.by_shape().values() for q in members[: arguments.per_shape])
        queries = QuerySet(tuple(kept), queries.meta)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with Progress() as progress:
            settings = RunSettings(arguments.engine)
            run(
                arguments.store,
                queries,
                folder,
                settings,
                workers=arguments.workers,
                progress=progress.counting("running"),
            )
        seconds = time.perf_counter() - start
        result = Result.read(folder)
    print(
        json.dumps(
            {
                "engine": arguments.engine,
                "queries": len(queries),
                "workers": arguments.workers,
                "seconds": round(seconds, 1),
                "joint_hit10": {s: round(100 * e.mean, 1) for s, e in result.estimates["hit10"].items()},
                **{name: round(value, 3) for name, value in result.quality.items()},
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
