"""The symbolic baselines judged by the oracle, by the crisp engine, and by one another."""

from __future__ import annotations

import numpy as np
import pytest
from engine_contract import SHAPES, random_query, random_table, shape_query
from hypothesis import given
from hypothesis import strategies as st
from marginal_contract import marginals, oracle, random_chain, random_forest, source_of

from repeatable import examples, seeds
from tuplet.engines import crisp
from tuplet.lab.baselines.symbolic import cycle_of
from tuplet.query.logic import Logic
from tuplet.query.ranking import Edge, QueryGraph
from tuplet.truth.table import TruthTable

any_seed = st.integers(0, 2**32 - 1)
logics = st.sampled_from(Logic.names)
EXACT = {"most": "all"}


def some_table(rng: np.random.Generator, crisp_only: bool = False) -> TruthTable:
    entities, relations = int(rng.integers(3, 8)), int(rng.integers(1, 4))
    table = random_table(rng, entities, relations, float(rng.choice([0.2, 0.35, 0.6])), bool(rng.random() < 0.5))
    if not crisp_only:
        return table
    heads, relation, tails, _ = table.adjacency.triples()
    ones = np.ones(len(heads))
    return TruthTable.build(entities, relations, heads, relation, tails, ones, ones.astype(bool))


@examples(80, 1500)
@given(seed=any_seed, logic=logics)
def test_on_trees_fit_is_qto_is_ns3_is_the_oracle(seed: int, logic: str) -> None:
    rng = np.random.default_rng(seed)
    table = some_table(rng)
    clauses = random_forest(rng, table)
    source, expected = source_of(table), oracle(clauses, table, logic)
    for engine in ("fit", "qto", "ns3-marginal"):
        np.testing.assert_allclose(marginals(engine, clauses, source, logic), expected, rtol=1e-9, atol=1e-12)
    assert (
        marginals("cqd", clauses, source, logic, {"beam": table.entities}) == marginals("qto", clauses, source, logic)
    ).all()


@examples(70, 1500)
@given(seed=any_seed, logic=logics)
def test_fit_without_a_cap_is_the_oracle_on_any_query(seed: int, logic: str) -> None:
    rng = np.random.default_rng(seed)
    table = some_table(rng)
    clauses = random_query(rng, table, 3)
    expected, source = oracle(clauses, table, logic), source_of(table)
    np.testing.assert_allclose(marginals("fit", clauses, source, logic, EXACT), expected, rtol=1e-9, atol=1e-12)
    # Fewer candidates find less, never more.
    assert (marginals("fit", clauses, source, logic, {"most": 1}) <= expected * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(name: str) -> None:
    found = 0
    for seed in seeds(3, 30):
        rng = np.random.default_rng(seed)
        table = random_table(rng, 9, 3, 0.3, coarse=bool(seed % 2))
        clauses, source = shape_query(name, rng, table), source_of(table)
        expected = oracle(clauses, table)
        np.testing.assert_allclose(marginals("fit", clauses, source, options=EXACT), expected, rtol=1e-9, atol=1e-12)
        if cycle_of(clauses[0]) is None:
            np.testing.assert_allclose(marginals("qto", clauses, source), expected, rtol=1e-9, atol=1e-12)
        found += int((expected > 0).sum())
    assert found


@examples(80, 800)
@given(seed=any_seed, tree=st.booleans())
def test_on_crisp_tables_the_marginals_are_the_projections_of_the_answers(seed: int, tree: bool) -> None:
    rng = np.random.default_rng(seed)
    table = some_table(rng, crisp_only=True)
    clauses = random_forest(rng, table) if tree else random_query(rng, table, 3)
    source = source_of(table)
    answers = crisp.collect(crisp.plan(clauses, source.facts), source.facts).tuples
    for engine in ("fit", "qto") if tree else ("fit",):
        found = marginals(engine, clauses, source, options=EXACT if engine == "fit" else {})
        for place, vector in enumerate(found):
            expected = np.zeros(table.entities)
            expected[answers[:, place]] = 1
            assert vector.tolist() == expected.tolist()


@examples(50, 500)
@given(seed=any_seed, length=st.integers(1, 4))
def test_cqd_with_a_full_beam_is_qto_on_chains(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    table = some_table(rng)
    clauses, source = random_chain(rng, table, length), source_of(table)
    exact = marginals("qto", clauses, source)
    assert (marginals("cqd", clauses, source, options={"beam": table.entities}) == exact).all()
    assert (marginals("cqd", clauses, source, options={"beam": 1}) <= exact).all()


@examples(30, 300)
@given(seed=any_seed, scale=st.sampled_from([0.0, 0.5, 2.0, 6.0]))
def test_neg_scale_is_negation_on_a_scaled_table(seed: int, scale: float) -> None:
    """Negated atoms move to relations of their own, whose truth is scaled: then plain negation must agree."""
    rng = np.random.default_rng(seed)
    table = some_table(rng)
    clauses = random_forest(rng, table)
    heads, relation, tails, entry = table.adjacency.triples()
    truth, n = table.truth[entry].astype(np.float64), table.relations
    twice = TruthTable.build(
        table.entities,
        2 * n,
        np.tile(heads, 2),
        np.concatenate([relation, relation + n]),
        np.tile(tails, 2),
        np.concatenate([truth, np.minimum(1, scale * truth)]),
        np.zeros(2 * len(heads), dtype=bool),
    )
    moved = [
        QueryGraph(
            c.variables, c.free, tuple(Edge(e.head, e.relation + n * e.negated, e.tail, e.negated) for e in c.edges)
        )
        for c in clauses
    ]
    found = marginals("qto", clauses, source_of(table), options={"neg_scale": scale})
    np.testing.assert_allclose(found, oracle(moved, twice), rtol=1e-6, atol=1e-7)
