"""Entities that come after a store was made: predictions about them, what waits, and what others do meanwhile."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tuplet
from tuplet.errors import BadInput
from tuplet.predict import model_folder
from tuplet.predict.embeddings import ComplEx
from tuplet.predict.paths.model import AnyGraphModel
from tuplet.progress import silent
from tuplet.store import Store
from tuplet.truth.calibration import fit
from tuplet.truth.calibration.trees import TreeSettings
from tuplet.truth.edges import Predictions
from tuplet.truth.new_entities import learn, predict
from tuplet.truth.new_entities.predict import facts_met, known_facts, stale_rows
from tuplet.truth.store_folder import StoreFiles, graph_sizes

PEOPLE, TOWNS = 120, 8


def facts() -> list[tuple[str, str, str]]:
    """People who live in a town read its paper, speak its language, and know others there."""
    rng = np.random.default_rng(0)
    found = set()
    for person in range(PEOPLE):
        town = person % TOWNS
        found |= {(f"p{person}", "lives_in", f"town{town}"), (f"p{person}", "reads", f"paper{town}")}
        found.add((f"p{person}", "speaks", f"language{town % 3}"))
        found |= {(f"p{person}", "knows", f"p{int(k) * TOWNS + town}") for k in rng.integers(0, PEOPLE // TOWNS, 4)}
    return sorted(fact for fact in found if fact[0] != fact[2])


def untrained(entities: int, relations: int) -> ComplEx:
    """A predictor of what the store is made of; it matters here for nobody."""
    return ComplEx.create(entities, relations, 4, 0.1, 0, torch.Generator().manual_seed(0))


NEW = [("zoe", "lives_in", "town1"), ("zoe", "knows", "p1"), ("zoe", "knows", "p9")]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that has learned nothing: what is similar has to do."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("network") / "m"
    model_folder.save(AnyGraphModel(AnyGraphModel.network_of(0, 8, 2).requires_grad_(False), 0, 0), folder)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, network: Path) -> Path:
    """A store with a calibration for new entities."""
    folder = tmp_path_factory.mktemp("store")
    graph = tuplet.read(facts())
    model = untrained(len(graph.entities), len(graph.relations))
    path = folder / "s"
    tuplet.index(graph, model, path, calibration="softmax-count", progress=False)
    store = tuplet.open(path)
    with pytest.MonkeyPatch.context() as quick:
        quick.setattr(learn, "TREES", TreeSettings(trees=30, depth=3, rate=0.2))
        store.add([("first", "lives_in", "town0")], new_entities=True, model=network)
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Store:
    return tuplet.open(shutil.copytree(made, tmp_path / "s"))


def sizes_agree(store: Store) -> None:
    """What the store says it holds is what it holds."""
    files = StoreFiles.open(store.path or "")
    assert {key: files.meta.report.as_dict()[key] for key in ("edges", "facts", "predicted")} == files.table.sizes()


def said(store: Store, name: str = "zoe") -> dict[tuple[str, str], float]:
    """What is predicted about an entity as a head."""
    return {(f.relation, f.tail): f.truth for f in store.entity(name, 99) if f.status == "predicted" and f.head == name}


def test_facts_about_a_new_entity_are_predicted_at_once(store: Store, network: Path) -> None:
    report = store.add(NEW, new_entities=True, model=network)
    assert report.new_entities == ("zoe",)
    assert report.predicted > 0
    assert (report.waiting, report.why) == (0, None)
    about = said(store)
    assert about["reads", "paper1"] > 0.5 > max(about.get(("reads", f"paper{n}"), 0.0) for n in range(TOWNS) if n != 1)
    assert about["speaks", "language1"] > about.get(("speaks", "language0"), 0.0)
    assert max(about.values()) < 1
    assert all(
        fact.status == "observed" for fact in store.entity("zoe", 99) if (fact.relation, fact.tail) == NEW[0][1:]
    )
    answer = store.ask('?x : reads("zoe", ?x)', k=1, evidence=True)[0]
    assert answer.values == {"x": "paper1"}
    assert answer.status == "predicted"
    sizes_agree(store)
    known = store.info()["new_entities"]
    assert (known["count"], known["waiting"]) == (2, 0)
    assert known["stale"]["rows"] >= 3  # town1 is lived in by one more, p1 and p9 are known by one more
    assert known["calibration"]["made"]["entities"] > 0


def test_without_time_the_facts_are_there_and_update_does_the_rest(store: Store, network: Path) -> None:
    report = store.add(NEW, new_entities=True, seconds=0, model=network)
    assert (report.added, report.predicted, report.waiting) == (3, 0, 1)
    assert not said(store)
    assert store.info()["new_entities"]["waiting"] == 1
    answers = store.ask('?x : reads("zoe", ?x)')
    assert answers.to_dict()["about"]["waiting"] == 1
    assert answers.summary().endswith("nothing is predicted yet about 1 new entity (tuplet update)")
    done = store.update(model=network)
    assert "waiting" not in store.ask('?x : reads("zoe", ?x)').to_dict()["about"]
    assert (done.entities, done.waiting, done.stale_rows) == (1, 0, 0)
    assert done.moved > 0
    assert said(store)
    assert store.info()["new_entities"]["stale"] == {"entities": 0, "rows": 0}
    sizes_agree(store)
    again = store.generation
    assert store.update(model=network).rows == 0
    assert store.generation == again


def test_a_new_entity_whose_facts_change_waits_again(store: Store, network: Path) -> None:
    store.add(NEW, new_entities=True, model=network)
    before = said(store)
    store.add([("zoe", "reads", "paper1"), ("zoe", "speaks", "language2")])
    assert store.info()["new_entities"]["waiting"] == 1
    store.remove([NEW[0]])
    assert store.info()["new_entities"]["waiting"] == 1
    store.update(model=network)
    after = said(store)
    assert ("reads", "paper1") not in after
    assert after != before
    sizes_agree(store)
    old = store.info()["new_entities"]
    store.add([("p0", "reads", "paper1")])  # of entities that the store was made with
    assert store.info()["new_entities"] == old


def test_who_stops_an_add_has_the_facts_and_may_go_on(store: Store, network: Path) -> None:
    def stop(step: str, done: float, total: float, note: str) -> None:
        if step == "predict":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.add(NEW, new_entities=True, model=network, progress=stop)
    assert store.ask('?x : lives_in("zoe", ?x)', only="observed")[0].values == {"x": "town1"}
    assert store.info()["new_entities"]["waiting"] == 1
    store.update(model=network)
    assert said(store)


def test_what_is_no_longer_predicted_goes(store: Store, network: Path) -> None:
    store.add(NEW, new_entities=True, model=network)
    store.remove(NEW)
    store.update(model=network)
    assert not said(store)
    sizes_agree(store)


def test_predictions_outlive_a_compaction(store: Store, network: Path) -> None:
    store.add(NEW, new_entities=True, model=network)
    before = said(store)
    assert store.compact()
    assert said(store) == before
    sizes_agree(store)
    assert tuplet.info(store.path or "", verify=True)["new_entities"]["count"] == 2
    store.add([("yan", "lives_in", "town2"), ("yan", "knows", "zoe")], new_entities=True, model=network)
    reads = {end: truth for (relation, end), truth in said(store, "yan").items() if relation == "reads"}
    assert max(reads, key=lambda end: reads[end]) == "paper2"


def test_who_changes_the_facts_meanwhile_is_heard(store: Store, network: Path) -> None:
    """Rows were computed; before they are put in, somebody adds facts of one of the two entities."""
    assert store.path is not None
    store.add([*NEW, ("yan", "lives_in", "town2")], new_entities=True, seconds=0, model=network)
    files = StoreFiles.open(store.path)
    waiting, known = files.meta.new.ids, known_facts(files)
    store.add([("yan", "knows", "p2")])
    scene = learn.KnownGraph.from_edges(*graph_sizes(files.graph), known, predict.network_of(network)[0])
    learned = files.load_calibration("newcomers")
    assert learned is not None
    scored = scene.score(scene.rows(waiting), lambda _: None)
    found = Predictions(*scored.edges, scene.truth(learned, scored)).reaching(files.meta.threshold)
    work = predict.PredictionWork(files, None, silent, 60)
    report, after = work.put(known, waiting, found), work.store
    assert report.entities == 1
    assert [after.graph.entities.name(number) for number in after.meta.new.ids] == ["yan"]
    store.refresh()
    assert said(store)
    assert not said(store, "yan")
    sizes_agree(store)


def test_a_store_without_predictions_says_why(tmp_path: Path, network: Path) -> None:
    tuplet.index(tuplet.read([("a", "r", "b", 0.5)]), None, tmp_path / "s")
    store = tuplet.open(tmp_path / "s")
    report = store.add([("c", "r", "b")], new_entities=True, model=network)
    assert report.why == "no truth value of this store was made by a predictor"
    assert report.waiting == 0
    assert store.info()["new_entities"] == {"count": 1, "waiting": 0, "why": report.why}


def test_too_few_facts_to_learn_from(tmp_path: Path, network: Path) -> None:
    graph = tuplet.read([(f"a{n}", "r", f"b{n % 3}") for n in range(20)])
    model = untrained(len(graph.entities), 1)
    tuplet.index(graph, model, tmp_path / "s", calibration="softmax-count", progress=False)
    store = tuplet.open(tmp_path / "s")
    report = store.add([("c", "r", "b1")], new_entities=True, model=network)
    assert report.why == "21 facts are too few to learn from, 600 are needed"
    assert store.info()["new_entities"] == {"count": 1, "waiting": report.waiting, "why": report.why}


def test_only_a_network_of_any_graph_will_do(store: Store, tmp_path: Path) -> None:
    model_folder.save(untrained(9, 2), tmp_path / "m")
    with pytest.raises(BadInput, match="of kind any-graph"):
        store.add(NEW, new_entities=True, model=tmp_path / "m")
    with pytest.raises(BadInput, match="no such model"):
        store.update(model=tmp_path / "none")
    assert store.graph.entities.find("zoe") < 0


@pytest.mark.parametrize("seconds", [-1, float("nan"), "soon"])
def test_a_time_that_is_none_changes_nothing(store: Store, seconds: float) -> None:
    with pytest.raises(BadInput, match="it must be 0 or more"):
        store.add(NEW, new_entities=True, seconds=seconds)
    with pytest.raises(BadInput, match="it must be 0 or more"):
        store.update(seconds=seconds)
    assert store.graph.entities.find("zoe") < 0


def test_half_of_the_facts_of_an_entity_are_hidden() -> None:
    heads, tails = np.repeat(np.arange(10), 9), np.tile(np.arange(10, 19), 10)
    gone = learn._halves(heads, tails, np.array([3, 4]), 19, np.random.default_rng(0))
    assert np.bincount(heads[gone], minlength=10).tolist() == [0, 0, 0, 4, 4, 0, 0, 0, 0, 0]


def test_rows_around_a_hub_are_not_stale(store: Store, network: Path) -> None:
    """One speaker more among forty is a fortieth; one among sixty would be too few to look at the row again."""
    assert store.path is not None
    store.add(NEW, new_entities=True, seconds=0, model=network)
    files = StoreFiles.open(store.path)
    names = {files.graph.entities.name(number) for number in stale_rows(files).entity.tolist()}
    assert {"town1", "p1", "p9"} <= names
    met = replace(files.meta, new=replace(files.meta.new, met=2))
    assert len(stale_rows(replace(files, meta=met)).entity) == 0


def test_a_later_fact_makes_its_row_stale_again_and_no_other(store: Store, network: Path) -> None:
    assert store.path is not None
    store.add(NEW, new_entities=True, model=network)
    assert store.update(model=network).moved > 0
    assert store.info()["new_entities"]["stale"] == {"entities": 0, "rows": 0}
    store.add([("zoe", "reads", "paper1")])
    files = StoreFiles.open(store.path)
    stale = stale_rows(files)
    assert [files.graph.entities.name(number) for number in stale.entity.tolist()] == ["paper1"]
    facts, met = known_facts(files), facts_met(files, known_facts(files))
    assert len(facts[0]) - len(met[0]) == 1  # what the rows knew of before, they are judged by twice
    done = store.update(model=network)
    assert (done.stale_rows, store.info()["new_entities"]["stale"]["rows"]) == (0, 0)
    assert StoreFiles.open(store.path).meta.new.later == ()
    sizes_agree(store)


def test_a_calibration_that_had_little_time_is_learned_again_with_more(
    tmp_path: Path, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = tuplet.read(facts())
    model = untrained(len(graph.entities), len(graph.relations))
    tuplet.index(graph, model, tmp_path / "t", calibration="softmax-count", progress=False)
    store = tuplet.open(tmp_path / "t")
    monkeypatch.setattr(learn, "TREES", TreeSettings(trees=5, depth=2, rate=0.2))
    monkeypatch.setattr(learn.KnownGraph, "portion", lambda self: 32)
    for module in (learn, fit):
        monkeypatch.setattr(module, "LEAST_VALID", 100)
    monkeypatch.setattr(learn, "STEADY", 100)
    monkeypatch.setattr(predict, "_LEARNING", 1e-9)
    monkeypatch.setattr(predict, "_SHARE_OF_LEARNING", 0.0)

    def told() -> dict[str, object]:
        found: dict[str, object] = store.info()["new_entities"]["calibration"]["made"]
        return found

    store.add([("first", "lives_in", "town0")], new_entities=True, model=network)
    hurried = told()
    assert hurried["short"] is True
    store.add([("second", "lives_in", "town0")], new_entities=True, model=network)
    assert told() == hurried, "there is no more time than before"
    monkeypatch.setattr(predict, "_LEARNING", 1e9)
    store.add([("third", "lives_in", "town0")], new_entities=True, model=network, seconds=1e9)
    assert told()["short"] is False
    assert told()["rows"] > hurried["rows"]  # type: ignore[operator]
    learned = told()
    store.add([("fourth", "lives_in", "town0")], new_entities=True, model=network, seconds=1e12)
    assert told() == learned, "it has learned from all there is"


def test_the_time_for_new_entities_holds_for_trees_and_for_what_comes_before_rows(
    store: Store, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.path is not None
    ends: list[float] = []
    original = learn.fit

    def noted(*given: Any) -> Any:
        ends.append(given[-1])
        return original(*given)

    monkeypatch.setattr(learn, "fit", noted)
    monkeypatch.setattr(learn, "TREES", TreeSettings(trees=2, depth=2, rate=0.2))
    files = StoreFiles.open(store.path)
    began = time.monotonic()
    known = known_facts(files)
    learn.learn(*graph_sizes(files.graph), known, predict.network_of(network)[0], limit=5000)
    assert began + 5000 <= ends[0] <= time.monotonic() + 5000
    store.add(NEW, new_entities=True, seconds=0, model=network)
    files = StoreFiles.open(store.path)
    ready = files.meta.new.calibration["made"]["ready"] if files.meta.new.calibration else 0.0
    assert ready > 0
    monkeypatch.setattr(learn.KnownGraph, "from_edges", None)  # whoever made one would see
    learned = files.load_calibration("newcomers")
    assert learned is not None
    report = predict.PredictionWork(files, ready / 2, silent, 60).predict(network, learned)  # type: ignore[arg-type]
    assert (report.rows, report.waiting) == (0, 1)


def test_rows_around_new_entities_are_not_begun_without_time_for_all(
    store: Store, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(NEW, new_entities=True, model=network)
    monkeypatch.setattr(predict.PredictionWork, "_move_stale", None)  # whoever began would see
    said: list[str] = []
    done = store.update(seconds=1e-6, model=network, progress=lambda *told: said.append(told[-1]))
    assert done.stale_rows > 0
    assert said[-1].endswith("which is more than there is; they stay as they are")
