"""BetaE against torch.distributions and against values worked out by hand."""

import math

import pytest
import torch
from torch.distributions import Beta, kl_divergence

from tuplet.lab.baselines.embedding import QueryModelSettings
from tuplet.lab.baselines.models import BetaE, create, log_beta, positive, statistics

SMALL = QueryModelSettings(dim=6, gamma=60.0, hidden=16)


@pytest.fixture
def model():
    return create("betae", 11, 3, SMALL, seed=1)


def divergence_by_pairs(entity, query):
    """KL(entity ‖ query) [n, m] by the definition, one pair of distributions a dimension."""
    first, second = Beta(*entity[None].double().chunk(2, -1)), Beta(*query[:, None].double().chunk(2, -1))
    return kl_divergence(first, second).sum(-1)


def test_the_matrix_product_is_the_divergence():
    model = create("betae", 500, 3, QueryModelSettings(dim=40, gamma=60.0, hidden=16))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # from sharp to flat: 0.05 … e^4
        model.entity.copy_(torch.exp(torch.randn(500, 80, generator=generator) * 1.5) - 1)
    state = torch.exp(torch.randn(30, 80, generator=generator) * 1.5).clamp(0.05)
    expected = divergence_by_pairs(positive(model.entity), state)
    assert torch.allclose(model.divergence(state).double(), expected, rtol=2e-5, atol=1e-3)
    assert torch.allclose(model.logits(state), 60 - model.divergence(state))


def test_a_divergence_by_hand():
    # KL(Beta(1, 1) ‖ Beta(2, 1)) = log B(2, 1) − E[log x] = −log 2 + 1; the other way round log 2 − 1/2.
    model = BetaE(2, 1, QueryModelSettings(dim=1, gamma=60.0, hidden=4))
    with torch.no_grad():
        model.entity.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    state = torch.tensor([[2.0, 1.0], [1.0, 1.0]])
    expected = torch.tensor([[1 - math.log(2), 0.0], [0.0, math.log(2) - 0.5]])
    assert torch.allclose(model.divergence(state), expected, atol=1e-6)


def test_statistics_of_the_uniform_distribution():
    mean, information = statistics(torch.ones(1, 4))
    assert torch.allclose(mean, -torch.ones(1, 4))
    assert information.abs().item() < 1e-6
    assert log_beta(torch.ones(1, 4)).abs().item() < 1e-6


def test_an_entity_is_nearest_to_itself(model):
    assert model.logits(model.entities(torch.arange(11))).argmax(1).tolist() == list(range(11))


@pytest.mark.parametrize("each", [1, 5])  # fewer and more places than entities
def test_candidates_agree_with_all(model, each):
    state, ids = model.entities(torch.arange(4)), torch.randint(11, (4, each))
    every = model.logits(state)
    assert torch.allclose(model.logits(state, ids), every.gather(1, ids), atol=1e-5)
    assert torch.allclose(model.logits(state, ids[0]), every[:, ids[0]], atol=1e-5)


def test_negating_twice_changes_nothing(model):
    state = model.project(model.entities(torch.arange(4)), torch.tensor([0, 1, 2, 5]))
    assert torch.allclose(model.negate(model.negate(state)), state, rtol=1e-6)
    assert torch.allclose(model.negate(torch.tensor([[4.0, 0.5]])), torch.tensor([[0.25, 2.0]]))


def test_intersections(model):
    states = positive(torch.randn(3, 5, 12))
    assert torch.allclose(model.intersect(states[:1]), states[0])
    assert torch.allclose(model.intersect(states), model.intersect(states[[2, 0, 1]]), atol=1e-6)
    between = model.intersect(states)
    assert (between >= states.amin(0) - 1e-6).all()
    assert (between <= states.amax(0) + 1e-6).all()


def test_projection_stays_positive_and_depends_on_the_direction(model):
    state = model.entities(torch.arange(5))
    forward, backward = (model.project(state, torch.full((5,), view)) for view in (2, 3))
    assert forward.min() >= 0.05
    assert not torch.allclose(forward, backward)


def test_gradients_are_finite_and_reach_everything(model):
    states = torch.stack([model.project(model.entities(torch.arange(4)), torch.tensor([0, 1, 2, 3])) for _ in range(2)])
    logits = model.logits(model.intersect(torch.stack([states[0], model.negate(states[1])])))
    logits.logsumexp(1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_the_seed_decides(model):
    again, other = (create("betae", 11, 3, SMALL, seed=seed) for seed in (1, 2))
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    assert not torch.equal(model.entity, other.entity)


def test_what_is_kept_between_rankings_follows_the_table(model):
    state = positive(torch.randn(2, 12))
    with torch.no_grad():
        before = model.logits(state)
        model.entity.add_(0.5)
        assert not torch.allclose(model.logits(state), before)
    expected = 60 - divergence_by_pairs(positive(model.entity), state)
    assert torch.allclose(model.logits(state).double(), expected, rtol=1e-5, atol=1e-3)
