"""A graph of any size that is made by known rules, the same shape at every size; needs numpy alone.

    python benchmarks/large_graph.py OUT.npz --entities 4600000 --relations 822 --facts 20600000     # Wikidata5M's size
    python benchmarks/large_graph.py OUT.parquet --entities 100000 --facts 1000000                   # `tuplet import`

An .npz holds `train`, `valid` and `test` (int32 [3, n]: heads, relations, tails), `entities`, `relations` and `types`
(of each entity). A .parquet or .tsv holds the facts by name in random order; with --splits, those of valid and test are
in files beside it (OUT.valid.tsv).

Types have Zipf sizes. Every entity lies in a place: about two hundred entities share a town, sixteen towns a district.
Towns and districts are entities of two types of their own. Four relations in a row belong together:

    nearI(x, y)   y is mostly of the town of x, or is that town itself       oneI(y, z)   the same, one z for each y
    ruleI(x, z)   a share of the pairs with nearI(x, y) and oneI(y, z)       wideI(x, y)  y is famous in the district

The share is from 0.4 to 0.9. A part of the facts is noise: any two entities of the right types. How often a relation
occurs falls with its number, how often an entity is drawn falls as a power of its rank: in its place and, for noise, in
its type. A tenth of the facts, at most one for each entity, say its type; they are never held out.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TOWN = 200  # entities of a town, on average
TOWNS = 16  # towns of a district
NEAR, WIDE, NOISE_IN_RULES = 0.9, 0.7, 0.05  # shares of the facts that keep to the place, or break a rule
SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)  # of the pairs that a rule's body joins
TYPE_FACTS = 0.1
HELD_OUT = 0.01  # of the facts, in each of valid and test
OVER = 1.1  # how many more are drawn, for those drawn twice

Ids = NDArray[np.int64]


class Facts(NamedTuple):
    """Facts as columns, and what they are about."""

    heads: NDArray[np.int32]
    relation: NDArray[np.int32]
    tails: NDArray[np.int32]
    held_out: NDArray[np.int8]  # 0 train, 1 valid, 2 test
    types: NDArray[np.int16]  # of each entity; the entities that stand for types come last and are of none (-1)


class Places:
    """Entities by type and town; what draws from them.

    Inside, entities are numbered by type, then by town, then by rank, so those of a type in a town or in a district
    are neighbours. The numbers outside are shuffled.
    """

    def __init__(self, entities: int, types: int, rng: np.random.Generator) -> None:
        self.rng, self.entities = rng, entities
        self.towns = max(TOWNS, entities // TOWN)
        weight = 1 / (np.arange(self.towns) % 97 + 10.0) ** 0.7  # towns of all sizes in every district
        districts = -(-self.towns // TOWNS)
        rest = entities - self.towns - districts
        share = 1 / np.arange(1, types - 1) ** 0.9
        sizes = np.maximum(1, (share / share.sum() * rest).astype(np.int64))
        sizes[0] += rest - sizes.sum()
        towns = [np.arange(self.towns), np.arange(districts) * TOWNS]
        for size in sizes.tolist():
            towns.append(np.sort(rng.choice(self.towns, size, p=weight / weight.sum())))
        self.town = np.concatenate(towns)
        self.size = np.array([self.towns, districts, *sizes])
        self.first = np.concatenate([[0], np.cumsum(self.size)])
        self.type = np.repeat(np.arange(types), self.size)
        counts = np.bincount(self.type * self.towns + self.town, minlength=types * self.towns)
        self.cell = np.concatenate([[0], np.cumsum(counts)])  # where (type, town) begins
        self.by_fame = np.lexsort((rng.random(entities), self.type))  # another order within each type
        self.outside = rng.permutation(entities)

    def famous(self, kind: int, count: int, power: float) -> Ids:
        """Entities of a type, the i-th one with a chance that falls about as i ** -power."""
        rank = self.size[kind] * self.rng.random(count) ** (1 / (1 - power))
        return self.by_fame[self.first[kind] + rank.astype(np.int64)]

    def spread(self, kind: int, count: int) -> Ids:
        """Entities of a type, first each of them once in random order as far as they go, then by fame."""
        once = self.first[kind] + self.rng.permutation(self.size[kind])[: count - count // 2]
        return np.concatenate([once, self.famous(kind, count - len(once), 0.5)])

    def partners(self, others: Ids, kind: int, near: float, of_district: bool = False) -> Ids:
        """For each entity one of a type: with chance `near` of its town (if none is there, of its district)."""
        rng, count = self.rng, len(others)
        town = kind * self.towns + self.town[others]
        district = town - self.town[others] % TOWNS
        low, high = self.cell[town], self.cell[town + 1]
        empty = (low == high) | of_district
        end = np.minimum(district + TOWNS, (kind + 1) * self.towns)
        low, high = np.where(empty, self.cell[district], low), np.where(empty, self.cell[end], high)
        power = 3.0 if of_district else 1.7
        found = low + ((high - low) * rng.random(count) ** power).astype(np.int64)
        far = (low == high) | (rng.random(count) >= near)
        found[far] = self.famous(kind, int(far.sum()), 0.7)
        return found


def relation_names(relations: int) -> list[str]:
    """The names of the relations in their order.

    >>> relation_names(6)
    ['near0', 'one0', 'rule0', 'wide0', 'near1', 'type']
    """
    kinds = "near", "one", "rule", "wide"
    return [f"{kinds[i % 4]}{i // 4}" for i in range(relations - 1)] + ["type"]


def entity_names(types: NDArray[np.int16]) -> list[str]:
    """The names of the entities in their order: e0, e1, …, then those that stand for types.

    >>> entity_names(np.array([3, 1, -1, -1], np.int16))
    ['e0', 'e1', 'type0', 'type1']
    """
    things = int((types >= 0).sum())
    return [f"e{i}" for i in range(things)] + [f"type{i}" for i in range(len(types) - things)]


def distinct(heads: Ids, tails: Ids, entities: int, count: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """At most so many of the pairs, each once and none a loop."""
    keys = np.unique((heads * entities + tails)[heads != tails])
    if len(keys) > count:
        keys = rng.choice(keys, count, replace=False, shuffle=False)
    return keys // entities, keys % entities


def make(entities: int, relations: int, facts: int, seed: int) -> Facts:
    """The graph; about as many facts as asked for, a few less where many are drawn twice."""
    rng = np.random.default_rng(seed)
    types = max(10, relations // 8)
    things = entities - types
    world = Places(things, types, rng)
    groups = -(-(relations - 1) // 4)
    often = 1 / (np.arange(groups) + 2.0)
    wanted = np.maximum(20, facts * (1 - TYPE_FACTS) * often / often.sum() / 3).astype(
        np.int64
    )  # rules take what comes
    likely = world.size[2:] / world.size[2:].sum()
    pairs: dict[int, tuple[Ids, Ids]] = {}

    def kind_for(count: int) -> int:
        """A type with about as many entities as a relation has facts."""
        distance = np.abs(np.log(world.size[2:] / count)) + rng.exponential(1.0, types - 2)
        return 2 + int(distance.argmin())

    def keep(number: int, heads: Ids, tails: Ids, count: int) -> None:
        if number < relations - 1:
            pairs[number] = distinct(heads, tails, things, count, rng)

    wide = []
    for group, count in enumerate(wanted.tolist()):
        near, one, rule = 4 * group, 4 * group + 1, 4 * group + 2
        a, b, c = 2 + int(rng.choice(types - 2, p=likely)), kind_for(count), 2 + int(rng.choice(types - 2, p=likely))
        if group % 3 == 1:  # person, town, district
            a, b, c = kind_for(count), 0, 1
        elif group % 3 == 2:  # person, employer, town
            c = 0
        heads = world.spread(a, int(count * OVER))
        keep(near, heads, world.partners(heads, b, NEAR), count)
        heads = world.first[b] + np.sort(rng.permutation(world.size[b])[:count])
        keep(one, heads, world.partners(heads, c, NEAR), count)
        if one in pairs:
            image = np.full(world.size[b], -1)
            image[pairs[one][0] - world.first[b]] = pairs[one][1]
            heads, middle = pairs[near]
            ends = image[middle - world.first[b]]
            kept = (ends >= 0) & (rng.random(len(ends)) < SHARES[group % len(SHARES)])
            wrong = int(NOISE_IN_RULES * kept.sum())
            heads = np.concatenate([heads[kept], world.spread(a, wrong)])
            keep(rule, heads, np.concatenate([ends[kept], world.famous(c, wrong, 0.7)]), len(heads))
        wide.append((group, a, kind_for(count)))
    # What is missing of the number asked for is wide.
    lacking = int(facts * (1 - TYPE_FACTS)) - sum(len(heads) for heads, _ in pairs.values())
    for group, a, b in wide:
        count = max(20, int(lacking * often[group] / often.sum()))
        heads = world.spread(a, int(count * OVER))
        keep(4 * group + 3, heads, world.partners(heads, b, WIDE, of_district=True), count)

    sizes = [len(pairs[number][0]) for number in range(relations - 1)]
    relation = np.repeat(np.arange(relations - 1), sizes)
    heads, tails = (np.concatenate([pairs[number][end] for number in range(relations - 1)]) for end in (0, 1))
    pairs.clear()
    degree = np.bincount(heads, minlength=things) + np.bincount(tails, minlength=things)
    split = np.zeros(len(heads), np.int8)
    held = rng.permutation(len(heads))[: 2 * int(HELD_OUT * len(heads))]
    held = held[(degree[heads[held]] > 1) & (degree[tails[held]] > 1)]
    split[held] = 1 + np.arange(len(held)) % 2
    # Whatever has no fact is told its type first.
    typed = np.argsort(degree > 0, kind="stable") if (degree == 0).any() else np.arange(things)
    lonely = int((degree == 0).sum())
    typed[lonely:] = rng.permutation(typed[lonely:])
    typed = typed[: min(things, max(lonely, int(facts * TYPE_FACTS)))]
    outside = world.outside.astype(np.int32)
    kind = np.full(entities, -1, np.int16)
    kind[outside] = world.type
    return Facts(
        np.concatenate([outside[heads], outside[typed]]),
        np.concatenate([relation, np.full(len(typed), relations - 1)]).astype(np.int32),
        np.concatenate([outside[tails], (things + world.type[typed]).astype(np.int32)]),
        np.concatenate([split, np.zeros(len(typed), np.int8)]),
        kind,
    )


def write_arrays(path: Path, made: Facts, relations: int) -> None:
    """An .npz with the splits."""
    splits = {}
    for code, split in enumerate(("train", "valid", "test")):
        some = np.flatnonzero(made.held_out == code)
        splits[split] = np.stack([part[some] for part in (made.heads, made.relation, made.tails)])
    np.savez(path, entities=len(made.types), relations=relations, types=made.types, **splits)


def write_names(path: Path, made: Facts, relations: int, some: Ids) -> None:
    """Some facts by name, as Parquet or as tab-separated text."""
    names = np.array(entity_names(made.types)), np.array(relation_names(relations))
    step = 1_000_000
    parts = (some[begin : begin + step] for begin in range(0, len(some), step))
    columns = (
        (names[0][made.heads[part]], names[1][made.relation[part]], names[0][made.tails[part]]) for part in parts
    )
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([(column, pa.string()) for column in ("head", "relation", "tail")])
        with pq.ParquetWriter(path, schema) as writer:
            for part in columns:
                writer.write_table(pa.table([pa.array(column) for column in part], schema=schema))
        return
    with open(path, "w", encoding="utf-8") as stream:
        for part in columns:
            stream.writelines(f"{h}\t{r}\t{t}\n" for h, r, t in zip(*(column.tolist() for column in part), strict=True))


def type_and_degree_mrr(train: NDArray[np.int32], valid: NDArray[np.int32], entities: int) -> float:
    """Filtered MRR of valid edges [3, n], both directions, of an order that any predictor must beat.

    First come the entities that train facts of the relation have at that end, by degree, then the others, by degree.
    Known answers do not count; equal ones count by expectation, as in `tuplet train`.

    >>> facts = np.array([[0, 1, 2], [0, 0, 0], [3, 3, 4]], np.int32)  # answers: 3, 4, then the others; 0, 1, 2, then
    >>> round(type_and_degree_mrr(facts, np.array([[2], [0], [3]], np.int32), entities=6), 3)  # first, and the only one
    1.0
    """
    degree = np.bincount(np.concatenate([train[0], train[2]]), minlength=entities)
    everyone = np.sort(degree)
    train, known = (part[:, np.argsort(part[1], kind="stable")] for part in (train, np.concatenate([train, valid], 1)))
    total = 0.0
    for r in np.unique(valid[1]).tolist():
        mine, learned = (part[:, slice(*np.searchsorted(part[1], [r, r + 1]))] for part in (known, train))
        chosen = valid[:, valid[1] == r]
        for near, far in ((0, 2), (2, 0)):
            is_seen = np.zeros(entities, bool)
            is_seen[learned[far]] = True
            seen = np.sort(degree[is_seen])
            for question, target in zip(chosen[near].tolist(), chosen[far].tolist(), strict=True):
                better, equal = _above(seen, degree[target])
                if not is_seen[target]:
                    above, level = _above(everyone, degree[target])
                    better, equal = len(seen) + above - better, level - equal
                others = np.setdiff1d(mine[far][mine[near] == question], target)
                order = (is_seen[others].astype(int) - is_seen[target]) * 2 * train.shape[1]
                order += degree[others] - degree[target]
                better, equal = better - (order > 0).sum(), equal - 1 - (order == 0).sum()
                total += 1 / (1 + better + equal / 2)
    return float(total / (2 * valid.shape[1]))


def _above(ordered: Ids, value: int) -> tuple[int, int]:
    """How many of rising numbers are larger, and how many are equal."""
    low, high = np.searchsorted(ordered, value), np.searchsorted(ordered, value, "right")
    return len(ordered) - int(high), int(high - low)


def main() -> None:
    """Make and write a graph; print what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="an .npz, .parquet or .tsv file")
    parser.add_argument("--entities", type=int, default=46_000)
    parser.add_argument("--relations", type=int, default=200)
    parser.add_argument("--facts", type=int, default=206_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--splits", action="store_true", help="by name: held-out facts in files of their own")
    asked = parser.parse_args()
    began = time.perf_counter()
    made = make(asked.entities, asked.relations, asked.facts, asked.seed)
    seconds = time.perf_counter() - began
    if asked.output.suffix == ".npz":
        write_arrays(asked.output, made, asked.relations)
    else:
        order = np.random.default_rng(asked.seed).permutation(len(made.heads))
        splits = ("", ".valid", ".test") if asked.splits else ("",)
        for code, split in enumerate(splits):
            some = order[made.held_out[order] == code] if asked.splits else order
            path = asked.output.with_suffix(split + asked.output.suffix)
            write_names(path, made, asked.relations, some)
    degree = np.bincount(np.concatenate([made.heads, made.tails]), minlength=asked.entities)
    about = {
        "entities": int((degree > 0).sum()),
        "relations": len(np.unique(made.relation)),
        "facts": len(made.heads),
        "held_out": int((made.held_out > 0).sum()),
        "median_degree": float(np.median(degree)),
        "largest_degree": int(degree.max()),
        "seconds": round(seconds, 1),
        "written_seconds": round(time.perf_counter() - began - seconds, 1),
    }
    print(json.dumps(about))


if __name__ == "__main__":
    main()
