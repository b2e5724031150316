"""NS3 with a neural index: it keeps what the model scores highest, and stays honest whatever that is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from engine_contract import check_listed, random_query, random_table
from marginal_contract import source_of

from repeatable import seeds
from tuplet import settings
from tuplet.engines import brute
from tuplet.engines.ns3.batch import ClauseBatch
from tuplet.engines.ns3.engine import Ns3
from tuplet.engines.ns3.tensors import TensorTable
from tuplet.errors import BadInput, Refused
from tuplet.lab.baselines.embedding import QueryModelSettings
from tuplet.lab.baselines.models import NeuralIndex, by_pattern, create, scores
from tuplet.predict.embeddings import ComplEx
from tuplet.predict.model_folder import save
from tuplet.query.limits import NO_DEADLINE, Limits
from tuplet.query.logic import Logic
from tuplet.query.ranking import Edge, QueryGraph

ENTITIES, RELATIONS = 8, 3


@pytest.fixture(scope="module")
def lmpnn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was never trained: its opinion of the entities is as good as any for these tests."""
    folder = tmp_path_factory.mktemp("lmpnn") / "model"
    predictor = ComplEx.create(ENTITIES, RELATIONS, 4, 1.0, 2, torch.Generator().manual_seed(0))
    save(create("lmpnn", ENTITIES, RELATIONS, QueryModelSettings(dim=0, hidden=6, layers=1), 0, predictor), folder)
    return folder


def ask(clauses: list[QueryGraph], source: object, model: object, budget: int | str, k: int = 10):  # type: ignore[no-untyped-def]
    engine: Ns3 = settings.find_plugin("engines", "ns3")
    limits = Limits(k=k, budget=budget, options={"index": "neural", "model": str(model)})  # type: ignore[arg-type]
    return engine.run(engine.plan(clauses, source, limits), limits, NO_DEADLINE)  # type: ignore[arg-type]


def test_the_entities_kept_are_the_best_of_the_model(lmpnn: Path) -> None:
    table = random_table(np.random.default_rng(0), ENTITIES, RELATIONS, 0.4, coarse=False)
    source = source_of(table)
    for edges in (
        (Edge(~2, 1, 0), Edge(0, 0, 1)),  # a constant before
        (Edge(0, 2, ~5), Edge(1, 1, 0)),  # and behind; views turn around
        (Edge(~2, 1, 0), Edge(1, 2, 0, negated=True), Edge(~4, 2, 1)),
    ):
        for variable in (0, 1):
            asked = QueryGraph(("x", "y"), (variable,), edges)
            # The table holds relations 1 and 2 alone or all: numbers there are not those of the graph.
            tensors = TensorTable.from_table(table, sorted({edge.relation for edge in edges}))
            index = NeuralIndex.from_folder(str(lmpnn), source, tensors)
            kept = index(ClauseBatch.from_graphs([asked], tensors), variable, 3)[0].nonzero().view(-1).tolist()
            [(_, ground)] = by_pattern([[asked]])
            found = scores(index.model, ground, torch.device("cpu"))[0, 0]
            assert kept == sorted(found.topk(3).indices.tolist())


def test_certificates_hold_whatever_the_model_says(lmpnn: Path) -> None:
    certified = cut = 0
    for seed in seeds(60, 1000):
        rng = np.random.default_rng(seed)
        table = random_table(rng, ENTITIES, RELATIONS, float(rng.choice([0.2, 0.4])), coarse=bool(seed % 2))
        clauses, k = random_query(rng, table, 3), int(rng.choice([1, 3, 10]))
        tensor = brute.Space(table).combine(clauses)
        ranking = ask(clauses, source_of(table), lmpnn, int(rng.choice([1, 2, 4])), k)
        true = np.array([tensor[tuple(t)] for t in ranking.tuples.tolist()])
        assert (ranking.truth <= true * (1 + 1e-9)).all()
        for key in map(tuple, ranking.tuples.tolist()):
            tensor[key] = 0
        assert tensor.max() <= ranking.bound * (1 + 1e-9)
        certified += ranking.exact
        cut += not ranking.exact
    assert min(certified, cut) > 5


def test_without_a_budget_nothing_is_left_out(lmpnn: Path) -> None:
    rng = np.random.default_rng(5)
    table = random_table(rng, ENTITIES, RELATIONS, 0.4, coarse=False)
    clauses = random_query(rng, table, 3)
    ranking = ask(clauses, source_of(table), lmpnn, "all")
    assert ranking.exact
    tensor = brute.Space(table).combine(clauses)
    check_listed(ranking, tensor, clauses, table, Logic.from_name("product"))


def test_what_is_missing_is_said(lmpnn: Path, tmp_path: Path) -> None:
    table = random_table(np.random.default_rng(0), ENTITIES, RELATIONS, 0.4, coarse=False)
    source, pair = source_of(table), QueryGraph(("x", "y"), (0, 1), (Edge(0, 0, 1),))
    with pytest.raises(BadInput, match=r"index=neural needs a query model: option model=FOLDER"):
        ask([pair], source, "", 2)
    save(create("betae", ENTITIES, RELATIONS, QueryModelSettings(dim=4, hidden=6), 0), tmp_path / "betae")
    with pytest.raises(Refused, match=r"betae starts from constants, and none reaches \?x; try a model lmpnn"):
        ask([pair], source, tmp_path / "betae", 2)
    engine: Ns3 = settings.find_plugin("engines", "ns3")
    with pytest.raises(BadInput, match="index is 'neurl'; choose one of messages, neural"):
        engine.plan([pair], source, Limits(options={"index": "neurl"}))
    plan = engine.plan([pair], source, Limits(options={"index": "neural", "model": str(lmpnn)}))
    assert "by the scores of a query model" in plan.text(str, str)
