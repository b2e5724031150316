"""The columns of candidate edges against their definitions, written with loops and sets."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tuplet.truth.calibration import features
from tuplet.truth.calibration.features import LOWEST, Candidates, column_names, columns
from tuplet.truth.known_edges import TrainEdges

ENTITIES, RELATIONS = 12, 3
SCORERS = ("one", "other")
Edge = tuple[int, int, int]


def world(seed: int = 0) -> tuple[list[Edge], list[Edge], np.ndarray]:
    """Known edges, candidates in order, and what two scorers say in both directions; the second leaves out some rows.

    [scorers, 2, candidates]
    """
    rng = np.random.default_rng(seed)
    everyone = [(h, r, t) for r in range(RELATIONS) for h in range(ENTITIES) for t in range(ENTITIES)]
    known = [everyone[i] for i in sorted(rng.choice(len(everyone), 70, replace=False))]
    edges = [everyone[i] for i in sorted(rng.choice(len(everyone), 250, replace=False))]
    logs = -rng.uniform(0.01, 5, (2, 2, len(edges))).astype(np.float32)
    for side, end in ((0, 0), (1, 2)):
        logs[1, side, [edge[end] % 4 == side for edge in edges]] = np.nan
    return known, edges, logs


def tensors(edges: list[Edge]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    heads, relation, tails = torch.tensor(edges).T
    return heads, relation, tails


def computed(seed: int = 0, scorers: bool = True) -> tuple[dict[str, list[float]], Candidates, TrainEdges]:
    known, edges, logs = world(seed)
    mean = torch.from_numpy(np.log(np.nanmean(np.exp(logs), axis=(0, 1))))
    said = (SCORERS, torch.from_numpy(logs)) if scorers else ()
    candidates = Candidates(*tensors(edges), mean, *said)
    arranged = TrainEdges.from_edges(ENTITIES, RELATIONS, *tensors(known))
    names = column_names(candidates.scorers, without=("paths", "time"))
    return dict(zip(names, columns(arranged, candidates, names).tolist(), strict=True)), candidates, arranged


@pytest.mark.parametrize("block", [1 << 21, 1], ids=["at once", "relation by relation"])
@pytest.mark.parametrize(("seed", "scorers"), [(0, True), (1, True), (0, False)])
def test_rows_and_counts(seed: int, scorers: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_BLOCK", block)
    found, candidates, _ = computed(seed, scorers)
    known, edges, logs = world(seed)
    said = {"one.": logs[0], "other.": logs[1]} if scorers else {"": np.stack([candidates.log_truth] * 2)}
    for i, (h, r, t) in enumerate(edges):
        others = set(known) - {(h, r, t)}
        for place, side in enumerate(("tails", "heads")):
            end = h if side == "tails" else t

            def same(edge: Edge, side: str = side, r: int = r, end: int = end) -> bool:
                return edge[1] == r and edge[0 if side == "tails" else 2] == end

            row = [j for j, edge in enumerate(edges) if same(edge) and edge not in set(known) and j != i]
            count = sum(map(same, others))
            wanted = {
                "count-": count,
                "degree-": sum((e[0] == end) + (e[2] == end) for e in others),
                "candidates-": len(row),
            }
            for scorer, both in said.items():
                log = both[place]
                higher = [j for j in row if log[j] > log[i]]
                told = [math.exp(log[j]) for j, edge in enumerate(edges) if same(edge) and edge in others]
                standing = {
                    "rank-": len(higher),
                    "above-": sum(math.exp(log[j]) for j in higher),
                    "mass-": sum(math.exp(log[j]) for j in row),
                    "margin-": log[i] - max((log[j] for j in row), default=LOWEST),
                    "known_mean-": sum(told) / max(count, 1),
                }
                if scorer:
                    standing |= {"log-": log[i], "log_softmax-": log[i] - math.log(max(count, 1))}
                absent = math.isnan(log[i])
                wanted |= {scorer + name: math.nan if absent else value for name, value in standing.items()}
            for name, value in wanted.items():
                assert found[name + side][i] == pytest.approx(value, rel=2e-3, abs=2e-3, nan_ok=True), (name + side, i)


def test_products_of_counts() -> None:
    found, _, _ = computed()
    for product, factor in (("counts", "count"), ("degrees", "degree")):
        both = np.array([found[f"{factor}-tails"], found[f"{factor}-heads"]])
        np.testing.assert_allclose(found[product], np.log1p(both).sum(0), rtol=2e-3)


def test_agreement() -> None:
    found, _, _ = computed()
    _, edges, logs = world()
    for i in range(len(edges)):
        said = [log for log in logs[:, :, i].ravel() if not math.isnan(log)]
        ranks = [found[f"{scorer}.rank-{side}"][i] for scorer in SCORERS for side in ("tails", "heads")]
        ranked = [math.log1p(rank) for rank in ranks if not math.isnan(rank)]
        wanted = {"level": np.mean(said), "worst": min(said), "ranks": np.mean(ranked), "best_rank": min(ranked)}
        for scorer, both in zip(SCORERS, logs[:, :, i], strict=True):
            known = [log for log in both if not math.isnan(log)]
            wanted |= {scorer + ".level": np.mean(known or [math.nan]), scorer + ".best": max(known, default=math.nan)}
        for name, value in wanted.items():
            assert found[name][i] == pytest.approx(value, rel=2e-3, abs=2e-3, nan_ok=True), (name, i)
    assert np.isnan(found["other.best"]).any()


def test_rules_and_types() -> None:
    found, _, _ = computed()
    known, edges, _ = world()
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
    known, edges, logs = world()
    place = next(i for i, edge in enumerate(edges) if edge in known)
    candidates = Candidates(*tensors(edges), torch.from_numpy(logs[0, 0]), SCORERS, torch.from_numpy(logs))
    names = column_names(SCORERS, without=("relation", "types", "paths", "time"))
    values = [
        columns(TrainEdges.from_edges(ENTITIES, RELATIONS, *tensors(given)), candidates, names)[:, place].tolist()
        for given in (known, [edge for edge in known if edge != edges[place]])
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-3, nan_ok=True)


def test_names_and_marks() -> None:
    found, candidates, arranged = computed(scorers=False)
    assert not any("." in name for name in found)
    known, edges, _ = world()
    assert arranged.has(*candidates[:3]).tolist() == [edge in known for edge in edges]
    assert "rule" not in column_names(without=("rules",))
    assert "rule" in column_names()
