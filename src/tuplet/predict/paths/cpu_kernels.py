"""One layer of a path network on the CPU: some entities at a time, so that what lies between stays in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from tuplet.graph.kernels import OPTIONS
from tuplet.predict.paths import network

# mypy: allow-untyped-defs, allow-untyped-calls


BLOCK = 64  # channels that are walked with at a time, at least those of a query: four vectors of AVX-512
ROW = 256  # of `sums`: the most channels of a query
SUMS = 8 * ROW
LEAST_VARIANCE = np.float32(network.LEAST_VARIANCE)
LEAST_DEVIATION = np.sqrt(LEAST_VARIANCE)
NORM_EPSILON = np.float32(1e-5)
ZERO, ONE = np.float32(0), np.float32(1)

# Divisions that raise would not become vector instructions.
compiled = njit(error_model="numpy", **OPTIONS)
# Sums within a row may be taken in the order of the vectors: the same every time.
reduced = njit(error_model="numpy", fastmath={"reassoc", "contract", "nsz"}, **OPTIONS)


@compiled
def summarise(x, relation, boundary, start, source, kind, visible, degree, begin, end, width, parts, sums):
    """Mean, deviation, largest and smallest message into the entities begin … end − 1.

    x, boundary [entities, queries · width], relation [kinds, queries · width] → parts [end − begin, queries, 4 · width]
    """
    channels = x.shape[1]
    step = max(BLOCK // width, 1) * width  # whole queries
    for entity in range(begin, end):
        share = ONE / degree[entity]
        for first in range(0, channels, step):
            last = min(first + step, channels)
            count = last - first
            own = boundary[entity, first:last]
            for c in range(count):
                message = own[c]
                sums[c] = message
                sums[ROW + c] = message * message
                sums[2 * ROW + c] = message
                sums[3 * ROW + c] = message
            for edge in range(start[entity], start[entity + 1]):
                if visible[edge]:
                    state, by = x[source[edge], first:last], relation[kind[edge], first:last]
                    for c in range(count):
                        message = state[c] * by[c]
                        high, low = sums[2 * ROW + c], sums[3 * ROW + c]
                        sums[c] += message
                        sums[ROW + c] += message * message
                        sums[2 * ROW + c] = message if message > high else high
                        sums[3 * ROW + c] = message if message < low else low
            for c in range(count):
                mean = sums[c] * share
                variance = sums[ROW + c] * share - mean * mean
                sums[c] = mean
                sums[ROW + c] = np.sqrt(variance if variance > LEAST_VARIANCE else LEAST_VARIANCE)
            for query in range(count // width):
                out = parts[entity - begin, first // width + query]
                for part in range(4):
                    for c in range(width):
                        out[part * width + c] = sums[part * ROW + query * width + c]


@compiled
def differentiate(
    x, relation, boundary, start, source, kind, visible, degree, begin, end, width, parts, slopes,
    x_slope, relation_slope, boundary_slope, sums,
):  # fmt: skip
    """The gradients of `summarise`, added to those of x, relation and boundary; `slopes` are those of `parts`.

    Rows of `sums`: largest and smallest message; how many messages are as large and as small, then the share of the
    slope that each of these gets; slope of every message, and per unit of the message; two products.
    """
    channels = x.shape[1]
    step = max(BLOCK // width, 1) * width
    for entity in range(begin, end):
        share = ONE / degree[entity]
        for first in range(0, channels, step):
            last = min(first + step, channels)
            count = last - first
            own = boundary[entity, first:last]
            for query in range(count // width):
                here = parts[entity - begin, first // width + query]
                for c in range(width):
                    sums[query * width + c] = here[2 * width + c]
                    sums[ROW + query * width + c] = here[3 * width + c]
            for c in range(count):
                sums[2 * ROW + c] = ONE if own[c] == sums[c] else ZERO
                sums[3 * ROW + c] = ONE if own[c] == sums[ROW + c] else ZERO
            for edge in range(start[entity], start[entity + 1]):
                if visible[edge]:
                    state, by = x[source[edge], first:last], relation[kind[edge], first:last]
                    for c in range(count):
                        message = state[c] * by[c]
                        sums[2 * ROW + c] += ONE if message == sums[c] else ZERO
                        sums[3 * ROW + c] += ONE if message == sums[ROW + c] else ZERO
            for query in range(count // width):
                here, slope = (
                    parts[entity - begin, first // width + query],
                    slopes[entity - begin, first // width + query],
                )
                for j in range(width):
                    c = query * width + j
                    deviation = here[width + j]
                    spread = slope[width + j] * share / deviation if deviation > LEAST_DEVIATION else ZERO
                    sums[4 * ROW + c] = slope[j] * share - spread * here[j]
                    sums[5 * ROW + c] = spread
                    sums[2 * ROW + c] = slope[2 * width + j] / sums[2 * ROW + c]
                    sums[3 * ROW + c] = slope[3 * width + j] / sums[3 * ROW + c]
            out = boundary_slope[entity, first:last]
            for c in range(count):
                message = own[c]
                value = sums[4 * ROW + c] + message * sums[5 * ROW + c]
                value += sums[2 * ROW + c] if message == sums[c] else ZERO
                value += sums[3 * ROW + c] if message == sums[ROW + c] else ZERO
                out[c] += value
            for edge in range(start[entity], start[entity + 1]):
                if visible[edge]:
                    state, by = x[source[edge], first:last], relation[kind[edge], first:last]
                    for c in range(count):
                        message = state[c] * by[c]
                        value = sums[4 * ROW + c] + message * sums[5 * ROW + c]
                        value += sums[2 * ROW + c] if message == sums[c] else ZERO
                        value += sums[3 * ROW + c] if message == sums[ROW + c] else ZERO
                        sums[6 * ROW + c] = value * by[c]
                        sums[7 * ROW + c] = value * state[c]
                    out = x_slope[source[edge], first:last]
                    for c in range(count):
                        out[c] += sums[6 * ROW + c]
                    out = relation_slope[kind[edge], first:last]
                    for c in range(count):
                        out[c] += sums[7 * ROW + c]


@reduced
def update(x, own, mixed, scale, gain, bias, normed, spread, out):
    """The new states: x + relu(norm(own + plain + scale · up + down / scale)), where `mixed` has plain, up and down.

    x, own, normed, out [entities, queries, width], mixed [entities, queries, 3 · width]; `normed` and `spread` keep
    what the way back needs.
    """
    width = x.shape[2]
    for entity in range(x.shape[0]):
        up, down = scale[entity], ONE / scale[entity]
        for query in range(x.shape[1]):
            three, row, new = mixed[entity, query], normed[entity, query], out[entity, query]
            alone, before = own[entity, query], x[entity, query]
            total = ZERO
            for c in range(width):
                value = alone[c] + three[c] + up * three[width + c] + down * three[2 * width + c]
                row[c] = value
                total += value
            middle = total / width
            total = ZERO
            for c in range(width):
                total += (row[c] - middle) * (row[c] - middle)
            by = ONE / np.sqrt(total / np.float32(width) + NORM_EPSILON)
            spread[entity, query] = by
            for c in range(width):
                value = (row[c] - middle) * by
                row[c] = value
                value = value * gain[c] + bias[c]
                new[c] = before[c] + (value if value > ZERO else ZERO)


@reduced
def update_slopes(slope, scale, gain, bias, normed, spread, own_slope, mixed_slope, gain_slope, bias_slope):
    """The gradients of `update`: of own and mixed, and added to those of gain and bias."""
    width = slope.shape[2]
    share = ONE / np.float32(width)
    for entity in range(slope.shape[0]):
        up, down = scale[entity], ONE / scale[entity]
        for query in range(slope.shape[1]):
            given, row = slope[entity, query], normed[entity, query]
            to_own, to_mixed = own_slope[entity, query], mixed_slope[entity, query]
            total, along = ZERO, ZERO
            for c in range(width):
                value = given[c] if row[c] * gain[c] + bias[c] > ZERO else ZERO
                to_own[c] = value * gain[c]
                to_mixed[c] = value
                total += to_own[c]
                along += to_own[c] * row[c]
            for c in range(width):
                bias_slope[c] += to_mixed[c]
            for c in range(width):
                gain_slope[c] += to_mixed[c] * row[c]
            total, along = total * share, along * share
            by = spread[entity, query]
            for c in range(width):
                to_own[c] = by * (to_own[c] - total - row[c] * along)
            for c in range(width):
                value = to_own[c]
                to_mixed[c] = value
                to_mixed[width + c] = up * value
                to_mixed[2 * width + c] = down * value


_CACHED = 1 << 21  # bytes that the summaries of some entities take


class CompiledLayer(torch.autograd.Function):
    """Messages, their summary and the new states of all entities, with the gradients of all of it."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        """x, boundary [entities, queries · width], relation [kinds, queries · width] → new states like x

        `weights` are weight and bias of the summary, of the own state and of the norm.
        """
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
