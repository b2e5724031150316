"""Stores of other formats: an older one opens, answers and can be brought up; a newer one is refused in one line.

What is in `fixtures/` was written by tuplet 0.1.0, whose stores had format 1.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tuplet
from tuplet.errors import CorruptStore
from tuplet.files import sealed
from tuplet.graph.arrays import FORMAT_VERSION as ARRAY_FORMAT
from tuplet.graph.arrays import read_manifest
from tuplet.truth.compact import upgrade
from tuplet.truth.edit import add_facts
from tuplet.truth.store_folder import FORMAT, FORMAT_VERSION, StoreFiles, read_store
from tuplet.truth.store_meta import StoreMeta, StoreReport

FIXTURES = Path(__file__).parent / "fixtures"
ANSWERS = [
    ("ann", "bob", 1.0),
    ("bob", "cat", 1.0),
    ("cat", "dan", 1.0),
    ("bob", "dan", 0.705995),
    ("ann", "dan", 0.652832),
]


@pytest.fixture(params=["format-1-table", "format-1-on-demand"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / request.param, tmp_path / "old"))


def answers(path: Path) -> list[tuple[str, str, float]]:
    found = tuplet.open(path).ask("?x, ?y : knows(?x, ?y)", k=5)
    return [(answer["x"], answer["y"], round(answer.truth, 6)) for answer in found]


def test_a_store_of_format_1_opens_answers_and_can_be_changed(old: Path) -> None:
    assert read_store(old)["version"] == 1
    assert answers(old) == ANSWERS
    about = tuplet.info(old)
    assert about["calibrated"] is False
    assert about["observed"] == ["train", "valid"]
    assert about["model"]["kind"] == "complex"
    add_facts(old, [("dan", "knows", "ann")])
    assert read_store(old)["version"] == FORMAT_VERSION
    assert answers(old)[3] == ("dan", "ann", 1.0)


def test_upgrade_writes_the_current_format_once(old: Path) -> None:
    before = StoreFiles.open(old)
    assert upgrade(old)
    after = StoreFiles.open(old)
    assert read_store(old)["version"] == FORMAT_VERSION
    assert (after.meta, after.graph.hash) == (before.meta, before.graph.hash)
    for part in ("graph", "table"):
        assert read_manifest(old / after.folders[part])["version"] == ARRAY_FORMAT
    for name, array in before.table.arrays().items():
        assert np.array_equal(after.table.arrays()[name], array), name
    assert answers(old) == ANSWERS
    stamp = (old / "store.json").stat().st_mtime_ns
    assert not upgrade(old)
    assert (old / "store.json").stat().st_mtime_ns == stamp


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A graph, a model of it, a store that was edited and a weighted store, all made by 0.1.0 on the command line."""
    with zipfile.ZipFile(FIXTURES / "version-0.1.zip") as packed:
        packed.extractall(tmp_path)
    return tmp_path


# What 0.1.0 answered.
EDITED = [
    ("ann", "bob", "dan", 0.783588, "observed"),
    ("dan", "ann", "cat", 0.774863, "observed"),
    ("dan", "ann", "dan", 0.747551, "observed"),
    ("dan", "ann", "bob", 0.229016, "mixed"),
    ("ann", "cat", "dan", 0.206208, "mixed"),
]
LIKED = [("ann", "cat"), ("ann", "dan"), ("bob", "dan"), ("cat", "dan"), ("dan", "ann")]


def edited_answers(store: tuplet.Store) -> list[tuple[object, ...]]:
    found = store.ask("?x, ?y, ?z : knows(?x, ?y) & likes(?y, ?z) & !knows(?x, ?z)", k=5)
    return [(*answer.values.values(), round(answer.truth, 6), answer.status) for answer in found]


@pytest.mark.parametrize("upgraded", [False, True])
def test_a_store_that_0_1_edited_answers_and_can_be_edited_on(made: Path, upgraded: bool) -> None:
    path = made / "edited"
    if upgraded:
        assert upgrade(path)
    store = tuplet.open(path)
    assert edited_answers(store) == EDITED
    assert tuplet.info(path, verify=True)["changes"] == {"added": 2, "removed": 1, "new_entities": 1}
    # the fact that was removed, and those that were added, one with a new entity
    assert store.add([("bob", "knows", "cat")]).added == 1
    assert store.remove([("dan", "knows", "ann"), ("new", "likes", "ann")]).shown_as_predicted == 1
    assert edited_answers(store) != EDITED
    assert upgrade(path) is not upgraded  # an edit alone leaves older folders as they are
    assert store.remove([("bob", "knows", "cat")]).shown_as_predicted == 1
    assert store.add([("dan", "knows", "ann"), ("new", "likes", "ann")]).added == 2
    assert edited_answers(store) == EDITED == edited_answers(tuplet.open(path))
    store.compact()
    assert edited_answers(store) == EDITED == edited_answers(tuplet.open(path))
    assert not upgrade(path)


def test_a_weighted_store_of_0_1_keeps_the_truth_that_was_given(made: Path) -> None:
    store, query = tuplet.open(made / "weighted"), "?x, ?y : knows(?x, ?y)"
    assert [answer.truth for answer in store.ask(query)] == pytest.approx([0.9, 0.5], abs=1e-7)
    assert store.add([("cat", "knows", "ann", 0.3)]).added == 1
    assert store.generation == 1
    for opened in (store, tuplet.open(made / "weighted")):
        assert [answer.truth for answer in opened.ask(query)] == pytest.approx([0.9, 0.5, 0.3], abs=1e-7)
        assert opened.ask(query)[2].truth == 0.3


def test_a_graph_and_a_model_of_0_1_are_used_as_they_are(made: Path) -> None:
    graph = tuplet.open(made / "graph")
    assert [tuple(answer.values.values()) for answer in graph.ask("?x, ?y : likes(?x, ?y)")] == LIKED
    assert [found.name for found in graph.find("Ann A")] == ["ann"]
    tuplet.info(made / "graph", verify=True)
    store = tuplet.index(graph.graph, made / "model", made / "fresh", calibration="softmax-count")
    again = tuplet.open(made / "edited")
    assert store.info()["model"] == again.info()["model"]
    # the same model over the same facts, but for the edits
    assert store.add([("dan", "knows", "ann"), ("new", "likes", "ann")], new_entities=True).added == 2
    assert store.remove([("bob", "knows", "cat")]).removed == 1
    assert edited_answers(store) == EDITED


def test_a_newer_format_is_refused_in_one_line_that_says_what_to_do(old: Path) -> None:
    manifest = read_store(old)
    content = {key: manifest[key] for key in ("folders", "hash", "meta")}
    (old / "store.json").write_bytes(sealed(FORMAT, FORMAT_VERSION + 1, content))
    with pytest.raises(CorruptStore, match=r"is newer than this tuplet .* reads .*; install a newer tuplet") as error:
        tuplet.open(old)
    assert "\n" not in str(error.value)
    with pytest.raises(CorruptStore, match="install a newer tuplet"):
        upgrade(old)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threshold": None}, "threshold is missing"),
        ({"observed": "train"}, "observed is 'train', which makes no sense"),
        ({"calibration": {"power": 2}}, "name is missing"),
        ({"model": {"kind": 3}}, "kind is 3, which makes no sense"),
        ({"report": {"edges": "many"}}, "edges is 'many', which makes no sense"),
    ],
)
def test_meta_that_makes_no_sense_is_named(old: Path, change: dict[str, object], message: str) -> None:
    manifest = read_store(old)
    content = {"folders": manifest["folders"], "hash": manifest["hash"], "meta": manifest["meta"] | change}
    (old / "store.json").write_bytes(sealed(FORMAT, FORMAT_VERSION, content))
    with pytest.raises(CorruptStore, match=message) as error:
        StoreFiles.open(old)
    assert "store.json" in str(error.value)


def test_meta_goes_through_json_unchanged() -> None:
    for folder in FIXTURES.glob("format-1-*"):
        stored = read_store(folder)["meta"]
        meta = StoreMeta.of(stored, folder)
        assert json.loads(json.dumps(meta.as_dict())) == stored


def test_calibrated_says_whether_the_truth_was_learned() -> None:
    def meta(predicted: int | None, calibration: str | None, not_learned: str | None = None) -> StoreMeta:
        named = None if calibration is None else {"name": calibration}
        return StoreMeta("", (), 0.1, named, report=StoreReport(9, 3, predicted, not_learned=not_learned))

    found = [
        meta(0, None),
        meta(6, "learned"),
        meta(6, "softmax-count"),
        meta(6, "softmax-count", "150 valid edges, 300 needed"),
        meta(None, "softmax-count"),
        meta(6, None),
    ]
    assert [m.calibrated for m in found] == [None, True, False, False, False, False]
    assert [m.why for m in found] == [
        None,
        None,
        "calibration softmax-count was asked for",
        "150 valid edges, 300 needed",
        "calibration softmax-count was asked for",
        "the truth values were given and taken as they are",
    ]
    assert found[1].info()["calibrated"] is True
    assert "why" not in found[1].info()
    assert found[3].info()["why"] == "150 valid edges, 300 needed"
