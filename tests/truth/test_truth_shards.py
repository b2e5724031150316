"""A relation in shards says what it says as a whole, and goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_truth_predictor import Plain
from test_truth_sweep import ENTITIES, RELATIONS, random_edges, random_model

from tuplet.predict.base import LinkPredictor
from tuplet.truth.calibration.calibrate import two_step_rules
from tuplet.truth.candidates import score
from tuplet.truth.candidates.score import CandidateScorer, ShardSize, SweepTask, finished_relations, score_candidates
from tuplet.truth.candidates.sources import EVERYTHING, CandidateSources, TwoStepPairs
from tuplet.truth.rules import Calibration

SMALL = ShardSize(cells=3 * ENTITIES, dear_rows=4)


class Walker(Plain):
    """Whole rows alone, which are dear."""

    sees_facts = True


def scorers(kind: str) -> dict[str, LinkPredictor]:
    dear: dict[str, LinkPredictor] = {"dear": Walker(random_model(seed=5), arrays=False)}
    return {"cheap": random_model()} | (dear if kind == "both" else {}) if kind != "dear" else dear


@pytest.mark.parametrize("kind", ["cheap", "both", "dear"])
@pytest.mark.parametrize("sources", [CandidateSources(0.1, open_from=0.3), EVERYTHING], ids=str)
def test_shards_say_what_the_whole_says(kind: str, sources: CandidateSources, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = random_edges(3, count=90)
    rules = two_step_rules(ENTITIES, RELATIONS, edges)
    assert rules is not None
    pairs = None if sources.everything else TwoStepPairs(rules, 0.01, np.zeros(RELATIONS))
    whole = score_candidates(scorers(kind), edges, sources, 0.02, two_step=pairs)
    monkeypatch.setattr(score, "SHARD", SMALL)
    again = score_candidates(scorers(kind), edges, sources, 0.02, two_step=pairs)
    assert len(whole) > 300
    for side in ("heads", "relation", "tails"):
        np.testing.assert_array_equal(getattr(whole, side), getattr(again, side))
    np.testing.assert_allclose(again.logs, whole.logs, atol=1e-4)


def test_shards_that_are_finished_are_not_swept_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score, "SHARD", SMALL)
    edges, sources, swept = random_edges(3, count=90), CandidateSources(0.1), []
    whole = score_candidates(scorers("both"), edges, sources, 0.02)
    compute = SweepTask.compute

    def counted(task: SweepTask, work: CandidateScorer, *rest: Any) -> Any:
        swept.append(task.name)
        if len(swept) == 7:
            raise KeyboardInterrupt
        return compute(task, work, *rest)

    monkeypatch.setattr(SweepTask, "compute", counted)
    cache = finished_relations(tmp_path, ["a"], sources, 0.02, Calibration(), edges)
    assert cache is not None
    with pytest.raises(KeyboardInterrupt):
        score_candidates(scorers("both"), edges, sources, 0.02, cache=cache)
    (cache.folder / f"{swept[2]}.npz").write_bytes(b"damaged")
    again = score_candidates(scorers("both"), edges, sources, 0.02, cache=cache)
    assert len(set(swept)) > 9
    assert {name for name in swept if swept.count(name) > 1} == {swept[2], swept[6]}
    np.testing.assert_array_equal(again.logs, whole.logs)
    assert {path.stem for path in cache.folder.iterdir()} == {str(number) for number in range(RELATIONS)}
