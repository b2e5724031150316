"""CQD: the beam cuts what it should, the gradient is right, optimised vectors find answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from tuplet.build import train
from tuplet.engines import brute
from tuplet.errors import BadInput, Refused
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.lab.baselines.engine import CqdEngine, CqdOptions
from tuplet.lab.baselines.symbolic import atoms_of, objective, optimise, replace_variable, score_by_model
from tuplet.predict.config import TrainConfig
from tuplet.predict.embeddings import ComplEx, DistMult, TransE
from tuplet.predict.model_folder import load, save
from tuplet.query.limits import NO_DEADLINE, Limits
from tuplet.query.logic import GODEL, PRODUCT, Logic
from tuplet.query.ranking import Clauses, Edge, QueryGraph
from tuplet.query.source import Source
from tuplet.truth.table import TruthTable

PAIR = QueryGraph(("x", "y", "e"), (0, 1), (Edge(~3, 0, 2), Edge(2, 1, 0), Edge(1, 0, 2), Edge(1, 1, ~5, True)))


def computed(queries: Sequence[Clauses], source: Source, limits: Limits) -> Sequence[np.ndarray]:
    """What the engine computes, before tuples are made of it."""
    engine = CqdEngine()
    return engine.marginals([engine.plan(clauses, source, limits) for clauses in queries], limits, NO_DEADLINE)


def rings(entities: int = 24) -> KnowledgeGraph:
    """Relations that a model can learn: `next` goes round a ring, `skip` is next after next."""
    here = np.arange(entities)
    heads, relation = np.tile(here, 2), np.repeat([0, 1], entities)
    tails = np.concatenate([(here + 1) % entities, (here + 2) % entities])
    names = Vocabulary.from_names([f"e{i}" for i in here]), Vocabulary.from_names(["next", "skip"])
    split = np.where(np.arange(len(heads)) % 7 == 3, 3, 1).astype(np.uint8)
    return KnowledgeGraph.from_edges(*names, heads, relation, tails, split)


def stated_rings() -> Source:
    """The rings as a store has them: its stated facts are true. A model answers without looking at them."""
    graph = rings()
    heads, relation, tails = graph.edges("train")
    ones = np.ones(len(heads))
    return Source(graph, truth=TruthTable.build(24, 2, heads, relation, tails, ones, ones.astype(bool)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cqd") / "model"
    train(rings(), path, config=TrainConfig(rank=16, epochs=60, batch=20, regularisation=0.01, evaluate_every=0))
    return path


def small_model(kind: type = ComplEx) -> ComplEx:
    generator = torch.Generator().manual_seed(1)
    model = kind.create(8, 2, 3, 1.0, 2, generator)
    return model.to(dtype=torch.float64)


def test_a_beam_carries_on_the_best_entities_only() -> None:
    # e0 -> e1 (0.9) and e2 (0.8); what e2 leads to is better.
    edges = [(0, 0, 1, 0.9), (0, 0, 2, 0.8), (1, 1, 3, 0.5), (2, 1, 4, 1.0), (2, 1, 3, 0.9)]
    heads, relation, tails, truth = (np.array(column) for column in zip(*edges, strict=True))
    table = TruthTable.build(5, 2, heads, relation, tails, truth, np.zeros(5, dtype=bool))
    source = Source(rings(5), truth=table)
    chain = [QueryGraph(("e", "f"), (1,), (Edge(~0, 0, 0), Edge(0, 1, 1)))]

    def found(clauses: list[QueryGraph], beam: int) -> np.ndarray:
        return computed([clauses], source, Limits(options={"beam": beam}))[0][0]

    one, two = (found(chain, beam) for beam in (1, 2))
    assert one == pytest.approx([0, 0, 0, 0.45, 0])
    assert two == pytest.approx([0, 0, 0, 0.72, 0.8])
    # What no constant reaches is not cut: ?f hangs on the asked variable.
    assert found([QueryGraph(("e", "f"), (0,), chain[0].edges)], 1) == pytest.approx([0, 0.45, 0.8, 0, 0])


TREES = {
    "3p": QueryGraph(("e", "g", "f"), (2,), (Edge(~1, 0, 0), Edge(1, 1, 0), Edge(1, 0, 2))),
    "pi with negation": QueryGraph(
        ("e", "f"), (1,), (Edge(~1, 0, 0), Edge(0, 1, 1), Edge(~2, 0, 1), Edge(1, 0, ~3, True))
    ),
    "double edge, one negated": QueryGraph(("e", "f"), (1,), (Edge(~1, 0, 0), Edge(0, 1, 1), Edge(1, 0, 0, True))),
    "loop and parts": QueryGraph(("f", "g"), (0, 1), (Edge(~1, 0, 0), Edge(0, 1, 0), Edge(~2, 1, 1), Edge(~0, 0, ~1))),
}


@pytest.mark.parametrize("logic", ["product", "godel"])
@pytest.mark.parametrize("name", TREES)
def test_a_full_beam_on_a_model_is_the_maximum_over_all_entities(name: str, logic: str) -> None:
    model = small_model()
    model.relation[2:] = model.inverse(model.relation[:2])  # both directions of an edge have one score
    heads, relation, tails = (x.reshape(-1) for x in np.meshgrid(range(8), range(2), range(8), indexing="ij"))
    truth = torch.sigmoid(model.pairs(*(torch.as_tensor(x) for x in (heads, relation, tails)))).numpy()
    table = TruthTable.build(8, 2, heads, relation, tails, truth, np.zeros(len(heads), dtype=bool))
    clause = TREES[name]
    rules = Logic.from_name(logic)
    dense = brute.Space(table, rules)
    expected = [dense.combine([clause.marginal([v])]) for v in clause.free]
    (found,) = score_by_model([[clause]], model, CqdOptions(beam=8), rules)
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-5)
    (narrow,) = score_by_model([[clause]], model, CqdOptions(beam=1), rules)
    assert (narrow <= found * (1 + 1e-9)).all()
    twice = score_by_model([[clause], [clause]], model, CqdOptions(beam=8), rules)
    np.testing.assert_allclose(twice[1], found)


@pytest.mark.parametrize("logic", [PRODUCT, GODEL])
@pytest.mark.parametrize("kind", [ComplEx, DistMult])
def test_the_gradient_is_the_slope(kind: type, logic: object) -> None:
    model = small_model(kind)
    atoms = atoms_of([PAIR, PAIR], model)
    start = torch.randn(2, 3, model.entity.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def loss(guess: torch.Tensor) -> torch.Tensor:
        truth, penalty = objective(model, atoms, guess, logic)
        return 0.05 * penalty - truth.sum()

    assert torch.autograd.gradcheck(loss, start.requires_grad_())


def test_atoms_are_the_models_scores() -> None:
    """Replacing a variable by an entity and scoring must be scoring the edges between entities."""
    model = small_model()
    atoms = atoms_of([PAIR], model)
    entities = torch.tensor([[6, 7, 2]])
    guess = model.entity[entities]
    found = [replace_variable(model, atoms, guess, v, PRODUCT)[0] for v in range(3)]
    assert [f[e].item() for f, e in zip(found, entities[0], strict=True)] == pytest.approx([found[0][6].item()] * 3)
    h, r, t = torch.tensor([3, 2, 2, 5]), torch.tensor([0, 1, 2, 3]), torch.tensor([2, 6, 7, 7])
    score = model.pairs(h, r, t)  # row 2 is relation 0 backwards, row 3 relation 1: from the end nearer to a constant
    score[3] *= -1
    assert found[0][6].item() == pytest.approx(torch.sigmoid(score).prod().item())
    assert objective(model, atoms, guess, PRODUCT)[0].item() == pytest.approx(found[0][6].item(), rel=1e-6)


def test_steps_make_the_query_truer() -> None:
    model = small_model().to(dtype=torch.float32)
    atoms = atoms_of([PAIR], model)
    start = 1e-3 * torch.randn(1, 3, model.entity.shape[1], generator=torch.Generator().manual_seed(0))
    before = objective(model, atoms, start, PRODUCT)[0].item()
    after = [
        objective(
            model, atoms, optimise(model, atoms, start, CqdOptions(steps=n, regularisation=0.0), PRODUCT), PRODUCT
        )
        for n in (10, 200)
    ]
    assert before < after[0][0].item() < after[1][0].item()
    assert after[1][0].item() > 0.9


def test_a_batch_is_its_queries(folder: Path) -> None:
    model, options = load(folder), CqdOptions(steps=30)
    # Some queries write a relation backwards; together they still have one shape.
    queries = [
        [QueryGraph(("x", "e"), (0,), (Edge(~i, 0, 1), Edge(1, 1, 0) if i % 2 else Edge(0, 1, 1)))] for i in range(6)
    ]
    together = score_by_model(queries, model, options, PRODUCT)
    for query, found in zip(queries, together, strict=True):
        np.testing.assert_allclose(found, score_by_model([query], model, options, PRODUCT)[0], rtol=1e-3, atol=1e-6)


def test_disjunctions_combine_their_clauses(folder: Path) -> None:
    model, options = load(folder), CqdOptions(steps=5)
    one, two = ([QueryGraph(("x",), (0,), (Edge(~i, 0, 0),))] for i in (1, 4))
    parts = [score_by_model([query], model, options, PRODUCT)[0] for query in (one, two)]
    (both,) = score_by_model([[*one, *two]], model, options, PRODUCT)
    np.testing.assert_allclose(both, 1 - (1 - parts[0]) * (1 - parts[1]), atol=1e-12)


def test_answers_rank_far_above_chance(folder: Path) -> None:
    """next(s, e) & skip(e, f): the answer is s + 3; the middle answer s + 1 is asked for as well."""
    queries = [[QueryGraph(("e", "f"), (0, 1), (Edge(~i, 0, 0), Edge(0, 1, 1)))] for i in range(24)]
    source = stated_rings()
    limits = Limits(options={"method": "co", "model": str(folder), "steps": "200"})
    found = computed(queries, source, limits)
    ranks = np.array(
        [[(vectors[0] > vectors[0][(i + 1) % 24]).sum(), (vectors[1] > vectors[1][(i + 3) % 24]).sum()]
         for i, vectors in enumerate(found)]
    )  # fmt: skip
    assert (ranks.mean(axis=0) < 4).all(), "by chance it would be 11.5"
    assert all(((v > 0) & (v < 1)).all() for v in found)


def test_what_co_cannot_do_is_said(folder: Path, tmp_path: Path) -> None:
    source = stated_rings()
    one = [QueryGraph(("x",), (0,), (Edge(~1, 0, 0),))]

    def ask(query: list[QueryGraph] = one, **options: str) -> None:
        computed([query], source, Limits(options={"method": "co", **options}))

    with pytest.raises(BadInput, match=r"engine 'cqd' needs a trained link predictor here: option model=FOLDER"):
        ask()
    with pytest.raises(BadInput, match=r"no such model: .*nothing"):
        ask(model=str(tmp_path / "nothing"))
    different = [QueryGraph(("x", "y"), (0,), (Edge(~1, 0, 0), Edge(0, 0, 1)), ((0, 1),))]
    with pytest.raises(Refused, match=r"engine 'cqd' on a model cannot answer \?x != \?y"):
        ask(different, model=str(folder))
    save(TransE.create(24, 2, 4, 1.0, 2, torch.Generator()), tmp_path / "transe")
    with pytest.raises(BadInput, match=r"bilinear predictor \(complex, distmult\), not transe"):
        ask(model=str(tmp_path / "transe"))
    save(ComplEx.create(5, 2, 4, 1.0, 2, torch.Generator()), tmp_path / "other")
    with pytest.raises(BadInput, match="has 5 entities and 2 relations, the graph 24 and 2"):
        ask(model=str(tmp_path / "other"))
    with pytest.raises(BadInput, match="unknown device 'tpu'; choose auto, cpu"):
        ask(model=str(folder), device="tpu")
    with pytest.raises(BadInput, match=r"seed is 99999999999999999999; that is too large"):
        ask(model=str(folder), seed="99999999999999999999")
