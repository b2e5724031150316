"""Dates of facts: the newest as a hold-out, and ages as of the cut, against their definitions."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import tuplet
from tuplet.build import make
from tuplet.errors import BadInput
from tuplet.graph import newest as newest_facts
from tuplet.graph.graph import NO_DATE, SPLIT_CODE, KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.graph.newest import NewestHoldOut, as_of, with_newest_valid
from tuplet.predict.base import TrainingEdges
from tuplet.predict.config import TrainConfig
from tuplet.predict.model_folder import describe
from tuplet.truth.calibration import fit as learned
from tuplet.truth.calibration.calibrate import calibrate, candidates_of, known_edges
from tuplet.truth.calibration.features import GROUPS, column_names, columns
from tuplet.truth.calibration.trees import TreeSettings
from tuplet.truth.edges import Predictions, ScoredEdges
from tuplet.truth.recipes import Predicted
from tuplet.truth.trained import ModelRun, train_again

DAY = 86_400
ENTITIES = 60


def dated(facts: int = 5000, seed: int = 0, undated: float = 0.0) -> KnowledgeGraph:
    """Random facts of two relations, some on each of 100 days."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(2 * ENTITIES**2, facts, replace=False))
    date = rng.integers(0, 100, facts) * DAY
    date[rng.random(facts) < undated] = NO_DATE
    return KnowledgeGraph.from_edges(
        Vocabulary.from_names([f"e{i}" for i in range(ENTITIES)]),
        Vocabulary.from_names(["r0", "r1"]),
        chosen // ENTITIES % ENTITIES,
        chosen // ENTITIES**2,
        chosen % ENTITIES,
        date=date,
    )


def by_split(graph: KnowledgeGraph, split: str) -> np.ndarray:
    """The dates of its facts."""
    assert graph.date is not None
    return graph.date[graph.split == SPLIT_CODE[split]]


@pytest.mark.parametrize("undated", [0.0, 0.3])
def test_the_newest_tenth_is_held_out_day_by_day(undated: float) -> None:
    graph = with_newest_valid(dated(undated=undated))
    train, valid = by_split(graph, "train"), by_split(graph, "valid")
    assert train[train != NO_DATE].max() < valid.min()
    assert (valid != NO_DATE).all()
    share = len(valid) / (len(valid) + (train != NO_DATE).sum())
    assert share == pytest.approx(0.1, abs=0.01)
    held_out = NewestHoldOut.from_graph(graph)
    assert held_out is not None
    assert (held_out.cut, held_out.until) == (valid.min(), valid.max())
    assert held_out.as_dict()["days"] == (valid.max() - valid.min()) / DAY
    assert NewestHoldOut.from_graph(dated()) is None


def test_what_cannot_be_held_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no fact has a date"):
        with_newest_valid(dated(undated=1.0))
    with pytest.raises(BadInput, match=r"of the \d+ since 1970-.* are between entities known before, and 300") as few:
        with_newest_valid(dated(1000))
    assert few.value.shell.endswith("; take --holdout random, which does with fewer")
    same = dated()
    assert same.date is not None
    with pytest.raises(BadInput, match="5,000 of the 5,000 dated facts have the date 1970-01-01 or later; take hold"):
        with_newest_valid(replace(same, date=np.zeros_like(same.date)))
    with pytest.raises(BadInput, match="there is a valid split already"):
        with_newest_valid(with_newest_valid(dated()))
    with pytest.raises(BadInput, match="no fact has a date"):
        tuplet.build([("a", "r", "b")], tmp_path / "s", holdout="newest", progress=False)
    with pytest.raises(BadInput, match="unknown hold-out 'oldest'"):
        tuplet.build([("a", "r", "b")], tmp_path / "s", holdout="oldest", progress=False)


def everything() -> Predictions:
    """All edges as candidates, equally likely."""
    place = np.arange(2 * ENTITIES**2)
    truth = np.random.default_rng(1).uniform(0.01, 0.2, len(place))
    return Predictions.from_columns(place // ENTITIES % ENTITIES, place // ENTITIES**2, place % ENTITIES, truth)


def test_ages_are_what_was_known_at_the_cut() -> None:
    graph = with_newest_valid(dated(undated=0.2))
    held_out, edges = NewestHoldOut.from_graph(graph), everything()
    assert held_out is not None
    known = known_edges(graph)
    names = column_names(without=tuple(group for group in GROUPS if group != "time"))
    found = dict(zip(names, columns(known, candidates_of(edges, edges), names).tolist(), strict=True))
    assert graph.date is not None
    entry = graph.adjacency.triples()[3]
    train = graph.split[entry] == SPLIT_CODE["train"]
    facts = list(zip(*(side.tolist() for side in graph.edges("train")), graph.date[entry][train].tolist(), strict=True))
    now, unit = held_out.cut, held_out.length

    def wanted(dates: list[int]) -> tuple[float, float, int]:
        if not dates:
            return math.nan, math.nan, 0
        return (now - max(dates)) / unit, (now - min(dates)) / unit, sum(date >= now - unit for date in dates)

    for i in range(0, len(edges.heads), 97):
        h, r, t = (int(side[i]) for side in edges[:3])
        others = [fact for fact in facts if fact[:3] != (h, r, t) and fact[3] != NO_DATE]
        for side, end, place in (("tails", h, 0), ("heads", t, 2)):
            age, first, lately = wanted([f[3] for f in others for ends in (f[0], f[2]) if ends == end])
            row_age, _, row_lately = wanted([f[3] for f in others if f[1] == r and f[place] == end])
            told = [found[f"{name}-{side}"][i] for name in ("age", "first", "lately", "row_age", "row_lately")]
            assert told == pytest.approx([age, first, lately, row_age, row_lately], rel=2e-3, abs=2e-3, nan_ok=True)
        age, _, lately = wanted([f[3] for f in others if f[1] == r])
        assert [found["relation_age"][i], found["relation_lately"][i]] == pytest.approx([age, lately], rel=2e-3)


def test_later_facts_change_nothing_that_was_known_at_the_cut() -> None:
    """Held-out facts at other dates and of other ends: columns and trees that saw train alone are the same."""
    graph, edges = with_newest_valid(dated()), everything()
    heads, relation, tails, entry = graph.adjacency.triples()
    assert graph.date is not None
    keep = graph.split[entry] == SPLIT_CODE["train"]
    without = KnowledgeGraph.from_edges(
        graph.entities, graph.relations, heads[keep], relation[keep], tails[keep], None, None, graph.notes,
        graph.date[entry][keep],
    )  # fmt: skip
    names = column_names(without=())
    candidates = candidates_of(edges, edges)
    assert torch.equal(*(columns(known_edges(g), candidates, names).nan_to_num(-1) for g in (graph, without)))


def test_truth_is_the_share_that_the_time_held_out_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned, "TreeSettings", lambda: TreeSettings(trees=20, depth=2))
    graph, edges = with_newest_valid(dated()), everything()
    found = calibrate(graph, edges, ("train", "valid"))
    assert found.newest is not None
    assert found.as_dict()["holdout"] == found.newest.as_dict()
    assert {"age-tails", "relation_age"} <= set(found.fit.learned.names)
    truth = found.fit.learned.truth(known_edges(graph), candidates_of(edges, edges)).numpy()
    stated = {tuple(edge) for edge in np.stack(graph.edges("train")).T.tolist()}
    free = [tuple(edge) not in stated for edge in np.stack(edges[:3]).T.tolist()]
    share = len(graph.edges("valid")[0]) / sum(free)
    assert float(truth[free].mean()) == pytest.approx(share, rel=0.15)
    # what is listed is judged as of now, by all folds
    now = found.fit.learned.truth(known_edges(graph, ("train", "valid")), candidates_of(edges, edges), True)
    assert found.edges.hash() == edges._replace(prediction=now.numpy()).reaching(0.0005).hash()


def scored(given: Predictions) -> ScoredEdges:
    return ScoredEdges(*given[:3], ("complex",), np.log(np.stack([[given.prediction, given.prediction]])))


def listed(*edges: np.ndarray) -> list[tuple[int, ...]]:
    return list(zip(*(side.tolist() for side in edges), strict=True))


def test_windows_are_judged_by_what_was_known_when_each_began() -> None:
    graph = with_newest_valid(dated(undated=0.2), windows=3)
    newest = NewestHoldOut.from_graph(graph)
    assert newest is not None
    assert newest.windows == newest.as_dict()["windows"] == 3
    *edges, entry = graph.adjacency.triples()
    assert graph.date is not None
    date = dict(zip(listed(*edges), graph.date[entry].tolist(), strict=True))
    always, held_out = (set(listed(*graph.edges(split))) for split in ("train", "valid"))
    for number in range(4):
        then = as_of(graph, number)
        begins = newest.cut + number * newest.length
        known = {fact for fact in held_out if date[fact] < begins or number == 3}
        assert set(listed(*then.edges("train"))) == always | known
        ends = begins + newest.length + (number == 2)
        valid = {fact for fact in held_out - known if date[fact] < ends}
        assert set(listed(*then.edges("valid"))) == valid
        if number < 3:
            assert abs(len(valid) - 400) < 80, "a tenth of those that have dates"
            assert NewestHoldOut.from_graph(then) == NewestHoldOut(begins, min(ends, newest.until), len(valid))


def test_many_facts_need_no_more_windows_and_half_of_the_facts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def windows(asked: int) -> int:
        found = NewestHoldOut.from_graph(with_newest_valid(dated(), windows=asked))
        assert found is not None
        return found.windows

    assert (windows(3), windows(9)) == (3, 5), "six would be more than half"
    monkeypatch.setattr(newest_facts, "MANY", 400)
    assert windows(3) == 1


def test_what_is_listed_comes_from_predictors_that_know_the_newest_facts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned, "TreeSettings", lambda: TreeSettings(trees=20, depth=2))
    graph, whole = with_newest_valid(dated(), windows=2), everything()
    some = np.arange(len(whole.heads)) % 3 > 0
    now = Predictions(*(side[some] for side in whole[:3]), whole.prediction[some] / 2)
    found = calibrate(graph, scored(whole), ("train", "valid"), later=[scored(whole), scored(now)])
    given = scored(now).predictions()
    truth = found.fit.learned.truth(
        known_edges(graph, ("train", "valid")), candidates_of(scored(now), given), later=True
    )
    assert found.edges.hash() == given._replace(prediction=truth.numpy()).reaching(0.0005).hash()
    assert found.after.facts.sum() == len(graph.edges("valid")[0]), "the facts of both windows are looked for"
    assert not any("complex" in name for name in found.fit.learned.names)


def test_embeddings_learn_anew_and_path_networks_read_other_facts(tmp_path: Path) -> None:
    graph = with_newest_valid(dated(), windows=2)
    run = ModelRun(graph, tmp_path / "m", "cpu", True, False, lambda *_: None)
    edges = TrainingEdges.from_graph(graph)
    embedding = TrainConfig(rank=4, batch=500, epochs=4, evaluate_every=1, patience=1)
    models = [tmp_path / "m" / name for name in ("complex", "paths")]
    run.train(edges, models[0], embedding)
    run.train(edges, models[1], replace(embedding, model="paths", steps=2, layers=2))
    later = train_again(run, models, tmp_path / "again")
    assert later == [[tmp_path / "again" / number / "complex", models[1]] for number in ("1", "2")]
    for number, (again, _) in enumerate(later, 1):
        about = describe(again)
        assert about["epochs"] == describe(models[0])["best_epoch"]
        assert about["graph"] == as_of(graph, number).hash
    store = make(graph, Predicted(models, calibration="learned", later=later), tmp_path / "s")
    assert store.meta.calibration is not None
    assert store.meta.calibration["holdout"]["windows"] == 2
