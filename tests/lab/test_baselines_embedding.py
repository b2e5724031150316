"""The walk over query graphs, and query models asked for any of them."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tuplet.errors import BadInput
from tuplet.lab.baselines.embedding import Link, Pattern, QueryEmbedding, QueryModelSettings, walk
from tuplet.lab.baselines.models import MODELS, by_pattern, create, scores, settings_for, softmax
from tuplet.query.ranking import Edge, QueryGraph

SMALL = QueryModelSettings(dim=4, gamma=6.0, hidden=8)


class Traced(QueryEmbedding):
    """Crisp sets of entities as states: what is composed is exact, so the walk can be checked against logic."""

    def __init__(self, edges: list[tuple[int, int, int]], entities: int, relations: int) -> None:
        super().__init__(entities, relations, SMALL)
        self.matrix = torch.zeros(2 * relations, entities, entities)
        for head, relation, tail in edges:
            self.matrix[2 * relation, head, tail] = 1
            self.matrix[2 * relation + 1, tail, head] = 1

    def entities(self, ids: Tensor) -> Tensor:
        return torch.eye(self.entity_count)[ids]

    def project(self, state: Tensor, view: Tensor) -> Tensor:
        return torch.einsum("ne,nef->nf", state, self.matrix[view]).clamp_max(1)

    def intersect(self, states: Tensor) -> Tensor:
        return states.prod(0)

    def negate(self, state: Tensor) -> Tensor:
        return 1 - state

    def logits(self, state: Tensor, candidates: Tensor | None = None) -> Tensor:
        return state if candidates is None else state.gather(1, candidates)


def answers(model: QueryEmbedding, *clauses: QueryGraph) -> list[set[int]]:
    """The entities with score 1 for each free variable."""
    ((_, ground),) = by_pattern([clauses])
    found = scores(model, ground, torch.device("cpu"))[0]
    return [set(torch.nonzero(row > 0.5)[:, 0].tolist()) for row in found]


@pytest.fixture
def model() -> Traced:
    return Traced([(0, 0, 1), (0, 0, 2), (3, 0, 2), (1, 1, 4), (2, 1, 4), (2, 1, 5), (4, 2, 0)], 6, 3)


def test_an_edge_against_the_walk_uses_the_inverse(model: Traced) -> None:
    # ?x with r0(?x, 2): the constant is the tail, so the walk goes from tail to head.
    assert answers(model, QueryGraph(("x",), (0,), (Edge(0, 0, ~2),))) == [{0, 3}]
    # r1(?e, 5) & r0(?x, ?e), both against the walk.
    chain = QueryGraph(("x", "e"), (0,), (Edge(1, 1, ~5), Edge(0, 0, 1)))
    assert answers(model, chain) == [{0, 3}]


def test_negation_is_applied_after_projection(model: Traced) -> None:
    query = QueryGraph(("x",), (0,), (Edge(~0, 0, 0), Edge(~3, 0, 0, negated=True)))
    assert answers(model, query) == [{1}]


def test_parallel_edges_are_both_used(model: Traced) -> None:
    # r0(0, x) and r1(x, 4), and r1(x, 5) beside it
    query = QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 1, 1), Edge(1, 2, ~0)))
    assert answers(model, query) == [{1, 2}, {4}]
    doubled = QueryGraph(("x",), (0,), (Edge(0, 1, ~4), Edge(0, 1, ~5)))
    assert answers(model, doubled) == [{2}]


def test_every_free_variable_is_the_last_of_its_own_walk(model: Traced) -> None:
    # 0 → x → y: for x nothing comes back from y, which no constant reaches otherwise.
    query = QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 1, 1)))
    assert answers(model, query) == [{1, 2}, {4, 5}]


def test_unions_take_the_best_clause(model: Traced) -> None:
    clauses = (QueryGraph(("x",), (0,), (Edge(~1, 1, 0),)), QueryGraph(("x",), (0,), (Edge(~0, 0, 0),)))
    assert answers(model, *clauses) == [{1, 2, 4}]


def test_cycles_follow_the_same_order() -> None:
    triangle = Pattern(3, (Link(~0, 1), Link(1, 2), Link(1, 0), Link(2, 0)))
    order = walk(triangle, 0)
    assert [node for node, _ in order] == [1, 2, 0]
    assert [len(messages) for _, messages in order] == [1, 1, 2]


def test_farthest_and_leaves_first() -> None:
    # s0 → 1 → 2 → 0 and s1 → 2: 1 is a leaf among variables and farthest.
    pattern = Pattern(3, (Link(~0, 1), Link(1, 2), Link(~1, 2), Link(2, 0)))
    assert [node for node, _ in walk(pattern, 0)] == [1, 2, 0]
    assert len(dict(walk(pattern, 0))[2]) == 2


def test_unreached_leaves_and_self_loops_send_nothing() -> None:
    pattern = Pattern(2, (Link(~0, 0), Link(0, 1), Link(0, 0)))
    assert [node for node, _ in walk(pattern, 0)] == [0]


def test_a_query_without_constants_is_refused(model: Traced) -> None:
    with pytest.raises(BadInput, match="without constants"):
        answers(model, QueryGraph(("x", "y"), (0, 1), (Edge(0, 0, 1),)))


def test_queries_of_one_shape_that_differ_in_direction_are_scored_apart(model: Traced) -> None:
    queries = [(QueryGraph(("x",), (0,), (Edge(~0, 0, 0),)),), (QueryGraph(("x",), (0,), (Edge(0, 0, ~2),)),)]
    groups = by_pattern(queries)
    assert sorted(numbers for numbers, _ in groups) == [[0], [1]]


@pytest.mark.parametrize("name", ["betae", "logice", "cone"])
def test_batches_give_what_single_queries_give(name: str) -> None:
    torch.manual_seed(0)
    made = create(name, 20, 3, SMALL, seed=1).eval()
    pattern = Pattern(2, (Link(~0, 1), Link(~1, 1, True), Link(0, 1)))
    constants, views = torch.randint(20, (5, 2)), torch.randint(6, (5, 3))
    together = made.logits(made.embed(pattern, 0, constants, views))
    for i in range(5):
        alone = made.logits(made.embed(pattern, 0, constants[i : i + 1], views[i : i + 1]))
        torch.testing.assert_close(together[i : i + 1], alone)
    many = made.embed_many([(pattern, 0, constants[:2], views[:2]), (pattern, 0, constants[2:], views[2:])])
    torch.testing.assert_close(torch.cat(many), made.embed(pattern, 0, constants, views))


def test_direction_matters_to_a_model() -> None:
    made = create("betae", 20, 3, SMALL).eval()
    one = torch.tensor([[5]])
    forward = made.embed(Pattern(1, (Link(~0, 0),)), 0, one, torch.tensor([[2]]))
    against = made.embed(Pattern(1, (Link(0, ~0),)), 0, one, torch.tensor([[3]]))
    torch.testing.assert_close(forward, against)  # view 3 against its direction is view 2
    assert not torch.allclose(forward, made.embed(Pattern(1, (Link(0, ~0),)), 0, one, torch.tensor([[2]])))


def test_settings_of_known_graphs_and_unknown_models() -> None:
    assert (settings_for("cone", 63361).gamma, settings_for("cone", 14505).gamma) == (20.0, 30.0)
    assert settings_for("lmpnn", 14951).hidden == 8192
    with pytest.raises(BadInput, match="did you mean 'cone'"):
        settings_for("coen", 100)


def test_creation_depends_on_the_seed_alone() -> None:
    before = torch.random.get_rng_state()
    first, second, third = (create("cone", 9, 2, SMALL, seed) for seed in (3, 3, 4))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(first.entity, second.entity)
    assert not torch.equal(first.entity, third.entity)


def test_only_lmpnn_takes_a_predictor() -> None:
    made = create("betae", 9, 2, SMALL)
    with pytest.raises(BadInput, match="learns its own tables"):
        made.adopt(None)  # type: ignore[arg-type]
    assert set(MODELS) == {"betae", "logice", "cone", "lmpnn"}


def test_softmax_of_large_logits() -> None:
    shares = softmax(np.array([[1000.0, 999.0, -5000.0]], dtype=np.float32))
    assert shares[0, :2] == pytest.approx([0.7310586, 0.2689414])
    assert shares[0, 2] == 0
