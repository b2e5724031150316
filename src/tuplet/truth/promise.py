"""What a truth value promises, in one sentence, and how much more that is than chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuplet.graph.graph import KnowledgeGraph
from tuplet.truth.store_meta import StoreMeta

NOTIONAL = 0.05  # of the facts are taken to be missing where no split says how many


def promised(graph: KnowledgeGraph, meta: StoreMeta) -> dict[str, Any]:
    """What the truth values of a calibrated store promise; nothing of any other."""
    if not meta.calibrated:
        return {}
    return {"promise": promise(graph.split_edges, meta.observed, len(graph.entities), len(graph.relations))}


def promise(splits: Mapping[str, int], observed: Sequence[str], entities: int, relations: int) -> dict[str, Any]:
    """From the sizes of the splits: as many facts are taken to be missing as were held out.

    >>> told = promise({"train": 950, "valid": 50, "test": 0}, ("train", "valid"), entities=100, relations=2)
    >>> print(told["sentence"])
    truth 0.3: of the unstated facts that get it, 3 in 10 are missing facts, if 50 are missing as 50 were held out
    >>> told["base_rate"], told["lift_of_0.3"]
    (0.002632, 114)
    """
    known = sum(splits[split] for split in observed)
    held_out = {split: size for split, size in splits.items() if split not in observed}
    missing = sum(held_out.values()) or splits["valid"] or max(1, round(NOTIONAL * known))
    chance = missing / max(1, relations * entities**2 - known)
    sentence = "truth 0.3: of the unstated facts that get it, 3 in 10 are missing facts, "
    return {
        "sentence": sentence + f"if {missing:,} are missing as {missing:,} were held out",
        "base_rate": round(chance, 6),
        "lift_of_0.3": round(0.3 / chance),
    }
