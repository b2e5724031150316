"""A graph that can be asked, without a store around it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Unpack

from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import Query
from tuplet.query.answers import Answers
from tuplet.query.limits import LimitFields, Limits
from tuplet.query.source import Source
from tuplet.settings import keywords
from tuplet.store import Store

if TYPE_CHECKING:
    import altair

    from tuplet.export.export import ExportReport


class Graph(KnowledgeGraph):
    """A knowledge graph that can be asked: what its facts say, and nothing else."""

    @staticmethod
    def made(graph: KnowledgeGraph) -> Graph:
        """The same graph, ready to be asked."""
        return Graph(**{f.name: getattr(graph, f.name) for f in fields(graph)})

    def __repr__(self) -> str:
        return super().__repr__().replace("KnowledgeGraph", "Graph", 1)

    @keywords(Limits)
    def ask(
        self,
        query: str | Query,
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **fields: Unpack[LimitFields],
    ) -> Answers:
        """The answers that the facts imply. Further keywords are the fields of `Limits`: k, timeout, …"""
        return Store(Source(self)).ask(query, engine, limits, grounding, parameters, **fields)

    def export(self, path: str | os.PathLike[str], force: bool = False) -> ExportReport:
        """Write facts, labels and attributes to a file: .nt, .ttl, .parquet, .csv or .graphml."""
        return Store(Source(self)).export(path, force=force)

    def plot_query(self, query: str | Query) -> altair.HConcatChart:
        """The query as a graph of what is asked for, what may be anything, and what is given (extra `plots`)."""
        return Store(Source(self)).plot_query(query)

    def _repr_html_(self) -> str:
        return Store(Source(self))._repr_html_()
