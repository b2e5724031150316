"""Questions to stores by name, within the limits of a server: what HTTP routes and tools share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import product
from typing import Any

from tuplet.engines.given import judge
from tuplet.errors import BadInput, TupletError, unknown
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import Query
from tuplet.query.ask import Question, ask
from tuplet.query.contents import examples
from tuplet.query.engine import Engine
from tuplet.query.limits import DEFAULT_K, Deadline, Limits, Only
from tuplet.server.keys import KeyRefused
from tuplet.server.limits import ServerLimits, with_place
from tuplet.server.sparql_results import NO_BASE, BaseIri
from tuplet.store import Store

_FILTERS: tuple[Only | None, ...] = (None, "predicted", "observed")
_EXAMPLES = 2


def ask_all(store: Store, engines: Iterable[Engine[Any]], memory: int | None) -> None:
    """Ask some engines a few examples, with all filters."""
    truth = store.source.truth
    for engine in engines:
        engine.load(store.source)
        if truth is not None and not truth.tabulated and engine.needs_truth and not engine.looks_often:
            continue  # it would bring in whole relations, whose rows are computed one by one here
        for example, only in product(examples(store.source)[:_EXAMPLES], _FILTERS):
            with suppress(TupletError):
                ask(store.question(example["query"]), engine, judge, Limits(k=3, only=only, timeout=1.0, memory=memory))


class QueryService(ABC):
    """Stores by name, and the limits within which they answer."""

    limits: ServerLimits
    base: BaseIri = NO_BASE  # where the IRIs of names begin

    @property
    @abstractmethod
    def stores(self) -> Mapping[str, Store]:
        """The stores that the client may see."""

    def named(self, name: str | None) -> str:
        stores = self.stores
        if not stores:
            raise KeyRefused("this key opens none of the stores that are served")
        if name is None:
            return next(iter(stores))
        if name not in stores:
            raise unknown("store", str(name)[:100], stores)
        return name

    def store(self, name: str | None = None) -> Store:
        return self.stores[self.named(name)]

    def engine(self, store: Store, name: str | None, deadline: Deadline) -> Engine[Any]:
        """An engine, loaded; loading does not use up the time of the request."""
        with deadline.paused():
            return store.engine(name)

    def accept(self, query: Query, graph: KnowledgeGraph) -> Query:
        """The query with names in place of their IRIs; one that is too large for this server is refused."""
        query = self.base.query(query, graph)
        self.limits.check_query(query)
        return query

    def question(
        self,
        store: Store,
        text: str,
        grounding: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Question:
        """A query that is not too large for this server; the store keeps it with its plan."""
        if not isinstance(text, str):
            raise BadInput(f"a query is text, not {text!r}")
        self.limits.check_text(text)
        with with_place(text):
            return store.question(text, grounding, parameters=parameters, accept=self.accept)

    def settled(self, limits: Limits, question: Question, deadline: Deadline, default_k: int = DEFAULT_K) -> Limits:
        """The limits of a question, as far as this server goes; `default_k` where the query has no LIMIT either."""
        tree = question.tree
        usual = limits.usual_k if limits.guaranteed else default_k
        limits = limits.settle(min(usual, self.limits.max_k) if tree.limit is None else tree.limit, tree.offset)
        return self.limits.within(limits, deadline.seconds)
