"""Rows on demand equal the built table; what they compute about relations is kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from test_truth_sweep import ENTITIES, RELATIONS, build_table, random_edges, random_model

from tuplet import settings
from tuplet.truth.candidates.scorer import CandidateScorer
from tuplet.truth.edges import FactEdges
from tuplet.truth.on_demand import RowShifts, TruthOnDemand
from tuplet.truth.rules import Calibration
from tuplet.truth.table import TruthTable


def facts_of(edges: tuple[np.ndarray, np.ndarray, np.ndarray]) -> FactEdges:
    return FactEdges(*edges, np.ones(len(edges[0])), np.ones(len(edges[0]), np.uint8))


def both(
    kind: str = "complex", calibration: Calibration | None = None, threshold: float = 0.02, folder: Path | None = None
) -> tuple[TruthTable, TruthOnDemand]:
    model, edges, facts = random_model(kind), random_edges(), facts_of(random_edges(seed=5, count=60))
    predicted = build_table(model, edges, threshold=threshold, calibration=calibration)
    table = TruthTable.assemble(ENTITIES, RELATIONS, facts, predicted, threshold)
    only_facts = TruthTable.assemble(ENTITIES, RELATIONS, facts, threshold=threshold)
    return table, TruthOnDemand(model, only_facts, edges, calibration, threshold, folder)


@pytest.mark.parametrize("name", settings.list_plugins("calibrations"))
def test_rows_equal_the_table(name: str) -> None:
    table, rows = both(calibration=Calibration(name))
    for entity in range(0, ENTITIES, 7):
        for relation in range(RELATIONS):
            for inverse in (False, True):
                wanted, found = table.row(entity, relation, inverse), rows.row(entity, relation, inverse)
                assert found.ids.tolist() == wanted.ids.tolist()
                assert found.observed.tolist() == wanted.observed.tolist()
                np.testing.assert_allclose(found.truth, wanted.truth, atol=1e-5)
                assert rows.row_max(entity, relation, inverse) == pytest.approx(
                    table.row_max(entity, relation, inverse), abs=1e-5
                )


@pytest.mark.parametrize("kind", ["transe", "rotate", "distmult"])
def test_other_models(kind: str) -> None:
    table, rows = both(kind, threshold=0.03)
    for entity in range(0, ENTITIES, 11):
        for inverse in (False, True):
            wanted, found = table.row(entity, 1, inverse), rows.row(entity, 1, inverse)
            assert found.ids.tolist() == wanted.ids.tolist()
            np.testing.assert_allclose(found.truth, wanted.truth, atol=1e-4)


def test_values_equal_rows_in_both_directions() -> None:
    _, rows = both()
    for entity in range(0, ENTITIES, 9):
        row = rows.row(entity, 2, False)
        for other, truth, observed in zip(*(part.tolist() for part in row), strict=True):
            assert rows.value(entity, 2, other) == pytest.approx(truth, rel=1e-5)
            assert rows.observed_edge(entity, 2, other) == observed
            back = rows.row(other, 2, True)
            assert back.truth[back.ids.tolist().index(entity)] == pytest.approx(truth, rel=1e-5)
        unlisted = next(e for e in range(ENTITIES) if e not in row.ids)
        assert rows.value(entity, 2, unlisted) == 0


def test_bounds_spare_most_normalisers() -> None:
    """Shifts are computed for the ends that may matter, not for all entities."""
    model, edges = random_model(entities=400), random_edges(entities=400, count=900)
    facts = TruthTable.assemble(400, RELATIONS, facts_of(edges))
    rows = TruthOnDemand(model, facts, edges, threshold=0.1)
    rows.row(3, 0, False)
    filled = int((~rows._find_shifts(0, True)._exact.isnan()).sum())
    assert 0 < filled < 200


def test_table_equals_the_whole_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, rows = both(folder=tmp_path)
    part = rows.table([2, 0, 2])
    for relation in (0, 2):
        for entity in range(ENTITIES):
            for inverse in (False, True):
                for a, b in zip(part.row(entity, relation, inverse), table.row(entity, relation, inverse), strict=True):
                    assert a.tolist() == b.tolist()
    assert part.row(0, 1, False).ids.tolist() == []
    # a later process reads what this one computed
    later = both(folder=tmp_path)[1]
    monkeypatch.setattr(CandidateScorer, "relation", lambda *_: pytest.fail("computed again"))
    again = later.table([0, 2])
    assert again.truth.tolist() == part.truth.tolist()


def test_threads_may_share_rows(tmp_path: Path) -> None:
    table, rows = both(folder=tmp_path)

    def look(number: int) -> None:
        relation = number % RELATIONS
        whole = rows.table([relation, (relation + 1) % RELATIONS])
        for entity in range(number % 5, ENTITIES, 5):
            wanted = table.row(entity, relation, True)
            for found in (whole.row(entity, relation, True), rows.row(entity, relation, True)):
                assert found.ids.tolist() == wanted.ids.tolist()
            for head in wanted.ids[:2].tolist():
                assert rows.value(head, relation, entity) == pytest.approx(
                    table.value(head, relation, entity), abs=1e-5
                )

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(look, range(24)):
            pass
    assert not list(tmp_path.rglob(".*")), "nothing half-written is left"


def test_tables_of_relations_are_kept() -> None:
    _, rows = both()
    assert rows.table([1, 0]) is rows.table([0, 1])


def test_shifts_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    original = RowShifts.shifts
    monkeypatch.setattr(
        RowShifts, "shifts", lambda self, rows, *rest: (computed.append(len(rows)), original(self, rows, *rest))[1]
    )
    wanted = both(folder=tmp_path)[1].row(4, 1, False)
    assert max(computed) > 1
    computed.clear()
    found = both(folder=tmp_path)[1].row(4, 1, False)  # another process: only the row's own shift is computed again
    assert computed in ([], [1])
    assert found.ids.tolist() == wanted.ids.tolist()
    np.testing.assert_allclose(found.truth, wanted.truth, rtol=1e-6)


def test_rows_are_forgotten_in_order_of_use() -> None:
    model, edges = random_model(), random_edges()
    rows = TruthOnDemand(model, TruthTable.assemble(ENTITIES, RELATIONS, facts_of(edges)), edges, keep=2)
    for entity in (0, 1, 0, 2, 0, 1):
        rows.row(entity, 0, False)
    assert rows._row.cache_info()[:2] == (2, 4)  # 0 was found twice; 1 was forgotten when 2 came


def test_entities_the_predictor_does_not_know() -> None:
    model, edges = random_model(), random_edges()
    facts = facts_of((np.array([ENTITIES]), np.array([0]), np.array([3])))
    rows = TruthOnDemand(model, TruthTable.assemble(ENTITIES + 1, RELATIONS, facts), edges)
    assert rows.row(ENTITIES, 0, False).ids.tolist() == [3]
    assert ENTITIES in rows.row(3, 0, True).ids
    assert rows.value(ENTITIES, 1, 3) == 0
    assert rows.value(ENTITIES, 0, 3) == 1
