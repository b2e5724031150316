"""What a directory is: a graph, a model or a store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tuplet.graph.arrays import open_directory
from tuplet.graph.arrays import verify as verify_directory
from tuplet.store import open_store
from tuplet.truth.store_folder import is_store
from tuplet.truth.store_info import verify_model, verify_store


def info(path: str | os.PathLike[str], verify: bool = False) -> dict[str, Any]:
    """What the directory is: kind, sizes, splits, hashes, metrics."""
    root = Path(path)
    if any(os.path.exists(root / file) for file in ("model.json", "log.jsonl")):  # the second: an unfinished run
        from tuplet.predict.model_folder import describe

        if verify:
            verify_model(root)
        return {"kind": "model", **{("model" if k == "kind" else k): v for k, v in describe(root).items()}}
    if is_store(root):
        if verify:
            verify_store(root)
        return open_store(root).info()
    directory = open_directory(root)
    if verify:
        verify_directory(root)
    if directory.kind == "graph":
        return open_store(root).info()
    return {"kind": directory.kind, "hash": directory.hash, "bytes": directory.bytes}
