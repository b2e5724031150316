"""What all baselines have in common: they answer marginally, one score vector over all entities per free variable.

A baseline is a class with `marginals`; everything else (ranking tuples, options, refusals, benchmark rows) is written
once for all of them. Its module ends with `BASELINE = …()`, and its name is listed in `tuplet.engine.engines`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.config import check
from tuplet.engine.engines import Limits, Option, Source
from tuplet.engine.ns3.search import OutOfTime
from tuplet.engine.products import LISTED, Members, top_products
from tuplet.engine.ranking import Clauses, Ranking
from tuplet.errors import BadInput, Refused, nearest
from tuplet.lang.query_graph import QueryGraph

if TYPE_CHECKING:
    from tuplet.predict.models import EmbeddingModel

Scores: TypeAlias = NDArray[np.floating[Any]]  # [k, entities], higher is better, float32 or float64
Settings = TypeVar("Settings")


class Baseline(ABC, Generic[Settings]):
    """A way to rank the entities of each free variable, the other variables existential."""

    name: ClassVar[str]
    steps: ClassVar[tuple[str, ...]]  # what it does, as `--plan` prints it
    values: ClassVar[str] = "truth values"  # what the marginals that are multiplied are: e.g. "sigmoid of the scores"
    settings: type[Settings]  # a frozen dataclass of `tuplet.config.knob`s: the options

    def load(self) -> None:
        """Bring in what is compiled; most have nothing to bring in."""

    def refuse(self, clause: QueryGraph) -> None:
        """Raise `Refused` for a clause that this method cannot answer, naming what it is that it cannot."""

    @abstractmethod
    def marginals(self, clauses: Clauses, source: Source, limits: Limits) -> Scores:
        """One score vector over all entities for each free variable [k, entities]; higher is better."""

    def marginals_batch(self, queries: Sequence[Clauses], source: Source, limits: Limits) -> Sequence[Scores]:
        """The same for many queries of one shape; one by one unless a baseline can do better."""
        return [self.marginals(clauses, source, limits) for clauses in queries]

    def truth(self, scores: Scores) -> NDArray[np.float64]:
        """Scores as numbers in 0 … 1 that may be multiplied: a monotone map, named in `values`."""
        return scores.astype(np.float64)

    def options(self, limits: Limits) -> Settings:
        """The options as this baseline takes them."""
        return parsed(self.settings, limits.options, self.name)


# --- from marginals to an engine -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Steps:
    """A plan of fixed lines."""

    lines: tuple[str, ...]

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """The lines."""
        return "\n".join(self.lines)


@dataclass(frozen=True)
class MarginalEngine:
    """A baseline as an engine: tuples are ranked by the product (godel: the minimum) of their members' marginals."""

    baseline: Baseline[Any]

    def settings(self, options: Mapping[str, Option]) -> Any:
        """The options, checked."""
        return parsed(self.baseline.settings, options, self.baseline.name)

    def load(self) -> None:
        self.baseline.load()

    def plan(self, clauses: Clauses, source: Source) -> Steps:
        for clause in clauses:
            self.baseline.refuse(clause)
        free = [f"?{clauses[0].variables[v]}" for v in clauses[0].free]
        lines = [*self.baseline.steps, *(f"marginal: every entity for {name}, the others existential" for name in free)]
        if len(free) > 1:
            lines.append(f"rank tuples by the product of the marginals of their members ({self.baseline.values})")
        return Steps(tuple(lines))

    def vectors(self, clauses: Clauses, source: Source, limits: Limits) -> NDArray[np.float64]:
        """The marginals as numbers that may be multiplied [k, entities]."""
        for clause in clauses:
            self.baseline.refuse(clause)
        return self.baseline.truth(self.baseline.marginals(clauses, source, limits))

    def run(self, clauses: Clauses, source: Source, limits: Limits) -> Ranking:
        """The best tuples by product; never exact, since the members of a tuple need not go together."""
        from tuplet.engine.ns3.run import explain_tuples, stopped

        start = time.monotonic()
        table = source.table(clauses, self.baseline.name)  # for the witnesses, also of baselines that do not search it
        try:
            vectors = self.vectors(clauses, source, limits)
            members = []
            for vector in vectors:
                entities = np.flatnonzero(vector > 0)
                members.append(Members(torch.as_tensor(entities), torch.as_tensor(vector[entities])))
            facts = source.facts if limits.only else None
            count = LISTED if limits.k is None else limits.k
            found, value = top_products(members, count, limits.logic, clauses, limits.only, facts)
            tuples = found.numpy().astype(np.int32)
            left = None if limits.timeout is None else limits.timeout - (time.monotonic() - start)
            assignments = explain_tuples(clauses, table, tuples, limits.logic, left)
        except OutOfTime:
            return stopped(None, clauses, f"the timeout of {limits.timeout:g} s")
        return Ranking(tuples, value.numpy(), assignments, exact=False, bound=1.0, pruned=self.note(limits))

    def note(self, limits: Limits) -> str:
        """What every list of this engine says of itself."""
        how = "product" if limits.logic.name == "product" else "minimum"
        return f"truth is the {how} of marginals ({self.baseline.values}), and this is not an exact engine"

    def score(self, clauses: Clauses, source: Source, tuples: NDArray[np.int32], limits: Limits) -> NDArray[np.float64]:
        """The product of the marginals of given tuples [n]."""
        vectors = self.vectors(clauses, source, limits)
        return limits.logic.all(np.stack([v[column] for v, column in zip(vectors, tuples.T, strict=True)], axis=1))


# --- options ---------------------------------------------------------------------------------------------------------


def parsed(kind: type[Settings], given: Mapping[str, Option], engine: str) -> Settings:
    """The options of an engine from names and values, which may be text (`--option most=10`).

    >>> from tuplet.config import knob
    >>> @dataclass(frozen=True)
    ... class Some:
    ...     most: int | None = knob(10, "candidates")
    >>> parsed(Some, {"most": "3"}, "fit"), parsed(Some, {"most": "all"}, "fit")
    (Some(most=3), Some(most=None))
    >>> parsed(Some, {"mots": 3}, "fit")
    Traceback (most recent call last):
    tuplet.errors.BadInput: engine 'fit' has no option 'mots'; did you mean 'most'?
    """
    known = {f.name: str(f.type) for f in fields(kind)}  # type: ignore[arg-type]
    for key in given:
        if key not in known:
            close = nearest(key, known) or list(known)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else "; it has none"
            raise BadInput(f"engine {engine!r} has no option {key!r}{hint}")
    settings = replace(kind(), **{key: _value(key, known[key], value) for key, value in given.items()})  # type: ignore[type-var]
    check(settings)
    return settings


def _value(key: str, wanted: str, given: Option) -> Option | None:
    if wanted.endswith("| None") and given in ("all", None):
        return None
    if wanted == "str":
        return str(given)
    kind, words = (int, "a whole number") if wanted.startswith("int") else (float, "a number")
    try:
        if isinstance(given, bool) or (kind is int and isinstance(given, float)):
            raise ValueError
        return kind(given)
    except (TypeError, ValueError):
        raise BadInput(
            f"option {key!r} takes {words}{' or all' if wanted.endswith('| None') else ''}, not {given!r}"
        ) from None


# --- what several baselines need -------------------------------------------------------------------------------------


def cycle_of(clause: QueryGraph) -> tuple[int, ...] | None:
    """The variables of one cycle in order, if edges or inequalities close one; parallel edges do not.

    >>> from tuplet.lang.query_graph import Edge
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
    from tuplet.predict.files import load

    return load(path, device)


def predictor(path: str, device: str, source: Source, engine: str) -> EmbeddingModel:
    """The link predictor that an option names, opened once; it must be of the graph that is asked."""
    if not path:
        raise BadInput(f"engine {engine!r} needs a trained link predictor here: --option model=FOLDER (tuplet train)")
    from tuplet.predict.train import pick_device

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
