"""Property graphs: Neo4j's files, GraphML, NetworkX, DuckDB and Ladybug; labels are types, properties attributes."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import networkx as nx
import pandas as pd
import pytest
from graph_content import fact_values, facts, truths, values

from tuplet.cli.commands import main
from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph
from tuplet.read.read import gather, read


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


PEOPLE = """personId:ID(Person),name,born:int,awards:string[],retired:boolean,since:date,:LABEL
keanu,Keanu Reeves,1964,Saturn;MTV,false,1984-01-01,Person;Actor
1,"Moss, Carrie-Anne",,,true,,Person
"""
MOVIES = "movieId:ID(Movie),title,:LABEL,note:IGNORE\n1,The Matrix,Movie,x\n2,Speed,Movie;Action,y\n"
ROLES = """:START_ID(Person),role,takes:int[],:END_ID(Movie),:TYPE
keanu,Neo,1;2,1,ACTED_IN
1,Trinity,,1,ACTED_IN
keanu,,3,2,ACTED_IN
"""


def test_neo4j_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [write(tmp_path / name, text) for name, text in (("p.csv", PEOPLE), ("m.csv", MOVIES), ("r.csv", ROLES))]
    assert main(["import", *map(str, files), "-o", str(tmp_path / "g")]) == 0
    graph = KnowledgeGraph.open(tmp_path / "g")
    assert facts(graph) == {
        ("Person:keanu", "ACTED_IN", "Movie:1"),
        ("Person:1", "ACTED_IN", "Movie:1"),  # the same id in two spaces is of two entities
        ("Person:keanu", "ACTED_IN", "Movie:2"),
        ("Person:keanu", "type", "Person"),
        ("Person:keanu", "type", "Actor"),
        ("Person:1", "type", "Person"),
        ("Movie:1", "type", "Movie"),
        ("Movie:2", "type", "Movie"),
        ("Movie:2", "type", "Action"),
    }
    assert graph.notes["type_relation"] == "type"
    assert values(graph, "Person:keanu") == {
        "personId": "keanu",
        "name": "Keanu Reeves",
        "born": 1964,
        "awards": ["MTV", "Saturn"],
        "retired": False,
        "since": datetime.date(1984, 1, 1),
    }
    assert values(graph, "Person:1") == {"personId": "1", "name": "Moss, Carrie-Anne", "retired": True}
    assert values(graph, "Movie:2") == {"movieId": "2", "title": "Speed"}
    assert fact_values(graph, "Person:keanu", "ACTED_IN", "Movie:1") == {"role": "Neo", "takes": [1, 2]}
    assert fact_values(graph, "Person:keanu", "ACTED_IN", "Movie:2") == {"takes": 3}
    assert [graph.entities.label(graph.entities.find(name)) for name in ("Person:1", "Movie:1")] == [
        "Moss, Carrie-Anne",
        "The Matrix",
    ]
    assert "born (integer, 1 of entities)" in capsys.readouterr().out


def test_a_neo4j_header_may_have_a_file_of_its_own(tmp_path: Path) -> None:
    whole = [write(tmp_path / f"{i}.csv", text) for i, text in enumerate((PEOPLE, MOVIES, ROLES))]
    parts = []
    for i, text in enumerate((PEOPLE, MOVIES, ROLES)):
        header, *lines = text.splitlines(keepends=True)
        parts.append(write(tmp_path / f"{i}-header.csv", header))
        parts += [write(tmp_path / f"{i}-part{j}.csv", line) for j, line in enumerate(lines)]
    assert read(parts).hash == read(whole).hash
    with pytest.raises(BadInput, match=r"f\.csv:1: 3 columns where the header before it has 7"):
        read([parts[0], write(tmp_path / "f.csv", "a,b,c\n")])
    with pytest.raises(BadInput, match="no facts"):
        read(parts[0])


def test_neo4j_files_without_id_spaces(tmp_path: Path) -> None:
    nodes = write(tmp_path / "n.csv", "id:ID,born:long\na,1990\nb,\n")
    for header in (":START_ID,:END_ID,:TYPE", ":START_ID,:TYPE,:END_ID", ":TYPE,:END_ID,:START_ID"):
        row = header.replace(":START_ID", "a").replace(":END_ID", "b").replace(":TYPE", "KNOWS")
        graph = read([nodes, write(tmp_path / "r.csv", f"{header}\n{row}\n")])
        assert facts(graph) == {("a", "KNOWS", "b")}
        assert values(graph, "a") == {"id": "a", "born": 1990}
    assert values(read(tmp_path / "r.csv", nodes=nodes), "a") == {"id": "a", "born": 1990}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (":START_ID,:END_ID\na,b\n", r"n\.csv:1: a Neo4j header has :ID \(nodes\) or .*; no :TYPE here"),
        ("id:ID,born:int\na,1\nb,old\n", r"n\.csv:3: born: 'old' is not a whole number"),
        ("id:ID,born:int[]\na,1;2\nb,3;old\n", r"n\.csv:3: born: 'old' is not a whole number"),
        ("a:ID,b:ID\nx,y\n", r"n\.csv:1: two columns are the :ID; tuplet reads one"),
        (":START_ID,:END_ID,:TYPE\na,b,R\na,,R\n", r"n\.csv:3: the tail is empty"),
    ],
)
def test_wrong_neo4j_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read([write(tmp_path / "n.csv", text), write(tmp_path / "f.csv", "a,r,b\n")])


def test_a_table_that_apoc_exports(tmp_path: Path) -> None:
    text = """_id,_labels,name,born,_start,_end,_type,since
0,:Person:Actor,Keanu,1964,,,,
1,:Movie,Speed,,,,,
,,,,0,1,ACTED_IN,1994
"""
    graph = read(write(tmp_path / "all.csv", text))
    assert facts(graph) == {
        ("0", "ACTED_IN", "1"),
        ("0", "type", "Person"),
        ("0", "type", "Actor"),
        ("1", "type", "Movie"),
    }
    assert values(graph, "0") == {"name": "Keanu", "born": 1964}
    assert fact_values(graph, "0", "ACTED_IN", "1") == {"since": 1994}
    assert graph.entities.label(graph.entities.find("1")) == "Speed"


def people() -> Any:
    graph = nx.MultiDiGraph()
    graph.add_node(
        "anna", name="Anna", age=31, labels=["Person", "Boss"], tags=("x", "y"), born=datetime.date(1990, 1, 1)
    )
    graph.add_node("bob", age=4.5, odd={"no": "value"})
    graph.add_node(7)
    graph.add_edge("anna", "bob", key="knows", since=1999)
    graph.add_edge("bob", 7, relation="owns", truth=0.5)
    return graph


def test_networkx_graphs() -> None:
    graph, report = gather(people()).graph()
    assert truths(graph) == {
        ("anna", "knows", "bob"): 1.0,
        ("bob", "owns", "7"): 0.5,
        ("anna", "type", "Person"): 1.0,
        ("anna", "type", "Boss"): 1.0,
    }
    assert values(graph, "anna") == {"name": "Anna", "age": 31.0, "tags": ["x", "y"], "born": datetime.date(1990, 1, 1)}
    assert fact_values(graph, "anna", "knows", "bob") == {"since": 1999}
    assert graph.entities.label(graph.entities.find("anna")) == "Anna"
    assert report.remarks == ["the NetworkX graph: 1 values of 'odd' not read"]
    plain = nx.Graph([("a", "b")])
    graph, report = gather(plain).graph()
    assert facts(graph) == {("a", "edge", "b"), ("b", "edge", "a")}
    assert report.remarks == [
        "the NetworkX graph: 1 edges do not say what they are; they are called 'edge'",
        "the NetworkX graph: its edges have no direction; each is two facts",
    ]
    with pytest.raises(BadInput, match="no edges"):
        read(nx.Graph())
    with pytest.raises(BadInput, match=r"the NetworkX graph: the truth 2 is outside \[0, 1\]"):
        read(nx.DiGraph([("a", "b", {"truth": 2})]))


def test_graphml_files(tmp_path: Path) -> None:
    graph = nx.DiGraph()
    graph.add_node("n0", labels=":Person:Boss", name="Anna", age=31, size=1.5, old=True)
    graph.add_node("n1", name="Bob")
    graph.add_edge("n0", "n1", label="KNOWS", since=1999)
    nx.write_graphml(graph, tmp_path / "f.graphml")
    read_back = read(tmp_path / "f.graphml")
    assert facts(read_back) == {("n0", "KNOWS", "n1"), ("n0", "type", "Person"), ("n0", "type", "Boss")}
    assert values(read_back, "n0") == {"name": "Anna", "age": 31, "size": 1.5, "old": True}
    assert fact_values(read_back, "n0", "KNOWS", "n1") == {"since": 1999}
    assert facts(read(graph)) == facts(read_back)
    chosen = read(tmp_path / "f.graphml", columns={"head": "source", "relation": "since", "tail": "target"})
    assert ("n0", "1999", "n1") in facts(chosen)
    with pytest.raises(BadInput, match=r"bad\.graphml:1: no element found"):
        read(write(tmp_path / "bad.graphml", "<graphml><graph>"))
    with pytest.raises(BadInput, match=r"none\.graphml: no edges"):
        read(write(tmp_path / "none.graphml", "<graphml/>"))


def test_duckdb_files_and_relations(tmp_path: Path) -> None:
    path = tmp_path / "f.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table facts as select 'a' as head, 'r' as relation, 'b' as tail, 1999 as since")
        connection.execute("create table nodes as select 'a' as id, 'Anna' as name, 31 as age")
        assert facts(read(connection)) == {("a", "r", "b")}
        relation = connection.sql("select 'x' as who, 'y' as whom")
        assert facts(read(relation, columns="id=who,knows=whom")) == {("x", "knows", "y")}
    graph = read(path, columns="attribute=since")
    assert facts(graph) == {("a", "r", "b")}
    assert fact_values(graph, "a", "r", "b") == {"since": 1999}
    assert values(graph, "a") == {"name": "Anna", "age": 31}
    with duckdb.connect(str(path)) as connection:
        connection.execute("drop table facts; create table x (a int); create table y (b int)")
    with pytest.raises(BadInput, match=r"which table holds the facts\? There are nodes, x, y; write .*f\.duckdb:TABLE"):
        read(path)
    assert facts(read(f"{path}:nodes", columns="id=id,called=name")) == {("a", "called", "Anna")}
    with pytest.raises(BadInput, match=r"table 'node' is not in .*f\.duckdb; did you mean 'nodes'\?"):
        read(f"{path}:node")
    with pytest.raises(BadInput, match=r"g\.duckdb: cannot be read as DuckDB"):
        read(write(tmp_path / "g.duckdb", "no database at all"))


def test_everything_that_speaks_arrow(tmp_path: Path) -> None:
    class Stream:
        """A data frame of a library that we do not know."""

        def __arrow_c_stream__(self, schema: object = None) -> object:
            return pd.DataFrame({"s": ["a"], "p": ["r"], "o": ["b"]}).__arrow_c_stream__(schema)

    assert facts(read(Stream())) == {("a", "r", "b")}


def test_ladybug_databases(tmp_path: Path) -> None:
    ladybug = pytest.importorskip("ladybug")
    path = tmp_path / "f.lbug"
    database = ladybug.Database(str(path))
    connection = ladybug.Connection(database)
    for statement in (
        "CREATE NODE TABLE Person(name STRING, age INT64, PRIMARY KEY(name))",
        "CREATE NODE TABLE City(id INT64, name STRING, PRIMARY KEY(id))",
        "CREATE REL TABLE LivesIn(FROM Person TO City, since DATE)",
        "CREATE (:Person {name: 'anna', age: 31}), (:Person {name: 'bob'}), (:City {id: 1, name: 'Oslo'})",
        "MATCH (p:Person {name: 'anna'}), (c:City) CREATE (p)-[:LivesIn {since: date('2020-01-02')}]->(c)",
    ):
        connection.execute(statement)
    wanted = {
        ("Person:anna", "LivesIn", "City:1"),
        ("Person:anna", "type", "Person"),
        ("Person:bob", "type", "Person"),
        ("City:1", "type", "City"),
    }
    assert facts(read(connection)) == wanted
    connection.close()
    database.close()
    graph = read(path)
    assert facts(graph) == wanted
    assert values(graph, "Person:anna") == {"name": "anna", "age": 31}
    assert fact_values(graph, "Person:anna", "LivesIn", "City:1") == {"since": datetime.date(2020, 1, 2)}
    assert graph.entities.label(graph.entities.find("City:1")) == "Oslo"


def test_a_missing_library_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ladybug", None)
    with pytest.raises(BadInput, match=r"is read with ladybug, which is missing: pip install 'tuplet\[ladybug\]'"):
        read(write(tmp_path / "f.lbug", "x"))
