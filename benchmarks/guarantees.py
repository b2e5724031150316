"""Do sets hold a true tuple as often as they promise, and lists as few falsehoods? How large are they?

    python benchmarks/guarantees.py gather STORE QUERIES -o FOLDER [--depth 3000] [--per-shape 150]
    python benchmarks/guarantees.py scores FOLDER…          # which score makes the smallest sets
    python benchmarks/guarantees.py sets FOLDER… [--test FOLDER] [--by shape] [--reached]
    python benchmarks/guarantees.py borrow FOLDER…          # as if each shape were not held out
    python benchmarks/guarantees.py lists FOLDER…
    python benchmarks/guarantees.py surest STORE            # how many of its surest edges are facts

`gather` asks each query once and keeps what the tables need, in parts of 100 queries: a run that was stopped goes on.
`sets` halves the queries of each shape at random, 50 times: one half sets the level (`ShapeScores.level`, what
`tuplet guarantee` keeps), the other is judged. With `--test` all of FOLDER sets the level and the queries of another
folder are judged. `--reached` leaves out hidden answers that the truth table does not reach.
`lists` judges on the full graph what `--max-false` lists (bounds), what truth alone would, and what conformal selection
would, whose p-values come from one half of the queries for the other. "Wrong" counts an empty list as right (the false
discovery rate), "shown" leaves it out, "edges" is how many predicted edges the lists shown rest on. Many lists rest on
the same few edges, which are right or wrong for all of them: the 95 % interval of "shown" takes the tuples of an edge
for one observation; "alone" is the interval if each list were one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.graph import SPLITS
from tuplet.lab.bench.hardness import predicted_links, strata
from tuplet.lab.bench.held_out import everything, rank_held_out
from tuplet.lab.bench.queries import read_any
from tuplet.query.guarantees import measure, within
from tuplet.query.ranking import Clauses, Ranking, query_family
from tuplet.query.source import Source
from tuplet.query.witness import Witnesses
from tuplet.store import open_store
from tuplet.truth.calibration.calibrate import mark_split
from tuplet.truth.guarantees import ShapeScores

Floats = NDArray[np.float64]
PART, SPLITTINGS, CONFIDENCES = 100, 50, (0.5, 0.8, 0.9)
LISTED, HIDDEN = ("truth", "least", "right", "edge"), ("hidden", "place", "links")


@dataclass(frozen=True)
class Gathered:
    """One query: truth of its listed tuples, the lower bound of each, which are right, the least sure predicted
    edge of each; truth and place of its hidden answers, their strata."""

    shape: str
    family: str
    truth: Floats
    least: Floats
    right: NDArray[np.bool_]
    edge: NDArray[np.int64]
    hidden: Floats
    place: Floats
    links: NDArray[np.int32]
    depth: int


def main() -> None:
    """Do what was asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    gathering = actions.add_parser("gather")
    gathering.add_argument("store")
    gathering.add_argument("queries")
    gathering.add_argument("-o", "--output", required=True)
    gathering.add_argument("--depth", type=int, default=3000)
    gathering.add_argument("--per-shape", type=int, default=150)
    for name in ("scores", "sets", "borrow", "lists"):
        action = actions.add_parser(name)
        action.add_argument("folders", nargs="+")
        action.add_argument("--test")
        action.add_argument("--reached", action="store_true")
        action.add_argument("--by", default="family", choices=("family", "shape"))
    actions.add_parser("surest").add_argument("store")
    arguments = parser.parse_args()
    if arguments.action == "surest":
        show_surest(arguments.store)
        return
    if arguments.action == "gather":
        gather(arguments.store, arguments.queries, Path(arguments.output), arguments.depth, arguments.per_shape)
        return
    found = [one for folder in arguments.folders for one in read(folder)]
    test = list(read(arguments.test)) if arguments.test else None
    if arguments.reached:
        found = [one for one in map(reached, found) if len(one.hidden)]
        test = None if test is None else [one for one in map(reached, test) if len(one.hidden)]
    if arguments.action == "scores":
        show_scores(found)
    elif arguments.action == "sets":
        show_sets(found, test, arguments.by)
    elif arguments.action == "borrow":
        show_borrowed(found)
    else:
        show_lists(found)


# --- gather ------------------------------------------------------------------------------------------------------


def gather(store: str, queries: str, folder: Path, depth: int, per_shape: int) -> None:
    """Ask all queries, part by part; shapes take turns, so that an early look shows every one."""
    source = open_store(store).source
    full = everything(source)
    groups = read_any(queries).first(per_shape).by_shape().values()
    asked = [group[i] for i in range(per_shape) for group in groups if i < len(group)]
    folder.mkdir(parents=True, exist_ok=True)
    hidden_too = source.graph.observed(list(SPLITS))
    for start in range(0, len(asked), PART):
        path = folder / f"{start:06}.npz"
        if path.exists():
            continue
        part = asked[start : start + PART]
        columns: dict[str, list[object]] = {name: [] for name in ("shape", "family", "sizes", "numbers")}
        arrays: dict[str, list[NDArray[np.generic]]] = {n: [] for n in LISTED + HIDDEN}
        for one in rank_held_out(source, full, part, depth):
            clauses = one.query.clauses()
            links = predicted_links(clauses, source.facts, hidden_too, one.query.hard)
            columns["shape"].append(one.query.shape)
            columns["family"].append(query_family(clauses))
            columns["sizes"].append((len(one.truth), len(one.hidden)))
            assert one.right is not None
            least, edge = rests_on(one.ranking, clauses, source)
            found = (one.truth, least, one.right, edge, one.hidden, one.place, strata(links))
            for name, array in zip(arrays, found, strict=True):
                arrays[name].append(array)
        joined = {name: np.concatenate(parts) for name, parts in arrays.items()}
        named = {name: np.array(columns[name]) for name in ("shape", "family", "sizes")}
        np.savez_compressed(path.with_suffix(".part.npz"), depth=np.array(depth), **named, **joined)
        path.with_suffix(".part.npz").rename(path)
        print(f"{start + len(part):,} of {len(asked):,}", flush=True)


def rests_on(ranking: Ranking, clauses: Clauses, source: Source) -> tuple[Floats, NDArray[np.int64]]:
    """Lower bounds of the truth of each tuple, and its least sure predicted edge, as a number (-1: none)."""
    witnesses = Witnesses.from_ranking(ranking, clauses, source)
    least = ranking.truth if source.borne_out is None else witnesses.least_truth(source.borne_out)
    if not len(ranking.tuples):
        return least, np.zeros(0, np.int64)
    negated = np.array([edge.negated for edge in witnesses.edges])
    truth = np.where(witnesses.counts & ~witnesses.observed & ~negated, witnesses.truth, np.inf)
    at = np.arange(len(truth)), truth.argmin(1)
    relation = np.array([edge.relation for edge in witnesses.edges], np.int64)[at[1]]
    size = len(source.graph.entities)
    number = (relation * size + witnesses.heads[at]) * size + witnesses.tails[at]
    return least, np.where(np.isfinite(truth[at]), number, -1)


def read(folder: str) -> Iterator[Gathered]:
    """What was gathered."""
    for path in sorted(Path(folder).glob("[0-9]*[0-9].npz")):
        with np.load(path) as part:
            data = {name: part[name] for name in part.files}
        listed, hidden = 0, 0
        for shape, family, (n, m) in zip(data["shape"], data["family"], data["sizes"].tolist(), strict=True):
            a, b = slice(listed, listed + n), slice(hidden, hidden + m)
            listed_of, hidden_of = ([data[name][span] for name in names] for names, span in ((LISTED, a), (HIDDEN, b)))
            yield Gathered(str(shape), str(family), *listed_of, *hidden_of, int(data["depth"]))
            listed, hidden = listed + n, hidden + m


def reached(one: Gathered) -> Gathered:
    """The query with those of its hidden answers that have any truth."""
    kept = one.hidden > 0
    return replace(one, hidden=one.hidden[kept], place=one.place[kept], links=one.links[kept])


# --- sets --------------------------------------------------------------------------------------------------------

Score = Callable[[Gathered], "tuple[Floats, Floats]"]  # of the hidden answers, and of the listed tuples


def by_truth(scale: Callable[[Floats], float]) -> Score:
    """Truth, divided by a number that the query has."""
    return lambda one: (one.hidden / scale(one.truth), one.truth / scale(one.truth))


def by_place(one: Gathered) -> tuple[Floats, Floats]:
    """One over the rank."""
    return np.where(one.hidden > 0, 1 / one.place, 0.0), 1 / np.arange(1, len(one.truth) + 1)


def by_mass(one: Gathered) -> tuple[Floats, Floats]:
    """How much of the truth of the list stands behind a tuple, itself included (adaptive prediction sets)."""
    before = np.concatenate([[0.0], np.cumsum(one.truth)]) / (one.truth.sum() or 1.0)
    behind = np.where(np.isfinite(one.place), 1 - before[np.minimum(one.place, len(before)).astype(int) - 1], 0.0)
    return behind, 1 - before[:-1]


SCORES: dict[str, Score] = {
    "rank": by_place,
    "truth": by_truth(lambda truth: 1.0),
    "truth / best": by_truth(lambda truth: float(truth[0]) if len(truth) else 1.0),
    "truth / best 10": by_truth(lambda truth: float(truth[:10].sum()) or 1.0),
    "truth / best 100": by_truth(measure),
    "truth / best 1000": by_truth(lambda truth: float(truth[:1000].sum()) or 1.0),
    "mass behind": by_mass,
}


@dataclass
class Judged:
    """What sets did for the queries that were judged."""

    covered: list[float]
    tuples: int
    sizes: list[float]  # of sets that are lists, as long as the list that was gathered
    everything: list[bool]
    listed: list[float]  # coverage of sets that are lists
    strata: dict[int, list[float]]

    def row(self) -> str:
        """Coverage, number of tuples, sizes, how often everything, coverage by stratum."""
        sizes, lists = np.array(self.sizes or [np.nan]), 100 * np.mean(self.listed or [np.nan])
        by = " ".join(f"{100 * np.mean(self.strata[s]):5.1f}" if s in self.strata else "    –" for s in (1, 2, 3, 4))
        return (
            f"{100 * np.mean(self.covered):6.1f} {self.tuples:8,} {np.mean(sizes):8.0f} {np.median(sizes):8.0f} "
            f"{100 * np.mean(self.everything):6.1f} {lists:6.1f}  {by}"
        )


def judge(judged: Judged, held: Sequence[Gathered], asked: Sequence[Gathered], score: Score, confidence: float) -> None:
    """Set the level by some queries of a shape, and judge it by others."""
    judge_level(judged, asked, score, level_of(held, score, confidence))


def level_of(held: Sequence[Gathered], score: Score, confidence: float) -> float | None:
    """The level that `tuplet guarantee` would learn from some queries of a shape."""
    hidden = [score(one)[0] for one in held]
    shares = np.concatenate([np.full(len(scores), 1 / len(scores)) for scores in hidden])
    return ShapeScores("", "", "", len(held), np.concatenate(hidden), shares).level(confidence)


def judge_level(judged: Judged, asked: Sequence[Gathered], score: Score, level: float | None) -> None:
    """Judge sets of a level; None is everything."""
    for one in asked:
        found, listed = score(one)
        kept = np.ones(len(found), bool) if level is None else found >= level
        judged.covered.append(float(kept.mean()))
        judged.tuples += len(found)
        judged.everything.append(level is None)
        if level is not None:
            judged.sizes.append(float(np.count_nonzero(listed >= level)))
            judged.listed.append(float(kept.mean()))
        for stratum in np.unique(one.links):
            judged.strata.setdefault(int(stratum), []).append(float(kept[one.links == stratum].mean()))


def halves(members: Sequence[Gathered], rng: np.random.Generator) -> tuple[list[Gathered], list[Gathered]]:
    """Two random halves."""
    order = rng.permutation(len(members))
    half = len(order) // 2
    return [members[i] for i in order[:half]], [members[i] for i in order[half:]]


def grouped(found: Sequence[Gathered], key: Callable[[Gathered], str]) -> dict[str, list[Gathered]]:
    """By shape, or by family."""
    groups: dict[str, list[Gathered]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    return groups


def sets(
    found: Sequence[Gathered],
    test: Sequence[Gathered] | None,
    score: Score,
    confidence: float,
    splittings: int,
    by: str = "family",
) -> dict[str, Judged]:
    """The sets of each family, and of all."""
    rng, asked = np.random.default_rng(0), grouped(test or (), lambda one: one.shape)
    judged: dict[str, Judged] = {}
    for shape, members in grouped(found, lambda one: one.shape).items():
        own = judged.setdefault(getattr(members[0], by), Judged([], 0, [], [], [], {}))
        for _ in range(1 if test is not None else splittings):
            held, others = (members, asked.get(shape, [])) if test is not None else halves(members, rng)
            judge(own, held, others, score, confidence)
    total = Judged([], 0, [], [], [], {})
    for own in judged.values():
        own.tuples //= 1 if test is not None else splittings
        total.covered += own.covered
        total.tuples += own.tuples
        total.sizes += own.sizes
        total.everything += own.everything
        total.listed += own.listed
        for stratum, shares in own.strata.items():
            total.strata.setdefault(stratum, []).extend(shares)
    return {**dict(sorted(judged.items())), "all": total}


HEAD = f"{'':34} {'cover':>6} {'tuples':>8} {'mean':>8} {'median':>8} {'all %':>6} {'lists':>6}  by links 1, 2, 3, 4+"


def show_sets(found: Sequence[Gathered], test: Sequence[Gathered] | None, by: str) -> None:
    """Coverage, sizes, how often everything, by family."""
    for confidence in CONFIDENCES:
        print(f"\nconfidence {confidence:g}, lists of {found[0].depth:,}\n{HEAD}")
        for family, own in sets(found, test, SCORES["truth / best 100"], confidence, SPLITTINGS, by).items():
            print(f"{family:34} {own.row()}")


def show_scores(found: Sequence[Gathered]) -> None:
    """The sizes of the sets that each score makes."""
    for confidence in CONFIDENCES:
        print(f"\nconfidence {confidence:g}, lists of {found[0].depth:,}\n{HEAD}")
        for name, score in SCORES.items():
            print(f"{name:34} {sets(found, None, score, confidence, 20)['all'].row()}")


def show_borrowed(found: Sequence[Gathered]) -> None:
    """Coverage where a shape takes the lowest level of the others of its family."""
    score = SCORES["truth / best 100"]
    shapes = grouped(found, lambda one: one.shape)
    for confidence in CONFIDENCES:
        print(f"\nconfidence {confidence:g}, lists of {found[0].depth:,}\n{HEAD}")
        levels = {shape: level_of(members, score, confidence) for shape, members in shapes.items()}
        for shape, members in shapes.items():
            others = [levels[s] or 0.0 for s, m in shapes.items() if s != shape and m[0].family == members[0].family]
            if others:
                own = Judged([], 0, [], [], [], {})
                judge_level(own, members, score, min(others) or None)
                print(f"{shape:34} {own.row()}")


# --- lists -------------------------------------------------------------------------------------------------------

SHARES = (0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5)


def show_lists(found: Sequence[Gathered]) -> None:
    """How much of what is listed is wrong: by lower bounds, by truth, and by conformal selection."""
    head = ("stated", " wrong", " shown", "   +-", "alone", " edges", " lists", " length", "   right")
    print(" " * 45 + " ".join(head))
    for family, members in {**grouped(found, lambda one: one.family), "all": list(found)}.items():
        first, second = halves(members, np.random.default_rng(0))
        for share in SHARES:
            row("bounds", family, share, [(one, within(share, one.least)) for one in members])
            row("truth", family, share, [(one, within(share, one.truth)) for one in members])
            row("selection", family, share, [*selected(first, second, share), *selected(second, first, share)])


def row(name: str, family: str, share: float, cut: Sequence[tuple[Gathered, int]]) -> None:
    """The mean of the wrong share over all queries, where an empty list has none wrong (the false discovery rate), and
    over the lists that are not empty."""
    shown = [(one, n) for one, n in cut if n]
    right = sum(int(np.count_nonzero(one.right[:n])) for one, n in shown)
    said = f"{family + ', ' + name:44} {share:6.2f}"
    if not shown:
        print(f"{said} {0:6.1f} {'–':>6} {'–':>5} {'–':>5} {0:6} {0:6} {'–':>7} {0:8}")
        return
    # each tuple has its part of the list, each list the same
    part, wrong, edge = (
        np.concatenate(side)
        for side in zip(*((np.full(n, 1 / n), ~one.right[:n] / n, one.edge[:n]) for one, n in shown), strict=True)
    )
    mean, (edges, place) = wrong.sum() / part.sum(), np.unique(edge, return_inverse=True)
    apart = np.bincount(place, wrong - mean * part)  # of each edge, from what it would be with the mean
    error = 1.96 * np.sqrt((apart**2).sum()) / part.sum()
    alone = 1.96 * np.std([np.mean(~one.right[:n]) for one, n in shown]) / np.sqrt(len(shown))
    numbers = f"{100 * wrong.sum() / len(cut):6.1f} {100 * mean:6.1f} {100 * error:5.1f} {100 * alone:5.1f}"
    print(f"{said} {numbers} {len(edges):6} {len(shown):6} {np.mean([n for _, n in shown]):7.1f} {right:8,}")


def show_surest(store: str) -> None:
    """Of the edges that the store does not observe, by truth: how many there are, and how many are facts; how many
    valid facts would have that truth if they were unknown."""
    source = open_store(store).source
    edges = source.values().predictions()
    likely = edges.prediction >= 0.5
    heads, relation, tails, truth = (column[likely] for column in edges)
    fact = np.logical_or.reduce([mark_split(source.graph, split, (heads, relation, tails)) for split in SPLITS])
    valid = mark_split(source.graph, "valid", (heads, relation, tails))
    unseen = ~source.values().lookup(heads, relation, tails)[1]
    for low, high in ((0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 0.95), (0.95, 1.0)):
        among = (truth >= low) & (truth < high)
        here = unseen & among
        facts = f"facts {fact[here].mean():.3f}, beside {(valid & among).sum()} valid facts"
        print(f"{low:.2f} - {high:.2f}: {here.sum():6} edges, truth {truth[here].mean():.3f}, {facts}")


def selected(
    asked: Sequence[Gathered], held: Sequence[Gathered], share: float, most: int = 100
) -> list[tuple[Gathered, int]]:
    """Conformal selection (Jin and Candès 2023): Benjamini-Hochberg on p-values from held-out tuples that are wrong.

    A candidate is one of the `most` best tuples of a query. One tuple of each held-out query of the shape is drawn.
    """
    rng = np.random.default_rng(0)
    wrong: dict[str, list[float]] = {}
    number: dict[str, int] = {}
    for one in held:
        for i in rng.choice(min(most, len(one.truth)), size=min(10, len(one.truth)), replace=False):
            number[one.shape] = number.get(one.shape, 0) + 1
            if not one.right[i]:
                wrong.setdefault(one.shape, []).append(float(one.truth[i]))
    cut = []
    for one in asked:
        truth = one.truth[:most]
        null = np.sort(np.array(wrong.get(one.shape, [])))
        above = len(null) - np.searchsorted(null, truth, side="left")
        chance = (1 + above) / (1 + number.get(one.shape, 0))
        passed = np.flatnonzero(chance <= share * np.arange(1, len(truth) + 1) / max(1, len(truth)))
        cut.append((one, int(passed[-1]) + 1 if len(passed) else 0))
    return cut


if __name__ == "__main__":
    main()
