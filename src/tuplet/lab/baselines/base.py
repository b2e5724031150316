"""What all baselines have in common: they answer marginally, one score vector over all entities per free variable.

A baseline is a class with `marginals_batch`; everything else (ranking tuples, options, refusals, benchmark rows) is
written once for all of them. Its module ends with `BASELINE = …()`; `baselines/engine.py` has its engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.marginals import Scores
from tuplet.errors import BadInput, Refused
from tuplet.query.conditions import EntityCondition, Outside, Within
from tuplet.query.limits import Deadline, Limits
from tuplet.query.ranking import Clauses, QueryGraph
from tuplet.query.source import Source
from tuplet.settings import from_options

if TYPE_CHECKING:
    from tuplet.predict.embeddings import EmbeddingModel

Knobs = TypeVar("Knobs")


class Baseline(ABC, Generic[Knobs]):
    """A way to rank the entities of each free variable, the other variables existential."""

    name: ClassVar[str]
    steps: ClassVar[tuple[str, ...]]  # what it does, as `--plan` prints it
    values: ClassVar[str] = "truth values"  # what the marginals that are multiplied are: e.g. "sigmoid of the scores"
    settings: type[Knobs]  # a frozen dataclass of `tuplet.settings.knob`s: the options

    def load(self) -> None:
        """Bring in what is compiled; most have nothing to bring in."""

    def refuse(self, clause: QueryGraph) -> None:
        """Raise `Refused` for a clause that this method cannot answer, naming what it is that it cannot."""

    @abstractmethod
    def marginals_batch(
        self, queries: Sequence[Clauses], source: Source, limits: Limits, deadline: Deadline
    ) -> Sequence[Scores]:
        """For each query one score vector over all entities for each free variable [k, entities]; higher is better.

        Raises `OutOfTime` at the deadline.
        """

    def truth(self, scores: Scores) -> NDArray[np.float64]:
        """Scores as numbers in 0 … 1 that may be multiplied: a monotone map, named in `values`."""
        return scores.astype(np.float64)

    def options(self, limits: Limits) -> Knobs:
        """The options as this baseline takes them."""
        return from_options(self.settings, limits.options, f"engine {self.name!r}")


# --- what several baselines need -------------------------------------------------------------------------------------


def entity_conditions(clause: QueryGraph) -> list[EntityCondition]:
    """The conditions on single variables, which are all that a marginal engine keeps to."""
    return [condition for condition in clause.conditions if isinstance(condition, Within | Outside)]


def cycle_of(clause: QueryGraph) -> tuple[int, ...] | None:
    """The variables of one cycle in order, if edges or inequalities close one; parallel edges do not.

    >>> from tuplet.query.ranking import Edge
    >>> cycle_of(QueryGraph(("x", "y", "z"), (0,), (Edge(0, 0, 1), Edge(1, 0, 2), Edge(2, 1, 0), Edge(~5, 0, 0))))
    (0, 1, 2)
    """
    joined = [(e.head, e.tail) for e in clause.edges] + list(clause.different)
    near: dict[int, list[int]] = {v: [] for v in range(len(clause.variables))}
    for pair in dict.fromkeys((min(pair), max(pair)) for pair in joined):
        if pair[0] >= 0 and pair[0] != pair[1]:
            path = _path(near, *pair)
            if path is not None:
                return path
            near[pair[0]].append(pair[1])
            near[pair[1]].append(pair[0])
    return None


def _path(near: Mapping[int, Sequence[int]], start: int, end: int) -> tuple[int, ...] | None:
    """The way between two variables of a forest."""
    ways: list[tuple[int, ...]] = [(start,)]
    for way in ways:
        if way[-1] == end:
            return way
        ways += [(*way, v) for v in near[way[-1]] if v not in way]
    return None


def refuse_cycles(clause: QueryGraph, engine: str) -> None:
    """Raise `Refused` for a clause with a cycle, naming its variables."""
    cycle = cycle_of(clause)
    if cycle is not None:
        names = " – ".join(f"?{clause.variables[v]}" for v in (*cycle, cycle[0]))
        raise Refused(f"engine {engine!r} answers trees only; the query has the cycle {names}; try 'fit' or 'exact'")


@lru_cache(maxsize=1)
def _opened(path: str, device: str, changed: int) -> EmbeddingModel:
    from tuplet.predict.model_folder import load_embeddings

    return load_embeddings(path, device)


def predictor(path: str, device: str, source: Source, engine: str) -> EmbeddingModel:
    """The link predictor that an option names, opened once; it must be of the graph that is asked."""
    if not path:
        raise BadInput(f"engine {engine!r} needs a trained link predictor here: option model=FOLDER (tuplet train)")
    from tuplet.predict.device import pick_device

    description = Path(path) / "model.json"
    changed = description.stat().st_mtime_ns if description.exists() else 0
    model = _opened(str(path), str(pick_device(device)), changed)
    sizes = len(source.graph.entities), len(source.graph.relations)
    if (model.entities, model.relations) != sizes:
        raise BadInput(
            f"the model {path} has {model.entities:,} entities and {model.relations:,} relations, "
            f"the graph {sizes[0]:,} and {sizes[1]:,}"
        )
    return model
