"""A negated atom is not its positive twin: not in the status of an answer, and not where clauses are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

import tuplet
from tuplet.build import make
from tuplet.truth.recipes import Facts


@pytest.fixture
def store(tmp_path: Path) -> tuplet.Store:
    facts = [("a", "r", "b", 0.4), ("a", "s", "b", 0.8), ("c", "s", "b", 0.8), ("c", "t", "b", 0.5)]
    make(tuplet.read(facts), Facts(("train",)), tmp_path / "w.store")
    return tuplet.open(tmp_path / "w.store")


def test_the_negation_of_a_stated_fact_is_not_stated(store: tuplet.Store) -> None:
    answers = store.ask("?x : s(?x, b) & !r(?x, b)", k=5)
    found = {answer["x"]: (pytest.approx(answer.truth), answer.status) for answer in answers}
    assert found == {"c": (0.8, "observed"), "a": (0.48, "mixed")}


def test_clauses_that_differ_in_a_negation_are_two(store: tuplet.Store) -> None:
    query = "?x : s(?x, b) & t(?x, b) | s(?x, b) & !t(?x, b)"
    answers = store.ask(query, k=5)
    # c: 0.8 · 0.5 from either clause; a: nothing from the first
    assert {answer["x"]: pytest.approx(answer.truth) for answer in answers} == {"c": 1 - 0.6 * 0.6, "a": 0.8}
    both = store.ask("?x : s(?x, b) & t(?x, b) & !t(?x, b)", k=5)
    assert [answer.truth for answer in both] == [pytest.approx(0.8 * 0.5 * 0.5)]
