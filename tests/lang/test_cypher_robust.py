"""Cypher of all shapes: printed, it reads back as the same tree; spoilt, nothing but a `TupletError` comes out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lang_trees import all_queries, ask, formulas

from repeatable import examples
from tuplet.errors import BudgetExceeded, Refused, TupletError, UnsafeQuery
from tuplet.lang.ast import (
    TYPE,
    And,
    Atom,
    Attribute,
    Compare,
    Different,
    Exists,
    Formula,
    Free,
    Name,
    Not,
    Or,
    Query,
    Term,
    atoms,
    terms,
)
from tuplet.lang.cypher import parse_cypher
from tuplet.lang.logic import parse_logic
from tuplet.lang.parse import parse
from tuplet.lang.print import to_logic
from tuplet.lang.print_cypher import to_cypher
from tuplet.lang.rewrite import clauses, rename

PARAMETERS = {"p": 3, "q": ["a", 2.5]}

# --- texts -----------------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c", "`x y`", ""])
labels = st.sampled_from(["", "", ":A", ":A:B", ":A|B", ":`has part`"])
values = st.sampled_from(["1", "-2.5", "'it\\'s'", '"a\\nb"', "true", "$p", "date('2020-01-31')"])
properties = st.one_of(st.just(""), values.map("{{k: {}}}".format))
nodes = st.builds("({}{} {})".format, names, labels, properties)
types = st.sampled_from(["", ":R", ":R|S", ":R*2", ":R {since: 1}", "q", "q:R", "q:R|S"])
arrows = st.sampled_from([("-", "->"), ("<-", "-"), ("-", "-")])
links = st.builds(lambda about, arrow: f"{arrow[0]}[{about}]{arrow[1]}", types, arrows)
paths = st.lists(st.tuples(links, nodes), max_size=2).flatmap(
    lambda steps: nodes.map(lambda first: first + "".join(link + node for link, node in steps))
)
sides = st.sampled_from(["a.k", "b.`k l`", "c.k", "q.since", "a.k"])
tests = st.one_of(
    st.builds("{} {} {}".format, sides, st.sampled_from(["=", "<>", "<", ">="]), st.one_of(values, sides)),
    st.builds("{} {} 'x'".format, sides, st.sampled_from(["CONTAINS", "STARTS WITH", "ENDS WITH", "=~"])),
    st.builds("{} IN {}".format, sides, st.sampled_from(["[1, 'b']", "$q"])),
    st.builds("{} IS {}NULL".format, sides, st.sampled_from(["", "NOT "])),
    st.builds("{} IN {}".format, values, sides),
    st.sampled_from(["a <> b", "a = b", "b:A", "(a)-[:S]->(b)", "(b)<-[:S]-()", "id(a) = 'x'", "type(q) = 'R'"]),
    st.sampled_from(["type(q) IN ['R', 'T']", "id(b) IN ['x', 'y']", "(a)-[:R|S]-(b)", "EXISTS { (a)-[:R]->(:A) }"]),
)
conditions = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("({} XOR {})".format, inner, inner),
        inner.map("NOT {}".format),
    ),
    max_leaves=3,
)
matches = st.builds(
    lambda found, where: f"MATCH {', '.join(found)}" + (f" WHERE {where}" if where else ""),
    st.lists(paths, min_size=1, max_size=2),
    st.one_of(st.just(""), conditions),
)
returns = st.sampled_from(
    [
        "a",
        "a, b",
        "DISTINCT b",
        "a.k AS k, b ORDER BY k",
        "*",
        "count(*)",
        "count(DISTINCT a) AS n",
        "q, a",
        "a, type(q)",
        "a SKIP 1 LIMIT $p",
        "a ORDER BY a.k DESC",
        "b, q.since",
        "`x y`, a",
    ]
)
texts = st.builds(
    lambda found, shown: f"{' '.join(found)} RETURN {shown}", st.lists(matches, min_size=1, max_size=2), returns
)


# The same texts every time: a pattern that contradicts itself (one relationship twice) may read back as another one.
@examples(250)
@given(texts)
def test_printed_queries_read_back(text: str) -> None:
    try:
        query = parse(text, parameters=PARAMETERS)
    except TupletError:
        return
    assert parse_logic(to_logic(query)) == query
    try:
        printed = to_cypher(query)
    except Refused:
        return
    found = parse_cypher(printed)
    if " UNION " in printed and " UNION " not in text:  # alternatives with nodes of their own are written out
        assert len(clauses(found)) == len(clauses(query)), printed
    else:
        assert known(found) == known(query), printed


def any_value(formula: Formula) -> Formula:
    """The formula with one name for the values that a property may have."""
    match formula:
        case Not(body):
            return Not(any_value(body))
        case And(parts) | Or(parts):
            return type(formula)(tuple(map(any_value, parts)))
        case Compare(_, Attribute(_, _, variable) as left) if variable.startswith("_"):
            return replace(formula, left=replace(left, variable="_"))
        case _:
            return formula


def known(query: Query) -> Query:
    """A query without the names that nobody gave: of nodes that stand alone, and the order of what is counted."""
    found = [atom for atom in atoms(query.body) if isinstance(atom, Atom)]
    elsewhere = {atom.head for atom in found} | {atom.tail for atom in found if atom.relation.text != TYPE}
    alone = {term: Exists("_") for term in {*terms(query.body)} - elsewhere if str(term.name).startswith("_")}
    query = replace(query, body=any_value(rename(query.body, alone)))
    if query.form == "select":
        return query
    free = sorted(query.free, key=lambda variable: variable.name)
    return replace(query, free=tuple(free), shown=tuple(sorted(query.shown, key=lambda column: column.name)))


variables: st.SearchStrategy[Term] = st.one_of(st.sampled_from("xy").map(Free), st.sampled_from("zw").map(Exists))
relations = st.sampled_from(["r", "has part", "type"]).map(Name)
facts: st.SearchStrategy[Formula] = st.builds(Atom, relations, variables, variables)
unlike: st.SearchStrategy[Formula] = st.builds(Different, variables, variables)


@examples(200)
@given(formulas(2, facts, unlike).map(lambda body: ask(body, None)).filter(lambda query: query.free))
def test_other_queries_have_the_same_clauses(query: Query) -> None:
    try:
        expected = clauses(query)
        printed = to_cypher(query)
    except (UnsafeQuery, BudgetExceeded, Refused):
        return
    found = clauses(parse_cypher(printed))
    assert [{*clause.literals} for clause in found] == [{*clause.literals} for clause in expected], printed


@examples(60)
@given(all_queries())
def test_all_queries_are_printed_or_refused(query: Query) -> None:
    try:
        clauses(query)
        printed = to_cypher(query)
    except TupletError:
        return
    try:
        parse_cypher(printed)
    except BudgetExceeded:
        return


SAMPLES = [
    "MATCH (d:Drug)-[:TARGETS]->(g)<-[:LINKED]-(x {name: 'a'}) WHERE NOT (d)-[:TREATS]->(x) AND d.phase >= 3 RETURN d",
    "MATCH (a)-[r:R|S {since: 2000}]-(b), (b)-[:T*2]->() WHERE r.w IN [1] OR a.k =~ 'x.*' RETURN r.w AS w ORDER BY w",
    "MATCH (a) WHERE id(a) = 'x' RETURN count(DISTINCT a) UNION MATCH (a:B) RETURN a SKIP 2 LIMIT $p",
]
PIECES = [
    *"(){}[].,;:!&|?<>\"'`\\-@#^=*/ \n\t\x00$",
    "MATCH ",
    " WHERE ",
    " RETURN ",
    " NOT ",
    "count(",
    "->",
    "<-",
    "=~",
]
edits = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 5), st.one_of(st.sampled_from(PIECES), st.characters(), st.just(""))),
    min_size=1,
    max_size=4,
)


@examples(300)
@given(st.sampled_from(SAMPLES), edits)
def test_spoilt_queries_raise_nothing_else(text: str, changes: list[tuple[int, int, str]]) -> None:
    for at, removed, piece in changes:
        at %= len(text) + 1
        text = text[:at] + piece + text[at + removed :]
    try:
        query = parse_cypher(text, PARAMETERS)
    except TupletError:
        return
    to_logic(query)
    try:
        clauses(query)
        to_cypher(query)
    except TupletError:
        return


@pytest.mark.parametrize(
    "piece", ["(", "[", "{", "NOT ", "-", "'", "`", "/", "/*", "/**/", "//\n", "(a)--", "(a), ", "a.b ", "x AND "]
)
def test_long_repetitions_are_refused_at_once(piece: str) -> None:
    for start in ("MATCH ", "MATCH (a) WHERE ", "MATCH (a) RETURN "):
        with pytest.raises(TupletError):
            parse_cypher(start + piece * (20_000 // len(piece)))
    with pytest.raises(TupletError):
        parse(piece * (20_000 // len(piece)) + "!")


def test_a_given_value_is_not_printed_as_any_value() -> None:
    assert "2 IN x.age" in to_cypher(parse("?x : r(?x, ?x) & has(?x.age, 2)"))
    with pytest.raises(Refused):
        to_cypher(parse("?x : r(?x, ?x) & !has(?x.age, 2)"))
