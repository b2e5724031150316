"""Filtered ranks against a naive reference, ties included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.errors import BadInput
from tuplet.predict.embeddings import DistMult
from tuplet.predict.evaluate import KnownAnswers, evaluate, ranks

ENTITIES, RELATIONS = 6, 2


def naive(model, edges, known):
    """Expected filtered ranks, one edge and one candidate at a time."""
    result = []
    for h, r, t in edges:
        for row, target, taken in (
            (model.tails(torch.tensor([h]), r)[0], t, {b for a, q, b in known if (a, q) == (h, r)}),
            (model.heads(torch.tensor([t]), r)[0], h, {a for a, q, b in known if (q, b) == (r, t)}),
        ):
            others = [float(row[e]) for e in range(model.entities) if e != target and e not in taken]
            better = sum(s > float(row[target]) for s in others)
            ties = sum(s == float(row[target]) for s in others)
            result.append(1 + better + ties / 2)
    return np.array(result).reshape(-1, 2)


def columns(edges):
    return tuple(np.array(edges, dtype=np.int32).reshape(-1, 3).T)


triple = st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1))


@examples(60)
@given(st.lists(triple, min_size=1, max_size=12), st.lists(triple, max_size=20), st.integers(0, 99), st.integers(1, 3))
def test_ranks_equal_the_naive_reference(edges, train, seed, step) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Small integers: many exact ties, and sums that do not depend on their order.
    entity = torch.randint(-1, 2, (ENTITIES, 3), generator=generator).float()
    relation = torch.randint(-1, 2, (2 * RELATIONS, 3), generator=generator).float()
    model = DistMult(entity, relation)
    known = KnownAnswers({"train": columns(train), "test": columns(edges)}, ENTITIES, RELATIONS)
    found = ranks(model, columns(edges), known, memory=step * ENTITIES * 8)
    np.testing.assert_array_equal(found.numpy(), naive(model, edges, set(train) | set(edges)))
    np.testing.assert_array_equal(ranks(Foreign(model), columns(edges), known).numpy(), found.numpy())


class Foreign:
    """A predictor that offers the protocol and nothing more."""

    def __init__(self, model: DistMult) -> None:
        self.entities, self.relations = model.entities, model.relations
        self.tails, self.heads, self.pairs = model.tails, model.heads, model.pairs


def test_metrics_by_hand() -> None:
    # From entity 0 the scores are (1, 2, 3): tail 1 is second. Backwards all score 0: head 0 ties with two others.
    model = DistMult(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.0], [0.0]]))
    edges = columns([(0, 0, 1)])
    metrics = evaluate(model, edges, {"test": edges})
    assert metrics.mrr == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert (metrics.hits_at_1, metrics.hits_at_3, metrics.hits_at_10, metrics.edges) == (0.0, 1.0, 1.0, 1)


def test_a_constant_model_gains_nothing() -> None:
    model = DistMult(torch.zeros(9, 2), torch.zeros(2, 2))
    edges = columns([(i, 0, (i + 1) % 9) for i in range(9)])
    assert evaluate(model, edges, {"test": edges}).mrr == pytest.approx(1 / 5)


def test_sample_is_a_fixed_part() -> None:
    model = DistMult(torch.randn(9, 2), torch.randn(2, 2))
    edges = columns([(i, 0, (i + 1) % 9) for i in range(9)])
    assert evaluate(model, edges, {"test": edges}, sample=4).edges == 4
    assert evaluate(model, edges, {"test": edges}, sample=4) == evaluate(model, edges, {"test": edges}, sample=4)


def test_scores_that_are_no_numbers_are_refused() -> None:
    model = DistMult(torch.full((3, 2), torch.nan), torch.zeros(2, 2))
    edges = columns([(0, 0, 1)])
    with pytest.raises(BadInput, match="not finite"):
        evaluate(model, edges, {"test": edges})
    with pytest.raises(BadInput, match="no edges"):
        evaluate(model, columns([]), {"test": edges})
