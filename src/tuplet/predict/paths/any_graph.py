"""A path network that knows no relation by name, so that it scores graphs it was never trained on.

What it knows of a relation is how it meets the others (Galkin et al. 2024, ULTRA): an edge joins two relations that
share ends or pairs, and tells how much (`meetings`); a first network walks over these edges from the one asked for.
What every relation holds in the end describes it, and in each layer of the second network, which walks over the facts,
the messages along a relation are read off its description. Needs torch and numpy alone.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import relu

from tuplet.predict.paths.meetings import MEETINGS
from tuplet.predict.paths.message_graph import MessageGraph
from tuplet.predict.paths.network import PathLayer, RowNetwork, walk

Tensor = torch.Tensor


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
