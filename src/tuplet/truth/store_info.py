"""What a store folder says of itself: its generation, what waits to be merged, whether every byte is as written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tuplet.errors import CorruptStore, TupletError
from tuplet.graph.arrays import verify
from tuplet.truth.store_folder import MANIFEST, StoreFiles, read_store
from tuplet.truth.store_parts import is_named


def generation(store: StoreFiles) -> dict[str, Any]:
    """Its number and hash, and how many changed edges and attributes are not merged into graph and table yet."""
    waiting = {"layer": store.layer.changes, "delta": store.delta.changes}
    return {"number": store.generation, "hash": store.hash, "waiting": waiting}


def verify_store(path: str | os.PathLike[str]) -> None:
    """Read every byte of the newest generation; an error names the first file that is not as it was written."""
    root = Path(path)
    while True:
        store = StoreFiles.open(root)  # this reads store.json and the delta
        try:
            for part, folder in store.folders.items():
                if not is_named(folder, part, _digest(root / folder, part)):
                    raise CorruptStore(f"{root / folder}: not the {part} that {root / MANIFEST} names")
            return
        except TupletError:
            # Somebody may have changed the store meanwhile; then there is another generation to be read.
            if read_store(root)["hash"] == store.hash:
                raise


def _digest(folder: Path, part: str) -> str:
    return verify_model(folder) if part == "model" else verify(folder)


def verify_model(folder: Path) -> str:
    """The hash of a model's tables, which are as they were written."""
    from tuplet.predict import model_folder

    digest = str(model_folder.describe(folder)["sha256"])
    model_folder.read_tensors(folder / model_folder.TENSORS, sha256=digest)
    return digest
