"""Columns that are searched for, beside all of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_truth_predictor import Plain
from test_truth_sweep import random_model

import tuplet
from repeatable import examples
from tuplet.errors import BadInput
from tuplet.predict.base import LinkPredictor
from tuplet.truth.candidates import rows as row_logs
from tuplet.truth.candidates import score, sources
from tuplet.truth.candidates.rows import CellProducts, ColumnCells, HalfLinks, RowLogs
from tuplet.truth.candidates.score import ShardSize, score_candidates
from tuplet.truth.candidates.sources import CandidateSources, choose
from tuplet.truth.edges import HIGHEST_PREDICTION, SearchCheck
from tuplet.truth.rules import Calibration
from tuplet.truth.store_folder import StoreFiles

ENTITIES = 1500


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    """Entities around a few centres, as trained ones are."""
    made = random_model(entities=ENTITIES)
    generator = torch.Generator().manual_seed(1)
    centres = torch.randn(30, made.entity.shape[1], generator=generator)
    which = torch.randint(30, (ENTITIES,), generator=generator)
    noise = torch.randn(made.entity.shape, generator=generator)
    with torch.no_grad():
        made.entity.copy_(1.5 * centres[which] + 0.5 * noise)
    return made


def edges() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    known = np.unique(rng.integers(0, [300, 2, ENTITIES], (900, 3)), axis=0)
    return known[:, 0], known[:, 1], known[:, 2]


def test_a_search_finds_nearly_all_and_sums_come_out_right(model: LinkPredictor) -> None:
    vectors = model.factors(torch.zeros(0, dtype=torch.int64), 0, torch.arange(ENTITIES))[1].detach()
    rows, columns = 0.25 * vectors[:200], vectors[::2]  # a row is best met by the columns around it
    scores = rows.double() @ columns.double().T
    cells = ColumnCells(columns)
    assert sorted(cells.places.tolist()) == list(range(len(columns)))
    looks = torch.where(torch.arange(200) % 6 == 5, len(columns), 250)  # some may see all
    products = CellProducts(rows, cells, looks)
    sums = torch.logsumexp(scores, 1)
    torch.testing.assert_close(products.log_sums().double(), sums, atol=0.05, rtol=0)
    torch.testing.assert_close(products.log_sums().double()[5::6], sums[5::6], atol=1e-4, rtol=0)
    threshold = (sums + math.log(0.002)).float()
    row, place = products.list_reaching(threshold)
    wanted = scores >= threshold[:, None]
    assert bool(wanted[row, place].all())
    assert len(row) >= 0.95 * int(wanted.sum()) > 2000
    levels = threshold[:, None] + torch.tensor([0.0, 1.0])
    assert products.count_reaching(levels)[:, 0].tolist() == torch.bincount(row, minlength=200).tolist()
    assert products.count_reaching(levels)[5::6, 1].tolist() == (scores >= levels[:, 1:]).sum(1)[5::6].tolist()
    seen = sum(block.numel() for _, _, block in products._looks)
    assert seen <= int(looks[looks < len(columns)].sum()), "no row looks at more than it may"


@examples(40)
@given(st.integers(1, 40), st.integers(1, 60), st.integers(1, 6), st.integers(1, 80), st.integers(0, 2**31 - 1))
def test_rows_that_see_every_cell_are_those_of_all_scores(
    rows: int, columns: int, width: int, looks: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    near, far = torch.randn(rows, width, generator=generator), torch.randn(columns, width, generator=generator)
    far[: columns // 2] = far[0].clone()  # columns that are equal are in one cell, and others may be empty
    cells = ColumnCells(far)
    products, whole = CellProducts(near, cells, torch.full((rows,), looks)), near @ far.T
    threshold = whole.quantile(0.7, dim=1)
    row, place = products.list_reaching(threshold)
    assert bool((whole[row, place] >= threshold[row] - 1e-4).all())
    everything = CellProducts(near, cells, torch.full((rows,), columns - 1))  # every cell, or all but the last
    for found in (products, everything):
        assert bool(
            (found.count_reaching(threshold[:, None])[:, 0] <= (whole >= threshold[:, None] - 1e-4).sum(1)).all()
        )
        assert bool(found.log_sums().isfinite().all())
    if looks >= columns:
        torch.testing.assert_close(products.log_sums(), torch.logsumexp(whole, 1))


@pytest.mark.parametrize("cells", [1 << 30, 20 * ENTITIES], ids=["whole", "in shards"])
def test_candidates_are_nearly_those_of_all_scores(
    model: LinkPredictor, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_logs, "_WORTH", 0)
    monkeypatch.setattr(score, "SHARD", ShardSize(cells))
    exact = score_candidates({"m": model}, edges(), CandidateSources(0.0), 0.002)
    found = score_candidates({"m": model}, edges(), CandidateSources(0.0, per_fact=400), 0.002)
    places = {edge: place for place, edge in enumerate(zip(exact.heads, exact.relation, exact.tails, strict=True))}
    both = [
        (places[e], n) for n, e in enumerate(zip(found.heads, found.relation, found.tails, strict=True)) if e in places
    ]
    assert len(both) >= 0.97 * max(len(exact), len(found))
    mine, others = np.array(both).T
    off = np.abs(exact.logs[:, :, mine] - found.logs[:, :, others])
    assert np.quantile(off, 0.99) < 0.1
    total = sum(found.searched.values(), SearchCheck())
    assert set(found.searched) == {0, 1}
    assert total.rows >= 100
    assert total.wanted == total.edges
    assert 0.97 <= total.found / total.edges <= 1
    assert 0 < total.off / total.rows < 0.1, "what rows are divided by is nearly that of all scores"
    assert not exact.searched


def test_a_search_is_made_where_it_saves_work(model: LinkPredictor) -> None:
    heads, relation, tails = (torch.from_numpy(side) for side in edges())
    own = relation == 0
    links = HalfLinks.from_edges(0, False, heads[own], tails[own], torch.arange(ENTITIES))
    assert len(links.rows) < 512, "too few to be worth it"
    assert links.looking(10) is links
    many = replace(links, rows=torch.arange(ENTITIES), known_rows=links.rows[links.known_rows])
    some = many.looking(100)
    assert some.looks().tolist() == [
        100 * max(1, facts) for facts in torch.bincount(many.known_rows, minlength=ENTITIES)
    ]
    assert many.looking(ENTITIES) is many, "every row sees all"
    assert RowLogs(model, some, Calibration(), 1 << 20).searched
    assert not RowLogs(Plain(model, arrays=False), some, Calibration(), 1 << 20).searched


def test_what_a_row_leaves_out_is_told(model: LinkPredictor) -> None:
    found = score_candidates({"m": model}, edges(), CandidateSources(0.0, most=2), 0.002)
    total = sum(found.searched.values(), SearchCheck())
    assert total.found == total.wanted < total.edges, "nothing was searched for"
    assert total.missed > 0.3
    assert total.off == 0, "all scores were summed"


@examples(30)
@given(st.integers(0, 2**31 - 1), st.sampled_from([None, 2, 20]), st.sampled_from([None, 1]))
def test_no_row_leaves_out_an_edge_that_is_truer_than_its_bound(
    seed: int, per_fact: int | None, most: int | None
) -> None:
    floor, rng = 0.05, np.random.default_rng(seed)
    model = random_model(seed=seed, entities=60)
    known = np.unique(rng.integers(0, [60, 2, 60], (60, 3)), axis=0)
    facts = known[:, 0], known[:, 1], known[:, 2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_logs, "_WORTH", 0)
        patch.setattr(row_logs, "_CHECKED", 1)  # so few rows say nothing about the others
        found = score_candidates({"m": model}, facts, CandidateSources(0.0, per_fact=per_fact, most=most), floor)
    dense = score_candidates({"m": model}, facts, CandidateSources(0.0), 1e-6)
    listed = set(zip(found.heads, found.relation, found.tails, strict=True))
    bounds = found.may_miss(model.relations, floor)
    assert (bounds is None) == (per_fact is most is None), "where all is scored the floor bounds the rest"
    scored = set(zip(known[:, 0], known[:, 1], strict=True)), set(zip(known[:, 2], known[:, 1], strict=True))
    unknown = zip(dense.heads, dense.relation, dense.tails, np.exp(dense.logs[0].T), strict=True)
    for head, relation, tail, truth in unknown:
        if (head, relation, tail) not in listed:
            for near, rows, said in zip((head, tail), scored, truth, strict=True):
                if (near, relation) in rows:
                    assert min(said, HIGHEST_PREDICTION) <= (floor if bounds is None else bounds[relation]) + 1e-5


def test_a_store_of_a_large_graph_says_what_is_not_listed(
    model: LinkPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_SMALL", 0)
    monkeypatch.setattr(sources, "BOUNDED_FROM", 500)
    names = [[f"{letter}{number}" for number in side.tolist()] for letter, side in zip("ere", edges(), strict=True)]
    others = [(f"e{number}", "r2", "e0") for number in range(ENTITIES)]
    facts = [*zip(*names, strict=True), *others]
    graph = tuplet.read(facts[40:], valid=facts[:40])
    store = tuplet.index(graph, model, tmp_path / "s", progress=False)
    assert store.meta is not None
    told = store.meta.report.candidates
    assert told is not None
    assert told["floor"] == sources.BOUNDED_FLOOR
    named = tuplet.index(graph, model, tmp_path / "t", calibration="softmax-count", progress=False)
    assert named.meta is not None
    bounds = StoreFiles.open(tmp_path / "t").table.row_dropped
    assert bounds.min() == np.float32(named.meta.threshold), "that is its floor"


def test_what_cannot_be_searched_is_refused_in_one_line(model: LinkPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_SMALL", 0)
    known, valid = edges(), tuple(side[:9] for side in edges())
    with pytest.raises(BadInput, match=r"^nearest candidates need scores that are inner products.* of Plain are not$"):
        choose(ENTITIES, 2, known, valid, "nearest", [Plain(model, arrays=False)])
    assert choose(ENTITIES, 2, known, valid, "nearest", [Plain(model, arrays=False), model]).sources.per_fact == 512


def test_a_large_graph_is_bounded_by_its_facts(model: LinkPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_SMALL", 0)
    monkeypatch.setattr(sources, "PER_FACT", 20)
    known, valid = edges(), tuple(side[:9] for side in edges())
    before = choose(ENTITIES, 2, known, valid, None, [model])
    assert before.sources.per_fact is before.sources.most is None
    assert before.floor == 0
    monkeypatch.setattr(sources, "BOUNDED_FROM", 500)
    after = choose(ENTITIES, 2, known, valid, None, [model])
    assert (after.sources.per_fact, after.sources.most, after.floor) == (20, None, sources.BOUNDED_FLOOR)
    assert after.pairs <= 2 * 20 * len(known[0]) < before.pairs
    assert str(after).endswith("; listed from 0.008 on")
    other = choose(ENTITIES, 2, known, valid, None, [Plain(model, arrays=False)])
    assert (other.sources.per_fact, other.sources.most, other.floor) == (None, 32, 0)


def test_a_store_says_what_its_search_may_miss(
    model: LinkPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_logs, "_WORTH", 0)
    monkeypatch.setattr(sources, "PER_FACT", 8)  # too few
    monkeypatch.setattr(sources, "_SMALL", 0)
    names = [[f"{letter}{number}" for number in side.tolist()] for letter, side in zip("ere", edges(), strict=True)]
    others = [(f"e{number}", "r2", "e0") for number in range(ENTITIES)]
    graph = tuplet.read([*zip(*names, strict=True), *others])
    store = tuplet.index(
        graph, model, tmp_path / "s", candidates="nearest", calibration="softmax-count", progress=False
    )
    assert store.meta is not None
    told = store.meta.report.candidates
    assert told is not None
    assert "nearest 8 for each fact of a row" in told["sources"]
    assert told["search"]["recall"] < 0.9
    assert told["search"]["missed_truth"] > 2 * store.meta.threshold
    bounds = StoreFiles.open(tmp_path / "s").table.row_dropped
    assert bounds.max() == HIGHEST_PREDICTION, "rows that were not looked at may have missed more than those that were"
    assert bounds.min() >= np.float32(store.meta.threshold)
