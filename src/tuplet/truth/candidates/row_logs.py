"""The rows of one relation in one direction, scored by one predictor against some columns, block by block."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch

from tuplet.errors import BadInput
from tuplet.predict.base import (
    LinkPredictor,
    column_scores,
    device_of,
    edge_scores,
    row_scores,
    scores_columns,
    sees_facts,
)
from tuplet.truth.edge_counts import sum_by_row
from tuplet.truth.rules import Calibration

Tensor = torch.Tensor

_BYTES_PER_SCORE = 12  # score, its mark, and room for what the predictor needs itself
_MOST_SCORES = 1 << 24  # in a block: more would leave the caches without being faster
_MOST_ON_GPU = 1 << 30  # torch.nonzero counts in 32 bits
_PAIRS = 1 << 16  # scored one by one at a time
LOWEST_SCORE = -1e9  # of what is left out of a sum of exponentials
HIDDEN = 0.1  # about so many facts are missing for each that is known, where nothing else is known about a row
DEARER = 32  # so many times as much a single edge costs as an entry of a block


@dataclass(frozen=True)
class HalfLinks:
    """Rows (entity, relation, direction) with their known facts, and the columns that are worth scoring there."""

    relation: int
    inverse: bool  # rows are tails and columns heads
    rows: Tensor  # ascending ids
    columns: Tensor  # ascending ids, the ends of all known facts among them
    known_rows: Tensor  # the known facts, in order of their rows: places in `rows`
    known_ends: Tensor  # and their ids at the other end

    @staticmethod
    def of(
        relation: int, inverse: bool, heads: Tensor, tails: Tensor, columns: Tensor, rows: Tensor | None = None
    ) -> HalfLinks:
        """Those of the known facts of a relation; with `rows` all of these, whether they have a fact or not."""
        near, far = (tails, heads) if inverse else (heads, tails)
        order = torch.argsort(near, stable=True)
        chosen = torch.unique_consecutive(near[order]) if rows is None else rows
        return HalfLinks(relation, inverse, chosen, columns, torch.searchsorted(chosen, near[order]), far[order])

    def without_rows(self) -> HalfLinks:
        """The same of which nothing is to be computed."""
        none = self.rows[:0]
        return replace(self, rows=none, known_rows=none, known_ends=none)


@dataclass
class RowLogs:
    """Log truth of half-links: softmax over the columns, turned into truth by a rule.

    The ends of known facts are among the columns of the softmax, unless the predictor sees the facts themselves: what
    it says of those means nothing then.

    A predictor that scores columns computes them alone. One that gives whole rows alone is asked once, since its rows
    may be dear: they are held, in half precision if there are many. What is outside of the columns has a log there too.
    """

    predictor: LinkPredictor
    links: HalfLinks
    rule: Calibration
    block: int  # rows at a time
    held_as: torch.dtype | None  # how blocks are kept, to be looked at again; None: they are computed again
    shifts: Tensor = field(init=False)  # [rows] score − shift = log truth; known once all blocks were computed
    _held: list[Tensor] = field(init=False, default_factory=list)

    @staticmethod
    def of(predictor: LinkPredictor, links: HalfLinks, rule: Calibration, memory: int) -> RowLogs:
        """Such that at most about `memory` bytes are used, beside the half precision rows that must be held."""
        whole = not scores_columns(predictor)
        width = predictor.entities if whole else max(1, len(links.columns))
        cells = width * max(1, int(getattr(predictor, "cells_per_score", 1)))
        most = _MOST_SCORES if device_of(predictor).type == "cpu" else _MOST_ON_GPU
        block = max(1, min(most, memory // _BYTES_PER_SCORE) // cells)
        fits = 8 * len(links.rows) * width <= memory
        return RowLogs(predictor, links, rule, block, torch.float32 if fits else torch.float16 if whole else None)

    @property
    def whole(self) -> bool:
        """Whether the blocks hold all entities, not the columns alone."""
        return not scores_columns(self.predictor)

    def blocks(self) -> Iterator[tuple[int, Tensor]]:
        """Where each block of rows starts, and its log truth [rows, columns or entities]; computed, or as held."""
        if self._held:
            for number, held in enumerate(self._held):
                yield number * self.block, held.float()
            return
        shifts, held_now = [], []
        for start in range(0, len(self.links.rows), self.block):
            logs, shift = self._compute(start, start + self.block)
            shifts.append(shift)
            if self.held_as:
                held_now.append(logs.to(self.held_as))
            yield start, logs
        self._held = held_now
        self.shifts = torch.cat([torch.zeros(0, device=self.links.rows.device), *shifts])

    def swept(self) -> RowLogs:
        """The same, all rows computed once: what single edges are asked for needs their shifts."""
        for _ in self.blocks():
            pass
        return self

    def _compute(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        links, predictor = self.links, self.predictor
        rows = links.rows[start:stop]
        if self.whole:
            scores = row_scores(predictor, rows, links.relation, links.inverse)
            asked = scores[:, links.columns]
        else:
            scores = asked = column_scores(predictor, rows, links.relation, links.inverse, links.columns)
        row, place = self._known(start, stop)
        own = asked[row, place]
        normaliser = torch.logsumexp(asked, 1)
        if sees_facts(predictor):
            unknown = torch.logsumexp(asked.index_put((row, place), asked.new_tensor(LOWEST_SCORE)), 1)
            normaliser = torch.where(unknown > LOWEST_SCORE / 2, unknown, normaliser)  # unless every end is known
        if not bool(normaliser.isfinite().all()):
            raise BadInput(f"{type(predictor).__name__} gives scores that are not finite numbers")
        highest = torch.full((len(scores),), -math.inf, device=scores.device).scatter_reduce(0, row, own, "amax")
        total = sum_by_row(torch.exp(own - highest[row]), row, len(scores))
        count = torch.bincount(row, minlength=len(scores)).float()
        if sees_facts(predictor):
            count = count * HIDDEN  # all the mass is that of unknown ends
        shift = self.rule.shift(count, highest + total.log(), normaliser)
        return scores - shift[:, None], shift

    def _known(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Rows, from `start` on, and places among the columns of the known facts of some rows."""
        links, bounds = self.links, torch.tensor([start, stop], device=self.links.rows.device)
        begin, end = torch.searchsorted(links.known_rows, bounds).tolist()
        return links.known_rows[begin:end] - start, torch.searchsorted(links.columns, links.known_ends[begin:end])

    def reaching(self, floor: float) -> Tensor:
        """Keys head · entities + tail of the entries that reach the floor."""
        links, keys = self.links, [torch.zeros(0, dtype=torch.int64, device=self.links.rows.device)]
        for start, logs in self.blocks():
            row, place = torch.nonzero(logs >= math.log(floor), as_tuple=True)
            keys.append(self._key(links.rows[row + start], place if self.whole else links.columns[place]))
        return torch.cat(keys)

    def _key(self, near: Tensor, far: Tensor) -> Tensor:
        size = self.predictor.entities
        return far * size + near if self.links.inverse else near * size + far

    def at(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Log truth of single edges [n] → float32 [n].

        NaN where a predictor of whole rows was not asked for the row, and where it sees the edge itself.
        """
        out = torch.full((len(heads),), math.nan, device=heads.device)
        near, far = (tails, heads) if self.links.inverse else (heads, tails)
        row, is_row = _find(self.links.rows, near)
        column, is_column = (far, torch.ones_like(is_row)) if self.whole else _find(self.links.columns, far)
        if self.held_as is None and DEARER * len(heads) < len(self.links.rows) * len(self.links.columns):
            is_column = torch.zeros_like(is_row)  # cheaper one by one than all blocks once more
        inside = torch.nonzero(is_row & is_column).view(-1)
        if len(self.links.rows) > self.block:
            inside = inside[torch.argsort(row[inside], stable=True)]
            bounds = torch.arange(0, len(self.links.rows) + self.block, self.block, device=heads.device)
            ends = torch.searchsorted(row[inside], bounds).tolist()
        else:
            ends = [0, len(inside)]
        for number, (start, logs) in enumerate(self.blocks() if len(inside) else ()):
            mine = inside[ends[number] : ends[number + 1]]
            out[mine] = logs[row[mine] - start, column[mine]]
        outside = torch.nonzero(is_row & ~is_column).view(-1)
        links, ids = self.links, (heads[outside], tails[outside])
        scores = edge_scores(self.predictor, ids[0], links.relation, ids[1], links.inverse, _PAIRS)
        out[outside] = scores - self.shifts[row[outside]]
        if not self.whole and not sees_facts(self.predictor):
            self._fill_others(out, heads, tails, torch.nonzero(~is_row).view(-1))
        if sees_facts(self.predictor):
            known = torch.sort(self._key(links.rows[links.known_rows], links.known_ends)).values
            out[_find(known, self._key(near, far))[1]] = math.nan
        return out

    def _fill_others(self, out: Tensor, heads: Tensor, tails: Tensor, places: Tensor) -> None:
        """The same for edges whose row has no fact; too many rows to be scored before it is known who is listed."""
        links, predictor, ids = self.links, self.predictor, (heads[places], tails[places])
        rows, row = torch.unique(ids[1] if links.inverse else ids[0], return_inverse=True)
        shifts = [torch.zeros(0, device=out.device)]
        for some in torch.split(rows, self.block):
            scores = column_scores(predictor, some, links.relation, links.inverse, links.columns)
            none = torch.zeros(len(some), device=out.device)
            shifts.append(self.rule.shift(none, none - math.inf, torch.logsumexp(scores, 1)))
        scores = edge_scores(predictor, ids[0], links.relation, ids[1], links.inverse, _PAIRS)
        out[places] = scores - torch.cat(shifts)[row]


def _find(ids: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Place of each wanted id among ascending ones, and whether it is there."""
    if not len(ids):
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(ids, wanted).clamp(max=len(ids) - 1)
    return place, ids[place] == wanted
