"""Conditions on variables: every engine keeps to them as the oracle does, or refuses them by name."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from engine_contract import atom_product, check, check_cut_short, random_query, random_table, registered
from marginal_contract import marginals, oracle, random_forest, source_of
from random_conditions import meant, with_conditions
from test_contract_exact import random_case, run
from test_contract_ns3 import check_adaptive, some_table, unlimited

from repeatable import seeds
from tuplet import settings
from tuplet.engines import brute, crisp, exact
from tuplet.engines.ns3.algorithm import BoxBudget
from tuplet.engines.ns3.run import run_many
from tuplet.engines.ns3.search import FuzzySearch
from tuplet.engines.ns3.tensors import TensorTable
from tuplet.errors import BadInput
from tuplet.graph.attributes import AttributeColumn, Attributes, Ranked, members
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.ask import Question, plan_text
from tuplet.query.conditions import Outside, Within
from tuplet.query.limits import NO_LIMITS
from tuplet.query.logic import PRODUCT, Logic
from tuplet.query.ranking import Edge, QueryGraph
from tuplet.query.source import Source
from tuplet.truth.table import TruthTable

BLOCKS = seeds(2, 50)
PER_BLOCK = 60


class Unconditional(brute.Brute):
    """An engine that knows no conditions, whichever rooms are there."""

    name = "unconditional"
    conditions = ()


def test_an_engine_that_does_not_know_a_condition_refuses_it() -> None:
    clause = QueryGraph(("x",), (0,), (Edge(~0, 0, 0),), conditions=(Within(0, members(np.array([1]))),))
    engines = [settings.find_plugin("engines", name) for name in settings.list_plugins("engines")]
    for engine in (Unconditional(), *engines):
        if Within in engine.conditions:
            continue
        with pytest.raises(BadInput, match=f"engine '{engine.name}' does not know conditions"):
            engine.planned([clause], cast(Any, SimpleNamespace()), NO_LIMITS)


def test_the_oracle_does_as_the_definition_says() -> None:
    answered = 0
    for seed in seeds(40, 300):
        rng = np.random.default_rng([seed, 18])
        table = random_table(rng, 4, 2, 0.5, coarse=True)
        clauses = with_conditions(rng, random_query(rng, table, most_free=2), table)
        clauses = [clause for clause in clauses if len(clause.variables) < 6]
        if not clauses:
            continue
        logic = Logic.from_name(Logic.names[seed % len(Logic.names)])
        found = brute.Space(table, logic).combine(clauses)
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


def facts_only(rng: np.random.Generator, entities: int) -> TruthTable:
    return random_table(rng, entities, int(rng.integers(1, 4)), float(rng.choice([0.4, 0.6, 0.9])), coarse=True)


@pytest.mark.parametrize("block", BLOCKS)
def test_crisp_finds_what_the_oracle_finds(block: int) -> None:
    answered = 0
    for seed in range(PER_BLOCK * block, PER_BLOCK * (block + 1)):
        rng = np.random.default_rng([seed, 19])
        table = facts_only(rng, int(rng.integers(3, 8)))
        clauses = with_conditions(rng, random_query(rng, table), table)
        expected = np.argwhere(brute.Space(table).combine(clauses, facts=True) > 0)
        adjacency = table.facts()
        found = crisp.collect(crisp.plan(clauses, adjacency), adjacency)
        assert found.complete
        assert sorted(found.tuples.tolist()) == expected.tolist()
        for clause, assignment, row in zip(found.clause, found.assignment, found.tuples.tolist(), strict=True):
            own = clauses[clause]
            values = assignment[: len(own.variables)].tolist()
            assert [values[v] for v in own.free] == row
            assert all(meant(condition, values) for condition in own.conditions)
        assert crisp.plan(clauses, adjacency).text()
        answered += len(expected) > 0
    assert answered > PER_BLOCK / 10


@pytest.mark.parametrize("block", BLOCKS)
def test_exact_finds_what_the_oracle_finds(block: int) -> None:
    answered = 0
    for seed in range(PER_BLOCK * block, PER_BLOCK * (block + 1)):
        rng, table, k, logic = random_case(seed)
        only = (None, None, "predicted", "observed")[seed % 4]
        clauses = with_conditions(rng, random_query(rng, table), table)
        answered += check(run, clauses, table, k, logic, only, seed) > 0
        assert str(exact.plan(clauses, table))
    assert answered > PER_BLOCK / 10


@pytest.mark.parametrize("block", BLOCKS)
def test_exact_searches_cut_short_stay_honest(block: int) -> None:
    for seed in range(10_000 + 20 * block, 10_000 + 20 * (block + 1)):
        rng, table, k, logic = random_case(seed)
        only = (None, None, "predicted", "observed")[seed % 4]
        clauses = with_conditions(rng, random_query(rng, table), table)
        check_cut_short(run, clauses, table, k, logic, only, work=int(rng.choice([1, 10, 40, 150])))


def test_exact_scores_any_tuple() -> None:
    for seed in range(60):
        rng, table, _, logic = random_case(seed)
        clauses = with_conditions(rng, random_query(rng, table), table)
        tuples = rng.integers(0, table.entities, (20, len(clauses[0].free)))
        expected = brute.score(clauses, table, tuples, logic)
        np.testing.assert_allclose(exact.score(clauses, table, tuples, Logic.from_name(logic)), expected, rtol=1e-9)


def test_ns3_finds_what_the_oracle_finds() -> None:
    answered = 0
    for seed in seeds(60, 1000):
        rng = np.random.default_rng([seed, 20])
        table, logic = some_table(rng), Logic.names[seed % len(Logic.names)]
        clauses = with_conditions(rng, random_query(rng, table, 3), table)
        answered += check(unlimited, clauses, table, 10, logic, seed=seed) > 0
        if seed % 3 == 0:
            check_adaptive(clauses, table, 10, logic)
    assert answered


def test_ns3_answers_a_batch_with_conditions_of_their_own() -> None:
    rng = np.random.default_rng(21)
    table = some_table(rng)
    shape = random_query(rng, table, 2)[0]
    queries = [[replace(shape, conditions=(Within(0, members(np.array([i, i + 1]))),))] for i in range(3)]
    search = FuzzySearch(TensorTable.from_table(table), PRODUCT)
    for clauses, ranking in zip(queries, run_many(queries, search, 10, BoxBudget.all()), strict=True):
        expected = brute.run(clauses, table, 10)
        np.testing.assert_allclose(ranking.truth, expected.truth, rtol=1e-9)


@pytest.mark.parametrize("engine", registered("fit", "qto", "cqd", "ns3-marginal"))
def test_marginals_keep_to_conditions_on_entities(engine: str) -> None:
    options = {"fit": {"most": 100}, "cqd": {"beam": 100}}.get(engine, {})
    for seed in seeds(25, 200):
        rng = np.random.default_rng([seed, 22])
        table, logic = some_table(rng), Logic.names[seed % len(Logic.names)]
        clauses = [
            replace(clause, conditions=tuple(c for c in clause.conditions if isinstance(c, Within | Outside)))
            for clause in with_conditions(rng, random_forest(rng, table), table)
        ]
        found = marginals(engine, clauses, source_of(table), logic, options)
        np.testing.assert_allclose(found, oracle(clauses, table, logic), rtol=1e-9)


@pytest.mark.parametrize("engine", registered("exact", "crisp", "ns3", "fit"))
def test_plans_say_conditions_as_they_were_written(engine: str) -> None:
    ages = AttributeColumn.from_values("age", np.arange(3), [20, 30, 40])
    names = Vocabulary.from_names(["a", "b", "c"]), Vocabulary.from_names(["r"])
    graph = KnowledgeGraph.from_edges(*names, [0, 1], [0, 0], [1, 2], attributes=Attributes((ages,)))
    edges = np.array([0, 1]), np.array([0, 0]), np.array([1, 2])
    truth = TruthTable.build(3, 1, *edges, np.ones(2), np.ones(2, dtype=bool))
    text = "?x, ?y : r(?x, ?y) & ?x.age > 15 & ?y.age > 25 & ?x in {a, b}"
    question = Question.from_query(Source(graph, truth=truth), text)
    found = plan_text(question, settings.find_plugin("engines", engine)).split("engine", 1)[1]
    assert all(said in found for said in ("?x.age > 15", "?y.age > 25", "?x in {a, b}"))


@pytest.mark.parametrize(("low", "high"), [(7, 8), (0, 3), (100, 900), (0, 1000)])
@pytest.mark.parametrize("dense", [True, False])
def test_long_columns_are_listed_or_looked_up(low: int, high: int, dense: bool) -> None:
    """Where few entities are left the search begins with these; the answers are the same."""
    rng = np.random.default_rng([low, high, dense])
    entities = 6000
    heads, tails = np.unique(rng.integers(0, entities, (2, 20_000)), axis=1)
    truth = rng.uniform(0.01, 1, len(heads)).astype(np.float32)
    observed = rng.random(len(heads)) < 0.5
    truth[observed] = 1
    table = TruthTable.build(entities, 1, heads, np.zeros(len(heads), np.int64), tails, truth, observed)
    keys = np.arange(entities) if dense else np.sort(rng.integers(0, entities, 5500))
    own = Ranked(keys, rng.integers(0, 1000, len(keys)).astype(np.int32))
    for place, ends in enumerate((heads, tails)):
        clause = QueryGraph(("x", "y"), (1, 0), (Edge(0, 0, 1),), conditions=(Within(place, own, low, high),))
        kept = np.flatnonzero(own.within(ends, low, high))
        best = kept[np.lexsort((heads[kept], tails[kept], -truth[kept]))][:50]
        ranking = exact.run(exact.plan([clause], table), 50)
        assert ranking.tuples.tolist() == np.stack([tails[best], heads[best]], axis=1).tolist()
        facts, adjacency = kept[observed[kept]], table.facts()
        found = crisp.collect(crisp.plan([clause], adjacency), adjacency).tuples
        assert sorted(found.tolist()) == sorted(np.stack([tails[facts], heads[facts]], axis=1).tolist())


def test_addresses_do_not_travel() -> None:
    own = Ranked(np.array([2, 5, 5]), np.array([0, 1, 3], np.int32))
    assert own.located[0] == own.keys.ctypes.data
    again = pickle.loads(pickle.dumps(own))
    assert "located" not in vars(again)
    assert again.located[0] == again.keys.ctypes.data
