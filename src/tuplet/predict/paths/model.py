"""A path network as a link predictor: it reads the scores of a row off the train edges of a graph."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tuplet.errors import BadInput
from tuplet.predict.base import ReciprocalRows, TrainingEdges, pick_entries
from tuplet.predict.device import Result, one_thread, side_by_side
from tuplet.predict.paths.message_graph import MessageGraph, Telling
from tuplet.predict.paths.network import AnyGraphNetwork, PathNetwork, RowNetwork


def share_out(work: Callable[..., Result], parts: Sequence[Sequence[Any]]) -> list[Result]:
    """`work(*part)` of each part, in order; which thread takes a part does not matter to its result.

    >>> share_out(pow, [(2, 3), (3, 2)])
    [8, 9]
    """
    with one_thread():
        return list(side_by_side(lambda part: work(*part), parts, min(len(parts), len(os.sched_getaffinity(0)))))


DENSE = 60  # facts an entity: graphs with fewer are sparse
_ROWS = 64  # computed at a time on a GPU
_FEWEST = 4  # on a CPU: fewer would leave vector instructions empty
_SECOND = "second."  # what the numbers of a second network are called
_CACHED = 1 << 21  # bytes that the states of a batch take on a CPU, about: beyond its cache a row takes longer


class PathModel(ReciprocalRows):
    """Implements the `LinkPredictor` protocol, once it is `on` a graph.

    Rows cost as much as walking along all edges, single scores as much as their rows: ask for rows.
    """

    kind: ClassVar[str] = "paths"
    sees_facts: ClassVar[bool] = True
    bilinear: ClassVar[bool] = False

    def __init__(self, network: RowNetwork, entities: int, relations: int, edges: TrainingEdges | None = None) -> None:
        self.network, self.entities, self.relations, self.edges = network, entities, relations, edges
        self._graph: MessageGraph | None = None

    @classmethod
    def network_of(cls, relations: int, width: int, layers: int) -> RowNetwork:
        """A new network for graphs of that many relations."""
        return PathNetwork(relations, width, layers)

    @classmethod
    def stored(cls, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Self:
        """The model of a folder, from what `tensors` and `about` gave."""
        network = cls.network_of(about["relations"], about["rank"], about["layers"])
        some = next(iter(tensors.values()))
        network.to(some.device, some.dtype).load_state_dict(dict(tensors))
        return cls(network.requires_grad_(False), about["entities"], about["relations"])

    def tensors(self) -> dict[str, Tensor]:
        """What was learned, for a model folder."""
        return dict(self.network.state_dict())

    def about(self) -> dict[str, Any]:
        """What the numbers are."""
        sizes = {"entities": self.entities, "relations": self.relations, "rank": self.network.width}
        dtype = str(self.network.some.dtype).removeprefix("torch.")
        return {"kind": self.kind, **sizes, "layers": len(self.network.layers), "dtype": dtype}

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same model elsewhere or in another precision."""
        network = copy.deepcopy(self.network).to(device, dtype)
        return type(self)(network, self.entities, self.relations, self.edges)

    def on(self, edges: TrainingEdges) -> Self:
        """The same model, reading scores off these train edges."""
        if (edges.entities, edges.relations) != (self.entities, self.relations):
            raise BadInput(
                f"the path network is of {self.entities:,} entities and {self.relations:,} relations, "
                f"the graph has {edges.entities:,} and {edges.relations:,}"
            )
        return type(self)(self.network, self.entities, self.relations, edges)

    @property
    def device(self) -> torch.device:
        return self.network.some.device

    @property
    def graph(self) -> MessageGraph:
        """The edges that messages travel along."""
        if self._graph is None:
            if self.edges is None:
                raise BadInput(
                    "a path network reads scores off the edges of a graph: give it them first, model.on(edges)"
                )
            train = self.edges.splits["train"]
            self._graph = MessageGraph.from_facts(train, self.entities, self.relations, self.device)
        return self._graph

    @property
    def batch(self) -> int:
        """How many rows are computed at a time."""
        if self.device.type == "cuda":
            return _ROWS
        return max(_FEWEST, min(_ROWS, _CACHED // (4 * self.network.width * self.entities)))

    def pairs(self, heads: Tensor, relation: Tensor, tails: Tensor) -> Tensor:
        """Scores of single edges [n] → [n]; each row they are in is computed once."""
        views = 2 * self.relations
        rows = heads * views + relation
        return pick_entries(lambda some: self.mixed_rows(some // views, some % views), rows, tails, self.batch)

    def mixed_rows(self, asked: Tensor, relation: Tensor) -> Tensor:
        """Scores of all entities for rows of any relations, in batches. [n], [n] → [n, entities]"""
        if not len(asked):
            return torch.empty(0, self.entities, device=self.device)
        parts = list(zip(torch.split(asked, self.batch), torch.split(relation, self.batch), strict=True))
        if self.device.type != "cuda":
            return torch.cat(share_out(self._rows, parts))
        found = []
        for rows in parts:  # filled up with copies of the last row: the kernels take a fixed number of channels
            asked, relation = (torch.cat([ids, ids[-1:].expand(_ROWS - len(ids))]) for ids in rows)
            found.append(self._rows(asked, relation)[: len(rows[0])])
        return torch.cat(found)

    @torch.no_grad()
    def _rows(self, asked: Tensor, relation: Tensor) -> Tensor:
        found: Tensor = self.network(self.graph, asked, relation)
        return found


class AnyGraphModel(PathModel):
    """A path network that reads scores off any graph, whatever it was trained on.

    It may have a second network that is better on sparse graphs: the density of a graph decides which is asked.
    """

    kind: ClassVar[str] = "any-graph"
    one_side: ClassVar[bool] = True
    second: RowNetwork | None = None

    @classmethod
    def network_of(cls, relations: int, width: int, layers: int) -> RowNetwork:
        return AnyGraphNetwork(width, layers)

    @classmethod
    def stored(cls, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Self:
        others = {name.removeprefix(_SECOND): part for name, part in tensors.items() if name.startswith(_SECOND)}
        model = super().stored({name: part for name, part in tensors.items() if not name.startswith(_SECOND)}, about)
        model.second = super().stored(others, about).network if others else None
        return model

    def tensors(self) -> dict[str, Tensor]:
        others = {} if self.second is None else self.second.state_dict()
        return super().tensors() | {_SECOND + name: part for name, part in others.items()}

    def about(self) -> dict[str, Any]:
        networks = 1 if self.second is None else 2
        return super().about() | {"entities": 0, "relations": 0, "networks": networks}  # sizes are those of a graph

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        model = super().to(device, dtype)
        model.second = copy.deepcopy(self.second).to(device, dtype) if self.second is not None else None
        return model

    def on(self, edges: TrainingEdges) -> Self:
        """The same model, reading scores off these train edges by the network that suits them; the other is left."""
        sparse = edges.count("train") < DENSE * edges.entities
        network = self.second if sparse and self.second is not None else self.network
        return type(self)(network, edges.entities, edges.relations, edges)

    def telling(self, telling: Telling) -> Self:
        """The same, where the meetings of relations tell less."""
        model = copy.copy(self)
        model._graph = replace(self.graph, telling=telling)
        return model
