"""Exports in all formats: what is written is valid for others, and reading it back gives the same."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph as ox
import pytest

import tuplet
from tuplet.cli.commands import main
from tuplet.errors import BadInput
from tuplet.graph.attributes import FACTS, Plain
from tuplet.graph.graph import KnowledgeGraph
from tuplet.read.facts import AttributeBatch, FactColumns
from tuplet.read.read import read

BORN = datetime.date(1990, 5, 1)
MOMENT = datetime.datetime(2001, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
IRI = "http://example.org/"


def names(*words: str) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(words, pa.large_string())])


def people(truth: list[float] | None = None, space: str = "", several: bool = True) -> KnowledgeGraph:
    """A small graph with values of all kinds; names are plain, or IRIs."""

    def n(*words: str) -> list[str]:
        return [space + word for word in words]

    who = ("ann", "bob", "New York" if not space else "york")
    batches = [
        AttributeBatch(space + "age", pa.array([31, 40]), pa.array(n("ann", "bob"))),
        AttributeBatch(space + "height", pa.array([1.5, 2.0]), pa.array(n("ann", "bob"))),
        AttributeBatch(space + "vegan", pa.array([True, False]), pa.array(n("ann", "bob"))),
        AttributeBatch(space + "born", pa.array([BORN]), pa.array(n("ann"))),
        AttributeBatch(space + "seen", pa.array([MOMENT]), pa.array(n("ann"))),
        AttributeBatch(space + "said", pa.array(['"quoted"\\ \n<&é', "plain"]), pa.array(n("ann", "bob"))),
        AttributeBatch(space + "since", pa.array([2001, None, 1999])),
    ]
    if several:
        batches.append(AttributeBatch(space + "nick", pa.array(["A", "Annie"]), pa.array(n("ann", "ann"))))
    part = FactColumns(
        names(*n(who[0], who[1], who[0])),
        names(*n("knows", "knows", "lives_in")),
        names(*n(who[1], who[0], who[2])),
        None if truth is None else np.array(truth),
        values=tuple(batches),
        labels={space + "ann": "Ann Smith", space + "knows": "knows well"},
    )
    return read(part)


Row = tuple[Any, ...]


def facts(graph: KnowledgeGraph) -> dict[Row, float]:
    heads, relation, tails, entry = graph.adjacency.triples()
    truth = np.ones(len(entry)) if graph.weight is None else graph.weight[entry]
    entities, relations = graph.entities.name, graph.relations.name
    rows = zip(heads.tolist(), relation.tolist(), tails.tolist(), truth.tolist(), strict=True)
    return {(entities(h), relations(r), entities(t)): value for h, r, t, value in rows}


def values(graph: KnowledgeGraph, without: tuple[str, ...] = ()) -> set[tuple[Any, str, Plain, str]]:
    found = set()
    for column in graph.attributes.columns:
        for row, key in enumerate(column.ranked.keys.tolist()):
            subject: Any = graph.entities.name(key) if column.relation < 0 else ()
            if column.relation >= 0:
                subject = tuple(graph.entities.name(end) for end in divmod(key, FACTS))
            if column.name not in without:
                found.add((subject, column.name, column.value(int(column.ranked.rank[row])), column.tag(row)))
    return found


def labels(graph: KnowledgeGraph) -> dict[str, str]:
    words = (graph.entities, graph.relations)
    return {w.name(i): w.label(i) for w in words for i in range(len(w)) if w.label(i)}


LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


@pytest.mark.parametrize("space", ["", IRI])
@pytest.mark.parametrize("truth", [None, [1.0, 0.1, 1 / 3]])
@pytest.mark.parametrize("suffix", [".nt", ".ttl"])
def test_rdf_is_read_back(tmp_path: Path, suffix: str, truth: list[float] | None, space: str) -> None:
    graph, file = people(truth, space), tmp_path / f"a{suffix}"
    graph.save(tmp_path / "g")
    report = tuplet.open(tmp_path / "g").export(file)
    assert (report.facts, report.predictions, report.labels, report.values) == (3, 0, 2, 14)
    again = tuplet.read(file)
    assert facts(again) == facts(graph)
    assert values(again, (LABEL,)) == values(graph)
    assert labels(again) == labels(graph)
    assert list(ox.parse(file.read_bytes(), format=ox.RdfFormat.from_extension(suffix[1:])))


@pytest.mark.parametrize("truth", [None, [1.0, 0.1, 1 / 3]])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_tables_are_read_back(tmp_path: Path, suffix: str, truth: list[float] | None) -> None:
    graph, file = people(truth, several=suffix == ".parquet"), tmp_path / f"a{suffix}"
    graph.save(tmp_path / "g")
    report = tuplet.open(tmp_path / "g").export(file)
    assert report.files == (str(file), str(tmp_path / f"a.nodes{suffix}"))
    again = read(file, columns="attribute=*", nodes=tmp_path / f"a.nodes{suffix}")
    assert facts(again) == facts(graph)
    assert values(again, ("label",)) == values(graph)
    assert labels(again) == {"ann": "Ann Smith"}, "tables have no place for labels of relations"


def test_graphml_is_read_back(tmp_path: Path) -> None:
    graph, file = people([1.0, 0.1, 1 / 3], several=False), tmp_path / "a.graphml"
    graph.save(tmp_path / "g")
    tuplet.open(tmp_path / "g").export(file)
    nx = pytest.importorskip("networkx")
    seen = nx.read_graphml(file)
    assert seen.nodes["ann"]["age"] == 31
    assert seen.edges["ann", "bob"]["relation"] == "knows"
    from tuplet import settings

    if ".graphml" in settings.list_plugins("readers"):
        again = read(file)
        assert facts(again) == facts(graph)
        texts = {(s, n, v.isoformat() if isinstance(v, datetime.date) else v, t) for s, n, v, t in values(graph)}
        assert values(again, ("label",)) == texts, "GraphML has no dates"


def test_language_tags_blank_nodes_and_prefixes(tmp_path: Path) -> None:
    (tmp_path / "in.ttl").write_text(
        "@prefix ex: <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        'ex:a rdfs:label "Alice"@en, "Alicia"@es ; ex:age 31 ; ex:knows [ ex:knows ex:b ] .\n'
    )
    graph = tuplet.read(tmp_path / "in.ttl")
    graph.save(tmp_path / "g")
    tuplet.open(tmp_path / "g").export(tmp_path / "out.ttl")
    text = (tmp_path / "out.ttl").read_text()
    assert 'ex:a rdfs:label "Alicia"@es .' in text
    assert 'ex:a ex:age "31"^^xsd:integer .' in text
    assert "_:b0 ex:knows ex:b ." in text
    again = tuplet.read(tmp_path / "out.ttl")
    assert (facts(again), values(again), labels(again)) == (facts(graph), values(graph), labels(graph))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with predictions, whose truth was made elsewhere."""
    root = tmp_path_factory.mktemp("export")
    people().save(root / "g")
    table = pa.table(
        {
            "head": ["ann", "bob", "ann"],
            "relation": ["knows", "lives_in", "lives_in"],
            "tail": ["ann", "New York", "bob"],
            "truth": [0.5, 0.25, 0.125],
        }
    )
    pq.write_table(table, root / "t.parquet")
    tuplet.index(root / "g", None, root / "a.store", table=root / "t.parquet", progress=False)
    return root / "a.store"


@pytest.mark.parametrize("suffix", [".nt", ".ttl", ".parquet", ".csv"])
def test_predictions_have_their_truth(store: Path, tmp_path: Path, suffix: str) -> None:
    opened, file = tuplet.open(store), tmp_path / f"a{suffix}"
    assert opened.export(file).predictions == 0
    assert set(facts(read(file)).values()) == {1.0}
    report = opened.export(file, predicted=True, threshold=0.2, force=True)
    assert (report.facts, report.predictions) == (3, 2)
    found = facts(read(file))
    assert {row: truth for row, truth in found.items() if truth < 1} == {
        ("ann", "knows", "ann"): 0.5,
        ("bob", "lives_in", "New York"): 0.25,
    }


def test_a_predicted_fact_is_quoted_and_not_stated(store: Path, tmp_path: Path) -> None:
    tuplet.open(store).export(tmp_path / "a.ttl", predicted=True)
    text = (tmp_path / "a.ttl").read_text()
    ann, knows = "<urn:tuplet:name:ann>", "<urn:tuplet:name:knows>"
    assert f'<< {ann} {knows} {ann} >> <urn:tuplet:truth> "0.5"^^' in text
    assert f"\n{ann} {knows} {ann} ." not in text


def test_the_command_line(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.csv"
    assert main(["export", str(store), "-o", str(file), "--predicted", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["facts"], said["predictions"]) == (3, 3)
    assert file.read_text().splitlines()[0] == '"head","relation","tail","truth","status","since"'
    assert main(["export", str(store), "-o", str(file)]) == 1
    assert "exists" in capsys.readouterr().err
    assert main(["export", str(store), "-o", str(tmp_path / "a.xml")]) == 1
    assert ".graphml" in capsys.readouterr().err
    assert not list(tmp_path.glob("a.xml*"))


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    people().save(tmp_path / "g")
    graph = tuplet.open(tmp_path / "g")
    with pytest.raises(BadInput, match="a plain graph has no predictions to export"):
        graph.export(tmp_path / "a.nt", predicted=True)
    with pytest.raises(BadInput, match="outside"):
        graph.export(tmp_path / "a.nt", threshold=7)
    read([("a\x01b", "r", "c")]).save(tmp_path / "odd")
    with pytest.raises(BadInput, match="XML cannot hold"):
        tuplet.open(tmp_path / "odd").export(tmp_path / "a.graphml")
    assert not (tmp_path / "a.graphml").exists()


@pytest.mark.parametrize("ending", ["csv", "parquet", "graphml", "ttl"])
def test_several_values_of_an_entity_come_back(tmp_path: Path, ending: str) -> None:
    path, nodes = tmp_path / f"facts.{ending}", tmp_path / f"facts.nodes.{ending}"
    tuplet.read([("ann", "knows", "bob")], nodes=pa.table({"id": ["ann"], "nick": [["A", "Annie"]]})).export(path)
    columns = {"attribute": "*", "split": ";"} if nodes.exists() else None
    back = tuplet.read(path, columns=columns, nodes=nodes if nodes.exists() else None)
    shown = back.ask("?x : ?x.nick != '' show ?x.nick")
    assert [answer["x.nick"] for answer in shown] == ["A", "Annie"]
