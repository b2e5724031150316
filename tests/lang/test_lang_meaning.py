"""What queries mean: rdflib and Oxigraph judge the SPARQL, a naive evaluator judges the rewrite rules."""

from __future__ import annotations

from random import Random

import pyoxigraph
import rdflib
from lang_random import random_facts, random_logic, random_sparql
from lang_reference import Facts, answers, clause_answers

from repeatable import SEED, count
from tuplet.errors import TupletError
from tuplet.lang.ast import terms
from tuplet.lang.parse import parse
from tuplet.lang.print import to_logic, to_sparql
from tuplet.lang.rewrite import clauses, push_negation


def by_rdflib(text: str, facts: Facts) -> set[tuple[str, ...]]:
    graph = rdflib.Graph()
    for fact in facts:
        graph.add(tuple(rdflib.URIRef(name) for name in fact))
    return {tuple(str(value) for value in row) for row in graph.query(text)}


def by_oxigraph(text: str, facts: Facts) -> set[tuple[str, ...]]:
    store = pyoxigraph.Store()
    store.extend(pyoxigraph.Quad(*(pyoxigraph.NamedNode(name) for name in fact)) for fact in facts)
    found = store.query(text)
    return {tuple(solution[variable].value for variable in found.variables) for solution in found}


def test_sparql_means_what_rdflib_and_oxigraph_say() -> None:
    random = Random(1 + SEED)
    wanted, judged, tried = count(120, 1500), 0, 0
    while judged < wanted:
        tried += 1
        assert tried < 20 * wanted, "nearly all random queries are refused"
        text, facts = random_sparql(random), random_facts(random)
        try:
            query = parse(text)
            parts = clauses(query)
        except TupletError:
            continue
        judged += 1
        expected = by_rdflib(text, facts)
        if "*" not in text:  # the order of the columns of * is ours
            assert by_oxigraph(text, facts) == expected, text
        else:
            query = parse(text.replace("*", " ".join(f"?{v}" for v in rdflib_columns(text))))
            parts = clauses(query)
        assert answers(query, facts) == expected, text
        assert clause_answers(parts, facts) == expected, text
        assert parse(to_sparql(query)) == query
        assert parse(to_logic(query)) == query


def rdflib_columns(text: str) -> list[str]:
    return [str(variable) for variable in rdflib.Graph().query(text).vars]


def test_rewrites_keep_the_meaning_of_logic_text() -> None:
    random = Random(2 + SEED)
    wanted, judged, rewritten = count(200, 3000), 0, 0
    while judged < wanted:
        text, facts = random_logic(random), random_facts(random)
        try:
            query = parse(text)
            parts = clauses(query)
        except TupletError:
            continue
        if len(set(terms(query.body))) > 7:  # the naive evaluator tries all assignments
            continue
        judged += 1
        expected = answers(query, facts)
        assert answers(push_negation(query), facts) == expected, text
        assert clause_answers(parts, facts) == expected, text
        assert parse(to_logic(query)) == query, text
        printed = to_sparql(query)
        rewritten += parse(printed) != query
        assert clause_answers(clauses(parse(printed)), facts) == expected, text
    assert 0 < rewritten < judged
