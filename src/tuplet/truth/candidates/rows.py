"""The rows of one relation in one direction, scored by one predictor against some columns, block by block.

Scores that are inner products are never written whole: rows [n, width] meet columns [m, width] tile by tile, and a tile
is looked at and forgotten. On a GPU kernels do that where the tile lies (`product_kernels`, needs Triton).

On the CPU the best columns of a row can be found without scoring all of them. Columns lie in cells (k-means), and of
each cell the mean and the variance are known. They promise a row how much the cell weighs in its softmax, and the row
looks into the cells that promise most, until it has seen as many columns as it may. What it is divided by is the sum
over these and, for all others, what their cells promise. All rows that look into a cell do so at once, so that the work
is that of matrix products.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import torch

from tuplet.errors import BadInput
from tuplet.predict.base import (
    LinkPredictor,
    column_scores,
    device_of,
    edge_scores,
    row_scores,
    score_factors,
    scores_columns,
    sees_facts,
)
from tuplet.truth.edges import SearchCheck
from tuplet.truth.known_edges import find_places, sum_by_row
from tuplet.truth.rules import Calibration

Tensor = torch.Tensor
Tile: TypeAlias = tuple[Tensor, Tensor, Tensor]  # numbers of rows, numbers of columns, scores

_TILE_ROWS, _TILE_COLUMNS = 512, 2048  # 4 MB of scores


def has_kernels(device: torch.device) -> bool:
    """Whether kernels compute inner products there."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def score_products(rows: Tensor, columns: Tensor) -> ScoreProducts:
    """Inner products of rows [n, width] and columns [m, width], by kernels."""
    from tuplet.truth.candidates.product_kernels import KernelProducts

    return KernelProducts(rows, columns)


class ScoreProducts:
    """Inner products of rows and columns on the CPU, by plain torch, tile by tile.

    >>> products = ScoreProducts(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 5.0], [3.0, 7.0]]))
    >>> round(float(products.log_sums().exp()), 3)  # exp(0) + exp(3)
    21.086
    >>> products.count_reaching(torch.tensor([[0.0, 1.0, 4.0]])).tolist()
    [[2, 1, 0]]
    >>> products.list_reaching(torch.tensor([1.0]))
    (tensor([0]), tensor([1]))
    """

    def __init__(self, rows: Tensor, columns: Tensor) -> None:
        self.rows, self.columns = rows.float(), columns.float()

    def tiles(self, least: Tensor | None = None) -> Iterator[Tile]:
        """Tiles that share the memory of one; those without a score of at least `least` [n] may be left out."""
        numbers = torch.arange(max(len(self.rows), len(self.columns)))
        room = torch.empty(min(_TILE_ROWS, len(self.rows)) * min(_TILE_COLUMNS, len(self.columns)))
        for begin in range(0, len(self.rows), _TILE_ROWS):
            some = self.rows[begin : begin + _TILE_ROWS]
            for first in range(0, len(self.columns), _TILE_COLUMNS):
                others = self.columns[first : first + _TILE_COLUMNS]
                scores = room[: len(some) * len(others)].view(len(some), len(others))
                torch.mm(some, others.T, out=scores)
                yield numbers[begin : begin + len(some)], numbers[first : first + len(others)], scores

    def log_sums(self) -> Tensor:
        """log Σ exp of the scores of each row. [n]"""
        sums = torch.full((len(self.rows),), -math.inf, device=self.rows.device)
        for own, _, scores in self.tiles():
            sums[own] = torch.logaddexp(sums[own], torch.logsumexp(scores, 1))
        return sums

    def count_reaching(self, thresholds: Tensor) -> Tensor:
        """How many scores of each row reach each of its thresholds. [n, levels] → int64 [n, levels]

        All scores are looked at once, against the lowest: few reach it, and only those are counted.
        """
        counts = torch.zeros(thresholds.shape, dtype=torch.int64, device=thresholds.device)
        lowest = thresholds.amin(1)
        for own, _, scores in self.tiles(lowest):
            row, column = torch.nonzero(scores >= lowest[own, None], as_tuple=True)
            found = scores[row, column]
            reached = (row[found >= level[row]] for level in thresholds[own].unbind(1))
            counts[own] += torch.stack([torch.bincount(rows, minlength=len(scores)) for rows in reached], 1)
        return counts

    def list_reaching(self, threshold: Tensor, counts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Row and column of each score that reaches the threshold of its row; `counts`, if known: how many. [n]"""
        found = [(none := torch.zeros(0, dtype=torch.int64, device=threshold.device), none)]
        for own, columns, scores in self.tiles(threshold):
            row, column = torch.nonzero(scores >= threshold[own, None], as_tuple=True)
            found.append((own[row], columns[column]))
        row, column = (torch.cat(side) for side in zip(*found, strict=True))
        return row, column


class WrittenScores(ScoreProducts):
    """A block of scores [n, m] that lies in memory: one tile."""

    def __init__(self, scores: Tensor) -> None:
        self.rows, self.scores = scores, scores

    def tiles(self, least: Tensor | None = None) -> Iterator[Tile]:
        numbers = torch.arange(max(self.scores.shape), device=self.scores.device)
        yield numbers[: len(self.scores)], numbers[: self.scores.shape[1]], self.scores


POINTS = 32  # columns of each cell, on average, that say where the cells lie
STEPS = 4  # of k-means
_MANY = 1 << 16  # columns at a time that are put into cells


class ColumnCells:
    """Columns [m, width] in cells, about as many as there are columns in one; the same ones each time."""

    def __init__(self, columns: Tensor) -> None:
        self.columns = columns = columns.float().contiguous()
        count = max(1, round(math.sqrt(len(columns))))
        generator = torch.Generator().manual_seed(0)
        some = columns[torch.randperm(len(columns), generator=generator)[: POINTS * count]]
        centres = some[:count]
        for _ in range(STEPS):
            cell = _nearest(some, centres)
            sums = torch.zeros_like(centres).index_add_(0, cell, some)
            sizes = torch.bincount(cell, minlength=count)[:, None]
            centres = torch.where(sizes > 0, sums / sizes.clamp(min=1), centres)
        cell = torch.cat([_nearest(part, centres) for part in torch.split(columns, _MANY)])
        _, cell, self.sizes = torch.unique(cell, return_inverse=True, return_counts=True)  # no cell is empty
        self.places = torch.argsort(cell, stable=True)  # of the columns, those of a cell together
        self.sorted = columns[self.places]
        self.starts = [0, *torch.cumsum(self.sizes, 0).tolist()]  # where each cell begins
        self.means, squares = (
            torch.zeros(len(self.sizes), columns.shape[1]).index_add_(0, cell, values) / self.sizes[:, None]
            for values in (columns, columns**2)
        )
        self.variances = (squares - self.means**2).clamp(min=0)

    def promise(self, rows: Tensor) -> Tensor:
        """log Σ exp of the scores of each cell, as if they were normal around their mean. [rows, cells]

        That is mean + log n + σ² / 2, unless they spread so far that numbers would weigh most that are too rare to be
        among n: then it is the largest one, √(2 log n) deviations from the mean. Both are one formula.
        """
        furthest = (2 * self.sizes.log()).sqrt()
        spread = (rows**2 @ self.variances.T).sqrt_()
        beyond = (furthest - spread).clamp_(min=0).square_().mul_(0.5)
        promised: Tensor = spread.mul_(furthest).add_(beyond).addmm_(rows, self.means.T)
        return promised


class CellProducts(ScoreProducts):
    """Inner products of rows with the columns that each row looks at."""

    def __init__(self, rows: Tensor, cells: ColumnCells, most: Tensor) -> None:
        """`most`: so many columns each row looks at, if that is no less than one cell; all of them are scored whole."""
        self.rows, self.cells = rows, cells
        wide = most >= len(cells.columns)
        self.many, self.few = (torch.nonzero(which).view(-1) for which in (wide, ~wide))
        self.whole = ScoreProducts(rows[self.many], cells.columns)
        mine = rows[self.few]
        self._promise = cells.promise(mine)
        order = torch.from_numpy(np.argsort(-self._promise.numpy(), 1))  # several times faster than torch
        looks = torch.cumsum(cells.sizes[order], 1) <= most[self.few, None]
        looks[:, :1] = True
        row, rank = torch.nonzero(looks, as_tuple=True)
        cell = order[row, rank]
        by_cell = torch.argsort(cell, stable=True)
        self._row, self._cell = row[by_cell], cell[by_cell]
        bounds = torch.searchsorted(self._cell, torch.arange(len(cells.sizes) + 1)).tolist()
        self._looks = []  # the rows that look into a cell, where it begins, and the scores
        tops = [torch.zeros(0)]
        for number, (begin, end) in enumerate(pairwise(bounds)):
            if begin < end:
                start, stop = cells.starts[number : number + 2]
                scores = mine[self._row[begin:end]] @ cells.sorted[start:stop].T
                tops.append(scores.amax(1))
                self._looks.append((slice(begin, end), start, scores))
        self._top = torch.cat(tops)

    def log_sums(self) -> Tensor:
        """log Σ exp of the scores of each row: of those looked at, and of the others as promised."""
        sums = [torch.zeros(0)]
        for own, _, scores in self._looks:
            sums.append(torch.exp(scores - self._top[own, None]).sum(1).log())
        found = self._promise.index_put((self._row, self._cell), torch.cat(sums) + self._top)
        out = torch.empty(len(self.rows))
        out[self.few], out[self.many] = torch.logsumexp(found, 1), self.whole.log_sums()
        return out

    def tiles(self, least: Tensor | None = None) -> Iterator[Tile]:
        """Rows that look at all columns, and what others see in each cell whose best score reaches their `least`."""
        assert least is not None
        for own, columns, scores in self.whole.tiles():
            yield self.many[own], columns, scores
        row = self.few[self._row]
        reached = self._top >= least[row]
        for span, start, scores in self._looks:
            mine = torch.nonzero(reached[span]).view(-1)
            if len(mine):
                yield row[span][mine], self.cells.places[start : start + scores.shape[1]], scores[mine]


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    """The centre next to each point."""
    return torch.addmm(-0.5 * (centres**2).sum(1), points, centres.T).argmax(1)


_BYTES_PER_SCORE = 12  # score, its mark, and room for what the predictor needs itself
_MOST_SCORES = 1 << 24  # in a block: more would leave the caches without being faster
_MOST_ON_GPU = 1 << 30  # torch.nonzero counts in 32 bits
_PAIRS, _PAIRS_ON_GPU = 1 << 12, 1 << 20  # scored one by one at a time: on the CPU as many as fit into its caches
_SEARCHED = 8192  # rows at a time, at most, whose best columns are searched for
_CHECKED = 64  # rows in each direction of a relation that say what a search, or a row that lists its most, leaves out
_WORTH = 512  # so many rows cost as much as putting their columns into cells
_BYTES_PER_NUMBER = 16  # of a row that is multiplied: itself, its halves, and what they are made from
_STEP = 4.0  # from one level of truth to the next, where the floor of a row rises
LOWEST_SCORE = -1e9  # of what is left out of a sum of exponentials
HIDDEN = 0.1  # about so many facts are missing for each that is known, where nothing else is known about a row
_BY_TABLE = 32  # so many times as much it costs to search for an entity as to write its line of a table
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
    per_fact: int | None = None  # columns that a row looks at for each of its facts; None: all of them

    @staticmethod
    def from_edges(
        relation: int, inverse: bool, heads: Tensor, tails: Tensor, columns: Tensor, rows: Tensor | None = None
    ) -> HalfLinks:
        """Those of the known facts of a relation; with `rows` all of these, whether they have a fact or not."""
        near, far = (tails, heads) if inverse else (heads, tails)
        order = torch.argsort(near, stable=True)
        chosen = torch.unique_consecutive(near[order]) if rows is None else rows
        return HalfLinks(relation, inverse, chosen, columns, torch.searchsorted(chosen, near[order]), far[order])

    def looking(self, per_fact: int | None) -> HalfLinks:
        """The same whose rows look at so many columns for each of their facts, where that is less work than all."""
        bounded = replace(self, per_fact=per_fact)
        saved = 0 if per_fact is None else len(self.rows) * len(self.columns) - int(bounded.looks().sum())
        return bounded if saved > _WORTH * len(self.columns) else self

    def facts(self) -> Tensor:
        """How many known facts each row has."""
        return torch.bincount(self.known_rows, minlength=len(self.rows))

    def looks(self) -> Tensor:
        """How many columns each row looks at, about."""
        if self.per_fact is None:
            return torch.full_like(self.rows, len(self.columns))
        return (self.per_fact * self.facts().clamp(min=1)).clamp(max=len(self.columns))

    @property
    def width(self) -> int:
        """How many columns a row looks at, on average."""
        return len(self.columns) if self.per_fact is None else -(-int(self.looks().sum()) // max(1, len(self.rows)))

    def some(self, start: int, stop: int) -> HalfLinks:
        """The same of the rows at places from `start` to `stop`."""
        bounds = torch.tensor([start, stop], device=self.rows.device)
        begin, end = torch.searchsorted(self.known_rows, bounds).tolist()
        known_rows, known_ends = self.known_rows[begin:end] - start, self.known_ends[begin:end]
        return replace(self, rows=self.rows[start:stop], known_rows=known_rows, known_ends=known_ends)

    def only(self, places: Tensor) -> HalfLinks:
        """The same of the rows at some ascending places."""
        kept = torch.isin(self.known_rows, places)
        known_rows = torch.searchsorted(places, self.known_rows[kept])
        return replace(self, rows=self.rows[places], known_rows=known_rows, known_ends=self.known_ends[kept])


class RowLogs:
    """Log truth of half-links: softmax over the columns, turned into truth by a rule.

    The ends of known facts are among the columns of the softmax, unless the predictor sees the facts themselves: what
    it says of those means nothing then.

    A predictor that scores columns computes them alone. One that gives whole rows alone is asked once, since its rows
    may be dear: they are held, in half precision if there are many. What is outside of the columns has a log there too.
    Scores that are inner products are not even written where there are kernels for them, or where the best columns are
    searched for (`fused`).
    """

    def __init__(self, predictor: LinkPredictor, links: HalfLinks, rule: Calibration, memory: int) -> None:
        """At most about `memory` bytes are used, beside the half precision rows that must be held."""
        self.predictor, self.links, self.rule = predictor, links, rule
        self.whole = not scores_columns(predictor)  # blocks hold all entities, not the columns alone
        self.searched = links.per_fact is not None and is_searchable(predictor)
        self.block = _SEARCHED  # rows at a time
        self.held_as: torch.dtype | None = None  # how blocks are kept, to be looked at again; None: computed again
        self.shifts: Tensor  # [rows] score − shift = log truth; known once all blocks were computed
        self._held: list[Tensor] = []
        self._cells: ColumnCells | None = None  # of a search, made when they are needed
        numbers = fused_width(predictor) if has_kernels(device_of(predictor)) else 0
        self.fused = self.searched or numbers > 0
        if self.fused and not self.searched:
            self.block = max(1, memory // (_BYTES_PER_NUMBER * numbers))
        elif not self.fused:
            width = predictor.entities if self.whole else max(1, len(links.columns))
            cells = width * max(1, int(getattr(predictor, "cells_per_score", 1)))
            most = _MOST_SCORES if device_of(predictor).type == "cpu" else _MOST_ON_GPU
            self.block = max(1, min(most, memory // _BYTES_PER_SCORE) // cells)
            fits = 8 * len(links.rows) * width <= memory
            self.held_as = torch.float32 if fits else torch.float16 if self.whole else None

    def blocks(self) -> Iterator[tuple[int, ScoreProducts, Tensor]]:
        """Where each block of rows starts, its scores, and what is to be taken from them for the log truth."""
        device, fresh = self.links.rows.device, list[Tensor]()
        shifts = [torch.zeros(0, device=device)]
        for number, held in enumerate(self._held):
            yield number * self.block, WrittenScores(held.float()), torch.zeros(len(held), device=device)
        starts = set() if self._held else {*range(0, len(self.links.rows), self.block), len(self.links.rows)}
        if self.searched:  # scores of a search are written down
            written = torch.cumsum(self.links.looks(), 0) // _MOST_SCORES
            starts |= set((torch.nonzero(written.diff()).view(-1) + 1).tolist())
        for start, stop in pairwise(sorted(starts)):
            some = self.links.some(start, stop)
            if self.fused:
                scores = self._product(some)
                own = self._edges(some.rows[some.known_rows], some.known_ends)
                shifts.append(self._shift(some.known_rows, own, scores.log_sums()))
                yield start, scores, shifts[-1]
            else:
                logs, shift = self._compute(some)
                shifts.append(shift)
                if self.held_as:
                    fresh.append(logs.to(self.held_as))
                yield start, WrittenScores(logs), torch.zeros_like(shift)
        if not self._held:
            self._held, self.shifts = fresh, torch.cat(shifts)

    def swept(self) -> RowLogs:
        """The same, all rows computed once: what single edges are asked for needs their shifts."""
        for _ in self.blocks():
            pass
        return self

    def copy_held(self, like: RowLogs) -> Tensor | None:
        """The log truth of whole rows as others hold it, once all blocks were computed; None where it is not held.

        Together with the shifts it is all that `restore` needs on another machine.
        """
        if not self.whole:
            return None
        none = torch.zeros(0, self.predictor.entities, dtype=like.held_as, device=self.links.rows.device)
        return torch.cat([none, *(block.to(none.dtype) for block in self._held)])

    def restore(self, shifts: Tensor, held: Tensor | None) -> RowLogs:
        """The same as if all blocks had been computed here."""
        self.shifts, self.held_as = shifts, None
        if held is not None:
            self._held, self.block, self.held_as = [held], max(1, len(held)), held.dtype
        return self

    def _product(self, some: HalfLinks) -> ScoreProducts:
        """The inner products of some rows with the columns."""
        columns = some.columns if self._cells is None else some.columns[:0]
        factors = score_factors(self.predictor, some.rows, some.relation, some.inverse, columns)
        assert factors is not None
        if not self.searched:
            return score_products(*factors)
        if self._cells is None:
            self._cells = ColumnCells(factors[1])
        return CellProducts(factors[0].float(), self._cells, some.looks())

    def _edges(self, near: Tensor, far: Tensor) -> Tensor:
        """Scores of single edges."""
        heads, tails = (far, near) if self.links.inverse else (near, far)
        some = _PAIRS if near.device.type == "cpu" else _PAIRS_ON_GPU
        return edge_scores(self.predictor, heads, self.links.relation, tails, self.links.inverse, some)

    def _singles(self, rows: Tensor, row: Tensor, far: Tensor) -> Tensor:
        """Scores of single edges, by the places of their rows among some; where the columns lie at hand, by these."""
        if self._cells is None:
            return self._edges(rows[row], far)
        links, columns = self.links, self._cells.columns
        place, is_column = self._place(links.columns, far)
        factors = score_factors(self.predictor, rows, links.relation, links.inverse, rows[:0])
        assert factors is not None
        own = zip(torch.split(row, _PAIRS), torch.split(place, _PAIRS), strict=True)
        # `index_select` copies whole rows: half the time of plain indices
        parts = [(factors[0].index_select(0, near) * columns.index_select(0, end)).sum(-1) for near, end in own]
        scores = torch.cat([columns[:0, 0], *parts])
        others = torch.nonzero(~is_column).view(-1)
        scores[others] = self._edges(rows[row[others]], far[others])
        return scores

    def _compute(self, some: HalfLinks) -> tuple[Tensor, Tensor]:
        """Log truth of some rows [rows, columns or entities], and their shifts."""
        predictor, asked_of = self.predictor, (some.rows, some.relation, some.inverse)
        if self.whole:
            scores = row_scores(predictor, *asked_of)
            asked = scores[:, some.columns]
        else:
            scores = asked = column_scores(predictor, *asked_of, some.columns)
        row, place = some.known_rows, torch.searchsorted(some.columns, some.known_ends)
        normaliser = torch.logsumexp(asked, 1)
        if sees_facts(predictor):
            unknown = torch.logsumexp(asked.index_put((row, place), asked.new_tensor(LOWEST_SCORE)), 1)
            normaliser = torch.where(unknown > LOWEST_SCORE / 2, unknown, normaliser)  # unless every end is known
        shift = self._shift(row, asked[row, place], normaliser)
        return scores - shift[:, None], shift

    def _shift(self, row: Tensor, own: Tensor, normaliser: Tensor) -> Tensor:
        """Of some rows, by the scores of their known facts, in order of `row`, and the sums of all."""
        if not bool(normaliser.isfinite().all()) and not getattr(self.predictor, "late", False):
            raise BadInput(f"{type(self.predictor).__name__} gives scores that are not finite numbers")
        highest = torch.full_like(normaliser, -math.inf).scatter_reduce(0, row, own, "amax")
        total = sum_by_row(torch.exp(own - highest[row]), row, len(normaliser))
        count = torch.bincount(row, minlength=len(normaliser)).float()
        if sees_facts(self.predictor):
            count = count * HIDDEN  # all the mass is that of unknown ends
        return self.rule.shift(count, highest + total.log(), normaliser)

    def reaching(self, floor: float, most: int | None = None) -> Tensor:
        """Keys head · entities + tail of the entries that reach the floor.

        With `most` a row lists at most so many beside as many as it has known facts: where more reach the floor, its
        own floor is the next of the levels floor × 4, × 16, …, 1 that few enough reach; by the rule softmax × count no
        more than it has facts reach 1. Nothing that such a row leaves out reaches its floor.
        """
        links, keys = self.links, [torch.zeros(0, dtype=torch.int64, device=self.links.rows.device)]
        floors = [floor]
        while most is not None and floors[-1] < 1:
            floors.append(min(1.0, floors[-1] * _STEP))
        levels = torch.tensor([math.log(level) for level in floors], device=links.rows.device)
        room = links.facts() + (most or 0)
        for start, scores, shift in self.blocks():
            thresholds, counts = shift[:, None] + levels, None
            if most is not None:
                counts = scores.count_reaching(thresholds)
                few = counts <= room[start : start + len(shift), None]
                few[:, -1] = True
                level = few.int().argmax(1, keepdim=True)
                thresholds, counts = thresholds.gather(1, level), counts.gather(1, level)[:, 0]
            row, place = scores.list_reaching(thresholds[:, 0], counts)
            keys.append(self._key(links.rows[row + start], place if self.whole else links.columns[place]))
        return torch.cat(keys)

    def check_search(self, floor: float, most: int | None, keys: Tensor) -> SearchCheck:
        """What a search did not find, and what rows that list their most leave out, by some rows that are scored whole.

        `keys`: what is listed, ascending.
        """
        count = min(_CHECKED, len(self.links.rows))
        if not count or self.whole or not (self.searched or most is not None):
            return SearchCheck()
        places = (torch.arange(count, device=keys.device) * len(self.links.rows)) // count
        exact = RowLogs(self.predictor, replace(self.links.only(places), per_fact=None), self.rule, 1 << 30)
        reaching, wanted = exact.reaching(floor), exact.reaching(floor, most)
        missed = reaching[~find_places(keys, reaching)[1]]
        heads, tails = missed // self.predictor.entities, missed % self.predictor.entities
        worst = float(exact.at(heads, tails).max().exp().clamp(max=1)) if len(missed) else 0.0
        found = int(find_places(keys, wanted)[1].sum())
        off = float((exact.shifts - self.shifts[places]).abs().sum())
        return SearchCheck(count, len(reaching), len(wanted), found, worst, off)

    def _key(self, near: Tensor, far: Tensor) -> Tensor:
        size = self.predictor.entities
        return far * size + near if self.links.inverse else near * size + far

    def at(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Log truth of single edges [n] → float32 [n].

        NaN where a predictor of whole rows was not asked for the row, or had no time for it, and where it sees the edge
        itself.
        """
        links = self.links
        out = torch.full((len(heads),), math.nan, device=heads.device)
        near, far = (tails, heads) if links.inverse else (heads, tails)
        row, is_row = self._place(links.rows, near)
        column, is_column = (far, torch.ones_like(is_row)) if self.whole else self._place(links.columns, far)
        dear = DEARER * len(heads) < len(links.rows) * len(links.columns)
        if self.fused or (self.held_as is None and dear):
            is_column = torch.zeros_like(is_row)  # cheaper one by one than all blocks once more
        inside = torch.nonzero(is_row & is_column).view(-1)
        ends = [0, len(inside)]
        if len(links.rows) > self.block:
            inside = inside[torch.argsort(row[inside], stable=True)]
            bounds = torch.arange(0, len(links.rows) + self.block, self.block, device=heads.device)
            ends = torch.searchsorted(row[inside], bounds).tolist()
        for number, (start, block, _) in enumerate(self.blocks() if len(inside) else ()):
            assert isinstance(block, WrittenScores)
            mine = inside[ends[number] : ends[number + 1]]
            out[mine] = block.scores[row[mine] - start, column[mine]]
        outside = torch.nonzero(is_row & ~is_column).view(-1)
        out[outside] = self._singles(links.rows, row[outside], far[outside]) - self.shifts[row[outside]]
        if sees_facts(self.predictor):
            known = torch.sort(self._key(links.rows[links.known_rows], links.known_ends)).values
            out[find_places(known, self._key(near, far))[1]] = math.nan
        elif not self.whole:
            others = torch.nonzero(~is_row).view(-1)
            out[others] = self._without_fact(near[others], far[others])
        return out

    def _place(self, ids: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """Place of each wanted entity among ascending ones, and whether it is there; if many are wanted by a table."""
        entities = self.predictor.entities
        if _BY_TABLE * len(wanted) < entities:
            return find_places(ids, wanted)
        table = torch.full((entities,), -1, dtype=torch.int32, device=ids.device)
        table[ids] = torch.arange(len(ids), dtype=torch.int32, device=ids.device)
        place = table[wanted].long()
        return place.clamp(min=0), place >= 0

    def _without_fact(self, near: Tensor, far: Tensor) -> Tensor:
        """Log truth of edges whose row has no fact; too many rows to be scored before it is known who is listed."""
        links = self.links
        rows, row = torch.unique(near, return_inverse=True)
        shifts = [torch.zeros(0, device=near.device)]
        for some in torch.split(rows, self.block):
            none = torch.zeros(len(some), device=near.device)
            if self.fused:
                sums = self._product(replace(links, rows=some, known_rows=some[:0], known_ends=some[:0])).log_sums()
            else:
                scores = column_scores(self.predictor, some, links.relation, links.inverse, links.columns)
                sums = torch.logsumexp(scores, 1)
            shifts.append(self.rule.shift(none, none - math.inf, sums))
        return self._singles(rows, row, far) - torch.cat(shifts)[row]


def fused_width(predictor: LinkPredictor) -> int:
    """How many numbers wide the rows are whose inner products are scores; 0 if there are none, or facts are seen."""
    nobody = torch.zeros(0, dtype=torch.int64, device=device_of(predictor))
    factors = None if sees_facts(predictor) else score_factors(predictor, nobody, 0, False, nobody)
    return 0 if factors is None else factors[0].shape[1]


def is_searchable(predictor: LinkPredictor) -> bool:
    """Whether the best columns of a row are searched for: scores are inner products, and no GPU has them all sooner."""
    return device_of(predictor).type == "cpu" and fused_width(predictor) > 0
