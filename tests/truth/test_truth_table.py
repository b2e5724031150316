"""The table: rows equal pairs, both directions the same values, same bits after save and open, changes by merging."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.errors import CorruptStore
from tuplet.graph.arrays import write_directory
from tuplet.truth.edges import TRAIN, FactEdges
from tuplet.truth.table import TruthTable

Edge = tuple[int, int, int]
ENTITIES, RELATIONS = 5, 2

edges = st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1))
truths = st.sampled_from([0.125, 0.25, 0.5, 0.75])
predictions = st.dictionaries(edges, truths, max_size=20)


def columns(keys: list[Edge]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(keys, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def facts_of(keys: dict[Edge, float] | set[Edge], source: int = TRAIN) -> FactEdges:
    truth = np.array([keys[k] if isinstance(keys, dict) else 1.0 for k in keys], dtype=np.float32)
    return FactEdges(*columns(list(keys)), truth, np.full(len(truth), source, dtype=np.uint8))


def table_of(predicted: dict[Edge, float], facts: set[Edge], entities: int = ENTITIES) -> TruthTable:
    values = np.array(list(predicted.values()), dtype=np.float32)
    return TruthTable.assemble(entities, RELATIONS, facts_of(facts), (*columns(list(predicted)), values), 0.1)


def same_bits(a: TruthTable, b: TruthTable, source: bool = True) -> None:
    assert (a.entities, a.threshold) == (b.entities, b.threshold)
    for name, array in a.arrays().items():
        if source or name != "fact_source":
            other = b.arrays()[name]
            assert array.dtype == other.dtype, name
            assert array.tobytes() == other.tobytes(), name


@examples(60)
@given(predictions, st.sets(edges, max_size=12))
def test_contract(predicted: dict[Edge, float], facts: set[Edge]) -> None:
    table = table_of(predicted, facts)
    truth = {**predicted, **dict.fromkeys(facts, 1.0)}
    assert table.edges == len(truth)
    for h in range(ENTITIES):
        for r in range(RELATIONS):
            for t in range(ENTITIES):
                assert table.value(h, r, t) == truth.get((h, r, t), 0.0)
                assert table.observed_edge(h, r, t) == ((h, r, t) in facts)
            forward, backward = table.row(h, r, False), table.row(h, r, True)
            assert forward.ids.tolist() == sorted(t for a, b, t in truth if (a, b) == (h, r))
            assert backward.ids.tolist() == sorted(a for a, b, t in truth if (b, t) == (r, h))
            assert forward.truth.tolist() == [truth[h, r, t] for t in forward.ids.tolist()]
            assert backward.truth.tolist() == [truth[t, r, h] for t in backward.ids.tolist()]
            for row, inverse in ((forward, False), (backward, True)):
                assert table.row_max(h, r, inverse) == max(row.truth.tolist(), default=0.0)
    by_row = np.repeat(np.arange(len(table.row_best)), np.diff(table.adjacency.row_ptr))
    for i in range(len(table.row_best)):
        start, stop = table.adjacency.row_ptr[i : i + 2]
        order = table.by_truth[start:stop]
        ids = table.adjacency.neighbour[start:stop][order].tolist()
        values = table.truth[start:stop][order].tolist()
        assert list(zip(values, ids, strict=True)) == sorted(zip(values, ids, strict=True), key=lambda x: (-x[0], x[1]))
        assert table.row_best[i] == max(values)
    assert len(by_row) == 2 * table.edges
    known = table.fact_edges()
    assert set(zip(*(c.tolist() for c in known[:3]), strict=True)) == facts
    for h, r, t, p in zip(*(c.tolist() for c in known[:3]), table.fact_prediction.tolist(), strict=True):
        assert p == predicted.get((h, r, t), 0.0)


steps = st.lists(st.tuples(st.booleans(), st.sets(edges, min_size=1, max_size=4)), max_size=6)


@pytest.mark.parametrize("entities", [1, 4])
def test_empty(entities: int) -> None:
    table = TruthTable.assemble(entities, 2, facts_of(set()))
    assert table.edges == 0
    assert table.row(0, 1, True).ids.tolist() == []


def test_save_and_open_give_the_same_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    keys = {tuple(edge) for edge in rng.integers(0, (5, 2, 5), (30, 3)).tolist()}
    predicted = {edge: float(rng.uniform(0.1, 0.9)) for edge in keys}
    table = table_of(predicted, set(list(keys)[:5]))
    digest = table.save(tmp_path / "a.table")
    same_bits(TruthTable.open(tmp_path / "a.table"), table)
    assert table.save(tmp_path / "b.table") == digest
    uneven = replace(table, row_dropped=table.row_dropped + np.float32(0.01))
    uneven.save(tmp_path / "c.table")
    same_bits(TruthTable.open(tmp_path / "c.table"), uneven)


@pytest.mark.parametrize("name", ["view_ptr", "row_ptr", "row_entity", "neighbour", "truth", "by_truth", "fact_source"])
def test_arrays_that_do_not_fit_are_refused(name: str, tmp_path: Path) -> None:
    table = table_of({(0, 0, 1): 0.5, (3, 1, 2): 0.5}, {(1, 1, 2)})
    arrays = table.arrays()
    arrays[name] = arrays[name][:-1] if name not in ("row_entity", "neighbour") else arrays[name] + 10
    write_directory(tmp_path / "t", "table", arrays, {"entities": ENTITIES, "threshold": 0.1})
    with pytest.raises(CorruptStore, match=f"not a whole table: {name}"):
        TruthTable.open(tmp_path / "t")
    del arrays[name]
    write_directory(tmp_path / "u", "table", arrays, {"entities": ENTITIES, "threshold": 0.1})
    with pytest.raises(CorruptStore, match="not a whole table"):
        TruthTable.open(tmp_path / "u")
