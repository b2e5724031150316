"""What is known about a candidate edge besides its score: ranks, counts, types and rules, one column of numbers each.

Everything comes from the candidates themselves and from the edges that the predictor learned from. A known edge is
described as if it were unknown: it is left out of its own counts, ranks and rules. Needs torch and numpy alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from tuplet.truth.entity_views import SHRINK, EntityViews, expand, portions, together
from tuplet.truth.sweep import sum_by_row

Tensor = torch.Tensor

LOWEST = -20.0  # log truth of what is not there
_BLOCK = 1 << 20  # candidates at a time, in whole relations

# The columns by group; a direction has its own of those that end in a dash.
GROUPS: dict[str, tuple[str, ...]] = {
    "score": ("log_truth",),
    "directions": ("log-", "log_softmax-"),
    "row": ("rank-", "above-", "margin-", "mass-", "candidates-", "known_mean-"),
    "counts": ("count-", "degree-"),
    "relation": ("entities-", "fan-", "frequency", "unknown", "known_share", "excess"),
    "types": ("type-", "types-"),
    "rules": ("rule", "rules", "links"),
}
DIRECTIONS = ("tails", "heads")


def column_names(directions: bool = True, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names of all columns in their order; `directions`: whether each direction's own score is known.

    >>> column_names(False, without=("row", "counts", "relation", "types"))
    ('log_truth', 'rule', 'rules', 'links')
    """
    names: list[str] = []
    for group, columns in GROUPS.items():
        if group in without or (group == "directions" and not directions):
            continue
        for name in columns:
            names += [name + side for side in DIRECTIONS] if name.endswith("-") else [name]
    return tuple(names)


class Candidates(NamedTuple):
    """Edges in order of (relation, head, tail) with log truth: the mean of both directions, and each if it is known."""

    heads: Tensor  # int64 [n]
    relation: Tensor
    tails: Tensor
    log_truth: Tensor  # float32 [n]
    forward: Tensor | None = None
    backward: Tensor | None = None

    def part(self, start: int, stop: int) -> Candidates:
        """Some of them in sequence."""
        return Candidates(*(None if column is None else column[start:stop] for column in self))  # type: ignore[arg-type]

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges of whole relations that hold about a million edges, or one relation."""
        ends = [*torch.nonzero(self.relation[1:] != self.relation[:-1]).view(-1).add(1).tolist(), len(self.relation)]
        start, last = 0, 0
        for end in ends:
            if end - start > _BLOCK and last > start:
                yield start, last
                start = last
            last = end
        if last > start:
            yield start, last


@dataclass(frozen=True)
class TrainEdges:
    """The edges that were learned from, arranged for lookups. A view is a relation in one direction: 2r, or 2r + 1."""

    entities: int
    relations: int
    keys: Tensor  # ascending numbers of the edges
    rows: Tensor  # ascending numbers view · entities + entity of the rows that have edges
    row_count: Tensor  # edges of each
    degree: Tensor  # [entities]
    types: EntityViews
    pairs: tuple[Tensor, Tensor]  # ascending pairs of entities, and a view that links them
    view_edges: Tensor  # [views]
    view_entities: Tensor  # [views]
    rule_counts: Tensor  # [views, views] pairs linked by u and v; the diagonal: by u

    @staticmethod
    def of(entities: int, relations: int, heads: Tensor, relation: Tensor, tails: Tensor) -> TrainEdges:
        """The known edges, each given once."""
        views = 2 * relations
        view = torch.cat([2 * relation, 2 * relation + 1])
        entity, other = torch.cat([heads, tails]), torch.cat([tails, heads])
        rows, row_count = torch.unique(view * entities + entity, return_counts=True)
        types = EntityViews.of(entities, relations, heads, relation, tails)
        by_pair = torch.sort((entity * entities + other) * views + view).values
        pair, pair_view = by_pair // views, by_pair % views
        counts = torch.unique_consecutive(pair, return_counts=True)[1]
        pair_start = torch.cat([counts.new_zeros(1), torch.cumsum(counts, 0)])
        return TrainEdges(
            entities,
            relations,
            torch.sort((relation * entities + heads) * entities + tails).values,
            rows,
            row_count,
            torch.bincount(entity, minlength=entities),
            types,
            (pair, pair_view),
            torch.bincount(view, minlength=views),
            torch.bincount(types.views, minlength=views),
            together(pair_start, pair_view, views),
        )


def _find(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Place of each wanted number in ascending ones, and whether it is there."""
    if not len(keys):
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return place, keys[place] == wanted


def is_known(known: TrainEdges, edges: Candidates) -> Tensor:
    """Marks the candidates that are known edges."""
    return _find(known.keys, (edges.relation * known.entities + edges.heads) * known.entities + edges.tails)[1]


def columns(known: TrainEdges, edges: Candidates, names: tuple[str, ...]) -> Tensor:
    """The named columns of all candidates, block by block. float16 [columns, n]"""
    out = torch.empty((len(names), len(edges.heads)), dtype=torch.float16, device=edges.heads.device)
    for start, stop in edges.blocks():
        found = _block(known, edges.part(start, stop))
        for place, name in enumerate(names):
            out[place, start:stop] = found[name].clamp(-60_000, 60_000)
    return out


def _block(known: TrainEdges, edges: Candidates) -> dict[str, Tensor]:
    """All columns of the candidates of some relations."""
    marked = is_known(known, edges)
    unknown = ~marked
    out = {"log_truth": edges.log_truth}
    sides = (
        (edges.heads, 2 * edges.relation, edges.forward),
        (edges.tails, 2 * edges.relation + 1, edges.backward),
    )
    for name, (entity, view, own) in zip(DIRECTIONS, sides, strict=True):
        log = edges.log_truth if own is None else own
        rows, row = _rows(view * known.entities + entity)
        place, there = _find(known.rows, rows)
        count = torch.where(there, known.row_count[place], 0)[row] - marked.long()
        if own is not None:
            out["log-" + name] = own
            out["log_softmax-" + name] = own - count.clamp(min=1).log()
        out["count-" + name] = count.float()
        out["degree-" + name] = (
            known.degree[entity] - marked.long() * (1 + (edges.heads == edges.tails).long())
        ).float()
        out["entities-" + name] = known.view_entities[view].float()
        out["fan-" + name] = known.view_edges[view] / known.view_entities[view].clamp(min=1)
        for what, column in _within_row(row, len(rows), log, unknown, count).items():
            out[f"{what}-{name}"] = column
        best, all_together = _types(known, rows)
        out["type-" + name], out["types-" + name] = best[row], all_together[row]
    out |= _relations(known, edges, unknown)
    out |= _rules(known, edges, marked)
    return out


def _rows(code: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows, and the row of each candidate."""
    if bool((code[1:] >= code[:-1]).all()):
        rows, row = torch.unique_consecutive(code, return_inverse=True)
    else:
        rows, row = torch.unique(code, return_inverse=True)
    return rows, row


def _within_row(row: Tensor, rows: int, log: Tensor, unknown: Tensor, count: Tensor) -> dict[str, Tensor]:
    """How a candidate stands among the unknown candidates of its row, and how the known ones of the row fare."""
    # Truth is below 1, so −log is positive and its bits are ordered as it is: (row, falling truth) is one number.
    falling = (-log).clamp(min=0).float().view(torch.int32).long()
    order = torch.argsort((row << 32) + falling)
    sorted_row, free = row[order], unknown[order].double()
    truth = log.exp()
    size = torch.bincount(row, minlength=rows)
    first = torch.cumsum(size, 0) - size
    mass = torch.where(unknown, truth, 0).double()[order]
    before, above = torch.cumsum(free, 0) - free, torch.cumsum(mass, 0) - mass
    rank = torch.empty_like(log)
    rank[order] = (before - before[first][sorted_row]).float()
    higher = torch.empty_like(log)
    higher[order] = (above - above[first][sorted_row]).float()
    total = sum_by_row(torch.where(unknown, truth, 0), row, rows)
    known_total = sum_by_row(torch.where(unknown, 0, truth), row, rows)
    best, second = (torch.full((rows,), LOWEST, device=log.device) for _ in range(2))
    leads, follows = unknown & (rank == 0), unknown & (rank == 1)
    best[row[leads]], second[row[follows]] = log[leads], log[follows]
    return {
        "rank": rank,
        "above": higher,
        "margin": log - torch.where(leads, second[row], best[row]),
        "mass": (total[row] - torch.where(unknown, truth, 0)).clamp(min=0),
        "candidates": torch.bincount(row[unknown], minlength=rows).float()[row],
        "known_mean": (known_total[row] - torch.where(unknown, 0, truth)).clamp(min=0) / count.clamp(min=1),
    }


def _types(known: TrainEdges, rows: Tensor) -> tuple[Tensor, Tensor]:
    """How much the other views of the entity of a row speak for its view: the best, and log of none being right."""
    best, none = (torch.zeros(len(rows), device=rows.device) for _ in range(2))
    view, entity = rows // known.entities, rows % known.entities
    start, views = known.types.start, known.types.views
    count = start[entity + 1] - start[entity]
    for begin, end in portions(count):
        part = slice(begin, end)
        owner, place = expand(start[entity[part]], count[part])
        other, mine = views[place], view[part][owner]
        confidence = torch.where(other == mine, 0, known.types.confidence[other, mine])
        best[part], none[part] = _best_and_none(confidence, owner, end - begin)
    return best, none


def _rules(known: TrainEdges, edges: Candidates, marked: Tensor) -> dict[str, Tensor]:
    """How much other relations between the two ends speak for this one: the best, log of none being right, how many."""
    best, none, links = (torch.zeros(len(edges.heads), device=edges.heads.device) for _ in range(3))
    pair, views = known.pairs
    wanted = edges.heads * known.entities + edges.tails
    start = torch.searchsorted(pair, wanted)
    count = torch.searchsorted(pair, wanted, right=True) - start
    linked = torch.nonzero(count).view(-1)
    for begin, end in portions(count[linked]):
        part = linked[begin:end]
        owner, place = expand(start[part], count[part])
        other, mine = views[place], 2 * edges.relation[part][owner]
        # A known edge does not confirm the rules that predict it.
        both = known.rule_counts[other, mine] - marked[part][owner].float()
        confidence = (both / (known.rule_counts[other, other] + SHRINK)).clamp(0, 1)
        confidence = torch.where(other == mine, 0, confidence)
        best[part], none[part] = _best_and_none(confidence, owner, end - begin)
        links[part] = torch.bincount(owner[other != mine], minlength=end - begin).float()
    return {"rule": best, "rules": none, "links": links}


def _best_and_none(confidence: Tensor, owner: Tensor, owners: int) -> tuple[Tensor, Tensor]:
    best = torch.zeros(owners, device=owner.device).scatter_reduce_(0, owner, confidence, "amax")
    return best, sum_by_row(torch.log1p(-confidence.clamp(max=0.999)), owner, owners)


def _relations(known: TrainEdges, edges: Candidates, unknown: Tensor) -> dict[str, Tensor]:
    """The size of the relation: known edges, unknown candidates, their ratio, and the mass of the unknown ones."""
    relation = edges.relation
    frequency = known.view_edges[::2].float()
    many = torch.bincount(relation[unknown], minlength=known.relations).float()
    mass = sum_by_row(torch.where(unknown, edges.log_truth.exp(), 0), relation, known.relations)
    return {
        "frequency": frequency[relation],
        "unknown": many[relation],
        "known_share": (frequency / (many + 1))[relation],
        "excess": (mass / frequency.clamp(min=1))[relation],
    }
