"""What a new user is told: a text that is no query, SQL, `?x.year` in SPARQL, values that do not compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet
from tuplet.errors import BadInput, ParseError
from tuplet.store import Graph

ORDERS = "order,customer,price\n1,ann,9.5\n2,bob,3\n3,ann,about 5\n4,cid,7\n"


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    path: Path = tmp_path_factory.mktemp("orders") / "orders.csv"
    path.write_text(ORDERS)
    return tuplet.read(path, columns="id=order,relation=customer,attribute=price")


EXAMPLE = "write for example ?x : customer(?x, ann) or SELECT ?x WHERE { ?x :customer :ann }"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("what did ann buy?", f"this is not a query; {EXAMPLE}"),
        ("SELECT customer FROM orders WHERE price > 3", f"this is SQL, which is not read here; {EXAMPLE}"),
        ("select * from orders", f"this is SQL, which is not read here; {EXAMPLE}"),
        (
            "SELECT ?x { ?x :customer ?c FILTER(?x.price > 3) }",
            "?x.price is how logic text writes an attribute; in SPARQL it is a pattern, ?x :price ?price",
        ),
        ("SELECT ?x { ?x :customer ?c.FILTR(?x = 1) }", "?c.FILTR is how"),
        ("SELECT ?x { ?x :customer ?c.FILTER(?x ! 1) }", "expected a comparison"),
        ("SELECT ?x FROM <g> { ?x :customer ?c }", "FROM is not supported"),
        (
            "?x : customer(?x, ann lee)",
            "expected ')' after the two terms of an atom, found 'lee';"
            " a name with spaces is written in brackets: <ann lee>",
        ),
        (
            "?x : sold to(?x, ann)",
            "expected '(' after the relation 'sold', found 'to'; a name with spaces is written in brackets: <sold to>",
        ),
    ],
)
def test_what_is_meant_is_said(orders: Graph, query: str, message: str) -> None:
    with pytest.raises(ParseError) as error:
        orders.ask(query)
    assert str(error.value).startswith(message)


def test_an_attribute_of_facts_is_not_one_of_entities() -> None:
    table = pa.table({"head": ["ann", "bob"], "relation": ["buys"] * 2, "tail": ["tea"] * 2, "price": [3.0, 4.0]})
    graph = tuplet.read(table, columns="head=head,relation=relation,tail=tail,attribute=price")
    answers = graph.ask("?x : buys(?x, tea) & ?x.price > 1")
    assert len(answers) == 0
    assert "price is an attribute of facts of buys, not of entities; in logic text: buys(?x, ?y).price" in str(answers)
    assert len(graph.ask("?x : buys(?x, tea) & buys(?x, tea).price > 3.5")) == 1
    assert "attribute of facts" not in str(graph.ask("?x : buys(?x, tea) & buys(?x, tea).price > 3.5"))


def test_a_filter_on_mixed_values_repeats_the_doubt(orders: Graph) -> None:
    doubt = "1 of the 4 values of price are texts, such as 'about 5', which do not compare with numbers"
    for query in ("?x : customer(?x, ann) & ?x.price > 3", "SELECT ?x { ?x :price ?p FILTER(?p > 3) }"):
        answers = orders.ask(query)
        assert answers[0]["x"] == "1"
        assert answers.about["hints"] == [doubt]
        assert doubt in answers.summary()
    assert "hints" not in orders.ask("?x : customer(?x, ann)").about


def test_a_count_is_one_row_which_a_limit_may_leave_out(orders: Graph) -> None:
    query = "SELECT (COUNT(*) AS ?n) { ?x :customer ?y }"
    assert orders.ask(query).number is not None
    for nothing in ("LIMIT 0", "OFFSET 1"):
        answers = orders.ask(f"{query} {nothing}")
        assert (len(answers), answers.variables, answers.number) == (0, ("n",), None)
        assert answers.to_arrow().column_names == ["n", "truth", "status"]


def test_thresholds_above_one_are_refused(orders: Graph) -> None:
    assert orders.ask("ask ?x : customer(?x, ann)", ask_threshold=1.0).holds
    with pytest.raises(BadInput, match=r"^ask_threshold must be a share between 0 and 1, such as 0\.9, not 1\.5$"):
        orders.ask("ask ?x : customer(?x, ann)", ask_threshold=1.5)


def test_without_labels_there_is_no_column_for_them(orders: Graph) -> None:
    assert list(orders.ask("?x : customer(?x, ann)").to_pandas()) == ["x", "truth", "status"]


def test_all_facts_of_an_entity_are_counted() -> None:
    graph = tuplet.read([*(("a", "knows", f"b{i}") for i in range(15)), ("a", "knows", "a"), ("c", "likes", "a")])
    store = tuplet.Store(tuplet.Source(graph))
    assert store.entity("a", k=5).title.startswith("a: 17 facts, 0 predictions (shown are 5 of each at most")
    assert store.entity("c").title == "c: 1 fact, 0 predictions"


def test_a_file_of_another_kind_is_not_suggested(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text(ORDERS)
    (tmp_path / "europe.store").mkdir()
    with pytest.raises(BadInput) as error:
        tuplet.open(tmp_path / "shop.store")
    assert "did you mean" not in str(error.value)
    with pytest.raises(BadInput, match=r"did you mean .*shop\.csv"):
        tuplet.read(tmp_path / "shpo.csv")


def test_an_empty_cell_has_shares_of_what_may_be_in_it(tmp_path: Path) -> None:
    towns = {"lyon": "france", "rome": "italy"}
    people = [(f"p{i}", "lives_in", list(towns)[i % 2]) for i in range(40)]
    facts = [*people, *((who, "from", towns[town]) for who, _, town in people[2:])]
    guesses = {"head": ["p0"] * 2, "relation": ["from"] * 2, "tail": ["france", "italy"], "truth": [0.12, 0.03]}
    pq.write_table(pa.table(guesses), tmp_path / "guesses.parquet")
    given = tuplet.index(tuplet.read(facts), None, tmp_path / "s", table=tmp_path / "guesses.parquet", progress=False)
    assert given.source.origin is not None
    source = replace(given.source, origin=replace(given.source.origin, calibrated=True))
    store = tuplet.Store(source)
    cell = "each head of from has one tail in the facts, p0 has none; if there is one, it is france 80 %, italy 20 %"
    assert store.ask("?x : from(p0, ?x)").about["hints"] == [cell]
    assert "hints" not in store.ask("?x : from(p3, ?x)").about  # it is stated
    assert store.ask("?x : from(p0, ?x)", engine="crisp").about["hints"] == ["as head of from, p0 was never seen"]
    assert store.ask("?x : from(p1, ?x)").about["hints"] == ["as head of from, p1 was never seen"]  # no prediction
    plain = given.ask("?x : from(p0, ?x)")  # truth that nothing is known about has no shares
    assert plain.about["hints"] == ["as head of from, p0 was never seen"]
