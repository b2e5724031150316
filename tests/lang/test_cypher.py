"""Cypher: the same trees as logic text, and errors that name what is not there."""

from __future__ import annotations

import datetime

import pytest

from tuplet.errors import BadInput, BudgetExceeded, ParseError, Unsupported
from tuplet.lang.ast import (
    Among,
    And,
    Atom,
    Attribute,
    Column,
    Compare,
    Constant,
    Different,
    Exists,
    Formula,
    Free,
    Has,
    Name,
    Or,
    Order,
    Same,
    Value,
)
from tuplet.lang.cypher import parse_cypher
from tuplet.lang.parse import language, parse
from tuplet.lang.print import to_sparql


def body(text: str, **parameters: object) -> Formula:
    return parse(text, parameters=parameters).body


def age(node: str = "x", name: str = "age") -> Attribute:
    return Attribute(Free(node), Name(name))


@pytest.mark.parametrize(
    ("cypher", "logic"),
    [
        ("MATCH (x)-[:r]->(y) RETURN x, y", "?x, ?y : r(?x, ?y)"),
        ("MATCH (x)<-[:r]-(y) RETURN x, y", "?x, ?y : r(?y, ?x)"),
        ("MATCH (x)-[:r]-(y) RETURN x, y", "?x, ?y : r(?x, ?y) | r(?y, ?x)"),
        ("MATCH (x)<-[:r]->(y) RETURN x, y", "?x, ?y : r(?x, ?y) | r(?y, ?x)"),
        ("MATCH (x)-[:r|s|:r]->(y) RETURN x", "?x : exists ?y . r(?x, ?y) | s(?x, ?y)"),
        ("MATCH (x:A:B) RETURN x", "?x : type(?x, A) & type(?x, B)"),
        ("MATCH (x:A|B) RETURN x", "?x : type(?x, A) | type(?x, B)"),
        ("MATCH (x) RETURN x", "?x : exists ?_1 . type(?x, ?_1)"),
        ("MATCH (x), (y:A) WHERE x <> y RETURN x", "?x : exists ?y, ?_1 . type(?x, ?_1) & type(?y, A) & ?x != ?y"),
        ("MATCH (x)-[:r]->()-[:s]->(y) RETURN x, y", "?x, ?y : exists ?_1 . r(?x, ?_1) & s(?_1, ?y)"),
        ("MATCH (x)-[:r]->(y)<-[:r]-(z) RETURN x", "?x : exists ?y, ?z . r(?x, ?y) & r(?z, ?y) & ?x != ?z"),
        ("MATCH (x)-[:r]->(y) MATCH (y)<-[:r]-(z) RETURN x", "?x : exists ?y, ?z . r(?x, ?y) & r(?z, ?y)"),
        ("MATCH (x)-[:r]->(y) WHERE NOT (y)-[:s]->(x) RETURN x", "?x : exists ?y . r(?x, ?y) & !s(?y, ?x)"),
        ("MATCH (x:A) WHERE (x)-[:s]->() RETURN x", "?x : exists ?_1 . type(?x, A) & s(?x, ?_1)"),
        ("MATCH (x:A) WHERE exists((x)-[:s]->(x)) RETURN x", "?x : type(?x, A) & s(?x, ?x)"),
        (
            "MATCH (x:A) WHERE EXISTS { MATCH (x)-[:s]->(:B) } RETURN x",
            "?x : exists ?_1 . type(?x, A) & s(?x, ?_1) & type(?_1, B)",
        ),
        (
            "MATCH (x:A) WHERE NOT x:B XOR x:C RETURN x",
            "?x : type(?x, A) & (!type(?x, B) & !type(?x, C) | type(?x, B) & type(?x, C))",
        ),
        ("MATCH (x:A) WHERE 1 = 1 AND (x:B OR 'a' > 'b') RETURN x LIMIT 3;", "?x : type(?x, A) & type(?x, B) limit 3"),
        ("MATCH (x)-[:r]->(y) RETURN x UNION MATCH (x:A) RETURN x", "?x : exists ?y . r(?x, ?y) | type(?x, A)"),
        (
            "MATCH (x)-[:`has part`]->(`y z`:`A``B`) // all\n/* parts */ RETURN x",
            "?x : exists ?y . <has part>(?x, ?y) & type(?y, <A`B>)",
        ),
        ("match (x)-[:r*2]->(y) return x", "?x : exists ?y, ?_1 . r(?x, ?_1) & r(?_1, ?y)"),
    ],
)
def test_is_the_same_as_logic_text(cypher: str, logic: str) -> None:
    found, expected = parse(cypher), parse(logic)
    assert found.free == expected.free
    assert found.limit == expected.limit
    assert not found.shown
    if "`y z`" in cypher:
        assert repr(found.body).replace("y_z", "y") == repr(expected.body)
    elif "*2" in cypher:
        facts, apart = found.body.parts[:2], found.body.parts[2]  # type: ignore[union-attr]
        assert And(facts) == expected.body
        first, last, between = Free("x"), Exists("y"), Exists("_1")
        assert apart == Or((Different(first, between), And((Same(first, between), Different(between, last)))))
    else:
        assert found.body == expected.body


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x.age > 30", Compare(">", age(), Value(30))),
        ("30 < x.age", Compare(">", age(), Value(30))),
        ("x.age <> -1.5", Compare("!=", age(), Value(-1.5))),
        ("1 <= x.age < 3", And((Compare(">=", age(), Value(1)), Compare("<", age(), Value(3))))),
        ("NOT x.age = 3", Compare("=", age(), Value(3), negated=True)),
        ("x.age", Compare("=", age(), Value(True))),
        ("x.age IN [1, 2.5, true, 'a', 1]", Among(age(), (Value(1), Value(2.5), Value(True), Value("a"), Value(1)))),
        ("x.age IN $list", Among(age(), (Value(1), Value("b")))),
        ("x.age = $one", Compare("=", age(), Value(7))),
        ("7 IN x.age", Compare("=", Attribute(Free("x"), Name("age"), "_1"), Value(7))),
        ("x.age IS NULL", Has(age(), negated=True)),
        ("x.age IS NOT NULL", Has(age())),
        ("exists(x.age)", Has(age())),
        ("x.age STARTS WITH 'a'", Compare("starts", age(), Value("a"))),
        ('x.age ends with "it\'s"', Compare("ends", age(), Value("it's"))),
        ("x.age CONTAINS 'a\\n\\u0041'", Compare("contains", age(), Value("a\nA"))),
        ("x.age =~ 'a.*'", Compare("matches", age(), Value("^(?:a.*)$"))),
        ("x.age =~ '(?i)a.*'", Compare("matches", age(), Value("(?i)^(?:a.*)$"))),
        ("x.age < date('2020-01-31')", Compare("<", age(), Value(datetime.date(2020, 1, 31)))),
        ("x.age = x.born", Compare("=", age(), age(name="born"))),
        ("id(x) = 'DB1'", Same(Free("x"), Constant(Name("DB1")))),
        ("elementId(x) <> 'DB1'", Different(Free("x"), Constant(Name("DB1")))),
        ("id(x) IN ['a', 'b']", Among(Free("x"), (Name("a"), Name("b")))),
        ("id(x) STARTS WITH 'DB'", Compare("starts", Free("x"), Value("DB"))),
    ],
)
def test_conditions(condition: str, expected: Formula) -> None:
    found = body(f"MATCH (x:A) WHERE {condition} RETURN x", list=[1, "b"], one=7)
    label = Atom(Name("type"), Free("x"), Constant(Name("A")))
    assert found == And((label, *(expected.parts if isinstance(expected, And) else (expected,))))


def test_properties_of_relationships_belong_to_the_fact() -> None:
    fact = Atom(Name("r"), Free("x"), Exists("y"))
    since = Attribute(fact, Name("since"))
    expected = And((fact, Compare(">", since, Value(2000))))
    assert body("MATCH (x)-[q:r]->(y) WHERE q.since > 2000 RETURN x") == expected
    assert body("MATCH (x)-[:r {since: 1}]->(y) RETURN x") == And((fact, Compare("=", since, Value(1))))
    back = Atom(Name("r"), Exists("y"), Free("x"))
    both = body("MATCH (x)-[q:r]-(y) WHERE q.since > 2000 RETURN x")
    alternatives = [And((f, Compare(">", Attribute(f, Name("since")), Value(2000)))) for f in (fact, back)]
    assert both == Or(tuple(alternatives))
    shown = parse("MATCH (x)-[q:r]->(y) RETURN q.since AS s ORDER BY s DESC, x.age")
    of = Atom(Name("r"), Free("x"), Free("y"))
    assert shown.free == (Free("x"), Free("y"))
    assert shown.shown == (Column("s", Attribute(of, Name("since")), optional=True),)
    assert shown.order == (Order("s", descending=True), Order(age()))


def test_a_relationship_without_a_type_is_a_variable_for_relations() -> None:
    query = parse("MATCH (x)-[p]->(y) WHERE type(p) IN ['r', 's'] RETURN x, p")
    variable = Name("p", "variable")
    assert query.shown == (Column("x", Free("x")), Column("p", variable))
    assert query.body == And(
        (
            Atom(variable, Free("x"), Free("y")),
            Different(Constant(variable), Constant(Name("type"))),
            Among(Constant(variable), (Name("r"), Name("s"))),
        )
    )
    one = parse("MATCH (x)-[p:r]->(y) WHERE type(p) = 'r' RETURN type(p) AS t")
    assert one.shown == (Column("t", variable),)
    assert one.body == And((Atom(variable, Free("x"), Free("y")), Among(Constant(variable), (Name("r"),))))
    several = parse("MATCH (x)-[p:r|s]->(y) RETURN p")
    relation = Constant(variable)
    assert several.body == And((Atom(variable, Free("x"), Free("y")), Among(relation, (Name("r"), Name("s")))))


def test_no_fact_is_used_twice() -> None:
    apart = body("MATCH (x)-->(y)-[:r]->(z) RETURN x, y, z").parts[-1]  # type: ignore[union-attr]
    p, r, x, y, z = Constant(Name("_1", "variable")), Constant(Name("r")), Free("x"), Free("y"), Free("z")
    assert apart == Or(
        (Different(x, y), And((Same(x, y), Different(y, z))), And((Same(x, y), Same(y, z), Different(p, r))))
    )
    several = body("MATCH (x)-[:r]->(y)-[:r]->(z)-[:r]->(w) RETURN x").parts[-1]  # type: ignore[union-attr]
    assert len(several.parts) == 4  # and not 8: y = z says that x = y settles both
    never = body("MATCH (x)-[:r]->(y), (x)-[:r]->(y) RETURN x")
    assert never.parts[-1] == Different(Free("x"), Free("x"))  # type: ignore[union-attr]
    with pytest.raises(BudgetExceeded, match="128 ways to choose directions"):
        parse("MATCH (a)" + "--()" * 7 + " RETURN a")


def test_what_is_returned() -> None:
    query = parse("MATCH (x:A)-[:r]->(y) RETURN DISTINCT x AS who, x.age, id(y) SKIP 2 LIMIT $n", parameters={"n": 5})
    assert (query.offset, query.limit) == (2, 5)
    attribute = Column("x.age", age(), optional=True)
    assert query.shown == (Column("who", Free("x")), attribute, Column("id(y)", Free("y")))
    every = parse("MATCH (y)-[p:r]->(x) RETURN *")
    assert [column.name for column in every.shown] == ["y", "x", "p"]
    ordered = parse("MATCH (x:A) RETURN x ORDER BY truth DESC, x.age ASC, x")
    assert ordered.order == (Order("truth", descending=True), Order(age()), Order("x"))


def test_counts() -> None:
    query = parse("MATCH (x)-[:r]->() RETURN count(*) AS n")
    assert (query.form, query.counted, query.free) == ("count", "n", (Free("x"), Free("_1")))
    one = parse("MATCH (x)-[:r]->(y) RETURN count(DISTINCT y)")
    assert (one.counted, one.free) == ("count(DISTINCT y)", (Free("y"),))
    types = parse("MATCH (x)-[q]->(y) RETURN count(*) AS n")
    assert types.shown[2:] == (Column("q", Name("q", "variable")),)
    has = parse("MATCH (x:A) RETURN count( x.age )")
    assert has.counted == "count( x.age )"
    assert has.body == And((Atom(Name("type"), Free("x"), Constant(Name("A"))), Has(age())))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MATCH (x)-[:r*]->(y) RETURN x", "paths of variable length are not supported"),
        ("MATCH (x)-[:r*1..2]->(y) RETURN x", "paths of variable length are not supported"),
        ("OPTIONAL MATCH (x) RETURN x", "OPTIONAL MATCH is not supported"),
        ("MATCH (x) OPTIONAL MATCH (x)-->(y) RETURN x", "OPTIONAL MATCH is not supported"),
        ("MATCH p = (x)-->(y) RETURN p", "paths are no values here"),
        ("MATCH (x) WITH x RETURN x", "WITH is not supported"),
        ("RETURN 1", "RETURN without MATCH is not supported"),
        ("UNWIND [1] AS x RETURN x", "UNWIND is not supported"),
        ("CREATE (x) RETURN x", "CREATE is not supported; queries only read"),
        ("MATCH (x) DELETE x", "DELETE is not supported"),
        ("MATCH (x) DETACH DELETE x", "DETACH is not supported"),
        ("MATCH (x) SET x.a = 1", "SET is not supported"),
        ("MATCH (x) CALL foo() RETURN x", "CALL is not supported"),
        ("MATCH (x) RETURN x UNION ALL MATCH (x) RETURN x", "UNION ALL is not supported"),
        ("MATCH (x) WHERE NOT (x)-[:r]->() RETURN x", "only facts of a named type between variables"),
        ("MATCH (x)-[:s]->(y) WHERE NOT (x)-->(y) RETURN x", "only facts of a named type between variables"),
        ("MATCH (x) WHERE x.a + 1 > 2 RETURN x", "arithmetic is not supported"),
        ("MATCH (x) WHERE size(x.a) > 2 RETURN x", r"the function size\(\) is not supported"),
        ("MATCH (x) WHERE count(x) > 2 RETURN x", r"count\(\) is not supported here"),
        ("MATCH (x) RETURN x, count(*)", "counts by group are not supported"),
        ("MATCH (x) RETURN x.a + 1", "not supported in RETURN"),
        ("MATCH (x) RETURN labels(x)", r"the function labels\(\) is not supported"),
        ("MATCH (x) RETURN [x]", "no other expressions"),
        ("MATCH (x)-[q]-(y) RETURN q.since", "without a direction"),
        ("MATCH (x)-->(y) WHERE x = 'a' RETURN y", r"write \(x \{name: 'a'\}\) in MATCH, or id\(x\) = 'a'"),
        ("MATCH (x)-->(y) WHERE 'a' <> x RETURN y", r"a node is no value; write id\(x\) <> 'a'"),
    ],
)
def test_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MATCH (x) RETURN y", "the variable y is not defined"),
        ("MATCH (drug) RETURN drgu", "did you mean drug"),
        ("MATCH (x)-[x]->(y) RETURN x", "x is a node, it cannot be a relationship"),
        ("MATCH ()-[r]->(r) RETURN r", "r is a relationship, it cannot be a node"),
        ("MATCH (x)-[r]->()-[r]->(x) RETURN r", "name it once"),
        ("MATCH (x $p) RETURN x", "cannot stand for all properties"),
        ("MATCH (x {a: $p}) RETURN x", r"the parameter \$p has no value"),
        ("MATCH (x) RETURN x LIMIT -1", "LIMIT takes a whole number, not below 0"),
        ("MATCH (x) RETURN x SKIP 1.5", "SKIP takes a whole number"),
        ("MATCH (x) RETURN x SKIP x.a", "SKIP takes a whole number"),
        ("MATCH (x) WHERE x.a = null RETURN x", "write IS NULL"),
        ("MATCH (x) WHERE (x)-[:r]->(y) RETURN x", "names no new variables"),
        ("MATCH (x) RETUN x", "expected RETURN, found 'RETUN'; did you mean RETURN"),
        ("MATCH (x RETURN x", r"expected '\)' after a node"),
        ("MATCH (x {a: 'b}) RETURN x", "this ' is never closed"),
        ("MATCH (x) WHERE x.a =~ '(' RETURN x", "is no regular expression"),
        ("MATCH (x) WHERE x.a != 3 RETURN x", "written <>"),
        ("MATCH (x) RETURN x.a AS b, x AS b", "two columns are called b"),
        ("MATCH () RETURN *", "but they have none"),
        ("MATCH (x) RETURN DISTINCT x.a ORDER BY y.b", "the variable y is not defined"),
        ("MATCH (x)-->(y) RETURN DISTINCT x.a ORDER BY y.b", "after DISTINCT"),
    ],
)
def test_mistakes_have_a_caret(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse(text)
    assert "^" in str(caught.value)


def test_parameters_beside_other_languages_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"write \(x \{name: \$who\}\) in MATCH"):
        body("MATCH (x)-[:r]->(y) WHERE x = $who RETURN y", who="a")
    for text in ("?x : r(?x, a)", "SELECT ?x { ?x :r :a }"):
        with pytest.raises(BadInput, match="parameters are for Cypher"):
            body(text, who="a")
        assert body(text)


def test_languages_are_told_apart() -> None:
    for text in ("MATCH (x) RETURN x", " // hi\nmatch(x)return x", "OPTIONAL MATCH (x) RETURN x", "RETURN 1"):
        assert language(text) == "cypher"
    for text in ("WITH <g> DELETE { }", "SELECT ?x { ?x :MATCH ?y }"):
        assert language(text) == "sparql"
    assert language("?x : MATCH(?x, ?y)") == "logic"
    assert parse_cypher("MATCH (x:A) RETURN x") == parse("MATCH (x:A) RETURN x")


def test_values_that_are_compared_and_shown_are_no_option_in_sparql() -> None:
    shown = to_sparql(parse("MATCH (x)-[:IN]->(y) WHERE x.size > 5 RETURN x.size AS size"))
    assert shown == "SELECT ?size WHERE { ?x :IN ?y . ?x :size ?size . FILTER(?size > 5) }"
    parse(shown)
    with pytest.raises(Unsupported, match="some alternatives"):
        to_sparql(parse("MATCH (x)-[:IN]->(y) WHERE x.size > 5 OR x.old = true RETURN x.size AS size"))


def test_two_columns_of_one_name_are_no_sparql() -> None:
    """A title that is no word of SPARQL falls back to the variable, which may be the title of another column."""
    with pytest.raises(Unsupported, match="two columns of the name x"):
        to_sparql(parse("MATCH (x)-[:r]->(y) RETURN x.age AS x, x AS `the x`"))
    assert to_sparql(parse("MATCH (x)-[:r]->(y) RETURN x.age AS a, x AS `the x`")).startswith("SELECT ?a ?x WHERE")
