"""Facts added and removed over HTTP: one writer at a time, and the answer comes when all workers serve the change."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuplet.errors import BadInput, StoreBusy
from tuplet.graph.graph import KnowledgeGraph
from tuplet.read.read import read
from tuplet.server import models
from tuplet.server.processes.control import ChannelError
from tuplet.server.requests.http import TABLES, HTTPProblem, Request
from tuplet.server.requests.limits import TooBusy
from tuplet.server.served import ServedStores
from tuplet.store import Store
from tuplet.truth.edit import EditReport

_MOST_WAITING = 8  # writers of one process; each has its facts in memory


class Editor:
    """The writer of one process; those of others have their turns too, by the lock of the store."""

    def __init__(self, served: ServedStores, patience: float) -> None:
        self._served, self._patience = served, patience  # seconds to wait for writers elsewhere
        self._turn = asyncio.Lock()
        self._writing: set[asyncio.Future[dict[str, Any]]] = set()

    async def add(self, name: str, request: Request, asked: models.AddParameters) -> dict[str, Any]:
        """`POST /add`: facts are stated at once; what is predicted about new entities, `tuplet update` computes."""

        def change(store: Store) -> EditReport:
            seconds = 0.0 if asked.new_entities else None
            if not isinstance(asked, models.AddRequest):
                return store.add(_table(request), asked.new_entities, self._patience, seconds)
            values = asked.attributes or None
            return store.add(
                asked.facts, asked.new_entities, self._patience, seconds, attributes=values, replace=asked.replace
            )

        return await self._changed(name, change)

    async def remove(self, name: str, request: Request, asked: models.ChangeParameters) -> dict[str, Any]:
        """`POST /remove`: facts are no longer stated; each shows its prediction again."""

        def change(store: Store) -> EditReport:
            if not isinstance(asked, models.RemoveRequest):
                return store.remove(_table(request), self._patience)
            return store.remove(asked.facts, self._patience, asked.attributes or None)

        return await self._changed(name, change)

    async def _changed(self, name: str, change: Callable[[Store], EditReport]) -> dict[str, Any]:
        if len(self._writing) >= _MOST_WAITING:
            raise TooBusy(f"{len(self._writing)} changes are waiting already; try again in a moment")
        # A client that goes away leaves a change that is made and served nevertheless.
        writing = asyncio.ensure_future(self._write(name, change))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        return await asyncio.shield(writing)

    async def _write(self, name: str, change: Callable[[Store], EditReport]) -> dict[str, Any]:
        async with self._turn:
            try:
                # What is served stays as it is until all workers switch together.
                report = await asyncio.to_thread(change, self._served.current[name].beside())
            except StoreBusy as error:
                raise StoreBusy(f"the store {name!r}", error.waited) from None
            try:
                await self._served.reload()
            except ChannelError as error:
                raise HTTPProblem(503, f"the change is made, but not served yet: {error}") from None
        after = self._served.current[name]
        return {"store": name, "generation": after.generation, "graph": after.graph.hash, **report.as_dict()}


def _table(request: Request) -> KnowledgeGraph:
    """The facts of a body that is a table: head, relation, tail and perhaps a truth in each line."""
    if not request.body.strip():
        raise BadInput("the table has no facts")
    with tempfile.TemporaryDirectory(prefix="tuplet-facts-") as folder:
        path = Path(folder, f"facts{TABLES[request.media]}")
        path.write_bytes(request.body)
        try:
            return read(path)
        except BadInput as error:
            raise BadInput(error.message.replace(str(path), "the table")) from None
