"""The trained query models as baselines: `--engine betae --option model=FOLDER` (docs/explanation/baselines.md)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.marginals import Scores
from tuplet.errors import BadInput, Refused
from tuplet.lab.baselines.base import Baseline
from tuplet.lab.baselines.options import TrainedOptions
from tuplet.lab.baselines.trained.answering import by_pattern, pattern_of, scores, softmax
from tuplet.lab.baselines.trained.embedding import MODELS, QueryModel, load, walk
from tuplet.predict.device import pick_device
from tuplet.predict.model_folder import DESCRIPTION, describe
from tuplet.query.limits import Deadline, Limits
from tuplet.query.ranking import Clauses, QueryGraph
from tuplet.query.source import Source


class QueryModelBaseline(Baseline[TrainedOptions]):
    """A query model: any query graph, each free variable on its own; unions by the best of their clauses."""

    settings = TrainedOptions
    values = "softmax of the scores over all entities"

    def __init__(self, name: str, *steps: str, needs_constants: bool = True) -> None:
        self.name, self.steps = name, (*steps, "inequalities and atoms r(x, x) are not seen by the model")  # type: ignore[misc]
        self.needs_constants = needs_constants  # whether a state begins at constants

    def refuse(self, clause: QueryGraph) -> None:
        """Where states begin at constants, a variable that none reaches has no state."""
        if not self.needs_constants:
            return
        pattern = pattern_of(clause)[0]
        for variable in clause.free:
            if not walk(pattern, variable)[-1][1]:
                name = clause.variables[variable]
                raise Refused(f"engine {self.name!r} starts from constants; none reaches ?{name}; try 'exact'")

    def marginals_batch(
        self, queries: Sequence[Clauses], source: Source, limits: Limits, deadline: Deadline
    ) -> Sequence[Scores]:
        options = self.options(limits)
        device = pick_device(options.device)
        model = opened(self.name, options.model, str(device), source)
        found: dict[int, Scores] = {}
        for numbers, clauses in by_pattern(queries):
            found |= zip(numbers, scores(model, clauses, device, deadline).numpy(), strict=True)
        return [found[number] for number in range(len(queries))]

    def truth(self, scores: Scores) -> NDArray[np.float64]:
        return softmax(scores)


def opened(name: str, path: str, device: str, source: Source) -> QueryModel:
    """The model that an option names, opened once; it must be of that kind and of the graph that is asked."""
    if not path:
        raise BadInput(f"engine {name!r} needs its model: option model=FOLDER (tuplet train --model {name})")
    about = describe(path)
    if about["kind"] != name:
        raise BadInput(f"{path} is a {MODELS.get(about['kind'], about['kind'])} model, not one of engine {name!r}")
    sizes = len(source.graph.entities), len(source.graph.relations)
    if (about["entities"], about["relations"]) != sizes:
        raise BadInput(
            f"the model {path} has {about['entities']:,} entities and {about['relations']:,} relations, "
            f"the graph {sizes[0]:,} and {sizes[1]:,}"
        )
    return _opened(path, device, (Path(path) / DESCRIPTION).stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _opened(path: str, device: str, changed: int) -> QueryModel:
    return load(path, device)
