"""Query models asked for any query graph: one score for every entity and free variable, many queries at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuplet.engines.marginals import Scores
from tuplet.engines.ns3.batch import ClauseBatch, Term
from tuplet.engines.ns3.tensors import TensorTable
from tuplet.errors import BadInput, Refused
from tuplet.lab.baselines.embedding import Link, Pattern, QueryEmbedding, QueryModel, pattern_of, walk
from tuplet.lab.baselines.engine import TrainedOptions, refuse_other_sizes
from tuplet.lab.baselines.models import MODELS, load
from tuplet.predict.device import pick_device
from tuplet.predict.model_folder import DESCRIPTION, describe
from tuplet.query.limits import NO_DEADLINE, Deadline
from tuplet.query.ranking import Clauses, QueryGraph
from tuplet.query.source import Source


@dataclass(frozen=True)
class Ground:
    """Many queries of one clause pattern."""

    pattern: Pattern
    free: tuple[int, ...]  # the variables asked for
    constants: Tensor  # [n, ·]
    views: Tensor  # [n, edges]

    def part(self, rows: slice, device: torch.device) -> Ground:
        """Some of the queries, elsewhere."""
        return Ground(self.pattern, self.free, self.constants[rows].to(device), self.views[rows].to(device))


def by_pattern(queries: Sequence[Sequence[QueryGraph]]) -> list[tuple[list[int], list[Ground]]]:
    """Queries, each some clauses, in groups that differ in constants and relations only: (which queries, clauses)."""
    groups: dict[object, list[int]] = {}
    made = [[pattern_of(clause) for clause in clauses] for clauses in queries]
    for number, clauses in enumerate(queries):
        key = tuple((part[0], clause.free) for part, clause in zip(made[number], clauses, strict=True))
        groups.setdefault(key, []).append(number)
    result = []
    for numbers in groups.values():
        ground = []
        for place, clause in enumerate(queries[numbers[0]]):
            pattern = made[numbers[0]][place][0]
            constants, views = (torch.tensor([made[n][place][i] for n in numbers], dtype=torch.int64) for i in (1, 2))
            ground.append(Ground(pattern, clause.free, constants.view(len(numbers), -1), views))
        result.append((numbers, ground))
    return result


@torch.inference_mode()
def scores(
    model: QueryModel,
    clauses: Sequence[Ground],
    device: torch.device,
    deadline: Deadline = NO_DEADLINE,
    block: int | None = None,
) -> Tensor:
    """Logits of every entity for each free variable of each query: [n, k, entities], on the CPU.

    Each free variable is asked for on its own, the others existential. A union takes the best of its clauses.
    """
    count, k = len(clauses[0].views), len(clauses[0].free)
    # Queries at a time: few between two looks at a deadline, where there is one.
    cells = 29 if device.type == "cuda" else 24 if deadline.seconds is None else 18
    block = block or max(1, min(1024, (1 << cells) // model.entity_count))
    parts = []
    for begin in range(0, count, block):
        rows = [clause.part(slice(begin, begin + block), device) for clause in clauses]
        per_variable = []
        for j in range(k):
            best: Tensor | None = None
            for g in rows:
                deadline.check()
                found = model.logits(model.embed(g.pattern, g.free[j], g.constants, g.views))
                best = found if best is None else torch.maximum(best, found)
            assert best is not None  # a query has a clause
            per_variable.append(best.float().cpu())
        parts.append(torch.stack(per_variable, 1))
    return torch.cat(parts)


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Logits [..., entities] as numbers that may be multiplied: each entity's share among all.

    >>> softmax(np.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    shifted = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    share: NDArray[np.float64] = shifted / shifted.sum(-1, keepdims=True)
    return share


def refuse_unreached(name: str, clause: QueryGraph) -> None:
    """Raise `Refused` where states begin at constants and none reaches a variable that is asked for."""
    pattern = pattern_of(clause)[0]
    for variable in clause.free if MODELS[name].needs_constants else ():
        if not walk(pattern, variable)[-1][1]:
            missed = clause.variables[variable]
            raise Refused(f"engine {name!r} starts from constants; none reaches ?{missed}; try 'exact'")


def marginals(
    name: str, queries: Sequence[Clauses], source: Source, options: TrainedOptions, deadline: Deadline
) -> list[Scores]:
    """The scores of a query model for each query: every entity for each free variable [k, entities]."""
    device = pick_device(options.device)
    model = open_model(name, options.model, str(device), source)
    found: dict[int, Scores] = {}
    for numbers, clauses in by_pattern(queries):
        found |= zip(numbers, scores(model, clauses, device, deadline).numpy(), strict=True)
    return [found[number] for number in range(len(queries))]


def open_model(name: str, path: str, device: str, source: Source) -> QueryModel:
    """The model that an option names, opened once; it must be of that kind and of the graph that is asked."""
    if not path:
        raise BadInput(f"engine {name!r} needs its model: option model=FOLDER (tuplet train --model {name})")
    about = describe(path)
    if about["kind"] != name:
        kind = MODELS[about["kind"]].__name__ if about["kind"] in MODELS else about["kind"]
        raise BadInput(f"{path} is a {kind} model, not one of engine {name!r}")
    refuse_other_sizes(path, about["entities"], about["relations"], source)
    return _load_model(path, device, (Path(path) / DESCRIPTION).stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _load_model(path: str, device: str, changed: int) -> QueryModel:
    return load(path, device)


@dataclass(frozen=True)
class NeuralIndex:
    """A neural index for NS3, after NLISA: a query model says which entities of a variable are worth searching.

    The model sees the whole query graph and is asked for one variable at a time, existential ones too, the others
    existential; the B entities that it scores highest are kept, whether or not the truth table can make them true.
    Constants and atoms are all it reads: inequalities, conditions and atoms r(x, x) are the search's.
    """

    model: QueryModel
    relations: Tensor  # the relation that each number of the truth table stands for
    device: torch.device
    deadline: Deadline = NO_DEADLINE

    @staticmethod
    def from_folder(path: str, source: Source, table: TensorTable, deadline: Deadline = NO_DEADLINE) -> NeuralIndex:
        """The index by the model in a folder, for queries on a truth table."""
        if not path:
            raise BadInput("index=neural needs a query model: option model=FOLDER (tuplet train --model lmpnn)")
        model = open_model(describe(path)["kind"], path, str(table.device), source)
        return NeuralIndex(model, (table.number >= 0).nonzero().view(-1), table.device, deadline)

    def __call__(self, clause: ClauseBatch, variable: int, most: int) -> Tensor:
        ground = self.ground(clause, variable)
        if isinstance(self.model, QueryEmbedding) and not walk(ground.pattern, variable)[-1][1]:
            name = clause.shape.variables[variable]
            raise Refused(f"{self.model.kind} starts from constants, and none reaches ?{name}; try a model lmpnn")
        found = scores(self.model, [ground], self.device, self.deadline)[:, 0].to(self.device)
        best = found.topk(min(most, found.shape[1]), dim=1).indices
        return torch.zeros_like(found, dtype=torch.bool).scatter_(1, best, True)

    def ground(self, clause: ClauseBatch, variable: int) -> Ground:
        """The clause as query models read it, asked for one variable."""
        constants: list[Tensor] = []

        def node(end: Term) -> int:
            if isinstance(end, int):
                return end
            constants.append(end)
            return ~(len(constants) - 1)

        atoms = [literal for literal in clause.literals if literal.view is not None]
        links = tuple(Link(node(atom.head), node(atom.tail), atom.negated) for atom in atoms)
        views = [2 * self.relations[atom.view >> 1] + (atom.view & 1) for atom in atoms if atom.view is not None]
        return Ground(
            Pattern(len(clause.shape.variables), links),
            (variable,),
            torch.stack(constants, 1) if constants else torch.zeros((clause.queries, 0), dtype=torch.int64),
            torch.stack(views, 1),
        )
