"""Tables of all shapes: separators, several files, a row for each entity, missing values."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from graph_content import fact_values, facts, values

from tuplet.errors import BadInput
from tuplet.read.read import gather, read


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("columns", [None, "head=von,relation=wie,tail=zu"])
@pytest.mark.parametrize(
    ("name", "mark", "word"),
    [
        ("a.csv", ";", "semicolons"),
        ("a.csv", "\t", "tabs"),
        ("a.tsv", ",", "commas"),
        ("a.tsv", "|", "bars"),
        ("a.txt", " ", "spaces"),
    ],
)
def test_another_separator_is_recognised_and_said(
    tmp_path: Path, name: str, mark: str, word: str, columns: str | None
) -> None:
    first = "von,wie,zu\n" if columns else ""
    lines = first + "anna,knows,bob\nbob,knows,carl\n"
    graph, report = gather(write(tmp_path / name, lines.replace(",", mark)), columns=columns).graph()
    assert facts(graph) == {("anna", "knows", "bob"), ("bob", "knows", "carl")}
    assert report.remarks == [f"{tmp_path / name}: the columns are separated by {word}"]


def test_quotes_hold_fields_together_with_semicolons(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", '"a;1";r;"say ""b"""\nc;r;d\n')
    assert facts(read(path)) == {("a;1", "r", 'say "b"'), ("c", "r", "d")}


def test_zstd_is_unpacked(tmp_path: Path) -> None:
    raw = b"a\tr\tb\n" * 3
    with pa.output_stream(str(tmp_path / "f.tsv.zst"), compression="zstd") as stream:
        stream.write(raw)
    (tmp_path / "f.tsv.gz").write_bytes(gzip.compress(raw))
    assert facts(read(tmp_path / "f.tsv.zst")) == facts(read(tmp_path / "f.tsv.gz")) == {("a", "r", "b")}
    (tmp_path / "f.tsv.zst").write_bytes(b"no zstd")
    with pytest.raises(BadInput, match=r"f\.tsv\.zst: broken zstd file"):
        read(tmp_path / "f.tsv.zst")


def test_several_files_and_patterns(tmp_path: Path) -> None:
    write(tmp_path / "1.csv", "a,r,b\n")
    write(tmp_path / "2.tsv", "b\tr\tc\n")
    write(tmp_path / "3.csv", "c,r,d\n")
    everything = {("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d")}
    assert facts(read([tmp_path / "1.csv", str(tmp_path / "2.tsv"), tmp_path / "3.csv"])) == everything
    assert facts(read(str(tmp_path / "*.?sv"))) == everything
    assert facts(read([tmp_path / "*.csv", pd.DataFrame([("b", "r", "c")])])) == everything
    graph = read(tmp_path / "1.csv", valid=[tmp_path / "2.tsv", tmp_path / "3.csv"])
    assert graph.split_edges == {"train": 1, "valid": 2, "test": 0}
    with pytest.raises(BadInput, match=r"no file is called like .*\*\.nq"):
        read(tmp_path / "*.nq")


DRUGS = "drug,targets,treats,phase\nd1,g1; g2,asthma,3\nd2,g2,,\nd3,,asthma,2\n"
LINKS = {("d1", "targets", "g1"), ("d1", "targets", "g2"), ("d2", "targets", "g2")}
TREATS = {("d1", "treats", "asthma"), ("d3", "treats", "asthma")}


def test_a_row_for_each_entity(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", DRUGS)
    graph, report = gather(path, columns="id=drug,relation=targets,relation=treats,split=;").graph()
    assert facts(graph) == LINKS | TREATS
    assert report.remarks == [f"{path}: column 'phase' not read (attribute=phase among the columns keeps it)"]
    named = read(path, columns={"id": "drug", "hits": "targets", "relation": ["treats"], "split": ";"})
    assert facts(named) == {(h, "hits", t) for h, _, t in LINKS} | TREATS
    frame = pd.read_csv(path)
    assert facts(read(frame, columns={"id": "drug", "relation": "treats"})) == TREATS
    assert "d2" in read(frame, columns={"id": "drug", "relation": "treats"}).entities  # though it has no fact
    whole, report = gather(path, columns="id=drug,relation=*").graph()
    assert facts(whole) >= TREATS | {("d1", "targets", "g1; g2"), ("d1", "phase", "3")}
    assert report.remarks == [
        f"{path}: 1 cell of 'targets' holds ';'; split=; among the columns reads several names",
        f"{path}: 'phase' holds numbers, and each is an entity now; "
        "attribute=phase among the columns keeps them as values that compare",
    ]


def test_pairs_of_one_relation(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tsv", "d1\tasthma\nd2\tflu\nd1\tflu\n")
    assert facts(read(path, columns="id=1,treats=2")) == {
        ("d1", "treats", "asthma"),
        ("d2", "treats", "flu"),
        ("d1", "treats", "flu"),
    }


def test_nodes_bring_labels_and_types(tmp_path: Path) -> None:
    edges = write(tmp_path / "e.csv", "a,knows,b\n")
    nodes = write(tmp_path / "n.csv", "id,name,types,born\na,Anna,Person;Boss,1980\nb,Bob,Person,\nc,Carla,,1990\n")
    graph = read(edges, nodes=nodes)
    assert facts(graph) == {
        ("a", "knows", "b"),
        ("a", "type", "Person"),
        ("a", "type", "Boss"),
        ("b", "type", "Person"),
    }
    assert graph.notes["type_relation"] == "type"
    names = graph.entities
    assert [names.label(names.find(name)) for name in "abc"] == ["Anna", "Bob", "Carla"]
    assert values(graph, "a") == {"name": "Anna", "born": 1980}
    frame = pd.read_csv(nodes)
    assert read(edges, nodes=frame).hash == read(edges, nodes=[nodes]).hash == graph.hash


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("id=drug", "columns= says what the id is and nothing else; relation=COLUMN, attribute=COLUMN or relation=*"),
        ("id=drug,head=targets", "columns= names an id and a head: a table has a row for each entity"),
        ("label=drug", "columns= names a label, but no id: which entity is each row about?"),
        ("id=drug,lable=treats", "unknown column role 'lable'; did you mean 'label'?"),
        ("id=drug,id=treats,relation=*", "columns= names the id twice"),
        ("head=drug,tail=treats", "if all rows are of one called NAME, write head=drug,NAME=treats"),
        ("head=drug,relation=phase,tail=treats", r"d\.csv:3: the tail is empty"),
        ("id=phase,relation=treats", r"d\.csv:3: the id is empty"),
        ("id=drug,relation=treat", r"column 'treat' is not in the first line of .*; did you mean 'treats'"),
    ],
)
def test_wrong_mappings_are_one_line(tmp_path: Path, columns: str, message: str) -> None:
    with pytest.raises(BadInput, match=message.replace("*", r"\*").replace("?", r"\?").replace(r".\*", ".*")):
        read(write(tmp_path / "d.csv", DRUGS), columns=columns)


def test_missing_values_of_frames_are_named_by_row() -> None:
    frame = pd.DataFrame({"head": [1, 2, None], "relation": "r", "tail": [2, 3, 4]})
    with pytest.raises(BadInput, match="the DataFrame, row 3: the head is missing"):
        read(frame)
    assert facts(read(frame.dropna())) == {("1", "r", "2"), ("2", "r", "3")}


def test_attributes_of_facts_and_entities(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", "head,relation,tail,since,by\na,r,b,1999,me\nb,r,c,,you\nc,r,d,NA,\n")
    graph, report = gather(path, columns="attribute=*").graph()
    assert report.remarks == []
    assert fact_values(graph, "a", "r", "b") == {"since": 1999, "by": "me"}
    assert fact_values(graph, "b", "r", "c") == {"by": "you"}
    assert fact_values(graph, "c", "r", "d") == {}
    some = read(
        pd.read_csv(path), columns={"head": "head", "relation": "relation", "tail": "tail", "attribute": "since"}
    )
    assert fact_values(some, "a", "r", "b") == {"since": 1999}
    numbered = write(tmp_path / "f.tsv", "a\tr\tb\t7\n")
    assert fact_values(read(numbered, columns="head=1,relation=2,tail=3,attribute=4"), "a", "r", "b") == {"column4": 7}
    drugs = write(tmp_path / "d.csv", DRUGS)
    graph = read(drugs, columns="id=drug,relation=targets,split=;,attribute=*")
    assert values(graph, "d1") == {"phase": 3, "treats": "asthma"}
    assert values(graph, "d2") == {}


def test_kinds_of_cells(tmp_path: Path) -> None:
    text = "head,relation,tail,n,f,b,d,t,zip,odd,s\n" + "".join(
        f"a,r,b{i},{i},{i}.5,{str(i == 1).lower()},2024-0{i + 1}-01,2024-01-01T0{i}:00:00,0{i},{odd},x{i}\n"
        for i, odd in enumerate(("1", "old", "3"))
    )
    path = write(tmp_path / "f.csv", text)
    graph, report = gather(path, columns="attribute=*").graph()
    day, moment = datetime.date(2024, 2, 1), datetime.datetime(2024, 1, 1, 1, tzinfo=datetime.UTC)
    assert fact_values(graph, "a", "r", "b1") == {
        "n": 1,
        "f": 1.5,
        "b": True,
        "d": day,
        "t": moment,
        "zip": "01",
        "odd": "old",
        "s": "x1",
    }
    assert fact_values(graph, "a", "r", "b2")["odd"] == 3
    assert report.remarks == [f"{path}: 1 of 3 values of 'odd' are texts, such as 'old'"]


def test_names_that_differ_by_spaces_are_said(tmp_path: Path) -> None:
    path = write(tmp_path / "f.tsv", "a\tr\tb \n a\tr\tb\nb\tr \ta\nc \tr\ta\n")
    said, way_out = (
        "names that differ from others only by spaces around them: ",
        "spaces=trim among the columns removes them",
    )
    assert gather(path).graph()[1].remarks == [f"{said}2, as ' a'; {way_out}", f"{said}1, as 'r '; {way_out}"]
    graph, report = gather(path, columns="spaces=trim").graph()
    assert facts(graph) == {("a", "r", "b"), ("b", "r", "a"), ("c", "r", "a")}
    assert report.remarks == []


def test_nodes_alone_can_be_read_for_a_store() -> None:
    graph = read((), nodes=pd.DataFrame({"id": ["a", "b"], "age": [3, 4]}))
    assert facts(graph) == set()
    assert values(graph, "b") == {"age": 4}


def test_very_long_names(tmp_path: Path) -> None:
    long = "x" * (2 << 20)
    assert facts(read(write(tmp_path / "f.tsv", f"a\tr\t{long}\nb\tr\ta\n"))) == {("a", "r", long), ("b", "r", "a")}
