"""Stores without training: a network that knows no graph by heart reads its scores off the facts of this one.

Nothing is trained, so hiding facts is leaving them out, and the rows are what takes the time. Of few facts, as many
parts are hidden in turn as there is time for. Of many, and where there is a valid split, the valid edges are hidden.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.base import kind_of
from tuplet.predict.edges import TrainingEdges
from tuplet.predict.model_folder import PACKAGED, describe, load, located
from tuplet.progress import Report, duration
from tuplet.truth.hold_out_recipe import HoldOut, HoldOutRecipe
from tuplet.truth.learned.fit import LEAST_VALID
from tuplet.truth.learned.hold_out import hide_in_turn
from tuplet.truth.make import PredictorRecipe
from tuplet.truth.predictor_choice import model_meta

PARTS = 10  # of few facts, so many are hidden in turn at most
MOST_FACTS = 20_000  # with more, the valid edges are hidden alone
SECONDS = 30.0  # that the rows of all parts may take, unless somebody says otherwise; one part is hidden in any case
SHARE = 0.5  # of the minutes that somebody says, for the rows
_PROBES = 3  # batches for each core that are timed


@dataclass(frozen=True)
class RowWork:
    """The rows that a graph needs, and how long one takes."""

    rows: int
    seconds: float  # of one

    @staticmethod
    def of(network: Any, edges: TrainingEdges, clock: Callable[[], float] = time.monotonic) -> RowWork:
        """Count the half-links, and time some of their rows on this machine."""
        heads, relation, _ = (np.asarray(side, dtype=np.int64) for side in edges.splits["train"])
        often, bound = int(np.bincount(relation).argmax()), network.on(edges)
        some = np.resize(np.unique(heads[relation == often]), _PROBES * bound.batch * torch.get_num_threads())
        asked = torch.from_numpy(some).to(bound.device)
        bound.tails(asked, often)  # the first time kernels are compiled and the relations described
        began = clock()
        bound.tails(asked, often)
        return RowWork(edges.half_links, (clock() - began) / len(asked))

    def parts(self, seconds: float) -> int:
        """How many times all rows can be computed in this time, at least once.

        >>> [RowWork(4_000, 0.002).parts(seconds) for seconds in (1, 30, 1000)]
        [1, 3, 10]
        """
        return max(1, min(PARTS, int(seconds / max(1e-9, self.rows * self.seconds))))

    def sentence(self, parts: int = 1) -> str:
        """What is going to be done, and how long that takes.

        >>> print(RowWork(7_000, 0.01).sentence())
        nothing is trained: 7,000 rows of the packaged network, about 1 min 10 s
        >>> print(RowWork(4_000, 0.002).sentence(3))
        nothing is trained: 4,000 rows of the packaged network for each of 3 parts of the facts to hide, about 24 s
        """
        several = f" for each of {parts} parts of the facts to hide" if parts > 1 else ""
        time_taken = duration(parts * self.rows * self.seconds)
        return f"nothing is trained: {self.rows:,} rows of the packaged network{several}, about {time_taken}"


def in_turn(graph: KnowledgeGraph) -> bool:
    """Whether parts of the facts are hidden in turn: there are few, and too few of them are valid edges."""
    valid = graph.split_edges["valid"]
    return valid < LEAST_VALID and graph.split_edges["train"] + valid <= MOST_FACTS


def recipe_in_turn(
    graph: KnowledgeGraph, device: str, seed: int, minutes: float | None, report: Report, **choices: Any
) -> HoldOutRecipe:
    """The mean of what the network says while each of some tenths of the facts is hidden."""
    model = located(PACKAGED)
    network: Any = load(model, device)
    name = describe(model)["sha256"]
    parts = hide_in_turn(graph.edges("train", "valid"), seed, PARTS)
    edges = [TrainingEdges({"train": part.known}, len(graph.entities), len(graph.relations)) for part in parts]
    if edges:
        work = RowWork.of(network, edges[0])
        parts = parts[: work.parts(SECONDS if minutes is None else SHARE * 60 * minutes)]
        report("plan", 0, 0, work.sentence(len(parts)))
    hold_outs = [
        HoldOut(part, {kind_of(network): network.on(known)}, name) for part, known in zip(parts, edges, strict=False)
    ]
    return HoldOutRecipe(hold_outs, (model_meta(model, graph, False),), **choices)


def recipe_at_once(graph: KnowledgeGraph, device: str, report: Report, **choices: Any) -> PredictorRecipe:
    """What the network says while the valid edges are hidden."""
    model = located(PACKAGED)
    report("plan", 0, 0, RowWork.of(load(model, device), TrainingEdges.of(graph)).sentence())
    return PredictorRecipe(model, device=device, **choices)
