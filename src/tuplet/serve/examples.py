"""Queries to start from: written for the bundled graph, made from the facts of any other."""

from __future__ import annotations

import numpy as np

from tuplet.graph.adjacency import Adjacency
from tuplet.lang.ast import And, Atom, Constant, Different, Exists, Formula, Free, Name, Not, Query, Term
from tuplet.lang.printer import to_logic, to_sparql
from tuplet.query.source import Source

WORLD: tuple[dict[str, str], ...] = (
    {
        "title": "Organisations a country shares with a neighbour, as predicted",
        "query": "?country, ?organisation : exists ?neighbour .\n"
        "  located_in(?country, western_africa)\n"
        "  & borders(?country, ?neighbour)\n"
        "  & member_of(?neighbour, ?organisation)\n"
        "  & member_of(?country, ?organisation)",
        "only": "predicted",
    },
    {
        "title": "Neighbours that speak the same language",
        "query": "SELECT ?a ?b ?language WHERE {\n  ?a :borders ?b .\n  ?a :official_language ?language .\n"
        "  ?b :official_language ?language .\n  ?a :located_in :south_america .\n  FILTER(?a != ?b)\n}",
    },
    {
        "title": "Members of NATO that do not use the euro, and their currency",
        "query": "?country, ?currency :\n  member_of(?country, nato)\n  & uses_currency(?country, ?currency)\n"
        "  & !uses_currency(?country, euro)",
    },
    {
        "title": "Capitals of countries on the Danube or the Rhine",
        "query": "SELECT ?country ?capital WHERE {\n  ?country :has_capital ?capital .\n"
        "  { :danube_river :flows_through ?country }\n  UNION { :rhine_river :flows_through ?country }\n}",
    },
)


def examples(source: Source) -> list[dict[str, str]]:
    """A few queries that this store can answer, with a title each."""
    graph = source.graph
    if graph.entities.find("western_africa") >= 0 and graph.relations.find("member_of") >= 0:
        written = [dict(example) for example in WORLD if _asks(example["query"], source)]
        if source.truth is None:
            written = [{k: v for k, v in example.items() if k != "only"} for example in written]
        if written:
            return written
    return _made(source)


def _asks(text: str, source: Source) -> bool:
    from tuplet.errors import TupletError
    from tuplet.query.ask import prepare

    try:
        prepare(source, text)
    except TupletError:
        return False
    return True


def _made(source: Source) -> list[dict[str, str]]:
    """Queries from a walk over real facts, so that each has an answer: one unknown, two, a shared one, a negation."""
    facts, graph = source.facts, source.graph
    walk = _Walk(facts)
    path = walk.path()
    if path is None:
        return []
    (_, first, middle), (second, end) = path
    x, y, z = Free("x"), Free("y"), Exists("z")

    def relation(number: int) -> Name:
        return Name(graph.relations.name(number))

    def constant(number: int) -> Term:
        return Constant(Name(graph.entities.name(number)))

    def atom(number: int, head: Term, tail: Term) -> Formula:
        return Atom(relation(number), head, tail)

    made: list[tuple[str, Query, bool]] = [
        ("One unknown", Query((x,), atom(first, x, constant(middle))), True),
        ("Two unknowns in a chain", Query((x, y), And((atom(first, x, y), atom(second, y, constant(end))))), False),
        (
            "Two unknowns that share something",
            Query((x, y), And((atom(first, x, z), atom(first, y, z), atom(second, z, constant(end)), Different(x, y)))),
            False,
        ),
        (
            "Two unknowns, and something that must not hold",
            Query((x, y), And((atom(first, x, y), atom(second, y, constant(end)), Not(atom(first, y, x))))),
            True,
        ),
    ]
    return [{"title": title, "query": to_sparql(q) if sparql else to_logic(q)} for title, q, sparql in made]


class _Walk:
    """Two facts in a row, a → b → c, over relations that are used often."""

    def __init__(self, facts: Adjacency) -> None:
        self.facts = facts

    def counts(self) -> np.ndarray:
        return relation_counts(self.facts)

    def path(self) -> tuple[tuple[int, int, int], tuple[int, int]] | None:
        facts = self.facts
        rng = np.random.default_rng(0)
        order = np.argsort(-self.counts(), kind="stable")[:20]
        for first in order.tolist():
            low, high = int(facts.row_ptr[facts.view_ptr[2 * first]]), int(facts.row_ptr[facts.view_ptr[2 * first + 1]])
            for at in rng.integers(low, high, 20).tolist() if high > low else []:
                middle = int(facts.neighbour[at])
                for second in order.tolist():
                    ends = facts.row(middle, 2 * second)
                    if second != first and len(ends):
                        heads = facts.row(middle, 2 * first + 1)
                        return (int(heads[0]), first, middle), (second, int(ends[0]))
        return None


def relation_counts(facts: Adjacency) -> np.ndarray:
    """How many facts each relation has. [relations]"""
    ends = facts.row_ptr[facts.view_ptr]
    return np.asarray(ends[1::2][: facts.relations] - ends[0::2][: facts.relations], dtype=np.int64)
