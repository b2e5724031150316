"""The graph of relations: how the kinds of edges of a graph meet each other. Needs torch and numpy alone.

Its entities are the 2 · relations kinds of edges (each relation, and each against its direction). An edge from a to b
tells one of these:

- they share ends: both leave an entity, one ends where the other leaves, or both end there (four cases);
- they join the same pairs of entities;
- of a kind to itself: how many edges of it leave an entity, on the average.

How much is shared is told coarsely, as three levels of the share of a and three of the share of b. Without that, all
relations of a dense graph meet all others, and look alike; told finely, a network would know a relation of its training
graphs by its numbers. While a network learns, some graphs tell less (`Telling`): it must not rest on levels alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from tuplet.predict.paths.message_graph import MessageGraph

Tensor = torch.Tensor

SHARES = 0.1, 0.5  # bounds of the levels of a share, which count from 0
FAN_OUTS = 1.2, 3.0, 10.0  # bounds of the levels of edges for each entity that they leave
CASES = 5  # ends in four ways, and pairs
LEVELS = (len(SHARES) + 1) ** 2
MEETINGS = CASES * LEVELS + len(FAN_OUTS) + 2  # kinds of edges between relations; one is not used, so that it is even

_PAIRS = 1 << 22  # of kinds that are counted at a time


class Telling(NamedTuple):
    """What meetings tell beside that there are any."""

    shares: tuple[float, float] = SHARES
    levels: bool = True  # or all are level 1
    fan_outs: bool = True


def meetings_of(graph: MessageGraph, telling: Telling) -> MessageGraph:
    """How the kinds of edges of a graph meet.

    >>> import numpy as np
    >>> from tuplet.predict.paths.message_graph import MessageGraph
    >>> facts = np.array([0, 1]), np.array([0, 1]), np.array([1, 2])  # 0 -r0-> 1 -r1-> 2
    >>> met = meetings_of(MessageGraph.of(facts, entities=3, relations=2), Telling())
    >>> found = sorted(zip(met.source.tolist(), (met.relation // LEVELS).tolist(), met.target.tolist()))
    >>> (0, 1, 1) in found, (1, 2, 0) in found, (0, 0, 1) in found
    (True, True, False)
    """
    kinds = 2 * graph.relations
    ends, pairs = _shared_ends(graph), _shared_pairs(graph)
    other = torch.arange(kinds, device=graph.device).roll(graph.relations)  # of each kind: against its direction
    # What ends at an entity leaves it against its direction.
    cases = [ends, ends[other], ends[:, other], ends[other][:, other], pairs]
    sizes = ends.diagonal(), pairs.diagonal()
    of_first = [sizes[0], sizes[0][other], sizes[0], sizes[0][other], sizes[1]]
    of_second = [sizes[0], sizes[0], sizes[0][other], sizes[0][other], sizes[1]]
    case, source, target = torch.nonzero(torch.stack(cases), as_tuple=True)
    count = torch.stack(cases)[case, source, target]
    first, second = (
        torch.bucketize(count / sizes[case, at], count.new_tensor(telling.shares))
        for sizes, at in ((torch.stack(of_first), source), (torch.stack(of_second), target))
    )
    if not telling.levels:
        first, second = torch.ones_like(first), torch.ones_like(second)
    kind = (case * (len(SHARES) + 1) + first) * (len(SHARES) + 1) + second
    own = torch.nonzero(sizes[0] if telling.fan_outs else torch.zeros_like(sizes[0])).view(-1)
    fan_out = torch.bucketize(sizes[1][own] / sizes[0][own], sizes[0].new_tensor(FAN_OUTS)) + CASES * LEVELS
    source, target, kind = torch.cat([source, own]), torch.cat([target, own]), torch.cat([kind, fan_out])
    return type(graph).directed(source, target, kind, kinds, MEETINGS // 2)


def _shared_ends(graph: MessageGraph) -> Tensor:
    """How many entities both of two kinds of edges leave; each itself on the diagonal. [kinds, kinds]"""
    return _together(graph.source.long(), graph.relation, 2 * graph.relations)


def _shared_pairs(graph: MessageGraph) -> Tensor:
    """How many pairs of entities both of two kinds of edges join in the same direction. [kinds, kinds]"""
    return _together(graph.source.long() * graph.entities + graph.target, graph.relation, 2 * graph.relations)


def _together(place: Tensor, kind: Tensor, kinds: int) -> Tensor:
    """At how many places two kinds are; [n], [n] → [kinds, kinds]"""
    _, number = torch.unique(place, return_inverse=True)
    found = torch.unique(number * kinds + kind)  # in order of places
    at, kind = found // kinds, found % kinds
    count = torch.bincount(at)
    start, others = (count.cumsum(0) - count)[at], count[at]
    counts = torch.zeros(kinds * kinds, dtype=torch.int64, device=kind.device)
    until = others.cumsum(0)
    begin = 0
    while begin < len(at):  # every kind with all kinds of its place, so many pairs at a time
        before = int(until[begin - 1]) if begin else 0
        end = max(begin + 1, int(torch.searchsorted(until, before + _PAIRS, right=True)))
        mine = torch.repeat_interleave(torch.arange(begin, end, device=at.device), others[begin:end])
        step = torch.arange(len(mine), device=at.device) - (until - others)[mine] + before
        counts += torch.bincount(kind[mine] * kinds + kind[start[mine] + step], minlength=kinds * kinds)
        begin = end
    return counts.view(kinds, kinds).float()
