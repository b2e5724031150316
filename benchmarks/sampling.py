"""How long sampling takes: N queries of each of the 14 joint shapes, answers included.

python benchmarks/sampling.py --data FOLDER/fb15k-237 --per-shape 500 --workers 2
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path

from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.bench.queries import write
from tuplet.lab.bench.run import default_workers
from tuplet.lab.bench.sampling import sample
from tuplet.lab.bench.shapes import JOINT
from tuplet.progress import Progress
from tuplet.read.read import read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a dataset folder, or a graph directory")
    parser.add_argument("--shapes", default=",".join(JOINT), help="names, separated by commas")
    parser.add_argument("--per-shape", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("-o", "--output", type=Path, help="also write the queries here")
    arguments = parser.parse_args()
    folder = arguments.data
    graph = KnowledgeGraph.open(folder) if (folder / "manifest.json").exists() else read(folder)
    start = time.perf_counter()
    with Progress() as progress:
        queries = sample(
            graph,
            arguments.shapes.split(","),
            arguments.per_shape,
            arguments.seed,
            workers=arguments.workers,
            progress=progress.counting("sampling"),
        )
    seconds = time.perf_counter() - start
    if arguments.output:
        write(queries, arguments.output, graph, force=True)
    shapes = queries.by_shape()
    print(
        json.dumps(
            {
                "graph": folder.name,
                "queries": len(queries),
                "workers": arguments.workers,
                "seconds": round(seconds, 1),
                "ms_per_query": round(1e3 * seconds / max(1, len(queries)), 2),
                "mean_easy": {s: round(sum(len(q.easy) for q in qs) / len(qs), 1) for s, qs in shapes.items()},
                "mean_hard": {s: round(sum(len(q.hard) for q in qs) / len(qs), 1) for s, qs in shapes.items()},
                "not_meaningful": dict(Counter(q.shape for q in queries if not q.meaningful)),
                "shortage": queries.meta["shortage"],
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
