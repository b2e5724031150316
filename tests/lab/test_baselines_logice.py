"""LogicE against values worked out by hand."""

import pytest
import torch

from tuplet.lab.baselines.embedding import QueryModelSettings
from tuplet.lab.baselines.models import LogicE, create

SMALL = QueryModelSettings(dim=6, gamma=0.375, hidden=16)


@pytest.fixture
def model():
    torch.manual_seed(1)
    return LogicE(11, 3, SMALL)


def test_logits_by_hand():
    model = LogicE(2, 1, QueryModelSettings(dim=1, gamma=0.375, hidden=4))
    with torch.no_grad():
        model.entity.copy_(torch.tensor([[0.0, 1.0], [0.25, 0.5]]))
    # mean |(0.5, 1) − (0, 1)| = 0.25; mean |(0.5, 1) − (0.25, 0.5)| = 0.375
    assert model.logits(torch.tensor([[0.5, 1.0]])).tolist() == [[12.5, 0.0]]


def test_an_entity_is_nearest_to_itself(model):
    assert model.logits(model.entities(torch.arange(11))).argmax(1).tolist() == list(range(11))


@pytest.mark.parametrize("each", [1, 5])
def test_candidates_agree_with_all(model, each):
    state, ids = model.entities(torch.arange(4)), torch.randint(11, (4, each))
    every = model.logits(state)
    assert torch.allclose(model.logits(state, ids), every.gather(1, ids), atol=1e-5)
    assert torch.allclose(model.logits(state, ids[0]), every[:, ids[0]], atol=1e-5)


def test_negating_twice_changes_nothing(model):
    state = model.project(model.entities(torch.arange(4)), torch.tensor([0, 1, 2, 5]))
    assert torch.allclose(model.negate(model.negate(state)), state, atol=1e-6)


def test_negation_swaps_the_bounds():
    model = LogicE(2, 1, QueryModelSettings(dim=1, gamma=0.375, hidden=4))
    assert model.negate(torch.tensor([[0.25, 1.0]])).tolist() == [[0.0, 0.75]]


def test_intersections(model):
    states = torch.rand(3, 5, 12)
    assert torch.allclose(model.intersect(states[:1]), states[0], atol=2e-6)
    assert torch.allclose(model.intersect(states), model.intersect(states[[2, 0, 1]]), atol=1e-6)
    assert ((model.intersect(states) >= 0) & (model.intersect(states) <= 1)).all()
    assert torch.allclose(model.intersect(torch.ones(3, 5, 12)), torch.ones(5, 12), atol=1e-5)


def test_equal_weights_give_the_t_norm():
    model = LogicE(2, 1, QueryModelSettings(dim=1, gamma=0.375, hidden=4))
    for parameter in model.attention.parameters():
        torch.nn.init.zeros_(parameter)
    states = torch.tensor([[[0.5, 0.25]], [[0.75, 0.5]]])
    assert torch.allclose(model.intersect(states), torch.tensor([[0.25, 0.0]]), atol=1e-5)


def test_truth_values_stay_between_0_and_1_and_bounds_in_order(model):
    state = model.project(model.entities(torch.arange(5)), torch.arange(5))
    assert state.min() >= 0
    assert state.max() <= 1
    for each in (state, model.entity, model.negate(state)):
        lower, upper = each.chunk(2, -1)
        assert (lower <= upper).all()
    with torch.no_grad():
        model.entity.sub_(0.6)
        model.after_step()
    assert model.entity.min() == 0
    assert model.entity.max() <= 1


def test_gradients_are_finite_and_reach_everything(model):
    one = model.project(model.entities(torch.arange(4)), torch.tensor([0, 1, 2, 3]))
    other = model.project(model.entities(torch.arange(4, 8)), torch.tensor([0, 1, 2, 3]))
    true = 1 - 0.2 * torch.stack([one, model.negate(other)])  # two halves would be clamped to 0
    model.logits(model.intersect(true)).logsumexp(1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_the_seed_decides():
    one, again, other = (create("logice", 11, 3, SMALL, seed=seed) for seed in (1, 1, 2))
    for name, value in one.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    assert not torch.equal(one.entity, other.entity)
