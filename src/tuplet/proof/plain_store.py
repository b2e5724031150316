"""Names and truth values of a store, read plainly (docs/reference/formats.md): a part of the checker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Marks = NDArray[np.bool_]
Edges = tuple[Ids, Ids, Floats, Marks, Ids]  # heads, tails, truth, observed; and ascending, head · entities + tail

PARTS = ("graph", "table", "facts", "layer", "rows", "model", "calibration", "newcomers", "attributes", "guarantees")
NAMES = ("entity_name_blob", "entity_name_offsets", "relation_name_blob", "relation_name_offsets")
TABLE = ("view_ptr", "row_entity", "row_ptr", "neighbour", "truth", "observed")
STATES = ("relation", "heads", "tails", "truth", "observed", "name_blob", "name_offsets")


class UnusableProof(Exception):
    """There is nothing to check: a damaged file, no store."""


class PlainStore:
    """The newest generation in the folder of a store; each byte that is read is one that its hash speaks of."""

    def __init__(self, root: Path) -> None:
        self.root, about = root, read_json(root / "store.json", "a store")
        if about.get("format") != "tuplet store" or about.get("version") != 3:
            raise UnusableProof(f"{root} is not a store of format 3; build it again")
        folders, meta, delta = about["folders"], about["meta"], about.get("delta")
        if "rows" in folders:
            raise UnusableProof(f"{root} computes truth on demand; only a truth table can be checked")
        _compare(root / "store.json", about.pop("seal", ""), sha256(about))
        parts, described = [part for part in PARTS if part in folders], ("model", "models", "calibration", "threshold")
        made_of = [*(folders[part] for part in parts), *(meta[key] for key in described if key in meta)]
        # The hash is of a list without keys: a folder in it must not pass for another part, or for something else.
        _compare(root / "store.json", parts, [one.split("-")[0] for one in made_of if isinstance(one, str)])
        self.hash, self.generation = str(about["hash"]), int(about["generation"])
        _compare(root / "store.json", self.hash, sha256({"made_of": made_of + [delta] * bool(delta)}))
        graph = list(self._arrays(folders["graph"], NAMES).values())
        self.names, self.relations = _texts(*graph[:2]), _texts(*graph[2:])
        self._table = self._arrays(folders["table"], TABLE)
        self._states = [self._arrays(folders["layer"], STATES)] if "layer" in folders else []
        if delta:
            _compare(root / delta, delta.split("-")[1], sha256((root / delta).read_bytes())[:16] + ".npz")
            with np.load(root / delta, allow_pickle=False) as arrays:
                self._states.append({name: arrays[name] for name in STATES})
        self.names += [name for one in self._states for name in _texts(one["name_blob"], one["name_offsets"])]
        self._edges: dict[int, Edges] = {}

    def _arrays(self, folder: str, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Some arrays of a folder, which is named by the hash of all of them."""
        about, found = read_json(self.root / folder / "manifest.json", "a part of a store"), {}
        listed = {name: [x["dtype"], x["shape"], x["sha256"]] for name, x in about["arrays"].items()}
        meta = {key: value for key, value in about["meta"].items() if key not in ("notes", "counts")}
        content = {"kind": about["kind"], "arrays": listed, "meta": meta}
        _compare(self.root / folder, folder.split(".")[0].split("-")[1], sha256(content)[:16])
        for name in wanted:
            file = self.root / folder / about["arrays"][name]["file"]
            found[name] = array = np.load(file, mmap_mode="r", allow_pickle=False)
            _compare(file, listed[name], [array.dtype.str, list(array.shape), sha256(array.reshape(-1).data)])
        return found

    def edges(self, relation: int) -> Edges:
        """The edges of a relation: those of the table, less those that were changed since, and these as they are."""
        if relation not in self._edges:
            table, size = self._table, len(self.names)
            first, last = table["view_ptr"][2 * relation : 2 * relation + 2]
            ends = table["row_ptr"][first : last + 1]
            heads = np.repeat(table["row_entity"][first:last].astype(np.int64), np.diff(ends))
            tails, truth, observed = (table[name][ends[0] : ends[-1]] for name in ("neighbour", "truth", "observed"))
            keys = heads * size + tails
            for states in self._states:
                own = states["relation"] == relation
                changed = states["heads"][own].astype(np.int64) * size + states["tails"][own]
                kept = ~np.isin(keys, changed)
                keys, observed = np.append(keys[kept], changed), np.append(observed[kept], states["observed"][own])
                truth = np.append(truth[kept], states["truth"][own].astype(truth.dtype))  # as precise as the table is
            order = np.argsort(keys, kind="stable")
            order = order[truth[order] > 0]
            keys, columns = keys[order], (truth[order].astype(np.float64), observed[order].astype(bool))
            self._edges[relation] = keys // size, keys % size, *columns, keys
        return self._edges[relation]

    def look_up(self, relation: int, heads: Ids, tails: Ids) -> tuple[Floats, Marks]:
        """The truth of some edges, and whether they are stated facts."""
        (_, _, truth, observed, keys), wanted = self.edges(relation), heads * len(self.names) + tails
        if not len(keys):
            return np.zeros(len(wanted)), np.zeros(len(wanted), dtype=bool)
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        there = keys[places] == wanted
        return np.where(there, truth[places], 0.0), there & observed[places]


def _compare(file: Path, stated: Any, found: Any) -> None:
    if stated != found:
        raise UnusableProof(f"{file} is damaged: it is {found}, where {stated} is stated")


def _texts(blob: NDArray[Any], offsets: NDArray[Any]) -> list[str]:
    data, ends = blob.tobytes(), offsets.tolist()
    return [data[a:b].decode() for a, b in pairwise(ends)]


def read_json(file: Path, what: str) -> dict[str, Any]:
    """The object in a JSON file in UTF-8; NaN, Infinity and a key that stands twice are not JSON."""
    try:
        return {**json.loads(file.read_bytes().decode(), parse_constant=int, object_pairs_hook=_once)}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise UnusableProof(f"{file} cannot be read as {what}: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def sha256(content: Any) -> str:
    """The hash of bytes, or of an object as the store writes it."""
    if isinstance(content, dict):
        content = (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
    return hashlib.sha256(content).hexdigest()
