"""Queries to start from: written for the bundled graphs, made from the facts of any other."""

from __future__ import annotations

import tomllib

import numpy as np

from tuplet.graph.adjacency import Adjacency, consecutive
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import And, Atom, Constant, Different, Exists, Formula, Free, Name, Not, Query, Term, atoms, terms
from tuplet.lang.parse import parse
from tuplet.lang.print import to_logic, to_sparql, write_name
from tuplet.query.source import Source
from tuplet.read.datasets import example_files

_TRIED = 20  # relations, and facts of each, that are looked at


def examples(source: Source) -> list[dict[str, str]]:
    """A few queries that this source can answer: `title`, `query`, and `only` where predictions are asked for."""
    written = [one for file in example_files() for one in tomllib.loads(file.read_text(encoding="utf-8"))["example"]]
    known = [example for example in written if _names_are_known(parse(example["query"]), source.graph)]
    if source.truth is None:
        known = [{key: value for key, value in example.items() if key != "only"} for example in known]
    return known or _from_facts(source)


def starting_queries(source: Source) -> list[str]:
    """One or two of them on a line each."""
    found = [" ".join(example["query"].split()) for example in examples(source)[:2]]
    often = source.graph.adjacency.relation_edges
    names = [source.graph.relations.name(int(often.argmax()))] if len(often) else []
    return found or [f"?x, ?y : {write_name(name)}(?x, ?y)" for name in names]


def _names_are_known(query: Query, graph: KnowledgeGraph) -> bool:
    relations = [atom.relation for atom in atoms(query.body) if isinstance(atom, Atom)]
    constants = [term.name for term in terms(query.body) if isinstance(term, Constant)]
    words = [(graph.relations, name) for name in relations] + [(graph.entities, name) for name in constants]
    return all(known.find(name.text) >= 0 for known, name in words)


def _from_facts(source: Source) -> list[dict[str, str]]:
    """Queries along two real facts, so that each has an answer: one unknown, two, a shared one, a negation."""
    found = _two_facts(source.facts)
    if found is None:
        return []
    first, middle, second, end = found
    graph, (x, y, z) = source.graph, (Free("x"), Free("y"), Exists("z"))

    def atom(relation: int, head: Term, tail: Term | int) -> Formula:
        if isinstance(tail, int):
            tail = Constant(Name(graph.entities.name(tail)))
        return Atom(Name(graph.relations.name(relation)), head, tail)

    chain = (atom(first, x, y), atom(second, y, end))
    shared = (atom(first, x, z), atom(first, y, z), atom(second, z, end), Different(x, y))
    return [
        {"title": "One unknown", "query": to_sparql(Query((x,), atom(first, x, middle)))},
        {"title": "Two unknowns in a chain", "query": to_logic(Query((x, y), And(chain)))},
        {"title": "Two unknowns that share something", "query": to_logic(Query((x, y), And(shared)))},
        {
            "title": "Two unknowns, and something that must not hold",
            "query": to_sparql(Query((x, y), And((*chain, Not(atom(first, y, x)))))),
        },
    ]


def _two_facts(facts: Adjacency) -> tuple[int, int, int, int] | None:
    """Two facts in a row over relations that are used often: first(_, middle), second(middle, end)."""
    rng = np.random.default_rng(0)
    often = np.argsort(-facts.relation_edges, kind="stable")[:_TRIED].tolist()
    for first in often:
        for middle in _ends(facts, 2 * first, rng):
            for second in often:
                ends = facts.row(middle, 2 * second)
                if second != first and len(ends):
                    return first, middle, second, int(ends[0])
    return None


def _ends(facts: Adjacency, view: int, rng: np.random.Generator) -> list[int]:
    """The ends of some facts of a view."""
    count = int(facts.view_entries[view])
    if not count:
        return []
    own, chosen = facts.view(view), rng.integers(0, count, _TRIED)
    entries = own.starts[0] + chosen if isinstance(own.rows, slice) else consecutive(own.starts, own.lengths)[chosen]
    ends: list[int] = facts.neighbour[entries].tolist()
    return ends
