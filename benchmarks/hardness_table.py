"""Results on tuple-H by stratum, as Markdown: HIT@10 and MRR by the number of links that must be predicted.

    python benchmarks/hardness_table.py exact=results/exact ns3=results/ns3 …

A row for each method, whose results may lie in several folders: `ns3=a,b`. Means go over the answers of a shape in a
stratum, then over shapes, for each number of free variables. With `--types` the MRR of each type with one free variable
follows: the mean over its strata, and that of the answers for which every link must be predicted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from tuplet.bench.hardness import STRATA, largest_stratum
from tuplet.bench.report_tables import Result
from tuplet.bench.results import ResultRow
from tuplet.bench.shapes import BETAE, shape

GROUPS = {"k = 1": (1,), "k = 2, 3": (2, 3), "k = 4, 5": (4, 5)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="NAME=FOLDER[,FOLDER]")
    parser.add_argument("--types", action="store_true")
    arguments = parser.parse_args()
    methods = {}
    for given in arguments.results:
        name, _, folders = given.partition("=")
        methods[name] = [row for folder in folders.split(",") for row in Result.read(folder).rows]
    for title, ks in GROUPS.items():
        table = {name: [row for row in rows if row.k in ks] for name, rows in methods.items()}
        if any(table.values()):
            show(title, {name: rows for name, rows in table.items() if rows})
    if arguments.types:
        types({name: [row for row in rows if row.k == 1] for name, rows in methods.items()})


def show(title: str, methods: dict[str, list[ResultRow]]) -> None:
    """One group of shapes: HIT@10 of each stratum, then MRR."""
    strata = range(1, STRATA + 1)
    names = [f"{n}{'+' if n == STRATA else ''}" for n in strata]
    print(f"\n| {title} | {' | '.join(f'HIT@10, {n}' for n in names)} | {' | '.join(f'MRR, {n}' for n in names)} |")
    print("|---" * (2 * STRATA + 1) + "|")
    for name, rows in methods.items():
        cells = [mean(rows, f"links{n}_{metric}") for metric in ("hit10", "mrr") for n in strata]
        print(f"| {name} | {' | '.join(cells)} |")
    some = next(iter(methods.values()))
    print(f"| answers | {' | '.join(str(sum(in_stratum(row, n) for row in some)) for n in strata)} {'| ' * STRATA}|")


def types(methods: dict[str, list[ResultRow]]) -> None:
    """MRR of each type with one free variable: every stratum counts the same; then those where nothing is known."""
    print(f"\n| MRR | {' | '.join(BETAE)} |")
    print("|---" * (len(BETAE) + 1) + "|")
    for name, rows in methods.items():
        own = {s: [row for row in rows if row.shape == s] for s in BETAE}
        print(f"| {name} | {' | '.join(mean(own[s], 'mrr') for s in BETAE)} |")
        last = {s: f"links{largest_stratum(shape(s).clauses)}_mrr" for s in BETAE}
        print(f"| {name}, all links | {' | '.join(mean(own[s], last[s]) for s in BETAE)} |")


def in_stratum(row: ResultRow, stratum: int) -> bool:
    return getattr(row, f"links{stratum}_mrr") is not None


def mean(rows: Sequence[ResultRow], column: str) -> str:
    """Percent: the mean over queries, then over shapes; a method that refuses a query misses its answer."""
    by_shape: dict[str, list[float]] = {}
    for row in rows:
        value = getattr(row, column)
        if value is not None:
            by_shape.setdefault(row.shape, []).append(value)
    return f"{100 * np.mean([np.mean(values) for values in by_shape.values()]):.1f}" if by_shape else "–"


if __name__ == "__main__":
    main()
