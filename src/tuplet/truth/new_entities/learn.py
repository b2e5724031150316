"""Rows of new entities, and their calibration: learned from others that are made to look new.

Some entities lose half of their facts. Rows are scored on what is left, as they will be for an entity that came with
a few facts, and what was hidden is to be found among the candidates. So the truth of a prediction about a new entity
is the chance that it is one of *as many facts again* as are known of it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.graph.adjacency import consecutive
from tuplet.predict.base import LinkPredictor, TrainingEdges
from tuplet.predict.device import one_thread
from tuplet.predict.paths.model import AnyGraphModel
from tuplet.progress import Report, silent
from tuplet.truth.calibration.calibrate import HiddenPart, candidates_of, hide, trial_of, with_rules
from tuplet.truth.calibration.fit import LEAST_VALID, LearnedCalibration, SplitCorrection, Trial, fit
from tuplet.truth.calibration.reliability import reliability
from tuplet.truth.calibration.trees import TreeSettings
from tuplet.truth.candidates.rows import HalfLinks
from tuplet.truth.candidates.score import join_parts
from tuplet.truth.candidates.scorer import CandidateScorer
from tuplet.truth.candidates.sources import EVERYTHING
from tuplet.truth.cluster import RayExecutor, Shared, fetch_value
from tuplet.truth.edges import EdgeColumns, ScoredEdges, edge_numbers, first_places
from tuplet.truth.known_edges import TrainEdges
from tuplet.truth.new_entities.predict import EntityRows
from tuplet.truth.rules import Calibration

Tensor = torch.Tensor
Longs = NDArray[np.int64]

LIKELY = 0.2  # how surely an entity has a view, by its other ones, so that it gets a row without a fact of it
WALKED = 8  # rows of one entity that the network walks; those of more are judged by what similar entities have
FLOOR = 0.002  # truth in a row from which on an end is listed
_MEMORY = 1 << 30  # bytes of one scorer in one direction
_ROWS = 64  # computed at a time, between two looks at the clock


def rows_worth_computing(known: TrainEdges, entities: Sequence[int]) -> EntityRows:
    """The rows of some entities that have a fact or are likely to have one.

    What is a tail of relation 0 is one of relation 1 in 9 of 9 + 5 cases.

    >>> edges = [(0, 0, end) for end in range(3, 12)] + [(1, 1, end) for end in range(3, 12)] + [(2, 0, 3)]
    >>> rows = rows_worth_computing(TrainEdges.from_edges(12, 2, *torch.tensor(edges).T), [2, 3])
    >>> list(zip(rows.entity.tolist(), rows.view.tolist()))
    [(2, 0), (3, 1), (3, 3)]
    """
    types, none = known.types, np.zeros(0, np.int64)
    near, found, walked = [none], [none], [none > 0]
    for entity in entities:
        own = types.views[types.start[entity] : types.start[entity + 1]]
        if not len(own):
            continue
        said = types.confidence[own].amax(0)
        said[own] = known.count(own * known.entities + entity).float()  # where it has a fact it has often more
        rows = torch.nonzero(said >= LIKELY).view(-1)
        best = torch.zeros(len(rows), dtype=torch.bool)
        best[torch.argsort(said[rows], descending=True, stable=True)[:WALKED]] = True
        near.append(np.full(len(rows), entity, dtype=np.int64))
        found.append(rows.numpy())
        walked.append(best.numpy())
    return EntityRows(np.concatenate(near), np.concatenate(found), np.concatenate(walked))


class WholeRows(ABC):
    """Implements `LinkPredictor` by whole rows of a view; the known ends of a row are the ones it is most sure of."""

    entities: int
    relations: int
    sees_facts = True

    @abstractmethod
    def rows(self, near: Tensor, view: int) -> Tensor:
        """The rows of some entities under a view. [n] → [n, entities]"""

    def tails(self, heads: Tensor, relation: int) -> Tensor:
        return self.rows(heads, 2 * relation)

    def heads(self, tails: Tensor, relation: int) -> Tensor:
        return self.rows(tails, 2 * relation + 1)

    def pairs(self, heads: Tensor, relation: Tensor, tails: Tensor) -> Tensor:
        edges = zip(heads.tolist(), relation.tolist(), tails.tolist(), strict=True)
        return torch.stack([self.tails(torch.tensor([head]), number)[0, tail] for head, number, tail in edges])


@dataclass
class ComputedRows(WholeRows):
    """Rows that were computed together: those of many relations share the cores."""

    entities: int
    relations: int
    places: Mapping[tuple[int, int], int]  # entity and view → its row
    scores: Tensor  # [rows, entities]

    @staticmethod
    def from_network(network: LinkPredictor, rows: EntityRows, tell: Callable[[int], None]) -> ComputedRows:
        """The rows of a network with `mixed_rows`; `tell` how many are done now and then."""
        order = np.lexsort((rows.entity, rows.view))  # rows of one relation together describe it once
        entity, view = (torch.from_numpy(side[order]) for side in (rows.entity, rows.view))
        number = view // 2 + network.relations * (view % 2)
        parts = [torch.zeros(0, network.entities)]
        for start in range(0, len(rows), _ROWS):
            some = slice(start, start + _ROWS)
            parts.append(network.mixed_rows(entity[some], number[some]))  # type: ignore[attr-defined]
            tell(min(len(rows), start + _ROWS))
        places = {key: place for place, key in enumerate(zip(entity.tolist(), view.tolist(), strict=True))}
        return ComputedRows(network.entities, network.relations, places, torch.cat(parts))

    def rows(self, near: Tensor, view: int) -> Tensor:
        return self.scores[[self.places[entity, view] for entity in near.tolist()]]


def score_rows(scorers: Mapping[str, tuple[WholeRows, EntityRows]], known: EdgeColumns) -> ScoredEdges:
    """The edges in the rows of each scorer that reach the floor, each as if it were unknown whether it is a fact.

    An edge is in the row of its other end too; where a scorer has no such row, its log there is NaN.
    """
    entities = next(iter(scorers.values()))[0].entities
    asked = np.zeros(entities, dtype=bool)
    for _, rows in scorers.values():
        asked[rows.entity] = True
    own = asked[known[0]] | asked[known[2]]
    facts = (known[0][own], known[1][own], known[2][own])
    several = {name: one for name, (one, _) in scorers.items()}
    scorer = CandidateScorer(several, facts, EVERYTHING, FLOOR, Calibration(), 2 * len(several) * _MEMORY)
    relations = np.unique(np.concatenate([rows.view // 2 for _, rows in scorers.values()])).tolist()
    found = {}
    with one_thread():
        for number in relations:
            links = [_half_links(number, *scorer.counts.edges(number), rows, entities) for _, rows in scorers.values()]
            part = scorer.relation(number, rows=scorer.rows(links))
            unknown = ~np.isnan(part["logs"]).all((0, 1))
            found[number] = {name: column[..., unknown] for name, column in part.items()}
    return join_parts(tuple(scorers), found)


def _half_links(number: int, heads: Tensor, tails: Tensor, rows: EntityRows, entities: int) -> list[HalfLinks]:
    """The rows of one relation in both directions, with their known facts."""
    found = []
    for inverse in (False, True):
        near = torch.from_numpy(np.unique(rows.entity[rows.view == 2 * number + inverse]))
        own = torch.isin(tails if inverse else heads, near)
        found.append(HalfLinks.from_edges(number, inverse, heads[own], tails[own], torch.arange(entities), near))
    return found


def put_together(parts: Sequence[ScoredEdges]) -> ScoredEdges:
    """Parts with the same scorers in one; of an edge that two parts list, both ends being asked about, the first."""
    relation, heads, tails = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("relation", "heads", "tails")
    )
    kept = first_places(relation, heads, tails)
    logs = np.concatenate([part.logs for part in parts], axis=2)[:, :, kept]
    return ScoredEdges(heads[kept], relation[kept], tails[kept], parts[0].scorers, logs)


Weights = NDArray[np.float64]

_SHRINK = 5.0
_KEPT = 1 << 25  # numbers
_POPULAR = 1e-6  # what nobody similar has is ordered by how many have it


@dataclass
class SimilarEnds(WholeRows):
    """Rows of which the exponential of a score is how much the entities similar to one speak for an end.

    0 and 1 share end 3 of relation 0; 1 also has 4, which speaks for 4 where 0 is asked about.

    >>> edges = np.array([[0, 0, 3], [1, 0, 3], [1, 0, 4], [2, 0, 5]]).T
    >>> similar = SimilarEnds.from_edges(6, 1, (edges[0], edges[1], edges[2]))
    >>> torch.argsort(similar.tails(torch.tensor([0]), 0)[0], descending=True)[:2].tolist()
    [4, 3]
    """

    entities: int
    relations: int
    entity_ptr: NDArray[np.int64]  # [entities + 1] where the steps of an entity begin
    step_view: NDArray[np.int64]  # [steps] by entity and view
    step_end: NDArray[np.int64]  # [steps] the other end
    codes: NDArray[np.int64]  # ascending numbers entity · views + view of the rows that have steps
    row_ptr: NDArray[np.int64]  # [rows + 1] where each begins
    by_view: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]  # [views] near and far end of all its steps

    kept: dict[int, Weights] = field(default_factory=dict)  # who is similar to the entities asked about lately

    @staticmethod
    def from_edges(entities: int, relations: int, edges: EdgeColumns) -> SimilarEnds:
        heads, relation, tails = (np.asarray(side, dtype=np.int64) for side in edges)
        near, far = np.concatenate([heads, tails]), np.concatenate([tails, heads])
        view = np.concatenate([2 * relation, 2 * relation + 1])
        code = near * (2 * relations) + view
        order = np.argsort(code, kind="stable")
        codes, first = np.unique(code[order], return_index=True)
        entity_ptr = np.searchsorted(near[order], np.arange(entities + 1))
        parts = np.split(np.argsort(view, kind="stable"), np.cumsum(np.bincount(view, minlength=2 * relations))[:-1])
        by_view = tuple((near[part], far[part]) for part in parts)
        row_ptr = np.append(first, len(code))
        return SimilarEnds(entities, relations, entity_ptr, view[order], far[order], codes, row_ptr, by_view)

    def rows(self, near: Tensor, view: int) -> Tensor:
        holders, items = self.by_view[view]
        popular = np.bincount(items, minlength=self.entities)
        scale = 1 / np.sqrt(popular + _SHRINK)
        found = np.empty((len(near), self.entities), dtype=np.float32)
        for place, entity in enumerate(near.tolist()):
            if entity not in self.kept:
                if len(self.kept) * self.entities > _KEPT:
                    self.kept.clear()
                self.kept[entity] = self._alike(entity)
            alike = self.kept[entity]
            said = np.bincount(items, alike[holders], minlength=self.entities) * scale
            found[place] = np.log(said + _POPULAR * popular + _POPULAR**2)
        return torch.from_numpy(found)

    def _alike(self, entity: int) -> Weights:
        """How similar every entity is to one: the sum over common items, each 1 / √(how many have it + 5)."""
        own = slice(int(self.entity_ptr[entity]), int(self.entity_ptr[entity + 1]))
        back = np.searchsorted(self.codes, self.step_end[own] * (2 * self.relations) + (self.step_view[own] ^ 1))
        crowd = self.row_ptr[back + 1] - self.row_ptr[back]
        holders = self.step_end[consecutive(self.row_ptr[back], crowd)]
        alike = np.bincount(holders, np.repeat(1 / np.sqrt(crowd + _SHRINK), crowd), self.entities)
        alike[entity] = 0
        return np.asarray(alike, dtype=np.float64)


ENOUGH = 4_000  # hidden facts to learn from
STEADY = 1_000  # hidden facts that do where there is little time
ROUNDS = 5  # an entity is hidden in one of so many; in each …
_SHARE = 0.1  # … at most this share of the entities, so that the graph stays what it is
_ROWS_UNTIL = 0.6  # of the time for learning, that of rows; the rest is for trees
_FITTED = 50_000  # candidates that a fit looks at, beside all hidden facts
TREES = TreeSettings(trees=120, depth=4, rate=0.15)
_BUSIEST = 0.99  # hubs are left out: nothing that came today is one
_CELLS = 1 << 25  # scores held at a time
_FEWEST_ROWS = 32  # at a time
_BETWEEN_LOOKS = 64  # rows between two looks at the clock
# What would be another number if more or fewer entities were asked about at a time; and dates, which new facts lack.
WITHOUT = ("time", "candidates-", "unknown", "known_share", "excess")


@dataclass(frozen=True)
class KnownGraph:
    """Known edges, and all that is needed to score rows on them."""

    edges: EdgeColumns
    network: AnyGraphModel
    similar: SimilarEnds
    known: TrainEdges

    @staticmethod
    def from_edges(entities: int, relations: int, edges: EdgeColumns, network: AnyGraphModel) -> KnownGraph:
        """The edges of a graph of that many entities and relations."""
        bound = network.on(TrainingEdges({"train": edges}, entities, relations))
        similar = SimilarEnds.from_edges(entities, relations, edges)
        return KnownGraph(edges, bound, similar, with_rules(entities, relations, edges))

    def rows(self, entities: Sequence[int]) -> EntityRows:
        """The rows of some entities that are worth computing."""
        return rows_worth_computing(self.known, entities)

    def portion(self) -> int:
        """How many rows the network computes at a time."""
        return max(_FEWEST_ROWS, min(512, _CELLS // self.known.entities))

    def score(self, rows: EntityRows, tell: Callable[[int], None]) -> ScoredEdges:
        """The candidates in some rows, without known edges."""
        walked = rows.where(rows.walked)
        computed = ComputedRows.from_network(self.network, walked, tell)
        return score_rows({"any-graph": (computed, walked), "similar": (self.similar, rows)}, self.edges)

    def truth(self, learned: LearnedCalibration, scored: ScoredEdges) -> NDArray[np.float32]:
        """The calibrated truth of candidates that nobody had seen."""
        edges = candidates_of(scored, scored.predictions())
        found: NDArray[np.float32] = learned.truth(self.known, edges, later=True).numpy()
        return found


def learn(
    entities: int,
    relations: int,
    facts: EdgeColumns,
    network: AnyGraphModel,
    seconds: float = np.inf,
    limit: float = np.inf,
    progress: Report = silent,
    seed: int = 0,
) -> tuple[LearnedCalibration, dict[str, Any]] | str | None:
    """Learn from entities that lose half of their facts: a calibration, and what the store says of it but its arrays.

    If nothing can be learned, why. Rows are computed until enough hidden facts are found, or for `seconds` if a quarter
    of them is found by then. After `_ROWS_UNTIL` of `limit` seconds what was found has to do; if it is too little, it
    is given up (None). No tree is begun after `limit` seconds.
    """
    began, found, ready = time.monotonic(), 0, 0.0
    trials, used, rows_done, exhausted = list[Trial](), 0, 0, False

    def over() -> bool:
        spent = time.monotonic() - began
        return found >= ENOUGH or spent > _ROWS_UNTIL * limit or (spent > seconds and found >= STEADY)

    def tell(count: int) -> None:
        progress("learn", found, ENOUGH, f"hidden facts; {rows_done + count:,} rows of entities made new")

    for part, chosen in _made_new(entities, facts, seed):
        scene = KnownGraph.from_edges(entities, relations, part.known, network)
        ready, parts = ready or time.monotonic() - began, list[ScoredEdges]()
        left = edge_numbers(entities, part.hidden)  # to be found: a fact may lie in rows of both its ends
        for some in scene.rows(chosen).portions(min(_BETWEEN_LOOKS, scene.portion())):
            if over():
                break
            parts.append(scene.score(some, tell))
            hit = np.isin(left, edge_numbers(entities, parts[-1].edges))
            found, left = found + int(hit.sum()), left[~hit]
            rows_done += some.walks
            used += len(np.unique(some.entity))
        if parts:
            trials.append(trial_of(scene.known, part.hidden, put_together(parts)))
        if over():
            break
    else:
        exhausted = True
    spent = time.monotonic() - began
    if found < LEAST_VALID and spent > _ROWS_UNTIL * limit:
        return None
    if found < LEAST_VALID:
        return f"{found:,} facts were hidden and found among the candidates, {LEAST_VALID} are needed"
    progress("learn", 0, 0, f"learning from {found:,} hidden facts in {rows_done:,} rows")
    fitted = fit(trials, SplitCorrection(), TREES, WITHOUT, _FITTED, began + limit)
    measured = reliability(
        fitted.learned.hidden(fitted.held_out).numpy(),
        fitted.label.numpy() > 0,
        split="hidden",
        weight=fitted.weight.numpy(),
    )
    # for want of time there may be fewer than it would have learned from
    made: dict[str, Any] = {"entities": used, "rows": rows_done, "short": found < ENOUGH and not exhausted}
    # how long rows took, and how long it was until the first of them could begin
    made |= {"seconds": round(spent - ready, 3), "ready": round(ready, 3)}
    return fitted.learned, {**fitted.learned.as_dict(), "made": made, "reliability": measured.as_dict()}


def _made_new(entities: int, facts: EdgeColumns, seed: int) -> Iterator[tuple[HiddenPart, list[int]]]:
    """Of some entities at a time half of the facts hidden, and who these are."""
    heads, relation, tails = (np.asarray(side, dtype=np.int64) for side in facts)
    degree = np.bincount(np.concatenate([heads, tails]), minlength=entities)
    seen = degree[degree > 0]
    most = np.quantile(seen, _BUSIEST) if len(seen) else 0
    rng = np.random.default_rng(seed)
    usual = rng.permutation(np.flatnonzero((degree > 1) & (degree <= max(most, 2))))
    each = max(1, min(int(_SHARE * entities), -(-len(usual) // ROUNDS)))
    for number in range(min(ROUNDS, len(usual))):
        chosen = usual[number * each : (number + 1) * each]
        gone = _halves(heads, tails, chosen, entities, rng)
        if gone.any():
            yield hide((heads, relation, tails), gone), chosen.tolist()


def _halves(
    heads: NDArray[np.int64],
    tails: NDArray[np.int64],
    chosen: NDArray[np.int64],
    entities: int,
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    """Marks half of the facts of each chosen entity; one that two of them share is a fact of the tail."""
    is_chosen = np.zeros(entities, dtype=bool)
    is_chosen[chosen] = True
    owner = np.where(is_chosen[tails], tails, heads)
    own = np.flatnonzero(is_chosen[owner])
    order = own[np.lexsort((rng.random(len(own)), owner[own]))]
    first = np.searchsorted(owner[order], owner[order])
    count = np.bincount(owner[order], minlength=entities)[owner[order]]
    gone = np.zeros(len(heads), dtype=bool)
    gone[order[np.arange(len(order)) - first < count // 2]] = True
    return gone


ScoreRows: TypeAlias = Callable[[EntityRows, Callable[[int], None]], ScoredEdges]


def score_portion(shared: Shared, rows: EntityRows) -> ScoredEdges:
    scene: KnownGraph = fetch_value(shared)
    return scene.score(rows, lambda _: None)


@contextmanager
def on_cluster(address: str, scene: KnownGraph) -> Iterator[tuple[ScoreRows, int]]:
    """What scores rows of a known graph on the workers of a cluster, and how many there are."""
    with RayExecutor(address) as pool:
        shared = pool.share(scene)

        def score(rows: EntityRows, tell: Callable[[int], None]) -> ScoredEdges:
            portions = list(rows.portions(scene.portion()))  # as in one process: rows meet in them
            parts, done = list[ScoredEdges](), 0
            for portion, found in zip(portions, pool.map(score_portion, repeat(shared), portions), strict=True):
                done += portion.walks
                parts.append(found)
                tell(done)
            return put_together(parts)

        yield score, len(pool.actors)
