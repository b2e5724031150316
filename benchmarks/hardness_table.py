"""Results on tuple-H by stratum, as Markdown: HIT@10 and MRR by the number of links that must be predicted.

    python benchmarks/hardness_table.py exact=results/exact ns3=results/ns3 …

A row for each method, whose results may lie in several folders: `ns3=a,b`. Means go over the answers of a shape in a
stratum, then over shapes, for each number of free variables; ± is half the 95 % bootstrap interval.

    --against exact         and HIT@10 of this method less that of each other one, with the interval of the difference
    --reach STORE QUERIES   and the share of answers to which the store gives a truth above 0, HIT@10 of those alone,
                            and what the others give to HIT@10
    --types                 and MRR of each type with one free variable: the mean over its strata, and that of the
                            answers for which every link must be predicted
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from tuplet.lab.bench.hardness import STRATA, largest_stratum
from tuplet.lab.bench.metrics import bootstrap
from tuplet.lab.bench.queries import read
from tuplet.lab.bench.report import Result
from tuplet.lab.bench.results import ResultRow, RunSettings
from tuplet.lab.bench.shapes import BETAE, shape
from tuplet.query.limits import Deadline
from tuplet.store import open_store

GROUPS = {"k = 1": (1,), "k = 2, 3": (2, 3), "k = 4, 5": (4, 5)}
STRATUM = {n: f"{n}{'+' if n == STRATA else ''}" for n in range(1, STRATA + 1)}
Key: TypeAlias = tuple[str, int]  # a query: its shape and its number
Methods: TypeAlias = dict[str, list[ResultRow]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="NAME=FOLDER[,FOLDER]")
    parser.add_argument("--against", metavar="NAME")
    parser.add_argument("--reach", nargs=2, metavar=("STORE", "QUERIES"))
    parser.add_argument("--types", action="store_true")
    arguments = parser.parse_args()
    methods: Methods = {}
    for given in arguments.results:
        name, _, folders = given.partition("=")
        methods[name] = [row for folder in folders.split(",") for row in Result.read(folder).rows]
    if arguments.against and arguments.against not in methods:
        parser.error(f"--against takes one of {', '.join(methods)}")
    reached = in_reach(*arguments.reach) if arguments.reach else None
    for title, ks in GROUPS.items():
        table = {name: [row for row in rows if row.k in ks] for name, rows in methods.items()}
        table = {name: rows for name, rows in table.items() if rows}
        if table:
            show(title, table)
            if arguments.against in table:
                differences(title, table, arguments.against)
            if reached is not None:
                by_reach(title, table, reached)
    if arguments.types:
        types({name: [row for row in rows if row.k == 1] for name, rows in methods.items()})


def show(title: str, methods: Methods) -> None:
    """One group of shapes: HIT@10 of each stratum, then MRR."""
    header(title, [f"{metric}, {n}" for metric in ("HIT@10", "MRR") for n in STRATUM.values()])
    for name, rows in methods.items():
        line(name, [mean(rows, f"links{n}_{metric}") for metric in ("hit10", "mrr") for n in STRATUM])
    some = next(iter(methods.values()))
    line("answers", [*(str(sum(in_stratum(row, n) for row in some)) for n in STRATUM), *[""] * STRATA])


def differences(title: str, methods: Methods, against: str) -> None:
    """HIT@10 of one method less that of the others, query by query, in points."""
    header(f"{title}: {against} less", [f"HIT@10, {n}" for n in STRATUM.values()])
    own = {(row.shape, row.index): row for row in methods[against]}
    for name, rows in methods.items():
        if name != against:
            line(name, [interval(rows, lambda row, n=n: less(own[row.shape, row.index], row, n)) for n in STRATUM])


def less(one: ResultRow, other: ResultRow, stratum: int) -> float | None:
    values = [getattr(row, f"links{stratum}_hit10") for row in (one, other)]
    return None if values[1] is None else values[0] - values[1]


def in_reach(store: str, queries: str) -> Mapping[Key, bool]:
    """Whether the scored answer of each query has a truth above 0 in a store, by the exact engine."""
    settings = RunSettings()
    engine, source = settings.runner(), open_store(store).source
    engine.load(source)
    found = {}
    for query in read(queries):
        if query.k <= 3:  # beyond, only the exact engine is in the tables
            plan = engine.planned(query.clauses(), source, settings.limits)
            truth = engine.score(plan, query.scored, settings.limits, Deadline(None))
            found[query.shape, query.index] = bool(truth[0] > 0)
    return found


def by_reach(title: str, methods: Methods, reached: Mapping[Key, bool]) -> None:
    """The share of answers in reach of the truth table; HIT@10 of those; what the others give to HIT@10 of all."""
    columns = [f"{what}, {n}" for what in ("in reach", "out of reach") for n in STRATUM.values()]
    some = next(iter(methods.values()))
    if not all((row.shape, row.index) in reached for row in some):
        return
    header(f"{title}: HIT@10", columns)
    share = [
        interval(some, lambda row, n=n: float(reached[row.shape, row.index]) if in_stratum(row, n) else None)
        for n in STRATUM
    ]
    line("share of answers", [*share, *[""] * STRATA])
    for name, rows in methods.items():
        near = [row for row in rows if reached[row.shape, row.index]]
        cells = [mean(near, f"links{n}_hit10") for n in STRATUM]
        cells += [interval(rows, lambda row, n=n: beyond(row, n, reached)) for n in STRATUM]
        line(name, cells)


def beyond(row: ResultRow, stratum: int, reached: Mapping[Key, bool]) -> float | None:
    """What an answer out of reach gives to HIT@10 of its stratum."""
    value: float | None = getattr(row, f"links{stratum}_hit10")
    return value if value is None or not reached[row.shape, row.index] else 0.0


def types(methods: Methods) -> None:
    """MRR of each type with one free variable: every stratum counts the same; then those where nothing is known."""
    header("MRR", BETAE)
    for name, rows in methods.items():
        own = {s: [row for row in rows if row.shape == s] for s in BETAE}
        line(name, [mean(own[s], "mrr", spread=False) for s in BETAE])
        last = {s: f"links{largest_stratum(shape(s).clauses)}_mrr" for s in BETAE}
        line(f"{name}, all links", [mean(own[s], last[s], spread=False) for s in BETAE])


def in_stratum(row: ResultRow, stratum: int) -> bool:
    return getattr(row, f"links{stratum}_mrr") is not None


def mean(rows: Iterable[ResultRow], column: str, spread: bool = True) -> str:
    """Percent: the mean over queries, then over shapes; a method that refuses a query misses its answer."""
    return interval(rows, lambda row: getattr(row, column), spread)


def interval(rows: Iterable[ResultRow], value: Callable[[ResultRow], float | None], spread: bool = True) -> str:
    """The mean of the rows that have a value, as a share of 100, and half its interval."""
    by_shape: dict[str, list[float]] = {}
    for row in rows:
        found = value(row)
        if found is not None:
            by_shape.setdefault(row.shape, []).append(found)
    if not by_shape:
        return "–"
    told = bootstrap(by_shape)[1]
    shown = f"{100 * told.mean:.1f}"
    return f"{shown} ± {50 * (told.high - told.low):.1f}" if spread and told.low < told.high else shown


def header(title: str, columns: Sequence[str]) -> None:
    print(f"\n| {title} | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 1) + "|")


def line(name: str, cells: Sequence[str]) -> None:
    print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
