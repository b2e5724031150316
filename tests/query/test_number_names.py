"""Names that are numbers: a bare number is the name that is spelt so; numbers of the dataset are said with @."""

from __future__ import annotations

import pytest

import tuplet
from tuplet.errors import UnknownName
from tuplet.lang.parse import parse
from tuplet.lang.print import to_logic, to_sparql
from tuplet.lang.print_cypher import to_cypher
from tuplet.store import Graph

# Numbered in the order of names: 00010300, 007, 1, 3, 7, 9, egg, ham, tea; and 3, buys. So number 1 is customer 007.
FACTS = """head,relation,tail
9,buys,ham
3,buys,egg
1,buys,tea
007,buys,00010300
7,buys,tea
007,3,7
1,3,9
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    path = tmp_path_factory.mktemp("shop") / "shop.csv"
    path.write_text(FACTS)
    return tuplet.read(path)


def found(shop: Graph, query: str) -> set[str]:
    answers = shop.ask(query, k="all")
    return {" ".join(str(answer[name]) for name in answers.variables) for answer in answers}


ASKED = [
    ("?x : buys(1, ?x)", "tea"),
    ("?x : buys(3, ?x)", "egg"),
    ("?x : buys(007, ?x)", "00010300"),
    ("?x : buys(7, ?x)", "tea"),
    ("?x : buys(?x, 00010300)", "007"),
    ("?x : 3(?x, 7)", "007"),
    ("?x : :3(<1>, ?x)", "9"),
    ("?x : buys(?x, tea) & ?x != 7", "1"),
    ("?x : buys(?x, tea) & ?x = 7", "7"),
    ("?x : buys(?x, tea) & 1 = ?x", "1"),
    ("?x : buys(?x, tea) & ?x in {007, 1}", "1"),
    ("?x : buys(?x, tea) & ?x not in {1}", "7"),
    ("SELECT ?x { 1 :buys ?x }", "tea"),
    ("SELECT ?x { 007 3 ?x }", "7"),
    ("SELECT ?x { ?x :3 9 }", "1"),
    ("SELECT ?x { ?x :buys :tea FILTER(?x != 7) }", "1"),
    ("SELECT ?x { ?x :buys :tea FILTER(?x IN (1, 007)) }", "1"),
    ("MATCH (a)-[:buys]->(x) WHERE id(a) = 007 RETURN x", "00010300"),
    ("MATCH (a)-[:buys]->(x) WHERE id(a) = '1' RETURN x", "tea"),
    ("MATCH (a)-[:`3`]->(x) WHERE id(a) IN [1, 3] RETURN x", "9"),
    ("?x : @1(@5, ?x)", "ham"),
    ("SELECT ?x { @5 @1 ?x }", "ham"),
    ("?x : buys(?x, tea) & ?x = @2", "1"),
]


@pytest.mark.parametrize(("query", "expected"), ASKED)
def test_the_name_that_is_spelt_so_is_meant(shop: Graph, query: str, expected: str) -> None:
    assert found(shop, query) == set(expected.split())


@pytest.mark.parametrize(("query", "expected"), ASKED)
@pytest.mark.parametrize("printed", [to_logic, to_sparql, to_cypher])
def test_translations_mean_the_same(shop: Graph, query: str, expected: str, printed) -> None:  # type: ignore[no-untyped-def]
    if printed is to_cypher and ("@" in query or "1 =" in query):
        return  # Cypher has no numbers of the dataset, and no entity on the left
    assert found(shop, printed(parse(query))) == set(expected.split())


def test_benchmark_queries_keep_their_numbers(shop: Graph) -> None:
    query = parse("r1(s1,f1)", {"r1": 2, "s1": 5})
    assert {answer["f1"] for answer in shop.ask(query)} == {"ham"}
    assert to_logic(query) == "?f1 : @1(@5, ?f1)"
    assert parse(to_logic(query)) == query
    assert {answer["f1"] for answer in shop.ask(parse("r1(s1,f1)", {"r1": "buys", "s1": "007"}))} == {"00010300"}
    assert found(shop, "(5, (2,))") == {"ham"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?x : buys(4, ?x)", "entity '4' is not the name of any; number 4 of the dataset is written @4"),
        ("?x : 1(?x, ?x)", "relation '1' is not the name of any; number 1 of the dataset is written @1; choose"),
        ("?x : buys(0007, ?x)", "unknown entity '0007'; did you mean '007'"),
        ("?x : buys(@7000, ?x)", "entity number '@7000' does not exist (there are"),
        ("?x : buys(@4, ?x) & ?x = 17", "unknown entity '17'; did you mean '1' or '7'?"),
    ],
)
def test_a_number_that_names_nothing_is_not_another_entity(shop: Graph, query: str, message: str) -> None:
    with pytest.raises(UnknownName) as caught:
        shop.ask(query)
    assert str(caught.value).startswith(message)
