"""Every change of a store is a new generation: it holds what a model kept beside it says, and so do the older ones."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from store_model import ENGINES, Change, EdgeModel, StoreModel, answers, files_of, leftovers

import tuplet
from random_queries import random_query
from repeatable import SOAK, seeds
from tuplet.build import choose_recipe, make
from tuplet.errors import BadInput
from tuplet.graph import versions
from tuplet.predict import model_folder
from tuplet.predict.embeddings import ComplEx
from tuplet.query.logic import Logic
from tuplet.truth import store_folder
from tuplet.truth.recipes import Facts

BLOCKS = seeds(3, 100)
STORES, CHANGES = (5, 30) if SOAK else (2, 12)
COMPACTS = hasattr(tuplet.Store, "compact")
QUERIES = 20 if SOAK else 6
LOGICS, ONLY = Logic.names, (None, "predicted", "observed")


@pytest.fixture(autouse=True)
def few_changes_are_a_layer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In some blocks, so that there are layers, and deltas over them; and rows that are many."""
    block = request.node.callspec.params["block"] if hasattr(request.node, "callspec") else 0
    monkeypatch.setattr(store_folder, "RECENT", (10_000, 3, 8)[block % 3])
    monkeypatch.setattr(versions, "PIECE", (1 << 20, 4, 1)[block % 3])


@pytest.mark.parametrize("block", BLOCKS)
def test_a_store_equals_the_model_after_every_change(block: int, tmp_path: Path) -> None:
    for number in range(STORES):
        rng = np.random.default_rng([block, number])
        model = StoreModel.random(rng)
        path = tmp_path / "some.store"
        model.make(path)
        store, reader = tuplet.open(path), tuplet.open(path)
        held = [(tuplet.open(path), model.copy())]  # older generations
        for _ in range(CHANGES):
            change = model.random_change(rng, COMPACTS)
            before = store.generation, files_of(store).hash
            changes = model.makes_a_generation(change, files_of(store))
            editor = store if rng.random() < 0.5 else tuplet.open(path)
            expected = model.apply(change)
            report = model.do(editor, change)
            assert report == expected
            store.refresh()
            generation, digest = store.generation, files_of(store).hash
            assert changes == (generation == before[0] + 1) == (digest != before[1]), change
            model.check(files_of(store))
            if rng.random() < 0.5:
                reader.refresh()
                assert reader.generation == generation
                model.check(files_of(reader))
            if rng.random() < 0.2:
                held.append((tuplet.open(path), model.copy()))
            if rng.random() < 0.2:
                store = tuplet.open(path)
                model.check(files_of(store))
        for older, then in held:
            then.check(files_of(older))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[tuplet.Store, tuplet.Store]:
    """A store twice: who edits it, and who reads."""
    made(tmp_path / "s")
    return tuplet.open(tmp_path / "s"), tuplet.open(tmp_path / "s")


def made(path: Path) -> None:
    make(tuplet.read([("a", "r", "b"), ("b", "r", "c")]), Facts(["train"]), path, force=True)


def test_a_content_that_comes_back_is_a_new_generation(pair: tuple[tuplet.Store, tuplet.Store]) -> None:
    editor, reader = pair
    editor.add([("a", "r", "c")])
    assert reader.refresh()
    for change in (editor.remove, editor.add):
        change([("a", "r", "c")])
    assert files_of(editor).hash == files_of(reader).hash
    assert reader.refresh()
    assert not reader.refresh()
    assert reader.generation == editor.generation == 4
    assert reader.info()["changes"] == {"added": 2, "removed": 1, "new_entities": 0}


def test_folders_that_come_back_are_read_without_what_was_changed_over_them(
    pair: tuple[tuplet.Store, tuplet.Store],
) -> None:
    editor, reader = pair
    editor.add([("a", "r", "c"), ("d", "r", "a")], new_entities=True)
    assert reader.refresh()
    assert editor.path is not None
    made(editor.path)
    assert reader.refresh()
    assert reader.generation == 3
    assert [tuple(a.values.values()) for a in reader.ask("?x, ?y : r(?x, ?y)")] == [("a", "b"), ("b", "c")]
    assert len(reader.graph.entities) == 3
    editor.refresh()
    editor.add([("c", "r", "a")])
    assert reader.refresh()
    assert len(reader.ask("?x, ?y : r(?x, ?y)")) == 3


@pytest.mark.parametrize("block", BLOCKS)
def test_engines_answer_as_on_a_store_made_anew(block: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([block, 7])
    model = StoreModel.random(rng)
    model.make(tmp_path / "edited")
    edited = tuplet.open(tmp_path / "edited")
    answered = 0
    for _ in range(STORES):
        for _ in range(3):
            change = model.random_change(rng, COMPACTS)
            model.apply(change)
            model.do(edited, change)
        model.make(tmp_path / "anew")
        anew = tuplet.open(tmp_path / "anew")
        for number in range(QUERIES):
            query = random_query(anew.graph, rng, free=(1, 3))
            logic, only = LOGICS[number % len(LOGICS)], ONLY[number % 3]
            for engine in ENGINES:
                limits = {} if engine == "crisp" else {"logic": logic, "only": only}
                wanted = answers(anew, query, engine, **limits)
                assert answers(edited, query, engine, **limits) == wanted, (engine, query, limits)
                answered += bool(wanted)
    assert answered > STORES * QUERIES


def soak(*arguments: str) -> dict[str, int]:
    """What `store_soak.py` reports, in a process that has no threads: it forks."""
    script = Path(__file__).with_name("store_soak.py")
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, int] = json.loads(done.stdout)
    return report


def test_a_killed_writer_loses_nothing_and_doubles_nothing() -> None:
    report = soak("kills", "--count", "1000" if SOAK else "15")
    assert report["changes"] > 5


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """No file of this process can grow beyond a size: the system refuses, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_change_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    model = StoreModel.random(rng)
    model.make(tmp_path / "s")
    store = tuplet.open(tmp_path / "s")
    first = Change("add", (("new", model.relations[0], model.entities[0]),))
    model.apply(first)
    model.do(store, first)
    fact = ("newer", model.relations[0], model.entities[1])
    for size in (0, 100, 1000, 3000):
        for change in (Change("add", (fact,)), Change("remove", first.facts), Change("compact")):
            with files_end_at(size), pytest.raises(BadInput, match=r"cannot write .*: File too large"):
                model.do(store, change)
            assert store.generation == 2
            model.check(files_of(store))
            model.check(files_of(tuplet.open(tmp_path / "s")))
    for change in (Change("add", (fact,)), Change("compact")):
        model.apply(change)
        model.do(store, change)
        model.check(files_of(store))
    assert leftovers(tmp_path / "s") == set()


def test_readers_in_other_processes_see_whole_generations() -> None:
    assert soak("readers", "--seconds", "60" if SOAK else "2")["generations"] > 5


def test_threads_share_a_store_that_is_edited(pair: tuple[tuplet.Store, tuplet.Store]) -> None:
    """Each change is two facts, from another Store or from the shared one; no thread sees one of them alone."""
    other, shared = pair
    done = threading.Event()

    def read() -> int:
        last = 0
        while not done.is_set():
            if last % 2:
                shared.refresh()
            assert shared.generation >= last
            last = shared.generation
            found = {(answer["x"], answer["y"]) for answer in shared.ask("?x, ?y : r(?x, ?y)", k="all")}
            assert (("c", "a") in found) == (("c", "b") in found)
        return last

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for number in range(200 if SOAK else 16):
                editor = (shared, other)[number % 3 == 0]
                (editor.remove if number % 2 else editor.add)([("c", "r", "a"), ("c", "r", "b")])
                if number % 7 == 4:
                    shared.compact()
        finally:
            done.set()
        assert max(reader.result() for reader in readers) > 1
    shared.refresh()
    other.refresh()
    assert shared.generation == other.generation


@pytest.mark.parametrize("block", BLOCKS)
def test_a_store_on_demand_is_edited_like_a_table(block: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([block, 11])
    facts = {(f"n{h}", f"r{r}", f"n{t}") for h, r, t in rng.integers(0, (8, 2, 8), (20, 3))}
    graph = tuplet.read(sorted(facts))
    entities, relations = len(graph.entities), len(graph.relations)
    model = ComplEx.create(entities, relations, 4, 0.9, 2, torch.Generator().manual_seed(block))
    model_folder.save(model, tmp_path / "model")
    for on_demand in (False, True):
        where = tmp_path / f"{on_demand}"
        make(
            graph,
            choose_recipe(tmp_path / "model", threshold=0.02, calibration="softmax-count", on_demand=on_demand),
            where,
        )
    names = StoreModel(False, False, graph.entities.names(range(entities)), graph.relations.names(range(relations)))
    names.edges = {fact: EdgeModel(given=1.0) for fact in facts}
    tabled, demanded = tuplet.open(tmp_path / "False"), tuplet.open(tmp_path / "True")
    for _ in range(CHANGES // 2):
        change = names.random_change(rng, COMPACTS)
        names.apply(change)
        reports = [names.do(store, change) for store in (tabled, demanded)]
        for field in ("added", "removed", "already", "not_found", "new_entities"):
            assert getattr(reports[0], field, None) == getattr(reports[1], field, None)
        assert tabled.generation == demanded.generation
        for store in (demanded, tuplet.open(tmp_path / "True")):
            wanted, found = tabled.source.truth, store.source.truth
            assert wanted is not None
            assert found is not None
            assert found.entities == wanted.entities == len(names.entities)
            for entity in range(found.entities):
                for view in range(2 * relations):
                    row, other = (truth.row(entity, view // 2, view % 2 == 1) for truth in (wanted, found))
                    assert row.ids.tolist() == other.ids.tolist()
                    assert row.observed.tolist() == other.observed.tolist()
                    np.testing.assert_allclose(row.truth, other.truth, atol=1e-5)


@pytest.mark.parametrize("block", BLOCKS)
def test_edits_go_on_while_the_store_is_compacted_behind_them(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_folder, "ENOUGH", 2)
    rng = np.random.default_rng([block, 13])
    model = StoreModel.random(rng)
    model.make(tmp_path / "s")
    store, folders = tuplet.open(tmp_path / "s"), set()
    for _ in range(3 * CHANGES):
        change = model.random_change(rng, compact=False)
        assert model.apply(change) == model.do(store, change)
        assert model.differences(files_of(store)) == []
        folders.add(files_of(store).folders["table"])
    if store._compacting is not None:
        store._compacting.join()  # on a busy machine the first one may end only now
    store.refresh()
    folders.add(files_of(store).folders["table"])
    assert len(folders) > 1
    model.check(files_of(store))
    model.check(files_of(tuplet.open(tmp_path / "s")))
    assert leftovers(tmp_path / "s") == set()
