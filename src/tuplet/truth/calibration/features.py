"""What is known about a candidate edge, one column of numbers each: what scorers say of it and how they agree, how it
stands in its rows, counts, types, rules, paths of two steps, dates.

Everything comes from the candidates themselves and from the edges that the predictors learned from. A known edge is
described as if it were unknown: it is left out of its own counts, ranks and rules. Needs torch and numpy alone, but
for the paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from tuplet.truth.known_edges import TrainEdges, sum_by_row

Tensor = torch.Tensor

LOWEST = -20.0  # log truth of what is not there
_BLOCK = 1 << 20  # candidates at a time, in whole relations

# The columns by group: each scorer has its own of those that begin with a dot, each direction of those that end in a
# dash. What a scorer says is not a number (NaN) where it did not compute the row.
GROUPS: dict[str, tuple[str, ...]] = {
    "score": ("log_truth",),
    "directions": (".log-", ".log_softmax-"),
    "row": (".rank-", ".above-", ".margin-", ".mass-", ".known_mean-"),
    "agreement": (".level", ".best", "level", "worst", "ranks", "best_rank"),
    "counts": ("count-", "degree-", "candidates-", "counts", "degrees"),
    "relation": ("entities-", "fan-", "frequency", "unknown", "known_share", "excess"),
    "types": ("type-", "types-"),
    "rules": ("rule", "rules", "links"),
    "paths": ("path", "paths", "path_count"),
    "time": ("age-", "first-", "lately-", "row_age-", "row_lately-", "relation_age", "relation_lately"),
}
DIRECTIONS = ("tails", "heads")


def column_names(scorers: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names of all columns in their order; `without` leaves out groups, or single columns.

    >>> column_names(without=("row", "counts", "relation", "types", "paths", "time"))
    ('log_truth', 'rule', 'rules', 'links')
    >>> column_names(("complex",), without=tuple(group for group in GROUPS if group != "directions"))
    ('complex.log-tails', 'complex.log-heads', 'complex.log_softmax-tails', 'complex.log_softmax-heads')
    """
    names: list[str] = []
    for group, columns in GROUPS.items():
        if group in without or (group in ("directions", "agreement") and not scorers):
            continue
        for column in columns:
            if column in without:
                continue
            # where nobody says who made the truth, it stands in its rows itself
            owned = [scorer + column for scorer in scorers] if column.startswith(".") else [column]
            owned = owned or [column.removeprefix(".")]
            names += [name + side for name in owned for side in DIRECTIONS] if column.endswith("-") else owned
    return tuple(names)


class Candidates(NamedTuple):
    """Edges in order of (relation, head, tail) with their log truth and what each scorer says in each direction."""

    heads: Tensor  # int64 [n]
    relation: Tensor
    tails: Tensor
    log_truth: Tensor  # float32 [n] of all scorers together
    scorers: tuple[str, ...] = ()
    logs: Tensor | None = None  # float32 [scorers, 2, n] at most 0, NaN: not computed; None: nobody says who said it

    def where(self, keep: Tensor | slice) -> Candidates:
        """Some of them, by ascending places. [n]"""
        heads, relation, tails, log_truth = (side[keep] for side in self[:4])
        logs = None if self.logs is None else self.logs[:, :, keep]
        return Candidates(heads, relation, tails, log_truth, self.scorers, logs)

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


def columns(known: TrainEdges, edges: Candidates, names: tuple[str, ...]) -> Tensor:
    """The named columns of all candidates, block by block. float16 [columns, n]"""
    out = torch.empty((len(names), len(edges.heads)), dtype=torch.float16)
    for start, stop in edges.blocks():
        found = _block(known, edges.where(slice(start, stop)))
        for place, name in enumerate(names):
            out[place, start:stop] = found[name].clamp(-60_000, 60_000)
    return out


def _block(known: TrainEdges, edges: Candidates) -> dict[str, Tensor]:
    """All columns of the candidates of some relations."""
    marked = known.has(*edges[:3])
    unknown = ~marked
    out = {"log_truth": edges.log_truth}
    own = None if known.times is None else known.own_date(*edges[:3])
    sides = ((edges.heads, 2 * edges.relation), (edges.tails, 2 * edges.relation + 1))
    for side, (name, (entity, view)) in enumerate(zip(DIRECTIONS, sides, strict=True)):
        rows, row = _rows(view * known.entities + entity)
        count = known.count(rows)[row] - marked.long()
        ends = 1 + (edges.heads == edges.tails).long()
        out["count-" + name] = count.float()
        out["degree-" + name] = (known.degree[entity] - marked.long() * ends).float()
        out["candidates-" + name] = (torch.bincount(row[unknown], minlength=len(rows))[row] - unknown.long()).float()
        out["entities-" + name] = known.view_entities[view].float()
        out["fan-" + name] = known.view_edges[view] / known.view_entities[view].clamp(min=1)
        if known.times is not None and own is not None:
            dated = known.times.ages(known.times.entities, entity, own)
            out["age-" + name], out["first-" + name], out["lately-" + name] = dated
            out["row_age-" + name], out["row_lately-" + name] = known.row_ages(rows, row, own)
        best, none = known.type_support(rows)
        out["type-" + name], out["types-" + name] = best[row], none[row]
        said = {"": edges.log_truth}
        if edges.logs is not None:
            said = {scorer + ".": edges.logs[place, side] for place, scorer in enumerate(edges.scorers)}
        for scorer, log in said.items():
            out[f"{scorer}log-{name}"] = log
            out[f"{scorer}log_softmax-{name}"] = log - count.clamp(min=1).log()
            for what, column in _within_row(row, len(rows), log, unknown, count).items():
                out[f"{scorer}{what}-{name}"] = column
    for product, factor in (("counts", "count-"), ("degrees", "degree-")):  # logs, for two popular ends
        out[product] = out[factor + "tails"].log1p() + out[factor + "heads"].log1p()
    out |= _agreement(edges, out)
    out |= _relations(known, edges, unknown)
    out |= dict(zip(GROUPS["rules"], known.rule_support(*edges[:3]), strict=True))
    if known.times is not None and own is not None:
        age, _, lately = known.times.ages(known.times.relations, edges.relation, own)
        out |= {"relation_age": age, "relation_lately": lately}
    if known.two_step is not None:
        ids = (side.numpy() for side in edges[:3])
        for name, said_by_paths in zip(GROUPS["paths"], known.two_step.columns(*ids), strict=True):
            out[name] = torch.from_numpy(said_by_paths)
    return out


def _rows(code: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows, and the row of each candidate."""
    if bool((code[1:] >= code[:-1]).all()):
        rows, row = torch.unique_consecutive(code, return_inverse=True)
    else:
        rows, row = torch.unique(code, return_inverse=True)
    return rows, row


def _within_row(row: Tensor, rows: int, given: Tensor, unknown: Tensor, count: Tensor) -> dict[str, Tensor]:
    """How a candidate stands among the unknown candidates of its row, and how the known ones of the row fare."""
    absent = torch.isnan(given)
    log = given.nan_to_num(LOWEST)
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
    best, second = (torch.full((rows,), LOWEST) for _ in range(2))
    leads, follows = unknown & (rank == 0), unknown & (rank == 1)
    best[row[leads]], second[row[follows]] = log[leads], log[follows]
    found = {
        "rank": rank,
        "above": higher,
        "margin": log - torch.where(leads, second[row], best[row]),
        "mass": (total[row] - torch.where(unknown, truth, 0)).clamp(min=0),
        "known_mean": (known_total[row] - torch.where(unknown, 0, truth)).clamp(min=0) / count.clamp(min=1),
    }
    return {name: torch.where(absent, torch.nan, column) for name, column in found.items()}


def _agreement(edges: Candidates, found: dict[str, Tensor]) -> dict[str, Tensor]:
    """Whether scorers and directions say the same: mean and extremes of logs, and of logs of ranks."""
    if edges.logs is None:
        return {}
    ranks = torch.stack([found[f"{name}.rank-{side}"] for name in edges.scorers for side in DIRECTIONS]).log1p()
    logs = edges.logs.flatten(0, 1)
    out = {
        "level": logs.nanmean(0),
        "worst": _least(logs),
        "ranks": ranks.nanmean(0),
        "best_rank": _least(ranks),
    }
    for scorer, sides in zip(edges.scorers, edges.logs, strict=True):
        out |= {scorer + ".level": sides.nanmean(0), scorer + ".best": -_least(-sides)}
    return out


def _least(numbers: Tensor) -> Tensor:
    """The smallest in each column of those that are numbers. [n, m] → [m]"""
    least = numbers.nan_to_num(torch.inf).amin(0)
    return torch.where(least.isinf(), torch.nan, least)


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
