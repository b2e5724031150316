"""What a truth value promises, in one sentence, and how much more that is than chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tuplet.graph.graph import KnowledgeGraph
from tuplet.truth.store_meta import StoreMeta

NOTIONAL = 0.05  # of the facts are taken to be missing where no split says how many


def promised(graph: KnowledgeGraph, meta: StoreMeta) -> dict[str, Any]:
    """What the truth values of a calibrated store promise; nothing of any other."""
    if not meta.calibrated:
        return {}
    told = promise(graph.split_edges, meta.observed, len(graph.entities), len(graph.relations), meta.calibration or {})
    return {"promise": told}


def promise(
    splits: Mapping[str, int],
    observed: Sequence[str],
    entities: int,
    relations: int,
    calibration: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """From the sizes of the splits: as many facts are taken to be missing as were held out.

    `calibration` is what the store says of it: whether facts were hidden in turn, or the newest were.

    >>> told = promise({"train": 950, "valid": 50, "test": 0}, ("train", "valid"), entities=100, relations=2)
    >>> print(told["sentence"])
    truth 0.3: of the unstated facts that get it, 3 in 10 are missing facts, if 50 are missing as 50 were held out
    >>> sizes = {"train": 950, "valid": 50, "test": 0}, ("train", "valid"), 100, 2
    >>> print(promise(*sizes, {"hidden_facts": 804})["sentence"].split(", ", 2)[2])
    if 50 are missing (measured on 804 facts, each hidden once)
    >>> newest = {"newest": 50, "from": "2024-01-03", "to": "2024-02-12", "days": 40}
    >>> print(promise(*sizes, {"holdout": newest})["sentence"].split(", ", 1)[1])
    3 in 10 are stated within 40 days, if facts come as from 2024-01-03 to 2024-02-12
    >>> told["base_rate"], told["lift_of_0.3"]
    (0.002632, 114)
    """
    known = sum(splits[split] for split in observed)
    held_out = {split: size for split, size in splits.items() if split not in observed}
    missing = sum(held_out.values()) or splits["valid"] or max(1, round(NOTIONAL * known))
    chance = missing / max(1, relations * entities**2 - known)
    if "holdout" in calibration:
        newest = calibration["holdout"]
        come = f"stated within {newest['days']:g} days, if facts come as from {newest['from']} to {newest['to']}"
    elif "hidden_facts" in calibration:
        tried = calibration["hidden_facts"]
        come = f"missing facts, if {missing:,} are missing (measured on {tried:,} facts, each hidden once)"
    else:
        come = f"missing facts, if {missing:,} are missing as {missing:,} were held out"
    return {
        "sentence": f"truth 0.3: of the unstated facts that get it, 3 in 10 are {come}",
        "base_rate": round(chance, 6),
        "lift_of_0.3": round(0.3 / chance),
    }
