"""Tools over one or several stores: their definitions, and calls that answer mistakes instead of raising them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from inspect import signature
from time import monotonic
from typing import Any

from tuplet.errors import BadInput, PlacedError, TupletError, UnknownName, unknown
from tuplet.lang.brief_language import LANGUAGE
from tuplet.query import evidence
from tuplet.query.examples import examples
from tuplet.query.limits import Deadline, Only
from tuplet.server.requests.keys import KeyRefused
from tuplet.server.requests.limits import ServerLimits, problem
from tuplet.server.tools import functions
from tuplet.server.tools.definitions import DEFINITIONS, JsonSchema
from tuplet.server.tools.teaching import teaching
from tuplet.store import Store

_LOOK = 1.0  # seconds between two looks for a newer generation of a store


class Toolbox:
    """Stores by name, limits as those of a server, and the tools to ask them.

    >>> from tuplet.read.read import read
    >>> from tuplet.query.source import Source
    >>> box = Toolbox(Store(Source(read([("paris", "capital_of", "france"), ("france", "borders", "spain")]))))
    >>> [tool["name"] for tool in box.definitions()]
    ['schema', 'find', 'ask', 'explain', 'score']
    >>> box.call("find", {"text": "par"})
    {'found': [{'name': 'paris', 'write': 'paris'}]}
    >>> wrong = box.call("ask", {"query": "?x : boders(?x, spain)"})
    >>> wrong["error"], wrong["suggestions"], wrong["column"]
    ("unknown relation 'boders'; did you mean 'borders'?", ['borders'], 6)
    """

    def __init__(self, stores: Store | Mapping[str, Store], limits: ServerLimits | None = None) -> None:
        self.stores = {"store": stores} if isinstance(stores, Store) else dict(stores)
        self.limits = (limits or ServerLimits()).settled(1)
        self._looked = monotonic()

    def of(self, names: Iterable[str] | None) -> Toolbox:
        """The same tools over some of the stores, such as those that a key opens; None: all."""
        if names is None:
            return self
        wanted = set(names)
        return Toolbox({name: store for name, store in self.stores.items() if name in wanted}, self.limits)

    def store(self, name: str | None = None) -> Store:
        """The store of a name; the first if none is given."""
        if not self.stores:
            raise KeyRefused("this key opens none of the stores that are served")
        if name is not None and name not in self.stores:
            raise unknown("store", str(name)[:100], self.stores)
        return self.stores[next(iter(self.stores)) if name is None else name]

    def warm(self) -> None:
        """Load what is compiled before the first call."""
        evidence.load()
        for store in self.stores.values():
            store.engine()
            filters: tuple[Only | None, ...] = (None, "predicted", "observed")
            for example, only in itertools.product(examples(store.source)[:2], filters):
                with suppress(TupletError):
                    store.ask(example["query"], k=3, only=only, timeout=1.0)

    def definitions(self) -> list[dict[str, Any]]:
        """What a language model is shown: name, title, description, and JSON schemas of arguments and results."""
        choose = self._choose()
        return [
            {
                "name": tool.name,
                "title": tool.title,
                "description": "\n\n".join([tool.about, *([self._taught()] if tool.teaches else [])]),
                "parameters": tool.parameters(choose),
                "returns": tool.gives,
            }
            for tool in DEFINITIONS.values()
        ]

    def _choose(self) -> dict[str, JsonSchema]:
        """The argument that names a store, where there are several."""
        if len(self.stores) < 2:
            return {}
        names = list(self.stores)
        return {"store": {"type": "string", "enum": names, "description": f"which graph (default: {names[0]})"}}

    def _taught(self) -> str:
        return teaching(next(iter(self.stores.values()), None))

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, deadline: Deadline | None = None) -> Any:
        """What a tool gives; of a mistake what is wrong, where, and how to go on: such a result has the key `error`."""
        try:
            return self.run(name, arguments, deadline)
        except TupletError as error:
            return self.told(error)

    def run(self, name: str, arguments: Mapping[str, Any] | None = None, deadline: Deadline | None = None) -> Any:
        """What a tool gives; mistakes are raised."""
        if name not in DEFINITIONS:
            raise unknown("tool", str(name)[:100], DEFINITIONS)
        given = dict(arguments or {})
        store = self.store(given.pop("store", None))
        tool, function = DEFINITIONS[name], _FUNCTIONS[name]
        for argument in given:
            if argument not in tool.takes:
                raise unknown(f"argument of {name}", argument[:100], [*tool.takes, *self._choose()])
        for argument in tool.needed:
            if argument not in given:
                raise BadInput(f"{name} needs {argument!r}: {tool.takes[argument]['description']}")
        if "within" in signature(function).parameters:
            given["within"] = self.limits
            given["deadline"] = deadline or self.deadline(given)
        self._refresh()
        return function(store, **given)

    def deadline(self, arguments: Mapping[str, Any] | None) -> Deadline:
        """When a call that has just come must be answered; a timeout that is no number is refused later, in words."""
        timeout = (arguments or {}).get("timeout")
        number = isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0
        return self.limits.deadline(timeout if number else None)

    def told(self, error: TupletError) -> dict[str, Any]:
        """An error as JSON, with what helps to write it better."""
        said = problem(error)[1]
        if isinstance(error, PlacedError) and error.text:
            said["excerpt"] = str(error).removeprefix(error.message).partition("\n")[2]
        if said["kind"] in ("syntax", "unsupported", "unsafe"):
            said["hint"] = LANGUAGE
        elif isinstance(error, UnknownName) and error.kind in ("entity", "relation"):
            wanted = ", relations=true" if error.kind == "relation" else ""
            said["hint"] = f"find(text=…{wanted}) looks for the exact name"
        return said

    def _refresh(self) -> None:
        """Take the newest generation of stores that others changed, at most once a second."""
        now = monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            for store in self.stores.values():
                with suppress(TupletError):  # what cannot be read now stays as it was
                    store.refresh()


_FUNCTIONS: Mapping[str, Callable[..., dict[str, Any]]] = {
    name: getattr(functions, name) for name in ("schema", "find", "ask", "explain", "score")
}
