"""Attributes: read in batches, kept in columns of the graph's folder, opened without being read."""

from __future__ import annotations

import datetime
import decimal
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.errors import BadInput, CorruptStore
from tuplet.graph.arrays import verify
from tuplet.graph.attributes import (
    FAMILIES,
    AttributeColumn,
    Attributes,
    joined_texts,
    kind_of,
    open_attributes,
    stored_attributes,
)
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Strings, Vocabulary
from tuplet.query.contents import attributes
from tuplet.read.facts import AttributeBatch, FactColumns
from tuplet.read.read import gather, read

DAY = datetime.date(1990, 5, 1)
MOMENT = datetime.datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=datetime.UTC)


def column(*names: str) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(names, pa.large_string())])


def facts(*batches: AttributeBatch, truth: list[float] | None = None) -> FactColumns:
    return FactColumns(
        column("ann", "bob", "ann"),
        column("knows", "knows", "likes"),
        column("bob", "cid", "bob"),
        None if truth is None else np.array(truth),
        values=batches,
    )


def of_entities(name: str, values: dict[str, Any], kind: pa.DataType | None = None) -> AttributeBatch:
    return AttributeBatch(name, pa.array(values.values(), kind), pa.array(values.keys(), pa.string()))


def values(graph: KnowledgeGraph, name: str, entity: str) -> list[Any]:
    found = graph.attributes.values_of(name, graph.entities.find(entity))
    return [value if not tag else (value, tag) for value, tag in found]


def fact_values(graph: KnowledgeGraph, name: str, head: str, relation: str, tail: str) -> list[Any]:
    key = graph.entities.find(head) * (1 << 32) + graph.entities.find(tail)
    return [value for value, _ in graph.attributes.values_of(name, key, graph.relations.find(relation))]


KINDS = [
    (pa.int8(), 3, "integer"),
    (pa.uint64(), 3, "integer"),
    (pa.float32(), 0.5, "number"),
    (pa.decimal128(5, 2), decimal.Decimal("1.25"), "number"),
    (pa.bool_(), True, "boolean"),
    (pa.date32(), DAY, "date"),
    (pa.date64(), DAY, "date"),
    (pa.timestamp("s"), MOMENT.replace(microsecond=0, tzinfo=None), "time"),
    (pa.timestamp("us", "UTC"), MOMENT, "time"),
    (pa.string(), "tall", "text"),
    (pa.large_string(), "", "text"),
    (pa.dictionary(pa.int8(), pa.string()), "tall", "text"),
    (pa.time32("s"), datetime.time(1, 2, 3), "text"),
]


@pytest.mark.parametrize(("kind", "value", "name"), KINDS)
def test_the_arrow_type_is_the_kind(kind: pa.DataType, value: Any, name: str, tmp_path: Path) -> None:
    graph = read(facts(of_entities("a", {"ann": value, "bob": None}, kind)))
    (found,) = graph.attributes.of_entities("a")
    expected = value
    if isinstance(value, datetime.datetime):
        expected = value.replace(tzinfo=datetime.UTC)
    elif isinstance(value, datetime.time):
        expected = "01:02:03"
    elif name == "number":
        expected = float(value)
    assert (found.kind, values(graph, "a", "ann"), values(graph, "a", "bob")) == (name, [expected], [])
    graph.save(tmp_path / "g")
    opened = KnowledgeGraph.open(tmp_path / "g")
    assert values(opened, "a", "ann") == [expected]
    assert verify(tmp_path / "g") == opened.hash == graph.hash


def test_values_of_entities_and_of_facts(tmp_path: Path) -> None:
    source = facts(
        of_entities("age", {"ann": 31, "zoe": 28}),
        AttributeBatch("since", pa.array([2001, None, 1999])),
        AttributeBatch("tags", pa.array([["x", "y"], [], None], pa.list_(pa.string()))),
    )
    graph, report = gather(source).graph()
    assert graph.entities.find("zoe") >= 0, "what only has an attribute is an entity too"
    assert values(graph, "age", "ann") == [31]
    assert fact_values(graph, "since", "ann", "knows", "bob") == [2001]
    assert fact_values(graph, "since", "bob", "knows", "cid") == []
    assert fact_values(graph, "since", "ann", "likes", "bob") == [1999]
    assert fact_values(graph, "tags", "ann", "knows", "bob") == ["x", "y"]
    assert [(a.name, a.kind, a.values, a.of) for a in report.attributes] == [
        ("age", "integer", 2, "entities"),
        ("since", "integer", 2, "facts"),
        ("tags", "text", 2, "facts"),
    ]
    assert "attributes: age (integer, 2 of entities), since" in str(report)
    assert json.loads(json.dumps(report.as_dict()))["attributes"][0]["name"] == "age"
    gather(source, path=tmp_path / "g").save(tmp_path / "g")
    assert KnowledgeGraph.open(tmp_path / "g").hash == graph.hash


def test_several_kinds_of_one_attribute() -> None:
    graph, report = gather(
        facts(
            of_entities("age", {"ann": 31}),
            of_entities("age", {"bob": 30.5, "ann": float("nan")}),
            of_entities("age", {"cid": "old"}),
        )
    ).graph()
    assert [found.kind for found in graph.attributes.of_entities("age")] == ["number", "text"]
    assert values(graph, "age", "ann") == [31.0]
    assert values(graph, "age", "cid") == ["old"]
    assert "doubtful: the values of age are of different kinds (number and text)" in str(report)


def test_the_attributes_of_a_dropped_fact_are_gone_and_those_of_a_duplicate_are_kept() -> None:
    one = facts(AttributeBatch("since", pa.array([1, 2, 3])), truth=[1.0, 0.0, 0.5])
    again = facts(AttributeBatch("since", pa.array([7, 2, 3])), truth=[1.0, 0.0, 0.5])
    graph = read([one, again])
    assert fact_values(graph, "since", "ann", "knows", "bob") == [1, 7]
    assert fact_values(graph, "since", "bob", "knows", "cid") == []
    assert fact_values(graph, "since", "ann", "likes", "bob") == [3]


def test_language_tags() -> None:
    batch = AttributeBatch(
        "label",
        pa.array(["Paris", "Paris", "Parigi", "plain"]),
        pa.array(["ann", "ann", "ann", "bob"]),
        pa.array(["fr", "en", "it", None]),
    )
    graph = read(facts(batch))
    assert values(graph, "label", "ann") == [("Parigi", "it"), ("Paris", "en"), ("Paris", "fr")]
    assert values(graph, "label", "bob") == ["plain"]
    (found,) = graph.attributes.of_entities("label")
    assert found.distinct == 3


def test_blank_nodes_of_two_files_stay_apart() -> None:
    def part() -> FactColumns:
        head = pa.chunked_array([pa.array(["_:b0"]).dictionary_encode()])
        batch = AttributeBatch("age", pa.array([1]), pa.array(["_:b0"]))
        return FactColumns(head, column("r"), pa.chunked_array([head.chunk(0)]), blank_nodes=1, values=(batch,))

    graph = read(part(), valid=part())
    assert values(graph, "age", "_:b0") == values(graph, "age", "_:b1") == [1]


def test_a_graph_without_attributes_is_written_as_ever(tmp_path: Path) -> None:
    read(facts()).save(tmp_path / "g")
    manifest = json.loads((tmp_path / "g/manifest.json").read_text())
    assert "later" not in manifest
    assert "attributes" not in manifest["meta"]
    assert not [file.name for file in (tmp_path / "g").iterdir() if file.name.startswith("attribute")]


def test_opening_reads_no_attribute_and_damage_is_named_when_one_is_read(tmp_path: Path) -> None:
    read(facts(of_entities("age", {"ann": 31, "bob": 3}), of_entities("name", {"ann": "Ann"}))).save(tmp_path / "g")
    file = tmp_path / "g/attribute_0_values.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    graph = KnowledgeGraph.open(tmp_path / "g")
    assert values(graph, "name", "ann") == ["Ann"]
    with pytest.raises(CorruptStore, match=r"attribute_0_values\.npy: checksum"):
        values(graph, "age", "ann")
    with pytest.raises(CorruptStore, match=r"attribute_0_values\.npy: checksum"):
        verify(tmp_path / "g")


def test_attributes_stay_when_the_graph_changes(tmp_path: Path) -> None:
    graph = read(facts(of_entities("age", {"ann": 31}), AttributeBatch("since", pa.array([2001, 5, 1999]))))
    valid = graph.with_splits(np.array([2, 1, 1], np.uint8))
    assert valid.hash != graph.hash
    assert values(valid, "age", "ann") == [31]
    valid.save(tmp_path / "g")
    assert verify(tmp_path / "g") == valid.hash
    assert values(pickle.loads(pickle.dumps(valid)), "age", "ann") == [31]


def test_the_example_of_an_attribute_of_facts_is_a_fact() -> None:
    graph = read(facts(AttributeBatch("since", pa.array([None, 5, None]))))
    assert [row.example for row in attributes(graph)] == ["bob, cid = 5"]


def test_the_hash_is_of_attributes_too() -> None:
    one, other = (read(facts(of_entities("age", {"ann": age}))) for age in (31, 32))
    renamed = read(facts(of_entities("years", {"ann": 31})))
    assert len({one.hash, other.hash, renamed.hash, read(facts()).hash}) == 4


@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_attributes_may_wait_on_disk(memory: int, tmp_path: Path) -> None:
    batches = [
        facts(of_entities("n", {f"x{i}": i}), AttributeBatch("since", pa.array([i, i + 1, i]))) for i in range(5)
    ]
    gather(batches, path=tmp_path / "g", memory=memory).save(tmp_path / "g")
    graph = KnowledgeGraph.open(tmp_path / "g")
    assert fact_values(graph, "since", "bob", "knows", "cid") == [1, 2, 3, 4, 5]
    assert [values(graph, "n", f"x{i}") for i in range(5)] == [[i] for i in range(5)]
    assert graph.hash == read(batches).hash


def test_numbers_that_cannot_be_kept() -> None:
    with pytest.raises(BadInput, match="attribute big: "):
        read(facts(of_entities("big", {"ann": (1 << 64) - 1}, pa.uint64())))


TEXTS = st.lists(st.text(alphabet="aäb€\0", max_size=3), max_size=8)


@examples(60)
@given(TEXTS, TEXTS)
def test_joined_texts(one: list[str], other: list[str]) -> None:
    first, second = (sorted({text.encode() for text in texts}) for texts in (one, other))
    both, old, new = joined_texts(*(Strings.from_bytes(part, range(len(part))) for part in (first, second)))
    found = [both.raw(i) for i in range(len(both))]
    assert found == sorted({*first, *second})
    assert [found[i] for i in old] == first
    assert [found[i] for i in new] == second


PLAIN = st.one_of(st.integers(-3, 3), st.floats(-2, 2), st.booleans(), st.text("ab", max_size=2), st.dates())


@examples(60)
@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 4), PLAIN), max_size=30))
def test_columns_of_any_values_are_stored(rows: list[tuple[int, int, Any]]) -> None:
    groups: dict[tuple[int, str], list[tuple[int, Any]]] = {}
    for relation, key, value in rows:
        groups.setdefault((relation, FAMILIES[kind_of(value)]), []).append((key, value))
    columns = tuple(
        AttributeColumn.from_values("a", np.array([k for k, _ in pairs]), [v for _, v in pairs], relation)
        for (relation, _), pairs in groups.items()
    )
    expected = {(*group, key, value): None for group, pairs in groups.items() for key, value in pairs}
    arrays, described = stored_attributes(Attributes(columns))
    opened = open_attributes(arrays, described.get("attributes", ())).columns
    found = [
        (column.relation, column.family, int(key), column.value(int(rank)))
        for column in opened
        for key, rank in zip(column.ranked.keys, column.ranked.rank, strict=True)
    ]
    assert len(found) == len(expected)
    assert set(found) == set(expected)
    for column in opened:
        for value in [v for r, _, v in rows if r == column.relation and FAMILIES[kind_of(v)] == column.family]:
            assert column.value(column.place(value)) == value
            assert column.place(value, after=True) == column.place(value) + 1


def test_a_graph_of_columns() -> None:
    ages = AttributeColumn.from_values("age", np.array([1, 0]), [31, 28])
    graph = KnowledgeGraph.from_edges(
        Vocabulary.from_names(["a", "b"]), Vocabulary.from_names(["r"]), [0], [0], [1], attributes=Attributes((ages,))
    )
    assert values(graph, "age", "b") == [31]
    assert ages.range() == (28, 31)
