"""Scores of held-out answers, shape by shape: from which level on a set holds a true tuple as often as it promises.

Each held-out query of a shape has hidden answers, and each of those a score: how much of the best truth around it it
has (`tuplet.query.guarantees`), 0 where the truth table does not reach it. A set that keeps all scores of at least
`level` misses a share of a query's hidden answers; on the average of queries this share may be 1 - confidence at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import CorruptStore
from tuplet.graph.arrays import open_directory, write_directory

PART = "guarantees"  # of a store: the folder that they are in
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ShapeScores:
    """What was held out of one shape: a score for each hidden answer, and the share it has in its query."""

    shape: str
    family: str
    name: str  # what people call it
    queries: int
    scores: Floats  # [m]
    shares: Floats  # [m] those of one query sum to 1

    def level(self, confidence: float) -> float | None:
        """The highest level of which the next query misses 1 - confidence of its answers at most, on average.

        The next query may be worse than all that were seen: it counts as one that misses everything. So with n queries
        the promise holds exactly, whatever the scores mean, if query n + 1 was drawn like the others. None if no level
        above 0 will do: then only the set of all tuples keeps the promise.

        >>> nine = ShapeScores("", "", "", 9, np.arange(1, 10) / 10, np.ones(9))
        >>> nine.level(0.8), nine.level(0.9), nine.level(0.95)
        (0.2, 0.1, None)
        """
        order = np.argsort(self.scores, kind="stable")
        scores, missed = self.scores[order], np.cumsum(self.shares[order])
        # A set of level x misses what scores less than x.
        below = np.concatenate([[0.0], missed])[np.searchsorted(scores, scores, side="left")]
        allowed = (1 - confidence) * (self.queries + 1) - 1
        kept = np.flatnonzero((below <= allowed + 1e-9) & (scores > 0))
        return float(scores[kept[-1]]) if len(kept) and allowed >= -1e-9 else None

    def drop_unreached(self) -> ShapeScores:
        """The same without the answers that have no truth: what can be promised of tuples that the table reaches.

        >>> two = ShapeScores("", "", "", 2, np.array([0.0, 0.4, 0.0]), np.array([0.5, 0.5, 1.0])).drop_unreached()
        >>> two.queries, two.scores.tolist(), two.shares.tolist()
        (1, [0.4], [1.0])
        """
        query = np.floor(np.cumsum(self.shares) - self.shares / 2).astype(int)  # answers of a query follow each other
        kept = self.scores > 0
        number = np.bincount(query[kept], minlength=self.queries)
        shares = 1 / number[query[kept]]
        return replace(self, queries=int(np.count_nonzero(number)), scores=self.scores[kept], shares=shares)

    @property
    def reach(self) -> float:
        """The share of hidden answers that have any truth: no smaller set than all tuples promises more."""
        return float(self.shares[self.scores > 0].sum() / max(1, self.queries))


@dataclass(frozen=True)
class Guarantees:
    """The held-out scores of all shapes that were measured, and how they came to be."""

    shapes: Mapping[str, ShapeScores]
    about: Mapping[str, Any]  # the digest of the queries, the splits that were known and hidden

    @staticmethod
    def from_shapes(shapes: Iterable[ShapeScores], about: Mapping[str, Any]) -> Guarantees:
        return Guarantees({one.shape: one for one in shapes}, about)

    def family(self, family: str) -> list[ShapeScores]:
        return [one for one in self.shapes.values() if one.family == family]

    @staticmethod
    def open(path: Path, folders: Mapping[str, str]) -> Guarantees | None:
        """Those of a store, if `tuplet guarantee` was run."""
        if PART not in folders:
            return None
        opened = open_directory(path / folders[PART], PART)
        try:
            ends, scores, shares = (np.asarray(opened.arrays[name]) for name in ("ends", "scores", "shares"))
            spans = [slice(int(a), int(b)) for a, b in pairwise(ends)]
            shapes = [
                ShapeScores(**one, scores=scores[span], shares=shares[span])
                for one, span in zip(opened.meta["shapes"], spans, strict=True)
            ]
            return Guarantees.from_shapes(shapes, opened.meta["about"])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptStore(f"{path / folders[PART]}: not the scores of held-out queries: {error}") from None

    def save(self, folder: Path) -> str:
        """Write a folder of the store; returns its content hash."""
        held, none = list(self.shapes.values()), [np.zeros(0)]
        arrays = {
            "ends": np.cumsum([0, *(len(one.scores) for one in held)]).astype(np.int64),
            "scores": np.concatenate(none + [one.scores for one in held]),
            "shares": np.concatenate(none + [one.shares for one in held]),
        }
        named = [{key: getattr(one, key) for key in ("shape", "family", "name", "queries")} for one in held]
        return write_directory(folder, PART, arrays, {"shapes": named, "about": dict(self.about)})


def fewest(confidence: float) -> int:
    """How many queries of a shape a promise needs at least.

    >>> fewest(0.9), fewest(0.95)
    (9, 19)
    """
    return math.ceil(1 / (1 - confidence) - 1 - 1e-9)


NOTIONAL = 0.05  # of the facts are taken to be missing where no split says how many


def promise(
    splits: Mapping[str, int],
    observed: Sequence[str],
    open_pairs: int,
    calibration: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """From the sizes of the splits: as many facts are taken to be missing as were held out.

    `open_pairs` of a head and a tail of the same relation are not stated; chance would find the missing facts among
    them. `calibration` is what the store says of it: whether facts were hidden in turn, or the newest were.

    >>> told = promise({"train": 950, "valid": 50, "test": 0}, ("train", "valid"), open_pairs=19_000)
    >>> print(told["sentence"])
    truth 0.3: of the unstated facts that get it, 3 in 10 are missing facts, if 50 are missing as 50 were held out
    >>> sizes = {"train": 950, "valid": 50, "test": 0}, ("train", "valid"), 19_000
    >>> print(promise(*sizes, {"hidden_facts": 804})["sentence"].split(", ", 2)[2])
    if 50 are missing (measured on 804 facts that were hidden in turn)
    >>> newest = {"newest": 50, "from": "2024-01-03", "to": "2024-02-12", "days": 20, "windows": 2}
    >>> by_date = promise(*sizes, {"holdout": newest, "about": {"valid_edges": 38}})
    >>> print(by_date["sentence"].split(", ", 1)[1])
    3 in 10 are stated within 20 days, if facts come as from 2024-01-03 to 2024-02-12
    >>> told["base_rate"], told["lift_of_0.3"], by_date["base_rate"]
    (0.002632, 114, 0.001)
    """
    missing = _missing(splits, observed, calibration)
    chance = min(1.0, missing / max(1, open_pairs))
    if "holdout" in calibration:
        newest = calibration["holdout"]
        come = f"stated within {newest['days']:g} days, if facts come as from {newest['from']} to {newest['to']}"
    elif "hidden_facts" in calibration:
        tried = calibration["hidden_facts"]
        come = f"missing facts, if {missing:,} are missing (measured on {tried:,} facts that were hidden in turn)"
    else:
        come = f"missing facts, if {missing:,} are missing as {missing:,} were held out"
    return {
        "sentence": f"truth 0.3: of the unstated facts that get it, 3 in 10 are {come}",
        "base_rate": round(chance, 6),
        "lift_of_0.3": round(0.3 / chance),
    }


def base_rates(
    splits: Mapping[str, int],
    observed: Sequence[str],
    facts: NDArray[np.integer],
    open_pairs: NDArray[np.integer],
    calibration: Mapping[str, Any] = MappingProxyType({}),
) -> NDArray[np.float64]:
    """Of each relation the chance that one of its open pairs is one of its missing facts. [relations]

    Every relation is taken to miss the same share of the facts that it has.

    >>> splits = {"train": 900, "valid": 100, "test": 0}
    >>> base_rates(splits, ("train", "valid"), np.array([1000, 0]), np.array([9000, 0]))
    array([0.01111111, 0.        ])
    """
    missing = _missing(splits, observed, calibration) * facts / max(1, int(facts.sum()))
    rates: NDArray[np.float64] = np.minimum(1.0, missing / np.maximum(1, open_pairs))
    return rates


def _missing(splits: Mapping[str, int], observed: Sequence[str], calibration: Mapping[str, Any]) -> int:
    """How many facts are taken to be missing; by date, to come in a window between entities that are known."""
    if "holdout" in calibration:
        return max(1, int(calibration["about"]["valid_edges"]) // int(calibration["holdout"].get("windows", 1)))
    held_out = sum(size for split, size in splits.items() if split not in observed)
    known = sum(splits[split] for split in observed)
    return held_out or splits["valid"] or max(1, round(NOTIONAL * known))
