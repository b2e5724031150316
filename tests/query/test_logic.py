"""The laws of each logic, and that compiled code keeps to them."""

from itertools import product

import numpy as np
import pytest
import torch

from tuplet.engines import kernels
from tuplet.query.logic import GRID, PRODUCT, Logic

TRUTHS = [0.0, 2 / GRID, 0.1, 0.3, 0.5, 0.7, 0.9, 1 - 2 / GRID, 1.0]
LOGICS = [Logic.from_name(name) for name in Logic.names]


@pytest.fixture(params=LOGICS, ids=Logic.names)
def logic(request: pytest.FixtureRequest) -> Logic:
    found: Logic = request.param
    return found


def test_the_conjunction_keeps_the_laws(logic: Logic) -> None:
    both = logic.conjunction
    for a, b, c in product(TRUTHS, repeat=3):
        assert both(a, b) == both(b, a)
        assert both(both(a, b), c) == pytest.approx(both(a, both(b, c)), rel=1e-12)
        assert both(a, 1.0) == pytest.approx(a, abs=1 / GRID)
        assert both(a, b) <= min(a, b)
        if b <= c:
            assert both(a, b) <= both(a, c)


def test_the_disjunction_is_its_dual(logic: Logic) -> None:
    for a, b in product(TRUTHS, repeat=2):
        dual = 1 - logic.conjunction(1 - a, 1 - b)
        assert logic.disjunction(a, b) == pytest.approx(dual, abs=4 / GRID)
        assert (logic.disjunction(a, a) == a) or not logic.idempotent


def test_the_residuum_is_the_least_truth_that_suffices(logic: Logic) -> None:
    for a, b in product(TRUTHS, repeat=2):
        if 0 < b <= a:
            least = float(logic.residuum(a, b))
            assert logic.conjunction(a, least) == pytest.approx(b, abs=4 / GRID)
            assert logic.conjunction(a, least * 0.99) < b


def test_zero_divisors_and_ties_are_named(logic: Logic) -> None:
    positive = [t for t in TRUTHS if t > 0]
    pairs = list(product(positive, repeat=2))
    assert logic.zero_divisors == any(logic.conjunction(a, b) == 0 for a, b in pairs)
    ties = any(logic.conjunction(a, 0.5) == logic.conjunction(b, 0.5) > 0 for a, b in pairs if a != b)
    assert logic.strict == (not ties and not logic.zero_divisors)


def test_compiled_code_and_torch_agree_to_the_last_bit(logic: Logic) -> None:
    for a, b in product(TRUTHS, repeat=2):
        assert kernels.conj(a, b, logic.code) == logic.conjunction(a, b)
        tensors = torch.tensor([a], dtype=torch.float64), torch.tensor([b], dtype=torch.float64)
        assert logic.conjunction(*tensors).item() == logic.conjunction(a, b)
        assert logic.disjunction(*tensors).item() == logic.disjunction(a, b)
        if 0 < b <= a:
            assert kernels.residuum(a, b, logic.code) == logic.residuum(a, b)


def test_the_conjunction_of_many(logic: Logic) -> None:
    values = np.array([[0.9, 0.8], [0.5, 0.7]])
    assert logic.all(values).tolist() == [logic.conjunction(0.9, 0.8), logic.conjunction(0.5, 0.7)]
    assert logic.all(values, axis=0).tolist() == [logic.conjunction(0.9, 0.5), logic.conjunction(0.8, 0.7)]
    assert logic.all(np.zeros((2, 0))).tolist() == [1, 1]
    assert PRODUCT.all(np.zeros(0)) == 1
