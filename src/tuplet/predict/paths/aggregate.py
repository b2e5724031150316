"""One layer's messages into each entity, summed up in four ways, on whatever device they are.

Every visible edge sends `x[source] · relation`, channel by channel; the boundary is one more message into each entity.
"""

from __future__ import annotations

import torch

from tuplet.predict.paths.message_graph import MessageGraph

Tensor = torch.Tensor
Summary = tuple[Tensor, Tensor, Tensor, Tensor]  # mean, standard deviation, largest, smallest

LEAST_VARIANCE = 1e-6  # below it the deviation is that of this one, and has no slope


def aggregate(
    x: Tensor, relation: Tensor, boundary: Tensor, graph: MessageGraph, visible: Tensor, degree: Tensor
) -> Summary:
    """Mean, deviation, largest and smallest message into each entity. [entities, w], [2 · relations, w] → [entities, w]

    `degree` is what `graph.degrees(visible)` says. Channels are independent of each other, so a batch of queries lies
    side by side in one row: w = queries · width.
    """
    if x.is_cuda:
        from tuplet.predict.paths.triton_kernels import triton_aggregate

        return triton_aggregate(x, relation, boundary, graph, visible, degree)
    return plain_aggregate(x, relation, boundary, graph, visible, degree)


def plain_aggregate(
    x: Tensor, relation: Tensor, boundary: Tensor, graph: MessageGraph, visible: Tensor, degree: Tensor
) -> Summary:
    """The same in plain torch: what the compiled kernels are checked against."""
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
