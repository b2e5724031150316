"""`tuplet guarantee` and what `ask` makes of it: sets are what the oracle says, and every refusal is one line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import tuplet
from tuplet.cli.commands import main
from tuplet.engines import brute
from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.bench.held_out import everything, guarantee, learn, rank_held_out
from tuplet.lab.bench.queries import BenchQuery, QuerySet, write
from tuplet.lab.bench.sampling import sample
from tuplet.query.guarantees import SCALE
from tuplet.query.ranking import query_shape
from tuplet.query.source import Source
from tuplet.truth.edges import observed_facts
from tuplet.truth.table import TruthTable

SHAPES = ["1p", "2fp", "2fpn"]


@pytest.fixture(scope="module")
def queries(graph: KnowledgeGraph) -> QuerySet:
    return sample(graph, SHAPES, 25, seed=2)


@pytest.fixture(scope="module")
def promising(store: Path, queries: QuerySet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store with what the queries show."""
    path = tmp_path_factory.mktemp("guarantee") / "store"
    shutil.copytree(store, path)
    guarantee(path, queries)
    return path


def ask(store: tuplet.Store, query: BenchQuery, **limits: float) -> tuplet.Answers:
    return store.ask(query.formula, grounding=query.grounding, **limits)  # type: ignore[arg-type]


def beyond(query: BenchQuery, source: Source) -> tuple[np.ndarray, np.ndarray]:
    """All tuples beyond the facts with their truth, by the oracle."""
    sizes = len(source.graph.entities), len(source.graph.relations)
    known = TruthTable.assemble(*sizes, observed_facts(source.graph, ("train", "valid")))
    space = np.array(list(product(range(sizes[0]), repeat=query.k)), dtype=np.int32)
    truth = brute.score(query.clauses(), source.values(), space)
    truth[brute.score(query.clauses(), known, space) > 0] = 0
    return space, truth


def test_scores_are_those_of_the_oracle(source: Source, queries: QuerySet) -> None:
    found = rank_held_out(source, everything(source), queries, 40)
    held = learn(queries, source).shapes
    seen: dict[str, list[float]] = {}
    for query, one in zip(queries, found, strict=True):
        space, truth = beyond(query, source)
        best = np.sort(truth)[::-1]
        where = {tuple(row): i for i, row in enumerate(space.tolist())}
        hidden = truth[[where[tuple(row)] for row in query.hard.tolist()]]
        assert one.hidden == pytest.approx(hidden)
        assert one.truth == pytest.approx(best[:40][best[:40] > 0])
        seen.setdefault(query_shape(query.clauses()) or "", []).extend(hidden / best[:SCALE].sum())
        for place, value in zip(one.place, one.hidden, strict=True):
            assert np.isinf(place) or one.truth[int(place) - 1] == pytest.approx(value)
    assert seen.keys() == held.keys()
    for shape, scores in seen.items():
        assert np.sort(held[shape].scores) == pytest.approx(np.sort(scores))


@pytest.mark.parametrize("confidence", [0.3, 0.6, 0.8])
def test_a_set_is_all_that_scores_enough(promising: Path, queries: QuerySet, confidence: float) -> None:
    store = tuplet.open(promising)
    held = store.source.guarantees
    assert held is not None
    for query in queries.queries[::10]:
        answers, (_, truth) = ask(store, query, confidence=confidence), beyond(query, store.source)
        shape = held.shapes[query_shape(query.clauses()) or ""]
        level = shape.level(confidence)
        told = answers.guarantee
        assert told is not None
        assert (told.ground, told.everything) == ("shape", level is None)
        assert told.promised == (level is not None)
        level = level or shape.drop_unreached().level(confidence)
        assert level is not None
        scores = truth / np.sort(truth)[::-1][:SCALE].sum()
        assert len(answers) == np.count_nonzero(scores >= level * (1 - 1e-12))
        assert told.complete
        assert set(answers.to_arrow()["status"].to_pylist()) <= {"predicted", "mixed"}


def test_a_surer_set_holds_the_other(promising: Path, queries: QuerySet) -> None:
    store, query = tuplet.open(promising), queries.queries[30]
    sizes = [len(ask(store, query, confidence=share)) for share in (0.2, 0.4, 0.6, 0.7)]
    assert sizes == sorted(sizes)
    assert sizes[-1] > 1
    cut = ask(store, query, confidence=0.7, k=1)
    assert cut.guarantee is not None
    assert not cut.guarantee.complete
    assert not cut.guarantee.promised
    assert "was cut" in cut.summary()


def test_nothing_is_promised_of_an_empty_set(promising: Path, queries: QuerySet) -> None:
    store, query = tuplet.open(promising), queries.queries[0]
    held = store.source.guarantees
    assert held is not None
    name = query_shape(query.clauses()) or ""
    poor = replace(held.shapes[name], scores=held.shapes[name].scores * 0)  # the table reaches no hidden answer
    poorer = tuplet.Store(replace(store.source, guarantees=replace(held, shapes={**held.shapes, name: poor})))
    with pytest.raises(BadInput, match="too few held-out answers of 1p have any truth"):
        ask(poorer, query, confidence=0.6)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.6])
def test_a_list_has_no_more_falsehood_than_asked(promising: Path, queries: QuerySet, share: float) -> None:
    store = tuplet.open(promising)
    for query in queries.queries[::15]:
        answers, truth = ask(store, query, max_false=share), np.sort(beyond(query, store.source)[1])[::-1]
        truth = truth[truth > 0]
        means = np.cumsum(1 - truth) / np.arange(1, len(truth) + 1)
        assert len(answers) == np.count_nonzero(means <= share + 1e-12)
        told = answers.guarantee
        assert told is not None
        assert not told.promised, "nothing was held out that would bear it out"
        assert "not promised: by their truth alone" in answers.summary()


def test_shapes_that_were_not_held_out_borrow_or_are_refused(promising: Path) -> None:
    store = tuplet.open(promising)
    borrowed = store.ask("?x, ?y : exists ?z . <relation 0>(?x, ?z) & <relation 1>(?z, ?y)", confidence=0.5).guarantee
    assert borrowed is not None
    assert (borrowed.ground, borrowed.shape, borrowed.promised) == ("family", "2fp", False)
    for told in (borrowed, replace(borrowed, everything=True), replace(borrowed, complete=False)):
        assert told.words().startswith("not guaranteed, its shape was not held out: ")
        assert told.words().endswith(" (by the most cautious of other shapes, 2fp)")
    with pytest.raises(BadInput, match=r"no ground for this query \(3 free variables, no negation\)"):
        store.ask("?x, ?y, ?z : <relation 0>(?x, ?z) & <relation 1>(?z, ?y)", confidence=0.5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--confidence", "1.5"], "--confidence must be a share between 0 and 1, such as 0.9, not 1.5"),
        (["--max-false", "1.5"], "--max-false must be a share between 0 and 1, such as 0.1, not 1.5"),
        (["--confidence", "0.9", "--max-false", "0.1"], "give either --confidence or --max-false, not both"),
        (["--confidence", "0.9", "--only", "observed"], "not with --only observed"),
        (["--max-false", "0.1", "--logic", "godel"], "not with --logic godel"),
        (["--max-false", "0.1", "--offset", "5"], "a list from its first tuple on; leave out --offset"),
        (["--max-false", "0.1", "--engine", "ns3"], "ask engine 'exact', not 'ns3'"),
        (["--confidence", "0.9"], "tuplet bench sample, then tuplet guarantee STORE QUERIES"),
    ],
)
def test_refusals_are_one_line(store: Path, given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", str(store), "?x : <relation 0>(?x, <entity 1>)", *given]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_the_command_keeps_what_it_learns(
    store: Path, graph: KnowledgeGraph, queries: QuerySet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = tmp_path / "s", tmp_path / "q.parquet"
    shutil.copytree(store, path)
    write(queries, file, graph)
    assert main(["guarantee", str(path), str(file), "--per-shape", "12", "--quiet"]) == 0
    assert "12 queries" in capsys.readouterr().out
    assert main(["ask", str(path), "?x : <relation 0>(?x, <entity 1>)", "--confidence", "0.6"]) == 0
    assert "held-out queries" in capsys.readouterr().out
    opened = tuplet.open(path)
    assert opened.info()["guarantees"] == dict.fromkeys(SHAPES, 12)
    assert opened.generation == 2
    opened.add([("entity 1", "relation 0", "entity 2")])
    assert opened.source.guarantees is not None, "an edit keeps it"


def wrong_known(queries: QuerySet) -> QuerySet:
    return QuerySet(queries.queries, {**queries.meta, "known": ["train"]})


def other_graph(queries: QuerySet) -> QuerySet:
    return QuerySet(queries.queries, {**queries.meta, "graph": "f" * 64})


@pytest.mark.parametrize(
    ("change", "said"), [(wrong_known, "take train for known, the store observes train,valid"), (other_graph, "graph")]
)
def test_queries_of_something_else_are_refused(
    promising: Path, queries: QuerySet, change: Callable[[QuerySet], QuerySet], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        guarantee(promising, change(queries))
