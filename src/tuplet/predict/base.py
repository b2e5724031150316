"""What every link predictor offers, and how the rest of the package asks for it: raw scores, higher is truer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.progress import counted

Tensor: TypeAlias = torch.Tensor
Scores: TypeAlias = Tensor | NDArray[np.floating[Any]]

_PAIRS = 1 << 20  # pairs expanded at a time: their columns stay in the caches of a CPU
_MOST_SCORES = 1 << 24  # held at a time where single scores are picked out of whole rows


class LinkPredictor(Protocol):
    """Anything that scores edges by the ids of a graph; `tuplet.index(graph, predictor, path)` makes a store of it.

    These five names are all it needs. Scores are finite and compared within a row (one entity, one relation, one
    direction) and nowhere else, so `tails` and `heads` may be on different scales. Ids come as int64
    tensors on the CPU (`np.asarray(ids)` makes an array of them); scores go back as tensors or numpy arrays.

    A predictor may say more about itself, as attributes:

    - `device`: where its ids should lie and where it computes; the CPU without it.
    - `sees_facts = True`: it reads scores off the known facts themselves, as a path network does; they are then left
      out when the scores of a row become truth.
    - `reciprocal = True`: `pairs(t, r + relations, h)` is the entry of h in `heads(t, r)`. Without it, single scores in
      that direction are picked out of whole rows: the same values, more work.
    - `scores(near, number, columns)`: scores of some columns alone, [n], [m] → [n, m]: entries of the rows of `tails`
      for a number below `relations`, else of `heads` with the relation number − relations. Without it whole rows are
      computed, once.
    - `factors(near, number, columns)`: rows [n, width] and columns [m, width] whose inner products are `scores`; None
      from a predictor that has none. On a GPU their products are then never written to memory.
    - `one_side = True`: rows of one end of each relation are enough, those of the end that has fewer entities. Measured
      for the network that ships with the package: a quarter of the rows, and hidden facts rank as high.
    - `cells_per_score`: how many numbers it holds in memory per score of a row; 1 without it.
    - `mixed_rows(asked, relation)`: rows [n] of several relations at once → [n, entities]; relation r + relations asks
      for heads. Without it, rows are asked for by relation.
    """

    entities: int
    relations: int

    def tails(self, heads: Tensor, relation: int) -> Scores:
        """Scores of (h, relation, ·) for each h of `heads` [n] → [n, entities]."""
        ...

    def heads(self, tails: Tensor, relation: int) -> Scores:
        """Scores of (·, relation, t) for each t of `tails` [n] → [n, entities]."""
        ...

    def pairs(self, heads: Tensor, relation: Tensor, tails: Tensor) -> Scores:
        """Scores of single edges [n], [n], [n] → [n]: for each, the entry of its tail in the row of `tails`."""
        ...


class ReciprocalRows:
    """Both directions of a predictor that gives mixed rows: relation r + relations asks for the heads of r."""

    relations: int
    reciprocal: ClassVar[bool] = True  # `pairs` takes reciprocal relations too

    def tails(self, heads: Tensor, relation: int) -> Tensor:
        """Scores of (h, relation, ·) for each h of `heads` [n] → [n, entities]."""
        return self.mixed_rows(heads, torch.full_like(heads, relation))

    def heads(self, tails: Tensor, relation: int) -> Tensor:
        """Scores of (·, relation, t) for each t of `tails` [n] → [n, entities]."""
        return self.tails(tails, relation + self.relations)

    def mixed_rows(self, asked: Tensor, relation: Tensor) -> Tensor:
        """Scores of all entities for rows of several relations. [n], [n] → [n, entities]"""
        raise NotImplementedError


def check_predictor(thing: Any) -> LinkPredictor:
    """The thing itself, if it has all that a link predictor needs; an error that names what is missing otherwise.

    >>> check_predictor(object())
    Traceback (most recent call last):
    tuplet.errors.BadInput: object is not a link predictor: it has no number 'entities' (see LinkPredictor)
    """
    name = type(thing).__name__
    for size in ("entities", "relations"):
        if not isinstance(getattr(thing, size, None), int | np.integer):
            raise BadInput(f"{name} is not a link predictor: it has no number {size!r} (see LinkPredictor)")
    for method in ("tails", "heads", "pairs"):
        if not callable(getattr(thing, method, None)):
            raise BadInput(f"{name} is not a link predictor: it has no method {method!r} (see LinkPredictor)")
    found: LinkPredictor = thing
    return found


def device_of(predictor: LinkPredictor) -> torch.device:
    """Where the predictor computes; the CPU if it does not say."""
    return torch.device(getattr(predictor, "device", "cpu"))


def kind_of(predictor: LinkPredictor) -> str:
    """What kind of predictor it is: the name it gives itself, else that of its class."""
    return str(getattr(predictor, "kind", type(predictor).__name__))


def row_scores(predictor: LinkPredictor, near: Tensor, relation: int, inverse: bool) -> Tensor:
    """Float32 scores of whole rows, of `tails` or, inverse, of `heads`. [n] → [n, entities]"""
    method = "heads" if inverse else "tails"
    return _check_scores(predictor, method, getattr(predictor, method)(near, relation), near, predictor.entities)


def sees_facts(predictor: LinkPredictor) -> bool:
    """Whether it reads scores off the known facts, so that its score of a known fact says nothing."""
    return bool(getattr(predictor, "sees_facts", False))


def has_one_side(predictor: LinkPredictor) -> bool:
    """Whether rows of one end of each relation are enough."""
    return bool(getattr(predictor, "one_side", False))


def scores_columns(predictor: LinkPredictor) -> bool:
    """Whether it computes some columns of a row for less than the whole row."""
    return callable(getattr(predictor, "scores", None))


def column_scores(predictor: LinkPredictor, near: Tensor, relation: int, inverse: bool, columns: Tensor) -> Tensor:
    """Float32 scores of some columns of rows, by a predictor that computes them alone. [n], [m] → [n, m]"""
    number = relation + predictor.relations if inverse else relation
    scores = predictor.scores(near, number, columns)  # type: ignore[attr-defined]
    return _check_scores(predictor, "scores", scores, near, len(columns))


def score_factors(
    predictor: LinkPredictor, near: Tensor, relation: int, inverse: bool, columns: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Rows [n, width] and columns [m, width] whose inner products are `column_scores`, if there are any."""
    factors = getattr(predictor, "factors", None)
    if factors is None:
        return None
    number = relation + predictor.relations if inverse else relation
    found: tuple[Tensor, Tensor] | None = factors(near, number, columns)
    return found


def edge_scores(
    predictor: LinkPredictor, heads: Tensor, relation: int, tails: Tensor, inverse: bool, chunk: int
) -> Tensor:
    """Float32 scores of single edges, at most `chunk` at a time, as `row_scores` has them. [n] → [n]"""
    near, far = (tails, heads) if inverse else (heads, tails)
    if not len(near):
        return torch.zeros(0, device=near.device)
    if inverse and not getattr(predictor, "reciprocal", False):
        step = max(1, _MOST_SCORES // predictor.entities)
        return pick_entries(lambda rows: row_scores(predictor, rows, relation, True), near, far, step)
    number = relation + predictor.relations if inverse else relation
    parts = []
    for some, other in zip(torch.split(near, chunk), torch.split(far, chunk), strict=True):
        scores = predictor.pairs(some, torch.full_like(some, number), other)
        parts.append(_check_scores(predictor, "pairs", scores, some))
    return torch.cat(parts)


def pick_entries(compute: Callable[[Tensor], Tensor], key: Tensor, column: Tensor, step: int) -> Tensor:
    """Single entries of rows, by the keys of these [n], [n] → [n]; each row is computed once, `step` at a time."""
    rows, row = torch.unique(key, return_inverse=True)
    out = torch.empty(len(key), device=key.device)
    for start in range(0, len(rows), step):
        mine = torch.nonzero((row >= start) & (row < start + step)).view(-1)
        out[mine] = compute(rows[start : start + step])[row[mine] - start, column[mine]]
    return out


def _check_scores(predictor: LinkPredictor, method: str, given: Scores, near: Tensor, *columns: int) -> Tensor:
    """The scores that a method gave as float32 beside the ids, if their shape is right."""
    found = given if isinstance(given, Tensor) else torch.tensor(np.asarray(given, dtype=np.float32))
    wanted = len(near), *columns
    if found.shape != wanted:
        shapes = f"gave scores of shape {list(found.shape)} where {list(wanted)} are needed"
        raise BadInput(f"{type(predictor).__name__}.{method} {shapes}")
    return found.to(near.device).float()


Ids: TypeAlias = NDArray[np.integer[Any]]
Triples: TypeAlias = tuple[Ids, Ids, Ids]  # heads, relations, tails
Splits: TypeAlias = Mapping[str, Triples]


@dataclass(frozen=True)
class TrainingEdges:
    """Edges by split (`train`, and where there are any `valid` and `test`), checked.

    >>> ids = np.arange(3)
    >>> TrainingEdges({"train": (ids, ids, ids + 1)}, entities=3, relations=3)
    Traceback (most recent call last):
    tuplet.errors.BadInput: train: a tail id is outside 0 … 2
    """

    splits: Splits
    entities: int
    relations: int
    hash: str | None = None  # of the graph they are from; `fingerprint` without one

    def __post_init__(self) -> None:
        if not self.count("train"):
            raise BadInput("the graph has no train edges: there is nothing to learn from")
        for split, (heads, relation, tails) in self.splits.items():
            if not len(heads) == len(relation) == len(tails):
                raise BadInput(f"{split}: heads, relations and tails differ in length")
            sizes = {"head": self.entities, "relation": self.relations, "tail": self.entities}
            for (what, count), ids in zip(sizes.items(), (heads, relation, tails), strict=True):
                if len(ids) and not (int(np.min(ids)) >= 0 and int(np.max(ids)) < count):
                    raise BadInput(f"{split}: a {what} id is outside 0 … {count - 1}")

    @staticmethod
    def from_graph(graph: KnowledgeGraph | TrainingEdges) -> TrainingEdges:
        """The edges of a graph."""
        if isinstance(graph, TrainingEdges):
            return graph
        splits = {split: graph.edges(split) for split in SPLIT_CODE}
        return TrainingEdges(splits, len(graph.entities), len(graph.relations), graph.hash)

    def count(self, split: str) -> int:
        """How many edges a split has."""
        return len(self.splits[split][0]) if split in self.splits else 0

    @cached_property
    def graph(self) -> str:
        """What tells the graph from others."""
        return self.hash or fingerprint(self.splits)

    @cached_property
    def half_links(self) -> int:
        """How many (entity, relation, direction) have a train fact: the rows of a path network."""
        return int(self._by_relation.sum())

    @cached_property
    def half_links_of_one_end(self) -> int:
        """The same, of each relation those of the end that has fewer."""
        return int(self._by_relation.min(0).sum())

    @cached_property
    def _by_relation(self) -> NDArray[np.int64]:
        """How many heads and tails each relation has. [2, relations]"""
        heads, relation, tails = (np.asarray(side, dtype=np.int64) for side in self.splits["train"])
        pairs = [np.unique(end * self.relations + relation) for end in (heads, tails)]
        return np.stack([np.bincount(each % self.relations, minlength=self.relations) for each in pairs])

    def __str__(self) -> str:
        ends = counted(self.entities, "entity", "entities")
        return f"{counted(self.count('train'), 'edge')} of {ends} and {counted(self.relations, 'relation')}"


def fingerprint(edges: Splits) -> str:
    """A hash of the edges of all splits, for callers without a graph hash."""
    digest = hashlib.sha256()
    for split in sorted(edges):
        digest.update(split.encode())
        for part in edges[split]:
            digest.update(np.ascontiguousarray(part, dtype=np.int64).data)
    return digest.hexdigest()


# --- ranges ---------------------------------------------------------------------------------------------------------


def ranges(start: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """All ranges one after the other: number of the range, position.

    >>> [t.tolist() for t in ranges(torch.tensor([7, 2]), torch.tensor([2, 3]))]
    [[0, 0, 1, 1, 1], [7, 8, 2, 3, 4]]
    """
    ends = torch.cumsum(length, 0)
    total = int(ends[-1]) if len(ends) else 0
    source = torch.repeat_interleave(length, output_size=total)
    return source, torch.arange(total, device=start.device) + (start - (ends - length))[source]


def portions(length: Tensor) -> Iterator[tuple[int, int]]:
    """First and last of consecutive ranges whose lengths add up to about a million."""
    total = torch.cumsum(length, 0)
    begin = 0
    while begin < len(length):
        reached = int(total[begin - 1]) if begin else 0
        end = max(begin + 1, int(torch.searchsorted(total, reached + _PAIRS, right=True)))
        yield begin, end
        begin = end


def together(start: Tensor, kinds: Tensor, size: int) -> Tensor:
    """How often two kinds are in one group (a range of `kinds`). [groups + 1], [n] → float32 [size, size]"""
    count = start[1:] - start[:-1]
    group_start, group_count = torch.repeat_interleave(start[:-1], count), torch.repeat_interleave(count, count)
    total = torch.zeros(size * size, dtype=torch.int64, device=kinds.device)
    for begin, end in portions(group_count):
        owner, place = ranges(group_start[begin:end], group_count[begin:end])
        total += torch.bincount(kinds[begin:end][owner] * size + kinds[place], minlength=size * size)
    return total.view(size, size).float()
