"""Truth tables made elsewhere, small ones by hand and the smallest benchmark table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet
from tuplet.build import choose_recipe, make
from tuplet.errors import TupletError
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.read.read import read
from tuplet.truth.edit import add_facts, remove_facts
from tuplet.truth.parquet import GivenTable
from tuplet.truth.store_folder import StoreFiles


def graph() -> KnowledgeGraph:
    """a knows b (train), b knows c (valid), c knows a (test), a likes c (train)."""
    return KnowledgeGraph.from_edges(
        Vocabulary.from_names(["a", "b", "c"]),
        Vocabulary.from_names(["knows", "likes"]),
        [0, 1, 2, 0],
        [0, 0, 0, 1],
        [1, 2, 0, 2],
        [1, 2, 3, 1],
    )


def write(path: Path, rows: list[tuple[Any, ...]], *more: str, **types: pa.DataType) -> Path:
    columns = ("head", "relation", "tail", "truth", *more)
    data = {name: pa.array([row[i] for row in rows], types.get(name)) for i, name in enumerate(columns)}
    pq.write_table(pa.table(data), path)
    return path


ROWS = [("a", "knows", "b", 0.5), ("a", "knows", "c", 0.25), ("c", "knows", "a", 0.125), ("b", "knows", "c", 0.0)]


def test_the_graph_decides_without_source(tmp_path: Path) -> None:
    table = GivenTable.read(write(tmp_path / "t.parquet", ROWS), graph()).table()
    assert table.row(0, 0, False).ids.tolist() == [1, 2]
    assert table.row(0, 0, False).truth.tolist() == [1.0, 0.25]
    assert table.value(1, 0, 2) == 1.0  # valid is observed, its prediction was below the threshold
    assert table.value(2, 0, 0) == 0.125  # test is not
    assert table.value(0, 1, 2) == 1.0  # not listed, but a fact
    assert table.threshold == 0.125
    facts = table.fact_edges()
    found = dict(zip(zip(*(c.tolist() for c in facts[:3]), strict=True), table.fact_prediction.tolist(), strict=True))
    assert found == {(0, 0, 1): 0.5, (1, 0, 2): 0.0, (0, 1, 2): 0.0}
    assert table.fact_source.tolist() == [1, 2, 1]
    only = GivenTable.read(tmp_path / "t.parquet", graph(), ["train"], threshold=0.1).table()
    assert only.value(1, 0, 2) == 0.0
    assert only.threshold == 0.1


def test_predictions_below_a_given_threshold_are_dropped(tmp_path: Path) -> None:
    rows = [("a", "knows", "b", 0.1), ("a", "knows", "c", 0.7), ("c", "knows", "b", 0.3)]
    store = make(graph(), choose_recipe(table=write(tmp_path / "t.parquet", rows), threshold=0.7), tmp_path / "s")
    assert (store.table.value(0, 0, 2), store.table.value(2, 0, 1)) == (np.float32(0.7), 0.0)
    assert remove_facts(tmp_path / "s", [("a", "knows", "b")])[0].shown_as_predicted == 0


def test_source_codes_decide(tmp_path: Path) -> None:
    rows = [(*row, source) for row, source in zip(ROWS, (0, 2, 3, 1), strict=True)]
    file = write(tmp_path / "t.parquet", rows, "source")
    table = GivenTable.read(file, graph()).table()
    assert table.value(0, 0, 1) == 0.5  # said to be predicted
    assert table.value(0, 0, 2) == 1.0  # said to be valid
    assert table.value(2, 0, 0) == 0.125  # test
    assert table.value(1, 0, 2) == 1.0
    assert table.value(0, 1, 2) == 1.0  # the graph adds what is not listed
    assert GivenTable.read(file, graph(), ["train", "test"]).table().value(2, 0, 0) == 1.0
    assert GivenTable.read(file, graph(), ["train", "test"]).table().value(0, 0, 2) == 0.25


def test_the_graph_of_the_store_follows_the_codes(tmp_path: Path) -> None:
    """Or else a join on the facts and the truth values would contradict each other."""
    rows = [("a", "knows", "b", 0.5, 0), ("a", "knows", "c", 0.25, 1), ("c", "knows", "a", 0.9, 2)]
    make(graph(), choose_recipe(table=write(tmp_path / "t.parquet", rows, "source")), tmp_path / "s")
    store = tuplet.open(tmp_path / "s")
    for engine in ("crisp", "exact", "brute"):
        found = store.ask("?x, ?y : knows(?x, ?y)", only="observed", engine=engine)
        assert [tuple(a.values.values()) for a in found] == [("a", "c"), ("b", "c"), ("c", "a")], engine
        assert found[0].status == "observed"
    assert [tuple(a.values.values()) for a in store.ask("?x, ?y : knows(?x, ?y)", only="predicted")] == [("a", "b")]


def test_weights_of_the_graph_are_kept(tmp_path: Path) -> None:
    weighted = KnowledgeGraph.from_edges(
        Vocabulary.from_names(["a", "b", "c"]),
        Vocabulary.from_names(["knows"]),
        [0, 1],
        [0, 0],
        [1, 2],
        None,
        [0.5, 0.75],
    )
    plain = GivenTable.read(write(tmp_path / "t.parquet", [("a", "knows", "b", 0.9)]), weighted).table()
    coded = GivenTable.read(write(tmp_path / "u.parquet", [("a", "knows", "b", 0.9, 1)], "source"), weighted).table()
    for table in (plain, coded):
        assert (table.value(0, 0, 1), table.value(1, 0, 2)) == (0.5, 0.75)


def test_predictions_stay_below_one(tmp_path: Path) -> None:
    table = GivenTable.read(write(tmp_path / "t.parquet", [("c", "likes", "b", 1)]), graph()).table()
    assert 0.99 < table.value(2, 1, 1) < 1


def test_dictionary_columns_and_empty_tables(tmp_path: Path) -> None:
    names = pa.dictionary(pa.int32(), pa.string())
    file = write(tmp_path / "t.parquet", ROWS, head=names, relation=names, tail=names, truth=pa.float16())
    assert GivenTable.read(file, graph()).table().value(0, 0, 2) == 0.25
    string = {"head": pa.string(), "relation": pa.string(), "tail": pa.string(), "truth": pa.float32()}
    assert GivenTable.read(write(tmp_path / "e.parquet", [], **string), graph()).table().edges == 3


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        ([("a", "knows", "d", 0.5)], (), r"entity 'd' in row 1 of .* is not in the graph"),
        ([("a", "knows", "b", 0.5), ("a", "know", "b", 0.5)], (), r"relation 'know' in row 2 .*did you mean 'knows'"),
        ([("a", "knows", "b", 1.5)], (), r"truth 1\.5 in row 1 is not between 0 and 1"),
        ([("a", "knows", "b", -0.5)], (), r"truth -0\.5 in row 1"),
        ([("a", "knows", "c", 0.1), ("a", "knows", "b", float("nan"))], (), r"truth nan in row 2"),
        ([("a", "knows", "b", None), ("a", "knows", "b", 0.1)], (), r"row 1 has no truth"),
        ([("a", "knows", "c", 0.1), ("a", "knows", None, 0.1)], (), r"row 2 has no tail"),
        ([("a", "knows", "b", "much")], (), r"column 'truth' holds string, not numbers"),
        ([(1, "knows", "b", 0.5)], (), r"column 'head' holds int64, not names"),
        ([("a", "knows", "b", 0.1), ("a", "knows", "b", 0.2)], (), r"row 2 repeats the edge of row 1"),
        ([("a", "knows", "b", 0.1, 7)], ("source",), r"source 7 in row 1"),
        ([("a", "knows", "b", 0.1, None)], ("source",), r"column 'source' must hold"),
    ],
)
def test_refusals(rows: list[tuple[Any, ...]], more: tuple[str, ...], message: str, tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", rows, *more)
    with pytest.raises(TupletError, match=message) as error:
        GivenTable.read(file, graph()).table()
    assert "\n" not in str(error.value)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    pq.write_table(pa.table({"head": ["a"], "relation": ["r"], "tails": ["b"], "truth": [0.5]}), tmp_path / "t.parquet")
    with pytest.raises(TupletError, match=r"no column 'tail' \(is it 'tails'\?\)"):
        GivenTable.read(tmp_path / "t.parquet", graph()).table()
    (tmp_path / "x.parquet").write_text("head,relation,tail,truth\n")
    with pytest.raises(TupletError, match="not a readable Parquet file"):
        GivenTable.read(tmp_path / "x.parquet", graph()).table()
    with pytest.raises(TupletError, match="no such file"):
        GivenTable.read(tmp_path / "y.parquet", graph()).table()
    whole = write(tmp_path / "w.parquet", ROWS).read_bytes()
    rng = np.random.default_rng(0)
    refused = []
    for _ in range(60):
        data = bytearray(whole[: rng.integers(1, len(whole))] if rng.random() < 0.5 else whole)
        data[rng.integers(len(data))] ^= 255
        (tmp_path / "w.parquet").write_bytes(data)
        try:
            GivenTable.read(tmp_path / "w.parquet", graph()).table()
        except TupletError as error:
            refused.append(str(error))
    assert len(refused) > 30
    assert not [message for message in refused if "\n" in message]


DATA = os.environ.get("TUPLET_DATA")


@pytest.mark.skipif(not DATA, reason="TUPLET_DATA does not point at the benchmark graphs")
def test_store_of_a_benchmark_table(tmp_path: Path) -> None:
    data = Path(str(DATA))
    file = data.parent / "truth" / "nell995.parquet"
    if not file.exists():
        pytest.skip(f"{file} is absent")
    known = read(data / "nell995")
    store = make(known, choose_recipe(table=file, calibration="given"), tmp_path / "nell.store")
    again = StoreFiles.open(tmp_path / "nell.store")
    assert again.hash == store.hash
    assert again.table.edges == 862_367
    report = again.meta.report
    assert report.facts == 114_213 + 14_324
    assert report.reliability["split"] == "test"
    assert 0.75 < report.held_out_listed < 0.85
    shares = [s for s, n in zip(report.reliability["share"], report.reliability["entries"], strict=True) if n > 100]
    assert shares == sorted(shares)  # truer means more often true
    rng = np.random.default_rng(0)
    columns = pq.read_table(file, columns=["head", "relation", "tail", "truth", "source"])
    for row in columns.take(rng.integers(0, len(columns), 200)).to_pylist():
        ids = known.entities.find(row["head"]), known.relations.find(row["relation"]), known.entities.find(row["tail"])
        assert again.table.value(*ids) == (1.0 if row["source"] else np.float32(row["truth"]))
    fact = next(iter(columns.filter(pa.compute.equal(columns["source"], 1)).slice(0, 1).to_pylist()))
    triple = (fact["head"], fact["relation"], fact["tail"])
    assert remove_facts(tmp_path / "nell.store", [triple])[0].removed == 1
    ids = known.entities.find(triple[0]), known.relations.find(triple[1]), known.entities.find(triple[2])
    assert StoreFiles.open(tmp_path / "nell.store").table.value(*ids) == np.float32(fact["truth"])
    assert add_facts(tmp_path / "nell.store", [triple])[0].added == 1
    assert StoreFiles.open(tmp_path / "nell.store").table.value(*ids) == 1.0
