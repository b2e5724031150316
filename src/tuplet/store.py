"""What users hold in their hands: a store that answers queries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tuplet.engine.answers import Answers
from tuplet.engine.ask import Source, ask, plan_text
from tuplet.graph.directory import verify
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import Query


class Store:
    """A knowledge graph, with truth values if it has any, that can be asked.

    `tuplet.open(path)` makes one from a directory, `Store(Source(graph))` from a graph in memory.
    """

    def __init__(self, source: Source, path: Path | None = None) -> None:
        self.source, self.path = source, path

    @property
    def graph(self) -> KnowledgeGraph:
        """The graph with its names."""
        return self.source.graph

    @property
    def default_engine(self) -> str:
        """The best engine for what is here: facts alone are joined, truth values are searched."""
        return "crisp" if self.source.truth is None else "exact"

    def ask(
        self,
        query: str | Query,
        k: int | Literal["all"] | None = None,
        engine: str | None = None,
        logic: str = "product",
        timeout: float | None = None,
        only: str | None = None,
        grounding: Mapping[str, Any] | None = None,
    ) -> Answers:
        """The ranked answers of a query; `k` overrides its LIMIT, and without either there are 10."""
        return ask(
            self.source,
            query,
            k=k,
            engine=engine or self.default_engine,
            logic=logic,
            timeout=timeout,
            only=only,
            grounding=grounding,
        )

    def ask_many(
        self, queries: Sequence[str | Query], k: int | Literal["all"] | None = None, **options: Any
    ) -> list[Answers]:
        """The answers of several queries, in their order."""
        return [self.ask(query, k, **options) for query in queries]

    def plan(self, query: str | Query, engine: str | None = None, grounding: Mapping[str, Any] | None = None) -> str:
        """How a query would be answered: order, bounds, estimated cost."""
        return plan_text(self.source, query, engine=engine or self.default_engine, grounding=grounding)

    def info(self) -> dict[str, Any]:
        """Sizes, splits, hashes."""
        return {"kind": "graph", **self.graph.info()}

    def __repr__(self) -> str:
        graph = self.graph
        return f"<Store of {len(graph.entities):,} entities, {len(graph.relations):,} relations>"


def open_store(path: str | os.PathLike[str], observed: Sequence[str] | None = None) -> Store:
    """The store or graph in a directory; `observed` names the splits that count as facts (graphs only)."""
    graph = KnowledgeGraph.open(path)
    return Store(Source(graph, tuple(observed) if observed is not None else None), Path(path))


def info(path: str | os.PathLike[str], verify_all: bool = False) -> dict[str, Any]:
    """What the directory is: kind, sizes, splits, hashes."""
    if verify_all:
        verify(path)
    return open_store(path).info()
