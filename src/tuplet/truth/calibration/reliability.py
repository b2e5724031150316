"""How well truth values agree with held-out facts, and the most that a kind of prediction may promise after trials.

A *kind* is a relation and a bin of promised truth. Facts were hidden; of the candidates of a kind, so many were hidden
facts. With few trials that share says little, so what counts is its upper bound: the largest share that would still
have left so few hits in one of twenty cases (Clopper and Pearson). The same is counted for all relations together, and
a prediction stays below both bounds. Where nothing was tried, nothing is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import CorruptStore
from tuplet.graph.adjacency import among, edge_key
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.truth.edges import VALID, Floats
from tuplet.truth.table import TruthTable

# Each bin is a third more likely (in odds) than the one below; those of `reliability` are too wide to bound by.
KIND_BINS = (0.0, *(1 / (1 + (4 / 3) ** -k) for k in range(-26, 17)), 1.0)
CONFIDENCE = 0.95
_SOFT = 0.98  # of its bound, above which a promise approaches it instead of being cut: so no two become one


def upper_bound(hits: float, trials: float, confidence: float = CONFIDENCE) -> float:
    """The largest chance with which so few hits in so many trials are still as likely as 1 − confidence.

    >>> round(upper_bound(0, 10), 3), round(upper_bound(3, 10), 3), upper_bound(10, 10)
    (0.259, 0.607, 1.0)
    """
    most, tried = round(hits), round(trials)
    if most >= tried:
        return 1.0
    step = np.arange(1, most + 1)
    ways = np.concatenate([[0.0], np.cumsum(np.log((tried - step + 1) / step))])  # log of "tried choose 0 … most"
    few = np.arange(most + 1)
    low, high = most / tried, 1.0
    while high - low > 1e-9 + 1e-6 * low:
        chance = (low + high) / 2
        logs = ways + few * np.log(chance) + (tried - few) * np.log1p(-chance)
        rarer = np.logaddexp.reduce(logs) < np.log1p(-confidence)
        low, high = (low, chance) if rarer else (chance, high)
    return high


@dataclass(frozen=True)
class MeasuredBounds:
    """The bound of every kind, from what was promised to candidates and which of them were hidden facts.

    >>> bounds = MeasuredBounds.from_trials(1, np.zeros(40, int), np.full(40, 0.3), np.arange(40) < 2)
    >>> bounds(np.zeros(3, int), np.array([0.3, 0.9, 0.001])).round(3).tolist()  # 2 of 40; surer; never tried
    [0.149, 0.149, 0.0]
    """

    trials: NDArray[np.int64]  # [relations + 1, bins]; the last row: all relations together
    hits: NDArray[np.int64]
    most: Floats  # [relations + 1, bins] the bounds

    @staticmethod
    def from_trials(
        relations: int,
        relation: NDArray[np.integer],
        promised: Floats,
        is_fact: NDArray[np.bool_],
        weight: Floats | None = None,
    ) -> MeasuredBounds:
        """From candidates that were judged as if unknown; `weight` says how many each stands for (1)."""
        each = np.ones(len(promised)) if weight is None else np.asarray(weight, dtype=np.float64)
        width = len(KIND_BINS) - 1
        cell = np.asarray(relation, dtype=np.int64) * width + _bin(promised)
        sums = [np.bincount(cell, side, relations * width).reshape(-1, width) for side in (each, each * is_fact)]
        trials, hits = (np.rint(np.vstack([side, side.sum(0)])).astype(np.int64) for side in sums)
        cells = zip(hits.ravel(), trials.ravel(), strict=True)
        most = np.array([upper_bound(right, tried) if tried else np.nan for right, tried in cells]).reshape(hits.shape)
        for place in range(1, width):  # what was not tried has the bound of the next bin below that was; else 0
            most[:, place] = np.where(np.isnan(most[:, place]), most[:, place - 1], most[:, place])
        return MeasuredBounds(trials, hits, np.nan_to_num(most, nan=0.0))

    def bound(self, relation: NDArray[np.integer], promised: Floats) -> Floats:
        """The bound of each promise: that of its kind; of one surer than any that was tried, of the surest tried."""
        at = _bin(promised)
        own: Floats = self.most[np.asarray(relation, dtype=np.int64), at]
        return np.asarray(np.minimum(own, self.most[-1, at]))

    def __call__(self, relation: NDArray[np.integer], promised: Floats) -> Floats:
        """The promises, lowered to their bounds; 0 where nothing was measured."""
        most = self.bound(relation, promised)
        start, room = _SOFT * most, (1 - _SOFT) * most
        above = np.maximum(promised - start, 1e-30)
        return np.where(promised > start, start + room * (above / (above + room)), promised)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> MeasuredBounds:
        """What `as_dict` wrote, as the bounds of a single relation."""
        trials, hits, most = (np.array([values[key]] * 2) for key in ("trials", "hits", "most"))
        return MeasuredBounds(trials, hits, most)

    def as_dict(self) -> dict[str, Any]:
        """For the store: what was measured of all relations together."""
        return {
            "confidence": CONFIDENCE,
            "bins": list(KIND_BINS),
            "trials": self.trials[-1].tolist(),
            "hits": self.hits[-1].tolist(),
            "most": [round(float(bound), 6) for bound in self.most[-1]],
        }


def _bin(promised: Floats) -> NDArray[np.int64]:
    return np.clip(np.searchsorted(KIND_BINS, promised, side="right") - 1, 0, len(KIND_BINS) - 2)


_FACTS = 400  # held-out facts among the surest group, and twice as many in each that follows: with fewer the bounds …
_PART = 8  # … are loose, with more the surest are too many to be sure. Where there are few facts, this part of them.


@dataclass(frozen=True)
class BorneOut:
    """The bounds of any truth, linear between those of the groups; beyond the surest group they stay the same.

    >>> sure, unsure = np.full(1000, 0.9), np.full(9000, 0.1)
    >>> label = np.concatenate([np.arange(1000) < 900, np.arange(9000) < 900])
    >>> found = BorneOut.from_trials(np.concatenate([sure, unsure]), label, np.ones(10_000), lambda chance: chance)
    >>> truth = np.array([0.0, 0.1, 0.9, 1.0])
    >>> found.least(truth).round(2).tolist(), found.most(truth).round(2).tolist()
    ([0.0, 0.09, 0.88, 0.88], [0.0, 0.11, 0.92, 1.0])
    """

    facts: int  # that were held out
    truth: Floats  # [groups + 1] rising, from 0: the mean of each group
    lower: Floats  # [groups + 1] rising
    upper: Floats  # [groups + 1] rising

    @staticmethod
    def from_trials(
        truth: Floats, is_fact: NDArray[np.bool_], weight: Floats, share: Callable[[float], float]
    ) -> BorneOut:
        """From candidates that were judged as if unknown; of those that are no facts each stands for `weight`.

        `share` is what the chance to be one of the held-out facts means: the chance to be a fact.
        """
        order = np.argsort(-truth, kind="stable")
        value, fact = truth[order].astype(np.float64), is_fact[order]
        each = np.where(fact, 1.0, weight[order])
        first = max(1.0, min(_FACTS, fact.sum() / _PART))
        group = np.log2((np.cumsum(fact) - fact) / first + 1).astype(np.int64)
        group = group[np.searchsorted(-value, -value)]  # equal truths are one kind: they belong together
        _, group = np.unique(group, return_inverse=True)
        tried = np.bincount(group)[::-1]
        facts, stand, sums = (np.bincount(group, side)[::-1] for side in (fact, each, each * value))
        # All lower bounds hold at once as often as CONFIDENCE says, and so do all upper ones: a list takes the best.
        sure = 1 - (1 - CONFIDENCE) / len(tried)
        lower, upper = [], []
        for hits, n, all_of_them in zip(facts.tolist(), tried.tolist(), stand.tolist(), strict=True):
            others = (all_of_them - hits) / max(1.0, n - hits)  # that one of those that are no facts stands for
            least, most = 1 - upper_bound(n - hits, n, sure), upper_bound(hits, n, sure)
            lower.append(share(least / (least + others * (1 - least))))
            upper.append(share(most / (most + others * (1 - most))))
        # A prediction is thought no surer than one above it, and no less sure than one below: chance among the groups
        # never helps.
        return BorneOut(
            int(is_fact.sum()),
            np.concatenate([[0.0], sums / stand]),
            np.concatenate([[0.0], np.minimum.accumulate(lower[::-1])[::-1]]),
            np.concatenate([[0.0], np.maximum.accumulate(upper)]),
        )

    def least(self, truth: Floats) -> Floats:
        """What is borne out of each truth, never more than it says."""
        return np.minimum(truth, np.interp(truth, self.truth, self.lower))

    def most(self, truth: Floats) -> Floats:
        """What each truth may be as well, never less than it says."""
        return np.maximum(truth, np.interp(truth, self.truth, self.upper))

    @property
    def surest(self) -> float:
        """What is borne out of the surest prediction."""
        return float(self.lower[-1])

    def as_dict(self) -> dict[str, Any]:
        """For the store."""
        sides = {"truth": self.truth, "least": self.lower, "most": self.upper}
        return {
            "confidence": CONFIDENCE,
            "facts": self.facts,
            **{name: np.round(side, 6).tolist() for name, side in sides.items()},
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any], where: object) -> BorneOut:
        """What `as_dict` gave; `where` is the file, for errors."""
        try:
            truth, lower, upper = (np.array(values[name], dtype=np.float64) for name in ("truth", "least", "most"))
            rise = [len(side) > 1 and bool((np.diff(side) >= 0).all()) for side in (truth, lower, upper)]
            if not (all(rise) and len(truth) == len(lower) == len(upper)):
                raise ValueError("truth, least and most do not rise together")
            return BorneOut(int(values["facts"]), truth, lower, upper)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptStore(f"{where}: borne_out is not what held-out facts bear out: {error}") from None


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
        return self.error_from(-np.inf)

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
