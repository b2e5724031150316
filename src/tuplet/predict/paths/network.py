"""A graph network that walks out from one entity and asks every other how well a relation would lead to it.

Bellman–Ford with learned messages (Zhu et al. 2021, NBFNet): an asked row (entity, relation) starts as a vector on its
entity; in each layer every edge passes on the product of what its source holds and of a vector of its own relation,
which depends on the relation that is asked for; an entity sums its messages up by mean, deviation, maximum and minimum,
scaled by its degree (Corso et al. 2020, PNA). What an entity holds in the end is scored. Nothing is learned about
single entities, so a score rests on paths alone.

A network of any graph (as in ULTRA, Galkin et al. 2024) has no vector of a relation by its name: it first walks along
the meetings of the kinds of edges, and reads a vector of each off what that leaves there. Needs torch and numpy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import relu

from tuplet.predict.paths.message_graph import MEETINGS, MessageGraph

Tensor = torch.Tensor
Summary = tuple[Tensor, Tensor, Tensor, Tensor]  # mean, standard deviation, largest, smallest

LEAST_VARIANCE = 1e-6  # below it the deviation is that of this one, and has no slope


class RelationTable(nn.Linear):
    """A vector of every kind of edge, learned by its name; it depends on what is asked for."""

    def __init__(self, kinds: int, width: int) -> None:
        super().__init__(width, kinds * width)
        nn.init.normal_(self.weight, std=0.1 / math.sqrt(width))
        nn.init.ones_(self.bias)  # every edge passes on what it gets: the first thing learned is reachability

    def forward(self, asked: Tensor) -> Tensor:
        """The vectors of all queries side by side. [queries, width] → [kinds, queries · width]"""
        queries, width = asked.shape
        by_kind = super().forward(asked).view(queries, -1, width).transpose(0, 1)
        return by_kind.reshape(-1, queries * width)


class PathLayer(nn.Module):
    """One step of messages along all edges."""

    def __init__(self, relation: nn.Module, width: int) -> None:
        super().__init__()
        self.width, self.relation = width, relation
        self.summary = nn.Linear(4 * width, 3 * width)
        self.own = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, start: Tensor, asked: Tensor, graph: MessageGraph, sight: Sight) -> Tensor:
        """What the entities hold after this layer. x, start [entities, queries · width]; asked is for `relation`"""
        relation = self.relation(asked)
        weights = [part for module in (self.summary, self.own, self.norm) for part in (module.weight, module.bias)]
        if x.is_cuda:
            from tuplet.predict.paths.triton_kernels import triton_layer

            return triton_layer(x, relation, start, graph, sight.visible, sight.degree, sight.scale, *weights)
        from tuplet.predict.paths.cpu_kernels import CompiledLayer

        layer: Callable[..., Tensor] = CompiledLayer.apply
        return layer(x, relation, start, self.width, graph, sight.visible, sight.degree, sight.scale, *weights)


class Sight:
    """Which edges are seen, and what follows from that for every layer."""

    def __init__(self, graph: MessageGraph, visible: Tensor) -> None:
        self.visible, self.degree = visible, graph.degrees(visible)
        logs = torch.log(self.degree + 1)
        self.scale = logs / logs.mean()


class RowNetwork(nn.Module):
    """What networks of rows (entity, relation) share: the layers that walk, and the score of where they come to."""

    def __init__(self, width: int, layers: list[PathLayer]) -> None:
        super().__init__()
        self.width, self.layers = width, nn.ModuleList(layers)
        self.first, self.last = nn.Linear(2 * width, 2 * width), nn.Linear(2 * width, 1)

    @property
    def some(self) -> Tensor:
        """One of the parameters: they are all on one device, of one kind."""
        return self.first.weight

    def score(self, x: Tensor, asked: Tensor) -> Tensor:
        """From what entities hold in the end. [entities, queries · width], [queries, width] → [queries, entities]"""
        width, kind = self.width, x.dtype
        with torch.autocast("cuda", torch.bfloat16, enabled=x.is_cuda):
            # State and asked relation take their own columns of one matrix: joining them would copy every row.
            state, own = self.first.weight[:, :width], self.first.weight[:, width:]
            hidden = x.view(len(x), -1, width) @ state.T.to(kind) + (asked @ own.T + self.first.bias).to(kind)
            scores: Tensor = self.last(relu(hidden))[..., 0].float().T
        return scores


class PathNetwork(RowNetwork):
    """Scores of all entities for rows (entity, relation); relation r + relations asks against its direction."""

    def __init__(self, relations: int, width: int = 32, layers: int = 6) -> None:
        asked = torch.randn(2 * relations, width) * 0.5
        super().__init__(width, [PathLayer(RelationTable(2 * relations, width), width) for _ in range(layers)])
        self.relations, self.asked = relations, nn.Parameter(asked)

    def forward(self, graph: MessageGraph, entity: Tensor, relation: Tensor, visible: Tensor | None = None) -> Tensor:
        """Scores [rows, entities] of rows [rows], seeing all edges or those marked. float32"""
        asked = self.asked[relation]
        return self.score(walk(self.layers, graph, entity, asked, asked, visible), asked)


def walk(
    layers: nn.ModuleList, graph: MessageGraph, at: Tensor, begin: Tensor, asked: Tensor, visible: Tensor | None = None
) -> Tensor:
    """What the entities hold in the end if query q begins with `begin[q]` at `at[q]`. [entities, queries · width]"""
    sight = Sight(graph, graph.all_visible if visible is None else visible)
    queries, width = begin.shape
    kind = torch.bfloat16 if begin.is_cuda else begin.dtype
    empty = torch.zeros(graph.entities, queries, width, device=begin.device, dtype=kind)
    start = empty.index_put((at, torch.arange(queries, device=begin.device)), begin.to(kind)).view(graph.entities, -1)
    x = start
    for layer in layers:
        x = layer(x, start, asked, graph, sight)
    return x


class MeetingVectors(nn.Module):
    """A vector of every way in which relations meet, whatever is asked for."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(1 + 0.1 * torch.randn(MEETINGS, width))  # about 1: as in `RelationTable`

    def forward(self, asked: Tensor) -> Tensor:
        """[queries, width] → [meetings, queries · width]"""
        return self.vectors.repeat(1, len(asked))


class RelationReading(nn.Module):
    """A vector of every kind of edge, read off the description of its relation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.normal_(self.last.weight, std=0.1 / width**0.5)
        nn.init.ones_(self.last.bias)  # as in `RelationTable`

    def forward(self, described: Tensor) -> Tensor:
        """[kinds, queries, width] → [kinds, queries · width]"""
        found: Tensor = self.last(relu(self.first(described)))
        return found.flatten(1)


class AnyGraphNetwork(RowNetwork):
    """Scores of all entities for rows (entity, relation) of any graph."""

    def __init__(self, width: int = 32, layers: int = 6) -> None:
        super().__init__(width, [PathLayer(RelationReading(width), width) for _ in range(layers)])
        self.begin = nn.Parameter(torch.ones(1, width))
        self.meetings = nn.ModuleList(PathLayer(MeetingVectors(width), width) for _ in range(layers))

    def describe(self, graph: MessageGraph, relation: Tensor) -> Tensor:
        """Every relation, as seen from each of those that are asked for. [asked] → [2 · relations, asked, width]"""
        begin = self.begin.expand(len(relation), -1)
        described = walk(self.meetings, graph.meetings, relation, begin, begin)
        return described.view(2 * graph.relations, len(relation), self.width).float()

    def forward(self, graph: MessageGraph, entity: Tensor, relation: Tensor, visible: Tensor | None = None) -> Tensor:
        """Scores [rows, entities] of rows [rows], seeing all edges or those marked. float32"""
        each, row = torch.unique(relation, return_inverse=True)
        described = self.describe(graph, each)[:, row]
        asked = described[relation, torch.arange(len(relation), device=relation.device)]
        return self.score(walk(self.layers, graph, entity, asked, described, visible), asked)
