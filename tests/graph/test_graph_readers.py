"""Readers: every source gives the same graph; duplicates, splits, labels and weights are settled as documented."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.graph.graph import KnowledgeGraph
from tuplet.read.read import gather, read

FACTS = [
    ("http://x/paris", "http://x/capital_of", "http://x/france"),
    ("http://x/lyon", "http://x/in", "http://x/france"),
    ("http://x/lyon", "http://x/twin", "http://x/lyon"),
]

name = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0"), min_size=1, max_size=6)
fact_lists = st.lists(st.tuples(name, name, name), min_size=1, max_size=12)


def named(graph: KnowledgeGraph, *splits: str) -> set[tuple[str, str, str]]:
    heads, relation, tails = graph.edges(*splits)
    return set(
        zip(graph.entities.names(heads), graph.relations.names(relation), graph.entities.names(tails), strict=True)
    )


def weights(graph: KnowledgeGraph) -> dict[tuple[str, str, str], float]:
    assert graph.weight is not None
    heads, relation, tails, entry = graph.adjacency.triples()
    names = graph.entities.names
    keys = zip(names(heads), graph.relations.names(relation), names(tails), strict=True)
    return dict(zip(keys, graph.weight[entry].tolist(), strict=True))


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@given(fact_lists)
@example([("NA", "null", "NaN")])
@example([('"a', 'b"', '"')])
@example([(" a ", "\u2028", "\x85")])
@example([("\ufeffa", "#b", "\\N")])
@examples(60, allow=(HealthCheck.function_scoped_fixture,))
def test_any_names_survive_tsv(tmp_path: Path, facts: list[tuple[str, str, str]]) -> None:
    # One byte order mark at the start of a file is taken off, so that a name may still begin with one.
    path = write(tmp_path / "f.tsv", "\ufeff" + "".join("\t".join(fact) + "\n" for fact in facts))
    graph, report = gather(path, header=False).graph()
    assert named(graph) == set(facts)
    assert graph.entities.names(range(len(graph.entities))) == sorted({end for h, _, t in facts for end in (h, t)})
    assert graph.relations.names(range(len(graph.relations))) == sorted({r for _, r, _ in facts})
    assert report.duplicates == len(facts) - len(set(facts))
    assert report.self_loops == sum(1 for h, _, t in set(facts) if h == t)
    assert graph.hash == read(facts).hash


@given(fact_lists)
@examples(30, allow=(HealthCheck.function_scoped_fixture,))
def test_any_names_survive_csv_and_parquet(tmp_path: Path, facts: list[tuple[str, str, str]]) -> None:
    frame = pd.DataFrame(facts, columns=["head", "relation", "tail"])
    frame.to_csv(tmp_path / "f.csv", index=False)
    frame.to_parquet(tmp_path / "f.parquet", index=False)
    expected = read(facts).hash
    assert read(tmp_path / "f.csv").hash == expected
    assert read(tmp_path / "f.parquet").hash == expected
    assert read(frame).hash == expected


def test_all_sources_agree(tmp_path: Path) -> None:
    columns = ["subject", "predicate", "object"]
    frame = pd.DataFrame(FACTS, columns=columns)
    table = pa.Table.from_pandas(frame)
    tsv = "".join("\t".join(fact) + "\n" for fact in FACTS)
    nt = "".join(f"<{h}> <{r}> <{t}> .\n" for h, r, t in FACTS)
    ttl = "@prefix : <http://x/> .\n:paris :capital_of :france .\n:lyon :in :france ; :twin :lyon ."
    pq.write_table(table, tmp_path / "f.parquet")
    (tmp_path / "f.tsv.gz").write_bytes(gzip.compress(tsv.encode()))
    (tmp_path / "two-members.tsv.gz").write_bytes(gzip.compress(tsv[:30].encode()) + gzip.compress(tsv[30:].encode()))
    (tmp_path / "f.nt.gz").write_bytes(gzip.compress(nt.encode()))
    folder = tmp_path / "folder"
    folder.mkdir()
    write(folder / "train.txt", tsv)
    sources = [
        FACTS,
        iter(FACTS),
        [list(fact) for fact in FACTS],
        frame,
        pd.DataFrame(FACTS),
        table,
        pa.table([pa.array(column).dictionary_encode() for column in zip(*FACTS, strict=True)], names=columns),
        write(tmp_path / "f.tsv", tsv),
        str(tmp_path / "f.tsv"),
        write(tmp_path / "crlf.tsv", tsv.replace("\n", "\r\n")),
        write(tmp_path / "open-end.tsv", tsv.rstrip("\n")),
        write(tmp_path / "bom.tsv", "\ufeff" + tsv),
        write(tmp_path / "header.tsv", "Head\trelation\ttail\n" + tsv),
        write(tmp_path / "bom-header.tsv", "\ufeffh\tr\tt\r\n" + tsv),
        write(tmp_path / "blank.tsv", "\n\n" + tsv.replace("\n", "\n\n")),
        write(tmp_path / "f.csv", tsv.replace("\t", ",")),
        write(
            tmp_path / "reordered.csv", "tail,note,relation,head\n" + "".join(f"{t},x,{r},{h}\n" for h, r, t in FACTS)
        ),
        write(tmp_path / "F.TSV", tsv),
        tmp_path / "f.tsv.gz",
        tmp_path / "two-members.tsv.gz",
        tmp_path / "f.parquet",
        write(tmp_path / "f.nt", nt),
        tmp_path / "f.nt.gz",
        write(tmp_path / "f.ttl", ttl),
        folder,
    ]
    expected = named(read(FACTS)), read(FACTS).hash
    assert expected[0] == set(FACTS)
    for source in sources:
        graph = read(source)
        assert (named(graph), graph.hash) == expected, source


def test_blank_lines_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "f.tsv", "\na\tr\tb\n\r\n\nb\tr\ta\n\n")
    assert gather(path).graph()[1].blank_lines == 4
    assert gather(write(path, "a\tr\tb\n")).graph()[1].blank_lines == 0


def test_named_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", "id,who,does,whom,sure\n1,a,r,b,0.5\n2,b,s,c,1\n")
    graph = read(path, columns=["who", "does", "whom", "sure"])
    assert weights(graph) == {("a", "r", "b"): 0.5, ("b", "s", "c"): 1.0}
    assert named(read(path, columns=["whom", "does", "who"])) == {("b", "r", "a"), ("c", "s", "b")}
    frame = pd.read_csv(path)
    assert named(read(frame, columns=["who", "does", "whom"])) == {("a", "r", "b"), ("b", "s", "c")}


def test_csv_quotes(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", '"Smith, John",knows,"the ""boss"""\n"two\nlines",r,x\n')
    assert named(read(path)) == {("Smith, John", "knows", 'the "boss"'), ("two\nlines", "r", "x")}


def test_splits_and_repeated_edges(tmp_path: Path) -> None:
    train = [("a", "r", "b"), ("a", "r", "b"), ("b", "r", "c")]
    valid = [("b", "r", "c"), ("c", "r", "a"), ("c", "r", "a")]
    test = [("c", "r", "a"), ("a", "r", "b"), ("a", "r", "a")]
    graph, report = gather(train, valid, test).graph()
    assert named(graph, "train") == {("a", "r", "b"), ("b", "r", "c")}
    assert named(graph, "valid") == {("c", "r", "a")}
    assert named(graph, "test") == {("a", "r", "a")}
    assert report.edges == {"train": 2, "valid": 1, "test": 1}
    assert (report.duplicates, report.repeated_in_later_split, report.self_loops) == (2, 3, 1)
    assert report.as_dict() == graph.notes["report"]


def test_weights(tmp_path: Path) -> None:
    path = write(
        tmp_path / "f.tsv", "a\tr\tb\t0.5\na\tr\tb\t0.75\na\tr\tb\t0.75\nb\tr\tc\t1\nc\tr\td\t0\nd\tr\ta\t1e-3\n"
    )
    graph, report = gather(path, valid=[("a", "r", "b", 0.9), ("x", "r", "y", 0.25)], test=[("y", "r", "x")]).graph()
    kept = weights(graph)
    assert kept[("a", "r", "b")] == 0.75
    assert kept[("x", "r", "y")] == 0.25
    assert kept[("y", "r", "x")] == 1.0
    assert ("c", "r", "d") not in kept
    assert kept[("d", "r", "a")] == 1e-3
    assert (report.duplicates, report.repeated_in_later_split) == (2, 1)
    assert (report.conflicting_weights, report.zero_truth) == (2, 1)
    named_column = write(tmp_path / "g.csv", "weight,source,relation,target\n0.5,a,r,b\n")
    assert weights(read(named_column)) == {("a", "r", "b"): 0.5}
    assert read([("a", "r", "b", 0)]).adjacency.edges == 0


def test_label_files(tmp_path: Path) -> None:
    facts = [("q2", "p1", "q1"), ("q1", "p1", "q3")]
    some = write(tmp_path / "some.tsv", "q1\tOne\np1\tlikes\nunheard\tX\nq1\tUno\n")
    graph, report = gather(facts, labels=some).graph()
    assert graph.entities.names(range(3)) == ["q1", "q2", "q3"]
    assert [graph.entities.label(i) for i in range(3)] == ["One", "", ""]
    assert graph.relations.label(0) == "likes"
    assert (report.labelled_entities, report.labelled_relations, report.unused_labels) == (1, 1, 2)
    everything = write(tmp_path / "all.csv", 'q3,"Three, 3"\nq1\nq2,Two\n')
    graph = read(facts, labels=[some, everything])
    assert graph.entities.names(range(3)) == ["q1", "q3", "q2"]
    assert graph.entities.find_label("Three, 3") == [1]
    graph = read(facts, labels=[everything])
    assert graph.entities.names(range(3)) == ["q3", "q1", "q2"]
    assert named(graph) == set(facts)


def test_folder_lists_give_ids(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", "b\tr\ta\n")
    write(tmp_path / "dev.tsv", "z\ts\ta\n")
    write(tmp_path / "entities.tsv", "c\tSee\nb\tBee\na\t\n")
    write(tmp_path / "relations.txt", "r\n")
    graph, report = gather(tmp_path).graph()
    assert graph.entities.names(range(4)) == ["c", "b", "a", "z"]
    assert graph.relations.names(range(2)) == ["r", "s"]
    assert report.unlisted == 2
    assert named(graph, "valid") == {("z", "s", "a")}
    assert graph.entities.label(1) == "Bee"


def test_rdf_labels_literals_and_blank_nodes(tmp_path: Path) -> None:
    text = """@prefix : <http://x/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
    :a rdfs:label "ah"@fr, "ay"@en ; :age 7 ; :knows [ :knows :a ] .
    :knows rdfs:label "knows" .
    """
    path = write(tmp_path / "f.ttl", text)
    graph, report = gather(path).graph()
    assert named(graph) == {("http://x/a", "http://x/knows", "_:b0"), ("_:b0", "http://x/knows", "http://x/a")}
    assert graph.entities.find_label("ay") == [graph.entities.find("http://x/a")]
    assert graph.relations.label(0) == "knows"
    assert (report.labelled_entities, report.labelled_relations) == (1, 1)
    assert read(path).hash == graph.hash
    both = read(path, valid=path)
    assert len(both.entities) == 3  # blank nodes of two files are different things


def test_numbers_as_names() -> None:
    assert named(read([(1, 2, 3)])) == {("1", "2", "3")}
    assert named(read(pd.DataFrame({"h": [1], "r": [2], "t": [3]}))) == {("1", "2", "3")}


COUNTS = {
    "umls": (135, 46, 5216, 652, 661, 0),
    "codex-s": (2034, 42, 32888, 1827, 1828, 1173),
    "fb15k-237": (14505, 237, 272115, 17526, 20438, 14505),
}


@pytest.mark.parametrize("dataset", COUNTS)
def test_benchmark_graphs_have_the_published_counts(data: Path, dataset: str, tmp_path: Path) -> None:
    graph, report = gather(data / dataset).graph()
    found = (report.entities, report.relations, *report.edges.values(), report.labelled_entities)
    assert found == COUNTS[dataset]
    assert (report.duplicates, report.repeated_in_later_split, report.unlisted, report.blank_lines) == (0, 0, 0, 0)
    graph.save(tmp_path / "g")
    opened = KnowledgeGraph.open(tmp_path / "g")
    assert opened.hash == graph.hash
    assert opened.info() == graph.info()
    with gzip.open(data / dataset / "valid.tsv.gz", "rt") as stream:
        assert named(opened, "valid") == {tuple(line.rstrip("\n").split("\t")) for line in stream}
    if dataset == "fb15k-237":
        with gzip.open(data / dataset / "entities.tsv.gz", "rt") as stream:
            listed = [line.split("\t")[0] for line in stream]
        assert opened.entities.names(range(len(listed))) == listed
