"""Queries with variables that only attributes speak of, on a small store: all engines, against all tuples tried."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet
from tuplet.errors import BudgetExceeded
from tuplet.query import loose
from tuplet.store import Store

AGES = {"a": (30, 31), "b": (40,), "c": (), "d": (31,)}
FACTS = {("a", "r", "b"), ("b", "r", "c")}
PREDICTED = {("a", "r", "a"): 0.4, ("d", "r", "b"): 0.3}
ENGINES = ("exact", "ns3", "brute", "crisp")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("loose")
    lines = [f":{head} :{relation} :{tail} ." for head, relation, tail in sorted(FACTS)]
    lines += [f":{who} :age {age} ." for who in AGES for age in AGES[who]]
    (folder / "people.ttl").write_text("\n".join(["@prefix : <http://e/> .", *lines]))
    name = "http://e/{}".format
    columns = list(zip(*PREDICTED, strict=True))
    table = dict(zip(("head", "relation", "tail"), ([name(x) for x in column] for column in columns), strict=True))
    pq.write_table(pa.table({**table, "truth": list(PREDICTED.values())}), folder / "truth.parquet")
    graph = tuplet.read(folder / "people.ttl")
    return tuplet.index(graph, None, folder / "store", table=folder / "truth.parquet", progress=False)


def truth(head: str, tail: str, engine: str) -> float:
    if (head, "r", tail) in FACTS:
        return 1.0
    return PREDICTED.get((head, "r", tail), 0.0) if engine != "crisp" else 0.0


def answers(store: Store, query: str, engine: str, **limits: object) -> dict[tuple[object, ...], float]:
    prefixed = f"PREFIX : <http://e/> {query}"
    found = store.ask(prefixed, engine=engine, **{"k": "all", **limits})  # type: ignore[arg-type]
    return {tuple(str(cell).removeprefix("http://e/") for cell in answer): answer.truth for answer in found}


def kept(values: dict[tuple[object, ...], float]) -> dict[tuple[object, ...], object]:
    return {row: pytest.approx(value) for row, value in values.items() if value > 0}


@pytest.mark.parametrize("engine", ENGINES)
def test_attributes_alone(store: Store, engine: str) -> None:
    found = answers(store, "SELECT ?x ?a { ?x :age ?a FILTER(?a > 30) }", engine)
    assert found == kept({(who, str(age)): 1.0 for who in AGES for age in AGES[who] if age > 30})
    pairs = answers(store, "SELECT ?x ?y { ?x :age ?a . ?y :age ?b FILTER(?a < ?b) }", engine)
    assert pairs == kept(
        {(x, y): 1.0 for x, y in itertools.product(AGES, repeat=2) if any(a < b for a in AGES[x] for b in AGES[y])}
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_beside_facts(store: Store, engine: str) -> None:
    found = answers(store, "SELECT ?x ?z { ?x :r :b . ?z :age ?a FILTER(?a > 30) }", engine)
    older = [who for who in AGES if any(age > 30 for age in AGES[who])]
    assert found == kept({(x, z): truth(x, "b", engine) for x in AGES for z in older})
    exists = answers(store, "SELECT ?x { ?x :r :b . ?z :age ?a FILTER(?a > 30) }", engine)
    assert exists == kept({(x,): truth(x, "b", engine) for x in AGES})
    assert answers(store, "SELECT ?x { ?x :r :b . ?z :age ?a FILTER(?a > 99) }", engine) == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_with_negated_facts_and_other_alternatives(store: Store, engine: str) -> None:
    found = answers(store, "SELECT ?x { ?x :age ?a FILTER NOT EXISTS { ?x :r :b } }", engine)
    assert found == kept({(x,): 1 - truth(x, "b", engine) for x in AGES if AGES[x]})
    either = answers(store, "SELECT ?x { { ?x :age 40 } UNION { ?x :r :b } UNION { ?x :r :a } }", engine)

    def one(x: str) -> float:
        parts = [float(40 in AGES[x]), truth(x, "b", engine), truth(x, "a", engine)]
        missing = 1.0
        for part in parts:
            missing *= 1 - part
        return 1 - missing

    assert either == kept({(x,): one(x) for x in AGES})


def test_facts_alone_give_nothing_beyond_themselves(store: Store) -> None:
    for query in (
        "SELECT ?x ?y { ?x :r ?z . ?y :age ?a FILTER(?a > 30) }",
        "SELECT ?x { { ?x :r :b } UNION { ?x :age ?a FILTER(?a > 30) } }",
    ):
        assert answers(store, query, "crisp")
        assert answers(store, query, "crisp", only="predicted") == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_joined_by_a_value(store: Store, engine: str) -> None:
    query = "SELECT ?x ?z { ?x :r ?y . ?x :age ?a . ?z :age ?a FILTER(?x != ?z) }"
    best = {x: max(truth(x, y, engine) for y in AGES) for x in AGES}
    same = [(x, z) for x in AGES for z in AGES if x != z and set(AGES[x]) & set(AGES[z])]
    assert answers(store, query, engine) == kept({(x, z): best[x] for x, z in same})
    stated = {(x, z): best[x] for x, z in same if best[x] == 1}
    assert answers(store, query, engine, only="observed") == kept(stated)
    if engine != "crisp":
        assert answers(store, query, engine, only="predicted") == kept(
            {(x, z): best[x] for x, z in same if best[x] < 1}
        )


def test_the_first_tuples_and_what_they_rest_on(store: Store) -> None:
    whole = store.ask("PREFIX : <http://e/> SELECT ?x ?z { ?x :r :b . ?z :age ?a }", k="all")
    for k in range(1, len(whole) + 1):
        some = store.ask("PREFIX : <http://e/> SELECT ?x ?z { ?x :r :b . ?z :age ?a }", k=k)
        assert [tuple(answer) for answer in some] == [tuple(answer) for answer in whole][:k]
    assert [answer.status for answer in whole] == ["observed"] * 3 + ["predicted"] * 3
    alone = store.ask("PREFIX : <http://e/> SELECT ?x { ?x :age ?a }", k="all")
    assert {answer.status for answer in alone} == {"observed"}


def test_given_tuples_and_plans(store: Store) -> None:
    query = "PREFIX : <http://e/> SELECT ?x ?z { ?x :r :b . ?z :age ?a }"
    given = [("http://e/d", "http://e/b"), ("http://e/a", "http://e/c"), ("http://e/a", "http://e/d")]
    assert store.score(query, given) == pytest.approx([0.3, 0, 1])
    explained = store.explain(query, given)
    assert [answer.truth for answer in explained] == pytest.approx([0.3, 0, 1])
    assert [len(answer.witness) for answer in explained] == [1, 0, 1]
    assert "list    ?z by conditions alone" in store.plan(query)
    assert "list    ?x by conditions alone" in store.plan("?x : ?x.age > 30")


def test_too_many_are_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loose, "MOST", 8)
    with pytest.raises(BudgetExceeded, match="9 tuples of variables that no atom joins, at most 8"):
        answers(store, "SELECT ?x ?y { ?x :age ?a . ?y :age ?b }", "exact")
