"""Random queries with attributes, written as logic text and asked: every engine finds what their definition says.

The whole of it: `TUPLET_SOAK=1 pytest tests/contracts/test_contract_attributes.py` (2,000 queries).
One query again: `TUPLET_SEED=17 pytest tests/contracts/test_contract_attributes.py -k one`.
"""

from __future__ import annotations

import os
from functools import lru_cache
from random import Random
from typing import Any

import pytest
from attribute_meaning import Meaning, cut
from attribute_queries import Ask, Cell, Ent, Maker, Row, written
from attribute_worlds import World

from repeatable import seeds
from tuplet.errors import BadInput
from tuplet.query.answers import Answers
from tuplet.query.rows import Named
from tuplet.store import Store

BLOCKS = seeds(4, 40)
PER_BLOCK = 50
QUERIES_PER_WORLD = 5
ENGINES = ("brute", "exact", "ns3")


@lru_cache(maxsize=2)
def world_of(seed: int) -> World:
    return World.random(Random(seed))


def case(seed: int) -> tuple[World, Ask, Random]:
    world = world_of(seed // QUERIES_PER_WORLD)
    rng = Random(f"query {seed}")
    return world, Maker(world, rng).ask(), rng


def cells(answers: Answers) -> list[tuple[Cell, ...]]:
    places = range(len(answers.variables)) if answers.columns is None else answers.columns
    entities = {v for v, place in zip(answers.variables, places, strict=True) if isinstance(place, int)}
    return [
        tuple(Ent(str(c)) if v in entities or isinstance(c, Named) else c for v, c in answer.values.items())
        for answer in answers
    ]


def judge(ask: Ask, expected: list[Row], store: Store, engine: str, crisp: bool, **limits: Any) -> None:
    """Compare what is answered with what is expected, all rows of it."""
    text = written(ask)
    answers = store.ask(text, engine=engine, budget="all", **limits)
    note = f"{engine}: {text} {limits}"
    if ask.form == "ask":
        assert answers.holds == bool(expected), note
        return
    if ask.form == "count":
        assert answers.number is not None
        assert answers.number.answers == len(expected), note
        assert answers.number.expected == pytest.approx(sum(row.truth for row in expected)), note
        return
    k = limits.get("k", ask.limit if ask.limit is not None else 10)
    wanted = cut(expected, ask, crisp, None if k == "all" else k, ask.offset)
    assert cells(answers) == [row.cells for row in wanted], note
    assert [typed(row) for row in cells(answers)] == [typed(row.cells) for row in wanted], note
    assert answers.ranking.truth.tolist() == pytest.approx([row.truth for row in wanted]), note
    assert answers.exact, note


def typed(row: tuple[Cell, ...]) -> list[type]:
    return [type(cell) for cell in row]


def check(seed: int) -> int:
    world, ask, rng = case(seed)
    k: dict[str, Any] = rng.choice([{}, {"k": "all"}, {"k": 3}])
    facts = Meaning(world, ask, facts=True).rows()
    try:
        judge(ask, facts, world.facts_store, "crisp", True, **k)
    except BadInput as refused:  # one of several values would have to fit two others at once
        if "several values and is compared with two others" in str(refused):
            return 0
        raise
    godel, only = rng.random() < 0.3, rng.choice([None, None, "predicted", "observed"])
    only = None if ask.form == "ask" else only
    more = {**k, "logic": "godel" if godel else "product", **({"only": only} if only else {})}
    if ask.form == "ask":
        judge(ask, facts, world.store, "exact", False)
        more["ask_threshold"] = 0.0001
    expected = Meaning(world, ask, godel).rows(only)
    for engine in ENGINES:
        judge(ask, expected, world.store, engine, False, **more)
    return len(expected)


@pytest.mark.parametrize("block", BLOCKS)
def test_engines_find_what_the_definition_says(block: int) -> None:
    answered = [check(seed) > 0 for seed in range(PER_BLOCK * block, PER_BLOCK * (block + 1))]
    assert sum(answered) > PER_BLOCK / 5


@pytest.mark.skipif("TUPLET_SEED" not in os.environ, reason="one query, by its number")
def test_one_query() -> None:
    seed = int(os.environ["TUPLET_SEED"])
    check(seed)
