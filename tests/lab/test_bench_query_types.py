"""The counts of the two profiles, exactly, and what a type says about itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuplet.errors import BadInput
from tuplet.lab.bench.query_types import canonical, types
from tuplet.lab.bench.shapes import JOINT, QueryShape, parse_formula, shape


def numbers(edges: Iterable[tuple[str, str, bool]]) -> list[tuple[tuple[int, int], tuple[int, int], bool]]:
    """The ends of edges as kind and number."""
    (heads, tails, negated) = zip(*edges, strict=True)
    ends = ([("sef".index(n[0]), int(n[1:])) for n in part] for part in (heads, tails))
    return list(zip(*ends, negated, strict=True))


def test_complete_has_1907_types() -> None:
    found = types()
    counts = Counter((len(t.free), t.negations) for t in found)
    assert counts == {(1, 0): 112, (1, 1): 290, (2, 0): 379, (2, 1): 1126}
    assert len({t.formula for t in found}) == 1907


def test_published_has_741_types_of_which_552_differ() -> None:
    found = types("published741")
    assert Counter(len(t.free) for t in found) == {1: 251, 2: 490}
    assert Counter(t.negations for t in found) == {0: 379, 1: 362}
    different = {t.formula: len(t.free) for t in found}
    assert Counter(different.values()) == {1: 159, 2: 393}
    assert different.keys() < {t.formula for t in types()}


def test_published_counts_by_existentials_and_topology() -> None:
    found = Counter((len(t.constants), len(t.exists), t.topology) for t in types("published741") if len(t.free) == 2)
    assert found == {
        (1, 0, "S"): 1, (1, 0, "M"): 2,
        (1, 1, "S"): 7, (1, 1, "M"): 18, (1, 1, "C"): 4,
        (1, 2, "S"): 6, (1, 2, "M"): 32, (1, 2, "C"): 26,
        (2, 0, "S"): 4, (2, 0, "M"): 4,
        (2, 1, "S"): 20, (2, 1, "M"): 36, (2, 1, "C"): 8,
        (2, 2, "S"): 38, (2, 2, "M"): 108, (2, 2, "C"): 64,
        (3, 0, "S"): 4, (3, 0, "M"): 4,
        (3, 1, "S"): 32, (3, 1, "M"): 60, (3, 1, "C"): 12,
    }  # fmt: skip


def cycle_length(found: QueryShape) -> int:
    """Of a graph with one cycle: what is left when leaves are taken off."""
    pairs = {edge[1:3] for edge in found.clauses[0]}
    while True:
        degree = Counter(n for pair in pairs for n in pair)
        inner = {pair for pair in pairs if all(degree[n] > 1 for n in pair)}
        if inner == pairs:
            return len(pairs)
        pairs = inner


def test_published_cycles_are_triangles_and_complete_ones_are_not_only() -> None:
    assert Counter(cycle_length(t) for t in types("published741") if t.topology == "C") == {3: 138}
    assert {cycle_length(t) for t in types() if t.topology == "C"} == {3, 4}


def test_the_seven_named_types_of_two_variables_are_published() -> None:
    published = {t.formula for t in types("published741")}
    by_form = {canonical(numbers(e[1:] for e in t.clauses[0])) for t in types("published741")}
    for name in JOINT[:7]:
        (clause,) = shape(name).clauses
        assert canonical(numbers(e[1:] for e in clause)) in by_form, name
    (other,) = parse_formula("r1(s1,f1)&r2(s2,f2)&!r3(f1,f2)")
    assert canonical(numbers(e[1:] for e in other)) in by_form
    assert "((r1(s1,f1))&(r2(s2,f2)))&(!(r3(f1,f2)))" in published


def test_formula_edges_and_numbers_agree() -> None:
    for found in types()[::37]:
        assert parse_formula(found.formula) == found.clauses
        nodes = {n for edge in found.clauses[0] for n in edge[1:3]}
        assert Counter(n[0] for n in nodes) == Counter(f=len(found.free), e=len(found.exists), s=len(found.constants))


def test_limits_reach_beyond_the_benchmark() -> None:
    three = types(free=3, exists=0, constants=1, surplus=0, negations=0)
    # Trees on one, two and three free variables with one constant on any node, up to names.
    assert Counter(len(t.free) for t in three) == {1: 1, 2: 1, 3: 2}
    twice = types(free=2, exists=0, constants=2, negations=2)
    assert max(t.negations for t in twice) == 2


def test_mistakes_are_named() -> None:
    with pytest.raises(BadInput, match="did you mean 'published741'"):
        types("published")
    with pytest.raises(BadInput, match="unknown limit 'constant'; did you mean 'constants'"):
        types(constant=3)


@given(st.integers(0, 1906), st.randoms())
def test_canonical_form_does_not_depend_on_names_or_order(number: int, random) -> None:  # type: ignore[no-untyped-def]
    found = types()[number]
    nodes = sorted({n for edge in found.clauses[0] for n in edge[1:3]})
    renamed = {}
    for kind in "sef":
        own = [n for n in nodes if n[0] == kind]
        renamed |= dict(zip(own, random.choice(list(permutations(own))), strict=True))
    edges = [(renamed[e.tail], renamed[e.head], e.negated) for e in found.clauses[0]]
    random.shuffle(edges)
    assert canonical(numbers(edges)) == tuple(numbers(e[1:] for e in found.clauses[0]))
