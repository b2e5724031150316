"""Random syntax trees as parsers build them, for hypothesis."""

from __future__ import annotations

import datetime

from hypothesis import strategies as st

from tuplet.lang.ast import (
    Among,
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
    Order,
    Query,
    Same,
    Term,
    Value,
    atoms,
    terms,
)
from tuplet.lang.rewrite import conjunction, disjunction, negation

OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "contains", "starts", "ends", "matches"]
ODD = ["asthma", "hay fever", "exists", "LIMIT", "a>b", "<a>", "a\\>b", "17", "/m/0x", "a.", ".a", "-", "a:b"]
ODD += ["true", "1.5", "1990-01-01", "2e3", "= a", " a", "in", "has", "str", "show", "ask"]

letters = st.characters(exclude_categories=["Cs"])
written = st.one_of(st.sampled_from(ODD), st.text(letters, min_size=1, max_size=6))
names = st.one_of(
    st.builds(Name, written, st.sampled_from(["name", "label"])),
    st.integers(0, 10**6).map(lambda number: Name(str(number), "id")),
)
variables: st.SearchStrategy[Term] = st.one_of(
    st.sampled_from(["x", "y", "exists"]).map(Free), st.sampled_from(["z", "z_2", "été"]).map(Exists)
)
numbers = st.one_of(st.sampled_from(["007", "1", "00"]), st.integers(0, 10**6).map(str))
entities = st.one_of(names, numbers.map(lambda number: Name(number, "number")))
some_terms: st.SearchStrategy[Term] = st.one_of(variables, variables, entities.map(Constant))
plain_atoms: st.SearchStrategy[Formula] = st.builds(Atom, names, some_terms, some_terms)
relations = st.one_of(names, names, names, st.sampled_from(["p", "q"]).map(lambda name: Name(name, "variable")))
any_atoms: st.SearchStrategy[Formula] = st.builds(Atom, relations, some_terms, some_terms)

moments = st.datetimes(datetime.datetime(1000, 1, 1), timezones=st.sampled_from([None, datetime.UTC]))
values = st.one_of(
    st.builds(Value, st.one_of(st.booleans(), st.integers(-(10**17), 10**17), st.floats(allow_nan=False))),
    st.builds(Value, st.one_of(st.dates(datetime.date(1000, 1, 1)), moments, st.text(letters, max_size=5))),
    st.builds(Value, st.text(letters, max_size=5), st.sampled_from(["", "en", "en-gb"])),
)
attributes = st.builds(
    Attribute, st.one_of(some_terms, st.builds(Atom, names, some_terms, some_terms)), names, st.sampled_from(["", "a"])
)
operands = st.one_of(attributes, attributes, values, some_terms)
conditions: st.SearchStrategy[Formula] = st.one_of(
    st.builds(Different, some_terms, some_terms),
    st.builds(Same, some_terms, some_terms),
    st.builds(Compare, st.sampled_from(OPERATORS), operands, operands, st.booleans()),
    st.builds(Among, some_terms, st.lists(entities, max_size=3).map(tuple), st.booleans()),
    st.builds(Among, some_terms, st.lists(values, max_size=3).map(tuple), st.booleans()),
    st.builds(Among, attributes, st.lists(values, max_size=3).map(tuple), st.booleans()),
    st.builds(Has, attributes, st.booleans(), st.none() | values),
)


def formulas(
    depth: int, facts: st.SearchStrategy[Formula], conditions: st.SearchStrategy[Formula]
) -> st.SearchStrategy[Formula]:
    """Formulas as parsers build them."""
    simple = st.one_of(facts, facts, conditions)
    if depth == 0:
        return simple
    inner = st.lists(formulas(depth - 1, facts, conditions), min_size=2, max_size=3)
    negated = formulas(depth - 1, facts, conditions).map(negation)
    return st.one_of(simple, inner.map(conjunction), inner.map(disjunction), negated)


def ask(body: Formula, limit: int | None) -> Query:
    return Query(tuple(dict.fromkeys(term for term in terms(body) if isinstance(term, Free))), body, limit)


limits = st.none() | st.integers(0, 10**9)
plain_queries = st.builds(ask, formulas(3, plain_atoms, st.builds(Different, some_terms, some_terms)), limits).filter(
    lambda query: query.free
)


@st.composite
def all_queries(draw: st.DrawFn) -> Query:
    """Queries with everything a tree can hold."""
    body = draw(formulas(2, any_atoms, conditions))
    free = tuple(dict.fromkeys(term for term in terms(body) if isinstance(term, Free)))
    form = draw(st.sampled_from(["select", "select", "ask", "count"]))
    titles = st.one_of(st.sampled_from(["x", "p", "truth", "n", "desc", "as", "optional"]), written)
    columns = [st.builds(Column, titles, attributes.filter(of_variables(body)), st.booleans())]
    if free:
        columns.append(st.builds(Column, titles, st.sampled_from(free), st.booleans()))
    for atom in (atom for atom in atoms(body) if isinstance(atom, Atom) and atom.relation.kind == "variable"):
        columns.append(st.builds(Column, titles, st.just(atom.relation), st.booleans()))
    shown = tuple(draw(st.lists(st.one_of(columns), max_size=3, unique_by=(lambda c: c.name, lambda c: c.what))))
    known = st.sampled_from(["truth", *(column.name for column in shown or free)])
    orders = st.builds(Order, st.one_of(known, attributes.filter(of_variables(body))), st.booleans())
    query = Query(
        free,
        body,
        draw(limits),
        draw(st.sampled_from([0, 0, 7])),
        () if shown == tuple(Column(variable.name, variable) for variable in free) else shown,
        tuple(draw(st.lists(orders, max_size=2))),
        form,
        draw(titles) if form == "count" else "",
    )
    return query


def of_variables(body: Formula):  # type: ignore[no-untyped-def]
    """Whether the variables of an attribute are those of a formula."""
    known = set(terms(body))
    return lambda attribute: {t for t in terms(Has(attribute)) if not isinstance(t, Constant)} <= known
