"""NS3 against its budget: time, filtered joint HIT@10, recall of the box and certificates on the 14 joint shapes.

    python benchmarks/ns3.py prepare --data FOLDER/fb15k-237 --truth FOLDER/../truth/fb15k-237.parquet -o DIR
    python benchmarks/ns3.py sweep DIR [--budgets 1000,2000,4000,6000,8000] [--device cuda] [-o results.json]
    python benchmarks/ns3.py exact DIR [--queries 100] [-o results.json]

`prepare` writes DIR/edges.npz (the truth file with train and valid observed: `head`, `tail`, `truth`, `observed` of
the edges in order of relation, head and tail, `count` of edges per relation, `entities`) and DIR/SHAPE.json (queries
sampled by `tuplet.lab.bench.sampling`, as EFOk-CQA writes them). `sweep` needs torch and numpy alone, so that it runs
on a bare GPU machine; it prints a Markdown table and writes JSON; with --table it reads a table directory instead of
edges.npz. `exact` runs the exact engine on the same queries, on all cores of the CPU.

HIT@10: a hard tuple competes with the tuples of the box that are no answers; ties count by expectation; a hard tuple
that is not in the box, or has truth 0 there, is missed. Averages go over hard tuples, then queries. Recall is the share
of hard tuples that are in the box, certified the share of queries whose ten best are proven to be the true ten best.
Times include everything from query graphs to the sorted box, not loading the table.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tuplet.engines.ns3.algorithm import BoxBudget
from tuplet.engines.ns3.run import run_many
from tuplet.engines.ns3.search import FuzzySearch
from tuplet.engines.ns3.tensors import TensorTable
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.arrays import open_directory
from tuplet.lab.bench.metrics import joint_ranks
from tuplet.lab.bench.queries import BenchQuery, read_efok
from tuplet.lab.bench.run import share
from tuplet.query.logic import PRODUCT
from tuplet.query.ranking import Ranking

TEN = 10
SHAPES = tuple(f"{k}f{kind}" for k in (2, 3) for kind in ("pn", "p", "pm", "d", "dm", "cn", "c"))


def edges_of(folder: Path) -> tuple[int, int, list[np.ndarray]]:
    """Entities, relations, and the columns head, relation, tail, truth, observed of edges.npz."""
    with np.load(folder / "edges.npz") as arrays:
        count = arrays["count"]
        relation = np.repeat(np.arange(len(count), dtype=np.int32), count)
        columns = [arrays["head"].astype(np.int32), relation, arrays["tail"].astype(np.int32)]
        return int(arrays["entities"]), len(count), [*columns, arrays["truth"], arrays["observed"]]


def load_table(folder: Path, directory: Path | None, device: str) -> TensorTable:
    """The truth values on a device."""
    if directory is not None:
        opened = open_directory(directory, "table")
        entities, truth = int(opened.meta["entities"]), opened.arrays["truth"]
        adjacency = Adjacency(*(opened.arrays[name] for name in ("view_ptr", "row_entity", "row_ptr", "neighbour")))
    else:
        entities, relations, (heads, relation, tails, values, _) = edges_of(folder)
        adjacency, edge = Adjacency.build(heads, relation, tails, relations)
        truth = values[edge]
    table: Any = SimpleNamespace(entities=entities, adjacency=adjacency, truth=truth)
    return TensorTable.from_table(table, None, device)


def judge(rankings: Sequence[Ranking], queries: Sequence[BenchQuery]) -> dict[str, float]:
    """HIT@10, recall and certificate rate of the boxes of a shape."""
    hits, recall = [], []
    for found, query in zip(rankings, queries, strict=True):
        ranks = joint_ranks(found.tuples, found.truth, query.easy, query.hard, complete=True)
        hits.append(ranks.values()["hit10"])
        recall.append(share(found.tuples, query.hard))
    means = {"hit10": hits, "recall": recall, "certified": [found.exact for found in rankings]}
    return {name: 100 * float(np.mean(values)) for name, values in means.items()}


def read_queries(folder: Path, shapes: str, most: int | None) -> dict[str, list[BenchQuery]]:
    """The first queries of each shape that `prepare` sampled, in the order in which the shapes are listed."""
    files = [folder / f"{name}.json" for name in shapes.split(",")]
    return {file.stem: list(read_efok(file, file.stem))[:most] for file in files if file.exists()}


# --- commands --------------------------------------------------------------------------------------------------------


def prepare(arguments: argparse.Namespace) -> None:
    from tuplet.lab.bench.queries import write_efok
    from tuplet.lab.bench.sampling import sample
    from tuplet.read.read import read
    from tuplet.truth.parquet import GivenTable

    graph = read(arguments.data)
    table = GivenTable.read(arguments.truth, graph).table()
    arguments.output.mkdir(parents=True, exist_ok=True)
    heads, relation, tails, entry = table.adjacency.triples()
    small = np.uint16 if table.entities <= 2**16 else np.int32
    np.savez_compressed(
        arguments.output / "edges.npz",
        entities=table.entities,
        count=np.bincount(relation, minlength=table.relations),
        head=heads.astype(small),
        tail=tails.astype(small),
        truth=table.truth[entry],
        observed=table.observed[entry],
    )
    shapes = arguments.shapes.split(",")
    queries = sample(graph, shapes, arguments.per_shape, arguments.seed, workers=arguments.workers)
    for path, shape in zip(write_efok(queries, arguments.output, force=True), queries.by_shape(), strict=True):
        path.rename(arguments.output / f"{shape}.json")
    print(json.dumps({"edges": table.edges, "queries": len(queries), "shortage": queries.meta["shortage"]}))


def sweep(arguments: argparse.Namespace) -> None:
    start = time.perf_counter()
    table = load_table(arguments.folder, arguments.table, arguments.device)
    synchronise(arguments.device)
    loaded = time.perf_counter() - start
    queries = read_queries(arguments.folder, arguments.shapes, arguments.queries)
    shapes = list(queries)
    results: dict[str, Any] = {
        "graph": arguments.folder.name,
        "device": torch.cuda.get_device_name() if arguments.device.startswith("cuda") else platform.machine(),
        "merge": arguments.merge,
        "load_s": round(loaded, 2),
        "queries": {shape: len(queries[shape]) for shape in shapes},
        "budgets": {},
    }
    search = FuzzySearch(table, PRODUCT)
    asked = {shape: [query.clauses() for query in queries[shape]] for shape in shapes}
    run_many(asked[shapes[0]][:4], search, TEN, BoxBudget(B=100), explain=False)  # the first call loads libraries
    for size in arguments.budgets.split(","):
        budget = BoxBudget.all(arguments.merge) if size == "all" else BoxBudget(B=int(size), merge=arguments.merge)
        rows = {}
        for shape in shapes:
            synchronise(arguments.device)
            start = time.perf_counter()
            boxes = run_many(asked[shape], search, TEN, budget, explain=False, first=TEN)
            synchronise(arguments.device)
            seconds = time.perf_counter() - start
            rows[shape] = {"seconds": round(seconds, 3)} | {
                name: round(value, 2) for name, value in judge(boxes, queries[shape]).items()
            }
            print(f"B={size} {shape} {rows[shape]}", file=sys.stderr, flush=True)
        results["budgets"][size] = rows
    if arguments.device.startswith("cuda"):
        results["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    finish(results, shapes, arguments.output)


_search: Callable[[int], None]  # what forked workers call


def _answer(number: int) -> None:
    _search(number)


def exact(arguments: argparse.Namespace) -> None:
    """The exact engine on the same queries: ten best tuples on all cores (timed), and HIT@10 (not timed)."""
    global _search
    from tuplet.engines import exact
    from tuplet.truth.table import TruthTable

    entities, relations, columns = edges_of(arguments.folder)
    table = TruthTable.build(entities, relations, *columns)
    queries = read_queries(arguments.folder, arguments.shapes, arguments.queries)
    shapes = list(queries)
    rows = {}
    for shape in shapes:
        asked = [query.clauses() for query in queries[shape]]

        def search(number: int, asked: list[Any] = asked) -> None:
            exact.run(exact.plan(asked[number], table), TEN)

        _search = search
        search(0)  # compiled kernels are loaded
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as pool:
            start = time.perf_counter()
            list(pool.map(_answer, range(len(asked)), chunksize=25))
            seconds = time.perf_counter() - start
        hits = []
        for query, clauses in zip(queries[shape], asked, strict=True):
            most = 2 * (TEN + len(query.easy) + len(query.hard))
            ranking = exact.run(exact.plan(clauses, table), most)
            truth = exact.score(clauses, table, query.hard)
            complete = ranking.exact and len(ranking.tuples) < most
            found = joint_ranks(ranking.tuples, ranking.truth, query.easy, query.hard, truth, complete)
            hits.append(found.values()["hit10"])
        rows[shape] = {"seconds": round(seconds, 3), "hit10": round(100 * float(np.mean(hits)), 2)}
        print(f"exact {shape} {rows[shape]}", file=sys.stderr, flush=True)
    finish({"graph": arguments.folder.name, "engine": "exact", "budgets": {"exact": rows}}, shapes, arguments.output)


def synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def finish(results: dict[str, Any], shapes: Sequence[str], output: Path | None) -> None:
    """Print a Markdown table per quantity and write the JSON."""
    for name in ("hit10", "recall", "certified", "seconds"):
        if not any(name in row for rows in results["budgets"].values() for row in rows.values()):
            continue
        total = "sum" if name == "seconds" else "mean"
        print(f"\n{name}\n\n| B | {' | '.join(shapes)} | {total} |\n|---|{'---|' * (len(shapes) + 1)}")
        for size, rows in results["budgets"].items():
            values = [rows[shape][name] for shape in shapes]
            last = sum(values) / (1 if name == "seconds" else len(values))
            digits = 2 if name == "seconds" else 1
            print(f"| {size} | {' | '.join(f'{v:.{digits}f}' for v in values)} | {last:.{digits}f} |")
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(results, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("prepare", help="table and queries from a truth file and a dataset")
    one.add_argument("--data", type=Path, required=True, help="a dataset folder")
    one.add_argument("--truth", type=Path, required=True, help="a truth table as Parquet")
    one.add_argument("--per-shape", type=int, default=500)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--workers", type=int, default=1)
    one.add_argument("--shapes", default=",".join(SHAPES))
    one.add_argument("-o", "--output", type=Path, required=True)
    one.set_defaults(command=prepare)
    for name, command in (("sweep", sweep), ("exact", exact)):
        some = commands.add_parser(name, help=(command.__doc__ or "time and quality against the budget"))
        some.add_argument("folder", type=Path)
        some.add_argument("--queries", type=int, help="at most so many per shape")
        some.add_argument("--shapes", default=",".join(SHAPES))
        some.add_argument("-o", "--output", type=Path)
        some.set_defaults(command=command)
        if name == "sweep":
            some.add_argument("--budgets", default="1000,2000,4000,6000,8000")
            some.add_argument("--table", type=Path, help="a table directory instead of edges.npz")
            some.add_argument("--merge", default="progressive", choices=("progressive", "simultaneous", "adaptive"))
            some.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    arguments.command(arguments)


if __name__ == "__main__":
    main()
