"""One layer of a path network on the CPU: some entities at a time, so that what lies between stays in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuplet.predict.paths.cpu_kernels import SUMS, differentiate, summarise, update, update_slopes
from tuplet.predict.paths.message_graph import MessageGraph

_CACHED = 1 << 21  # bytes that the summaries of some entities take


def compiled_layer(
    x: Tensor, relation: Tensor, boundary: Tensor, width: int, graph: MessageGraph, visible: Tensor, degree: Tensor,
    scale: Tensor, *weights: Tensor,
) -> Tensor:  # fmt: skip
    """The new states of all entities. x, boundary [entities, queries · width], relation [kinds, queries · width]

    `weights` are weight and bias of the summary, of the own state and of the norm.
    """
    apply: Callable[..., Tensor] = CompiledLayer.apply
    found = apply(x, relation, boundary, width, graph, visible, degree, scale, *weights)
    return found


class CompiledLayer(torch.autograd.Function):
    """Messages, their summary and the new state, with the gradients of all of it."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        x, relation, boundary, width, graph, visible, degree, scale, *weights = given
        x, relation, boundary = (tensor.contiguous() for tensor in (x, relation, boundary))
        by_summary, summary_bias, by_own, own_bias, gain, bias = (weight.detach() for weight in weights)
        entities, queries = len(x), x.shape[1] // width
        keeps = any(ctx.needs_input_grad)
        chunk = _chunk(entities, queries * width)
        kept = entities if keeps else chunk
        parts = torch.empty(kept, queries, 4 * width)
        normed, spread = torch.empty(kept, queries, width), torch.empty(kept, queries)
        out, states = torch.empty_like(x), x.view(entities, queries, width)
        edges = _arrays(x, relation, boundary, graph.start, graph.source, graph.relation, visible, degree)
        sums = np.empty(SUMS, dtype=np.float32)
        for begin, end in _ranges(entities, chunk):
            at = slice(begin, end) if keeps else slice(0, end - begin)
            summarise(*edges, begin, end, width, parts[at].numpy(), sums)
            mixed = torch.addmm(summary_bias, parts[at].view(-1, 4 * width), by_summary.T)
            own = torch.addmm(own_bias, states[begin:end].reshape(-1, width), by_own.T)
            update(
                *_arrays(states[begin:end], own.view(-1, queries, width), mixed.view(-1, queries, 3 * width)),
                *_arrays(scale[begin:end], gain, bias, normed[at], spread[at], out.view_as(states)[begin:end]),
            )
        if keeps:
            ctx.save_for_backward(x, relation, boundary, visible, degree, scale, *weights, parts, normed, spread)
            ctx.graph, ctx.width = graph, width
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        x, relation, boundary, visible, degree, scale, *rest = (tensor.detach() for tensor in ctx.saved_tensors)
        by_summary, _, by_own, _, gain, bias, parts, normed, spread = rest
        graph, width = ctx.graph, ctx.width
        entities, queries = len(x), x.shape[1] // width
        slope, states = slopes[0].contiguous().view(entities, queries, width), x.view(entities, queries, width)
        to_x = slope.clone().view_as(x)  # a state is passed on as it is, beside what is added to it
        to_relation, to_boundary = torch.zeros_like(relation), torch.zeros_like(boundary)
        to_weights = [torch.zeros_like(weight) for weight in rest[:6]]
        edges = _arrays(x, relation, boundary, graph.start, graph.source, graph.relation, visible, degree)
        found = _arrays(to_x, to_relation, to_boundary)
        sums = np.empty(SUMS, dtype=np.float32)
        for begin, end in _ranges(entities, _chunk(entities, queries * width)):
            at = slice(begin, end)
            to_own = torch.empty(end - begin, queries, width)
            to_mixed = torch.empty(end - begin, queries, 3 * width)
            update_slopes(
                *_arrays(slope[at], scale[at], gain, bias, normed[at], spread[at], to_own, to_mixed, *to_weights[4:])
            )
            own, mixed = to_own.view(-1, width), to_mixed.view(-1, 3 * width)
            to_weights[0].addmm_(mixed.T, parts[at].view(-1, 4 * width))
            to_weights[1].add_(mixed.sum(0))
            to_weights[2].addmm_(own.T, states[at].reshape(-1, width))
            to_weights[3].add_(own.sum(0))
            to_parts = (mixed @ by_summary).view(-1, queries, 4 * width)
            to_x[at].view(-1, width).addmm_(own, by_own)
            differentiate(*edges, begin, end, width, *_arrays(parts[at], to_parts), *found, sums)
        return (to_x, to_relation, to_boundary, None, None, None, None, None, *to_weights)


def _chunk(entities: int, channels: int) -> int:
    """How many entities are taken at a time."""
    return min(entities, max(16, _CACHED // (4 * 4 * channels)))


def _ranges(entities: int, chunk: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, entities, chunk):
        yield begin, min(begin + chunk, entities)


def _arrays(*tensors: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.detach().numpy() for tensor in tensors)
