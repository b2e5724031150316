"""The SQL of the shoot-out means what the exact engine computes: every joint shape, unions and existentials."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from random_queries import ground
from tuplet.graph.walks import Walker
from tuplet.lab.bench.shapes import JOINT, shape
from tuplet.truth.table import TruthTable

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import shootout
import shootout_engines as engines

SHAPES = (*JOINT, "2p", "2u", "up", "pin")


@pytest.fixture(scope="module")
def table() -> TruthTable:
    """Two hundred edges among 14 entities under 3 relations; truths repeat, so that there are ties."""
    rng = np.random.default_rng(7)
    code = rng.choice(3 * 14 * 14, 200, replace=False)
    observed = rng.random(200) < 0.3
    truth = np.where(observed, 1.0, rng.integers(1, 20, 200) / 20)
    return TruthTable.build(14, 3, code // 14 % 14, code // 196, code % 14, truth.astype(np.float32), observed)


@pytest.mark.parametrize("name", ["duckdb", "sqlite"])
def test_databases_have_the_lists_of_the_exact_engine(table: TruthTable, name: str) -> None:
    edges = engines.Edges.of(table)
    ours, theirs = engines.Tuplet(edges, 0), engines.ENGINES[name](edges, 1 << 30)
    walker, rng = Walker(table.adjacency), np.random.default_rng(0)
    for asked in SHAPES:
        for _ in range(2):
            clauses = engines.clauses_of(ground(shape(asked), walker, rng))
            expected = ours.ask(clauses, 15, None)
            assert expected
            assert shootout.same(expected, theirs.ask(clauses, 15, None), 1e-9), (asked, clauses)
            if len(clauses) == 1:
                hint = expected[-1][1] * (1 - 1e-9)
                assert shootout.same(expected, theirs.ask(clauses, 15, hint), 1e-9), (asked, clauses)


def test_oxigraph_has_the_tuples_of_the_crisp_engine(table: TruthTable) -> None:
    edges = engines.Edges.of(table)
    ours, theirs = engines.TupletCrisp(edges, 0), engines.Oxigraph(edges, 0)
    walker, rng = Walker(table.adjacency), np.random.default_rng(0)
    for asked in SHAPES:
        clauses = engines.clauses_of(ground(shape(asked), walker, rng))
        assert sorted(ours.ask(clauses, 0, None)) == sorted(theirs.ask(clauses, 0, None)), (asked, clauses)


def test_lists_that_differ_are_told_apart() -> None:
    rows = [((1, 2), 0.5), ((3, 4), 0.25), ((5, 6), 0.25)]
    assert shootout.same(rows, [rows[0], ((7, 8), 0.25), rows[2]], 1e-9)  # ties at the end may be cut anywhere
    assert not shootout.same(rows, [((9, 9), 0.5), *rows[1:]], 1e-9)
    assert not shootout.same(rows, [((1, 2), 0.4), *rows[1:]], 1e-9)
    assert not shootout.same(rows, rows[:2], 1e-9)
