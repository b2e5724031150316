"""Link predictors made of two tables: one row per entity, two rows per relation.

Row `r` of `relation` predicts tails from heads, row `r + relations` (its reciprocal) predicts heads from tails. A model
is four short functions on rows; everything else (blocks, training, ranking, files) is written once for all of them:

- `query(head, relation)`: what a tail should look like;
- `score_all(query, entity)`: every query against every row;
- `relation_scores(head, tail)`: every relation between two entities, for the relation-prediction loss;
- `inverse(relation)`: the rows that walk a relation backwards, for models trained without reciprocal relations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tuplet.errors import BadInput
from tuplet.predict.base import ReciprocalRows


class EmbeddingModel(ReciprocalRows, ABC):
    """What all models share; implements the `LinkPredictor` protocol.

    >>> model = DistMult(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> model.tails(torch.tensor([0]), 0).tolist(), model.heads(torch.tensor([0]), 0).tolist()
    ([[1.0, 3.0]], [[4.0, 8.0]])
    """

    kind: ClassVar[str]
    entity_parts: ClassVar[int] = 1  # an entity row is this many blocks of `rank` numbers
    relation_parts: ClassVar[int] = 1
    relation_scale: ClassVar[float | None] = None  # standard deviation of new relations; None: as of entities
    bilinear: ClassVar[bool] = True  # scores are one matrix product: training in tf32 is safe

    def __init__(self, entity: Tensor, relation: Tensor, norm: int = 2) -> None:
        rank = entity.shape[-1] // self.entity_parts
        if entity.dim() != 2 or relation.dim() != 2 or rank * self.entity_parts != entity.shape[1]:
            raise BadInput(f"{self.kind}: entity {list(entity.shape)} and relation {list(relation.shape)} do not fit")
        if relation.shape[1] != rank * self.relation_parts or relation.shape[0] % 2:
            raise BadInput(
                f"{self.kind}: relation {list(relation.shape)} does not fit entity {list(entity.shape)}; "
                f"expected [2 · relations, {rank * self.relation_parts}]"
            )
        self.entity, self.relation, self.norm = entity, relation, norm
        self.entities, self.relations, self.rank = entity.shape[0], relation.shape[0] // 2, rank

    @classmethod
    def create(
        cls, entities: int, relations: int, rank: int, scale: float, norm: int, generator: torch.Generator
    ) -> Self:
        """Random tables; drawn on the CPU, so a seed means the same on every device."""
        entity = torch.randn(entities, rank * cls.entity_parts, generator=generator) * scale
        relation = torch.randn(2 * relations, rank * cls.relation_parts, generator=generator)
        return cls(entity, relation * (scale if cls.relation_scale is None else cls.relation_scale), norm)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same model elsewhere or in another precision."""
        return type(self)(self.entity.to(device, dtype), self.relation.to(device, dtype), self.norm)

    @classmethod
    def stored(cls, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Self:
        """The model of a folder, from what `tensors` and `about` gave."""
        norm = about["norm"]
        if not isinstance(norm, int):
            raise BadInput(f"'norm' is {norm!r}")
        return cls(tensors["entity"], tensors["relation"], norm)

    @property
    def device(self) -> torch.device:
        return self.entity.device

    def tensors(self) -> dict[str, Tensor]:
        """The tables, for a model folder."""
        return {"entity": self.entity, "relation": self.relation}

    def about(self) -> dict[str, Any]:
        """What the tables are."""
        dtype = str(self.entity.dtype).removeprefix("torch.")
        sizes = {"entities": self.entities, "relations": self.relations, "rank": self.rank, "norm": self.norm}
        return {"kind": self.kind, **sizes, "dtype": dtype}

    # Scores by id ---------------------------------------------------------------------------------------------------

    def mixed_rows(self, asked: Tensor, relation: Tensor) -> Tensor:
        """Scores of all entities by rows of the relation table: (asked, relation) [n] → [n, entities]."""
        return self.score_all(self.query(self.entity[asked], self.relation[relation]), self.entity)

    def scores(self, near: Tensor, number: int, columns: Tensor) -> Tensor:
        """Scores of some entities by one row of the relation table [n], [m] → [n, m]."""
        return self.score_all(self._queries(near, number), self.entity.index_select(0, columns))

    def factors(self, near: Tensor, number: int, columns: Tensor) -> tuple[Tensor, Tensor] | None:
        """Rows and columns whose inner products are `scores`; None where a score is no such product."""
        return (self._queries(near, number), self.entity.index_select(0, columns)) if self.bilinear else None

    def _queries(self, near: Tensor, number: int) -> Tensor:
        return self.query(self.entity.index_select(0, near), self.relation[number].expand(len(near), -1))

    def pairs(self, heads: Tensor, relation: Tensor, tails: Tensor) -> Tensor:
        """Scores of single edges in the direction of `tails` [n] → [n]."""
        return self.score(self.query(self.entity[heads], self.relation[relation]), self.entity[tails])

    # Scores by row: what a model defines -----------------------------------------------------------------------------

    @abstractmethod
    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        """Rows [n, width], rows [n, width'] → [n, width]."""

    @abstractmethod
    def relation_scores(self, head: Tensor, tail: Tensor) -> Tensor:
        """Rows [n, width], [n, width] → [n, 2 · relations]."""

    @staticmethod
    @abstractmethod
    def inverse(relation: Tensor) -> Tensor:
        """Rows that predict heads from tails with exactly the scores of `relation`."""

    def score_all(self, query: Tensor, entity: Tensor) -> Tensor:
        """Queries [n, width] against rows [m, width] → [n, m]."""
        return query @ entity.T

    def score(self, query: Tensor, entity: Tensor) -> Tensor:
        """Queries [n, width] against one row each [n, width] → [n]."""
        return (query * entity).sum(-1)

    def penalty(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Σ|·|³ over the numbers of the rows [n, ·] → a scalar (N3: Lacroix et al. 2018)."""
        return torch.cat([head, relation, tail]).abs().pow(3).sum()

    @property
    def cells_per_score(self) -> int:
        """Numbers held in memory per score of `score_all` when gradients are wanted."""
        return 1


class DistMult(EmbeddingModel):
    """score = ⟨h, r, t⟩ (Yang et al. 2015); with reciprocal relations it is not bound to symmetry."""

    kind = "distmult"

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        return head * relation

    def relation_scores(self, head: Tensor, tail: Tensor) -> Tensor:
        return (head * tail) @ self.relation.T

    @staticmethod
    def inverse(relation: Tensor) -> Tensor:
        return relation


class ComplEx(EmbeddingModel):
    """score = Re⟨h, r, t̄⟩ (Trouillon et al. 2016); a row is the real part, then the imaginary part."""

    kind = "complex"
    entity_parts = relation_parts = 2

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        return multiply(head, relation)

    def relation_scores(self, head: Tensor, tail: Tensor) -> Tensor:
        return multiply(conjugate(head), tail) @ self.relation.T

    @staticmethod
    def inverse(relation: Tensor) -> Tensor:
        return conjugate(relation)

    def penalty(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return cubes(torch.cat([head, relation, tail]))


class TransE(EmbeddingModel):
    """score = −‖h + r − t‖ (Bordes et al. 2013), with the 1- or 2-norm."""

    kind = "transe"
    bilinear = False

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        return head + relation

    def relation_scores(self, head: Tensor, tail: Tensor) -> Tensor:
        return -distances(tail - head, self.relation, self.norm)

    @staticmethod
    def inverse(relation: Tensor) -> Tensor:
        return -relation

    def score_all(self, query: Tensor, entity: Tensor) -> Tensor:
        return -distances(query, entity, self.norm)

    def score(self, query: Tensor, entity: Tensor) -> Tensor:
        difference = query - entity
        return -(difference.abs().sum(-1) if self.norm == 1 else length(difference))

    def penalty(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return head.new_zeros(())

    @property
    def cells_per_score(self) -> int:
        return self.rank if self.norm == 1 else 1


class RotatE(EmbeddingModel):
    """score = −‖h∘r − t‖₂ with |r| = 1 (Sun et al. 2019); a relation row holds the angles."""

    kind = "rotate"
    entity_parts = 2
    bilinear = False
    relation_scale = 1.0  # angles: small ones would make every relation the identity

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        return multiply(head, rotation(relation))

    def relation_scores(self, head: Tensor, tail: Tensor) -> Tensor:
        # ‖h∘r − t‖² = ‖h‖² + ‖t‖² − 2 Re⟨h, r, t̄⟩ since |r| = 1.
        product = multiply(conjugate(head), tail) @ rotation(self.relation).T
        squares = head.square().sum(-1, keepdim=True) + tail.square().sum(-1, keepdim=True)
        return -(squares - 2 * product).clamp_min(SMALL).sqrt()

    @staticmethod
    def inverse(relation: Tensor) -> Tensor:
        return -relation

    def score_all(self, query: Tensor, entity: Tensor) -> Tensor:
        return -distances(query, entity, 2)

    def score(self, query: Tensor, entity: Tensor) -> Tensor:
        return -length(query - entity)

    def penalty(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return cubes(torch.cat([head, tail]))  # |r| = 1 cannot shrink


SMALL = 1e-12  # under a root: its slope at 0 is infinite


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Complex product of rows (real part, imaginary part).

    >>> multiply(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])).tolist()
    [-5.0, 10.0]
    """
    a_re, a_im = a.chunk(2, -1)
    b_re, b_im = b.chunk(2, -1)
    return torch.cat([a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re], -1)


def conjugate(a: Tensor) -> Tensor:
    """Complex conjugate of rows (real part, imaginary part)."""
    re, im = a.chunk(2, -1)
    return torch.cat([re, -im], -1)


def rotation(angle: Tensor) -> Tensor:
    """Unit complex numbers of angles [n, rank] → [n, 2 · rank]."""
    return torch.cat([angle.cos(), angle.sin()], -1)


def cubes(a: Tensor) -> Tensor:
    """Sum of |·|³ over the complex numbers of rows."""
    re, im = a.chunk(2, -1)
    square = re.square() + im.square()
    return (square * (square + SMALL).sqrt()).sum()


def length(a: Tensor) -> Tensor:
    """Euclidean length of rows [n, width] → [n]."""
    return a.square().sum(-1).clamp_min(SMALL).sqrt()


def distances(a: Tensor, b: Tensor, norm: int) -> Tensor:
    """Distances of rows [n, width] to rows [m, width] → [n, m], without an [n, m, width] array for the scores.

    >>> distances(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]), 2).item()
    5.0
    """
    if norm == 1:
        return torch.cdist(a, b, p=1.0)
    squares = a.square().sum(-1, keepdim=True) + b.square().sum(-1)
    return (squares - 2 * (a @ b.T)).clamp_min(SMALL).sqrt()
