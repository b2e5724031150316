"""Training in several processes: each owns some rows of the entity table, and all take every step together.

A step's rows are brought together, each process scores its share of the batch against all of them, and the sum of the
gradients goes back to the owners of the rows. So a step is that of one process, but for the order in which numbers are
added up. The leader also has the whole table in the memory of its machine, to measure, to keep and to continue.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor

from tuplet.errors import BadInput
from tuplet.predict.config import TrainConfig
from tuplet.predict.edges import TrainingEdges
from tuplet.predict.link_task import LinkTask
from tuplet.predict.loss import sampled_objective
from tuplet.predict.optimizers import Adagrad
from tuplet.predict.process_group import Command, ProcessGroup
from tuplet.predict.sampling import EntitySampler, update_rows
from tuplet.predict.training import Position


class ShardedLinkTask(LinkTask):
    """A link predictor whose entity table lies in several processes."""

    def __init__(self, edges: TrainingEdges, config: TrainConfig, group: ProcessGroup) -> None:
        if not config.negatives:
            raise BadInput("several processes share a sampled softmax: give negatives, such as 10,000")
        super().__init__(edges, config, group.device)
        self.group = group
        bounds = group.bounds(edges.entities)
        self.bounds = torch.tensor(bounds, device=group.device)
        self.first, self.end = bounds[group.rank], bounds[group.rank + 1]

    def prepare(self) -> None:
        """The leader makes the whole model and the others take their rows."""
        config, group = self.config, self.group
        if group.leads:
            super().prepare()
            group.say(Command.SPREAD)
        else:
            self.triples = self.reciprocal_edges()
            self.sampler = EntitySampler(self.triples, self.edges.entities, config.negatives)
        shape = self.end - self.first, config.rank * self.kind.entity_parts
        self.rows = torch.empty(shape, device=group.device)
        width = 2 * self.edges.relations, config.rank * self.kind.relation_parts
        relation = torch.empty(width, device=group.device, requires_grad=True)
        self.part = self.kind(self.rows, relation, config.norm)
        self.steps_of = Adagrad([self.rows, relation], lr=config.learning_rate)
        if group.leads:
            self._move(spread=True)

    @property
    def tables_on(self) -> torch.device:
        """The whole tables lie in the memory of the leader's machine, not on its GPU."""
        return torch.device("cpu")

    def measure(self) -> tuple[float, Mapping[str, float]] | None:
        self.parameters()
        return super().measure()

    def restored(self) -> None:
        """The tables of the leader are others now: those of a checkpoint."""
        self.group.say(Command.SPREAD)
        self._move(spread=True)

    def parameters(self) -> Mapping[str, Tensor]:
        """The tables of the leader, brought up to date."""
        self.group.say(Command.COLLECT)
        self._move(spread=False)
        return super().parameters()

    def _move(self, spread: bool) -> None:
        """Rows and the sums of their squared gradients, between the leader and their owners."""
        group, leads = self.group, self.group.leads
        pairs = [(self.rows, "entity"), (self.part.relation, "relation")]
        for mine, name in pairs:
            table = getattr(self.model, name) if leads else None
            state = self.optimizer.state[table]["sum"] if table is not None else None
            for part, whole in ((mine.data, table), (self.steps_of.state[mine]["sum"], state)):
                whole = None if whole is None else whole.data
                if name == "entity":
                    (group.spread if spread else group.collect)(part, whole)
                elif spread:  # of the relations everybody has all
                    if whole is not None:
                        part.copy_(whole)
                    else:
                        part.zero_()
                    group.summed(part)
                elif whole is not None:
                    whole.copy_(part)

    def step(self, position: Position) -> tuple[Tensor, int]:
        """One step of all processes."""
        self.group.say(Command.STEP, position.step)
        return self._take(position.step)

    def _take(self, number: int) -> tuple[Tensor, int]:
        config, group, sampler = self.config, self.group, self.sampler
        assert sampler is not None
        batch, within = self.batch_of(number)
        drawn = sampler.draw(batch, within)
        cuts = torch.searchsorted(drawn.rows, self.bounds).tolist()
        mine = slice(cuts[group.rank], cuts[group.rank + 1])
        owned = drawn.rows[mine] - self.first
        values = self.rows.index_select(0, owned)
        entity = group.together(values, [end - start for start, end in pairwise(cuts)])
        entity.requires_grad_(True)
        share = batch[group.rank :: group.size]
        self.steps_of.zero_grad(set_to_none=True)
        loss = sampled_objective(self.part, entity, drawn, share, config.regularisation, config.relation_weight)
        loss = loss * (len(share) / len(batch))
        torch.autograd.backward(loss)
        relation = self.part.relation
        assert entity.grad is not None
        assert relation.grad is not None
        group.summed(entity.grad)
        group.summed(relation.grad)
        self.steps_of.step()  # of the relations: the rows have no gradient of their own
        update_rows(self.steps_of, self.rows, owned, values, entity.grad[mine])
        return group.summed(loss.detach()), len(batch)

    def follow(self) -> None:
        """Do what the leader says until it says that this is all."""
        command, number = self.group.listen()
        if command is Command.END:
            return
        self.prepare()
        while command is not Command.END:
            if command is Command.STEP:
                self._take(number)
            else:
                self._move(spread=command is Command.SPREAD)
            command, number = self.group.listen()

    def headline(self) -> str:
        return f"{super().headline()}, {self.group.size} processes"
