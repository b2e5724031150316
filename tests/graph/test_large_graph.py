"""The generator of large graphs: what it promises, at a small size."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import large_graph

ENTITIES, RELATIONS, FACTS = 5_000, 41, 25_000


@pytest.fixture(scope="module")
def made() -> large_graph.Facts:
    return large_graph.make(ENTITIES, RELATIONS, FACTS, seed=1)


def test_sizes_are_those_asked_for(made: large_graph.Facts) -> None:
    assert abs(len(made.heads) - FACTS) < 0.03 * FACTS
    assert len(np.unique(np.concatenate([made.heads, made.tails]))) == ENTITIES
    assert np.unique(made.relation).tolist() == list(range(RELATIONS))
    keys = (made.relation.astype(np.int64) * ENTITIES + made.heads) * ENTITIES + made.tails
    assert len(np.unique(keys)) == len(keys)


def test_a_seed_decides_everything(made: large_graph.Facts) -> None:
    again, other = (large_graph.make(ENTITIES, RELATIONS, FACTS, seed) for seed in (1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(made, again, strict=True))
    assert not np.array_equal(made.heads[:1000], other.heads[:1000])


def test_rules_hold_as_often_as_planted(made: large_graph.Facts) -> None:
    names = large_graph.relation_names(RELATIONS)

    def pairs(name: str) -> set[tuple[int, int]]:
        mine = made.relation == names.index(name)
        return set(zip(made.heads[mine].tolist(), made.tails[mine].tolist(), strict=True))

    for group, share in enumerate(large_graph.SHARES[:3]):
        image = dict(pairs(f"one{group}"))
        assert len(image) == len(pairs(f"one{group}"))  # one tail for each head
        body = {(x, image[y]) for x, y in pairs(f"near{group}") if y in image}
        assert len(body & pairs(f"rule{group}")) / len(body) == pytest.approx(share, abs=0.08)


def test_what_is_written_is_what_was_made(made: large_graph.Facts, tmp_path: Path) -> None:
    large_graph.write_arrays(tmp_path / "graph.npz", made, RELATIONS)
    with np.load(tmp_path / "graph.npz") as arrays:
        held_out = [arrays[split].shape[1] for split in ("valid", "test")]
        assert (arrays["valid"][1] < RELATIONS - 1).all()  # types are never held out
        assert arrays["train"].shape[1] + sum(held_out) == len(made.heads)
        assert min(held_out) > 0.005 * FACTS
    some = np.arange(10)
    large_graph.write_names(tmp_path / "graph.tsv", made, RELATIONS, some)
    first = (tmp_path / "graph.tsv").read_text().splitlines()[0].split("\t")
    assert first == [f"e{made.heads[0]}", large_graph.relation_names(RELATIONS)[made.relation[0]], f"e{made.tails[0]}"]
