"""NS3 against its budget: time, filtered joint HIT@10, recall of the box and certificates on the 14 joint shapes.

    python benchmarks/ns3.py prepare --data FOLDER/fb15k-237 --truth FOLDER/../truth/fb15k-237.parquet -o DIR
    python benchmarks/ns3.py sweep DIR [--budgets 1000,2000,4000,6000,8000] [--device cuda] [-o results.json]
    python benchmarks/ns3.py exact DIR [--queries 100] [-o results.json]

`prepare` writes DIR/edges.npz (the truth file with train and valid observed: `head`, `tail`, `truth`, `observed` of
the edges in order of relation, head and tail, `count` of edges per relation, `entities`) and DIR/queries.npz (queries
sampled by `tuplet.bench.sampling`; layout in docs/benchmark.md). `sweep` needs torch and numpy alone, so that it runs
on a bare GPU machine; it prints a Markdown table and writes JSON; with --table it reads a table directory instead of
edges.npz. `exact` runs the exact engine on the same queries, on all cores of the CPU.

HIT@10: a hard tuple competes with the tuples of the box that are no answers; ties count by expectation; a hard tuple
that is not in the box, or has truth 0 there, is missed. Averages go over hard tuples, then queries. Recall is the share
of hard tuples that are in the box, certified the share of queries whose ten best are proven to be the true ten best,
certified_deep the share whose 10 + |answers| best are, so that their HIT@10 is that of the exact ranking.
Times include everything from query graphs to the sorted box, not loading the table.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tuplet.bench.formats import read_npz
from tuplet.engines.ns3.box import Box
from tuplet.engines.ns3.budget import Budget
from tuplet.engines.ns3.run import _places, solve_batch
from tuplet.engines.ns3.sparse import Table, find
from tuplet.files import open_directory
from tuplet.graph.adjacency import Adjacency
from tuplet.query.query_graph import QueryGraph

Tensor = torch.Tensor
SHAPES = tuple(f"{k}f{kind}" for k in (2, 3) for kind in ("pn", "p", "pm", "d", "dm", "cn", "c"))


class Queries(NamedTuple):
    """The queries of one shape with their answers: those of query i are rows ptr[i] to ptr[i + 1]."""

    clauses: list[tuple[QueryGraph, ...]]
    easy: np.ndarray
    easy_ptr: np.ndarray
    hard: np.ndarray
    hard_ptr: np.ndarray


def read_queries(path: Path, most: int | None) -> dict[str, Queries]:
    """The queries of each shape in a file as `tuplet.bench.formats.write_npz` makes it."""
    found = {}
    for shape, members in read_npz(path, most).by_shape().items():
        parts = [[getattr(query, kind) for query in members] for kind in ("easy", "hard")]
        easy, hard = (np.concatenate(part) for part in parts)
        easy_ptr, hard_ptr = (np.cumsum([0, *map(len, part)]) for part in parts)
        found[shape] = Queries([query.clauses() for query in members], easy, easy_ptr, hard, hard_ptr)
    return found


def edges_of(folder: Path) -> tuple[int, int, list[np.ndarray]]:
    """Entities, relations, and the columns head, relation, tail, truth, observed of edges.npz."""
    with np.load(folder / "edges.npz") as arrays:
        count = arrays["count"]
        relation = np.repeat(np.arange(len(count), dtype=np.int32), count)
        columns = [arrays["head"].astype(np.int32), relation, arrays["tail"].astype(np.int32)]
        return int(arrays["entities"]), len(count), [*columns, arrays["truth"], arrays["observed"]]


def load_table(folder: Path, directory: Path | None, device: str, dtype: torch.dtype) -> Table:
    """The truth values on a device."""
    if directory is not None:
        opened = open_directory(directory, "table")
        entities, truth = int(opened.meta["entities"]), opened.arrays["truth"]
        adjacency = Adjacency(*(opened.arrays[name] for name in ("view_ptr", "row_entity", "row_ptr", "neighbour")))
    else:
        entities, relations, (heads, relation, tails, values, _) = edges_of(folder)
        adjacency, edge = Adjacency.build(heads, relation, tails, relations)
        truth = values[edge]
    return Table.of_arrays(entities, adjacency, truth, np.arange(adjacency.relations), device, dtype)


# --- metrics on the device -----------------------------------------------------------------------------------------


def keys_of(query: Tensor, columns: Sequence[Tensor], entities: int) -> Tensor:
    key = query
    for column in columns:
        key = key * entities + column
    return key


def answers_of(tuples: np.ndarray, ptr: np.ndarray, device: torch.device) -> tuple[Tensor, list[Tensor]]:
    query = torch.as_tensor(np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)), device=device)
    return query, [torch.as_tensor(column.astype(np.int64), device=device) for column in tuples.T]


def judge(box: Box, queries: Queries, entities: int, n: int = 10) -> dict[str, float]:
    """HIT@n, recall and certificate rate of the boxes of a shape."""
    device, count = box.value.device, len(queries.clauses)
    if count * entities ** len(box.rows.columns) >= 2**63:
        raise SystemExit("the tuples of all queries do not fit 63-bit keys; use fewer queries at once")
    easy, hard = (
        keys_of(*answers_of(*answers, device), entities)
        for answers in ((queries.easy, queries.easy_ptr), (queries.hard, queries.hard_ptr))
    )
    query = answers_of(queries.hard, queries.hard_ptr, device)[0]
    easy_query = answers_of(queries.easy, queries.easy_ptr, device)[0]
    key, order = torch.sort(keys_of(box.rows.query, box.rows.columns, entities))
    at, inside = find(key, hard)
    at = order[at] if len(order) else at
    value = torch.where(inside, box.value[at], 0) if len(order) else torch.zeros(len(hard), device=device)
    answer = find(torch.sort(torch.cat([easy, hard]))[0], keys_of(box.rows.query, box.rows.columns, entities))[1]
    rivals = (~answer & (box.value > 0)).nonzero().view(-1)
    greater, ties = rivals_of(box.rows.query[rivals], box.value[rivals], query, value)
    hits = torch.where(value > 0, ((n - greater) / (ties + 1)).clamp(0, 1), 0)
    sizes = torch.bincount(query, minlength=count).double()
    mean = [
        torch.zeros(count, dtype=torch.float64, device=device).index_add_(0, query, x.double()) / sizes
        for x in (hits, inside)
    ]
    best = box.order()
    place = _places(box.rows.query[best], count)
    certified = []
    for most in (torch.full_like(sizes, n), n + torch.bincount(torch.cat([query, easy_query]), minlength=count)):
        shown = torch.zeros(len(box.rows), dtype=torch.bool, device=device)
        shown[best[place < most[box.rows.query[best]]]] = True
        certified.append(100 * float(box.certify(shown, most)[0].double().mean()))
    return {
        "hit10": 100 * float(mean[0].mean()),
        "recall": 100 * float(mean[1].mean()),
        "certified": certified[0],
        "certified_deep": certified[1],
    }


def rivals_of(query: Tensor, value: Tensor, wanted: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """How many values of its query are greater than each wanted truth, and how many equal it up to rounding."""
    slack = 1e-9 if value.dtype == torch.float64 else 1e-5
    low, high = truth * (1 - slack), truth * (1 + slack)
    ladder = torch.unique(torch.cat([value, low, high]))
    size = len(ladder) + 1
    ranked = torch.sort(query * size + torch.searchsorted(ladder, value))[0]
    end = torch.searchsorted(ranked, (wanted + 1) * size)
    above = end - torch.searchsorted(ranked, wanted * size + torch.searchsorted(ladder, high), right=True)
    not_below = end - torch.searchsorted(ranked, wanted * size + torch.searchsorted(ladder, low))
    return above.double(), (not_below - above).double()


# --- commands --------------------------------------------------------------------------------------------------------


def prepare(arguments: argparse.Namespace) -> None:
    from tuplet.bench.formats import write_npz
    from tuplet.bench.sampling import sample
    from tuplet.graph.readers.read import read
    from tuplet.truth.parquet import read_table

    graph = read(arguments.data)
    table = read_table(arguments.truth, graph)
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
    write_npz(queries, arguments.output / "queries.npz", force=True)
    print(json.dumps({"edges": table.edges, "queries": len(queries), "shortage": queries.meta["shortage"]}))


def sweep(arguments: argparse.Namespace) -> None:
    dtype = {"float64": torch.float64, "float32": torch.float32}[arguments.dtype]
    start = time.perf_counter()
    table = load_table(arguments.folder, arguments.table, arguments.device, dtype)
    synchronise(arguments.device)
    loaded = time.perf_counter() - start
    queries = read_queries(arguments.folder / "queries.npz", arguments.queries)
    shapes = [name for name in arguments.shapes.split(",") if name in queries]
    results: dict[str, Any] = {
        "graph": arguments.folder.name,
        "device": torch.cuda.get_device_name() if arguments.device.startswith("cuda") else platform.machine(),
        "dtype": arguments.dtype,
        "merge": arguments.merge,
        "load_s": round(loaded, 2),
        "queries": {shape: len(queries[shape].clauses) for shape in shapes},
        "budgets": {},
    }
    solve_batch(queries[shapes[0]].clauses[:4], table, 10, Budget(B=100))  # the first call loads libraries
    for size in arguments.budgets.split(","):
        budget = Budget.all(arguments.merge) if size == "all" else Budget(B=int(size), merge=arguments.merge)
        rows = {}
        for shape in shapes:
            synchronise(arguments.device)
            start = time.perf_counter()
            box = solve_batch(queries[shape].clauses, table, 10, budget)
            box.order()
            synchronise(arguments.device)
            seconds = time.perf_counter() - start
            rows[shape] = {"seconds": round(seconds, 3)} | {
                name: round(value, 2) for name, value in judge(box, queries[shape], table.entities).items()
            }
            print(f"B={size} {shape} {rows[shape]}", file=sys.stderr, flush=True)
            del box
        results["budgets"][size] = rows
    if arguments.device.startswith("cuda"):
        results["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    finish(results, shapes, arguments.output)


def exact(arguments: argparse.Namespace) -> None:
    """The exact engine on the same queries: ten best tuples on all cores (timed), and HIT@10 (not timed)."""
    from tuplet.bench.metrics import joint_ranks
    from tuplet.engines import exact
    from tuplet.truth.table import TruthTable

    entities, relations, columns = edges_of(arguments.folder)
    table = TruthTable.build(entities, relations, *columns)
    queries = read_queries(arguments.folder / "queries.npz", arguments.queries)
    shapes = [name for name in arguments.shapes.split(",") if name in queries]
    rows = {}
    for shape in shapes:
        of_shape = queries[shape]
        exact.ask_many(of_shape.clauses[:4], table, 10)  # compiled kernels are loaded
        start = time.perf_counter()
        exact.ask_many(of_shape.clauses, table, 10)
        seconds = time.perf_counter() - start
        hits = []
        for i, clauses in enumerate(of_shape.clauses):
            easy = of_shape.easy[of_shape.easy_ptr[i] : of_shape.easy_ptr[i + 1]]
            hard = of_shape.hard[of_shape.hard_ptr[i] : of_shape.hard_ptr[i + 1]]
            most = 10 + len(easy) + len(hard)
            ranking = exact.run(exact.plan(clauses, table), table, 2 * most, timeout=30)
            truth = exact.score(clauses, table, hard)
            complete = ranking.exact and len(ranking.tuples) < 2 * most
            hits.append(joint_ranks(ranking.tuples, ranking.truth, easy, hard, truth, complete).values()["hit10"])
        rows[shape] = {"seconds": round(seconds, 3), "hit10": round(100 * float(np.mean(hits)), 2)}
        print(f"exact {shape} {rows[shape]}", file=sys.stderr, flush=True)
    finish({"graph": arguments.folder.name, "engine": "exact", "budgets": {"exact": rows}}, shapes, arguments.output)


def synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def finish(results: dict[str, Any], shapes: Sequence[str], output: Path | None) -> None:
    """Print a Markdown table per quantity and write the JSON."""
    for name in ("hit10", "recall", "certified", "certified_deep", "seconds"):
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
            some.add_argument("--dtype", default="float64", choices=("float64", "float32"))
    arguments = parser.parse_args()
    arguments.command(arguments)


if __name__ == "__main__":
    main()
