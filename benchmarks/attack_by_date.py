"""What will be added? MITRE ATT&CK cut at new years: predictions made from all facts before, against the year after.

    python benchmarks/attack_by_date.py FACTS.tsv.gz [--years 2022,2023,2024,2025] [--work DIR] [--minutes 8]

FACTS are lines of head, relation, tail and date. For each year a store is built from the facts before it with
`--holdout newest`, so its truth is the chance of being stated within as long a time as was held out. Then all unknown
`uses` pairs between known objects are ordered by it, and by the product of degrees. Printed: the share of the first 500
and 5,000 that was added in the year, and for the first 1,000 the share and the mean truth, as it is and for a whole
year (1 − (1 − truth)^(365 / days held out)). The last lines pool the years. Stores in DIR are used again.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import tuplet
from tuplet.graph.graph import KnowledgeGraph
from tuplet.truth.store_folder import StoreFiles

RELATION = "uses"
TOP = (500, 1000, 5000)
Fact = tuple[str, ...]


def main() -> None:
    """Print a block for each year, and the pooled figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--years", default="2022,2023,2024,2025")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--predictors")
    arguments = parser.parse_args()
    with gzip.open(arguments.facts, "rt", encoding="utf-8") as lines:
        facts = [tuple(line.rstrip("\n").split("\t")) for line in lines]
    pooled: dict[str, list[np.ndarray]] = {}
    promised: list[np.ndarray] = []
    for year in map(int, arguments.years.split(",")):
        work = arguments.work or Path(tempfile.mkdtemp())
        store = stored(facts, year, work, arguments)
        chosen = store.meta.calibration or {}
        days = float(chosen["holdout"]["days"])
        graph = store.graph
        added = pairs(graph, (fact for fact in facts if str(year) <= fact[3] < str(year + 1)))
        print(f"{year}: held out {chosen['holdout']}, {len(added)} pairs added", flush=True)
        keys, truth, product = open_pairs(store)
        for name, score in (("truth", truth), ("product of degrees", product)):
            order = np.lexsort((-product, -score))
            came = np.isin(keys[order], added)
            pooled.setdefault(name, []).append(came[: TOP[-1]])
            print(f"  {name:20} {shares(came)}")
            if name == "truth":
                top = truth[order[:1000]].astype(np.float64)
                promised.append(np.stack([top, 1 - (1 - top) ** (365 / days)]))
                print(f"  mean truth of the first 1,000: {top.mean():.4f}, for a year {promised[-1][1].mean():.4f}")
    print("pooled")
    for name, came_by_year in pooled.items():
        print(f"  {name:20} {shares(np.stack(came_by_year))}")
    mean, year_mean = np.concatenate(promised, 1).mean(1)
    print(f"  mean truth of the first 1,000: {mean:.4f}, for a year {year_mean:.4f}")


def stored(facts: list[Fact], year: int, work: Path, arguments: argparse.Namespace) -> StoreFiles:
    """The store of the facts before a year, built unless it is there."""
    path = work / f"{year}.store"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        source = work / f"{year}.tsv"
        known = ["\t".join(fact) for fact in facts if fact[3] < str(year)]
        source.write_text("\n".join(["head\trelation\ttail\tdate", *known]) + "\n", encoding="utf-8")
        tuplet.build(source, path, holdout="newest", minutes=arguments.minutes, predictors=arguments.predictors)
    return StoreFiles.open(path)


def pairs(graph: KnowledgeGraph, facts: Iterable[Fact]) -> np.ndarray:
    """The keys of the facts of the relation between known objects."""
    ids = {graph.entities.name(number): number for number in range(len(graph.entities))}
    size = len(ids)
    return np.array([ids[h] * size + ids[t] for h, r, t, _ in facts if r == RELATION and h in ids and t in ids])


def open_pairs(store: StoreFiles) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All unknown pairs of objects that use, or are used, already: keys, truth (0: not listed), product of degrees."""
    graph, size = store.graph, len(store.graph.entities)
    number = next(r for r in range(len(graph.relations)) if graph.relations.name(r) == RELATION)
    heads, relation, tails = graph.edges("train", "valid")
    degree = (np.bincount(heads, minlength=size) + np.bincount(tails, minlength=size)).astype(np.float64)
    mine = relation == number
    near, far = np.unique(heads[mine]).astype(np.int64), np.unique(tails[mine]).astype(np.int64)
    keys = (near[:, None] * size + far).ravel()
    keys = keys[~np.isin(keys, heads[mine].astype(np.int64) * size + tails[mine])]
    said = store.table.predictions()
    some = said.relation == number
    listed = said.heads[some].astype(np.int64) * size + said.tails[some]
    place = np.minimum(np.searchsorted(listed, keys), len(listed) - 1)
    truth = np.where(listed[place] == keys, said.prediction[some][place], 0)
    return keys, truth, degree[keys // size] * degree[keys % size]


def shares(came: np.ndarray) -> str:
    """The share that came true of the first ones, over all years."""
    return "  ".join(f"first {top:,}: {came[..., :top].mean():.2%}" for top in TOP)


if __name__ == "__main__":
    main()
