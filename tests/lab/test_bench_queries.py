"""Query files: what is written is read again; foreign files mean what they say; broken ones are refused."""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from random_graph import random_graph

from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.bench.queries import BenchQuery, QuerySet, read, read_any, read_betae, read_efok, write, write_efok
from tuplet.lab.bench.sampling import sample
from tuplet.lab.bench.shapes import BETAE, JOINT, parse_formula, shape
from tuplet.lab.benchmark_forms import parse_betae, parse_efok
from tuplet.lang import rewrite
from tuplet.query.bind import bind


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return random_graph(1)


@pytest.fixture(scope="module")
def queries(graph: KnowledgeGraph) -> QuerySet:
    return sample(graph, ["2fp", "2fcn", "3fdm", "up", "pni"], 3, seed=9)


def content(queries: QuerySet) -> list[tuple[object, ...]]:
    return [
        (q.shape, q.formula, dict(q.grounding), q.easy.tolist(), q.hard.tolist(), q.index, q.meaningful)
        for q in queries
    ]


def test_parquet_round_trip(queries: QuerySet, graph: KnowledgeGraph, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "queries.parquet"
    write(queries, file, graph)
    again = read(file)
    assert content(again) == content(queries)
    assert [q.links.tolist() for q in again] == [q.links.tolist() for q in queries]  # type: ignore[union-attr]
    assert {q.asked for q in again} == {None}
    assert again.meta == queries.meta
    assert again.meta["graph"] == graph.hash
    assert all(q.easy.dtype == np.int32 and q.easy.shape[1] == q.k for q in again)
    assert [p.name for p in file.parent.iterdir()] == ["queries.parquet"]
    names = dict(pq.read_table(file)["names"].to_pylist()[0])
    assert names["s1"] == f"entity {queries.queries[0].grounding['s1']}"
    assert names["r1"] == f"relation {queries.queries[0].grounding['r1'] // 2}"


def test_what_is_asked_and_files_without_links_round_trip(queries: QuerySet, tmp_path: Path) -> None:
    asked = replace(queries, queries=tuple(replace(q, asked=i % len(q.hard)) for i, q in enumerate(queries)))
    assert asked.digest != queries.digest
    write(asked, tmp_path / "asked.parquet")
    again = read(tmp_path / "asked.parquet")
    assert [q.asked for q in again] == [q.asked for q in asked]
    assert again.digest == asked.digest
    # files of EFOk-CQA know of no filter: it is made beforehand
    write_efok(asked, tmp_path / "asked")
    for query, plain in zip(asked, read_any(tmp_path / "asked"), strict=True):
        assert plain.hard.tolist() == [query.hard.tolist()[query.asked or 0]]
        assert len(plain.easy) == len(query.easy) + len(query.hard) - 1
        assert plain.links is plain.strata is None
    write(read_any(tmp_path / "asked"), tmp_path / "plain.parquet")
    assert {(q.links, q.asked) for q in read(tmp_path / "plain.parquet")} == {(None, None)}


def test_no_half_written_and_no_replaced_files(queries: QuerySet, tmp_path: Path) -> None:
    file = tmp_path / "queries.parquet"
    write(queries, file)
    with pytest.raises(BadInput, match="force=True"):
        write(queries, file)
    write(queries, file, force=True)
    broken = QuerySet((*queries.queries, BenchQuery("x", "r1(s1,f1)", {"r1": 2**40}, *[np.empty((0, 1), int)] * 2)))
    before = file.read_bytes()
    with pytest.raises(pa.ArrowInvalid, match="too large"):
        write(broken, file, force=True)
    assert file.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["queries.parquet"]


def test_clauses_equal_those_of_the_language(queries: QuerySet, graph: KnowledgeGraph) -> None:
    for query in queries:
        parsed = bind(rewrite.clauses(parse_efok(query.formula, query.grounding)), graph)
        assert [(q.free, q.edges) for q in query.clauses()] == [(q.free, q.edges) for q in parsed]


def test_formulas_keep_their_clauses() -> None:
    for name in (*JOINT, *BETAE):
        clauses = shape(name).clauses
        got = parse_formula(shape(name).formula)
        assert [[e.relation for e in c] for c in got] == [[e.relation for e in c] for c in clauses]
    with pytest.raises(BadInput, match="symbols only"):
        parse_formula("12(s1,f1)")


# --- EFOk-CQA ----------------------------------------------------------------------------------------------------


def test_efok_round_trip(queries: QuerySet, tmp_path: Path) -> None:
    paths = write_efok(queries, tmp_path)
    assert [p.name for p in paths] == [f"test_type000{i}_EFOX_qaa.json" for i in range(5)]
    raw = json.loads(paths[0].read_text())
    (formula,) = raw
    assert formula == "(r1(s1,f1))&(r2(f1,f2))"
    assert set(raw[formula][0][0]) == {"r1", "r2", "s1"}
    assert list(raw[formula][0][2]) == ["f1_f2"]
    again = read_any(tmp_path)
    assert [(*c[1:5],) for c in content(again)] == [(*c[1:5],) for c in content(queries)]
    assert [q.shape for q in again][::3] == [f"type000{i}" for i in range(5)]
    named = read_efok(paths[1], shape="2fcn")
    assert {q.shape for q in named} == {"2fcn"}


def test_efok_files_as_published(tmp_path: Path) -> None:
    """One free variable is `f`, train files have no hard answers, brackets may be missing."""
    file = tmp_path / "train_type0007_EFOX_qaa.json"
    file.write_text(json.dumps({"(r1(s1,e1))&(r2(e1,f))": [[{"r1": 3, "r2": 4, "s1": 9}, {"f": [[1], [2]]}, []]]}))
    (query,) = read_efok(file)
    assert (query.shape, query.k, query.easy.tolist(), query.hard.shape) == ("type0007", 1, [[1], [2]], (0, 1))
    (clause,) = query.clauses()
    assert [tuple(e) for e in clause.edges] == [(1, 1, ~9, False), (1, 2, 0, False)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not an EFOk-CQA query file"),
        ("[1]", "expected an object"),
        ('{"r1(s1,f1)": [[{"r1": 1}, {}, {}]]}', "query 0 of 'r1\\(s1,f1\\)' is malformed"),
        ('{"r1(s1,f1)": [[{"r1": 1, "s1": 2}, {"f1": [[1, 2], [3]]}, []]]}', "malformed"),
        ('{"r1(s1,f1)": [17]}', "malformed"),
    ],
)
def test_broken_efok_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "broken_qaa.json"
    file.write_text(text)
    with pytest.raises(BadInput, match=message):
        read_efok(file)


def test_broken_parquet_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no query file"):
        read(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(BadInput, match="is not a query file"):
        read(tmp_path / "text.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(BadInput, match="not of benchmark queries"):
        read(tmp_path / "other.parquet")


# --- BetaE -------------------------------------------------------------------------------------------------------

STRUCTURES = {
    ("e", ("r",)): (5, (3,)),
    ("e", ("r", "r", "r")): (5, (3, 6, 1)),
    (("e", ("r",)), ("e", ("r", "n"))): ((5, (3,)), (6, (2, -2))),
    ((("e", ("r",)), ("e", ("r",))), ("r",)): (((5, (3,)), (6, (2,))), (7,)),
    (("e", ("r", "r", "n")), ("e", ("r",))): ((5, (3, 0, -2)), (6, (2,))),
    (("e", ("r",)), ("e", ("r",)), ("u",)): ((5, (3,)), (6, (2,)), (-1,)),
    ((("e", ("r",)), ("e", ("r",)), ("u",)), ("r",)): (((5, (3,)), (6, (2,)), (-1,)), (7,)),
}


def betae_folder(folder: Path) -> Path:
    queries, easy, hard = defaultdict(set), defaultdict(set), defaultdict(set)
    for structure, query in STRUCTURES.items():
        queries[structure].add(query)
        easy[query], hard[query] = {1, 4}, {2}
    for name, part in (("queries", queries), ("easy-answers", easy), ("hard-answers", hard)):
        (folder / f"test-{name}.pkl").write_bytes(pickle.dumps(part))
    return folder


def test_betae_files_mean_what_the_language_reads(graph: KnowledgeGraph, tmp_path: Path) -> None:
    queries = read_any(betae_folder(tmp_path))
    assert [q.shape for q in queries] == ["1p", "3p", "ip", "2u", "up", "2in", "pni"]
    by_shape = {"1p": 0, "3p": 1, "2in": 2, "ip": 3, "pni": 4, "2u": 5, "up": 6}
    for query in queries:
        nested = list(STRUCTURES.values())[by_shape[query.shape]]
        assert (query.easy.tolist(), query.hard.tolist()) == ([[1], [4]], [[2]])
        ours = [{(e.relation, e.negated) for e in clause.edges} for clause in query.clauses()]
        theirs = bind(rewrite.clauses(parse_betae(str(nested))), graph)
        assert ours == [{(e.relation, e.negated) for e in clause.edges} for clause in theirs]
        assert [c.constants for c in query.clauses()] == [c.constants for c in theirs]
        from tuplet.engines.crisp import collect, plan

        answered = [
            {tuple(t) for t in collect(plan(c, graph.adjacency), graph.adjacency).tuples.tolist()}
            for c in (query.clauses(), theirs)
        ]
        assert answered[0] == answered[1]


class _Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("this must never run",)


def test_pickles_that_hold_code_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = betae_folder(tmp_path)
    (folder / "test-queries.pkl").write_bytes(pickle.dumps({("e", ("r",)): {1: _Harmful()}}))
    with pytest.raises(BadInput, match=r"builtins\.print, which is not data"):
        read_betae(folder)
    assert capsys.readouterr().out == ""
    (folder / "test-queries.pkl").write_bytes(b"not a pickle")
    with pytest.raises(BadInput, match="is not a BetaE file"):
        read_betae(folder)
    (folder / "test-queries.pkl").unlink()
    with pytest.raises(BadInput, match="there is no file"):
        read_betae(folder)
