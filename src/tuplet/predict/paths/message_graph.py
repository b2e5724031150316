"""The edges that messages of a path network travel along, and how their kinds meet. Needs torch and numpy alone.

Every fact (h, r, t) is two edges: h to t by r, and t to h by r + relations. `MessageGraph` has them sorted in the three
ways that the kernels need.

The graph of relations has these 2 · relations kinds of edges as its entities. An edge from a to b says one of these:

- they share ends: both leave an entity, one ends where the other leaves, or both end there (four cases);
- they join the same pairs of entities;
- of a kind to itself: how many edges of it leave an entity, on the average.

How much is shared is one of three levels of the share of a and three of the share of b. Without levels, all relations
of a dense graph meet all others, and look alike; with fine ones, a network would recognise a relation of its training
graphs by its numbers. While a network learns, some graphs say less (`Telling`): it must not rest on levels alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from tuplet.predict.base import Triples, ranges, together

Tensor = torch.Tensor

SHARES = 0.1, 0.5  # bounds of the levels of a share, which count from 0
FAN_OUTS = 1.2, 3.0, 10.0  # bounds of the levels of edges for each entity that they leave
CASES = 5  # ends in four ways, and pairs
LEVELS = (len(SHARES) + 1) ** 2
MEETINGS = CASES * LEVELS + len(FAN_OUTS) + 2  # kinds of edges between relations; one is not used, so that it is even

_CHUNK = 512  # edges of one relation that are summed at a time


class Telling(NamedTuple):
    """What meetings tell beside that there are any."""

    shares: tuple[float, float] = SHARES
    levels: bool = True  # or all are level 1
    fan_outs: bool = True


def _together(place: Tensor, kind: Tensor, kinds: int) -> Tensor:
    """At how many places two kinds are, on the diagonal one; [n], [n] → [kinds, kinds]"""
    _, number = torch.unique(place, return_inverse=True)
    found = torch.unique(number * kinds + kind)  # in order of places
    at, kind = found // kinds, found % kinds
    return together(_starts(torch.bincount(at)).long(), kind, kinds)


class RelationChunks(NamedTuple):
    """Edges by relation, in ranges of one relation each; `edge` is their number in the order by target."""

    relation: Tensor  # int32 [chunks]
    start: Tensor
    stop: Tensor
    source: Tensor  # int32 [edges]
    target: Tensor
    edge: Tensor


@dataclass(frozen=True)
class MessageGraph:
    """Edges by target (the order that numbers them) and by source. All ids are int32.

    >>> graph = MessageGraph.from_facts((np.array([0, 0]), np.array([0, 0]), np.array([1, 2])), entities=3, relations=1)
    >>> graph.source.tolist(), graph.relation.tolist(), graph.target.tolist()
    ([1, 2, 0, 0], [1, 1, 0, 0], [0, 0, 1, 2])
    >>> hidden = graph.visible(torch.tensor([0]), torch.tensor([0]), torch.tensor([2]), whole_pairs=False)
    >>> hidden.tolist()  # neither the edge nor its inverse is seen
    [1, 0, 1, 0]
    """

    entities: int
    relations: int
    start: Tensor  # [entities + 1] where the edges into each entity start
    source: Tensor  # [edges]
    relation: Tensor  # [edges] r, or r + relations against its direction
    target: Tensor  # [edges]
    busiest: Tensor  # [entities] the entities by falling degree: the longest work is begun first
    out_start: Tensor  # [entities + 1] where the edges out of each entity start
    out_target: Tensor  # [edges]
    out_relation: Tensor  # [edges]
    out_edge: Tensor  # [edges] number of the edge in the order by target
    telling: Telling = Telling()

    @staticmethod
    def from_facts(facts: Triples, entities: int, relations: int, device: torch.device | str = "cpu") -> MessageGraph:
        """The edges of some facts in both directions."""
        heads, relation, tails = (torch.from_numpy(np.asarray(side, dtype=np.int64)).to(device) for side in facts)
        ends = torch.cat([heads, tails]), torch.cat([tails, heads])
        return MessageGraph.from_directed(*ends, torch.cat([relation, relation + relations]), entities, relations)

    @staticmethod
    def from_directed(source: Tensor, target: Tensor, kind: Tensor, entities: int, relations: int) -> MessageGraph:
        """These edges as they are, of 2 · relations kinds. int64 [edges] each"""
        order = torch.argsort(target, stable=True)
        source, kind, target = source[order], kind[order], target[order]
        degree = torch.bincount(target, minlength=entities)
        by_source = torch.argsort(source, stable=True)
        return MessageGraph(
            entities,
            relations,
            _starts(degree),
            source.int(),
            kind.int(),
            target.int(),
            torch.argsort(degree, descending=True, stable=True).int(),
            _starts(torch.bincount(source, minlength=entities)),
            target[by_source].int(),
            kind[by_source].int(),
            by_source.int(),
        )

    @property
    def device(self) -> torch.device:
        return self.source.device

    @cached_property
    def all_visible(self) -> Tensor:
        """Marks every edge as seen. uint8 [edges]"""
        return torch.ones(len(self.source), dtype=torch.uint8, device=self.device)

    @cached_property
    def chunks(self) -> RelationChunks:
        """The edges by relation."""
        order = torch.argsort(self.relation, stable=True)
        starts = _starts(torch.bincount(self.relation, minlength=2 * self.relations)).tolist()
        ranges = [
            (number, at, min(at + _CHUNK, end))
            for number, (begin, end) in enumerate(pairwise(starts))
            for at in range(begin, end, _CHUNK)
        ]
        number, start, stop = torch.tensor(ranges, dtype=torch.int32, device=self.device).T.contiguous()
        return RelationChunks(number, start, stop, self.source[order], self.target[order], order.int())

    @cached_property
    def meetings(self) -> MessageGraph:
        """How the kinds of edges meet: they are the entities of this graph.

        >>> facts = np.array([0, 1]), np.array([0, 1]), np.array([1, 2])  # 0 -r0-> 1 -r1-> 2
        >>> met = MessageGraph.from_facts(facts, entities=3, relations=2).meetings
        >>> found = sorted(zip(met.source.tolist(), (met.relation // LEVELS).tolist(), met.target.tolist()))
        >>> (0, 1, 1) in found, (1, 2, 0) in found, (0, 0, 1) in found
        (True, True, False)
        """
        kinds, telling = 2 * self.relations, self.telling
        source, target = self.source.long(), self.target
        # how many entities both of two kinds leave, and how many pairs both join in the same direction [kinds, kinds]
        ends, pairs = (_together(place, self.relation, kinds) for place in (source, source * self.entities + target))
        other = torch.arange(kinds, device=self.device).roll(self.relations)  # of each kind: against its direction
        # What ends at an entity leaves it against its direction.
        cases = torch.stack([ends, ends[other], ends[:, other], ends[other][:, other], pairs])
        leave, join = ends.diagonal(), pairs.diagonal()
        of_first = torch.stack([leave, leave[other], leave, leave[other], join])
        of_second = torch.stack([leave, leave, leave[other], leave[other], join])
        case, source, target = torch.nonzero(cases, as_tuple=True)
        count = cases[case, source, target]
        first, second = (
            torch.bucketize(count / sizes[case, at], count.new_tensor(telling.shares))
            for sizes, at in ((of_first, source), (of_second, target))
        )
        if not telling.levels:
            first, second = torch.ones_like(first), torch.ones_like(second)
        kind = (case * (len(SHARES) + 1) + first) * (len(SHARES) + 1) + second
        own = torch.nonzero(leave if telling.fan_outs else torch.zeros_like(leave)).view(-1)
        fan_out = torch.bucketize(join[own] / leave[own], leave.new_tensor(FAN_OUTS)) + CASES * LEVELS
        source, target, kind = torch.cat([source, own]), torch.cat([target, own]), torch.cat([kind, fan_out])
        return MessageGraph.from_directed(source, target, kind, kinds, MEETINGS // 2)

    @cached_property
    def _by_pair(self) -> tuple[Tensor, Tensor]:
        """Ascending keys (source, target), and the number of the edge of each."""
        keys, order = torch.sort(self.source.long() * self.entities + self.target)
        return keys, order

    def visible(self, heads: Tensor, relation: Tensor, tails: Tensor, whole_pairs: bool) -> Tensor:
        """Marks the edges that are seen when some are hidden: each and its inverse, or all between its ends. [edges]

        `relation` may be r + relations; then `heads` is the entity that the relation starts from, walked backwards.
        """
        mark = self.all_visible.clone()
        keys, numbers = self._by_pair
        inverse = torch.where(relation < self.relations, relation + self.relations, relation - self.relations)
        wanted = torch.cat([heads * self.entities + tails, tails * self.entities + heads])
        kinds = torch.cat([relation, inverse])
        begin, end = torch.searchsorted(keys, wanted), torch.searchsorted(keys, wanted, right=True)
        owner, place = ranges(begin, end - begin)
        found = numbers[place]
        mark[found if whole_pairs else found[self.relation[found] == kinds[owner]]] = 0
        return mark

    def degrees(self, visible: Tensor) -> Tensor:
        """Visible edges into each entity, and the boundary as one more. float32 [entities]

        Of the *visible* edges: degrees of the whole graph would tell which edges were hidden, and a network that
        learns to read them off has learned nothing about facts that nobody knows.
        """
        seen = torch.cat([visible.new_zeros(1, dtype=torch.int32), visible.cumsum(0, dtype=torch.int32)])
        return (seen[self.start[1:].long()] - seen[self.start[:-1].long()] + 1).float()


def _starts(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)]).int()
