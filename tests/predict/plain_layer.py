"""A layer of the path network in plain torch: what the compiled kernels of CPU and GPU are checked against."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, relu

from tuplet.predict.paths.message_graph import MessageGraph
from tuplet.predict.paths.network import LEAST_VARIANCE, PathLayer, Summary


def aggregate(
    x: Tensor, relation: Tensor, boundary: Tensor, graph: MessageGraph, visible: Tensor, degree: Tensor
) -> Summary:
    """Mean, deviation, largest and smallest message into each entity."""
    seen = torch.nonzero(visible).view(-1)
    target = graph.target[seen].long()
    message = x[graph.source[seen].long()] * relation[graph.relation[seen].long()]
    index = target[:, None].expand_as(message)
    mean = boundary.scatter_add(0, index, message) / degree[:, None]
    square = boundary.square().scatter_add(0, index, message.square()) / degree[:, None]
    deviation = (square - mean.square()).clamp(min=LEAST_VARIANCE).sqrt()
    return (
        mean,
        deviation,
        boundary.scatter_reduce(0, index, message, "amax"),
        boundary.scatter_reduce(0, index, message, "amin"),
    )


def update(layer: PathLayer, x: Tensor, parts: Summary, scale: Tensor) -> Tensor:
    """The new state of each entity from its own and the summary of its messages."""
    entities, width = len(x), layer.width
    whole = torch.stack([part.view(entities, -1, width) for part in parts], 2).flatten(2)
    plain, up, down = layer.summary(whole).split(width, -1)
    by = scale[:, None, None]
    mixed = layer.own(x.view(entities, -1, width)) + plain + up * by + down / by
    normed = layer_norm(mixed, (width,), layer.norm.weight, layer.norm.bias)
    return x + relu(normed).view_as(x)
