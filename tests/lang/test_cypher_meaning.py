"""Random patterns on random property graphs: the rows that a search of every choice of relationships finds."""

from __future__ import annotations

import random
from itertools import product

from cypher_tck import SetUp, entity

from repeatable import seeds
from tuplet.errors import BudgetExceeded

TYPES = ("R", "S")
LABELS = ("A", "B")


def random_graph(rng: random.Random) -> SetUp:
    """A graph of a few nodes with labels and numbers, and relationships with years; self-loops are likely."""
    setup = SetUp()
    for _ in range(rng.randint(2, 4)):
        setup.labels.append(rng.sample(LABELS, rng.randint(0, 2)))
        setup.properties.append({"num": rng.randint(0, 2)} if rng.random() < 0.7 else {})
    nodes = range(len(setup.labels))
    setup.labels[0], setup.properties[0] = list(LABELS), {"num": 1}
    setup.relationships = {(0, kind, 1): {"year": 1} for kind in TYPES}
    for head, kind, tail in rng.sample([*product(nodes, TYPES, nodes)], rng.randint(2, 6)):
        setup.relationships[head, kind, tail] = {"year": rng.randint(0, 2)} if rng.random() < 0.8 else {}
    return setup


class Pattern:
    """A random query with its own meaning."""

    def __init__(self, rng: random.Random) -> None:
        self.links: list[
            list[tuple[str, tuple[str, ...], str, str, int | None]]
        ] = []  # left, types, arrow, right, year
        self.least = {name: rng.randint(0, 2) for name in "abc" if rng.random() < 0.2}
        self.labels = {name: rng.choice(LABELS) for name in "abc" if rng.random() < 0.2}
        self.apart = rng.random() < 0.2
        self.absent = rng.random() < 0.3
        for _ in range(rng.choice([1, 1, 2])):
            steps = []
            left = rng.choice("abc")
            for _ in range(rng.choice([1, 2, 2, 3])):
                right = rng.choice("abc")
                types = rng.choice([(), ("R",), ("R",), ("S",), TYPES])
                year = rng.randint(0, 2) if rng.random() < 0.15 else None
                steps.append((left, types, rng.choice(["->", "<-", "-"]), right, year))
                left = right
            self.links.append(steps)
        used = {name for steps in self.links for link in steps for name in (link[0], link[3])}
        self.names = sorted(used)

    def text(self) -> str:
        clauses = []
        for steps in self.links:
            path = f"({steps[0][0]})"
            for _, types, arrow, right, year in steps:
                about = (":" + "|".join(types) if types else "") + (f" {{year: {year}}}" if year is not None else "")
                begin, end = {"->": ("-", "->"), "<-": ("<-", "-"), "-": ("-", "-")}[arrow]
                path += f"{begin}[{about}]{end}({right})"
            clauses.append(f"MATCH {path}")
        tests = [f"{name}.num >= {least}" for name, least in self.least.items() if name in self.names]
        tests += [f"{name}:{label}" for name, label in self.labels.items() if name in self.names]
        tests += [f"{one} <> {two}" for one, two in self.pair() if self.apart]
        tests += [f"NOT ({one})-[:R]->({two})" for one, two in self.pair() if self.absent]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return f"{' '.join(clauses)}{where} RETURN {', '.join(self.names)}"

    def pair(self) -> list[tuple[str, str]]:
        return [(self.names[0], self.names[-1])] if len(self.names) > 1 else []

    def rows(self, setup: SetUp) -> set[tuple[str, ...]]:
        found = set()
        for nodes in product(range(len(setup.labels)), repeat=len(self.names)):
            at = dict(zip(self.names, nodes, strict=True))
            if self.holds(at, setup) and all(self.matched(steps, at, setup) for steps in self.links):
                found.add(tuple(map(entity, nodes)))
        return found

    def holds(self, at: dict[str, int], setup: SetUp) -> bool:
        for name, least in self.least.items():
            if name in at and setup.properties[at[name]].get("num", -1) < least:
                return False
        if any(name in at and label not in setup.labels[at[name]] for name, label in self.labels.items()):
            return False
        pairs = [(at[one], at[two]) for one, two in self.pair()]
        if self.apart and any(one == two for one, two in pairs):
            return False
        return not (self.absent and any((one, "R", two) in setup.relationships for one, two in pairs))

    def matched(
        self, steps: list[tuple[str, tuple[str, ...], str, str, int | None]], at: dict[str, int], setup: SetUp
    ) -> bool:
        """Whether there is a choice of relationships, no two the same, for the steps of a path."""
        options = []
        for left, types, arrow, right, year in steps:
            ends = [(at[left], at[right])] if arrow != "<-" else []
            ends += [(at[right], at[left])] if arrow != "->" else []
            options.append(
                [
                    key
                    for key, properties in setup.relationships.items()
                    if (key[0], key[2]) in ends
                    and key[1] in (types or TYPES)
                    and (year is None or properties.get("year") == year)
                ]
            )
        return any(len(set(choice)) == len(choice) for choice in product(*options))


def test_patterns_mean_what_a_search_of_all_choices_finds() -> None:
    asked = 0
    for seed in seeds(120, 3000):
        rng = random.Random(seed)
        setup, pattern = random_graph(rng), Pattern(rng)
        text = pattern.text()
        try:
            answers = setup.graph().ask(text, k="all")
        except BudgetExceeded:  # so many directions and inequalities
            continue
        assert {tuple(answer) for answer in answers} == pattern.rows(setup), f"{seed}: {text}"
        assert all(answer.truth == 1 for answer in answers)
        asked += len(answers) > 0
    assert asked > 30
