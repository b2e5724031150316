"""Candidates against brute force: which pairs are plausible, what is counted, what every scorer says about them."""

from __future__ import annotations

import math
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_truth_predictor import Plain
from test_truth_store import small_graph
from test_truth_sweep import ENTITIES, RELATIONS, Triples, random_edges, random_model

import tuplet
from tuplet.cli import main
from tuplet.errors import BadInput
from tuplet.predict import model_folder
from tuplet.predict.base import LinkPredictor
from tuplet.truth.candidates import rows as row_logs
from tuplet.truth.candidates import sources
from tuplet.truth.candidates.score import finished_relations, score_candidates
from tuplet.truth.candidates.scorer import CandidateScorer
from tuplet.truth.candidates.sources import EVERYTHING, LEVELS, CandidateSources, choose, count
from tuplet.truth.edges import ScoredEdges
from tuplet.truth.rules import Calibration

TWO = {"first": random_model(), "second": random_model(seed=5)}
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "score_gpu.py"


def supports(edges: Triples) -> np.ndarray:
    """How surely each entity has each view [entities, views]."""
    return _supports(tuple(zip(*(side.tolist() for side in edges), strict=True)))


@cache
def _supports(edges: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    """From sets."""
    has: list[set[int]] = [set() for _ in range(ENTITIES)]
    for h, r, t in edges:
        has[h].add(2 * r)
        has[t].add(2 * r + 1)
    out = np.zeros((ENTITIES, 2 * RELATIONS))
    for e in range(ENTITIES):
        for v in range(2 * RELATIONS):
            shares = [sum({u, v} <= one for one in has) / (sum(u in one for one in has) + 5) for u in has[e]]
            out[e, v] = 1.0 if v in has[e] else max(shares, default=0.0)
    return out


def scored_pairs(edges: Triples, least: float, open_from: float | None = None) -> set[tuple[int, int, int]]:
    """Half-links × plausible ends, from the definition; with `open_from` the pairs without a fact."""
    support = supports(edges)
    if open_from is not None:
        return {
            (h, r, t)
            for r in range(RELATIONS)
            for h in range(ENTITIES)
            for t in range(ENTITIES)
            if max(a := support[h, 2 * r], b := support[t, 2 * r + 1]) < 1
            and min(a, b) >= least
            and max(a, b) >= open_from
        }
    return {
        (h, r, t)
        for r in range(RELATIONS)
        for h in range(ENTITIES)
        for t in range(ENTITIES)
        if (support[h, 2 * r] >= 1 and support[t, 2 * r + 1] >= least)
        or (support[t, 2 * r + 1] >= 1 and support[h, 2 * r] >= least)
    }


def row_log(
    model: LinkPredictor, edges: Triples, near: int, r: int, inverse: bool, far: int, least: float, lists: bool = False
) -> float:
    """log(softmax over the plausible columns × known ends) of one entry; NaN if the row has no fact and is not asked.

    Whole rows are asked for where there is a fact alone; and others list no edges (`lists`).
    """
    heads, relation, tails = edges
    ends = (heads if inverse else tails)[(relation == r) & ((tails if inverse else heads) == near)]
    if not len(ends) and (lists or isinstance(model, Plain)):
        return math.nan
    columns = np.nonzero(supports(edges)[:, 2 * r + (not inverse)] >= least)[0]
    row = np.asarray((model.heads if inverse else model.tails)(torch.tensor([near]), r))[0].astype(np.float64)
    return float(row[far] - np.log(np.exp(row[columns]).sum()) + np.log(max(1, len(ends))))


def triples(scored: ScoredEdges) -> list[tuple[int, int, int]]:
    return list(zip(scored.heads.tolist(), scored.relation.tolist(), scored.tails.tolist(), strict=True))


def in_small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where there are kernels, but for the kernels: products are looked at tile by tile."""
    monkeypatch.setattr(row_logs, "has_kernels", lambda device: True)
    monkeypatch.setattr(row_logs, "score_products", row_logs.ScoreProducts)
    monkeypatch.setattr(row_logs, "_TILE_ROWS", 5)
    monkeypatch.setattr(row_logs, "_TILE_COLUMNS", 7)


@pytest.mark.parametrize("least", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("most", [7 * ENTITIES, 1 << 24, 0], ids=["in blocks", "whole", "never written"])
def test_half_links_equal_the_definition(least: float, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if most:
        monkeypatch.setattr(row_logs, "_MOST_SCORES", most)
    else:
        in_small_tiles(monkeypatch)
    edges = random_edges(3, count=90)
    memory = 12 * ENTITIES if most < 1 << 24 else None  # too little to hold blocks: they are computed again
    scored = score_candidates(TWO, edges, CandidateSources(least), 0.02, memory=memory)
    found, pairs = triples(scored), scored_pairs(edges, least)
    assert set(found) <= pairs
    assert found == sorted(found, key=lambda edge: (edge[1], edge[0], edge[2]))
    for place in range(0, len(found), 17):
        h, r, t = found[place]
        wanted = [
            [row_log(model, edges, *ends, least) for ends in ((h, r, False, t), (t, r, True, h))]
            for model in TWO.values()
        ]
        np.testing.assert_allclose(scored.logs[:, :, place], wanted, atol=1e-4)
    assert (scored.logs.max((0, 1)) >= math.log(0.02) - 1e-4).all()
    listed = set(found)
    some = sorted(pairs - listed)[::50]
    for h, r, t in some:  # what is not listed is below the floor for everybody
        ends = ((h, r, False, t), (t, r, True, h))
        logs = [row_log(m, edges, *e, least, lists=True) for m in TWO.values() for e in ends]
        assert np.nanmax(logs) < math.log(0.02) + 1e-4
    assert len(some) > 5


@pytest.mark.parametrize("written", [True, False])
def test_a_row_lists_no_more_than_it_may_and_the_best(written: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not written:
        in_small_tiles(monkeypatch)
    model, most, floor = random_model(), 4, 0.001
    heads, _, tails = (torch.from_numpy(side.astype(np.int64)) for side in random_edges(3, count=90))
    links = row_logs.HalfLinks.from_edges(1, False, heads, tails, torch.arange(ENTITIES))
    logs = row_logs.RowLogs(model, links, Calibration(), 1 << 20)
    listed = logs.reaching(floor, most)
    everything = logs.at(*(side.reshape(-1) for side in torch.meshgrid(links.rows, links.columns, indexing="ij")))
    levels = [floor * 4**power for power in range(5)] + [1.0]
    floors = []
    for row, values in zip(links.rows.tolist(), everything.view(-1, ENTITIES), strict=True):
        room = most + int((heads == row).sum())
        floors.append(next((level for level in levels if (values >= math.log(level)).sum() <= room), 1.0))
        reached = torch.nonzero(values >= math.log(floors[-1])).view(-1)
        assert torch.sort(listed[listed // ENTITIES == row] % ENTITIES).values.tolist() == reached.tolist()
    assert len(set(floors)) > 2


def test_whole_rows_are_asked_for_once_and_add_their_best_scores() -> None:
    asked: list[tuple[int, bool, int]] = []

    class Counting(Plain):
        def tails(self, heads: torch.Tensor, relation: int) -> Any:
            asked.extend((int(head), False, relation) for head in heads)
            return super().tails(heads, relation)

        def heads(self, tails: torch.Tensor, relation: int) -> Any:
            asked.extend((int(tail), True, relation) for tail in tails)
            return super().heads(tails, relation)

    edges, sources_ = random_edges(3, count=90), CandidateSources(1.0)
    plain = {"plain": Counting(random_model(), arrays=True), "other": random_model(seed=5)}
    scored = score_candidates(plain, edges, sources_, 0.02)
    narrow = score_candidates({"plain": random_model(), "other": plain["other"]}, edges, sources_, 0.02)
    heads, relation, tails = edges
    rows = {(int(h), False, int(r)) for h, r in zip(heads, relation, strict=True)}
    rows |= {(int(t), True, int(r)) for t, r in zip(tails, relation, strict=True)}
    assert sorted(asked) == sorted(rows)
    places = {edge: place for place, edge in enumerate(triples(scored))}
    same = [places[edge] for edge in triples(narrow)]
    told = ~np.isnan(scored.logs[:, :, same])
    np.testing.assert_allclose(scored.logs[:, :, same][told], narrow.logs[told], atol=1e-4)
    outside = set(places) - scored_pairs(edges, 1.0)
    assert outside
    h, r, t = min(outside)
    wanted = [
        [row_log(model, edges, *ends, 1.0) for ends in ((h, r, False, t), (t, r, True, h))] for model in plain.values()
    ]
    np.testing.assert_allclose(scored.logs[:, :, places[h, r, t]], wanted, atol=1e-4)


def test_all_pairs_of_two_scorers_are_the_union_with_all_scores() -> None:
    edges = random_edges()
    both = score_candidates(TWO, edges, EVERYTHING, 0.05)
    each = [score_candidates({name: model}, edges, EVERYTHING, 0.05) for name, model in TWO.items()]
    assert set(triples(both)) == set(triples(each[0])) | set(triples(each[1]))
    places = {edge: place for place, edge in enumerate(triples(both))}
    for number, one in enumerate(each):
        np.testing.assert_allclose(both.logs[number][:, [places[e] for e in triples(one)]], one.logs[0], atol=1e-5)
    assert np.isfinite(both.logs).all()


def test_counts_are_those_of_the_definition() -> None:
    edges, valid = random_edges(3, count=90), random_edges(4, count=60)
    chosen = [CandidateSources(least) for least in LEVELS]
    chosen += [CandidateSources(0.3, open_from=level) for level in (0.5, 0.3)] + [CandidateSources(0.0, open_from=0.3)]
    pairs, held = count(ENTITIES, RELATIONS, edges, valid, chosen)
    asked = set(zip(*(side.tolist() for side in valid), strict=True))
    for place, source in enumerate(chosen):
        wanted = scored_pairs(edges, source.least)
        if source.open_from is not None:
            wanted |= scored_pairs(edges, source.least, source.open_from)
        assert (pairs[place], held[place]) == (len(wanted), len(wanted & asked))
    assert len(set(pairs.tolist())) > 4


def test_pairs_without_a_fact_join_in_and_leave_the_others_alone(tmp_path: Path) -> None:
    edges, rule, least = random_edges(3, count=60), Calibration(), 0.2
    cache = finished_relations(tmp_path, ["a", "b"], CandidateSources(least), 0.02, rule, edges)
    scorers = {"cheap": random_model(), "whole": Plain(random_model(seed=5), arrays=False)}
    alone = score_candidates(scorers, edges, CandidateSources(least), 0.02, rule, cache=cache)
    wider = CandidateSources(least, open_from=0.3)
    both = score_candidates(scorers, edges, wider, 0.02, rule, cache=cache)
    assert triples(score_candidates(scorers, edges, wider, 0.02, rule)) == triples(both)
    places = {edge: place for place, edge in enumerate(triples(both))}
    same = [places.pop(edge) for edge in triples(alone)]
    assert np.array_equal(both.logs[:, :, same], alone.logs, equal_nan=True)
    assert triples(both) == sorted(triples(both), key=lambda edge: (edge[1], edge[0], edge[2]))
    assert set(places) <= scored_pairs(edges, least, 0.3)
    assert len(places) > 5
    support = supports(edges)
    for (h, r, t), place in places.items():
        assert np.isnan(both.logs[1, :, place]).all()
        for inverse, near, far in ((0, h, t), (1, t, h)):
            row = np.asarray((random_model().heads if inverse else random_model().tails)(torch.tensor([near]), r))[0]
            columns = np.nonzero(support[:, 2 * r + 1 - inverse] >= least)[0]
            wanted = row[far] - np.log(np.exp(row[columns]).sum())
            np.testing.assert_allclose(both.logs[0, inverse, place], wanted, atol=1e-4)


def test_wide_rows_are_those_of_entities_without_a_fact_too() -> None:
    edges, least = random_edges(3, count=60), 0.2
    scorers = {"cheap": random_model(), "whole": Plain(random_model(seed=5), arrays=False)}
    default = score_candidates(scorers, edges, CandidateSources(least, open_from=0.22), 0.02)
    wide = score_candidates(scorers, edges, CandidateSources(least, open_from=0.22, rows_from=0.3), 0.02)
    places = {edge: place for place, edge in enumerate(triples(wide))}
    same = [places[edge] for edge in triples(default)]  # nothing is lost, and what was said is said again
    told = ~np.isnan(default.logs)
    np.testing.assert_allclose(wide.logs[:, :, same][told], default.logs[told], atol=1e-4)
    support, model, more = supports(edges), random_model(seed=5), 0
    for (h, r, t), place in places.items():
        for inverse, near, far in ((0, h, t), (1, t, h)):
            found = wide.logs[1, inverse, place]
            assert np.isnan(found) == (support[near, 2 * r + inverse] < 0.3)
            if support[near, 2 * r + inverse] < 1 and not np.isnan(found):
                row = np.asarray((model.heads if inverse else model.tails)(torch.tensor([near]), r))[0]
                columns = np.nonzero(support[:, 2 * r + 1 - inverse] >= least)[0]
                np.testing.assert_allclose(found, row[far] - np.log(np.exp(row[columns]).sum()), atol=1e-4)
                more += 1
    assert more > 20
    assert len(wide) > len(default)


def typed_edges(seed: int, entities: int, kinds: int) -> Triples:
    """Edges of relation r go from entities of kind r to those of kind r + 1, for each of the kinds."""
    rng = np.random.default_rng(seed)
    relation = rng.integers(0, kinds, 12 * entities)
    size = entities // (kinds + 1)
    heads, tails = (rng.integers(0, size, len(relation)) + size * (relation + side) for side in (0, 1))
    edges = np.unique(np.stack([relation, heads, tails]), axis=1).astype(np.int32)
    return edges[1], edges[0], edges[2]


def halves(edges: Triples, seed: int) -> tuple[Triples, Triples]:
    aside = np.random.default_rng(seed).random(len(edges[0])) < 0.1
    return tuple(e[~aside] for e in edges), tuple(e[aside] for e in edges)  # type: ignore[return-value]


def test_types_make_the_choice_narrow_and_a_word_net_makes_it_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_SMALL", 0)
    typed = choose(400, 3, *halves(typed_edges(0, 400, 3), 0))
    assert typed.sources.least >= 0.1
    assert typed.pairs < 3 * 400**2 / 8
    assert typed.held[str(typed.sources.first_part)] >= 0.98 * typed.held[str(CandidateSources(0.0))]
    rng = np.random.default_rng(1)  # one relation, a fact for one entity in five: nothing speaks for another end
    net = (rng.integers(0, 2000, 400), np.zeros(400, dtype=np.int64), rng.integers(0, 2000, 400))
    wide = choose(2000, 1, *halves(net, 1))
    assert wide.sources.first_part == CandidateSources(0.0)
    none = np.zeros(0, dtype=np.int64)
    assert choose(2000, 1, net, (none, none, none)).sources == CandidateSources(sources.UNTOLD)
    assert choose(2000, 1, net, (none, none, none), "all").sources == EVERYTHING
    with pytest.raises(BadInput, match="unknown kind of candidates 'halflinks'; did you mean 'half-links'"):
        choose(2000, 1, net, net, "halflinks")


def test_of_many_facts_few_pairs_are_scored_and_listed_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_SMALL", 0)
    rng = np.random.default_rng(1)
    net = (rng.integers(0, 2000, 400), np.zeros(400, dtype=np.int64), rng.integers(0, 2000, 400))
    known, valid = halves(net, 1)
    plain = choose(2000, 1, known, valid)
    monkeypatch.setattr(sources, "BOUNDED_FROM", 1)
    monkeypatch.setattr(sources, "MOST_PAIRS", 500)
    bounded = choose(2000, 1, known, valid)
    assert bounded.pairs <= 500 * len(known[0]) < plain.pairs
    assert bounded.sources.most == sources.MOST_LISTED
    assert str(bounded.sources) in bounded.held
    assert choose(2000, 1, known, valid, "half-links").sources.least == 0.0  # as asked for


def test_parts_lie_apart_by_what_decides_them(tmp_path: Path) -> None:
    edges, rule = random_edges(), Calibration()
    sources_ = CandidateSources(0.1)
    some = finished_relations(tmp_path, ["a", "b"], sources_, 0.002, rule, edges)
    other = finished_relations(tmp_path, ["a", "b"], EVERYTHING, 0.002, rule, edges)
    assert some is not None
    assert other is not None
    assert other.folder != some.folder
    assert finished_relations(tmp_path, ["a", None], sources_, 0.002, rule, edges) is None


@pytest.fixture(scope="module")
def two_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    graph = small_graph()
    graph.save(folder / "graph")
    for seed in (1, 2):
        model = random_model(seed=seed, entities=len(graph.entities))
        model_folder.save(model, folder / f"m{seed}", {"graph": graph.hash})
    return folder


def test_index_takes_several_models(two_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = [two_models / "m1", two_models / "m2"]
    store = tuplet.index(two_models / "graph", models, tmp_path / "s", candidates="half-links", progress=False)
    about = store.info()
    assert [model["kind"] for model in about["models"]] == ["complex", "complex"]
    told = about["report"]["candidates"]
    assert told["sources"].startswith("half-links × ")
    levels = [CandidateSources(least) for least in LEVELS]
    pairs, _ = count(*_sizes(store), *_splits(store), levels)
    assert told["listed"] <= told["pairs"] == pairs[[str(level) for level in levels].index(told["sources"])]
    assert main(["index", *map(str, [two_models / "graph", *models]), "-o", str(tmp_path / "c"), "--quiet"]) == 0
    capsys.readouterr()
    assert tuplet.info(tmp_path / "c")["report"]["candidates"]["sources"] == "all pairs"
    alone = tuplet.index(two_models / "graph", models[:1], tmp_path / "one", progress=False)
    assert "models" not in alone.info()
    graph = store.graph
    plain = Plain(random_model(entities=len(graph.entities)), arrays=False)
    mixed = tuplet.index(graph, [plain, models[0]], tmp_path / "m", candidates="half-links", progress=False)
    assert mixed.info()["report"]["candidates"]["whole_rows"] == ["Plain"]
    with pytest.raises(BadInput, match="takes one model, not 2"):
        tuplet.index(two_models / "graph", models, tmp_path / "d", on_demand=True)


def _sizes(store: tuplet.Store) -> tuple[int, int]:
    return len(store.graph.entities), len(store.graph.relations)


def _splits(store: tuplet.Store) -> tuple[Any, Any]:
    return store.graph.edges("train"), store.graph.edges("valid")


def test_relations_scored_on_another_machine_are_not_scored_again(
    two_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [str(two_models / name) for name in ("m1", "m2")]
    bare = "import runpy, sys; sys.modules.update(numba=None, pyarrow=None); sys.argv = sys.argv[1:]; "
    command = [sys.executable, "-c", bare + "runpy.run_path(sys.argv[0], run_name='__main__')", str(SCRIPT)]
    command += [str(two_models / "graph"), *models, "--parts", str(tmp_path / "there")]
    command += ["--volumes", str(tmp_path / "volumes"), "--device", "cpu", "--candidates", "half-links"]
    command += ["--floor", "0.005"]  # that of a calibration that is asked for by name
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (tmp_path / "here").mkdir()
    volumes = b"".join(piece.read_bytes() for piece in sorted((tmp_path / "volumes").glob("scores.*")))
    subprocess.run(["tar", "-x", "-C", str(tmp_path / "here")], input=volumes, check=True)
    choices: dict[str, Any] = {"candidates": "half-links", "calibration": "softmax-count", "progress": False}
    wanted = tuplet.index(two_models / "graph", models, tmp_path / "a", **choices)
    monkeypatch.setattr(CandidateScorer, "rows", lambda *_: pytest.fail("scored again"))
    store = tuplet.index(two_models / "graph", models, tmp_path / "b", parts=tmp_path / "here", **choices)
    assert store.info()["report"]["candidates"] == wanted.info()["report"]["candidates"]
    assert list((tmp_path / "here").rglob("*.npz")), "they are kept"


def test_beside_another_a_predictor_that_sees_the_facts_gets_rows_with_a_fact_alone() -> None:
    edges, seeing = random_edges(), random_model(seed=5)
    seeing.sees_facts = True  # type: ignore[attr-defined]
    both = score_candidates({"first": random_model(), "second": seeing}, edges, EVERYTHING, 1e-9)
    assert not np.isnan(both.logs[0]).any()
    facts = set(zip(*(side.tolist() for side in edges), strict=True))
    for direction, near in enumerate((both.heads, both.tails)):
        known = {(r, e) for r, e in zip(edges[1].tolist(), edges[2 * direction].tolist(), strict=True)}
        told = [
            (r, e) in known and (h, r, t) not in facts  # what it says of a fact that it sees means nothing
            for h, r, t, e in zip(
                *(side.tolist() for side in (both.heads, both.relation, both.tails, near)), strict=True
            )
        ]
        assert np.array_equal(~np.isnan(both.logs[1, direction]), told)
    alone = score_candidates({"second": seeing}, edges, EVERYTHING, 1e-9)
    is_fact = [
        edge in facts for edge in zip(alone.heads.tolist(), alone.relation.tolist(), alone.tails.tolist(), strict=True)
    ]
    assert np.array_equal(np.isnan(alone.logs).all((0, 1)), is_fact)
