"""Round trips of arbitrary trees, and: whatever the text, nothing but a `TupletError` comes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lang_trees import all_queries, formulas, plain_queries

from repeatable import SOAK, examples
from text_fixtures import cases
from tuplet.errors import BudgetExceeded, TupletError, Unsupported
from tuplet.lab.benchmark_forms import parse_betae, parse_efok
from tuplet.lang.ast import (
    And,
    Atom,
    Attribute,
    Constant,
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
from tuplet.lang.logic import parse_logic
from tuplet.lang.parse import parse
from tuplet.lang.print import to_logic, to_sparql
from tuplet.lang.rewrite import clauses
from tuplet.lang.sparql import parse_sparql

LONG = 99_000 if SOAK else 25_000  # characters: deeper than any recursion may go

# --- trees -----------------------------------------------------------------------------------------------------------


@examples(300)
@given(all_queries())
def test_logic_text_reads_back(query: Query) -> None:
    if query.free or query.form == "ask":
        assert parse(to_logic(query)) == query


@examples(300)
@given(plain_queries)
def test_sparql_reads_back_as_the_same_clauses(query: Query) -> None:
    try:
        expected = clauses(query)
    except TupletError:
        return
    assert clauses(parse_sparql(to_sparql(query))) == expected


@examples(300)
@given(all_queries())
def test_what_sparql_can_say_reads_back(query: Query) -> None:
    """As the same clauses if no attribute is meant: SPARQL writes these as patterns."""
    sides = [side for atom in atoms(query.body) for side in operands(atom)]
    if (not query.free and query.form != "ask") or any(isinstance(side, Constant) for side in sides):
        return  # STR("Ann") is a value, not the name of an entity
    try:
        expected = clauses(query)
        text = to_sparql(query)
    except TupletError:
        return
    try:
        again = parse(text)
    except Unsupported:  # a relation that stands in a negated atom alone, and the like
        return
    assert (again.form, again.limit, again.offset) == (query.form, query.limit, query.offset)
    if query.form == "select":
        assert len(again.order) == len(query.order)
        assert len(again.shown or again.free) == len(query.shown or query.free)
        if not any(isinstance(side, Attribute) for side in sides) and not query.shown:
            assert clauses(again) == expected


def operands(atom: object) -> list[object]:
    return [getattr(atom, name, None) for name in ("left", "right", "item", "attribute")]


benchmark_terms = st.sampled_from(
    [Free("f1"), Free("f2"), Exists("e1"), Constant(Name("a")), Constant(Name("17", "id"))]
)
benchmark_names = st.sampled_from([Name("likes"), Name("2", "id")])
benchmark_atoms: st.SearchStrategy[Formula] = st.builds(Atom, benchmark_names, benchmark_terms, benchmark_terms)


@examples(100)
@given(formulas(3, benchmark_atoms, benchmark_atoms))
def test_efok_strings_are_read_as_they_are_built(body: Formula) -> None:
    free = {term for term in terms(body) if isinstance(term, Free)}
    if free:
        query = Query(tuple(sorted(free, key=lambda variable: variable.name)), body)
        assert parse(write_efok(body), {"r1": "likes", "r2": 4, "s1": "a"}) == query


def write_efok(formula: Formula) -> str:
    match formula:
        case Atom(relation, head, tail):
            return f"{'r1' if relation.kind == 'name' else 'r2'}({write_symbol(head)},{write_symbol(tail)})"
        case Not(inner):
            return f"!({write_efok(inner)})"
        case And(parts) | Or(parts):
            return ("&" if isinstance(formula, And) else "|").join(f"({write_efok(part)})" for part in parts)
        case _:
            raise AssertionError("EFOk-CQA strings have atoms alone")


def write_symbol(term: Term) -> str:
    if isinstance(term, Constant):
        return term.name.text if term.name.kind == "id" else "s1"
    return term.name


# --- texts -----------------------------------------------------------------------------------------------------------

SAMPLES = [case.text for folder in ("parse", "rewrite", "errors") for case in cases(folder)]
PIECES = [*"(){}.,;:!&|?<>\"'\\-@#^=*/ \n\t\x00"]
PIECES += ["?x", "exists ", "∃", "!=", "&&", "FILTER", "UNION", "r1", "s1", "f", "-2"]
GROUNDING = {"r1": 3, "r2": "likes", "s1": 5, "s2": "a", "r3": True, "s3": None}
edits = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 5), st.one_of(st.sampled_from(PIECES), st.characters(), st.just(""))),
    min_size=1,
    max_size=4,
)


def survives(text: str) -> None:
    for read in (parse, parse_sparql, parse_logic, parse_efok, parse_betae, lambda t: parse(t, GROUNDING)):
        try:
            query = read(text)
        except TupletError:
            continue
        assert parse_logic(to_logic(query)) == query
        try:
            clauses(query)
            to_sparql(query)  # or there are no words for it in SPARQL
        except TupletError:
            continue


@examples(400)
@given(st.sampled_from(SAMPLES), edits)
def test_spoilt_queries_raise_nothing_else(text: str, changes: list[tuple[int, int, str]]) -> None:
    for at, removed, piece in changes:
        at %= len(text) + 1
        text = text[:at] + piece + text[at + removed :]
    survives(text)


@examples(200)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)))
def test_any_text_raises_nothing_else(text: str) -> None:
    survives(text)


@pytest.mark.parametrize(
    "piece", ["(", "{", "!", "¬", "<", '"', "?x : (", "a.", "!(", "((1,", "\\", "SELECT ?x {", "?x : !", ":a", "-"]
)
def test_long_repetitions_are_refused_at_once(piece: str) -> None:
    survives(piece * 500)
    for start in ("", "SELECT ?x { ?x :r ?y ", "?x : r(?x, a) & "):
        with pytest.raises(TupletError):
            parse(start + piece * (LONG // len(piece)))


def test_sizes_are_limited() -> None:
    with pytest.raises(BudgetExceeded, match="100,001 characters, at most 100,000"):
        parse("?" * 100_001)
    with pytest.raises(BudgetExceeded, match="257 atoms in a clause, at most 256"):
        parse("?x : " + " & ".join(f"r{i}(?x, a)" for i in range(257)))
    with pytest.raises(BudgetExceeded, match="65 clauses"):
        parse("?x : " + " | ".join(f"r{i}(?x, a)" for i in range(65)))
    with pytest.raises(BudgetExceeded, match=r"over 10\^12 clauses"):
        parse("?x : " + " & ".join(f"(a{i}(?x, s) | b{i}(?x, s))" for i in range(200)))
    with pytest.raises(BudgetExceeded, match="65 variables in a clause, at most 64"):
        clauses(
            parse(
                "?x0 : exists "
                + ", ".join(f"?x{i}" for i in range(1, 65))
                + " . "
                + " & ".join(f"r(?x{i}, ?x{i + 1})" for i in range(64))
            )
        )
    with pytest.raises(BudgetExceeded, match="nested more than 64 levels"):
        parse("?x : " + "(" * 70 + "r(?x, a)" + ")" * 70)
    assert len(clauses(parse("?x : " + " & ".join(f"(a{i}(?x, s) | b{i}(?x, s))" for i in range(6))))) == 64


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(TupletError, match="not valid Unicode"):
        parse("?x : r(?x, \udcff)")


# --- benchmark forms -------------------------------------------------------------------------------------------------


def test_groundings_take_names_and_ids() -> None:
    query = parse("((r1(s1,f1))&(r2(f1,f2)))&(!(r3(f1,f2)))", {"r1": 4, "s1": 17, "r2": "likes", "r3": 9})
    assert to_logic(query) == "?f1, ?f2 : @2(@17, ?f1) & likes(?f1, ?f2) & !@4(?f2, ?f1)"


@pytest.mark.parametrize("value", [None, True, -1, 1.5, "", [3], 10**18])
def test_groundings_of_other_kinds_are_refused(value: object) -> None:
    with pytest.raises(TupletError, match="the grounding of s1 is"):
        parse("r1(s1,f)", {"r1": 4, "s1": value})  # type: ignore[dict-item]


def test_names_know_where_they_stand() -> None:
    text = 'SELECT ?x { ?x :treats "hay fever" }'
    atom = parse(text).body
    assert isinstance(atom, Atom)
    assert isinstance(atom.tail, Constant)
    for name, shown in ((atom.relation, ":treats"), (atom.tail.name, '"hay fever"')):
        assert text[name.position : name.position + name.length] == shown
