"""Distances in blocks are the distances at once, and so are their gradients."""

import pytest
import torch

from tuplet.lab.baselines import models
from tuplet.lab.baselines.embedding import distances, narrow, perceptron


@pytest.mark.parametrize(("distance", "width"), [(models.difference, 6), (models.distance, 12)])
@pytest.mark.parametrize("candidates", [None, torch.randint(20, (5, 7), generator=torch.Generator().manual_seed(1))])
def test_blocks_change_nothing(distance, width, candidates):
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(5, width, generator=generator, requires_grad=True)
    table = torch.randn(20, 6, generator=generator, requires_grad=True)

    def run(cells):
        result = distances(distance, query, table, candidates, cells)
        return result, torch.autograd.grad(result.sin().sum(), (query, table))

    whole, gradients = run(10**9)
    for cells in (1, 60, 100):  # one row, two rows, three rows at a time
        part, part_gradients = run(cells)
        assert torch.equal(part, whole)
        for one, other in zip(part_gradients, gradients, strict=True):
            assert torch.allclose(one, other, atol=1e-6)
    with torch.no_grad():
        assert torch.equal(distances(distance, query, table, candidates, 60), whole)
    rows = torch.arange(20) if candidates is None else candidates[3]
    assert torch.allclose(whole[3], distance(query[3:4], table[rows]))


def test_memory_is_bounded():
    seen = []

    def distance(query, rows):
        seen.append(torch.broadcast_shapes(query.shape, rows.shape))
        return models.difference(query, rows)

    distances(distance, torch.zeros(3, 4), torch.zeros(50, 4), None, cells=100)
    assert len(seen) == 7
    assert all(n * m * width <= 100 for n, m, width in seen)


def test_narrow_keeps_the_table_when_candidates_are_many():
    table = torch.arange(3.0)[:, None]
    for candidates in (torch.tensor([[2], [2]]), torch.tensor([[0, 1], [1, 2]])):
        rows, places = narrow(table, candidates)
        assert torch.equal(rows[places], table[candidates])
    assert narrow(table, None) == (table, None)
    assert torch.equal(narrow(table, torch.tensor([2, 0]))[0], torch.tensor([[2.0], [0.0]]))


def test_perceptron_layers():
    assert [type(layer).__name__ for layer in perceptron(2, 3, 2, 4)] == ["Linear", "ReLU", "Linear", "ReLU", "Linear"]
    assert len(perceptron(2, 3, 0, 4)) == 1
