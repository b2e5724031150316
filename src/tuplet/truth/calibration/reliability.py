"""How well truth values agree with held-out facts: a table by bins of truth that prints as a diagram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import among, edge_key
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.truth.edges import VALID
from tuplet.truth.table import TruthTable

SURE = 0.1  # from here on an edge is worth a look
BINS = (0.0, 0.005, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)


@dataclass(frozen=True)
class Reliability:
    """How often an unobserved edge of a given truth is a held-out fact.

    >>> r = reliability(np.array([0.1, 0.1, 0.9, 0.9]), np.array([False, False, True, False]), bins=(0, 0.5, 1))
    >>> r.share.tolist(), round(r.error, 2)
    ([0.0, 0.5], 0.25)
    """

    bins: tuple[float, ...]  # edges of the bins, ascending
    entries: NDArray[np.int64]  # [bins] edges whose truth lies in the bin
    facts: NDArray[np.int64]  # [bins] those that are held-out facts
    mean: NDArray[np.float64]  # [bins] mean truth, 0 where empty
    split: str = ""  # which edges count as facts

    @property
    def share(self) -> NDArray[np.float64]:
        """Share of facts per bin, 0 where a bin is empty."""
        return np.asarray(self.facts / np.maximum(self.entries, 1))

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance of truth and share, bins weighted by their entries."""
        total = int(self.entries.sum())
        return float((self.entries * np.abs(self.mean - self.share)).sum() / total) if total else 0.0

    def error_from(self, least: float) -> float:
        """The same among the bins that start at `least` or above: most edges have a truth near 0, and it is right."""
        above = np.asarray(self.bins[:-1]) >= least
        total = int(self.entries[above].sum())
        distance = self.entries * np.abs(self.mean - self.share)
        return float(distance[above].sum() / total) if total else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "bins": list(self.bins),
            "entries": self.entries.tolist(),
            "facts": self.facts.tolist(),
            "mean": [round(float(m), 6) for m in self.mean],
            "share": [round(float(s), 6) for s in self.share],
            "ece": round(self.error, 6),
            f"ece_from_{SURE:g}": round(self.error_from(SURE), 6),
        }

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Reliability:
        """What `as_dict` wrote."""
        return Reliability(
            tuple(values["bins"]),
            np.asarray(values["entries"], dtype=np.int64),
            np.asarray(values["facts"], dtype=np.int64),
            np.asarray(values["mean"], dtype=np.float64),
            values["split"],
        )

    def __str__(self) -> str:
        """A small diagram: `#` is the share of facts, `|` the mean truth, both on a scale from 0 to 1."""
        width = 40
        lines = [f"reliability on {self.split or 'held-out'} edges, expected calibration error {self.error:.4f}"]
        lines[0] += f" (of truth from {SURE:g} on: {self.error_from(SURE):.4f})"
        lines.append(f"{'truth':>13} {'edges':>9} {'facts':>8} {'mean':>6} {'share':>6}")
        for i, share in enumerate(self.share):
            if not self.entries[i]:
                continue
            bar = list("#" * round(share * width) + " " * (width - round(share * width)))
            bar[min(width - 1, int(self.mean[i] * width))] = "|"
            span = f"{self.bins[i]:g}–{self.bins[i + 1]:g}"
            numbers = f"{self.entries[i]:>9} {self.facts[i]:>8} {self.mean[i]:>6.3f} {share:>6.3f}"
            lines.append(f"{span:>13} {numbers} {''.join(bar)}".rstrip())
        return "\n".join(lines)


class BinCounts:
    """Edges by bins of truth, counted some at a time; `weight` says how many edges each stands for (1)."""

    def __init__(self, bins: Sequence[float] = BINS) -> None:
        self._bins = np.asarray(bins, dtype=np.float64)
        self._sums = np.zeros((3, len(self._bins) - 1))

    def add(
        self, truth: NDArray[np.floating], is_fact: NDArray[np.bool_], weight: NDArray[np.floating] | None = None
    ) -> None:
        """Count more edges."""
        values = np.asarray(truth, dtype=np.float64)
        at = np.clip(np.searchsorted(self._bins, values, side="right") - 1, 0, len(self._bins) - 2)
        each = np.ones(len(values)) if weight is None else np.asarray(weight, dtype=np.float64)
        for total, side in zip(self._sums, (each, each * is_fact, each * values), strict=True):
            total += np.bincount(at, weights=side, minlength=len(total))

    def reliability(self, split: str) -> Reliability:
        """What was counted."""
        entries, facts, total = self._sums
        mean = np.divide(total, entries, out=np.zeros(len(entries)), where=entries > 0)
        counted, right = np.rint(entries).astype(np.int64), np.rint(facts).astype(np.int64)
        return Reliability(tuple(float(b) for b in self._bins), counted, right, mean, split)


def reliability(
    truth: NDArray[np.floating],
    is_fact: NDArray[np.bool_],
    bins: Sequence[float] = BINS,
    split: str = "",
    weight: NDArray[np.floating] | None = None,
) -> Reliability:
    """Entries, facts and mean truth per bin of truth."""
    counts = BinCounts(bins)
    counts.add(truth, is_fact, weight)
    return counts.reliability(split)


def table_reliability(
    graph: KnowledgeGraph, table: TruthTable, observed: Sequence[str], as_if_unknown: bool = False
) -> Reliability | None:
    """How the truth of unobserved edges agrees with held-out facts: valid if it is not observed, else test.

    If there is neither, `as_if_unknown` counts observed valid edges with the predictions that the table keeps of them:
    the predictor did not learn from them, and the calibration does not count them.
    """
    sizes = graph.split_edges
    split = next((name for name in ("valid", "test") if name not in observed and sizes[name]), None)
    if split is None and not (as_if_unknown and sizes["valid"]):
        return None
    counts, seen = BinCounts(), 0
    for relation in range(table.relations):
        heads, tails, entries = table.adjacency.relation(relation)
        unknown = ~table.observed[entries]
        truth = table.truth[entries][unknown]
        seen += len(truth)
        if split is None:
            is_fact = np.zeros(len(truth), dtype=bool)
        else:
            key = edge_key(heads[unknown], tails[unknown], table.entities)
            is_fact = among(key, split_keys(graph, split, relation))
        counts.add(truth, is_fact)
    if not seen:
        return None
    if split is None:
        kept = table.fact_prediction[(table.fact_source == VALID) & (table.fact_prediction > 0)]
        counts.add(kept, np.ones(len(kept), dtype=bool))
    return counts.reliability(split or "valid")


def split_keys(graph: KnowledgeGraph, split: str, relation: int) -> NDArray[np.int64]:
    """The keys of the edges that a split has of a relation, ascending."""
    heads, tails, entries = graph.adjacency.relation(relation)
    mine = graph.split[entries] == SPLIT_CODE[split]
    return edge_key(heads[mine], tails[mine], len(graph.entities))
