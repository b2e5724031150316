"""Finished relations of one build: a file each, so that another call, or another machine, goes on from there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.files import make_folder, replacing, system_errors, write_array
from tuplet.truth.rules import Calibration


class RelationCache:
    """A folder named by everything that decides the content of the files in it.

    `small`: parts of scored edges are written in half precision and compressed, to travel; they are read like others.
    """

    def __init__(self, folder: Path, small: bool = False) -> None:
        self.folder, self.small = folder, small

    @staticmethod
    def of(
        root: Path,
        key: str,
        threshold: float,
        rule: Calibration,
        *edges: NDArray[np.integer],
        small: bool = False,
    ) -> RelationCache:
        """The folder inside `root` for these models (`key`), threshold, rule and known edges."""
        digest = hashlib.sha256(json.dumps([key, threshold, rule.as_dict()]).encode())
        for column in edges:
            digest.update(np.asarray(column, dtype=np.int32).tobytes())
        folder = root / digest.hexdigest()[:16]
        with system_errors(folder):
            make_folder(folder)
        return RelationCache(folder, small)

    @property
    def begun(self) -> bool:
        """Whether some relation is finished."""
        return any(self.folder.glob("*.npz"))

    def has(self, relation: int | str) -> bool:
        """Whether a part is finished, as far as its file says."""
        return (self.folder / f"{relation}.npz").exists()

    def load(self, relation: int | str) -> dict[str, NDArray[Any]] | None:
        """The part of a relation, by its number or the name of the part; None if it is not finished."""
        try:
            with np.load(self.folder / f"{relation}.npz", allow_pickle=False) as part:
                found = {name: part[name] for name in part.files}
                return _unpacked(found) if "gaps" in found else found
        except Exception:  # missing, or damaged in whatever way: the relation is computed again
            return None

    def save(self, relation: int | str, part: Mapping[str, NDArray[Any]]) -> None:
        """Keep the part of a relation."""
        with replacing(self.folder / f"{relation}.npz", force=True) as fresh, open(fresh, "wb") as stream:
            if self.small and "logs" in part:
                np.savez_compressed(stream, **_packed(part))  # type: ignore[arg-type]
            else:
                np.savez(stream, **dict(part))  # type: ignore[arg-type]

    def drop(self, relation: int | str) -> None:
        """A part is not needed any more."""
        (self.folder / f"{relation}.npz").unlink(missing_ok=True)

    def load_array(self, name: str) -> NDArray[np.float32] | None:
        """An array that was kept, or None."""
        try:
            array: NDArray[np.float32] = np.load(self.folder / f"{name}.npy", allow_pickle=False)
            return array
        except Exception:  # as above
            return None

    def save_array(self, name: str, array: NDArray[np.float32]) -> None:
        """Keep an array."""
        with replacing(self.folder / f"{name}.npy", force=True) as fresh, open(fresh, "wb") as stream:
            write_array(stream, array)


def _packed(part: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Edges in order as gaps between their keys, logs in half precision, both by byte: like bytes compress well.

    >>> ends = np.array([0, 0, 7], dtype=np.int32), np.array([3, 5, 1], dtype=np.int32)
    >>> part = {"heads": ends[0], "tails": ends[1], "logs": np.array([[[-0.5, -1, -2], [-3, -4, np.nan]]], "float32")}
    >>> all((a == b).all() or "log" in name for (name, a), b in zip(part.items(), _unpacked(_packed(part)).values()))
    True
    """
    size = int(part["tails"].max(initial=0)) + 1
    keys = part["heads"].astype(np.int64) * size + part["tails"]
    logs = part["logs"].astype(np.float16)
    return {
        "size": np.array(size),
        "gaps": np.ascontiguousarray(np.diff(keys, prepend=0).view(np.uint8).reshape(-1, 8).T),
        "logs": np.ascontiguousarray(logs.view(np.uint8).reshape(*logs.shape, 2).transpose(3, 0, 1, 2)),
    }


def _unpacked(packed: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What `_packed` was given, logs in half precision."""
    keys = np.cumsum(np.ascontiguousarray(packed["gaps"].T).view(np.int64).reshape(-1))
    size, planes = int(packed["size"]), packed["logs"]
    logs = np.ascontiguousarray(planes.transpose(1, 2, 3, 0)).view(np.float16).reshape(planes.shape[1:])
    return {"heads": (keys // size).astype(np.int32), "tails": (keys % size).astype(np.int32), "logs": logs}
