"""tuplet: ask incomplete knowledge graphs for tuples, jointly ranked, with the reason for every answer.

The five-line story:

    store = tuplet.build("facts.tsv", "my.store")     # or tuplet.open("my.store")
    answers = store.ask("?x, ?y : borders(?x, ?y) & official_language(?y, french)", k=20)
    print(answers)
    print(answers[0].explain())
    answers.write("answers.parquet")
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tuplet._version import __version__

if TYPE_CHECKING:
    from tuplet.graph.graph import KnowledgeGraph
    from tuplet.query.answer import Answer
    from tuplet.query.answers import Answers
    from tuplet.query.source import Source
    from tuplet.store import Store

__all__ = [
    "Answer",
    "Answers",
    "KnowledgeGraph",
    "Source",
    "Store",
    "TupletError",
    "__version__",
    "build",
    "info",
    "open",
    "read",
]

from tuplet.errors import TupletError

_LAZY = {
    "Answer": "tuplet.query.answer",
    "Answers": "tuplet.query.answers",
    "KnowledgeGraph": "tuplet.graph.graph",
    "Source": "tuplet.query.source",
    "Store": "tuplet.store",
}


def __getattr__(name: str) -> Any:
    # Imported when first used, so that `import tuplet` and the command line start fast.
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'tuplet' has no attribute {name!r}")


def read(source: Any, **options: Any) -> KnowledgeGraph:
    """A graph from a file, a dataset folder, a data frame, an Arrow table or tuples (`tuplet.graph.readers.read`)."""
    from tuplet.graph.readers.read import read as read_graph

    return read_graph(source, **options)


def build(source: Any, path: str | os.PathLike[str], **options: Any) -> Store:
    """A store from facts in one go: import, train, index. Options are those of `tuplet.pipeline.build`."""
    from tuplet.pipeline import build as build_store

    build_store(source, path, **options)
    return open(path)


def open(path: str | os.PathLike[str], observed: Sequence[str] | None = None) -> Store:
    """The store or graph directory at `path`, ready to be asked."""
    from tuplet.store import open_store

    return open_store(path, observed)


def info(path: str | os.PathLike[str], verify: bool = False) -> dict[str, Any]:
    """What a graph, model or store directory is."""
    from tuplet.store import info as describe

    return describe(path, verify)
