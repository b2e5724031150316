"""What is asked: the names and stated facts of a graph, and truth values if there are any."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import AttributeWords, KnowledgeGraph
from tuplet.query.ranking import Clauses
from tuplet.query.schema import Origin
from tuplet.truth.calibration.reliability import BorneOut
from tuplet.truth.guarantees import Guarantees, base_rates, promise
from tuplet.truth.store_meta import StoreMeta
from tuplet.truth.table import Truth, TruthTable


@dataclass(frozen=True)
class Source:
    """A graph with its observed facts, and the truth of what is not stated."""

    graph: KnowledgeGraph
    splits: tuple[str, ...] | None = None  # the splits that count as observed; None: all
    truth: Truth | None = None
    origin: Origin | None = None  # what made the truth values
    stated: Adjacency | None = None  # the observed facts, where they are known without looking at splits
    guarantees: Guarantees | None = None  # what held-out queries showed, where `tuplet guarantee` was run
    borne_out: BorneOut | None = None  # how much of a predicted truth held-out facts bear out

    @property
    def calibrated(self) -> bool:
        """Whether every predicted fact passed a learned calibration."""
        return self.origin is not None and bool(self.origin.calibrated)

    @cached_property
    def facts(self) -> Adjacency:
        """The observed facts."""
        return self.graph.observed(self.splits) if self.stated is None else self.stated

    def facts_of(self, clauses: Clauses) -> Adjacency:
        """The observed facts, with the relations of a query verified: what compiled code joins."""
        self.facts.touch({e.relation for c in clauses for e in c.edges})
        return self.facts

    @cached_property
    def open_pairs(self) -> NDArray[np.int64]:
        """Of each relation the pairs of one of its heads and one of its tails that are not stated. [relations]

        Ends are counted without what was added since the last compaction: nothing is read for it.
        """
        ends = np.diff(self.facts.view_ptr)
        return np.maximum(0, ends[::2] * ends[1::2] - self.facts.relation_edges)

    @cached_property
    def base_rates(self) -> list[float]:
        """Of each relation the chance that an open pair is a missing fact; empty where truth is not calibrated."""
        if not self.calibrated or self.origin is None or self.splits is None:
            return []
        facts, calibration = self.facts.relation_edges, self.origin.calibration or {}
        rates = base_rates(self.graph.split_edges, self.splits, facts, self.open_pairs, calibration)
        return [float(rate) for rate in rates]

    def promised(self, meta: StoreMeta) -> dict[str, Any]:
        """What the truth values of a calibrated store promise; nothing of any other."""
        if not meta.calibrated:
            return {}
        pairs = int(self.open_pairs.sum())
        return {"promise": promise(self.graph.split_edges, meta.observed, pairs, meta.calibration or {})}

    @cached_property
    def attribute_words(self) -> AttributeWords:
        """The attributes of the graph, by the words that people use for them."""
        return AttributeWords(self.graph)

    @cached_property
    def prepared(self) -> dict[str, Any]:
        """What engines made of this source and use again, by their own keys."""
        return {}

    def table(self, clauses: Clauses) -> TruthTable:
        """The truth table an engine searches; of rows on demand, the relations that the query names."""
        relations: set[int] = set()
        for clause in clauses:
            for edge in clause.edges:
                relations.add(edge.relation)
        return (self.values() if self.truth is None else self.truth).table(sorted(relations))

    def values(self) -> Truth:
        """The truth values, which a plain graph does not have."""
        if self.truth is None:
            raise BadInput(
                "this engine needs a store with truth values (tuplet build, tuplet index); "
                "a plain graph is asked with engine 'crisp'"
            )
        return self.truth
