"""Sampled softmax: towards the full one, on few rows, to the same bits after an interruption."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from predict_data import ring

from tuplet.errors import BadInput
from tuplet.predict.config import TrainConfig
from tuplet.predict.embeddings import ComplEx, TransE
from tuplet.predict.link_task import EntitySampler, SampledRows, objective, update_rows
from tuplet.predict.model_folder import describe
from tuplet.predict.train import train
from tuplet.predict.training import RunOptions

SMALL = TrainConfig(rank=8, epochs=30, batch=16, negatives=4, evaluate_every=3, patience=0, checkpoint_seconds=0.0)
ENTITIES, RELATIONS, EDGES = 40, 3, 60


def edges(seed: int = 0) -> torch.Tensor:
    """Random reciprocal edges; a few entities are in most of them, some in none."""
    draw = torch.Generator().manual_seed(seed)
    ends = (torch.rand(EDGES, 2, generator=draw) ** 3 * ENTITIES).long()
    relation = torch.randint(2 * RELATIONS, (EDGES,), generator=draw)
    return torch.stack([ends[:, 0], relation, ends[:, 1]], 1)


def model(kind: type[ComplEx] | type[TransE] = ComplEx) -> ComplEx | TransE:
    return kind.create(ENTITIES, RELATIONS, 4, 0.7, 2, torch.Generator().manual_seed(1))


def drawn(sampler: EntitySampler, batch: torch.Tensor, seed: int) -> SampledRows:
    sampler.shuffle(torch.Generator().manual_seed(seed))
    return sampler.draw(batch, seed % 7)


@pytest.mark.parametrize("kind", [ComplEx, TransE])
def test_a_sample_of_all_is_the_full_loss(kind: type[ComplEx]) -> None:
    network, batch = model(kind), edges()[:20]
    sample = drawn(EntitySampler(edges(), ENTITIES, 10 * ENTITIES), batch, 0)
    assert sample.rows.tolist() == list(range(ENTITIES))
    found = objective(network, batch, 0.1, 0.5, 0, (network.entity, sample))
    assert float(found) == pytest.approx(float(objective(network, batch, 0.1, 0.5, ENTITIES)), rel=1e-6)


def test_chances_are_how_often_entities_are_drawn_and_the_estimated_sum_has_the_right_mean() -> None:
    network, every, count = model(), edges(), 3000
    sampler, asked = EntitySampler(every, ENTITIES, 6), every[:1]
    seen, total = torch.zeros(ENTITIES), 0.0
    for seed in range(count):
        others = torch.randperm(EDGES - 1, generator=torch.Generator().manual_seed(seed))[:7] + 1
        sample = drawn(sampler, torch.cat([asked, every[others]]), seed)
        seen[sample.rows] += 1
        # exp(CE) of an edge is Σ exp(score) over exp(score of its tail)
        total += float(objective(network, asked, 0.0, 0.0, 0, (network.entity[sample.rows], sample)).exp())
    full = float(objective(network, asked, 0.0, 0.0, ENTITIES).exp())
    assert total / count == pytest.approx(full, rel=0.02)
    own = torch.isin(torch.arange(ENTITIES), asked[:, ::2])
    expected = sampler.log_chance(8).exp()[~own]
    assert float((seen[~own] / count - expected).abs().max()) < 0.04
    assert 0.14 < float(expected.min()) < 0.16
    assert float(expected.max()) > 0.6


def test_rows_change_as_adagrad_would_change_them_and_others_do_not() -> None:
    draw = torch.Generator().manual_seed(2)
    ours, theirs = (torch.randn(6, 3, generator=torch.Generator().manual_seed(3)).requires_grad_() for _ in range(2))
    before = ours.detach().clone()
    left, right = (torch.optim.Adagrad([table], lr=0.1) for table in (ours, theirs))
    rows = torch.tensor([1, 4])
    for _ in range(3):
        gradient = torch.randn(2, 3, generator=draw)
        update_rows(left, ours, rows, ours.detach()[rows], gradient)
        theirs.grad = torch.zeros(6, 3).index_copy(0, rows, gradient)
        right.step()
    assert torch.allclose(ours, theirs)
    untouched = torch.tensor([0, 2, 3, 5])
    assert torch.equal(ours.detach()[untouched], before[untouched])
    assert torch.allclose(left.state[ours]["sum"], right.state[theirs]["sum"])


def test_it_learns_the_ring_and_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    def run(name: str, **options: object) -> float:
        found = train(ring(), SMALL, RunOptions(tmp_path / name, device="cpu", progress=False, **options))  # type: ignore[arg-type]
        return found.metrics["valid"].mrr

    assert run("whole") > 0.9
    ticks = iter(range(10**6))
    run("cut", stop_after=150.0, clock=lambda: float(next(ticks)))
    assert 0 < describe(tmp_path / "cut")["steps"] < describe(tmp_path / "whole")["steps"]
    run("cut", resume=True)
    assert describe(tmp_path / "cut")["sha256"] == describe(tmp_path / "whole")["sha256"]


def test_adam_would_change_every_row() -> None:
    with pytest.raises(BadInput, match="negatives need adagrad"):
        dataclasses.replace(SMALL, optimizer="adam")
