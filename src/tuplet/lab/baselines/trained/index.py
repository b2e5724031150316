"""A neural index for NS3, after NLISA: a query model says which entities of a variable are worth searching.

The model sees the whole query graph and is asked for one variable at a time, existential ones too, the others
existential; the B entities that it scores highest are kept, whether or not the truth table can make them true.
Constants and atoms are all it reads: inequalities, conditions and atoms r(x, x) are the search's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tuplet.engines.ns3.batch import ClauseBatch, Term
from tuplet.engines.ns3.tensors import TensorTable
from tuplet.errors import BadInput, Refused
from tuplet.lab.baselines.trained.answering import Ground, scores
from tuplet.lab.baselines.trained.baseline import opened
from tuplet.lab.baselines.trained.embedding import Link, Pattern, QueryEmbedding, QueryModel, walk
from tuplet.predict.model_folder import describe
from tuplet.query.limits import NO_DEADLINE, Deadline
from tuplet.query.source import Source


@dataclass(frozen=True)
class NeuralIndex:
    """The best entities of a variable by a query model's scores."""

    model: QueryModel
    relations: Tensor  # the relation that each number of the truth table stands for
    device: torch.device
    deadline: Deadline = NO_DEADLINE

    @staticmethod
    def of(path: str, source: Source, table: TensorTable, deadline: Deadline = NO_DEADLINE) -> NeuralIndex:
        """The index by the model in a folder, for queries on a truth table."""
        if not path:
            raise BadInput("index=neural needs a query model: option model=FOLDER (tuplet train --model lmpnn)")
        model = opened(describe(path)["kind"], path, str(table.device), source)
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
