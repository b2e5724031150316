"""A graph of the size that many people have, made by rules that are known: facts as tab-separated text.

    python benchmarks/middle_graph.py middle.tsv                 # 100,000 facts, 38,000 entities, 24 relations
    python benchmarks/middle_graph.py small.tsv --facts 5000 --entities 2000

Entities have one of eight types and one of many groups; how often one is drawn falls as a power of its rank. A third of
the relations is loose (any two entities of its two types, mostly of the same group), a third is a function (each head
has one tail), and a third follows from the others: `ruleN(x, z)` is a share of the pairs with `looseN(x, y)` and
`functionN(y, z)`, and a few that are no such pair. The rules and their shares are the same for every seed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TYPES = 8
SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.4, 0.3)  # of the pairs that a rule's body joins
NOISE = 0.05  # of a rule's facts: pairs of the right types that its body does not join
SAME_GROUP = 0.8
GROUP = 120  # entities, about
SLOPE = 1.0  # weight of the i-th entity of a type: 1 / (i + 3) ** SLOPE

Ids = NDArray[np.int64]


class World:
    """Entities with types, groups and weights; what draws from them."""

    def __init__(self, entities: int, generator: np.random.Generator) -> None:
        self.generator = generator
        self.type = generator.integers(TYPES, size=entities)
        self.group = generator.integers(max(1, entities // GROUP), size=entities)
        self.of_type = [generator.permutation(np.flatnonzero(self.type == kind)) for kind in range(TYPES)]
        self.weight = np.zeros(entities)
        for members in self.of_type:
            self.weight[members] = 1 / (np.arange(len(members)) + 3.0) ** SLOPE
        self.in_group: dict[tuple[int, int], Ids] = {}
        for kind, members in enumerate(self.of_type):
            order = members[np.argsort(self.group[members], kind="stable")]
            groups, start = np.unique(self.group[order], return_index=True)
            self.in_group |= {(kind, int(g)): part for g, part in zip(groups, np.split(order, start[1:]), strict=True)}

    def draw(self, members: Ids, count: int) -> Ids:
        """Entities by their weights."""
        weight = self.weight[members]
        return self.generator.choice(members, size=count, p=weight / weight.sum())

    def partners(self, heads: Ids, kind: int) -> Ids:
        """For each head an entity of a type, mostly of its own group."""
        tails = self.draw(self.of_type[kind], len(heads))
        near = self.generator.random(len(heads)) < SAME_GROUP
        for group in np.unique(self.group[heads]):
            mine = np.flatnonzero(near & (self.group[heads] == group))
            if len(mine) and (kind, int(group)) in self.in_group:
                tails[mine] = self.draw(self.in_group[kind, int(group)], len(mine))
        return tails


def facts(entities: int, count: int, seed: int) -> list[tuple[int, str, int]]:
    """Distinct facts, as many as asked for, in random order; if there are enough, every entity is in one."""
    generator = np.random.default_rng(seed)
    world = World(entities, generator)
    found: dict[tuple[int, str, int], None] = {}
    rules = len(SHARES)
    loose, function = int(count * 0.40 / rules), int(count * 0.36 / rules)
    relations: dict[str, tuple[Ids, Ids]] = {}
    for i in range(rules):
        a, b, c = i % TYPES, (i + 3) % TYPES, (i + 5) % TYPES
        heads = generator.permutation(world.of_type[a])[: loose // 2]  # half are drawn alike, so that hubs are not all
        heads = np.concatenate([heads, world.draw(world.of_type[a], loose - len(heads))])
        relations[f"loose{i}"] = heads, world.partners(heads, b)
        middle = generator.permutation(world.of_type[b])[:function]
        relations[f"function{i}"] = middle, world.partners(middle, c)
    for i, share in enumerate(SHARES):
        image = dict(zip(*(part.tolist() for part in relations[f"function{i}"]), strict=True))
        body = {(x, image[y]) for x, y in zip(*(p.tolist() for p in relations[f"loose{i}"]), strict=True) if y in image}
        pairs = np.array(sorted(body), dtype=np.int64).reshape(-1, 2)
        kept = pairs[generator.random(len(pairs)) < share]
        wrong = int(NOISE * len(kept))
        heads = np.concatenate([kept[:, 0], world.draw(world.of_type[i % TYPES], wrong)])
        tails = np.concatenate([kept[:, 1], world.draw(world.of_type[(i + 5) % TYPES], wrong)])
        relations[f"rule{i}"] = heads, tails
    for name, (heads, tails) in relations.items():
        found |= dict.fromkeys((h, name, t) for h, t in zip(heads.tolist(), tails.tolist(), strict=True))
    # What is missing of the number asked for are more loose facts, first those of entities that have none.
    lonely = np.setdiff1d(np.arange(entities), [end for h, _, t in found for end in (h, t)])
    heads = lonely
    while len(found) < count:
        for i in range(TYPES):
            mine = heads[world.type[heads] == i]
            pairs = zip(mine.tolist(), world.partners(mine, (i + 3) % TYPES).tolist(), strict=True)
            found |= dict.fromkeys((h, f"loose{i}", t) for h, t in pairs)
        heads = generator.choice(entities, size=500, p=world.weight / world.weight.sum())
    every = list(found)[:count]
    return [every[i] for i in generator.permutation(count)]


def main() -> None:
    """Write the facts to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--entities", type=int, default=38_000)
    parser.add_argument("--facts", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    made = facts(asked.entities, asked.facts, asked.seed)
    asked.output.write_text("".join(f"e{h}\t{r}\te{t}\n" for h, r, t in made), encoding="utf-8")
    used = len({end for h, _, t in made for end in (h, t)})
    print(f"{len(made):,} facts, {used:,} entities, {len({r for _, r, _ in made})} relations: {asked.output}")


if __name__ == "__main__":
    main()
