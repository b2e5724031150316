"""What is finished of a build: kept as files, so that a build that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.truth.rules import Calibration


class Parts:
    """Finished relations of one build, a file each, in a folder named by everything that decides their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def of(root: Path, key: str, threshold: float, rule: Calibration, *edges: NDArray[np.integer]) -> Parts:
        digest = hashlib.sha256(json.dumps([key, threshold, rule.as_dict()]).encode())
        for column in edges:
            digest.update(np.asarray(column, dtype=np.int32).tobytes())
        folder = root / digest.hexdigest()[:16]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"cannot write {folder}: {error.strerror}") from None
        return Parts(folder)

    def load(self, relation: int) -> dict[str, NDArray[Any]] | None:
        try:
            with np.load(self.folder / f"{relation}.npz", allow_pickle=False) as part:
                return {name: part[name] for name in part.files}
        except Exception:  # missing, or damaged in whatever way: the relation is computed again
            return None

    def save(self, relation: int, part: Mapping[str, NDArray[Any]]) -> None:
        with self._writing(f"{relation}.npz") as stream:
            np.savez(stream, **dict(part))  # type: ignore[arg-type]

    def load_array(self, name: str) -> NDArray[np.float32] | None:
        try:
            array: NDArray[np.float32] = np.load(self.folder / f"{name}.npy", allow_pickle=False)
            return array
        except Exception:  # as above
            return None

    def save_array(self, name: str, array: NDArray[np.float32]) -> None:
        with self._writing(f"{name}.npy") as stream:
            np.save(stream, array)

    @contextmanager
    def _writing(self, name: str) -> Iterator[BinaryIO]:
        """A file that appears under its name when it is whole."""
        temporary = self.folder / f".{name}.{os.urandom(4).hex()}.tmp"
        try:
            with open(temporary, "wb") as stream:
                yield stream
            os.replace(temporary, self.folder / name)
        except OSError as error:
            raise BadInput(f"cannot write {self.folder / name}: {error.strerror}") from None
        finally:
            temporary.unlink(missing_ok=True)
