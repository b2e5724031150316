"""The columns of candidate edges against their definitions, written with loops and sets."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tuplet.truth.learned import features
from tuplet.truth.learned.features import LOWEST, Candidates, TrainEdges, column_names, columns, is_known

ENTITIES, RELATIONS = 12, 3
Edge = tuple[int, int, int]


def world(seed: int = 0) -> tuple[list[Edge], list[Edge], np.ndarray, np.ndarray]:
    """Known edges, candidates in order, and log truth in both directions."""
    rng = np.random.default_rng(seed)
    everyone = [(h, r, t) for r in range(RELATIONS) for h in range(ENTITIES) for t in range(ENTITIES)]
    known = [everyone[i] for i in sorted(rng.choice(len(everyone), 70, replace=False))]
    edges = [everyone[i] for i in sorted(rng.choice(len(everyone), 250, replace=False))]
    forward, backward = -rng.uniform(0.01, 5, (2, len(edges))).astype(np.float32)
    return known, edges, forward, backward


def tensors(edges: list[Edge]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    heads, relation, tails = torch.tensor(edges).T
    return heads, relation, tails


def computed(seed: int = 0, directions: bool = True) -> tuple[dict[str, list[float]], Candidates, TrainEdges]:
    known, edges, forward, backward = world(seed)
    mean = np.log((np.exp(forward) + np.exp(backward)) / 2)
    heads, relation, tails = tensors(edges)
    sides = (torch.from_numpy(forward), torch.from_numpy(backward)) if directions else (None, None)
    candidates = Candidates(heads, relation, tails, torch.from_numpy(mean), *sides)
    arranged = TrainEdges.of(ENTITIES, RELATIONS, *tensors(known))
    names = column_names(directions)
    return dict(zip(names, columns(arranged, candidates, names).tolist(), strict=True)), candidates, arranged


@pytest.mark.parametrize("block", [1 << 21, 1], ids=["at once", "relation by relation"])
@pytest.mark.parametrize("seed", [0, 1])
def test_rows_and_counts(seed: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_BLOCK", block)
    found, _, _ = computed(seed)
    known, edges, forward, backward = world(seed)
    for i, (h, r, t) in enumerate(edges):
        others = set(known) - {(h, r, t)}
        for side, log in (("tails", forward), ("heads", backward)):

            def same(edge: Edge, side: str = side, h: int = h, r: int = r, t: int = t) -> bool:
                return edge[1] == r and (edge[0] == h if side == "tails" else edge[2] == t)

            row = [j for j, edge in enumerate(edges) if same(edge) and edge not in set(known) and j != i]
            higher = [j for j in row if log[j] > log[i]]
            count = sum(map(same, others))
            best = max((log[j] for j in row), default=LOWEST)
            told = [math.exp(log[j]) for j, edge in enumerate(edges) if same(edge) and edge in others]
            wanted = {
                "rank-": len(higher),
                "above-": sum(math.exp(log[j]) for j in higher),
                "mass-": sum(math.exp(log[j]) for j in row),
                "margin-": log[i] - best,
                "count-": count,
                "log_softmax-": log[i] - math.log(max(count, 1)),
                "known_mean-": sum(told) / max(count, 1),
                "degree-": sum(
                    (e[0] == (h if side == "tails" else t)) + (e[2] == (h if side == "tails" else t)) for e in others
                ),
                "candidates-": len(row) + ((h, r, t) not in set(known)),
            }
            for name, value in wanted.items():
                assert found[name + side][i] == pytest.approx(value, rel=2e-3, abs=2e-3), (name + side, i)


def test_rules_and_types() -> None:
    found, _, _ = computed()
    known, edges, _, _ = world()
    links = {(h, t, 2 * r) for h, r, t in known} | {(t, h, 2 * r + 1) for h, r, t in known}
    views = {(h, 2 * r) for h, r, _ in known} | {(t, 2 * r + 1) for _, r, t in known}
    for i, (h, r, t) in enumerate(edges):
        own = float((h, r, t) in known)
        between = [v for v in range(2 * RELATIONS) if (h, t, v) in links and v != 2 * r]
        confidence = []
        for view in between:
            pairs = {(x, y) for x, y, v in links if v == view}
            both = sum((x, y, 2 * r) in links for x, y in pairs)
            confidence.append(max(0.0, (both - own) / (len(pairs) + 5)))
        assert found["rule"][i] == pytest.approx(max(confidence, default=0), abs=1e-3)
        assert found["rules"][i] == pytest.approx(sum(math.log1p(-c) for c in confidence), abs=2e-3)
        assert found["links"][i] == len(between)
        mine = [v for v in range(2 * RELATIONS) if (h, v) in views and v != 2 * r]
        shares = []
        for view in mine:
            having = {e for e, v in views if v == view}
            shares.append(sum((e, 2 * r) in views for e in having) / (len(having) + 5))
        assert found["type-tails"][i] == pytest.approx(max(shares, default=0), abs=1e-3)


def test_a_known_edge_is_described_as_if_it_were_unknown() -> None:
    """Taking one known edge away changes nothing about its own counts and rules."""
    known, edges, forward, backward = world()
    place = next(i for i, edge in enumerate(edges) if edge in known)
    heads, relation, tails = tensors(edges)
    logs = (torch.from_numpy(forward), torch.from_numpy(forward), torch.from_numpy(backward))
    candidates = Candidates(heads, relation, tails, *logs)
    names = (
        "count-tails",
        "count-heads",
        "degree-tails",
        "degree-heads",
        "rank-tails",
        "rule",
        "links",
        "margin-tails",
    )
    values = [
        columns(TrainEdges.of(ENTITIES, RELATIONS, *tensors(given)), candidates, names)[:, place].tolist()
        for given in (known, [edge for edge in known if edge != edges[place]])
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-3)


def test_names_and_marks() -> None:
    found, candidates, arranged = computed(directions=False)
    assert not any(name.startswith(("log-", "log_softmax-")) for name in found)
    known, edges, _, _ = world()
    assert is_known(arranged, candidates).tolist() == [edge in known for edge in edges]
    assert "rule" not in column_names(without=("rules",))
    assert "rule" in column_names()
