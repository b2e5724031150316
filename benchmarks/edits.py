"""Edits of a store at size: what they cost, and what a delta costs the queries after them.

    python benchmarks/edits.py add my.store --batch 1000        # one fact, a batch, removals; opening before and after
    python benchmarks/edits.py shapes my.store --share 0.01     # the 14 shapes without and with a delta, alternating
    python benchmarks/edits.py compact my.store                 # a delta of a share, then its compaction

Works on a copy of store.json: the folders of the store are not touched, and what the edits wrote is deleted at the end
(not after `compact`, which writes new folders: give it a store that may change).
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from exact import SHAPES, Sampler

import tuplet
from tuplet.engines import exact
from tuplet.graph.adjacency import Adjacency
from tuplet.query.ranking import QueryGraph
from tuplet.store import Store

Fact = tuple[str, str, str]
TRIES = 400  # groundings tried per query: cyclic shapes are rare in large sparse graphs


class WalkSampler(Sampler):
    """The sampler of `exact.py` on the rows of a store, whose facts would be too many for dictionaries."""

    def __init__(self, facts: Adjacency, seed: int) -> None:
        self.facts, self.rng = facts, np.random.default_rng(seed)
        self.out = _Rows(facts, 0)  # type: ignore[assignment]
        self.into = _Rows(facts, 1)  # type: ignore[assignment]
        self.joining = _Joining(self.out)  # type: ignore[assignment,arg-type]

    def _pick(self, options):  # type: ignore[no-untyped-def]
        return options[int(self.rng.integers(len(options)))]

    @property
    def triples(self):  # type: ignore[no-untyped-def,override]
        """One random fact, as a list of one."""
        counts = self.facts.view_entries[::2]
        r = int(np.searchsorted(np.cumsum(counts), self.rng.integers(counts.sum()), side="right"))
        rows = self.facts.view(2 * r)
        ends = np.cumsum(rows.lengths)
        which = int(self.rng.integers(ends[-1]))
        row = int(np.searchsorted(ends, which, side="right"))
        head, at = rows.entities[row], rows.stops[row] - (ends[row] - which)
        return [np.array([head, r, self.facts.neighbour[at]])]


class _Rows(defaultdict):  # type: ignore[type-arg]
    def __init__(self, facts: Adjacency, inverse: int) -> None:
        super().__init__(list)
        self.facts, self.inverse = facts, inverse

    def __missing__(self, entity: int) -> list[tuple[int, int]]:
        rows = ((r, self.facts.row(entity, 2 * r + self.inverse)) for r in range(self.facts.relations))
        self[entity] = [(r, int(other)) for r, row in rows for other in row[:64].tolist()]
        return self[entity]


class _Joining(dict):  # type: ignore[type-arg]
    def __init__(self, out: _Rows) -> None:
        super().__init__()
        self.out = out

    def __missing__(self, pair: tuple[int, int]) -> set[int]:
        return {r for r, other in self.out[pair[0]] if other == pair[1]}


def queries(store: Store, count: int) -> dict[str, list[QueryGraph]]:
    sampler = WalkSampler(store.source.facts, 0)
    found: dict[str, list[QueryGraph]] = {}
    for name, shape in SHAPES.items():
        from exact import atoms_of

        made = (sampler._try(atoms_of(shape)) for _ in range(TRIES))
        found[name] = [query for query, _ in zip((q for q in made if q is not None), range(count), strict=False)]
    return found


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """The store as it is now, whatever happens to it inside."""
    before, there = (path / "store.json").read_bytes(), {entry.name for entry in path.iterdir()}
    try:
        yield
    finally:
        (path / "store.json").write_bytes(before)
        for entry in path.iterdir():
            if entry.name not in there:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def random_facts(store: Store, count: int, seed: int) -> list[Fact]:
    """New facts: head and relation of one fact, the tail of another one of the same relation, as likely as they are."""
    facts, rng = store.source.facts, np.random.default_rng(seed)
    per = rng.multinomial(count, facts.view_entries[::2] / facts.edges)
    found: list[Fact] = []
    for r in np.flatnonzero(per).tolist():
        heads, tails, _ = facts.relation(r)
        h, t = (store.graph.entities.names(side[rng.integers(0, len(side), per[r])]) for side in (heads, tails))
        found += [(a, store.graph.relations.name(r), b) for a, b in zip(h, t, strict=True)]
    rng.shuffle(found)  # type: ignore[arg-type]
    return found


def timed(work, *given):  # type: ignore[no-untyped-def]
    """Wall and CPU seconds, and what came of it."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work(*given)
    return time.perf_counter() - wall, time.process_time() - cpu, result


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def add(options: argparse.Namespace) -> None:
    with unchanged(options.store):
        wall, cpu, store = timed(tuplet.open, options.store)
        print(f"open: {wall:.3f} s, CPU {cpu:.3f} s")
        single = random_facts(store, options.singles + 1, 1)
        store.add(single[:1])  # the relation is verified, code is loaded
        for name, change in (("add", store.add), ("remove", store.remove)):
            times = [1e3 * timed(change, [fact])[0] for fact in single[1:]]
            print(f"{name} 1 fact: median {statistics.median(times):.1f} ms, largest {max(times):.1f} ms")
        batch = random_facts(store, options.batch, 2)
        for name, change in (("add", store.add), ("remove", store.remove)):
            wall, cpu, report = timed(change, batch)
            changed = report.added or report.removed
            print(f"{name} {len(batch):,} facts: {wall:.2f} s, CPU {cpu:.2f} s, {changed:,} changed")
            times = [1e3 * timed(store.add, [fact])[0] for fact in single[1:6]]
            print(f"  then add 1 fact: median {statistics.median(times):.1f} ms")
            wall, cpu, _ = timed(tuplet.open, options.store)
            print(f"  then open: {wall:.3f} s, CPU {cpu:.3f} s")
        print(f"peak memory {peak():.2f} GB")


def shapes(options: argparse.Namespace) -> None:
    with unchanged(options.store):
        plain = tuplet.open(options.store)
        asked = queries(plain, options.queries)
        edited = tuplet.open(options.store)
        wall, cpu, _ = timed(edited.add, random_facts(plain, int(options.share * plain.source.facts.edges), 3))
        print(f"delta of {options.share:.1%} of the facts: {wall:.1f} s, CPU {cpu:.1f} s")
        tables = [store.source.truth.table(range(len(store.graph.relations))) for store in (plain, edited)]
        rank = plain.graph.entities.sort_rank
        exact.warm()
        means: list[list[float]] = [[], []]
        for name, some in asked.items():
            best = np.full((2, len(some)), np.inf)
            for _ in range(options.rounds):
                for side, table in enumerate(tables):
                    for i, query in enumerate(some):
                        start = time.thread_time()
                        exact.run(exact.plan([query], table, rank), 100)
                        best[side, i] = min(best[side, i], 1e3 * (time.thread_time() - start))
            if some:
                for side in (0, 1):
                    means[side].append(float(best[side].mean()))
                print(f"{name}: {len(some)} queries, {means[0][-1]:.3f} ms, with the delta {means[1][-1]:.3f} ms")
        one, two = (float(np.mean(side)) for side in means)
        print(json.dumps({"mean_ms": round(one, 4), "with_delta_ms": round(two, 4), "ratio": round(two / one, 3)}))


def compaction(options: argparse.Namespace) -> None:
    store = tuplet.open(options.store)
    store.add(random_facts(store, int(options.share * store.source.facts.edges), 4))
    wall, cpu, done = timed(store.compact)
    print(f"compact: {wall:.1f} s, CPU {cpu:.1f} s, {done}; peak memory {peak():.2f} GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["add", "shapes", "compact"])
    parser.add_argument("store", type=Path)
    parser.add_argument("--singles", type=int, default=20)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=0.01)
    options = parser.parse_args()
    {"add": add, "shapes": shapes, "compact": compaction}[options.what](options)


if __name__ == "__main__":
    main()
