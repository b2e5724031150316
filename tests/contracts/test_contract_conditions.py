"""Conditions on variables: every engine keeps to them as the oracle does, or refuses them by name."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from engine_contract import SOAK, atom_product, random_query, random_table
from random_conditions import with_conditions

from tuplet import registry
from tuplet.engines import brute
from tuplet.errors import BadInput
from tuplet.graph.ranked import members
from tuplet.query.conditions import Within
from tuplet.query.engine import Engine
from tuplet.query.limits import NO_LIMITS
from tuplet.query.logic import Logic
from tuplet.query.query_graph import Edge, QueryGraph


def test_an_engine_that_does_not_know_a_condition_refuses_it() -> None:
    clause = QueryGraph(("x",), (0,), (Edge(~0, 0, 0),), conditions=(Within(0, members(np.array([1]))),))
    refused = 0
    for name in registry.names("engines"):
        engine: Engine[Any] = registry.find("engines", name)
        if Within in engine.conditions:
            continue
        refused += 1
        with pytest.raises(BadInput, match=f"engine '{name}' does not know conditions"):
            engine.planned([clause], cast(Any, SimpleNamespace()), NO_LIMITS)
    assert refused


def test_the_oracle_does_as_the_definition_says() -> None:
    answered = 0
    for seed in range(300 if SOAK else 40):
        rng = np.random.default_rng([seed, 18])
        table = random_table(rng, 4, 2, 0.5, coarse=True)
        clauses = with_conditions(rng, random_query(rng, table, most_free=2), table)
        clauses = [clause for clause in clauses if len(clause.variables) < 6]
        if not clauses:
            continue
        logic = Logic.of(("product", "godel")[seed % 2])
        found = brute.combined(clauses, brute.matrices(table), table.entities, logic)
        for answer in itertools.product(range(table.entities), repeat=len(clauses[0].free)):
            total = 0.0
            for clause in clauses:
                best = 0.0
                for values in itertools.product(range(table.entities), repeat=len(clause.variables)):
                    if all(values[v] == entity for v, entity in zip(clause.free, answer, strict=True)):
                        best = max(best, atom_product(clause, values, table, logic))
                total = float(logic.disjunction(total, best))
            np.testing.assert_allclose(found[answer], total, rtol=1e-9)
            answered += total > 0
    assert answered
