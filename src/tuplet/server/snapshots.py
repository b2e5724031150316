"""The stores as they are served: each at one generation, all swapped together, and a request sees one state only.

A switch is prepare, hold, switch, and the supervisor takes each step in all workers before the next (`control`).
What came before it goes on with the generation it began with.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

from tuplet.errors import TupletError
from tuplet.server.control import ChannelError, Control, Generations
from tuplet.server.keys import KeyOwner
from tuplet.store import Store

T = TypeVar("T")
P = ParamSpec("P")
_SOON = 2.0  # seconds in which the parent says how all are
log = logging.getLogger("tuplet.server")


class StoresAtOnce(dict[str, Store]):
    """Stores by name, each at one generation."""

    @cached_property
    def state(self) -> bytes:
        """Changes when one of them does."""
        return repr(_generations(self)).encode()

    @cached_property
    def _parts(self) -> dict[frozenset[str], StoresAtOnce]:
        return {}

    def limited_to(self, names: frozenset[str]) -> StoresAtOnce:
        """Some of them."""
        if names not in self._parts:
            self._parts[names] = StoresAtOnce({name: store for name, store in self.items() if name in names})
        return self._parts[names]


# What the request at hand sees. It goes with the request into threads, and no route can forget it.
SEEN: ContextVar[StoresAtOnce | None] = ContextVar("SEEN", default=None)


class ServedStores:
    """Stores by name."""

    def __init__(self, stores: Mapping[str, Store], warm: Callable[[str, Store], None] = lambda name, store: None):
        self.current = StoresAtOnce(stores)
        self.problems: dict[str, str] = {}  # of stores whose newest generation cannot be opened; they stay as they are
        self.draining = False  # this process finishes what it has, and ends
        self.told: Callable[[Generations], None] = lambda generations: None  # what is served from now on
        self._warm = warm
        self._prepared: StoresAtOnce | None = None
        self._free: asyncio.Event | None = None  # while it is there, requests wait for it
        self._control: Control | None = None

    def generations(self) -> Generations:
        """Number and hash of what is served."""
        return _generations(self.current)

    # --- requests --------------------------------------------------------------------------------------------------

    async def enter(self, key: KeyOwner | None) -> None:
        """Let the request at hand see the stores that its key opens, at the generation served from now on."""
        while self._free is not None:
            await self._free.wait()
        names = None if key is None else key.stores
        SEEN.set(self.current if names is None else self.current.limited_to(names))

    def seen(self) -> StoresAtOnce:
        """What the request at hand sees; outside of one, everything."""
        seen = SEEN.get()
        return self.current if seen is None else seen

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
        """Let requests that come now wait."""
        self._free = self._free or asyncio.Event()

    def switch(self) -> None:
        """Serve what was prepared; requests that wait begin."""
        if self._prepared is not None:
            self.current, self._prepared = self._prepared, None
            self.told(self.generations())
        free, self._free = self._free, None
        if free is not None:
            free.set()

    # --- all workers together --------------------------------------------------------------------------------------

    def attach(self, control: Control) -> None:
        """Do what the parent says, and ask it."""

        async def prepare() -> dict[str, Any]:
            return {"generations": await asyncio.to_thread(self.prepare)}

        self._control = control
        control.on("prepare", prepare)
        control.on("hold", self.hold)
        control.on("switch", self.switch)

    async def reload(self) -> None:
        """Bring all workers to what is newest on disk; when this is done, none serves anything older."""
        if self._control is not None:
            await self._control.ask("reload")
            return
        await asyncio.to_thread(self.prepare)
        self.switch()

    async def state(self) -> dict[str, Any]:
        """How all workers are: see `Supervisor.stats`; `problem` also tells of stores that cannot be opened."""
        stats: dict[str, Any] = {"workers": 1, "serving": 1, "problem": "", "stopping": False}
        if self._control is not None:
            try:
                stats |= await self._control.ask("stats", timeout=_SOON)
            except ChannelError as error:
                stats |= {"serving": 0, "problem": str(error)}
        stats["problem"] = stats["problem"] or "; ".join(self.problems.values())
        return stats


def per_store(make: Callable[Concatenate[Store, P], T]) -> Callable[Concatenate[Store, P], T]:
    """Remember what is made of a store, as long as that is there: each generation is a store of its own.

    >>> from tuplet.read.read import read
    >>> from tuplet.query.source import Source
    >>> store = Store(Source(read([("paris", "capital_of", "france")])))
    >>> size = per_store(lambda store: print("counted") or len(store.graph.entities))
    >>> size(store), size(store)
    counted
    (2, 2)
    """
    kept: WeakKeyDictionary[Store, dict[Hashable, T]] = WeakKeyDictionary()

    def made(store: Store, /, *rest: P.args, **named: P.kwargs) -> T:
        of_store = kept.setdefault(store, {})
        key = cast(Hashable, rest)
        if key not in of_store:
            of_store[key] = make(store, *rest, **named)
        return of_store[key]

    return made


def _generations(stores: Mapping[str, Store]) -> Generations:
    return {name: [store.generation, store.hash] for name, store in stores.items()}
