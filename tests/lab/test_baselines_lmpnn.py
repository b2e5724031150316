"""LMPNN: messages by hand, reciprocal rows, what it refuses."""

import pytest
import torch

from tuplet.errors import BadInput
from tuplet.lab.baselines.embedding import Link, Pattern, QueryModelSettings
from tuplet.lab.baselines.models import KEPT, LMPNN, create
from tuplet.predict.embeddings import ComplEx, TransE, multiply


@pytest.fixture
def predictor() -> ComplEx:
    return ComplEx.create(7, 2, 3, 1.0, 2, torch.Generator().manual_seed(0))


@pytest.fixture
def model(predictor: ComplEx) -> LMPNN:
    made = create("lmpnn", 7, 2, QueryModelSettings(dim=0, hidden=5, layers=1), 0, predictor)
    assert isinstance(made, LMPNN)
    return made.eval()


def test_one_layer_by_hand(model: LMPNN) -> None:
    constants, views = torch.tensor([[4]]), torch.tensor([[2]])  # view 2 is relation 1 forwards
    message = multiply(model.entity[4], model.relation[1])
    wanted = model.update(message + KEPT * model.free)
    torch.testing.assert_close(model.embed(Pattern(1, (Link(~0, 0),)), 0, constants, views)[0], wanted)
    # The same edge written the other way round: the tail is the constant, so the reciprocal row is used.
    wanted = model.update(multiply(model.entity[4], model.relation[3]) + KEPT * model.free)
    torch.testing.assert_close(model.embed(Pattern(1, (Link(0, ~0),)), 0, constants, views)[0], wanted)


def test_a_negated_edge_sends_the_opposite(model: LMPNN) -> None:
    constants, views = torch.tensor([[4]]), torch.tensor([[0]])
    message = multiply(model.entity[4], model.relation[0])
    wanted = model.update(KEPT * model.free - message)
    torch.testing.assert_close(model.embed(Pattern(1, (Link(~0, 0, True),)), 0, constants, views)[0], wanted)


def test_two_layers_by_hand(model: LMPNN) -> None:
    """s → e → f: all nodes are updated in the first layer, the free one again in the second."""
    constants, views = torch.tensor([[1]]), torch.tensor([[0, 2]])
    s, e, f = model.entity[1], model.exists, model.free
    first, second, back = model.relation[0], model.relation[1], model.relation[3]
    e1 = model.update(KEPT * e + multiply(s, first) + multiply(f, back))
    f1 = model.update(KEPT * f + multiply(e, second))
    wanted = model.update(KEPT * f1 + multiply(e1, second))
    found = model.embed(Pattern(2, (Link(~0, 1), Link(1, 0))), 0, constants, views)[0]
    torch.testing.assert_close(found, wanted)


def test_scores_are_cosines(model: LMPNN, predictor: ComplEx) -> None:
    state = torch.randn(3, 6)
    every = model.logits(state) * model.settings.temperature
    wanted = torch.nn.functional.cosine_similarity(state[:, None], predictor.entity[None], dim=-1)
    torch.testing.assert_close(every, wanted, rtol=1e-4, atol=1e-5)
    ids = torch.tensor([[0, 3], [2, 2], [6, 1]])
    torch.testing.assert_close(model.logits(state, ids), model.logits(state).gather(1, ids))
    torch.testing.assert_close(model.logits(state, ids[0]), model.logits(state)[:, ids[0]])


def test_the_predictor_is_frozen(model: LMPNN) -> None:
    assert {name for name, _ in model.named_parameters()} == {
        "exists",
        "free",
        "update.0.weight",
        "update.0.bias",
        "update.2.weight",
        "update.2.bias",
    }


def test_refusals(predictor: ComplEx) -> None:
    with pytest.raises(BadInput, match="give one"):
        create("lmpnn", 7, 2)
    other = TransE.create(7, 2, 3, 1.0, 2, torch.Generator().manual_seed(0))
    with pytest.raises(BadInput, match="rests on ComplEx, not on transe"):
        create("lmpnn", 7, 2, None, 0, other)
    with pytest.raises(BadInput, match="7 entities and 2 relations, the graph 8"):
        create("lmpnn", 8, 2, QueryModelSettings(dim=0, hidden=5), 0, predictor)
