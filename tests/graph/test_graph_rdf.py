"""RDF whole: every format, literals by property, labels and languages, prefixes, named graphs, annotations."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path

import pyarrow as pa
import pyoxigraph as ox
import pytest
import rdflib
from graph_content import fact_values, facts, tagged, truths, values

from tuplet.errors import BadInput
from tuplet.read.read import gather, read

X = "http://x/"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
ALT = "http://www.w3.org/2004/02/skos/core#altLabel"

PEOPLE = """@prefix : <http://x/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:anna a :Person ; rdfs:label "Anna"@de, "Alicia"@es ; skos:altLabel "Annie" ; rdfs:comment "a person"@en ;
  :age 31 ; :size 1.75 ; :born "1990-01-01"^^xsd:date ; :seen "2024-05-31T12:30:00Z"^^xsd:dateTime ; :boss true ;
  :mood "good", "bad" ; :knows :bob, [ :knows :anna ; :age 5 ] .
:bob :age "old" ; :since "not a day"^^xsd:date .
:knows rdfs:label "knows" ; rdfs:comment "between people" .
"""


def written(tmp_path: Path, name: str, text: str) -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_literals_are_attributes_by_property(tmp_path: Path) -> None:
    path = written(tmp_path, "f.ttl", PEOPLE)
    graph, report = gather(path).graph()
    anna = values(graph, X + "anna")
    assert anna.pop(LABEL) == ["Alicia", "Anna"]
    assert anna == {
        X + "age": 31,
        X + "size": 1.75,
        X + "born": datetime.date(1990, 1, 1),
        X + "seen": datetime.datetime(2024, 5, 31, 12, 30, tzinfo=datetime.UTC),
        X + "boss": True,
        X + "mood": ["bad", "good"],
        ALT: "Annie",
        "http://www.w3.org/2000/01/rdf-schema#comment": "a person",
    }
    assert values(graph, X + "bob") == {X + "age": "old", X + "since": "not a day"}  # not what the datatype says
    assert values(graph, "_:b0") == {X + "age": 5}
    assert tagged(graph, X + "anna", LABEL) == {("Anna", "de"), ("Alicia", "es")}
    assert graph.notes["prefixes"] == {
        "": X,
        "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
        "skos": "http://www.w3.org/2004/02/skos/core#",
        "xsd": "http://www.w3.org/2001/XMLSchema#",
    }
    assert graph.notes["type_relation"] == RDF_TYPE
    assert graph.notes["label_attributes"] == [LABEL, ALT]
    # what is said of a property does not make it an entity; its label is kept
    assert X + "knows" not in graph.entities
    assert graph.relations.label(graph.relations.find(X + "knows")) == "knows"
    assert report.remarks == [f"{path}: values of relations not kept: 1 http://www.w3.org/2000/01/rdf-schema#comment"]
    assert f"{X}age (integer and text, 3 of entities)" in str(report)


def test_every_format_gives_the_same_graph(tmp_path: Path) -> None:
    quads = list(ox.parse(PEOPLE.encode(), format=ox.RdfFormat.TURTLE))
    graph = read(written(tmp_path, "f.ttl", PEOPLE))
    forms = {
        "nt": ox.RdfFormat.N_TRIPLES,
        "nq": ox.RdfFormat.N_QUADS,
        "trig": ox.RdfFormat.TRIG,
        "rdf": ox.RdfFormat.RDF_XML,
        "owl": ox.RdfFormat.RDF_XML,
        "jsonld": ox.RdfFormat.JSON_LD,
    }
    for suffix, form in forms.items():
        raw = (
            ox.serialize((quad.triple for quad in quads), format=form)
            if suffix != "nq"
            else ox.serialize(quads, format=form)
        )
        (tmp_path / f"g.{suffix}").write_bytes(raw)
        (tmp_path / f"g.{suffix}.gz").write_bytes(gzip.compress(raw))
        with pa.output_stream(str(tmp_path / f"g.{suffix}.zst"), compression="zstd") as stream:
            stream.write(raw)
        for packed in ("", ".gz", ".zst"):
            assert read(tmp_path / f"g.{suffix}{packed}").hash == graph.hash, suffix + packed


def test_graphs_of_rdflib_and_pyoxigraph(tmp_path: Path) -> None:
    graph = read(written(tmp_path, "f.ttl", PEOPLE))
    library = rdflib.Graph().parse(data=PEOPLE)
    again = read(library)
    assert facts(again) == facts(graph)
    assert values(again, X + "anna") == values(graph, X + "anna")
    assert again.notes["prefixes"] == {name: iri for name, iri in graph.notes["prefixes"].items() if name != "xsd"} | {
        "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    }
    store = ox.Store()
    store.load(PEOPLE.encode(), format=ox.RdfFormat.TURTLE)
    assert facts(read(store)) == facts(graph)
    dataset = rdflib.Dataset()
    dataset.parse(data=f"<{X}g> {{ <{X}a> <{X}r> <{X}b> }} <{X}a> <{X}r> <{X}c> .", format="trig")
    named = read(dataset)
    assert fact_values(named, X + "a", X + "r", X + "b") == {"graph": X + "g"}
    assert fact_values(named, X + "a", X + "r", X + "c") == {}


def test_named_graphs_are_an_attribute_of_facts(tmp_path: Path) -> None:
    text = "".join(
        f"<{X}a> <{X}r> <{X}{tail}> {graph} .\n" for tail, graph in [("b", f"<{X}g>"), ("b", f"<{X}h>"), ("c", "")]
    )
    graph, report = gather(written(tmp_path, "f.nq", text)).graph()
    assert facts(graph) == {(X + "a", X + "r", X + "b"), (X + "a", X + "r", X + "c")}
    assert fact_values(graph, X + "a", X + "r", X + "b") == {"graph": [X + "g", X + "h"]}
    assert fact_values(graph, X + "a", X + "r", X + "c") == {}
    assert report.duplicates == 1


ANNOTATED = """@prefix : <http://x/> .
:a :r :b {| :truth 0.8 ; :since 1999 ; :source :wiki |} .
:a :r :c .
<< :a :r :d >> :truth 0.25 .
<< :a :r :e >> :since 2001 .
:f :r _:x {| :truth 0.5 |} .
"""


def test_annotations_make_weighted_facts(tmp_path: Path) -> None:
    graph = read(written(tmp_path, "f.ttl", ANNOTATED))
    assert truths(graph) == {
        (X + "a", X + "r", X + "b"): 0.8,
        (X + "a", X + "r", X + "c"): 1.0,
        (X + "a", X + "r", X + "d"): 0.25,  # not stated, but its truth is
        (X + "f", X + "r", "_:b0"): 0.5,
    }
    assert fact_values(graph, X + "a", X + "r", X + "b") == {X + "since": 1999, X + "source": X + "wiki"}
    unweighted = read(written(tmp_path, "g.ttl", f"<{X}a> <{X}r> <{X}b> {{| <{X}since> 5 |}} ."))
    assert not unweighted.weighted
    assert fact_values(unweighted, X + "a", X + "r", X + "b") == {X + "since": 5}
    with pytest.raises(BadInput, match=r"h\.ttl: the truth 8 is outside \[0, 1\]"):
        read(written(tmp_path, "h.ttl", f"<{X}a> <{X}r> <{X}b> {{| <{X}truth> 8 |}} ."))


def test_labels_of_blank_nodes_of_two_files_stay_with_them(tmp_path: Path) -> None:
    integer = "http://www.w3.org/2001/XMLSchema#int"
    text = f'_:x <{X}r> _:y .\n_:x <{LABEL}> "N" .\n_:y <{X}n> "N"^^<{integer}> .\n'
    files = [written(tmp_path, f"{n}.nt", text.replace("N", n)) for n in "12"]
    graph = read(files)
    assert [graph.entities.label(graph.entities.find(name)) for name in ("_:b0", "_:b2")] == ["1", "2"]
    assert [values(graph, name)[X + "n"] for name in ("_:b1", "_:b3")] == [1, 2]
    assert read(files[0]).notes.get("prefixes") is None


def test_files_of_attributes_alone_need_facts_beside_them(tmp_path: Path) -> None:
    ages = written(tmp_path, "ages.nt", f'<{X}a> <{X}age> "7" .\n')
    with pytest.raises(BadInput, match=r"ages\.nt: no facts, only attributes of entities"):
        read(ages)
    graph = read([written(tmp_path, "f.nt", f"<{X}a> <{X}r> <{X}b> .\n"), ages])
    assert values(graph, X + "a") == {X + "age": "7"}
