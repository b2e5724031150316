"""The folders that a store is made of: each is named by its content."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from tuplet.errors import TupletError
from tuplet.files import rename
from tuplet.graph.arrays import FORMAT_VERSION as ARRAY_FORMAT
from tuplet.graph.arrays import open_directory, read_manifest

PARTS = ("graph", "table", "facts", "layer", "rows", "model", "calibration", "newcomers", "attributes", "guarantees")

_held: WeakValueDictionary[tuple[object, ...], Any] = WeakValueDictionary()


def held(key: tuple[object, ...], load: Callable[[], Any]) -> Any:
    """What was loaded from parts of a store, if somebody holds it: the same names mean the same content.

    So a change of the facts does not load the model of a store on demand again.
    """
    found = _held.get(key)
    if found is None:
        found = _held[key] = load()
    return found


def folder_name(part: str, digest: str) -> str:
    """Parts are named by their content."""
    return f"{part}-{digest[:16]}"


def is_named(folder: str, part: str, digest: str) -> bool:
    """Whether a folder is named by a hash; the format of its arrays may follow, see `place`."""
    return folder.split(".")[0] == folder_name(part, digest)


def place(root: Path, part: str, write: Callable[[Path], str]) -> str:
    """Let `write` fill a new folder, named by the hash that it returns."""
    fresh = root / f".{part}-{os.urandom(4).hex()}"
    name = folder_name(part, write(fresh))
    there = _whole_format(root / name, part)
    if there == ARRAY_FORMAT:
        shutil.rmtree(fresh)  # the same content is there already
        return name
    if there is not None:
        name += f".{ARRAY_FORMAT}"  # in an older format, and somebody may read it
    rename(fresh, root / name)
    return name


def _whole_format(folder: Path, part: str) -> int | None:
    """The format of the arrays in a folder; None if it is not there, or damaged."""
    try:
        if part == "model":
            from tuplet.predict import model_folder

            model_folder.load(folder)
            return ARRAY_FORMAT
        open_directory(folder, part).verify_all()
        return int(read_manifest(folder, part)["version"])
    except TupletError:
        return None


def copy_model(source: Path, folder: Path) -> str:
    """Write the folder of a predictor again; returns its content hash."""
    from tuplet.predict import model_folder

    digest = str(model_folder.describe(source)["sha256"])
    folder.mkdir()
    for name in (model_folder.TENSORS, model_folder.CARD, model_folder.DESCRIPTION):
        if (source / name).exists():
            shutil.copyfile(source / name, folder / name)
    return digest
