"""How well truth values agree with held-out facts: a table by bins of truth that prints as a diagram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.graph import KnowledgeGraph
from tuplet.truth.table import VALID, TruthTable, edge_keys, forward_entries, split_keys

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


def reliability(
    truth: NDArray[np.floating],
    is_fact: NDArray[np.bool_],
    bins: Sequence[float] = BINS,
    split: str = "",
    weight: NDArray[np.floating] | None = None,
) -> Reliability:
    """Entries, facts and mean truth per bin of truth; `weight` says how many entries each stands for (1)."""
    edges = np.asarray(bins, dtype=np.float64)
    values = np.asarray(truth, dtype=np.float64)
    at = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    each = np.ones(len(values)) if weight is None else np.asarray(weight, dtype=np.float64)
    entries, facts, total = (
        np.bincount(at, weights=side, minlength=len(edges) - 1) for side in (each, each * is_fact, each * values)
    )
    mean = np.divide(total, entries, out=np.zeros(len(entries)), where=entries > 0)
    counted, right = np.rint(entries).astype(np.int64), np.rint(facts).astype(np.int64)
    return Reliability(tuple(float(b) for b in edges), counted, right, mean, split)


def table_reliability(
    graph: KnowledgeGraph, table: TruthTable, observed: Sequence[str], as_if_unknown: bool = False
) -> Reliability | None:
    """How the truth of unobserved edges agrees with held-out facts: valid if it is not observed, else test.

    If there is neither, `as_if_unknown` counts observed valid edges with the predictions that the table keeps of them:
    the predictor did not learn from them, and the calibration does not count them.
    """
    split = next((name for name in ("valid", "test") if name not in observed and len(split_keys(graph, name))), None)
    part = np.flatnonzero(~table.observed & forward_entries(table.adjacency))
    if not len(part):
        return None
    truth = table.truth[part]
    if split is None:
        kept = table.fact_prediction[(table.fact_source == VALID) & (table.fact_prediction > 0)]
        if not as_if_unknown or not len(split_keys(graph, "valid")):
            return None
        is_fact = np.arange(len(truth) + len(kept)) >= len(truth)
        return reliability(np.concatenate([truth, kept]), is_fact, split="valid")
    view, entity = table.adjacency.entry_rows()
    key = edge_keys(table.entities, entity[part], view[part] // 2, table.adjacency.neighbour[part])
    return reliability(truth, np.isin(key, split_keys(graph, split), assume_unique=True), split=split)
