"""Queries as drawings and back: one parser and one printer, on the server, for text and graph alike.

A drawing has nodes and edges; what cannot be drawn (conditions on attributes, columns, order) goes with it as pieces of
logic text, so that nothing of a text is lost when its drawing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tuplet.errors import BadInput, PlacedError, TupletError, Unsupported
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import (
    And,
    Atom,
    Constant,
    Different,
    Exists,
    Formula,
    Free,
    Name,
    Not,
    Or,
    Query,
    Same,
    Term,
    atoms,
    terms,
)
from tuplet.lang.parse import language
from tuplet.lang.print import (
    column_to_logic,
    formula_to_logic,
    order_to_logic,
    shorten_names,
    split_columns,
    to_logic,
    to_sparql,
    write_title,
)
from tuplet.lang.print_cypher import to_cypher
from tuplet.lang.reader import is_number, tokenize
from tuplet.lang.rewrite import conjunction, rename, to_normal_form
from tuplet.query.ask import Question, read_query
from tuplet.query.bind import resolve
from tuplet.query.source import Source
from tuplet.server import models
from tuplet.server.limits import ServerLimits, problem, with_place
from tuplet.server.sparql_results import NO_BASE, BaseIri

PRINTERS: dict[str, Callable[[Query], str]] = {"logic": to_logic, "sparql": to_sparql, "cypher": to_cypher}


def draw(
    text: str,
    source: Source,
    limits: ServerLimits,
    base: BaseIri = NO_BASE,
    parameters: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A text as query graph, in every language that has words for it, with the first thing that is wrong about it.

    A query that parses is drawn even if it cannot be asked (an unknown name, an unsafe variable). `refused` says why a
    language cannot say it.
    """
    drawing: dict[str, Any] = {"language": "logic", **dict.fromkeys(PRINTERS), "refused": {}, "graph": None}
    drawing["problem"] = None
    try:
        limits.check_text(text)
        drawing["language"] = language(text)
        query = base.query(read_query(text, None, source.graph, parameters), source.graph)
        limits.check_query(query)
        plain = _with_names(query)
        drawing["graph"] = _graph(plain, source.graph)
        for name in PRINTERS:
            try:
                drawing[name] = _print(plain, name, source.graph)
            except TupletError as error:
                drawing["refused"][name] = error.message
        with with_place(text):
            Question.from_query(source, query, text=text)
    except TupletError as error:
        drawing["problem"] = problem(error)[1]
    return drawing


def _with_names(query: Query) -> Query:
    """The query with entities in place of variables that only stand for one: Cypher needs them, a drawing does not."""
    shown = repr((query.shown, query.order))

    def plain(part: Formula) -> Formula:
        literals = part.parts if isinstance(part, And) else (part,)
        named: dict[Term, Term] = {}
        for literal in literals:
            match literal:
                case Same(Exists() as variable, Constant(Name(kind=kind)) as entity) if kind != "variable":
                    if repr(variable) not in shown:
                        named.setdefault(variable, entity)
        rest = [rename(literal, named) for literal in literals if not _names(literal, named)]
        return conjunction(rest) if rest else part

    body = query.body
    return replace(query, body=Or(tuple(map(plain, body.parts))) if isinstance(body, Or) else plain(body))


def _names(literal: Formula, named: Mapping[Term, Term]) -> bool:
    return isinstance(literal, Same) and named.get(literal.left) == literal.right


def _graph(query: Query, graph: KnowledgeGraph) -> dict[str, Any]:
    while (clauses := to_normal_form(_with_names(query))) != query:  # a name that is put in may make others plain
        query = clauses
    body = query.body
    parts = body.parts if isinstance(body, Or) else (body,)
    asked, columns = split_columns(query)
    return {
        "free": asked,
        "clauses": [_clause(part.parts if isinstance(part, And) else (part,), graph) for part in parts],
        "shown": [_short(column_to_logic(column), graph) for column in columns],
        "order": [_short(order_to_logic(order), graph) for order in query.order],
        "limit": query.limit,
        "offset": query.offset,
        "form": query.form,
        "counted": query.counted,
    }


def _clause(literals: tuple[Formula, ...], graph: KnowledgeGraph) -> dict[str, Any]:
    edges, different, conditions = [], [], []
    for literal in literals:
        match literal:
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
            case Different(left, right) if not (_is_relation(left) or _is_relation(right)):
                different.append([_term(left, graph), _term(right, graph)])
            case _:
                about = dict.fromkeys(term for term in terms(literal) if not _is_relation(term))
                shown = [_term(term, graph) for term in about]
                conditions.append({"text": _short(formula_to_logic(literal), graph), "terms": shown})
    return {"edges": edges, "different": different, "conditions": conditions}


def _is_relation(term: Term) -> bool:
    return isinstance(term, Constant) and term.name.kind == "variable"


def _term(term: Term, graph: KnowledgeGraph) -> dict[str, Any]:
    if isinstance(term, Constant):
        label = _label(term.name, "entity", graph)
        return {"kind": "constant", "name": term.name.text, "form": term.name.kind, "label": label}
    return {"kind": "free" if isinstance(term, Free) else "exists", "name": term.name, "form": "name", "label": ""}


def _label(name: Name, kind: str, graph: KnowledgeGraph) -> str:
    """The label of a name; the name itself if it has none or is unknown."""
    if name.kind == "variable":
        return f"?{name.text}"
    words = graph.entities if kind == "entity" else graph.relations
    try:
        number = resolve(name, kind, words)
    except TupletError:
        return graph.prefixes.short(name.text)
    return words.label(number) or graph.prefixes.short(words.name(number))


def _print(query: Query, language: str, graph: KnowledgeGraph) -> str:
    """A query as text, with the prefixes of the graph where it reads back alike."""
    text = PRINTERS[language](query)
    short = text if language == "cypher" else _short(text, graph)
    return short if short == text or read_query(short, None, graph) == read_query(text, None, graph) else text


def _short(text: str, graph: KnowledgeGraph) -> str:
    """Logic text or SPARQL with the prefixes of the graph."""
    return shorten_names(text, graph.prefixes.short) if graph.prefixes.known else text


def write(drawn: models.WriteRequest, source: Source, limits: ServerLimits) -> str:
    """A drawing as text; as logic text if the language wanted has no words for it."""
    if not drawn.free and drawn.form != "ask":
        raise BadInput("a query asks for something: at least one node has to be free")
    clauses = [clause for clause in drawn.clauses if clause.edges or clause.different or clause.conditions]
    if not clauses:
        raise BadInput("draw at least one edge")
    text = _logic(drawn, clauses)
    try:
        query = read_query(text, None, source.graph)
    except PlacedError as error:
        typed = [*(c.text for clause in clauses for c in clause.conditions), *drawn.shown, *drawn.order]
        wrong = next((part for part in typed if _holds(text, part, error.position)), "")
        raise BadInput(f"{wrong}: {error.message}" if wrong else error.message) from None
    limits.check_query(query)
    stated = set(atoms(query.body))
    if any(_atom(edge) not in stated for clause in clauses for edge in clause.edges):
        raise BadInput("a name in the drawing cannot be written as text")
    try:
        return _print(query, drawn.language, source.graph)
    except Unsupported:
        return _print(query, "logic", source.graph)


def _logic(drawn: models.WriteRequest, clauses: list[models.DrawnClause]) -> str:
    """The drawing as logic text: the one language that has words for all of it."""
    form = "" if drawn.form == "select" else f"{drawn.form} "
    free = dict.fromkeys(drawn.free)
    asked = ", ".join(f"?{name}" for name in free) + (f" as {write_title(drawn.counted)}" if drawn.counted else "")
    quantified = [name for clause in clauses for name in _variables(clause)]
    existential = ", ".join(f"?{name}" for name in dict.fromkeys(quantified) if name not in free)
    body = " | ".join(" & ".join(_literals(clause)) for clause in clauses)
    after = [
        f"show {', '.join(drawn.shown)}" if drawn.shown else "",
        f"order by {', '.join(drawn.order)}" if drawn.order else "",
        f"limit {drawn.limit}" if drawn.limit is not None else "",
        f"offset {drawn.offset}" if drawn.offset else "",
    ]
    return " ".join(filter(None, [f"{form}{asked} :", existential and f"exists {existential} .", body, *after]))


def _literals(clause: models.DrawnClause) -> list[str]:
    edges = [("!" if edge.negated else "") + formula_to_logic(_atom(edge)) for edge in clause.edges]
    different = [formula_to_logic(Different(_term_of(left), _term_of(right))) for left, right in clause.different]
    return [*edges, *different, *(f"({condition.text})" for condition in clause.conditions)]


def _variables(clause: models.DrawnClause) -> list[str]:
    """The names of the variables of a clause, those that a condition quantifies for itself left out."""
    drawn = [term for edge in clause.edges for term in (edge.head, edge.tail)]
    drawn += [term for pair in clause.different for term in pair]
    names = [term.name for term in drawn if term.kind != "constant"]
    names += [edge.relation for edge in clause.edges if edge.form == "variable"]
    for condition in clause.conditions:
        tokens = tokenize(condition.text)
        if not any(token.text.lower() in ("exists", "∃") for token in tokens):
            names += [token.text[1:] for token in tokens if token.kind == "variable"]
    return names


def _holds(text: str, part: str, position: int) -> bool:
    start = text.find(part)
    return start <= position <= start + len(part)


def _atom(edge: models.DrawnEdge) -> Atom:
    return Atom(_name_of(edge.relation, edge.form), _term_of(edge.head), _term_of(edge.tail))


def _term_of(term: models.DrawnTerm) -> Term:
    if term.kind == "constant":
        return Constant(_name_of(term.name, term.form))
    _name_of(term.name, "variable")
    return Free(term.name) if term.kind == "free" else Exists(term.name)


def _name_of(text: str, form: models.NameForm) -> Name:
    if form == "variable" and not text.replace("_", "a").isalnum():
        raise BadInput(f"a variable is named with letters, digits and _, not {text!r}")
    if form in ("id", "number") and not is_number(text):
        raise BadInput(f"a number has digits only, not {text!r}")
    return Name(text, form)
