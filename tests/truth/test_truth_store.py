"""The store: whole or not at all, whatever happens to its writers and its files; facts come and go."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from repeatable import SOAK, examples
from tuplet.build import choose_recipe, make
from tuplet.errors import BadInput, CorruptStore, StoreBusy, TupletError, UnknownName
from tuplet.files import locked
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.predict import model_folder as files
from tuplet.predict.base import fingerprint
from tuplet.predict.embeddings import ComplEx
from tuplet.truth import edit
from tuplet.truth.candidates import score
from tuplet.truth.edges import ADDED
from tuplet.truth.edit import add_facts, remove_facts
from tuplet.truth.recipes import Facts
from tuplet.truth.rules import Calibration
from tuplet.truth.store_folder import StoreFiles, is_store, read_store
from tuplet.truth.store_meta import StoreChanges

ENTITIES, RELATIONS = 30, 3


def small_graph(weighted: bool = False) -> KnowledgeGraph:
    rng = np.random.default_rng(7)
    keys = np.unique(rng.integers(0, RELATIONS * ENTITIES**2, 120))
    split = np.where(np.arange(len(keys)) % 10 == 0, 2, np.where(np.arange(len(keys)) % 10 == 1, 3, 1))
    weight = rng.uniform(0.1, 1, len(keys)) if weighted else None
    return KnowledgeGraph.from_edges(
        Vocabulary.from_names([f"e{i}" for i in range(ENTITIES)]),
        Vocabulary.from_names([f"r{i}" for i in range(RELATIONS)]),
        keys // ENTITIES % ENTITIES,
        keys // ENTITIES**2,
        keys % ENTITIES,
        split.astype(np.uint8),
        weight,
    )


def small_model(folder: Path) -> Path:
    model = ComplEx.create(ENTITIES, RELATIONS, 8, 0.9, 2, torch.Generator().manual_seed(1))
    files.save(model, folder)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store and its model."""
    root = tmp_path_factory.mktemp("made")
    make(
        small_graph(),
        choose_recipe(small_model(root / "model"), threshold=0.02, calibration="softmax-count"),
        root / "a.store",
    )
    return root


def names(graph: KnowledgeGraph, split: str) -> list[tuple[str, str, str]]:
    heads, relation, tails = graph.edges(split)
    return list(
        zip(graph.entities.names(heads), graph.relations.names(relation), graph.entities.names(tails), strict=True)
    )


def test_index_tells_what_it_made(made: Path) -> None:
    store = StoreFiles.open(made / "a.store")
    assert is_store(made / "a.store")
    assert store.meta.observed == ("train", "valid")
    assert store.meta.threshold == 0.02
    assert store.meta.calibration == Calibration().as_dict()
    assert store.meta.models[0].kind == "complex"
    report = store.meta.report
    assert report.facts == len(names(store.graph, "train")) + len(names(store.graph, "valid"))
    assert report.edges == store.table.edges == report.facts + report.predicted
    assert report.reliability["split"] == "test"  # valid is observed
    assert sum(report.reliability["entries"]) == report.predicted
    assert not store.on_demand
    for h, r, t in zip(*store.graph.edges("valid"), strict=True):
        assert store.table.value(h, r, t) == 1
    assert store.table.truth[~store.table.observed].min() >= 0.02
    assert not list(made.glob(".*")), "nothing is left beside the store"


def test_only_train_observed_measures_on_valid(made: Path, tmp_path: Path) -> None:
    rule = "softmax-count"
    store = make(
        small_graph(),
        choose_recipe(made / "model", threshold=0.02, observed=["train"], calibration=rule),
        tmp_path / "s",
    )
    assert store.meta.report.reliability["split"] == "valid"
    whole = StoreFiles.open(made / "a.store").table
    for h, r, t in zip(*store.graph.edges("valid"), strict=True):
        prediction = store.table.value(h, r, t)
        assert prediction < 1
        entry = whole.fact_edges()
        at = list(zip(*(c.tolist() for c in entry[:3]), strict=True)).index((h, r, t))
        assert whole.fact_prediction[at] == np.float32(prediction)  # predictions do not depend on what is observed


def test_valid_edges_measure_reliability_even_if_everything_is_observed(made: Path, tmp_path: Path) -> None:
    """As `tuplet build` makes it: no test split, valid observed. Their predictions are kept as if unknown."""
    graph, rule = small_graph(), "softmax-count"
    heads, relation, tails, entry = graph.adjacency.triples()
    split = np.where(graph.split[entry] == 3, 1, graph.split[entry]).astype(np.uint8)
    graph = KnowledgeGraph.from_edges(graph.entities, graph.relations, heads, relation, tails, split)
    everything = make(graph, choose_recipe(made / "model", threshold=0.02, calibration=rule), tmp_path / "all")
    honest = make(
        graph, choose_recipe(made / "model", threshold=0.02, observed=["train"], calibration=rule), tmp_path / "train"
    )
    assert everything.meta.report.reliability == honest.meta.report.reliability
    assert everything.meta.report.reliability["split"] == "valid"
    assert sum(everything.meta.report.reliability["facts"]) > 0
    assert everything.meta.report.held_out_listed == honest.meta.report.held_out_listed


def test_on_demand_store_equals_the_table(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "demand.store"
    store = make(
        small_graph(), choose_recipe(made / "model", threshold=0.02, on_demand=True, calibration="softmax-count"), path
    )
    assert store.on_demand
    table = StoreFiles.open(made / "a.store").table
    for _ in range(2):  # the second time from what the first one kept
        rows = StoreFiles.open(path).rows()
        for entity in range(ENTITIES):
            for inverse in (False, True):
                wanted, found = table.row(entity, 1, inverse), rows.row(entity, 1, inverse)
                assert found.ids.tolist() == wanted.ids.tolist()
                assert found.observed.tolist() == wanted.observed.tolist()
                np.testing.assert_allclose(found.truth, wanted.truth, atol=1e-5)
    whole = rows.table(range(RELATIONS))
    np.testing.assert_allclose(whole.truth, table.truth, atol=1e-5)
    # facts change on demand too, and predictions stay what they were
    new, old = ("e0", "r0", "e29"), names(store.graph, "train")[0]
    before = StoreFiles.open(path).rows()
    at = tuple(store.graph.entities.find(n) for n in old[::2])
    add_facts(path, [new])
    remove_facts(path, [old])
    rows = StoreFiles.open(path).rows()
    assert rows.value(0, 0, 29) == 1
    assert before.value(0, 0, 29) < 1
    assert rows.value(at[0], store.graph.relations.find(old[1]), at[1]) < 1
    assert rows.value(3, 1, 4) == before.value(3, 1, 4)


def test_a_model_of_another_graph_of_the_same_size_is_refused(tmp_path: Path) -> None:
    graph = small_graph()
    weights = ComplEx.create(ENTITIES, RELATIONS, 8, 0.9, 2, torch.Generator().manual_seed(1))
    edges = {split: graph.edges(split) for split in ("train", "valid", "test")}
    for number, learned_from in enumerate((graph.hash, fingerprint(edges))):
        files.save(weights, tmp_path / "own", {"graph": learned_from})
        make(graph, choose_recipe(tmp_path / "own", threshold=0.02), tmp_path / f"{number}")
    files.save(weights, tmp_path / "other", {"graph": "0" * 64})
    with pytest.raises(BadInput, match=r"was trained on another graph \(000000000000…, this one is .*other_graph=True"):
        make(graph, choose_recipe(tmp_path / "other", threshold=0.02), tmp_path / "s")
    assert not (tmp_path / "s").exists()
    make(graph, choose_recipe(tmp_path / "other", threshold=0.02, other_graph=True), tmp_path / "s")


def test_an_interrupted_index_goes_on_where_it_was(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(step: str, done: float, total: float, note: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(
            small_graph(),
            choose_recipe(made / "model", threshold=0.02, calibration="softmax-count"),
            tmp_path / "s",
            progress=stop,
        )
    assert [entry.name for entry in tmp_path.iterdir()] == [".s.work"]
    missing = sorted({0, 1, 2} - {int(part.stem) for part in tmp_path.rglob("*.npz")})
    assert missing in ([], [2])  # the last relation may have begun already
    computed: list[int] = []
    original = score.CandidateScorer.links
    monkeypatch.setattr(score.CandidateScorer, "links", lambda self, r: (computed.append(r), original(self, r))[1])
    store = make(
        small_graph(), choose_recipe(made / "model", threshold=0.02, calibration="softmax-count"), tmp_path / "s"
    )
    assert computed == missing
    assert store.hash == StoreFiles.open(made / "a.store").hash
    assert [entry.name for entry in tmp_path.iterdir()] == ["s"]


def test_refusals(made: Path, tmp_path: Path) -> None:
    graph, model = small_graph(), made / "model"
    with pytest.raises(BadInput, match="already exists"):
        make(graph, choose_recipe(model), made / "a.store")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    with pytest.raises(BadInput, match="it is not a store"):
        make(graph, choose_recipe(model), tmp_path / "full", force=True)
    with pytest.raises(BadInput, match="unknown calibration 'softmax-cont'; did you mean 'softmax-count'"):
        make(graph, choose_recipe(model, calibration="softmax-cont"), tmp_path / "s")
    with pytest.raises(UnknownName, match="unknown split 'trian'; did you mean 'train'"):
        make(graph, choose_recipe(model, observed=["trian"]), tmp_path / "s")
    with pytest.raises(BadInput, match="not trained on this graph"):
        make(
            KnowledgeGraph.from_edges(Vocabulary.from_names(["a"]), Vocabulary.from_names(["r"]), [0], [0], [0]),
            choose_recipe(model),
            tmp_path / "s",
        )
    with pytest.raises(BadInput, match="threshold"):
        make(graph, choose_recipe(model, threshold=2), tmp_path / "s")
    assert list(tmp_path.iterdir()) == [tmp_path / "full"]
    with pytest.raises(BadInput, match="no such store"):
        StoreFiles.open(tmp_path / "nothing")
    with pytest.raises(CorruptStore, match=r"has no store\.json"):
        StoreFiles.open(tmp_path / "full")


def test_weighted_graph_needs_no_predictor(tmp_path: Path) -> None:
    graph = small_graph(weighted=True)
    store = make(graph, Facts(["train", "valid", "test"]), tmp_path / "w.store")
    heads, relation, tails, entry = graph.adjacency.triples()
    assert graph.weight is not None
    for h, r, t, weight in zip(heads, relation, tails, graph.weight[entry], strict=True):
        assert store.table.value(h, r, t) == weight
        assert store.table.observed_edge(h, r, t)
    report = add_facts(tmp_path / "w.store", [("e0", "r0", "e0", 0.25), ("e1", "r2", "e1")])[0]
    again = add_facts(tmp_path / "w.store", [("e0", "r0", "e0", 0.75), ("e1", "r2", "e1")])[0]
    assert (report.added, again.added, again.updated, again.already) == (2, 0, 1, 1)
    opened = StoreFiles.open(tmp_path / "w.store")
    assert (opened.table.value(0, 0, 0), opened.table.value(1, 2, 1)) == (0.75, 1.0)
    assert opened.graph.weight is not None
    assert opened.graph.weight[opened.graph.adjacency.find(0, 0, 0)] == 0.75


def test_add_and_remove(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(made / "a.store", path)
    store = StoreFiles.open(path)
    test, train = names(store.graph, "test"), names(store.graph, "train")
    report = add_facts(path, [*test, test[0], train[0]])[0]
    assert (report.added, report.already, report.duplicates) == (len(test), 1, 1)
    after = StoreFiles.open(path)
    assert names(after.graph, "test") == []
    assert after.hash != store.hash
    assert int((after.table.flat.fact_source == ADDED).sum()) == len(test)
    assert after.meta.changes == StoreChanges(added=len(test))
    assert after.meta.report.as_dict().items() >= after.table.sizes().items()
    assert len(list(path.iterdir())) == 5, "the old state is gone"
    back = remove_facts(path, [*test, ("e0", "r0", "e0")] if ("e0", "r0", "e0") not in train else test)[0]
    assert back.removed == len(test)
    assert back.not_found == 1
    final = StoreFiles.open(path).table.flat
    for name, array in store.table.arrays().items():
        assert array.tobytes() == final.arrays()[name].tobytes(), name
    assert back.shown_as_predicted == sum(
        final.value(*(v.find(n) for v, n in zip(_vocabularies(after.graph), fact, strict=True))) > 0 for fact in test
    )
    # nothing to do leaves the files alone
    stamp = (path / "store.json").stat().st_mtime_ns
    assert add_facts(path, train[:2])[0].already == 2
    assert remove_facts(path, test[:2])[0].not_found == 2
    assert (path / "store.json").stat().st_mtime_ns == stamp


def _vocabularies(graph: KnowledgeGraph) -> tuple[Vocabulary, Vocabulary, Vocabulary]:
    return graph.entities, graph.relations, graph.entities


@pytest.mark.parametrize("many", [0, edit.MANY])
def test_new_names(many: int, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit, "MANY", many)
    path = tmp_path / "s"
    shutil.copytree(made / "a.store", path)
    state = (path / "store.json").read_bytes()
    with pytest.raises(
        UnknownName, match=r"entity 'e299' is not in the store; did you mean 'e29'.*new_entities=True adds it"
    ):
        add_facts(path, [("e0", "r0", "e299")])
    for adding in (False, True):
        with pytest.raises(BadInput, match=r"'\\ud800' (is not in the store|cannot be written)"):
            add_facts(path, [("e0", "r0", "\ud800")], new_entities=adding)
    with pytest.raises(BadInput, match="without a name"):
        add_facts(path, [("e0", "r0", "")], new_entities=True)
    with pytest.raises(UnknownName, match="unknown relation 'r9'"):
        add_facts(path, [("e0", "r9", "e1")], new_entities=True)
    with pytest.raises(UnknownName, match="entity 'new' is not in the store"):
        remove_facts(path, [("new", "r0", "e1")])
    with pytest.raises(BadInput, match="fact 2: expected"):
        add_facts(path, [("e0", "r0", "e1"), ("e0", "r0")])
    with pytest.raises(BadInput, match="not weighted"):
        add_facts(path, [("e0", "r0", "e1", 0.5)])
    assert (path / "store.json").read_bytes() == state
    report = add_facts(path, [("new", "r0", "e1"), ("e2", "r1", "new"), ("new", "r0", "newer")], new_entities=True)[0]
    assert report.added == 3
    assert report.new_entities == ("new", "newer")
    store = StoreFiles.open(path)
    new = store.graph.entities.find("new")
    assert new == ENTITIES
    assert store.table.row(new, 0, False).ids.tolist() == [1, ENTITIES + 1]
    assert store.table.row(new, 1, True).ids.tolist() == [2]
    assert store.meta.changes.new_entities == 2
    report = add_facts(path, [("newer", "r0", "new"), ("newest", "r0", "e1")], new_entities=True)[0]
    assert report.new_entities == ("newest",)
    assert StoreFiles.open(path).table.row(ENTITIES + 1, 0, False).ids.tolist() == [ENTITIES]
    remove_facts(path, [("new", "r0", "newer")])
    assert StoreFiles.open(path).table.row(ENTITIES + 1, 0, True).ids.tolist() == []


facts = st.tuples(
    st.sampled_from([f"e{i}" for i in range(6)]),
    st.sampled_from(["r0", "r1"]),
    st.sampled_from([f"e{i}" for i in range(6)]),
)


@examples(6, 40)
@given(st.lists(st.tuples(st.booleans(), st.lists(facts, min_size=1, max_size=3)), max_size=4))
def test_any_sequence_of_changes_equals_a_fresh_index(
    made: Path, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[bool, list[tuple[str, str, str]]]]
) -> None:
    root = tmp_path_factory.mktemp("steps")
    shutil.copytree(made / "a.store", root / "s")
    for adding, some in steps:
        (add_facts if adding else remove_facts)(root / "s", some)
    store = StoreFiles.open(root / "s")
    # the same predictions over the same facts: what the graph now says, on the table of the first store
    first = StoreFiles.open(made / "a.store").table
    for h in range(6):
        for r in range(2):
            for t in range(6):
                stated = store.graph.adjacency.find(h, r, t)
                observed = stated >= 0 and store.graph.split[stated] < 3
                assert store.table.observed_edge(h, r, t) == observed
                entry = first.adjacency.find(h, r, t)
                prediction = 0.0
                if entry >= 0:
                    edge = list(zip(*(c.tolist() for c in first.fact_edges()[:3]), strict=True))
                    known = first.observed[entry]
                    prediction = first.fact_prediction[edge.index((h, r, t))] if known else first.truth[entry]
                assert store.table.value(h, r, t) == (1.0 if observed else prediction)


def test_one_writer_many_readers(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(made / "a.store", path)
    reader = StoreFiles.open(path)
    with locked(path):
        with pytest.raises(StoreBusy, match=r"being written by another thread or process \(waited 0.05 s\)"):
            add_facts(path, [("e0", "r0", "e1")], timeout=0.05)
        StoreFiles.open(path)
    before = reader.table.truth.copy()
    add_facts(path, [("e5", "r0", f"e{i}") for i in range(10)])
    assert (reader.table.truth == before).all()  # an open reader keeps its state


def test_nothing_is_lost_when_many_change_a_store(made: Path, tmp_path: Path) -> None:
    """Threads and processes add and remove at once; each waits its turn, and every change is there in the end."""
    path = tmp_path / "s"
    shutil.copytree(made / "a.store", path)
    gone = names(StoreFiles.open(path).graph, "train")[:4]
    code = "import sys; from tuplet.truth.edit import add_facts\n"
    code += "for i in range(4): add_facts(sys.argv[1], [(f'e{i}', 'r1', sys.argv[2])], new_entities=True)"
    processes = [subprocess.Popen([sys.executable, "-c", code, path, f"process{number}"]) for number in range(2)]
    with ThreadPoolExecutor(6) as pool:
        adding = [pool.submit(add_facts, path, [(f"thread{n}", "r0", f"e{n}")], True) for n in range(8)]
        removing = [pool.submit(remove_facts, path, [fact]) for fact in gone]
        assert sum(job.result()[0].added for job in adding) == 8
        assert sum(job.result()[0].removed for job in removing) == 4
    assert [process.wait() for process in processes] == [0, 0]
    store = StoreFiles.open(path)
    assert store.meta.changes == StoreChanges(added=16, removed=4, new_entities=10)
    train = set(names(store.graph, "train"))
    assert {(f"thread{n}", "r0", f"e{n}") for n in range(8)} <= train
    assert {(f"e{i}", "r1", f"process{number}") for i in range(4) for number in range(2)} <= train
    assert not train & set(gone)


def test_readers_beside_a_writer(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(made / "a.store", path)
    code = WRITER.format(tests="", imports="", action=ACTIONS["change"].format(path=str(path)))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        least, most = time.monotonic() + (20 if SOAK else 1), time.monotonic() + 120
        seen = set[bool]()
        while (now := time.monotonic()) < least or (len(seen) < 2 and now < most):  # a busy writer needs its time
            store = StoreFiles.open(path)
            seen.add(store.table.observed_edge(0, 0, 29))
            assert store.table.observed_edge(0, 0, 29) == (store.graph.adjacency.find(0, 0, 29) >= 0)
        process.kill()
    assert seen == {False, True}


def every_file(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file())


def use(path: Path) -> None:
    store = StoreFiles.open(path)
    store.graph.adjacency.touch()
    store.table.adjacency.touch()
    if store.on_demand:
        store.rows()
    if store.facts is not None:
        store.facts.adjacency.touch()


def test_damaged_files_are_named(made: Path, tmp_path: Path) -> None:
    rng = random.Random(0)
    original = made / "a.store"
    make(small_graph(), choose_recipe(made / "model", threshold=0.02, on_demand=True), tmp_path / "d")
    for source in (original, tmp_path / "d"):
        for file in every_file(source):
            for damage in ("truncate", "edit", "delete", "empty"):
                path = tmp_path / "s"
                shutil.rmtree(path, ignore_errors=True)
                shutil.copytree(source, path)
                victim = path / file.relative_to(source)
                data = bytearray(victim.read_bytes())
                if damage == "truncate":
                    victim.write_bytes(data[: rng.randrange(len(data))])
                elif damage == "edit":
                    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                    victim.write_bytes(data)
                elif damage == "empty":
                    victim.write_bytes(b"")
                else:
                    victim.unlink()
                if victim.name == "MODEL.md":
                    continue
                with pytest.raises(TupletError) as error:
                    use(path)
                assert "\n" not in str(error.value)
                assert victim.name in str(error.value) or victim.parent.name in str(error.value), str(error.value)


def test_damage_inside_the_manifest(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(made / "a.store", path)
    manifest = json.loads((path / "store.json").read_text())
    for change, message in (
        ({"version": 99}, "version 99 is newer"),
        ({"format": "other"}, "does not say format"),
        ({"meta": {}}, "seal does not match"),
    ):
        (path / "store.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(CorruptStore, match=message):
            read_store(path)
    (path / "store.json").write_text("[" * 100_000)
    with pytest.raises(CorruptStore, match="not readable as JSON"):
        read_store(path)


def test_swapped_parts_are_noticed(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(made / "a.store", path)
    other = make(
        small_graph(), choose_recipe(made / "model", threshold=0.03, calibration="softmax-count"), tmp_path / "o"
    )
    table = StoreFiles.open(path).folders["table"]
    shutil.rmtree(path / table)
    shutil.copytree(tmp_path / "o" / other.folders["table"], path / table)
    with pytest.raises(CorruptStore, match="not the table that"):
        StoreFiles.open(path)


def test_force_repairs_a_damaged_store(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(made / "a.store", path)
    wanted = StoreFiles.open(path).hash
    for file in every_file(path):
        if file.suffix == ".npy":
            file.write_bytes(b"nothing")
    make(small_graph(), choose_recipe(made / "model", threshold=0.02, calibration="softmax-count"), path, force=True)
    assert StoreFiles.open(path).hash == wanted


WRITER = """
import sys
sys.path.insert(0, {tests!r})
from tuplet.truth.edit import add_facts, remove_facts
{imports}
print("ready", flush=True)
while True:
    {action}
"""
IMPORTS = {
    "index": "from test_truth_store import small_graph; from tuplet.build import choose_recipe as recipe, make",
    "change": "",
}
ACTIONS = {
    "index": "make(small_graph(), recipe({model!r}, threshold=0.02, calibration='softmax-count'), {path!r}, True)",
    "change": 'add_facts({path!r}, [("e0", "r0", "e29")]); remove_facts({path!r}, [("e0", "r0", "e29")])',
}


@pytest.mark.parametrize("action", ACTIONS)
def test_killed_writers_leave_the_old_or_the_new_state(action: str, made: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(made / "a.store", path)
    states = {StoreFiles.open(path).hash}
    add_facts(path, [("e0", "r0", "e29")])
    states.add(StoreFiles.open(path).hash)
    remove_facts(path, [("e0", "r0", "e29")])
    states.add(StoreFiles.open(path).hash)
    code = WRITER.format(
        tests=str(Path(__file__).parent),
        imports=IMPORTS[action],
        action=ACTIONS[action].format(model=str(made / "model"), path=str(path)),
    )
    rng = random.Random(1)
    for _ in range(40 if SOAK else 3):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.3))
            os.kill(process.pid, signal.SIGKILL)
        assert StoreFiles.open(path).hash in states
    remove_facts(path, [("e0", "r0", "e29")])
    add_facts(path, [("e0", "r0", "e29")])  # the next writer cleans up
    assert len(list(path.iterdir())) == 5
    assert not [entry for entry in tmp_path.iterdir() if "tuplet-new" in entry.name]


def test_killed_first_index_leaves_nothing_or_a_store(made: Path, tmp_path: Path) -> None:
    wanted = StoreFiles.open(made / "a.store").hash
    rng = random.Random(2)
    for number in range(20 if SOAK else 2):
        path = tmp_path / f"s{number}"
        action = ACTIONS["index"].format(model=str(made / "model"), path=str(path))
        code = WRITER.format(tests=str(Path(__file__).parent), imports=IMPORTS["index"], action=action)
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.2))
            os.kill(process.pid, signal.SIGKILL)
        if path.exists():
            assert StoreFiles.open(path).hash == wanted
        make(
            small_graph(), choose_recipe(made / "model", threshold=0.02, calibration="softmax-count"), path, force=True
        )
        assert StoreFiles.open(path).hash == wanted
    assert not [entry for entry in tmp_path.iterdir() if "tuplet-new" in entry.name or entry.name.endswith(".work")]
