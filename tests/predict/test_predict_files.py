"""Damaged model folders are named in a clear error, whatever happened to them."""

from __future__ import annotations

import json
import random

import pytest
import torch

from tuplet.errors import BadInput, CorruptStore
from tuplet.predict.embeddings import ComplEx
from tuplet.predict.model_folder import DESCRIPTION, TENSORS, describe, load, save


@pytest.fixture
def folder(tmp_path):
    save(ComplEx.create(5, 2, 4, 1.0, 2, torch.Generator().manual_seed(0)), tmp_path / "m", {"graph": "abc"})
    return tmp_path / "m"


def test_card_says_what_it_is(folder) -> None:
    assert "complex, rank 4" in (folder / "MODEL.md").read_text()
    assert "5 entities, 2 relations" in (folder / "MODEL.md").read_text()


def test_truncated_or_edited_tables(folder) -> None:
    whole = (folder / TENSORS).read_bytes()
    chance = random.Random(0)
    for _ in range(60):
        data = bytearray(whole)
        if chance.random() < 0.5:
            data = data[: chance.randrange(len(data))]
        else:
            place = chance.randrange(len(data))
            data[place] ^= 1 << chance.randrange(8)
        (folder / TENSORS).write_bytes(bytes(data))
        with pytest.raises(CorruptStore, match=TENSORS):
            load(folder)


def test_damaged_description(folder) -> None:
    whole = (folder / DESCRIPTION).read_bytes()
    chance = random.Random(1)
    for _ in range(60):
        (folder / DESCRIPTION).write_bytes(whole[: chance.randrange(len(whole) - 2)])
        with pytest.raises(CorruptStore, match=r"model\.json"):
            load(folder)
    for key, value in (("format", "x"), ("version", 99), ("kind", "compelx"), ("entities", 6), ("norm", None)):
        (folder / DESCRIPTION).write_text(json.dumps(json.loads(whole) | {key: value}))
        with pytest.raises(CorruptStore, match=r"model\.json"):
            load(folder)


def test_missing_parts(folder, tmp_path) -> None:
    (folder / TENSORS).unlink()
    with pytest.raises(CorruptStore, match="is missing"):
        load(folder)
    (folder / DESCRIPTION).unlink()
    with pytest.raises(CorruptStore, match="not a tuplet model"):
        describe(folder)
    with pytest.raises(BadInput, match="no such model"):
        load(tmp_path / "nowhere")
