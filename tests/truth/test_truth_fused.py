"""Inner products that are never written whole, against the whole matrix; kernels run by Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

from tuplet.truth.candidates import rows as fused
from tuplet.truth.candidates.rows import ScoreProducts, WrittenScores

SHAPES = ((50, 70, 24), (3, 200, 8), (40, 33, 300), (0, 5, 8))

COMPARE = f"""
import torch
from tuplet.truth.candidates import product_kernels
from tuplet.truth.candidates.rows import WrittenScores

product_kernels.ROWS = product_kernels.COLUMNS = 16
torch.manual_seed(0)
for rows, columns, width in {SHAPES}:
    a, b = torch.randn(rows, width) / 2, torch.randn(columns, width) * 20
    mine, plain = product_kernels.KernelProducts(a, b), WrittenScores(a @ b.T)
    sums = plain.log_sums()
    assert torch.allclose(mine.log_sums(), sums, rtol=1e-6, atol=1e-4)
    levels = sums[:, None] - torch.tensor([5.0, 3.0, 1.0])
    counts = mine.count_reaching(levels)
    assert torch.equal(counts, plain.count_reaching(levels))
    for known in (None, counts[:, 1]):
        found = [row * columns + column for row, column in
                 (mine.list_reaching(levels[:, 1], known), plain.list_reaching(levels[:, 1]))]
        assert torch.equal(found[0].sort().values, found[1])
"""


@pytest.mark.parametrize("shape", SHAPES)
def test_tiles_give_what_the_whole_gives(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "_TILE_ROWS", 16)
    monkeypatch.setattr(fused, "_TILE_COLUMNS", 32)
    torch.manual_seed(0)
    rows, columns, width = shape
    a, b = torch.randn(rows, width) / 2, torch.randn(columns, width)
    tiled, whole = ScoreProducts(a, b), WrittenScores(a @ b.T)
    sums = whole.log_sums()
    torch.testing.assert_close(tiled.log_sums(), sums)
    levels = sums[:, None] - torch.tensor([5.0, 3.0, 1.0])
    assert torch.equal(tiled.count_reaching(levels), whole.count_reaching(levels))
    found = [row * columns + column for row, column in (each.list_reaching(levels[:, 1]) for each in (tiled, whole))]
    assert torch.equal(found[0].sort().values, found[1])


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton comes with torch for GPUs")
def test_kernels_give_what_the_whole_gives() -> None:
    """In a process of its own: once kernels are defined they stay interpreted."""
    subprocess.run([sys.executable, "-c", COMPARE], env=os.environ | {"TRITON_INTERPRET": "1"}, check=True)
