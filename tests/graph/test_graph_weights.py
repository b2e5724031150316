"""Given weights are kept as they were given: 0.9 stays 0.9, from the file to the answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tuplet
from tuplet.cli.commands import main
from tuplet.graph.graph import KnowledgeGraph
from tuplet.read.read import read
from tuplet.truth.edges import observed_facts
from tuplet.truth.store_folder import StoreContent, StoreFiles
from tuplet.truth.store_meta import StoreMeta
from tuplet.truth.table import TruthTable, by_falling_truth

FACTS = [("a", "r", "b", 0.9), ("a", "r", "c", 1 / 3), ("b", "r", "c", 0.1), ("c", "r", "d", 1.0)]
QUERY = "?x, ?y : r(?x, ?y)"


def truths(store: tuplet.Store, engine: str = "exact") -> dict[tuple[str, ...], float]:
    answers = store.ask(QUERY, k=10, engine=engine)
    return {tuple(answer.values.values()): answer.truth for answer in answers}


WANTED = {(head, tail): truth for head, _, tail, truth in FACTS}


@pytest.mark.parametrize("engine", ["exact", "brute", "ns3"])
def test_a_weight_comes_back_as_it_was_given(tmp_path: Path, engine: str) -> None:
    file, graph, store = tmp_path / "f.tsv", tmp_path / "g", tmp_path / "s"
    file.write_text("".join(f"{h}\t{r}\t{t}\t{w!r}\n" for h, r, t, w in FACTS))
    assert main(["import", str(file), "-o", str(graph)]) == 0
    assert main(["index", str(graph), "-o", str(store)]) == 0
    assert truths(tuplet.open(store), engine) == WANTED


def test_weights_survive_save_and_open_and_changes(tmp_path: Path) -> None:
    graph = read(FACTS)
    graph.save(tmp_path / "g")
    again = KnowledgeGraph.open(tmp_path / "g")
    assert again.weight is not None
    assert sorted(set(again.weight.tolist())) == sorted({fact[3] for fact in FACTS})
    store = tuplet.index(again, None, tmp_path / "s")
    store.add([("d", "r", "a", 0.7), ("a", "r", "b", 0.8)])
    assert truths(tuplet.open(tmp_path / "s")) == WANTED | {("d", "a"): 0.7, ("a", "b"): 0.8}


def test_a_store_of_single_precision_still_opens_and_takes_exact_weights(tmp_path: Path) -> None:
    graph = read(FACTS)
    assert graph.weight is not None
    old = replace(graph, weight=graph.weight.astype(np.float32))
    old.save(tmp_path / "g")
    old = KnowledgeGraph.open(tmp_path / "g")
    table = TruthTable.assemble(len(old.entities), len(old.relations), observed_facts(old))
    table = replace(table, truth=table.truth.astype(np.float32), row_best=table.row_best.astype(np.float32))
    table.save(tmp_path / "t")
    assert TruthTable.open(tmp_path / "t").truth.dtype == np.float32
    StoreFiles.create(tmp_path / "s", StoreContent(old, table, StoreMeta(old.hash, ("train",), 0.0)))
    store = tuplet.open(tmp_path / "s")
    assert truths(store) == {pair: float(np.float32(truth)) for pair, truth in WANTED.items()}
    store.add([("d", "r", "a", 0.7)])
    assert truths(tuplet.open(tmp_path / "s"))["d", "a"] == 0.7


def test_predictions_and_certain_facts_take_half_the_memory() -> None:
    columns = [np.array(column) for column in ([0, 0], [0, 0], [1, 2])]
    certain = TruthTable.build(3, 1, *columns, np.array([1.0, 0.3]), np.array([True, False]))
    weighted = TruthTable.build(3, 1, *columns, np.array([0.9, 0.3]), np.array([True, False]))
    assert (certain.truth.dtype, certain.row_best.dtype) == (np.float32, np.float32)
    assert (weighted.truth.dtype, weighted.row_best.dtype) == (np.float64, np.float64)
    assert weighted.value(0, 0, 1) == weighted.row_max(0, 0, False) == 0.9
    for table in (certain, weighted):
        assert table.by_truth.tolist() == [0, 1, 0, 0]


def test_rows_are_ordered_alike_in_both_precisions() -> None:
    generator = np.random.default_rng(0)
    heads, tails = np.divmod(generator.permutation(900)[:500], 30)
    truth = generator.integers(1, 8, 500) / 8  # many ties; exact in both
    zeros, facts = np.zeros(500, dtype=np.int64), np.ones(500, dtype=bool)
    double = TruthTable.build(30, 1, heads, zeros, tails, truth, facts)
    by_truth, row_best = by_falling_truth(double.truth.astype(np.float32), double.adjacency.row_ptr)
    assert double.truth.dtype == np.float64
    assert (double.by_truth == by_truth).all()
    assert (double.row_best == row_best).all()
