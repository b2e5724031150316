"""The learned calibration: it finds what decides, means what it says, never sees a test edge; stores that use it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tuplet.build import choose_recipe, make
from tuplet.errors import BadInput
from tuplet.graph.graph import SPLITS, KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.predict import model_folder as files
from tuplet.predict.embeddings import ComplEx
from tuplet.store import open_store
from tuplet.truth.calibration import fit as learned
from tuplet.truth.calibration.calibrate import CalibrationResult, calibrate, candidates_of, known_edges
from tuplet.truth.calibration.features import Candidates
from tuplet.truth.calibration.fit import LEAST_VALID, Curve, LearnedCalibration, SplitCorrection, fold_of
from tuplet.truth.calibration.trees import TreeSettings
from tuplet.truth.edges import Predictions, ScoredEdges
from tuplet.truth.edit import add_facts, remove_facts
from tuplet.truth.known_edges import TrainEdges
from tuplet.truth.store_folder import StoreFiles
from tuplet.truth.store_meta import NewEntities

ENTITIES, RELATIONS = 150, 2
TRAIN, VALID, TEST = 1, 2, 3


def edge_keys(entities, heads, relation, tails):  # type: ignore[no-untyped-def]
    """One number per edge, in order of (relation, head, tail): of a small graph."""
    return (np.asarray(relation, dtype=np.int64) * entities + heads) * entities + tails


def world(
    test_seed: int | None = None, seed: int = 0, splits: tuple[int, ...] = (TRAIN, TRAIN, VALID, TEST)
) -> tuple[KnowledgeGraph, Predictions]:
    """r0 says nothing of truth but r1 follows it four times in five; the predictor's truth of r1 is noise.

    With a `test_seed` the test edges are other ones, as many.
    """
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(ENTITIES**2)
    linked, others = pairs[:3000], pairs[3000:12000]
    facts = linked[:2400].copy()
    split = np.array(splits)[np.arange(2400) % 4]
    if test_seed is not None:
        facts[split == TEST] = np.random.default_rng(test_seed).choice(others, 600, replace=False)
    both = np.concatenate([linked, facts])
    graph = KnowledgeGraph.from_edges(
        Vocabulary.from_names([f"e{i}" for i in range(ENTITIES)]),
        Vocabulary.from_names(["r0", "r1"]),
        both // ENTITIES,
        np.repeat([0, 1], [len(linked), len(facts)]),
        both % ENTITIES,
        np.concatenate([np.full(len(linked), TRAIN), split]).astype(np.uint8),
    )
    listed = np.sort(np.concatenate([linked, others]))
    edges = Predictions.from_columns(
        listed // ENTITIES, np.ones(len(listed)), listed % ENTITIES, rng.uniform(0.01, 0.6, len(listed))
    )
    return graph, edges


@pytest.fixture(scope="module", autouse=True)
def _few_trees() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learned, "TreeSettings", lambda: TreeSettings(trees=50, depth=2))
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the work is too small to be shared
        yield
        torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def done(_few_trees: None) -> CalibrationResult:
    return calibrate(*world(), ("train", "valid"))


def tensors(graph: KnowledgeGraph, edges: Predictions) -> tuple[TrainEdges, Candidates]:
    return known_edges(graph), candidates_of(edges, edges)


def test_finds_what_decides_and_means_what_it_says(done: CalibrationResult) -> None:
    assert done.before.split == done.after.split == "test"
    assert done.before.error_from(0.1) > 0.2
    assert done.after.error_from(0.1) < 0.06
    graph, edges = world()
    truth = done.fit.learned.truth(*tensors(graph, edges)).numpy()
    follows = np.isin(edges.heads * ENTITIES + edges.tails, edge_keys(ENTITIES, *graph.edges("train")) % ENTITIES**2)
    key = edge_keys(ENTITIES, *edges[:3])
    unseen = ~np.isin(key, np.concatenate([edge_keys(ENTITIES, *graph.edges(s)) for s in ("train", "valid")]))
    # 600 of the 1,200 linked pairs that are neither train nor valid are test edges
    assert abs(truth[unseen & follows].mean() - 0.5) < 0.06
    assert truth[unseen & ~follows].mean() < 0.01


@pytest.mark.parametrize(
    ("observed", "splits", "share"),
    [
        # of the pairs that r0 links, the share of facts among those that are not observed
        (("train", "valid"), (TRAIN, VALID, TEST, TEST), 1200 / 1800),
        (("train",), (TRAIN, VALID, TEST, TEST), 1800 / 2400),
        (("train", "valid"), (TRAIN, VALID, VALID, TEST), 600 / 1200),
    ],
)
def test_truth_follows_the_sizes_of_the_splits(
    observed: tuple[str, ...], splits: tuple[int, ...], share: float
) -> None:
    """Twice as many test edges as valid ones: what is not known is a fact twice as often as a valid edge was."""
    graph, edges = world(splits=splits)
    found = calibrate(graph, edges, observed)
    truth = found.fit.learned.truth(*tensors(graph, edges)).numpy()
    stated = edge_keys(ENTITIES, *graph.edges("train"))
    linked = np.isin(edges.heads * ENTITIES + edges.tails, stated[stated < ENTITIES**2])
    unseen = ~np.isin(edge_keys(ENTITIES, *edges[:3]), edge_keys(ENTITIES, *graph.edges(*observed)))
    assert truth[unseen & linked].mean() == pytest.approx(
        share, abs=0.11
    )  # noise among the columns spreads it, mostly upwards


@pytest.mark.parametrize(
    ("sizes", "valid_observed", "test_observed", "times", "given"),
    [
        ((100, 300), True, False, 3.0, 1.0),
        ((100, 300), False, False, 4.0, 0.0),
        ((100, 300), True, True, 1.0, 3.0),
        ((400, 100), True, False, 0.25, 1.0),
        ((400, 100), False, False, 1.25, 0.0),
        ((400, 0), True, False, 1.0, 0.0),
    ],
)
def test_the_correction_comes_from_the_sizes(
    sizes: tuple[int, int], valid_observed: bool, test_observed: bool, times: float, given: float
) -> None:
    assert SplitCorrection.from_sizes(*sizes, valid_observed, test_observed) == SplitCorrection(times, given)


def test_test_edges_never_enter_the_fit(done: CalibrationResult) -> None:
    """Other test edges, as many: every number of the calibration and every truth is the same, bit for bit."""
    graph, edges = world(test_seed=5)
    assert not np.array_equal(edge_keys(ENTITIES, *graph.edges("test")), edge_keys(ENTITIES, *world()[0].edges("test")))
    again = calibrate(graph, edges, ("train", "valid"))
    _same(again.fit.learned, done.fit.learned)
    assert again.edges.hash() == done.edges.hash()
    assert again.after.error > done.after.error  # only the report looks at them


def two_scorers(graph: KnowledgeGraph, edges: Predictions) -> ScoredEdges:
    """The predictor of noise, and one that knows something of r1; of every third head it computed no row."""
    rng = np.random.default_rng(7)
    valid = np.isin(edge_keys(ENTITIES, *edges[:3]), edge_keys(ENTITIES, *graph.edges("train", "valid", "test")))
    knows = -rng.uniform(0.1, 4, (2, len(edges.heads))) - np.where(valid, 0, 2)
    knows[0, edges.heads % 3 == 0] = np.nan
    logs = np.stack([np.log(np.stack([edges.prediction] * 2)), knows]).astype(np.float32)
    return ScoredEdges(edges.heads, edges.relation, edges.tails, ("noise", "paths"), logs)


def test_several_scorers_are_one_calibration(done: CalibrationResult) -> None:
    graph, edges = world()
    scored = two_scorers(graph, edges)
    both = calibrate(graph, scored, ("train", "valid"))
    about = both.fit.learned.about
    assert about["scorers"] == ["noise", "paths"]
    losses = (about["loss_per_valid_edge"]["after"], done.fit.learned.about["loss_per_valid_edge"]["after"])
    assert losses[0] < 0.95 * losses[1]
    truth = both.fit.learned.truth(known_edges(graph), candidates_of(scored, scored.predictions()))
    assert bool(torch.isfinite(truth).all())
    assert len(torch.unique(truth)) > 0.9 * len(truth)
    other, others = world(test_seed=5)
    again = calibrate(other, replace(two_scorers(other, others), logs=scored.logs), ("train", "valid"))
    _same(again.fit.learned, both.fit.learned)


def test_a_leak_would_be_noticed(done: CalibrationResult) -> None:
    """The counter-check of the test above: where test edges are given as valid ones, the calibration differs."""
    graph, edges = world()
    heads, relation, tails, entry = graph.adjacency.triples()
    split = graph.split[entry].copy()
    split[np.flatnonzero(split == TEST)[:50]] = VALID
    leaked = KnowledgeGraph.from_edges(graph.entities, graph.relations, heads, relation, tails, split)
    with pytest.raises(AssertionError):
        _same(calibrate(leaked, edges, ("train", "valid")).fit.learned, done.fit.learned)


def _same(one: LearnedCalibration, other: LearnedCalibration) -> None:
    for name, array in other.arrays().items():
        np.testing.assert_array_equal(one.arrays()[name], array)
    assert one.as_dict() == other.as_dict()


def test_order_is_kept_where_the_trees_say_nothing(done: CalibrationResult) -> None:
    """No two edges of one fold and one leaf are tied: the predictor's own order decides between them."""
    assert done.fit.learned.line[1] > 0
    graph, edges = world()
    known, candidates = tensors(graph, edges)
    truth, fold = done.fit.learned.truth(known, candidates), fold_of(known, candidates)
    assert len(torch.unique(truth)) > 0.9 * len(torch.unique(candidates.log_truth))
    assert torch.bincount(fold).min() > 0.8 * len(fold) / learned.FOLDS


def test_saved_and_opened_again_says_the_same(done: CalibrationResult) -> None:
    graph, edges = world()
    again = LearnedCalibration.from_arrays(done.fit.learned.arrays(), done.fit.learned.as_dict())
    inputs = tensors(graph, edges)
    assert torch.equal(again.truth(*inputs), done.fit.learned.truth(*inputs))


@pytest.mark.parametrize("hidden", [SplitCorrection(1.2, 1.0), SplitCorrection(2.2, 0.0), SplitCorrection()])
def test_hidden_facts(hidden: SplitCorrection) -> None:
    logit = torch.linspace(-12, 3, 1000)
    truth = hidden(logit)
    assert (truth[1:] >= truth[:-1]).all()
    assert float(truth.max()) < 1
    low = truth < 0.9
    chance = torch.sigmoid(logit[low].double())
    wanted = hidden.times * chance / (1 - hidden.given * chance)
    assert torch.allclose(truth[low].double(), wanted, rtol=1e-5)


def test_the_curve_repairs_the_scale_and_keeps_the_order() -> None:
    logit = torch.randn(50_000, generator=torch.Generator().manual_seed(0))
    label = (torch.rand(50_000, generator=torch.Generator().manual_seed(1)) < torch.sigmoid(2 * logit - 1)).float()
    curve = Curve.fit(logit, label, torch.ones(50_000))
    at = torch.linspace(-3, 3, 200)
    assert (curve(at)[1:] > curve(at)[:-1]).all()
    assert (torch.sigmoid(curve(at)) - torch.sigmoid(2 * at - 1)).abs().max() < 0.05


def _write(path: Path, graph: KnowledgeGraph, edges: Predictions, certain: float = 0.0) -> Path:
    """The candidates as a file; a share of the valid edges among them is certain."""
    names = [
        graph.entities.names(edges.heads),
        graph.relations.names(edges.relation),
        graph.entities.names(edges.tails),
    ]
    valid = np.isin(edge_keys(ENTITIES, *edges[:3]), edge_keys(ENTITIES, *graph.edges("valid")))
    sure = valid & (np.cumsum(valid) <= certain * valid.sum())
    truth = np.where(sure, 1.0, edges.prediction)
    pq.write_table(pa.table({"head": names[0], "relation": names[1], "tail": names[2], "truth": truth}), path)
    return path


def test_a_table_is_calibrated_if_asked_for(tmp_path: Path) -> None:
    graph, edges = world()
    file = _write(tmp_path / "t.parquet", graph, edges)
    store = make(graph, choose_recipe(table=file, calibration="learned"), tmp_path / "s")
    assert store.meta.calibration["name"] == "learned"
    assert store.meta.threshold == 0.0005
    report = store.meta.report
    assert report.reliability["ece_from_0.1"] < 0.06 < report.reliability_before["ece_from_0.1"]
    kept = store.load_calibration()
    assert kept is not None
    known, candidates = tensors(graph, edges)
    truth = kept.truth(known, candidates).numpy()
    place = int(np.argmax(truth))
    edge = tuple(int(side[place]) for side in edges[:3])
    fact = (graph.entities.name(edge[0]), graph.relations.name(edge[1]), graph.entities.name(edge[2]))
    add_facts(tmp_path / "s", [fact])
    remove_facts(tmp_path / "s", [fact])
    again = StoreFiles.open(tmp_path / "s")
    assert again.table.value(*edge) == pytest.approx(float(truth[place]), rel=1e-6)
    assert again.load_calibration() is not None
    opened = open_store(tmp_path / "s")
    assert (held := opened.source.borne_out) is not None
    assert held.facts == 600
    assert 0.2 < held.surest < 0.5, "half of what r0 links are facts, which 600 bear out in part"
    told = opened.ask("?x : r1(e5, ?x)", max_false=0.8).guarantee
    assert told is not None
    assert told.promised
    # an older store, or one with predictions about new entities, which have a calibration of their own
    older = {key: value for key, value in store.meta.calibration.items() if key != "borne_out"}
    assert replace(store.meta, calibration=older).borne_out is None
    assert replace(store.meta, new=NewEntities(calibration={})).borne_out is None
    given = make(graph, choose_recipe(table=file), tmp_path / "given")
    assert given.meta.calibration is None
    assert given.meta.borne_out is None
    assert given.meta.calibrated is False
    assert given.hash != store.hash
    # where everything is observed, a table made elsewhere says nothing about how reliable it is
    everything = make(graph, choose_recipe(table=file, calibration="given", observed=SPLITS), tmp_path / "all")
    assert everything.meta.report.reliability is None
    assert given.meta.report.reliability["split"] == "test"
    assert given.load_calibration() is None


def test_a_table_of_certain_facts_is_taken_as_it_is(tmp_path: Path) -> None:
    graph, edges = world()
    file = _write(tmp_path / "t.parquet", graph, edges, certain=1.0)
    store = make(graph, choose_recipe(table=file), tmp_path / "s")
    assert store.meta.report.not_learned is None
    assert store.meta.calibration is None
    with pytest.raises(BadInput, match="no learned calibration: the file lists valid edges as certain"):
        make(graph, choose_recipe(table=file, calibration="learned"), tmp_path / "t")
    some = _write(tmp_path / "some.parquet", graph, edges, certain=0.2)  # the predictor may well be sure of a few
    assert make(graph, choose_recipe(table=some, calibration="learned"), tmp_path / "u").meta.calibrated


def test_cross_validated_where_there_is_no_test_split() -> None:
    graph, edges = world()
    heads, relation, tails, entry = graph.adjacency.triples()
    keep = graph.split[entry] != TEST
    known = (heads[keep], relation[keep], tails[keep], graph.split[entry][keep])
    done = calibrate(KnowledgeGraph.from_edges(graph.entities, graph.relations, *known), edges, ("train", "valid"))
    assert done.after.split == "valid"
    assert done.after.error_from(0.1) < 0.08
    assert (done.fit.learned.hidden.times, done.fit.learned.hidden.given) == (1.0, 0.0)


def test_truth_means_the_same_where_the_test_split_is_observed() -> None:
    graph, edges = world()
    heads, relation, tails, entry = graph.adjacency.triples()
    split = graph.split[entry]
    keep = (split != TEST) | (np.arange(len(split)) % 3 == 0)  # a third as many test as valid edges
    some = (heads[keep], relation[keep], tails[keep], split[keep])
    done = calibrate(
        KnowledgeGraph.from_edges(graph.entities, graph.relations, *some), edges, ("train", "valid", "test")
    )
    assert done.after.split == "valid"
    assert done.after.error_from(0.1) < 0.08


def test_a_model_is_indexed_with_a_learned_calibration(tmp_path: Path) -> None:
    graph, _ = world()
    files.save(ComplEx.create(ENTITIES, RELATIONS, 8, 0.3, 2, torch.Generator().manual_seed(1)), tmp_path / "m")
    store = make(graph, choose_recipe(tmp_path / "m"), tmp_path / "s")
    assert store.meta.calibration["name"] == "learned"
    assert any(".log-" in name for name in store.meta.calibration["names"])
    assert open_store(tmp_path / "s").ask("?x : r0(e1, ?x)").about["calibration"] == {"name": "learned"}
    plain = make(graph, choose_recipe(tmp_path / "m", calibration="softmax-count"), tmp_path / "p")
    assert plain.meta.calibration["name"] == "softmax-count"
    assert plain.meta.threshold == 0.005
    demand = make(graph, choose_recipe(tmp_path / "m", on_demand=True), tmp_path / "d")
    assert demand.meta.calibration["name"] == "softmax-count"
    assert "on demand" in demand.meta.report.not_learned
    with pytest.raises(BadInput, match=r"no learned calibration: .* needs the whole table"):
        make(graph, choose_recipe(tmp_path / "m", calibration="learned", on_demand=True), tmp_path / "e")


def test_a_threshold_cuts_what_is_listed_not_what_is_learned_from(tmp_path: Path) -> None:
    graph, _ = world()
    files.save(ComplEx.create(ENTITIES, RELATIONS, 8, 0.55, 2, torch.Generator().manual_seed(1)), tmp_path / "m")
    usual, high, low = (
        make(graph, choose_recipe(tmp_path / "m", threshold=least), tmp_path / f"{least}")
        for least in (None, 0.02, 0.0001)
    )
    _same(high.load_calibration(), usual.load_calibration())
    listed = usual.table.predictions().reaching(0.02)
    assert listed.hash() == high.table.predictions().hash()
    # a lower one needs more candidates: the floor is ten times as high
    assert low.meta.calibration["about"]["candidates"] > usual.meta.calibration["about"]["candidates"]


class _OneFavourite:
    """Scores e0 far above all others: hardly any valid edge becomes a candidate."""

    entities, relations = ENTITIES, RELATIONS

    def tails(self, heads: torch.Tensor, relation: int) -> torch.Tensor:
        return torch.where(torch.arange(ENTITIES) == 0, 30.0, torch.linspace(0, 3, ENTITIES)).expand(len(heads), -1)

    heads = tails

    def pairs(self, heads: torch.Tensor, relation: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        return self.tails(heads, 0).gather(1, tails[:, None])[:, 0]


def test_what_cannot_be_learned_from_is_bounded_by_what_was_found(tmp_path: Path) -> None:
    graph, _ = world()
    store = make(graph, choose_recipe(_OneFavourite()), tmp_path / "s")
    assert "valid edges among the candidates, 300 needed" in store.meta.report.not_learned
    assert store.meta.calibration["name"] == "bounded"
    sure = make(graph, choose_recipe(_OneFavourite(), calibration="softmax-count"), tmp_path / "w").table.predictions()
    assert sure.prediction.max() > 0.5, "that is what the predictor says"
    listed = store.table.predictions().prediction
    assert listed.max(initial=0) < 0.1, "and this is how often it was right"


def test_the_report_counts_the_held_out_edges_that_are_listed(tmp_path: Path) -> None:
    graph, _ = world()
    files.save(ComplEx.create(ENTITIES, RELATIONS, 8, 0.3, 2, torch.Generator().manual_seed(1)), tmp_path / "m")
    for observed, held_out in ((("train",), ("valid", "test")), (("train", "valid"), ("test",))):
        store = make(graph, choose_recipe(tmp_path / "m", observed=observed, threshold=0.4), tmp_path / "s", force=True)
        heads, relation, tails = graph.edges(*held_out)
        listed = [store.table.value(*edge) > 0 for edge in zip(heads, relation, tails, strict=True)]
        assert 0 < np.mean(listed) < 1
        assert store.meta.report.held_out_listed == pytest.approx(np.mean(listed), abs=1e-6)
        assert store.meta.report.reliability["split"] == " and ".join(held_out)


def test_too_few_valid_edges(tmp_path: Path) -> None:
    graph, _ = world()
    heads, relation, tails, entry = graph.adjacency.triples()
    split = graph.split[entry].copy()
    split[np.flatnonzero(split == VALID)[LEAST_VALID - 1 :]] = TEST
    few = KnowledgeGraph.from_edges(graph.entities, graph.relations, heads, relation, tails, split)
    files.save(ComplEx.create(ENTITIES, RELATIONS, 8, 0.3, 2, torch.Generator().manual_seed(1)), tmp_path / "m")
    store = make(few, choose_recipe(tmp_path / "m"), tmp_path / "s")
    assert store.meta.calibration["name"] == "bounded"
    assert store.meta.report.not_learned == "299 valid edges, 300 needed; no truth is above what they bear out"
    assert store.meta.calibrated is False
    with pytest.raises(BadInput, match="no learned calibration: 299 valid edges, 300 needed"):
        make(few, choose_recipe(tmp_path / "m", calibration="learned"), tmp_path / "t")


@pytest.mark.parametrize(("candidates", "less"), [(100, 0.08), (20_000, 0.015)])
def test_the_top_promises_no_more_than_the_surest_bear_out(candidates: int, less: float) -> None:
    """Nine in ten of the surest are facts, two of five facts are valid; the trees are surer than that."""
    hidden, rng = SplitCorrection.from_sizes(400, 600, True), np.random.default_rng(0)
    before, after, came = [], [], []
    for _ in range(max(5, 20_000 // candidates)):
        logit = torch.from_numpy(rng.normal(0.5, 0.4, candidates)).float()
        fact = rng.random(candidates) < 0.9
        valid = fact & (rng.random(candidates) < 0.4)
        honest = hidden.lower_top(logit, torch.from_numpy(valid).float(), torch.ones(candidates))
        left = ~valid  # what is asked for is among those that are not valid
        before.append(hidden(logit).numpy()[left].mean())
        after.append(honest(logit).numpy()[left].mean())
        came.append(fact[left].mean())
        order = torch.argsort(logit)
        assert (np.diff(honest(logit[order]).numpy()[np.diff(logit[order], prepend=-9) > 1e-4]) > 0).all()
    assert np.mean(before) - np.mean(came) > 0.1
    assert -less < np.mean(after) - np.mean(came) < 0.015


def test_a_fit_keeps_what_was_measured_of_its_top(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def measured(self: SplitCorrection, *held_out: torch.Tensor) -> SplitCorrection:
        seen.append(held_out)
        return replace(self, soft=0.1, most=0.2)

    monkeypatch.setattr(SplitCorrection, "lower_top", measured)
    graph, edges = world()
    fitted = calibrate(graph, edges, ("train", "valid")).fit
    assert fitted.learned.hidden.most == 0.2
    assert all(a is b for a, b in zip(seen[0], (fitted.held_out, fitted.label, fitted.weight), strict=True))


@pytest.mark.parametrize("share", [0.3, 0.6, 0.8, 0.9, 0.94])
def test_the_surest_promise_together_what_they_came_to(share: float) -> None:
    """No less either: a top that is bent from lower down must not fall short of what it bears out."""
    generator = torch.Generator().manual_seed(3)
    logit = torch.cat([torch.randn(4000, generator=generator), 3 + torch.rand(4000, generator=generator)])
    chance = torch.where(logit < 2.9, torch.sigmoid(logit), share)
    label = (torch.rand(8000, generator=generator) < chance).float()
    honest = SplitCorrection().lower_top(logit, label, torch.ones(8000))
    assert honest != SplitCorrection()
    surest = torch.sigmoid(logit) >= honest.soft
    assert float(honest(logit[surest]).mean()) == pytest.approx(float(label[surest].mean()), abs=0.015)


def test_the_top_stays_where_the_surest_bear_it_out() -> None:
    logit = torch.logit(torch.linspace(0.01, 0.99, 50_000))
    label = (torch.rand(50_000, generator=torch.Generator().manual_seed(0)) < torch.sigmoid(logit)).float()
    assert SplitCorrection().lower_top(logit, label, torch.ones(50_000)) == SplitCorrection()
    none = SplitCorrection().lower_top(logit[:100], label[:100], torch.ones(100))  # nobody is sure of anything
    assert none == SplitCorrection()


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_line_is_learned_where_all_or_none_are_facts(label: float) -> None:
    log_truth = torch.log(torch.linspace(0.5, 0.9, 50))
    shift, slope = learned.fit_line(log_truth, torch.full((50,), label), torch.ones(50))
    chance = torch.sigmoid(shift + slope * log_truth.double())
    assert bool(((chance - label).abs() < 0.01).all())
