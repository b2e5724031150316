"""What a truth value promises, in one sentence, and how much more that is than chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
