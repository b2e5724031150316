"""What was changed in a store since its folders were written: one small file, replaced by every edit."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tuplet.errors import CorruptStore
from tuplet.graph.edge_states import EdgeStates
from tuplet.graph.names import Strings


@dataclass(frozen=True)
class Delta:
    """The states of changed edges, and the names of entities that came since.

    >>> Delta.decoded(Delta(names=("a", "b")).encoded(), "here").names
    ('a', 'b')
    """

    states: EdgeStates = field(default_factory=EdgeStates.none)
    names: tuple[str, ...] = ()

    def then(self, states: EdgeStates, names: Sequence[str] = ()) -> Delta:
        """This delta and what came later."""
        return Delta(self.states.then(states), (*self.names, *names))

    def since(self, older: Delta) -> Delta:
        """What came after an older state of the same delta."""
        return Delta(self.states.differing(older.states), self.names[len(older.names) :])

    def continues(self, older: Delta) -> bool:
        """Whether it says something of every edge and name of another one, over the same folders: then `since` is all.

        A compaction may lead back to folders that were there before, and begins a new delta.
        """
        edges = older.states
        known = (self.states.find(edges.relation, edges.heads, edges.tails) >= 0).all()
        return bool(known) and self.names[: len(older.names)] == older.names

    @property
    def empty(self) -> bool:
        return not self.names and not self.states.edges

    def encoded(self) -> bytes:
        """The bytes of its file: arrays in a zip archive, the same for the same content."""
        names = Strings.of(self.names)
        stream = io.BytesIO()
        arrays: dict[str, Any] = {"name_blob": names.blob, "name_offsets": names.offsets, **self.states.arrays()}
        np.savez(stream, **arrays)
        return stream.getvalue()

    @staticmethod
    def decoded(data: bytes, where: object) -> Delta:
        """The inverse of `encoded`; `where` is the file, for errors."""
        try:
            with np.load(io.BytesIO(data)) as arrays:
                names = Strings(arrays["name_blob"], arrays["name_offsets"], np.zeros(0, dtype=np.int32))
                states = EdgeStates(**{name: arrays[name] for name in EdgeStates._fields})
                return Delta(states, tuple(names.texts(range(len(names)))))
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise CorruptStore(f"{where} is damaged: {error}") from None
