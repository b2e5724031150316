"""ConE against its distance written with sines, and against values worked out by hand."""

from math import pi, sin

import pytest
import torch

from tuplet.lab.baselines.embedding import QueryModelSettings
from tuplet.lab.baselines.models import ConE, angle, create

SMALL = QueryModelSettings(dim=6, gamma=30.0, hidden=16, dropout=0.1)


@pytest.fixture
def model():
    return create("cone", 11, 3, SMALL, seed=1).eval()


def apart_by_sines(axis, aperture, ray):
    """The distance as it is defined, one sine for each angle between a ray and a side or the axis."""

    def chord(a):
        return (a / 2).sin().abs()

    to_axis, reach = chord(ray - axis), chord(aperture)
    to_sides = torch.minimum(chord(ray - axis + aperture), chord(ray - axis - aperture))
    outside = torch.where(to_axis < reach, 0.0, to_sides)
    return (outside + 0.02 * torch.minimum(to_axis, reach)).sum(-1)


def test_the_distance_is_the_one_with_sines(model):
    generator = torch.Generator().manual_seed(0)
    axis = (torch.rand(40, 6, generator=generator) * 2 - 1) * pi
    aperture = torch.rand(40, 6, generator=generator) * pi
    with torch.no_grad():
        model.entity.mul_(3)
        ray = angle(model.entity / model.bound)
        expected = 30 - model.modulus * apart_by_sines(axis[:, None], aperture[:, None], ray)
        assert torch.allclose(model.logits(torch.cat([axis, aperture], -1)), expected, atol=2e-4)


def test_logits_by_hand():
    model = ConE(3, 1, QueryModelSettings(dim=1, gamma=30.0, hidden=4))
    with torch.no_grad():
        model.entity.copy_(model.bound * torch.atanh(torch.tensor([[0.5], [1 / 6], [0.0]])))  # 90°, 30°, 0°
        model.modulus.fill_(1)
    # A sector of ±30° around 0°: the first ray is 60° outside, the others inside.
    reach = sin(pi / 12)
    expected = torch.tensor([[30 - sin(pi / 6) - 0.02 * reach, 30 - 0.02 * reach, 30.0]])
    assert torch.allclose(model.logits(torch.tensor([[0.0, pi / 6]])), expected, atol=1e-5)


def test_an_entity_is_nearest_to_itself(model):
    assert model.logits(model.entities(torch.arange(11))).argmax(1).tolist() == list(range(11))


@pytest.mark.parametrize("each", [1, 5])
def test_candidates_agree_with_all(model, each):
    state, ids = model.project(model.entities(torch.arange(4)), torch.arange(4)), torch.randint(11, (4, each))
    every = model.logits(state)
    assert torch.allclose(model.logits(state, ids), every.gather(1, ids), atol=1e-5)
    assert torch.allclose(model.logits(state, ids[0]), every[:, ids[0]], atol=1e-5)


def test_negating_twice_changes_nothing(model):
    state = model.project(model.entities(torch.arange(4)), torch.tensor([0, 1, 2, 5]))
    assert torch.allclose(model.negate(model.negate(state)), state, atol=1e-5)


def test_negation_is_the_rest_of_the_circle(model):
    negated = model.negate(torch.tensor([[0.5, -0.5, pi / 4, pi]]))
    assert torch.allclose(negated, torch.tensor([[0.5 - pi, pi - 0.5, 3 * pi / 4, 0.0]]))


def test_intersections(model):
    states = model.project(model.entities(torch.arange(9)), torch.arange(9) % 6).view(3, 3, 12)
    axis, aperture = states.chunk(2, -1)
    alone = model.intersect(states[:1]).chunk(2, -1)
    assert torch.allclose(alone[0], axis[0], atol=1e-5)
    assert (alone[1] <= aperture[0]).all()
    assert torch.allclose(model.intersect(states), model.intersect(states[[2, 0, 1]]), atol=1e-5)
    assert (model.intersect(states).chunk(2, -1)[1] <= aperture.amin(0)).all()


def test_the_mean_is_taken_on_the_circle():
    model = ConE(3, 1, QueryModelSettings(dim=1, gamma=30.0, hidden=4)).eval()
    for parameter in [*model.axis_attention.parameters(), *model.aperture_gate.parameters()]:
        torch.nn.init.zeros_(parameter)
    states = torch.tensor([[[3.0, 0.5]], [[-3.0, 1.0]]])  # on both sides of ±π
    axis, aperture = model.intersect(states)[0].tolist()
    assert abs(abs(axis) - pi) < 1e-4
    assert aperture == 0.25  # an untrained gate halves
    right_angle = model.intersect(torch.tensor([[[0.0, 0.5]], [[pi / 2, 1.0]]]))
    assert abs(right_angle[0, 0].item() - pi / 4) < 1e-5


def test_opposite_axes_have_finite_gradients(model):
    states = torch.tensor([[[0.0] * 6 + [1.0] * 6], [[pi] * 6 + [1.0] * 6]], requires_grad=True)
    for parameter in model.axis_attention.parameters():
        torch.nn.init.zeros_(parameter)
    model.intersect(states).sum().backward()
    assert states.grad.isfinite().all()


def test_dropout_works_in_training_alone(model):
    states = model.project(model.entities(torch.arange(8)), torch.arange(8) % 6).view(2, 4, 12)
    assert torch.equal(model.intersect(states), model.intersect(states))
    model.train()
    torch.manual_seed(0)
    assert not torch.equal(model.intersect(states), model.intersect(states))


def test_gradients_are_finite_and_reach_everything(model):
    one = model.project(model.entities(torch.arange(4)), torch.tensor([0, 1, 2, 3]))
    other = model.project(model.entities(torch.arange(4, 8)), torch.tensor([0, 1, 2, 3]))
    model.logits(model.intersect(torch.stack([one, model.negate(other)]))).logsumexp(1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_the_seed_decides(model):
    again, other = (create("cone", 11, 3, SMALL, seed=seed) for seed in (1, 2))
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    assert not torch.equal(model.entity, other.entity)
