"""tuplet: ask incomplete knowledge graphs for tuples, jointly ranked, with the reason for every answer.

The five-line story:

    store = tuplet.build("facts.tsv", "my.store")     # or tuplet.open("my.store")
    answers = store.ask("?x, ?y : borders(?x, ?y) & official_language(?y, french)", k=20)
    print(answers)
    print(answers[0].explain())
    answers.write("answers.parquet")

Step by step it is `graph = tuplet.read(facts)`, `model = tuplet.train(graph, path)` and
`store = tuplet.index(graph, model, path)`. A graph can be asked as well: for what its facts say.
"""

from __future__ import annotations

import sys as _sys
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from tuplet._version import __version__
from tuplet.errors import TupletError

if _TYPE_CHECKING:
    from tuplet.build import build, index, read, train
    from tuplet.engines import engines
    from tuplet.query.answers import Answer, Answers
    from tuplet.query.limits import Limits
    from tuplet.query.source import Source
    from tuplet.store import Graph, Store, info
    from tuplet.store import open_store as open

__all__ = [
    "Answer",
    "Answers",
    "Graph",
    "Limits",
    "Source",
    "Store",
    "TupletError",
    "__version__",
    "build",
    "engines",
    "index",
    "info",
    "open",
    "read",
    "train",
]

# Where each name comes from. It is imported when first used, so that `import tuplet` and the command line start fast.
_PLACES = {
    "Answer": "tuplet.query.answers:Answer",
    "Answers": "tuplet.query.answers:Answers",
    "Graph": "tuplet.store:Graph",
    "Limits": "tuplet.query.limits:Limits",
    "Source": "tuplet.query.source:Source",
    "Store": "tuplet.store:Store",
    "build": "tuplet.build:build",
    "engines": "tuplet.engines:engines",
    "index": "tuplet.build:index",
    "info": "tuplet.store:info",
    "open": "tuplet.store:open_store",
    "read": "tuplet.build:read",
    "train": "tuplet.build:train",
}


class _Package(_ModuleType):
    """The package: its public names stay what they are when a room of the same name (`tuplet.read`) is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _PLACES and isinstance(value, _ModuleType)):
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> _Any:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'tuplet' has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    found = globals()[name] = getattr(import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
