"""Entities that came after a store was built, against a store that had them from the start.

    python benchmarks/new_entities.py GRAPH [--share 0.05] [--minutes M] [--work DIR] [--model FOLDER] [--only-new]
        [--entities N] [--seconds S] [--build]

GRAPH is a graph directory or anything `tuplet import` reads; of a split graph the train and valid facts are taken. A
share of the entities is hidden with all facts, and a store is built from the rest. Half of the facts of each hidden
entity are added by `store.add(…, new_entities=True)`, and the other half is asked for: the rank of the hidden end among
all entities in the row of the new entity, and of the new entity in the row of the other end (filtered, ties by expected
rank). Printed beside it: the same for a store built with the given halves from the start (unless `--only-new`); how far
truth is from what came true; the seconds that rows of the first 100 new entities take once the calibration is learned.
With `--entities` the first so many of the hidden ones are added; with `--update` also the test facts of a split graph
in rows around new entities, before `store.update()` and after. Stores in DIR are used again: `--build` makes them and
stops, so that what follows can be timed on a quiet machine. `--seconds` are those of `add` (default: as there).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tuplet
from tuplet.graph.graph import KnowledgeGraph
from tuplet.truth.calibration.reliability import reliability
from tuplet.truth.new_entities.predict import stale_rows
from tuplet.truth.store_folder import StoreFiles

Fact = tuple[str, str, str]
TIMED = 100  # entities whose rows are timed


def main() -> None:
    """Hide, build, add, ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--predictors", default="complex")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--model", default="packaged")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--entities", type=int, help="how many of the hidden ones are added; default: all")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--only-new", action="store_true")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    made = (arguments.graph / "manifest.json").exists()
    graph = KnowledgeGraph.open(arguments.graph) if made else tuplet.read(arguments.graph)
    work = arguments.work or Path(tempfile.mkdtemp())
    new, before, given, hidden = halves(named(graph, "train", "valid"), arguments.share, arguments.seed)
    print(f"{len(new):,} entities hidden")
    new = set(sorted(new)[: arguments.entities])
    given, hidden = ([fact for fact in some if fact[0] in new or fact[2] in new] for some in (given, hidden))
    print(f"{len(new):,} of them added, with {len(given):,} facts; {len(hidden):,} asked for", flush=True)
    built = stored(before, work / f"without-{arguments.seed}.store", arguments)
    if arguments.build:
        if not arguments.only_new:
            stored([*before, *given], work / f"with-{arguments.seed}.store", arguments)
        return
    copy = Path(tempfile.mkdtemp()) / "store"
    shutil.copytree(built, copy)
    grow(tuplet.open(copy), new, given, arguments.model, arguments.seconds)
    report("added", StoreFiles.open(copy), new, hidden)
    if not arguments.only_new:
        whole = stored([*before, *given], work / f"with-{arguments.seed}.store", arguments)
        report("from the start", StoreFiles.open(whole), new, hidden)
    if arguments.update:
        around(copy, named(graph, "test"), arguments.model)


def named(graph: KnowledgeGraph, *splits: str) -> list[Fact]:
    """The facts of some splits, by name."""
    entities, relations = (names.names(range(len(names))) for names in (graph.entities, graph.relations))
    columns = (side.tolist() for side in graph.edges(*splits))
    return [(entities[h], relations[r], entities[t]) for h, r, t in zip(*columns, strict=True)]


def halves(facts: Sequence[Fact], share: float, seed: int) -> tuple[set[str], list[Fact], list[Fact], list[Fact]]:
    """The hidden entities, the facts without them, and two halves of the facts of each, ends that are known."""
    rng = np.random.default_rng(seed)
    names = sorted({end for head, _, tail in facts for end in (head, tail)})
    new = {names[place] for place in rng.permutation(len(names))[: max(1, int(share * len(names)))]}
    before = [fact for fact in facts if fact[0] not in new and fact[2] not in new]
    known = {end for head, _, tail in before for end in (head, tail)}
    relations = {relation for _, relation, _ in before}
    given: list[Fact] = []
    hidden: list[Fact] = []
    own: dict[str, list[Fact]] = {name: [] for name in sorted(new)}
    for fact in facts:
        ends = [end for end in (fact[0], fact[2]) if end in new]
        if len(ends) == 1 and (fact[0] in known or fact[2] in known) and fact[1] in relations:
            own[ends[0]].append(fact)
    for mine in own.values():
        dealt = [mine[place] for place in rng.permutation(len(mine))]
        if len(dealt) > 1:
            given += dealt[: len(dealt) // 2]
            hidden += dealt[len(dealt) // 2 :]
    return {end for fact in given for end in (fact[0], fact[2])} & new, before, given, hidden


def stored(facts: Sequence[Fact], path: Path, arguments: argparse.Namespace) -> Path:
    """The store of some facts, built unless it is there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        tuplet.build(list(facts), path, predictors=arguments.predictors, minutes=arguments.minutes)
    return path


def grow(store: tuplet.Store, new: set[str], given: Sequence[Fact], model: str, seconds: float | None) -> None:
    """Add the new entities: one, so that the calibration is learned; so many that are timed; the rest."""
    order = sorted(new)
    for name, chosen in (("1", order[:1]), (str(TIMED), order[1 : TIMED + 1]), ("the others", order[TIMED + 1 :])):
        some = [fact for fact in given if fact[0] in (these := set(chosen)) or fact[2] in these]
        began = time.monotonic()
        done = store.add(some, new_entities=True, seconds=seconds, model=model, progress=True)
        print(
            f"add {name}: {len(some):,} facts, {done.predicted:,} predicted, {time.monotonic() - began:.1f} s",
            flush=True,
        )
        if done.why is not None or done.waiting:
            raise SystemExit(f"{done.waiting} wait: {done.why}")
    print(f"calibration: {store.info()['new_entities']['calibration']['made']}")


def report(name: str, files: StoreFiles, new: set[str], hidden: Sequence[Fact]) -> None:
    """MRR of the hidden facts in both rows, and how far truth is from what came true."""
    ids = {files.graph.entities.name(number): number for number in range(len(files.graph.entities))}
    facts = [(ids[h], files.graph.relations.find(r), ids[t]) for h, r, t in hidden if h in ids and t in ids]
    own, other = [], []
    answers = answers_of(facts)
    for fact, (h, _, _) in zip(facts, hidden, strict=True):
        ranks = [reciprocal(files, fact, inverse, answers) for inverse in (False, True)]
        own.append(ranks[h not in new])
        other.append(ranks[h in new])
    rows = [(ids[entity], view) for entity in sorted(new) for view in range(2 * len(files.graph.relations))]
    truth, came = predictions(files, rows, set(facts))
    sure = truth >= 0.1
    print(f"{name}: MRR in the row of the new entity {np.mean(own):.4f}, in that of the other end {np.mean(other):.4f}")
    listed = f"{came.sum() / max(1, len(facts)):.1%} of the facts asked for among {len(truth):,} predictions"
    error = reliability(truth, came).as_dict()["ece_from_0.1"]
    print(f"  listed {listed}; ECE from 0.1 {error:.4f}: {sure.sum():,} predictions, ", end="")
    print(f"mean truth {truth[sure].mean():.3f}, came true {came[sure].mean():.3f}", flush=True)


Ids = tuple[int, int, int]
Answers = dict[tuple[int, int, bool], list[int]]  # of an entity under a relation, forwards or backwards


def answers_of(facts: Sequence[Ids]) -> Answers:
    """The ends that are asked for, by row."""
    answers: Answers = {}
    for head, relation, tail in facts:
        answers.setdefault((head, relation, False), []).append(tail)
        answers.setdefault((tail, relation, True), []).append(head)
    return answers


def reciprocal(files: StoreFiles, fact: Ids, inverse: bool, answers: Answers) -> float:
    """1 / the expected rank of an end in its row, facts and other hidden ends aside."""
    head, relation, tail = fact
    near, far = (tail, head) if inverse else (head, tail)
    row = files.table.row(near, relation, inverse)
    value = np.zeros(len(files.graph.entities))
    value[row.ids] = row.truth
    out = np.zeros(len(value), dtype=bool)
    out[row.ids[row.observed]] = True
    out[answers[near, relation, inverse]] = True
    others = value[~out]
    return float(1 / (1 + np.sum(others > value[far]) + np.sum(others == value[far]) / 2))


def predictions(files: StoreFiles, rows: Sequence[tuple[int, int]], facts: set[Ids]) -> tuple[np.ndarray, np.ndarray]:
    """The truth of everything predicted in some rows (entity and view), and whether it is one of the facts."""
    truth, came = [np.zeros(0)], []
    for entity, view in rows:
        row = files.table.row(entity, view // 2, bool(view % 2))
        truth.append(row.truth[~row.observed])
        for end in row.ids[~row.observed].tolist():
            came.append(((end, view // 2, entity) if view % 2 else (entity, view // 2, end)) in facts)
    return np.concatenate(truth), np.array(came, dtype=bool)


def around(path: Path, test: Sequence[Fact], model: str) -> None:
    """Test facts between older entities in stale rows: their ranks there, before an update and after."""
    before = StoreFiles.open(path)
    stale = stale_rows(before)
    rows = {*zip(stale.entity.tolist(), stale.view.tolist(), strict=True)}
    ids = {before.graph.entities.name(number): number for number in range(len(before.graph.entities))}
    facts = []
    for h, r, t in test:
        relation = before.graph.relations.find(r)
        if h in ids and t in ids and relation >= 0:
            facts.append((ids[h], relation, ids[t]))
    asked = [
        (h, r, t, inverse)
        for h, r, t in facts
        for inverse in (False, True)
        if ((t, 2 * r + 1) if inverse else (h, 2 * r)) in rows
    ]
    done = tuplet.open(path).update(model=model, progress=True)
    print(f"update: {len(rows):,} stale rows, {done.moved:,} predictions moved; {len(asked):,} test questions in them")
    for name, files in (("before", before), ("after", StoreFiles.open(path))):
        ranks = [reciprocal(files, (h, r, t), inverse, answers_of(facts)) for h, r, t, inverse in asked]
        truth, came = predictions(files, sorted(rows), set(facts))
        error = reliability(truth, came).as_dict()["ece_from_0.1"]
        print(f"  {name}: MRR {np.mean(ranks):.4f}, ECE from 0.1 {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
