"""Speed of the exact engine: per shape on the shared truth tables, beside DuckDB, against k and against graph size.

    python benchmarks/exact.py shapes fb15k-237 nell995 fb15k          # 14 shapes, mean and p99
    python benchmarks/exact.py shapes fb15k-237 --duckdb               # the same queries as SQL, interleaved
    python benchmarks/exact.py growth                                  # cost against k and against |E|

Truth tables are read from $TUPLET_DATA/../truth, graphs (to ground queries) from $TUPLET_DATA.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from shootout_engines import DuckDB, Edges, clauses_of

from tuplet.engines import exact
from tuplet.query.ranking import Edge, QueryGraph
from tuplet.truth.edges import HIGHEST_PREDICTION
from tuplet.truth.table import TruthTable

Atom = tuple[str, str, bool]

SHAPES: dict[str, tuple[str, ...]] = {
    "2fp": ("s f1", "f1 f2"),
    "2fpm": ("s f1", "f1 f2", "f1 f2"),
    "2fpn": ("s f1", "f1 f2", "!f1 f2"),
    "2fd": ("s e", "e f1", "e f2"),
    "2fdm": ("s e", "e f1", "e f1", "e f2"),
    "2fc": ("s e", "e f1", "e f2", "f1 f2"),
    "2fcn": ("s e", "e f2", "!e f1", "f1 f2"),
    "3fp": ("s f1", "f1 f2", "f2 f3"),
    "3fpm": ("s f1", "f1 f2", "f2 f3", "f2 f3"),
    "3fpn": ("s f1", "f1 f2", "f2 f3", "!f2 f3"),
    "3fd": ("s e", "e f1", "e f2", "e f3"),
    "3fdm": ("s e", "e f1", "e f1", "e f2", "e f3"),
    "3fc": ("s f1", "f1 f2", "f2 f3", "f1 f3"),
    "3fcn": ("s f1", "f1 f3", "f2 f3", "!f1 f2"),
}
TREES = tuple(name for name in SHAPES if name[2] in "pd")
# SQL materialises the whole star of three spokes: out of reach in memory
NOT_IN_SQL = ("3fd", "3fdm")


def atoms_of(shape: tuple[str, ...]) -> list[Atom]:
    """Atoms as (head, tail, negated)."""
    return [(*text.removeprefix("!").split(), text.startswith("!")) for text in shape]  # type: ignore[misc]


class Sampler:
    """Grounds shapes by random walks on real edges, so that every positive atom has at least one witness."""

    def __init__(self, triples: np.ndarray, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.triples = triples
        self.out: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.into: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.joining: dict[tuple[int, int], set[int]] = defaultdict(set)
        for h, r, t in triples.tolist():
            self.out[h].append((r, t))
            self.into[t].append((r, h))
            self.joining[h, t].add(r)

    def sample(self, shape: tuple[str, ...]) -> QueryGraph:
        while True:
            query = self._try(atoms_of(shape))
            if query is not None:
                return query

    def _pick(self, options: list) -> object:  # type: ignore[type-arg]
        return options[int(self.rng.integers(len(options)))]

    def _try(self, atoms: list[Atom]) -> QueryGraph | None:
        at: dict[str, int] = {}
        chosen: list[tuple[str, int, str, bool]] = []
        for head, tail, negated in sorted(atoms, key=lambda a: a[2]):
            if head in at and tail in at:
                known = self.joining[at[head], at[tail]]
                if negated:
                    options = sorted({r for r, _ in self.out[at[head]]} - known)
                else:
                    options = sorted(known - {r for h, r, t, _ in chosen if (h, t) == (head, tail)})
                if not options:
                    return None
                relation = self._pick(options)
            elif head in at or tail in at:
                here, there, rows = (head, tail, self.out) if head in at else (tail, head, self.into)
                if not rows[at[here]]:
                    return None
                relation, at[there] = self._pick(rows[at[here]])  # type: ignore[misc]
            else:
                at[head], relation, at[tail] = self._pick(self.triples).tolist()  # type: ignore[attr-defined,arg-type]
            chosen.append((head, int(relation), tail, negated))  # type: ignore[call-overload]
        names = sorted({x for a in atoms for x in a[:2] if x[0] == "f"}) + ["e"] * any("e" in a[:2] for a in atoms)
        number = {v: i for i, v in enumerate(names)}
        edges = [Edge(number.get(h, ~at[h]), r, number.get(t, ~at[t]), negated) for h, r, t, negated in chosen]
        return QueryGraph(tuple(names), tuple(i for i, v in enumerate(names) if v != "e"), tuple(edges))


def read_table(name: str, data: Path) -> tuple[TruthTable, np.ndarray]:
    """The shared truth table (observed = train and valid), and all edges of the graph as ids."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    columns = pq.read_table(data.parent / "truth" / f"{name}.parquet")
    rows = []
    for split in ("train", "valid", "test"):
        with gzip.open(data / name / f"{split}.tsv.gz", "rt", encoding="utf-8") as lines:
            rows += [line.rstrip("\n").split("\t")[:3] for line in lines]
    graph = [pa.array([row[i] for row in rows]) for i in range(3)]

    def names(*parts: pa.Array) -> pa.Array:
        return pc.unique(pa.chunked_array([pc.unique(p.cast(pa.string())) for p in parts]).combine_chunks()).sort()

    plain = {c: columns[c].combine_chunks().cast(pa.string()) for c in ("head", "relation", "tail")}
    entities = names(plain["head"], plain["tail"], graph[0], graph[2])
    relations = names(plain["relation"], graph[1])

    def ids(values: pa.Array, among: pa.Array) -> np.ndarray:
        return pc.index_in(values, among).to_numpy(zero_copy_only=False).astype(np.int32)

    truth = columns["truth"].to_numpy().astype(np.float32)
    observed = columns["source"].to_numpy() > 0
    truth = np.where(observed, 1, np.minimum(truth, HIGHEST_PREDICTION)).astype(np.float32)
    keep = truth > 0
    table = TruthTable.build(
        len(entities),
        len(relations),
        ids(plain["head"], entities)[keep],
        ids(plain["relation"], relations)[keep],
        ids(plain["tail"], entities)[keep],
        truth[keep],
        observed[keep],
        0.005,
    )
    triples = np.stack([ids(graph[0], entities), ids(graph[1], relations), ids(graph[2], entities)], axis=1)
    return table, triples


CLOCKS = {"wall": time.perf_counter, "cpu": time.thread_time}


def ask(query: QueryGraph, table: TruthTable, k: int, clock: str = "wall") -> tuple[float, np.ndarray]:
    """Milliseconds and truth list of one query, planning included."""
    now = CLOCKS[clock]
    start = now()
    ranking = exact.run(exact.plan([query], table), k)
    took = 1e3 * (now() - start)
    if not ranking.exact:
        raise SystemExit(f"not exact: {query}")
    return took, ranking.truth


def ask_duck(duck: DuckDB, query: QueryGraph, k: int) -> tuple[float, np.ndarray]:
    """The same of DuckDB."""
    clauses = clauses_of([query])
    start = time.perf_counter()
    rows = duck.ask(clauses, k, None)
    return 1e3 * (time.perf_counter() - start), np.array([truth for _, truth in rows])


def shapes(options: argparse.Namespace) -> None:
    data = Path(options.data)
    for name in options.graphs:
        table, triples = read_table(name, data)
        sampler = Sampler(triples, options.seed)
        duck = DuckDB(Edges.of(table), 16 << 30, threads=2) if options.duckdb else None
        print(
            f"\n### {name}: {table.entities:,} entities, {table.edges:,} edges, "
            f"K = {options.k}, {options.queries} queries a shape, {options.clock} clock\n"
        )
        head = "| shape | mean ms | median ms | p99 ms | max ms |" + (
            " alternating: ms | DuckDB ms | times faster | same lists |" if duck else ""
        )
        print(head + "\n|" + "---|" * (head.count("|") - 1))
        means, p99s, ratios = {}, {}, []
        everything = []
        for shape, atoms in SHAPES.items():
            if options.only and shape not in options.only:
                continue
            queries = [sampler.sample(atoms) for _ in range(options.queries)]
            for query in queries[:3]:
                ask(query, table, options.k)
            times, other, mine, same = [], [], [], 0
            sql = duck is not None and shape not in NOT_IN_SQL
            lists = []
            for query in queries:
                took, truth = ask(query, table, options.k, options.clock)
                times.append(took)
                lists.append(truth)
            if sql:
                assert duck is not None
                # alternating after a few queries, the better of two each: other work on the machine disturbs both alike
                compared = queries[: options.sql_queries]
                for low in range(0, len(compared), 10):
                    block = compared[low : low + 10]
                    slow = [ask_duck(duck, query, options.k) for query in block]
                    first = [ask(query, table, options.k)[0] for query in block]
                    again = [ask(query, table, options.k)[0] for query in block]
                    slow_again = [ask_duck(duck, query, options.k)[0] for query in block]
                    mine += np.minimum(first, again).tolist()
                    other += np.minimum([took for took, _ in slow], slow_again).tolist()
                    for truth, (_, expected) in zip(lists[low : low + len(block)], slow, strict=True):
                        same += len(truth) == len(expected) and bool(np.allclose(truth, expected, rtol=1e-9))
            means[shape] = float(np.mean(times))
            p99s[shape] = float(np.percentile(times, 99))
            everything += times
            line = f"| {shape} | {means[shape]:.3f} | {np.median(times):.3f} | {p99s[shape]:.2f} | {max(times):.2f} |"
            if sql:
                ratio = float(np.sum(other)) / float(np.sum(mine))
                ratios.append(ratio)
                line += f" {np.mean(mine):.3f} | {np.mean(other):.1f} | {ratio:.0f} | {same} of {len(other)} |"
            elif duck:
                line += " – | – | – | – |"
            print(line, flush=True)
        trees = [means[s] for s in means if s in TREES]
        print(
            f"\nmean over {len(means)} shapes {np.mean(list(means.values())):.3f} ms; "
            f"tree shapes {np.mean(trees):.3f} ms; "
            f"p99 over all {np.percentile(everything, 99):.2f} ms, worst shape p99 {max(p99s.values()):.2f} ms"
            + (
                f"; DuckDB: {np.exp(np.mean(np.log(ratios))):.0f} times slower (geometric mean),"
                f" least {min(ratios):.0f}"
                if ratios
                else ""
            )
        )
    print(f"\npeak memory of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def synthetic(entities: int, degree: int, relations: int, seed: int) -> tuple[TruthTable, np.ndarray]:
    """A random graph with `degree` observed and as many predicted edges per entity."""
    rng = np.random.default_rng(seed)
    n = 2 * entities * degree
    code = np.unique(
        (rng.integers(0, relations, n, dtype=np.int64) * entities + rng.integers(0, entities, n)) * entities
        + rng.integers(0, entities, n)
    )
    tails, rest = code % entities, code // entities
    heads, relation = rest % entities, rest // entities
    observed = rng.random(len(code)) < 0.5
    truth = np.where(observed, 1, np.minimum(rng.beta(0.5, 4, len(code)) + 0.005, 0.9999)).astype(np.float32)
    table = TruthTable.build(entities, relations, heads, relation, tails, truth, observed, 0.005)
    some = rng.choice(len(code), min(len(code), 300_000), replace=False)
    return table, np.stack([heads, relation, tails], axis=1)[some]


def growth(options: argparse.Namespace) -> None:
    data = Path(options.data)
    print(
        "\n### Cost against k (fb15k-237)\n\n"
        "| k | chain mean ms | chain p99 | star mean ms | star p99 |\n|---|---|---|---|---|"
    )
    table, triples = read_table("fb15k-237", data)
    sampler = Sampler(triples, options.seed)
    for k in range(2, 7):
        chain = ("s f1", *(f"f{i} f{i + 1}" for i in range(1, k)))
        star = ("s e", *(f"e f{i}" for i in range(1, k + 1)))
        cells = []
        for shape in (chain, star):
            queries = [sampler.sample(shape) for _ in range(options.queries)]
            ask(queries[0], table, options.k)
            times = [ask(q, table, options.k, options.clock)[0] for q in queries]
            cells += [f"{np.mean(times):.3f}", f"{np.percentile(times, 99):.2f}"]
        print(f"| {k} | {' | '.join(cells)} |", flush=True)
    print("\n### Cost against graph size (synthetic, 5 observed and 5 predicted edges per entity, 2 relations)\n")
    print("| entities | edges | 2fp ms | 3fp ms | 2fd ms | 2fc ms | 3fc ms |\n|---|---|---|---|---|---|---|")
    for entities in options.sizes:
        table, triples = synthetic(entities, 5, 2, options.seed)
        sampler = Sampler(triples, options.seed)
        cells = []
        for shape in ("2fp", "3fp", "2fd", "2fc", "3fc"):
            atoms = SHAPES[shape]
            queries = [_open_ended(sampler, atoms, shape) for _ in range(options.queries)]
            ask(queries[0], table, options.k)
            cells.append(f"{np.mean([ask(q, table, options.k, options.clock)[0] for q in queries]):.3f}")
        print(f"| {entities:,} | {table.edges:,} | {' | '.join(cells)} |", flush=True)


def _open_ended(sampler: Sampler, atoms: tuple[str, ...], shape: str) -> QueryGraph:
    """A grounded query; random graphs have hardly a triangle, so there the closing relation is taken at random."""
    if shape[2] != "c":
        return sampler.sample(atoms)
    query = sampler.sample(atoms[:-1])
    ends = {"2fc": (0, 1), "3fc": (0, 2)}[shape]
    relation = int(sampler.rng.integers(sampler.triples[:, 1].max() + 1))
    return QueryGraph(query.variables, query.free, (*query.edges, Edge(ends[0], relation, ends[1])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("TUPLET_DATA"), help="benchmark graphs (default $TUPLET_DATA)")
    parser.add_argument("-k", type=int, default=100, help="tuples asked for")
    parser.add_argument("--queries", type=int, default=200, help="queries per shape")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: time of this thread, for busy machines")
    commands = parser.add_subparsers(dest="command", required=True)
    by_shape = commands.add_parser("shapes", help="mean and p99 per shape")
    by_shape.add_argument("graphs", nargs="+", help="fb15k-237, nell995, fb15k")
    by_shape.add_argument("--duckdb", action="store_true", help="answer the same queries with DuckDB, interleaved")
    by_shape.add_argument("--sql-queries", type=int, default=200, help="at most so many of them per shape")
    by_shape.add_argument("--only", nargs="*", help="only these shapes")
    by_size = commands.add_parser("growth", help="cost against k and graph size")
    by_size.add_argument("--sizes", type=int, nargs="*", default=[15_000, 60_000, 250_000, 1_000_000, 2_000_000])
    options = parser.parse_args()
    if not options.data:
        sys.exit("set TUPLET_DATA or give --data")
    exact.warm()
    {"shapes": shapes, "growth": growth}[options.command](options)


if __name__ == "__main__":
    main()
