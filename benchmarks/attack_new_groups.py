"""A new group or malware was seen with a few techniques: what else should one look for? MITRE ATT&CK by year.

    python benchmarks/attack_new_groups.py FACTS.tsv.gz [--years 2022,2023] [--work DIR] [--model FOLDER]

FACTS are lines of head, relation, tail and date. For each year a store is built from the facts before it. Objects that
are new in the year, with at least six `uses` of objects that are known, are added with half of these by
`store.add(…, new_entities=True)`; the other half is asked for, techniques alone. Printed: precision at 10 and recall at
20 by truth, by item-item similarity (cosine, counts shrunk by 5) and by popularity; how far the truth of the predicted
techniques is from what came true; seconds. Choices are made on 2022 and 2023. Stores in DIR are used again.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import tuplet
from tuplet.truth.calibration.reliability import reliability
from tuplet.truth.store_folder import StoreFiles

RELATION, LEAST, SHRINK = "uses", 6, 5.0
Fact = tuple[str, ...]


def main() -> None:
    """Print a block for each year."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--years", default="2022,2023")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--model", default="packaged")
    parser.add_argument("--seeds", type=int, default=1, help="halves are drawn so many times")
    arguments = parser.parse_args()
    with gzip.open(arguments.facts, "rt", encoding="utf-8") as lines:
        facts = [tuple(line.rstrip("\n").split("\t")) for line in lines]
    for year in map(int, arguments.years.split(",")):
        work = arguments.work or Path(tempfile.mkdtemp())
        built = stored([fact for fact in facts if fact[3] < str(year)], work / f"{year}.store")
        for seed in range(arguments.seeds):
            print(f"{year}, halves {seed}", flush=True)
            judge(facts, year, seed, built, arguments.model)


def stored(facts: Sequence[Fact], path: Path) -> Path:
    """The store of some facts, built unless it is there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        source = path.with_suffix(".tsv")
        source.write_text("".join("\t".join(fact[:3]) + "\n" for fact in facts), encoding="utf-8")
        tuplet.build(source, path, predictors="complex")
    return path


def judge(facts: Sequence[Fact], year: int, seed: int, built: Path, model: str) -> None:
    """Add the new objects with half of what they use, and look for the rest."""
    given, hidden = halves(facts, year, seed)
    copy = Path(tempfile.mkdtemp()) / "store"
    shutil.copytree(built, copy)
    store = tuplet.open(copy)
    first = next(iter(given))
    began = time.monotonic()
    store.add(
        [(first, RELATION, end) for end in given[first]], new_entities=True, seconds=1e9, model=model, progress=True
    )
    learned = time.monotonic() - began
    began = time.monotonic()
    added = [(head, RELATION, end) for head, ends in given.items() for end in ends]
    report = store.add(added, new_entities=True, seconds=1e9, model=model, progress=True)
    rows = time.monotonic() - began
    print(f"  {len(given)} objects, {len(added)} facts given; {report.predicted:,} predicted in {rows:.1f} s ", end="")
    print(f"(after {learned:.1f} s for the first one, calibration included)")
    if store.info()["new_entities"]["waiting"]:
        raise SystemExit(f"some wait: {report.why}")
    files = StoreFiles.open(copy)
    ids = {files.graph.entities.name(number): number for number in range(len(files.graph.entities))}
    names = {number: name for name, number in ids.items()}
    relation = files.graph.relations.find(RELATION)
    truth, similar, popular = scores(files, relation)
    for name, score in (("truth", truth), ("item-item", similar), ("popularity", popular)):
        print(f"  {name:12} {measured(score, ids, names, given, hidden)}")
    promised, came = [], []
    for head, ends in hidden.items():
        row = files.table.row(ids[head], relation, False)
        for end, value in zip(row.ids[~row.observed].tolist(), row.truth[~row.observed].tolist(), strict=True):
            if technique(names[end]):
                promised.append(value)
                came.append(names[end] in ends)
    found = reliability(np.array(promised), np.array(came)).as_dict()
    sure = np.array(promised) >= 0.1
    print(f"  ECE from 0.1 {found['ece_from_0.1']:.4f}; {sure.sum()} predictions from 0.1 on: mean truth ", end="")
    print(f"{np.array(promised)[sure].mean():.3f}, came true {np.array(came)[sure].mean():.3f}", flush=True)


def halves(facts: Sequence[Fact], year: int, seed: int) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What is given and what is hidden of each object that is new in the year."""
    known = {end for fact in facts if fact[3] < str(year) for end in (fact[0], fact[2])}
    new: dict[str, list[str]] = defaultdict(list)
    for head, relation, tail, date in facts:
        if str(year) <= date < str(year + 1) and relation == RELATION and head not in known and tail in known:
            new[head].append(tail)
    rng = np.random.default_rng(seed)
    given, hidden = {}, {}
    for head, ends in sorted(new.items()):
        if len(ends) >= LEAST:
            dealt = [sorted(ends)[place] for place in rng.permutation(len(ends))]
            given[head], hidden[head] = dealt[: len(dealt) // 2], dealt[len(dealt) // 2 :]
    return given, hidden


Score = Callable[[int], np.ndarray]


def scores(files: StoreFiles, relation: int) -> tuple[Score, Score, Score]:
    """By truth, by similarity and by popularity: the scores of all entities for one object."""
    size = len(files.graph.entities)
    heads, which, tails = files.graph.edges("train", "valid")
    mine = which == relation
    has = np.zeros((size, size), dtype=np.float32)
    has[heads[mine], tails[mine]] = 1
    together = has.T @ has
    count = together.diagonal().copy()
    cosine = together / (np.sqrt(np.outer(count, count)) + SHRINK)
    np.fill_diagonal(cosine, 0)

    def truth(entity: int) -> np.ndarray:
        row = files.table.row(entity, relation, False)
        found = np.zeros(size)
        found[row.ids] = row.truth
        return found

    return truth, lambda entity: has[entity] @ cosine, lambda entity: count


def measured(
    score: Score,
    ids: dict[str, int],
    names: dict[int, str],
    given: dict[str, list[str]],
    hidden: dict[str, list[str]],
) -> str:
    """Precision at 10 and recall at 20, techniques alone, the mean over objects."""
    precision, recall = [], []
    for head, ends in hidden.items():
        wanted = {end for end in ends if technique(end)}
        if not wanted:
            continue
        order = [names[number] for number in np.argsort(-score(ids[head]), kind="stable").tolist()]
        shown = [name for name in order if technique(name) and name not in given[head]][:20]
        precision.append(len(wanted & set(shown[:10])) / 10)
        recall.append(len(wanted & set(shown)) / len(wanted))
    return f"precision at 10 {np.mean(precision):.3f}, recall at 20 {np.mean(recall):.3f} ({len(precision)} objects)"


def technique(name: str) -> bool:
    """Whether it is one, by its number."""
    return name.startswith("T") and not name.startswith("TA")


if __name__ == "__main__":
    main()
