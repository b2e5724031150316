"""Columns by name and by number, dates, headers that nobody named, and readers of other packages."""

from __future__ import annotations

import datetime
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tuplet
from tuplet.cli.commands import main
from tuplet.errors import BadInput, ParseError, UnknownName
from tuplet.graph.graph import NO_DATE, KnowledgeGraph
from tuplet.read.mapping import Columns
from tuplet.read.read import gather, read

Fact = tuple[str, str, str]
DAY = 86_400


def content(graph: KnowledgeGraph) -> dict[Fact, tuple[float | None, int | None]]:
    """Truth and date of each fact."""
    heads, relation, tails, entry = graph.adjacency.triples()
    names = zip(graph.entities.names(heads), graph.relations.names(relation), graph.entities.names(tails), strict=True)
    weight = [None] * len(entry) if graph.weight is None else graph.weight[entry].tolist()
    date = [None] * len(entry) if graph.date is None else graph.date[entry].tolist()
    return dict(zip(names, zip(weight, date, strict=True), strict=True))


CSV = "id,A,B,C,D,E\n1,x,r,y,0.9,1970-01-02\n2,y,r,z,0.25,\n"
WANTED = {("x", "r", "y"): (0.9, DAY), ("y", "r", "z"): (0.25, NO_DATE)}


@pytest.mark.parametrize(
    "columns",
    [
        {"head": "A", "relation": "B", "tail": "C", "truth": "D", "date": "E"},
        "head=A,relation=B,tail=C,truth=D,date=E",
        " date = E, head = A, relation=B, tail=C, truth=5",
    ],
)
def test_columns_of_files_and_frames(tmp_path: Path, columns: Columns) -> None:
    path = tmp_path / "f.csv"
    path.write_text(CSV)
    frame = pd.read_csv(path, dtype={"E": "string"})
    frame.to_parquet(tmp_path / "f.parquet", index=False)
    for source in (path, tmp_path / "f.parquet", frame, pa.Table.from_pandas(frame)):
        assert content(read(source, columns=columns)) == WANTED


def test_lists_of_three_or_four(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(CSV)
    assert content(read(path, columns=["C", "B", "A"])) == {
        ("y", "r", "x"): (None, None),
        ("z", "r", "y"): (None, None),
    }
    assert content(read(path, columns="A,B,C,D")) == {fact: (truth, None) for fact, (truth, _) in WANTED.items()}


def test_numbers_are_positions_where_there_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "f.tsv"
    path.write_text("2\tnote\t1\t3\n1\tnote\t3\t2\n")
    choice = {"head": 1, "relation": 3, "tail": 4}
    wanted = {("2", "1", "3"), ("1", "3", "2")}
    assert set(content(read(path, columns=choice))) == wanted
    assert set(content(read(path, columns="head=1,relation=3,tail=4"))) == wanted
    # a header with well-known names is no fact, even if columns are numbers
    (tmp_path / "h.tsv").write_text("head\trelation\ttail\na\tr\tb\n")
    assert set(content(read(tmp_path / "h.tsv", columns=[3, 2, 1]))) == {("b", "r", "a")}
    frame = pd.DataFrame([("a", "r", "b")])  # its columns are called 0, 1, 2
    assert set(content(read(frame, columns=[2, 1, 0]))) == {("b", "r", "a")}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("head=A,relation=B", "columns= does not name the tail; it needs head, relation and tail"),
        ("head=A,relation=B,tial=C", "unknown column role 'tial'; did you mean 'tail'?"),
        ("head=A,relation,tail=C", "columns= is written head=A,relation=B,tail=C; 'relation' has no name"),
        ("A,B", "name 3 or 4 columns (head, relation, tail and perhaps truth), not 2"),
        ("head=AA,relation=B,tail=C", "column 'AA' is not in the first line of F; did you mean 'A'?"),
        ("head=7,relation=B,tail=C", "the first line of F has 6 columns; there is no column 7 for the head"),
        ("head=A,relation=B,tail=C,truth=E", "F:2: the truth '1970-01-02' is not a number"),
        (
            "head=A,relation=B,tail=C,date=A",
            "F:2: the date 'x' is not like 2024, 2024-05-31 or 2024-05-31T12:30:00; an attribute may be any text",
        ),
    ],
)
def test_wrong_columns_are_one_line(tmp_path: Path, columns: str, message: str) -> None:
    path = tmp_path / "f.csv"
    path.write_text(CSV)
    with pytest.raises(BadInput) as error:
        read(path, columns=columns)
    assert str(error.value) == message.replace("F", str(path))


def test_a_header_that_nobody_named_is_never_a_fact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.csv"
    path.write_text("drug_or_gene,relation,thing,source_db\na,b,c,d\n")
    wanted = f"{path}:1: the first line looks like a header (drug_or_gene, relation, thing, source_db); "
    with pytest.raises(BadInput) as error:
        read(path)
    assert str(error.value).startswith(wanted + "name the columns with columns='head=drug_or_gene,relation=relation,")
    assert main(["import", str(path), "-o", str(tmp_path / "g")]) == 1
    guess = "--columns head=drug_or_gene,relation=relation,tail=thing,attribute=*"
    assert shlex.split(capsys.readouterr().err)[-2:] == guess.split()  # as it stands, a shell takes it
    graph, report = gather(path, columns=guess.split()[1].removesuffix(",attribute=*")).graph()
    assert set(content(graph)) == {("a", "b", "c")}
    assert report.remarks == [f"{path}: column 'source_db' not read (attribute=source_db among the columns keeps it)"]


@pytest.mark.parametrize("header", ["entity1\trel\tentity2", "subject_id\tpredicate\tobject_id", "Begin\tis\tEnd"])
def test_a_first_line_that_stands_alone_is_a_header(tmp_path: Path, header: str) -> None:
    facts = "".join(f"a{i % 5}\tr{i % 2}\ta{(i + 1) % 7}\n" for i in range(30))
    path = tmp_path / "f.tsv"
    path.write_text(header + "\n" + facts)
    graph, report = gather(path).graph()
    line = header.replace("\t", " ")
    assert report.remarks == [
        f"{path}: the first line ({line}) is taken as a header: its names occur nowhere else; "
        "if it is a fact, say --no-header (in Python header=False)"
    ]
    assert tuple(header.split("\t")) not in content(graph)
    assert content(read(path, header=True)) == content(graph)
    kept = read(path, header=False)
    assert set(content(kept)) == {*content(graph), tuple(header.split("\t"))}
    path.write_text(facts)
    assert gather(path).graph()[1].remarks == []
    assert set(content(read(path))) == set(content(graph))


@pytest.mark.parametrize("columns", ["head=1,relation=3,tail=4", [4, 3, 1]])
def test_a_header_above_numbered_columns_is_noticed(tmp_path: Path, columns: Columns) -> None:
    rows = "".join(f"a{i % 5},note {i},r{i % 2},a{(i + 1) % 7},0.5\n" for i in range(30))
    path = tmp_path / "f.csv"
    path.write_text("Begin,remark,link,End,score\n" + rows)
    graph, report = gather(path, columns=columns).graph()
    assert report.remarks == [
        f"{path}: the first line (Begin remark link End score) is taken as a header: its names occur nowhere else; "
        "if it is a fact, say --no-header (in Python header=False)"
    ]
    with pytest.raises(BadInput, match=r":1: the truth 'score' is not a number"):
        read(path, columns="head=1,relation=3,tail=4,truth=5")
    assert "Begin" not in graph.entities.names(range(len(graph.entities)))
    assert content(read(path, columns=columns, header=True)) == content(graph)
    path.write_text(rows)
    plain, report = gather(path, columns=columns).graph()
    assert (content(plain), report.remarks) == (content(graph), [])
    path.write_text("Begin,remark,link,End,score\n" + "".join(rows.splitlines(True)[:4]))  # too few
    assert "is read as a fact; if it is a header, say --header" in gather(path, columns=columns).graph()[1].remarks[0]
    path.write_text("Begin,remark,link,End,score\n" + rows)
    assert len(read(path, columns=columns, header=False).entities) == len(graph.entities) + 2


@pytest.mark.parametrize("columns", ["head=1,transfers_to=2", "id=1,transfers_to=2"])
def test_a_header_above_pairs_by_number_is_noticed(tmp_path: Path, columns: Columns) -> None:
    path = tmp_path / "f.csv"
    path.write_text("from,to\nanna,bob\nbob,N/A\ncarl,anna\n")
    graph, report = gather(path, columns=columns).graph()
    hint = (
        f"{path}: the first line (from to) is read as a fact; if it is a header, say --header (in Python header=True)"
    )
    assert hint in report.remarks
    assert ("from", "transfers_to", "to") in content(graph)
    named = gather(path, columns=columns, header=True).graph()
    assert set(content(named[0])) == {*content(graph)} - {("from", "transfers_to", "to")}
    assert not any("first line" in remark for remark in named[1].remarks)
    for rows in ("anna,bob\nbob,anna\ncarl,anna\n", "a,b\nc,d\ne,f\n"):  # the first names, or none, occur again
        path.write_text(rows)
        assert not any("first line" in remark for remark in gather(path, columns=columns).graph()[1].remarks)


def test_a_doubtful_first_line_is_a_fact_and_named(tmp_path: Path) -> None:
    path = tmp_path / "f.tsv"
    doubt = (
        f"{path}: the first line (from does to) is read as a fact; "
        "if it is a header, say --header (in Python header=True)"
    )
    path.write_text("from\tdoes\tto\na\tr\tb\nb\tr\tc\nc\tr\ta\n")  # few facts
    graph, report = gather(path).graph()
    assert report.remarks == [doubt]
    assert ("from", "does", "to") in content(graph)
    path.write_text("from\tdoes\tto\na\tr\tb\nb\tr\tc\nc\ts\ta\n")
    assert gather(path).graph()[1].remarks == [doubt]
    # relations that all occur once
    path.write_text("from\tdoes\tto\n" + "".join(f"a{i}\tr{i}\ta{i + 1}\n" for i in range(20)))
    graph, report = gather(path).graph()
    assert report.remarks == [f"{path}: 21 different relations in 21 facts; is the second column the relation?", doubt]
    assert ("from", "does", "to") in content(graph)
    # a line of IRIs is no header, nor is the only one
    for text in ("http://x/a\thttp://x/b\thttp://x/c\n" + "a\tr\tb\n" * 20, "a\tr\tb\n"):
        path.write_text(text)
        assert gather(path).graph()[1].remarks == []


def test_dates_survive_save_and_open_and_stay_with_their_facts(tmp_path: Path) -> None:
    path = tmp_path / "f.tsv"
    path.write_text("a\tr\tb\t2000\nb\tr\tc\t1999-12-31T23:59:59+00:00\nb\tr\tc\t1998\nc\tr\td\t\nc\tr\td\t90\n")
    graph = read(path, columns="head=1,relation=2,tail=3,date=4")
    wanted = {("a", "r", "b"): 946_684_800, ("b", "r", "c"): 883_612_800, ("c", "r", "d"): 90}  # the earliest one
    assert {fact: date for fact, (_, date) in content(graph).items()} == wanted
    graph.save(tmp_path / "g")
    again = KnowledgeGraph.open(tmp_path / "g")
    assert content(again) == content(graph)
    assert again.info()["dated"] == 3
    assert graph.hash != read([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d")]).hash
    split = np.array([1, 2, 1], dtype=np.uint8)
    assert content(again.with_splits(split)) == content(graph)


def test_dates_of_tables() -> None:
    day = datetime.date(1970, 1, 2)
    names = {"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", "c"]}
    kinds = [pa.date32(), pa.date64(), pa.timestamp("us"), pa.timestamp("ns", "Europe/Paris")]
    for column in (*(pa.array([day, None], pa.date32()).cast(kind) for kind in kinds), pa.array(["1970-01-02", None])):
        graph = read(pa.table({**names, "date": column}))
        assert sorted(date for _, date in content(graph).values() if date is not None) == [NO_DATE, DAY]
    with pytest.raises(BadInput, match="the table, row 1: the date 'soon' is not like"):
        read(pa.table({**names, "date": ["soon", None]}))


def test_a_split_without_dates_has_none(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("head,relation,tail,date\na,r,b,1971\n")
    graph = read(tmp_path / "f.csv", valid=[("b", "r", "c")])
    assert [date for _, date in content(graph).values()] == [365 * DAY, NO_DATE]


def test_rdf_needs_no_columns(tmp_path: Path) -> None:
    (tmp_path / "f.nt").write_text("<http://x/a> <http://x/r> <http://x/b> .\n")
    with pytest.raises(BadInput, match="is RDF: its subject, predicate and object need no columns="):
        read(tmp_path / "f.nt", columns="A,B,C")


def test_blank_nodes_of_two_files_differ(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.nt").write_text(f"_:x <http://x/{name}> _:y .\n_:x <http://x/{name}> <http://x/n> .\n")
    graph = read(tmp_path / "a.nt", valid=tmp_path / "b.nt")
    assert set(content(graph)) == {
        ("_:b0", "http://x/a", "_:b1"),
        ("_:b0", "http://x/a", "http://x/n"),
        ("_:b2", "http://x/b", "_:b3"),
        ("_:b2", "http://x/b", "http://x/n"),
    }


def test_a_reader_of_another_package_is_found_by_its_suffix(tmp_path: Path) -> None:
    package, about = tmp_path / "site", tmp_path / "site" / "arrows-1.0.dist-info"
    about.mkdir(parents=True)
    (package / "arrows.py").write_text(
        "def read_arrows(path, columns):\n"
        "    for line in path.read_text().splitlines():\n"
        "        yield tuple(line.split(' -> '))\n"
    )
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: arrows\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tuplet.readers]\n.arrows = arrows:read_arrows\n")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "train.arrows").write_text("a -> r -> b\nb -> r -> c\n")
    path = os.pathsep.join([str(package), *sys.path])
    command = [sys.executable, "-m", "tuplet", "import", str(folder), "-o", str(tmp_path / "g")]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True)
    assert set(content(KnowledgeGraph.open(tmp_path / "g"))) == {("a", "r", "b"), ("b", "r", "c")}
    with pytest.raises(UnknownName, match=r"file type '\.arrows' of .* is not known; choose '\.tsv'"):
        read(folder / "train.arrows")


def test_numbers_that_64_bits_do_not_hold_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "ids.csv"
    path.write_text("id,large,larger,r\na,1234567890123456789,123456789012345678901,b\nb,-7,7,c\n")
    graph = tuplet.read(path, columns="id=id,relation=r,attribute=*")
    assert {a["name"]: a["kind"] for a in graph.notes["report"]["attributes"]} == {"large": "integer", "larger": "text"}
    for condition in ("?x.large = 1234567890123456789", '?x.larger = "123456789012345678901"'):
        assert len(graph.ask(f"?x : r(?x, b) & {condition}")) == 1
    for query in ("SELECT ?x { ?x :r :b ; :large %s }", "MATCH (x)-[:r]->(y) WHERE x.large = %s RETURN x"):
        assert len(graph.ask(query % "1234567890123456789")) == 1
        with pytest.raises(ParseError, match="64 bits"):
            graph.ask(query % "12345678901234567890")


@pytest.mark.parametrize(
    "columns", ["id=id,relation=r,attribute=age", "id=id,relation=r,attribute=*", "id=id,relation=*"]
)
def test_two_columns_of_one_name_are_refused(tmp_path: Path, columns: str) -> None:
    path = tmp_path / "ages.csv"
    path.write_text("id,age,age,r\na,1,2,b\n")
    with pytest.raises(BadInput, match="two columns are called 'age'"):
        tuplet.read(path, columns=columns)


def test_columns_of_mixtures_in_a_data_frame() -> None:
    frame = pd.DataFrame({"h": ["a", 7], "r": ["r", "r"], "t": ["b", "c"], "odd": [{}, [1]], "some": [1, "x"]})
    columns = {"head": "h", "relation": "r", "tail": "t", "attribute": "*"}
    graph = tuplet.read(frame, columns=columns)
    assert graph.entities.find("7") >= 0
    assert [a["name"] for a in graph.notes["report"]["attributes"]] == ["some"]
    assert "'odd'" in graph.notes["report"]["remarks"][0]
    with pytest.raises(BadInput, match="head"):
        tuplet.read(frame, columns={"head": "odd", "relation": "r", "tail": "t"})
