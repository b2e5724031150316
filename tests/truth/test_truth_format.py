"""Stores of other formats are refused in one line; meta of a store is checked as it is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tuplet
from tuplet.build import make
from tuplet.errors import CorruptStore
from tuplet.files import sealed
from tuplet.truth.edit import add_facts
from tuplet.truth.recipes import Facts
from tuplet.truth.store_folder import FORMAT, FORMAT_VERSION, StoreFiles, read_store
from tuplet.truth.store_meta import StoreMeta, StoreReport


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A store of three facts."""
    facts = [("ann", "knows", "bob"), ("bob", "knows", "cat"), ("cat", "likes", "ann")]
    make(tuplet.read(facts), Facts(), tmp_path / "s")
    return tmp_path / "s"


def rewrite(store: Path, version: int = FORMAT_VERSION, **meta: object) -> None:
    """Seal store.json anew with another version, or with other meta."""
    content = {key: value for key, value in read_store(store).items() if key not in ("format", "version")}
    content["meta"] = content["meta"] | meta
    (store / "store.json").write_bytes(sealed(FORMAT, version, content))


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (FORMAT_VERSION + 1, r"is newer than this tuplet .* reads .*; install a newer tuplet"),
        (FORMAT_VERSION - 1, r"format version 2 is older than 3, which this tuplet .* reads; build the store again"),
        (1, r"build the store again"),
    ],
)
def test_another_format_is_refused_in_one_line_that_says_what_to_do(made: Path, version: int, message: str) -> None:
    rewrite(made, version)
    facts = [("ann", "knows", "cat")]
    for use in (tuplet.open, tuplet.info, lambda path: add_facts(path, facts)):
        with pytest.raises(CorruptStore, match=message) as error:
            use(made)
        assert "\n" not in str(error.value)
        assert "store.json" in str(error.value)


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
def test_meta_that_makes_no_sense_is_named(made: Path, change: dict[str, object], message: str) -> None:
    rewrite(made, **change)
    with pytest.raises(CorruptStore, match=message) as error:
        StoreFiles.open(made)
    assert "store.json" in str(error.value)


def test_meta_goes_through_json_unchanged(made: Path) -> None:
    stored = read_store(made)["meta"]
    assert json.loads(json.dumps(StoreMeta.from_dict(stored, made).as_dict())) == stored


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
