"""Queries as drawings and back: one parser and one printer, on the server, for text and graph alike."""

from __future__ import annotations

from typing import Any

from tuplet.errors import BadInput, TupletError
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import And, Atom, Constant, Different, Exists, Formula, Free, Name, Not, Or, Query, Term
from tuplet.lang.parse import language, parse
from tuplet.lang.printer import to_logic, to_sparql
from tuplet.lang.rules import to_normal_form
from tuplet.query.bind import bind, resolve
from tuplet.serve import models
from tuplet.serve.limits import ServerLimits, problem, with_place


def draw(text: str, graph: KnowledgeGraph, limits: ServerLimits) -> dict[str, Any]:
    """A text as query graph, in both languages, with the first thing that is wrong about it, if anything is.

    A query that parses is drawn even if it cannot be asked (an unknown name, an unsafe variable).
    """
    drawing: dict[str, Any] = {"language": "logic", "logic": None, "sparql": None, "graph": None, "problem": None}
    try:
        drawing["language"] = language(text)
        query = parse(text)
        limits.check_query(query)
        drawing["graph"] = _graph(query, graph)
        drawing["logic"], drawing["sparql"] = to_logic(query), to_sparql(query)
        with with_place(text):
            bind(query, graph, text)
    except TupletError as error:
        drawing["problem"] = problem(error)[1]
    return drawing


def _graph(query: Query, graph: KnowledgeGraph) -> dict[str, Any]:
    body = to_normal_form(query).body
    parts = body.parts if isinstance(body, Or) else (body,)
    clauses = [_clause(part.parts if isinstance(part, And) else (part,), graph) for part in parts]
    return {"free": [variable.name for variable in query.free], "limit": query.limit, "clauses": clauses}


def _clause(literals: tuple[Formula, ...], graph: KnowledgeGraph) -> dict[str, Any]:
    edges, different = [], []
    for literal in literals:
        match literal:
            case Different(left, right):
                different.append([_term(left, graph), _term(right, graph)])
            case Atom(relation, head, tail) | Not(Atom(relation, head, tail)):
                edges.append(
                    {
                        "head": _term(head, graph),
                        "relation": relation.text,
                        "form": relation.kind,
                        "label": _label(relation, "relation", graph),
                        "tail": _term(tail, graph),
                        "negated": isinstance(literal, Not),
                        "position": relation.position,
                        "length": relation.length,
                    }
                )
    return {"edges": edges, "different": different}


def _term(term: Term, graph: KnowledgeGraph) -> dict[str, Any]:
    if isinstance(term, Constant):
        label = _label(term.name, "entity", graph)
        return {"kind": "constant", "name": term.name.text, "form": term.name.kind, "label": label}
    return {"kind": "free" if isinstance(term, Free) else "exists", "name": term.name, "form": "name", "label": ""}


def _label(name: Name, kind: str, graph: KnowledgeGraph) -> str:
    """How a name is shown: its label; itself if it has none or is not known."""
    words = graph.entities if kind == "entity" else graph.relations
    try:
        number = resolve(name, kind, words)
    except TupletError:
        return name.text
    return words.label(number) or words.name(number)


def write(drawn: models.WriteRequest, limits: ServerLimits) -> str:
    """A drawing as text."""
    if not drawn.free:
        raise BadInput("a query asks for something: at least one node has to be free")
    if not any(clause.edges for clause in drawn.clauses):
        raise BadInput("draw at least one edge")
    if sum(len(clause.edges) + len(clause.different) for clause in drawn.clauses) > limits.max_atoms:
        raise BadInput(f"the drawing has more than {limits.max_atoms} edges")
    parts = [_conjunction(clause) for clause in drawn.clauses if clause.edges or clause.different]
    body = parts[0] if len(parts) == 1 else Or(tuple(parts))
    query = Query(tuple(Free(name) for name in dict.fromkeys(drawn.free)), body, drawn.limit)
    text = to_sparql(query) if drawn.language == "sparql" else to_logic(query)
    if parse(text) != query and drawn.language == "logic":
        raise BadInput("a name in the drawing cannot be written as text")
    return text


def _conjunction(clause: models.DrawnClause) -> Formula:
    literals: list[Formula] = []
    for edge in clause.edges:
        atom = Atom(Name(edge.relation, edge.form), _term_of(edge.head), _term_of(edge.tail))
        literals.append(Not(atom) if edge.negated else atom)
    literals += [Different(_term_of(left), _term_of(right)) for left, right in clause.different]
    return literals[0] if len(literals) == 1 else And(tuple(literals))


def _term_of(term: models.DrawnTerm) -> Term:
    if term.kind == "constant":
        return Constant(Name(term.name, term.form))
    if not term.name.isidentifier() and not term.name.replace("_", "a").isalnum():
        raise BadInput(f"a variable is named with letters, digits and _, not {term.name!r}")
    return Free(term.name) if term.kind == "free" else Exists(term.name)
