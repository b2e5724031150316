"""Compiled messages of a path network on the CPU, forwards and backwards.

A kernel walks along all edges with a block of channels, whose slice of all entities stays in the cache. `sums` holds
what one entity gathers: rows of BLOCK numbers, at fixed distances, so that the inner loops become vector instructions.
One call is one thread: `cores` shares questions out among threads.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from tuplet.graph.kernels import OPTIONS
from tuplet.predict.paths.aggregate import LEAST_VARIANCE as SMALLEST_VARIANCE
from tuplet.predict.paths.aggregate import Summary
from tuplet.predict.paths.message_graph import MessageGraph

BLOCK = 64  # channels of a task: four vectors of AVX-512
LEAST_VARIANCE = np.float32(SMALLEST_VARIANCE)
LEAST_DEVIATION = np.sqrt(LEAST_VARIANCE)
ZERO, ONE = np.float32(0), np.float32(1)

# Divisions that raise would not become vector instructions.
compiled = njit(error_model="numpy", **OPTIONS)


def compiled_aggregate(
    x: Tensor, relation: Tensor, boundary: Tensor, graph: MessageGraph, visible: Tensor, degree: Tensor
) -> Summary:
    """`aggregate` on the CPU."""
    found: Summary = CompiledAggregate.apply(x, relation, boundary, graph, visible, degree)
    return found


class CompiledAggregate(torch.autograd.Function):
    """`aggregate` with its gradients; all numbers are float32."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, relation: Tensor, boundary: Tensor, graph: MessageGraph, visible: Tensor, degree: Tensor
    ) -> tuple[Tensor, ...]:
        x, relation, boundary = (part.contiguous() for part in (x, relation, boundary))
        out = tuple(torch.empty_like(x) for _ in range(4))
        ctx.save_for_backward(x, relation, boundary, visible, degree, *out)
        ctx.edges = graph.start, graph.source, graph.relation
        arrays = _arrays(x, relation, boundary, *ctx.edges, visible, degree, *out)
        _by_block(summarise, arrays, x.shape[1])
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        x, relation, boundary, visible, degree, *out = ctx.saved_tensors
        found = torch.zeros_like(x), torch.zeros_like(relation), torch.empty_like(boundary)
        given = (slope.contiguous() for slope in slopes)
        arrays = _arrays(x, relation, boundary, *ctx.edges, visible, degree, *out, *given, *found)
        _by_block(differentiate, arrays, x.shape[1])
        return (*found, None, None, None)


def _arrays(*tensors: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.detach().numpy() for tensor in tensors)


def _by_block(kernel: Callable[..., None], arrays: tuple[Any, ...], channels: int) -> None:
    """Run a kernel over all blocks of channels."""
    sums = np.empty(8 * BLOCK, dtype=np.float32)
    for first in range(0, channels, BLOCK):
        kernel(*arrays, sums, first, min(BLOCK, channels - first))


@compiled
def summarise(
    x, relation, boundary, start, source, kind, visible, degree, mean, deviation, largest, smallest, sums, first, count
):
    """Mean, deviation, largest and smallest message into every entity, in the channels first : first + count."""
    end = first + count
    for entity in range(len(start) - 1):
        own = boundary[entity, first:end]
        for c in range(count):
            message = own[c]
            sums[c] = message
            sums[BLOCK + c] = message * message
            sums[2 * BLOCK + c] = message
            sums[3 * BLOCK + c] = message
        for edge in range(start[entity], start[entity + 1]):
            if visible[edge]:
                state, by = x[source[edge], first:end], relation[kind[edge], first:end]
                for c in range(count):
                    message = state[c] * by[c]
                    sums[c] += message
                    sums[BLOCK + c] += message * message
                    high, low = sums[2 * BLOCK + c], sums[3 * BLOCK + c]
                    sums[2 * BLOCK + c] = message if message > high else high
                    sums[3 * BLOCK + c] = message if message < low else low
        share = ONE / degree[entity]
        for c in range(count):
            middle = sums[c] * share
            variance = sums[BLOCK + c] * share - middle * middle
            sums[c] = middle
            sums[BLOCK + c] = np.sqrt(variance if variance > LEAST_VARIANCE else LEAST_VARIANCE)
        out = mean[entity, first:end]
        for c in range(count):
            out[c] = sums[c]
        out = deviation[entity, first:end]
        for c in range(count):
            out[c] = sums[BLOCK + c]
        out = largest[entity, first:end]
        for c in range(count):
            out[c] = sums[2 * BLOCK + c]
        out = smallest[entity, first:end]
        for c in range(count):
            out[c] = sums[3 * BLOCK + c]


@compiled
def differentiate(
    x,
    relation,
    boundary,
    start,
    source,
    kind,
    visible,
    degree,
    mean,
    deviation,
    largest,
    smallest,
    mean_slope,
    deviation_slope,
    largest_slope,
    smallest_slope,
    x_slope,
    relation_slope,
    boundary_slope,
    sums,
    first,
    count,
):
    """The gradients of x and relation, added to what is there, and of the boundary, in some channels.

    Rows of `sums`: largest and smallest message; how many messages are as large and as small, then the share of the
    slope that each of these gets; slope of every message, and per unit of the message.
    """
    end = first + count
    for entity in range(len(start) - 1):
        own, high, low = boundary[entity, first:end], largest[entity, first:end], smallest[entity, first:end]
        for c in range(count):
            sums[c] = high[c]
            sums[BLOCK + c] = low[c]
        for c in range(count):
            sums[2 * BLOCK + c] = ONE if own[c] == sums[c] else ZERO
            sums[3 * BLOCK + c] = ONE if own[c] == sums[BLOCK + c] else ZERO
        for edge in range(start[entity], start[entity + 1]):
            if visible[edge]:
                state, by = x[source[edge], first:end], relation[kind[edge], first:end]
                for c in range(count):
                    message = state[c] * by[c]
                    sums[2 * BLOCK + c] += ONE if message == sums[c] else ZERO
                    sums[3 * BLOCK + c] += ONE if message == sums[BLOCK + c] else ZERO
        share = ONE / degree[entity]
        out = largest_slope[entity, first:end]
        for c in range(count):
            sums[2 * BLOCK + c] = out[c] / sums[2 * BLOCK + c]
        out = smallest_slope[entity, first:end]
        for c in range(count):
            sums[3 * BLOCK + c] = out[c] / sums[3 * BLOCK + c]
        out, spread = deviation_slope[entity, first:end], deviation[entity, first:end]
        for c in range(count):
            sums[5 * BLOCK + c] = out[c] * share / spread[c] if spread[c] > LEAST_DEVIATION else ZERO
        out, middle = mean_slope[entity, first:end], mean[entity, first:end]
        for c in range(count):
            sums[4 * BLOCK + c] = out[c] * share - sums[5 * BLOCK + c] * middle[c]
        out = boundary_slope[entity, first:end]
        for c in range(count):
            message = own[c]
            slope = sums[4 * BLOCK + c] + message * sums[5 * BLOCK + c]
            slope += sums[2 * BLOCK + c] if message == sums[c] else ZERO
            slope += sums[3 * BLOCK + c] if message == sums[BLOCK + c] else ZERO
            out[c] = slope
        for edge in range(start[entity], start[entity + 1]):
            if visible[edge]:
                state, by = x[source[edge], first:end], relation[kind[edge], first:end]
                to_state, to_by = x_slope[source[edge], first:end], relation_slope[kind[edge], first:end]
                for c in range(count):
                    message = state[c] * by[c]
                    slope = sums[4 * BLOCK + c] + message * sums[5 * BLOCK + c]
                    slope += sums[2 * BLOCK + c] if message == sums[c] else ZERO
                    slope += sums[3 * BLOCK + c] if message == sums[BLOCK + c] else ZERO
                    sums[6 * BLOCK + c] = slope * by[c]
                    sums[7 * BLOCK + c] = slope * state[c]
                for c in range(count):
                    to_state[c] += sums[6 * BLOCK + c]
                for c in range(count):
                    to_by[c] += sums[7 * BLOCK + c]
