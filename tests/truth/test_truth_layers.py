"""Newer layers of rows: a table and a graph after edits equal those that are made anew."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.graph import versions
from tuplet.graph.adjacency import GrowingArrays
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.graph.versions import EdgeStates
from tuplet.truth.edges import ADDED, TRAIN
from tuplet.truth.table import TruthTable

ENTITIES, RELATIONS = 6, 3
State = tuple[float, bool, float]  # truth, observed, prediction
Model = dict[tuple[int, int, int], State]

edge = st.tuples(st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1), st.integers(0, ENTITIES - 1))
prediction = st.sampled_from([0.0, 0.25, 0.5])
state = st.tuples(st.booleans(), prediction).map(lambda pair: (1.0 if pair[0] else pair[1], pair[0], pair[1]))
contents = st.dictionaries(edge, state, max_size=20)


def columns(model: Model) -> dict[str, np.ndarray]:
    edges = np.array(list(model), dtype=np.int32).reshape(-1, 3)
    values = np.array(list(model.values()), dtype=np.float64).reshape(-1, 3)
    observed = values[:, 1] > 0
    return {
        "relation": edges[:, 0],
        "heads": edges[:, 1],
        "tails": edges[:, 2],
        "truth": values[:, 0],
        "observed": observed,
        "prediction": values[:, 2],
        "source": np.where(observed, ADDED, 0),
        "split": np.where(observed, TRAIN, 0),
        "weight": values[:, 0],
        "date": np.arange(len(edges)),
    }


def table_of(model: Model) -> TruthTable:
    c = columns({edge: state for edge, state in model.items() if state[0] > 0})
    return TruthTable.build(
        ENTITIES,
        RELATIONS,
        c["heads"],
        c["relation"],
        c["tails"],
        c["truth"],
        c["observed"],
        prediction=c["prediction"],
        source=c["source"].astype(np.uint8),
    )


def graph_of(model: Model, dated: dict[tuple[int, int, int], int]) -> KnowledgeGraph:
    facts = [edge for edge, state in model.items() if state[1]]
    r, h, t = np.array(facts, dtype=np.int32).reshape(-1, 3).T
    names = (
        Vocabulary.from_names([f"e{i}" for i in range(ENTITIES)]),
        Vocabulary.from_names([f"r{i}" for i in range(RELATIONS)]),
    )
    return KnowledgeGraph.from_edges(*names, h, r, t, date=[dated[fact] for fact in facts])


def joined(pieces: Iterable[tuple[str, np.ndarray]]) -> dict[str, np.ndarray]:
    sink = GrowingArrays()
    for name, piece in pieces:
        sink.append(name, piece)
    return sink.arrays()


def same(one: TruthTable, other: TruthTable) -> None:
    for name, array in one.arrays().items():
        assert np.array_equal(array, other.arrays()[name]), name


@pytest.fixture(params=[False, True], ids=["roomy", "tidied"])
def narrow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no room, the layer in memory is begun anew again and again."""
    if request.param:
        monkeypatch.setattr(versions, "HIDDEN", -1000)


@pytest.mark.usefixtures("narrow")
@examples(100, allow=(HealthCheck.function_scoped_fixture,))
@given(contents, st.lists(contents, min_size=1, max_size=4), st.integers(0, 4))
def test_an_edited_table_equals_one_made_anew(first: Model, edits: list[Model], settle: int) -> None:
    """After edit number `settle` all is put into one layer that stays, and edited further."""
    table, model = table_of(first), dict(first)
    before = table
    for number, edit in enumerate(edits):
        older = table
        known = dict(model)
        table = table.edit(EdgeStates.from_columns(**columns(edit)))
        model |= edit
        same(older.flat, table_of(known))  # whoever holds the older state still has it
        if number == settle and table.changes:
            table = before.over(joined(table.layer()), reduce(EdgeStates.then, table.changes), ENTITIES)
    new = table_of(model)
    same(table.flat, new)
    same(before, table_of(first))
    assert table.edges == new.edges
    assert table.adjacency.view_entries.tolist() == new.adjacency.view_entries.tolist()
    for r in range(RELATIONS):
        for e in range(ENTITIES):
            for inverse in (False, True):
                for mine, theirs in zip(table.row(e, r, inverse), new.row(e, r, inverse), strict=True):
                    assert mine.tolist() == theirs.tolist()
            for other in range(ENTITIES):
                assert table.value(e, r, other) == new.value(e, r, other)
    for view in range(2 * RELATIONS):
        mine, theirs = table.adjacency.view(view), new.adjacency.view(view)
        assert mine.entities.tolist() == theirs.entities.tolist()
        assert mine.lengths.tolist() == theirs.lengths.tolist()
        assert table.row_best[mine.rows].tolist() == new.row_best[theirs.rows].tolist()


@examples(100)
@given(contents, st.lists(contents, min_size=1, max_size=3))
def test_an_edited_graph_equals_one_made_anew(first: Model, edits: list[Model]) -> None:
    model, dated = dict(first), dict.fromkeys(first, 7)
    graph = graph_of(model, dated)
    before = graph
    for number, edit in enumerate(edits):
        states = EdgeStates.from_columns(**columns(edit))
        graph = graph.edit(states)
        model |= edit
        dated |= {edge: i for i, edge in enumerate(edit)}
        if number == 1 and graph.layered is not None and graph.adjacency.newer is not None:
            graph = before.over(joined(graph.layer()), graph.counts, graph.entities, "")
    new = graph_of(model, dated)
    flat = graph.flat
    assert flat.date is not None
    assert new.date is not None
    for mine, theirs in zip(flat.adjacency.triples(), new.adjacency.triples(), strict=True):
        assert mine.tolist() == theirs.tolist()
    assert flat.split.tolist() == new.split.tolist()
    assert graph.split_edges == new.split_edges
    assert flat.date.tolist() == new.date.tolist()


@given(contents, contents)
def test_later_states_count_and_applying_them_twice_changes_nothing(first: Model, second: Model) -> None:
    one, two = (EdgeStates.from_columns(**columns(model)) for model in (first, second))
    both = one.then(two)
    merged = first | second
    assert both.edges == len(merged)
    place = both.find(*(np.array(list(merged), dtype=np.int32).reshape(-1, 3).T))
    assert both.truth[place].tolist() == [state[0] for state in merged.values()]
    assert both.select_changes(both).edges == 0
    assert one.then(both.select_changes(one)).edges == both.edges
    table = table_of(first)
    same(table.edit(two).flat, table.edit(two).edit(two).flat)
