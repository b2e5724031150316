"""Scores by hand, and the contract that every model keeps."""

from __future__ import annotations

import math

import pytest
import torch
from predict_data import EMBEDDINGS

from tuplet.errors import BadInput
from tuplet.predict.embeddings import ComplEx, DistMult, EmbeddingModel, RotatE, TransE
from tuplet.predict.model_folder import load, model_class, save

ALL = [(kind, norm) for kind in EMBEDDINGS for norm in ((1, 2) if kind == "transe" else (2,))]


def make(kind: str, norm: int = 2, entities: int = 7, relations: int = 3, rank: int = 5) -> EmbeddingModel:
    return model_class(kind).create(entities, relations, rank, 0.5, norm, torch.Generator().manual_seed(1))


def one(model: EmbeddingModel) -> float:
    return float(model.tails(torch.tensor([0]), 0)[0, 1])


def test_distmult_by_hand() -> None:
    model = DistMult(torch.tensor([[1.0, 2.0], [3.0, -1.0]]), torch.tensor([[2.0, 0.5], [0.0, 0.0]]))
    assert one(model) == 1 * 2 * 3 + 2 * 0.5 * -1


def test_complex_by_hand() -> None:
    # h = 1 + 2i, r = 3 − i, t = 2 + 5i: Re(h r t̄) = Re((5 + 5i)(2 − 5i)) = 10 + 25.
    model = ComplEx(torch.tensor([[1.0, 2.0], [2.0, 5.0]]), torch.tensor([[3.0, -1.0], [0.0, 0.0]]))
    assert one(model) == 35.0


def test_complex_layout_is_real_part_then_imaginary_part() -> None:
    h, r, t = (torch.randn(4, dtype=torch.complex64, generator=torch.Generator().manual_seed(i)) for i in range(3))
    rows = [torch.cat([z.real, z.imag]) for z in (h, t, r)]
    model = ComplEx(torch.stack(rows[:2]), torch.stack([rows[2], rows[2]]))
    assert one(model) == pytest.approx(float((h * r * t.conj()).sum().real), abs=1e-5)


def test_transe_by_hand() -> None:
    entity, relation = torch.tensor([[1.0, 2.0], [4.0, 7.0]]), torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    assert one(TransE(entity, relation, 1)) == -(3 + 4)
    assert one(TransE(entity, relation, 2)) == pytest.approx(-5.0)


def test_rotate_by_hand() -> None:
    # 1 + 2i turned by a quarter is −2 + i; its distance to 1 + 5i is |−3 − 4i| = 5.
    model = RotatE(torch.tensor([[1.0, 2.0], [1.0, 5.0]]), torch.tensor([[math.pi / 2], [0.0]]))
    assert one(model) == pytest.approx(-5.0, abs=1e-5)


@pytest.mark.parametrize(("kind", "norm"), ALL)
class TestContract:
    def test_rows_equal_pairs(self, kind: str, norm: int) -> None:
        model = make(kind, norm)
        everything = torch.arange(model.entities)
        for relation in range(2 * model.relations):
            rows = model.tails(everything, relation)
            heads, tails = everything.repeat_interleave(model.entities), everything.repeat(model.entities)
            pairs = model.pairs(heads, torch.full_like(heads, relation), tails)
            assert rows.shape == (model.entities, model.entities)
            torch.testing.assert_close(pairs.view_as(rows), rows, rtol=1e-4, atol=1e-4)

    def test_heads_go_through_the_reciprocal_relation(self, kind: str, norm: int) -> None:
        model = make(kind, norm)
        for relation in range(model.relations):
            asked = torch.tensor([0, 3, 6])
            assert torch.equal(model.heads(asked, relation), model.tails(asked, relation + model.relations))

    def test_derived_reciprocal_relations_score_the_same_edge_the_same(self, kind: str, norm: int) -> None:
        made = make(kind, norm)
        forward = made.relation[: made.relations]
        model = type(made)(made.entity, torch.cat([forward, made.inverse(forward)]), norm)
        everything = torch.arange(model.entities)
        for relation in range(model.relations):
            forwards, backwards = model.tails(everything, relation), model.heads(everything, relation)
            torch.testing.assert_close(forwards, backwards.T, rtol=1e-4, atol=1e-4)

    def test_relation_scores_are_the_scores_of_the_relations(self, kind: str, norm: int) -> None:
        model = make(kind, norm)
        heads, tails = torch.tensor([0, 1, 2, 4]), torch.tensor([3, 1, 6, 5])
        scores = model.relation_scores(model.entity[heads], model.entity[tails])
        for relation in range(2 * model.relations):
            single = model.pairs(heads, torch.full_like(heads, relation), tails)
            torch.testing.assert_close(scores[:, relation], single, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
    def test_save_and_load_keep_every_bit(self, kind: str, norm: int, dtype: torch.dtype, tmp_path) -> None:
        model = make(kind, norm).to(dtype=dtype)
        save(model, tmp_path / "m", {"graph": "abc"})
        again = load(tmp_path / "m", dtype=None)
        assert type(again) is type(model)
        assert again.norm == norm
        assert again.entity.dtype == dtype
        assert torch.equal(again.entity, model.entity)
        assert torch.equal(again.relation, model.relation)
        widened = load(tmp_path / "m")
        assert widened.entity.dtype == torch.float32
        assert torch.equal(widened.entity, model.entity.float())


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean 'rotate'"):
        model_class("rotat")
    assert model_class("ComplEx") is ComplEx


def test_tables_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadInput, match="do not fit"):
        ComplEx(torch.zeros(3, 5), torch.zeros(2, 5))
    with pytest.raises(BadInput, match="does not fit"):
        RotatE(torch.zeros(3, 4), torch.zeros(2, 4))
    with pytest.raises(BadInput, match="does not fit"):
        DistMult(torch.zeros(3, 4), torch.zeros(3, 4))
