"""The layers of a path network on a GPU: compiled kernels in bfloat16 with sums in float32.

`TritonAggregate` sums up messages; `TritonUpdate` makes the new state of each entity from the summary in one pass, so
that what lies between (four stacked parts, three products, the norm) is never written to memory.

One warp owns some channels of one entity and walks its edges, so a sum over edges never crosses threads. Programs are
ordered by channels first: the slice of all entities in these channels stays in the cache. Needs torch and Triton.

Several arrays of one shape are the planes of one tensor: `parts` are mean, deviation, largest and smallest message,
`ties` how many messages are as large and as small, `sides` what the slope of a message is made of (see `_slopes`).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tuplet.predict.paths.message_graph import MessageGraph
from tuplet.predict.paths.network import LEAST_VARIANCE

Tensor = torch.Tensor

# Channels and edges at a time of a warp.
FORWARD = (64, 16)
BY_SOURCE = (64, 16)
BY_RELATION = (128, 4)
ROWS = 128  # of the update at a time


@triton.jit
def _read(pointer, place, shown, other: tl.constexpr):
    """Numbers of 16 bits, to be computed with."""
    return tl.load(pointer + place, mask=shown, other=other).to(tl.float32)


@triton.jit
def _summarise(
    x_ptr, relation_ptr, boundary_ptr, start_ptr, source_ptr, kind_ptr, visible_ptr, order_ptr, parts_ptr, ties_ptr,
    size, w, least_variance, COUNT: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    node = tl.load(order_ptr + tl.program_id(0)).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    begin, end = tl.load(start_ptr + node), tl.load(start_ptr + node + 1)
    first = tl.load(boundary_ptr + node * w + channel).to(tl.float32)
    total, squares, most, least, count = first, first * first, first, first, 1.0
    most_count = tl.full([BLOCK], 1.0, tl.float32)
    least_count = tl.full([BLOCK], 1.0, tl.float32)
    step = tl.arange(0, TILE)
    for at in range(begin, end, TILE):
        edge = at + step
        inside = edge < end
        source = tl.load(source_ptr + edge, mask=inside, other=0).to(tl.int64)
        kind = tl.load(kind_ptr + edge, mask=inside, other=0).to(tl.int64)
        seen = inside & (tl.load(visible_ptr + edge, mask=inside, other=0) != 0)
        shown = seen[:, None]
        x = _read(x_ptr, source[:, None] * w + channel[None, :], shown, 0.0)
        by = _read(relation_ptr, kind[:, None] * w + channel[None, :], shown, 0.0)
        # Rounded as the way back computes it again, so that the largest message is found among them by equality.
        message = (x * by).to(tl.bfloat16).to(tl.float32)
        total += tl.sum(message, 0)
        squares += tl.sum(message * message, 0)
        count += tl.sum(seen.to(tl.float32), 0)
        high, low = tl.where(shown, message, -3e38), tl.where(shown, message, 3e38)
        top, bottom = tl.max(high, 0), tl.min(low, 0)
        if COUNT:
            tops = tl.sum((shown & (high == top[None, :])).to(tl.float32), 0)
            bottoms = tl.sum((shown & (low == bottom[None, :])).to(tl.float32), 0)
            most_count = tl.where(top > most, tops, tl.where(top == most, most_count + tops, most_count))
            least_count = tl.where(
                bottom < least, bottoms, tl.where(bottom == least, least_count + bottoms, least_count)
            )
        most, least = tl.maximum(most, top), tl.minimum(least, bottom)
    mean = total / count
    out = parts_ptr + node * w + channel
    tl.store(out, mean.to(tl.bfloat16))
    deviation = tl.sqrt(tl.maximum(squares / count - mean * mean, least_variance))
    tl.store(out + size, deviation.to(tl.bfloat16))
    tl.store(out + 2 * size.to(tl.int64), most.to(tl.bfloat16))
    tl.store(out + 3 * size.to(tl.int64), least.to(tl.bfloat16))
    if COUNT:
        out = ties_ptr + node * w + channel
        tl.store(out, most_count.to(tl.bfloat16))
        tl.store(out + size, least_count.to(tl.bfloat16))


@triton.jit
def _slopes(
    parts_ptr, ties_ptr, boundary_ptr, degree_ptr, to_parts_ptr, sides_ptr, to_boundary_ptr,
    size, w, floor, BLOCK: tl.constexpr,
):  # fmt: skip
    """The slope of the loss in a message m is flat + slope · m, and a share if m is the largest or the smallest."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    deviation_at = at + size
    most_at = deviation_at + size
    least_at = most_at + size
    degree = tl.load(degree_ptr + at // w, mask=inside, other=1.0)
    mean = _read(parts_ptr, at, inside, 0.0)
    deviation = _read(parts_ptr, deviation_at, inside, 1.0)
    slope = tl.where(deviation > floor, _read(to_parts_ptr, deviation_at, inside, 0.0) / (deviation * degree), 0.0)
    flat = _read(to_parts_ptr, at, inside, 0.0) / degree - slope * mean
    most_share = _read(to_parts_ptr, most_at, inside, 0.0) / _read(ties_ptr, at, inside, 1.0)
    least_share = _read(to_parts_ptr, least_at, inside, 0.0) / _read(ties_ptr, at + size, inside, 1.0)
    first = _read(boundary_ptr, at, inside, 0.0)
    own = flat + slope * first
    own += tl.where(first == _read(parts_ptr, most_at, inside, 0.0), most_share, 0.0)
    own += tl.where(first == _read(parts_ptr, least_at, inside, 0.0), least_share, 0.0)
    tl.store(sides_ptr + at, flat.to(tl.bfloat16), mask=inside)
    tl.store(sides_ptr + deviation_at, slope.to(tl.bfloat16), mask=inside)
    tl.store(sides_ptr + most_at, most_share.to(tl.bfloat16), mask=inside)
    tl.store(sides_ptr + least_at, least_share.to(tl.bfloat16), mask=inside)
    tl.store(to_boundary_ptr + at, own.to(tl.bfloat16), mask=inside)


@triton.jit
def _to_message(message, target, channel, seen, parts_ptr, sides_ptr, size, w):
    """The slope of the loss in messages [edges, channels] into their targets."""
    place = target[:, None] * w + channel[None, :]
    most_at = place + 2 * size.to(tl.int64)
    least_at = most_at + size
    shown = seen[:, None]
    flat, slope = _read(sides_ptr, place, shown, 0.0), _read(sides_ptr, place + size, shown, 0.0)
    highest = shown & (message == _read(parts_ptr, most_at, shown, 0.0))
    lowest = shown & (message == _read(parts_ptr, least_at, shown, 0.0))
    # Few messages are the largest of their target: the shares of the others are not even read.
    return flat + slope * message + _read(sides_ptr, most_at, highest, 0.0) + _read(sides_ptr, least_at, lowest, 0.0)


@triton.jit
def _to_states(
    x_ptr, relation_ptr, start_ptr, target_ptr, kind_ptr, edge_ptr, visible_ptr, order_ptr, parts_ptr, sides_ptr,
    out_ptr, size, w, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    node = tl.load(order_ptr + tl.program_id(0)).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    begin, end = tl.load(start_ptr + node), tl.load(start_ptr + node + 1)
    x = tl.load(x_ptr + node * w + channel).to(tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    step = tl.arange(0, TILE)
    for at in range(begin, end, TILE):
        place = at + step
        inside = place < end
        target = tl.load(target_ptr + place, mask=inside, other=0).to(tl.int64)
        kind = tl.load(kind_ptr + place, mask=inside, other=0).to(tl.int64)
        edge = tl.load(edge_ptr + place, mask=inside, other=0)
        seen = inside & (tl.load(visible_ptr + edge, mask=inside, other=0) != 0)
        by = _read(relation_ptr, kind[:, None] * w + channel[None, :], seen[:, None], 0.0)
        message = (x[None, :] * by).to(tl.bfloat16).to(tl.float32)
        total += tl.sum(_to_message(message, target, channel, seen, parts_ptr, sides_ptr, size, w) * by, 0)
    tl.store(out_ptr + node * w + channel, total.to(tl.bfloat16))


@triton.jit
def _to_relations(
    x_ptr, relation_ptr, chunk_kind_ptr, chunk_start_ptr, chunk_stop_ptr, source_ptr, target_ptr, edge_ptr, visible_ptr,
    parts_ptr, sides_ptr, out_ptr, size, w, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(0)
    kind = tl.load(chunk_kind_ptr + chunk).to(tl.int64)
    begin, end = tl.load(chunk_start_ptr + chunk), tl.load(chunk_stop_ptr + chunk)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    by = tl.load(relation_ptr + kind * w + channel).to(tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    step = tl.arange(0, TILE)
    for at in range(begin, end, TILE):
        place = at + step
        inside = place < end
        source = tl.load(source_ptr + place, mask=inside, other=0).to(tl.int64)
        target = tl.load(target_ptr + place, mask=inside, other=0).to(tl.int64)
        edge = tl.load(edge_ptr + place, mask=inside, other=0)
        seen = inside & (tl.load(visible_ptr + edge, mask=inside, other=0) != 0)
        x = _read(x_ptr, source[:, None] * w + channel[None, :], seen[:, None], 0.0)
        message = (x * by[None, :]).to(tl.bfloat16).to(tl.float32)
        total += tl.sum(_to_message(message, target, channel, seen, parts_ptr, sides_ptr, size, w) * x, 0)
    tl.atomic_add(out_ptr + kind * w + channel, total)


class TritonAggregate(torch.autograd.Function):
    """The summary of messages [4, entities, channels] and its way back."""

    @staticmethod
    def forward(ctx, x, relation, boundary, graph: MessageGraph, visible, degree):
        entities, w = x.shape
        count = any(ctx.needs_input_grad[:3])
        parts = x.new_empty(4, entities, w)
        ties = x.new_empty(2, entities, w) if count else parts  # not written where nobody will ask for slopes
        block, tile = _fitting(w, FORWARD)
        _summarise[(entities, w // block)](
            x, relation, boundary, graph.start, graph.source, graph.relation, visible, graph.busiest, parts, ties,
            x.numel(), w, LEAST_VARIANCE, COUNT=count, BLOCK=block, TILE=tile, num_warps=1,
        )  # fmt: skip
        if count:
            ctx.save_for_backward(x, relation, boundary, visible, degree, parts, ties)
            ctx.graph = graph
        return parts

    @staticmethod
    def backward(ctx, to_parts):
        x, relation, boundary, visible, degree, parts, ties = ctx.saved_tensors
        graph, (entities, w), size = ctx.graph, x.shape, x.numel()
        sides, to_boundary, to_x = torch.empty_like(parts), torch.empty_like(x), torch.empty_like(x)
        block = 1024
        floor = LEAST_VARIANCE**0.5 * 1.01  # rounded to bfloat16, the least deviation may be a little more than itself
        _slopes[(triton.cdiv(size, block),)](
            parts, ties, boundary, degree, to_parts.contiguous(), sides, to_boundary, size, w, floor, BLOCK=block
        )
        block, tile = _fitting(w, BY_SOURCE)
        _to_states[(entities, w // block)](
            x, relation, graph.out_start, graph.out_target, graph.out_relation, graph.out_edge, visible, graph.busiest,
            parts, sides, to_x, size, w, BLOCK=block, TILE=tile, num_warps=1,
        )  # fmt: skip
        to_relation = torch.zeros(relation.shape, device=x.device)
        chunks = graph.chunks
        block, tile = _fitting(w, BY_RELATION)
        if len(chunks.relation):
            _to_relations[(len(chunks.relation), w // block)](
                x, relation, *chunks, visible, parts, sides, to_relation, size, w, BLOCK=block, TILE=tile, num_warps=1
            )
        return to_x, to_relation.to(relation.dtype), to_boundary, None, None, None


def _fitting(w: int, sizes: tuple[int, int]) -> tuple[int, int]:
    """Channels and edges at a time for rows of `w` channels, a multiple of 32."""
    block, tile = sizes
    while w % block:
        block //= 2
    return block, tile


@triton.jit
def _mixed(x_ptr, parts_ptr, scale, row, inside, weight_ptr, bias_ptr, own_ptr, own_bias_ptr, size, D: tl.constexpr):
    """The states of some rows, and what is made of them and of their summary before the norm."""
    column = tl.arange(0, D)
    place = row[:, None] * D + column[None, :]
    shown = inside[:, None]
    x = tl.load(x_ptr + place, mask=shown, other=0.0)
    zero = tl.zeros(place.shape, tl.float32)
    plain, up, down = zero, zero, zero
    for part in tl.static_range(4):
        value = tl.load(parts_ptr + place, mask=shown, other=0.0)
        plain += tl.dot(value, tl.trans(_weight(weight_ptr, 0, part, D)))
        up += tl.dot(value, tl.trans(_weight(weight_ptr, 1, part, D)))
        down += tl.dot(value, tl.trans(_weight(weight_ptr, 2, part, D)))
        place += size
    plain += tl.load(bias_ptr + column)[None, :]
    up += tl.load(bias_ptr + D + column)[None, :]
    down += tl.load(bias_ptr + 2 * D + column)[None, :]
    own = tl.dot(x, tl.load(own_ptr + column[None, :] * D + column[:, None])) + tl.load(own_bias_ptr + column)[None, :]
    return own + plain + up * scale[:, None] + down / scale[:, None], x


@triton.jit
def _weight(weight_ptr, group, part, D: tl.constexpr):
    """One square of the weights [3 · D, 4 · D], as rows of outputs."""
    column = tl.arange(0, D)
    return tl.load(weight_ptr + (group * D + column[:, None]) * (4 * D) + part * D + column[None, :])


@triton.jit
def _normed(mixed, gain_ptr, shift_ptr, D: tl.constexpr):
    """The norm of each row: the rows of mean 0 and variance 1, one over their deviation, and the result."""
    column = tl.arange(0, D)
    centred = mixed - (tl.sum(mixed, 1) / D)[:, None]
    inverse = 1 / tl.sqrt(tl.sum(centred * centred, 1) / D + 1e-5)
    unit = centred * inverse[:, None]
    return unit, inverse, unit * tl.load(gain_ptr + column)[None, :] + tl.load(shift_ptr + column)[None, :]


@triton.jit
def _update(
    x_ptr, parts_ptr, scale_ptr, weight_ptr, bias_ptr, own_ptr, own_bias_ptr, gain_ptr, shift_ptr, out_ptr,
    rows, queries, D: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    scale = tl.load(scale_ptr + row // queries, mask=inside, other=1.0)
    mixed, x = _mixed(
        x_ptr, parts_ptr, scale, row, inside, weight_ptr, bias_ptr, own_ptr, own_bias_ptr, rows.to(tl.int64) * D, D
    )
    _, _, normed = _normed(mixed, gain_ptr, shift_ptr, D)
    new = x.to(tl.float32) + tl.maximum(normed, 0.0)
    place = row[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out_ptr + place, new.to(tl.bfloat16), mask=inside[:, None])


@triton.jit
def _update_back(
    x_ptr, parts_ptr, scale_ptr, weight_ptr, bias_ptr, own_ptr, own_bias_ptr, gain_ptr, shift_ptr, to_out_ptr,
    to_x_ptr, to_parts_ptr, to_mixed_ptr, to_gain_ptr, to_shift_ptr, rows, queries, D: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, D)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    shown = inside[:, None]
    place = row[:, None] * D + column[None, :]
    size = rows.to(tl.int64) * D
    scale = tl.load(scale_ptr + row // queries, mask=inside, other=1.0)
    mixed, _ = _mixed(x_ptr, parts_ptr, scale, row, inside, weight_ptr, bias_ptr, own_ptr, own_bias_ptr, size, D)
    unit, inverse, normed = _normed(mixed, gain_ptr, shift_ptr, D)
    to_out = _read(to_out_ptr, place, shown, 0.0)
    to_normed = tl.where(normed > 0, to_out, 0.0)
    tl.atomic_add(to_gain_ptr + column, tl.sum(to_normed * unit, 0))
    tl.atomic_add(to_shift_ptr + column, tl.sum(to_normed, 0))
    to_unit = to_normed * tl.load(gain_ptr + column)[None, :]
    centre, along = tl.sum(to_unit, 1) / D, tl.sum(to_unit * unit, 1) / D
    to_mixed = inverse[:, None] * (to_unit - centre[:, None] - unit * along[:, None])
    plain = to_mixed.to(tl.bfloat16)
    up, down = (to_mixed * scale[:, None]).to(tl.bfloat16), (to_mixed / scale[:, None]).to(tl.bfloat16)
    wide = row[:, None] * (3 * D) + column[None, :]
    tl.store(to_mixed_ptr + wide, plain, mask=shown)
    tl.store(to_mixed_ptr + wide + D, up, mask=shown)
    tl.store(to_mixed_ptr + wide + 2 * D, down, mask=shown)
    own = tl.load(own_ptr + column[:, None] * D + column[None, :])
    tl.store(to_x_ptr + place, (to_out + tl.dot(plain, own)).to(tl.bfloat16), mask=shown)
    for part in tl.static_range(4):
        back = tl.dot(plain, _weight(weight_ptr, 0, part, D))
        back += tl.dot(up, _weight(weight_ptr, 1, part, D))
        back += tl.dot(down, _weight(weight_ptr, 2, part, D))
        tl.store(to_parts_ptr + place, back.to(tl.bfloat16), mask=shown)
        place += size


class TritonUpdate(torch.autograd.Function):
    """The new states and their way back."""

    @staticmethod
    def forward(ctx, x, parts, scale, weight, bias, own, own_bias, gain, shift):
        width = len(gain)
        rows, queries = x.numel() // width, x.shape[1] // width
        half = weight.bfloat16().contiguous(), own.bfloat16().contiguous()
        given = x, parts, scale, half[0], bias, half[1], own_bias, gain, shift
        out = torch.empty_like(x)
        _update[(triton.cdiv(rows, ROWS),)](*given, out, rows, queries, D=width, ROWS=ROWS, num_warps=4)
        ctx.save_for_backward(*given)
        return out

    @staticmethod
    def backward(ctx, to_out):
        x, parts, *_, gain, shift = given = ctx.saved_tensors
        width = len(gain)
        rows, queries = x.numel() // width, x.shape[1] // width
        to_x, to_parts, to_mixed = torch.empty_like(x), torch.empty_like(parts), x.new_empty(rows, 3 * width)
        to_gain, to_shift = torch.zeros_like(gain), torch.zeros_like(shift)
        _update_back[(triton.cdiv(rows, ROWS),)](
            *given, to_out.contiguous(), to_x, to_parts, to_mixed, to_gain, to_shift,
            rows, queries, D=width, ROWS=ROWS, num_warps=4,
        )  # fmt: skip
        to_weight = torch.cat([(to_mixed.T @ part.view(rows, width)).float() for part in parts], 1)
        plain = to_mixed[:, :width]
        to_own = (plain.T @ x.view(rows, width)).float()
        to_bias = to_mixed.sum(0, dtype=torch.float32)
        return to_x, to_parts, None, to_weight, to_bias, to_own, to_bias[:width].clone(), to_gain, to_shift


def triton_layer(
    x: Tensor, relation: Tensor, boundary: Tensor, graph: MessageGraph, visible: Tensor, degree: Tensor, scale: Tensor,
    *weights: Tensor,
) -> Tensor:  # fmt: skip
    """`CompiledLayer` on a GPU."""
    parts = TritonAggregate.apply(x, relation.to(x.dtype), boundary, graph, visible, degree)
    return TritonUpdate.apply(x, parts, scale, *weights)
