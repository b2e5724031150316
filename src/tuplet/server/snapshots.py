"""The stores as they are served: each at one generation, all swapped together, and a request sees one state only.

A switch is prepare, hold, switch, and the supervisor takes each step in all workers before the next (`control`).
What came before it goes on with the generation it began with.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from tuplet.errors import TupletError
from tuplet.server.control import ChannelError, Control, Generations
from tuplet.server.keys import KeyOwner
from tuplet.store import Store

T = TypeVar("T")
_SOON = 2.0  # seconds in which the parent says how all are
log = logging.getLogger("tuplet.server")


class StoresAtOnce(dict[str, Store]):
    """Stores by name, each at one generation."""

    @cached_property
    def state(self) -> bytes:
        return repr(_generations(self)).encode()

    @cached_property
    def _parts(self) -> dict[frozenset[str], StoresAtOnce]:
        return {}

    def limited_to(self, names: frozenset[str]) -> StoresAtOnce:
        if names not in self._parts:
            self._parts[names] = StoresAtOnce({name: store for name, store in self.items() if name in names})
        return self._parts[names]


class ServedStores:
    """The stores that this process serves, and their switch to newer generations."""

    def __init__(self, stores: Mapping[str, Store], warm: Callable[[str, Store], None] = lambda name, store: None):
        self.current = StoresAtOnce(stores)
        self.problems: dict[str, str] = {}  # of stores whose newest generation cannot be opened; they stay as they are
        self.draining = False  # this process finishes what it has, and ends
        self.on_switch: Callable[[Generations], None] = lambda generations: None  # what is served from now on
        self._warm = warm
        self._prepared: StoresAtOnce | None = None
        self._free: asyncio.Event | None = None  # while it is there, requests wait for it
        self._control: Control | None = None

    def generations(self) -> Generations:
        return _generations(self.current)

    # --- requests --------------------------------------------------------------------------------------------------

    async def enter(self, key: KeyOwner | None) -> StoresAtOnce:
        """The stores that a key opens, at the generation served from now on; no request sees others."""
        while self._free is not None:
            await self._free.wait()
        names = None if key is None else key.stores
        return self.current if names is None else self.current.limited_to(names)

    # --- generations -----------------------------------------------------------------------------------------------

    def prepare(self) -> Generations:
        """Open what is newest on disk beside what is served; a store that cannot be opened stays as it is."""
        prepared = StoresAtOnce()
        for name, store in (self._prepared or self.current).items():
            try:
                newer = store.newer()
                if newer is not None:
                    self._warm(name, newer)
                self.problems.pop(name, None)
            except TupletError as error:
                if self.problems.get(name) != str(error):
                    log.warning("store %r stays at generation %d: %s", name, store.generation, error)
                self.problems[name], newer = str(error), None
            prepared[name] = newer or store
        self._prepared = prepared
        return _generations(prepared)

    def hold(self) -> None:
        """Make new requests wait."""
        self._free = self._free or asyncio.Event()

    def switch(self) -> None:
        """Serve what was prepared; waiting requests begin."""
        if self._prepared is not None:
            self.current, self._prepared = self._prepared, None
            self.on_switch(self.generations())
        free, self._free = self._free, None
        if free is not None:
            free.set()

    # --- all workers together --------------------------------------------------------------------------------------

    def attach(self, control: Control) -> None:
        """Connect to the parent."""
        self._control = control
        control.on("prepare", lambda: asyncio.to_thread(self.prepare))
        control.on("hold", self.hold)
        control.on("switch", self.switch)

    async def reload(self) -> None:
        """Bring all workers to what is newest on disk; afterwards none serves anything older."""
        if self._control is not None:
            await self._control.ask("reload")
            return
        await asyncio.to_thread(self.prepare)
        self.switch()

    async def state(self) -> dict[str, Any]:
        stats: dict[str, Any] = {"workers": 1, "serving": 1, "problem": "", "stopping": False}
        if self._control is not None:
            try:
                stats |= await self._control.ask("stats", timeout=_SOON)
            except ChannelError as error:
                stats |= {"serving": 0, "problem": str(error)}
        stats["problem"] = stats["problem"] or "; ".join(self.problems.values())
        return stats


def per_store(make: Callable[[Store], T]) -> Callable[[Store], T]:
    """Remember what is made of a store for the life of the store: each generation is a store of its own.

    >>> from tuplet.read.read import read
    >>> from tuplet.query.source import Source
    >>> store = Store(Source(read([("paris", "capital_of", "france")])))
    >>> size = per_store(lambda store: print("counted") or len(store.graph.entities))
    >>> size(store), size(store)
    counted
    (2, 2)
    """
    kept: WeakKeyDictionary[Store, T] = WeakKeyDictionary()

    def made(store: Store) -> T:
        if store not in kept:
            kept[store] = make(store)
        return kept[store]

    return made


def _generations(stores: Mapping[str, Store]) -> Generations:
    return {name: [store.generation, store.hash] for name, store in stores.items()}
