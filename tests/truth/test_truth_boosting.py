"""Symmetric trees: what they learn, that they answer as their definition says, that they are the same every time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tuplet.truth.calibration import trees as trees_module
from tuplet.truth.calibration.trees import Bins, TreeRows, Trees, TreeSettings, boost, log_loss


def crossed(rows: int = 6000, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Columns of noise whose first two decide together: neither says anything alone."""
    columns = torch.randn(5, rows, generator=torch.Generator().manual_seed(seed)).half()
    return columns, ((columns[0] > 0) != (columns[1] > 0.5)).float()


def test_learns_what_no_column_says_alone() -> None:
    columns, label = crossed()
    bins = Bins.from_columns(columns)
    ones, start = torch.ones(len(label)), torch.zeros(len(label))
    trees, _ = boost(TreeRows(bins(columns), label, ones, start), TreeSettings(trees=40))
    fresh, wanted = crossed(seed=1)
    assert ((trees(bins(fresh)) > 0) == (wanted > 0)).float().mean() > 0.97


def test_answers_as_the_definition_says() -> None:
    columns, label = crossed(500)
    bins = Bins.from_columns(columns)(columns)
    trees, _ = boost(TreeRows(bins, label, torch.ones(500), torch.zeros(500)), TreeSettings(trees=7, depth=3))
    for row in range(0, 500, 17):
        total = 0.0
        for asked, split, value in zip(trees.column.tolist(), trees.split.tolist(), trees.value, strict=True):
            leaf = sum(int(bins[c, row] > s) << i for i, (c, s) in enumerate(zip(asked, split, strict=True)))
            total += float(value[leaf])
        assert abs(float(trees(bins)[row]) - total) < 1e-5


def test_bins_hold_as_many_edges_as_lie_at_or_below() -> None:
    columns = torch.cat([torch.randn(1, 3000).half(), torch.randint(0, 4, (1, 3000)).half()])
    bins = Bins.from_columns(columns)
    found = bins(columns)
    for edges, column, cells in zip(bins.edges.numpy(), columns.float().numpy(), found.numpy(), strict=True):
        np.testing.assert_array_equal(cells, np.searchsorted(edges, column, side="right"))
    assert found[1].unique().tolist() == [0, 1, 2, 3]
    assert int(found.max()) < 128


def test_a_weight_counts_as_copies() -> None:
    columns, label = crossed(800)
    bins = Bins.from_columns(columns)(columns)
    weight = torch.randint(1, 4, (800,), generator=torch.Generator().manual_seed(2))
    settings = TreeSettings(trees=3, columns=1.0, rows=1.0)
    once, _ = boost(TreeRows(bins, label, weight.float(), torch.zeros(800)), settings)
    copied = torch.repeat_interleave(torch.arange(800), weight)
    ones = torch.ones(len(copied))
    several, _ = boost(TreeRows(bins[:, copied], label[copied], ones, 0 * ones), settings)
    assert torch.allclose(once(bins), several(bins), atol=1e-4)


def test_held_out_rows_stop_it_and_are_not_fitted() -> None:
    columns, _ = crossed(2000)
    noise = torch.rand(2000, generator=torch.Generator().manual_seed(3)).round()
    bins = Bins.from_columns(columns)(columns)
    rows = TreeRows(bins, noise, torch.ones(2000), torch.zeros(2000))
    seen, aside = rows.where(torch.arange(1000)), rows.where(torch.arange(1000, 2000))
    trees, losses = boost(seen, TreeSettings(trees=100, patience=5), aside)
    assert len(trees) < 100
    assert len(losses) == len(trees) + 1
    turned = aside._replace(label=1 - aside.label)
    again, _ = boost(seen, TreeSettings(trees=len(trees), patience=999), turned)
    assert torch.equal(again.value, trees.value)


def test_the_same_trees_every_time_and_in_arrays() -> None:
    columns, label = crossed(1500)
    bins = Bins.from_columns(columns)(columns)
    first, second = (
        boost(TreeRows(bins, label, torch.ones(1500), torch.zeros(1500)), TreeSettings(trees=5))[0] for _ in range(2)
    )
    kept = Trees.from_arrays(first.arrays())
    assert torch.equal(first(bins), second(bins))
    assert torch.equal(first(bins), kept(bins))
    assert len(first.first(2)) == 2
    assert log_loss(first(bins), label, torch.ones(1500)) < np.log(2)


def test_compiled_sums_grow_the_same_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, label = crossed(3000)
    bins = Bins.from_columns(columns)(columns)
    settings = TreeSettings(trees=5, columns=1.0)
    compiled, _ = boost(TreeRows(bins, label, torch.ones(3000), torch.zeros(3000)), settings)
    monkeypatch.setattr(trees_module, "_compiled", None)
    plain, _ = boost(TreeRows(bins, label, torch.ones(3000), torch.zeros(3000)), settings)
    for name, array in compiled.arrays().items():
        np.testing.assert_array_equal(array, plain.arrays()[name])
