"""From names to ids, once: clauses of a query become query graphs over one knowledge graph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import UnknownName, WrongKind
from tuplet.graph.attributes import members
from tuplet.graph.graph import AttributeWords
from tuplet.lang.ast import (
    TYPE,
    Among,
    And,
    Atom,
    Attribute,
    Condition,
    Constant,
    Different,
    Exists,
    Free,
    Name,
    Not,
    Or,
    Query,
    Same,
    Term,
)
from tuplet.lang.printer import written
from tuplet.lang.rules import Clause, clauses
from tuplet.lang.tokens import is_number
from tuplet.lang.values import MAX_DIGITS
from tuplet.query.alternatives import Alternatives, merged
from tuplet.query.bind_conditions import ConditionBinder, NeverHolds
from tuplet.query.conditions import BoundCondition, Equal, Outside, Within
from tuplet.query.query_graph import Edge, QueryGraph

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_TYPES = (TYPE, RDF_TYPE)
FEW = 8  # names that are all listed where one is unknown
MOST_LISTED = 10_000  # relations that are looked through for the last part of an IRI
_PLAIN = re.compile(r"[\w-]+")


class Words(Protocol):
    """What binding needs of a vocabulary."""

    def __len__(self) -> int: ...
    def name(self, number: int) -> str: ...
    def find(self, name: str) -> int: ...
    def find_label(self, label: str) -> list[int]: ...
    def suggest(self, text: str, most: int = 3) -> list[str]: ...


class Names(Protocol):
    """What binding needs of a graph."""

    @property
    def entities(self) -> Words: ...
    @property
    def relations(self) -> Words: ...
    @property
    def notes(self) -> Mapping[str, Any]: ...


def bind(query: Query, graph: Names, text: str = "") -> tuple[QueryGraph, ...]:
    """The clauses of a query as query graphs; none if the query contradicts itself.

    In every clause the free variables come first, in the order asked; `text` is where carets point to.
    """
    return bind_clauses(clauses(query), graph, text)


def bind_clauses(
    clauses: Sequence[Clause],
    graph: Names,
    text: str = "",
    words: AttributeWords | None = None,
    misfits: list[WrongKind] | None = None,
) -> tuple[QueryGraph, ...]:
    """Clauses as query graphs; conditions need the attributes of the graph.

    Clauses with values of a wrong kind are left out, and `misfits` gets why; without it they are mistakes.
    """
    bound = []
    for clause, alternatives in merged(clauses):
        try:
            bound.append(_bind_clause(clause, graph, text, words, alternatives, misfits))
        except WrongKind as error:
            if misfits is None:
                raise
            misfits.append(error)
    found = [clause for clause in bound if clause is not None]
    return tuple(found) if len(found) < 2 else tuple(dict.fromkeys(found))


def resolve(name: Name, kind: str, words: Words, text: str = "") -> int:
    """The id of a name; the one place where names are looked up."""
    if name.kind == "id":
        if name.text.isdigit() and int(name.text) < len(words):
            return int(name.text)
        note = f"does not exist (there are {len(words)}, from 0)"
        if words.find(name.text) >= 0:
            note += f"; the name {name.text} is written {written(name.text)}"
        raise UnknownName(f"{kind} number", f"@{name.text}", note=note, **_place(name, text))
    if name.kind == "label":
        matches = words.find_label(name.text)
        if len(matches) > 1:
            shown = [f"<{words.name(number)}>" for number in matches[:5]]
            several = "entities" if kind == "entity" else "relations"
            note = f"is the label of {len(matches)} {several}; write the exact name"
            raise UnknownName(kind, name.text, shown, note=note, **_place(name, text))
        if matches:
            return matches[0]
    number = words.find(name.text)
    if number < 0:
        close = _choices(name, words)
        few = [written(words.name(i)) for i in range(len(words))] if not close and len(words) <= FEW else []
        note = ""
        if not close and is_number(name.text) and len(name.text) <= MAX_DIGITS and int(name.text) < len(words):
            note = f"is not the name of any; number {int(name.text)} of the dataset is written @{int(name.text)}"
        raise UnknownName(kind, name.text, close or few, note, sure=bool(close), **_place(name, text))
    return number


def find_relation(name: Name, graph: Names) -> int:
    """The relation that a name means, -1 if there is none.

    Where names are IRIs, the last part is enough if it is that of one relation alone; what languages call the type of
    an entity is the relation that the graph has for it.
    """
    words = graph.relations
    found = words.find(name.text)
    if found >= 0 or name.kind not in ("name", "label"):
        return found
    if name.kind == "label":
        labelled = words.find_label(name.text)
        return labelled[0] if len(labelled) == 1 else -1
    if name.text in _TYPES:
        own = graph.notes.get("type_relation")
        return max((words.find(word) for word in (own, TYPE, RDF_TYPE) if word), default=-1)
    return _by_last_part(name.text, words)


def _by_last_part(text: str, words: Words) -> int:
    """The one IRI that ends in `/text` or `#text`, -1 if there is none or several."""
    if len(words) > MOST_LISTED or not _PLAIN.fullmatch(text):
        return -1
    ending = [i for i in range(len(words)) if "://" in (word := words.name(i)) and _last_part(word) == text]
    return ending[0] if len(ending) == 1 else -1


def _last_part(iri: str) -> str:
    return re.split(r"[#/]", iri)[-1]


def relation_id(name: Name, graph: Names, text: str = "") -> int:
    """The relation that a name means; an unknown one is refused, with the nearest or all of a few."""
    found = find_relation(name, graph)
    if found < 0 and name.text == TYPE and text[name.position :][: name.length] != TYPE:  # a label, or a node alone
        known = [f"-[:{graph.relations.name(i)}]->" for i in range(min(len(graph.relations), 2))]
        note = f"has no facts here: this graph has no labels; write how the node is connected, as {' or '.join(known)}"
        raise UnknownName("relation", name.text, note=note, **_place(name, text))
    return found if found >= 0 else resolve(name, "relation", graph.relations, text)


def _choices(name: Name, words: Words, most: int = 3) -> list[str]:
    """What may have been meant, as it has to be written: a name, a label in quotes; each entity once."""
    if name.kind != "label" and words.find_label(name.text):
        return [f'"{name.text}"']  # right word, but it is a label
    chosen: dict[int, str] = {}
    for word in words.suggest(name.text, 3 * most):
        number = words.find(word)
        if number >= 0 and (name.kind != "label" or number not in chosen):
            chosen[number] = written(word)
        elif number < 0:
            for labelled in words.find_label(word)[:1]:
                if name.kind == "label" or labelled not in chosen:
                    chosen[labelled] = f'"{word}"'
    return list(chosen.values())[:most]


def _place(name: Name, text: str) -> dict[str, Any]:
    return {"text": text, "position": name.position, "length": name.length}


def _one_of(
    alternatives: Alternatives, binder: ConditionBinder, graph: Names, text: str, misfits: list[WrongKind] | None
) -> Within:
    """The entities that meet all conditions of one of several lists."""
    found: list[NDArray[np.integer]] = [np.zeros(0, np.int64)]
    for conditions in alternatives.lists:
        try:
            met = [*_among_named(conditions, binder, graph, text), *binder.bind(conditions)]
        except NeverHolds:
            continue
        except WrongKind as error:
            if misfits is None:
                raise
            misfits.append(error)
            continue
        found.append(_allowed(met, len(graph.entities)))
    said = Or(tuple(And(conditions) for conditions in alternatives.lists))
    return Within(binder.node(alternatives.variable), members(np.unique(np.concatenate(found))), said=(said,))


def _allowed(conditions: Sequence[BoundCondition], entities: int) -> NDArray[np.integer]:
    """The entities that meet all of some conditions on one variable, ascending."""
    allowed: NDArray[np.integer] | None = None
    for condition in sorted(conditions, key=lambda condition: isinstance(condition, Outside)):
        assert isinstance(condition, Within | Outside)
        if allowed is None and isinstance(condition, Within):
            allowed = condition.entities()
        else:
            everyone = np.arange(entities) if allowed is None else allowed
            allowed = everyone[condition.holds(everyone)]
    return np.arange(entities) if allowed is None else allowed


def _among_named(
    conditions: Sequence[Condition], binder: ConditionBinder, graph: Names, text: str
) -> list[BoundCondition]:
    """The conditions that a variable is, or is not, one of the named entities."""
    found: list[BoundCondition] = []
    for condition in conditions:
        if isinstance(condition, Among) and not isinstance(condition.item, Attribute):
            names = (name for name in condition.choices if isinstance(name, Name))
            listed = [resolve(name, "entity", graph.entities, text) for name in names]
            ids, at = np.unique(np.array(listed, np.int64)), binder.node(condition.item)
            found.append(Outside(at, ids) if condition.negated else Within(at, members(ids)))
    return found


def _of_type(term: Term, relation: int, graph: Names) -> Term:
    """A type by its whole name, where the last part of an IRI was written: `(d:Drug)` in a graph from RDF."""
    if not isinstance(term, Constant) or term.name.kind != "name":
        return term
    if graph.entities.find(term.name.text) >= 0 or not _PLAIN.fullmatch(term.name.text):
        return term
    adjacency = getattr(graph, "adjacency", None)
    if adjacency is None:
        return term
    types = np.unique(adjacency.relation(relation)[1])
    named = [name for i in types.tolist() if _last_part(name := graph.entities.name(i)) == term.name.text]
    return Constant(replace(term.name, text=named[0])) if len(named) == 1 else term


def _bind_clause(
    clause: Clause,
    graph: Names,
    text: str,
    words: AttributeWords | None,
    alternatives: Alternatives | None,
    misfits: list[WrongKind] | None,
) -> QueryGraph | None:
    variables: dict[Free | Exists, int] = {variable: i for i, variable in enumerate(clause.free)}

    def node(term: Term) -> int:
        if isinstance(term, Constant):
            return ~resolve(term.name, "entity", graph.entities, text)
        return variables.setdefault(term, len(variables))

    edges: list[Edge] = []
    different: list[tuple[int, int]] = []
    conditions: list[BoundCondition] = []
    others: list[Condition] = []
    for literal in clause.literals:
        match literal:
            case Atom() | Not(Atom()):
                atom = literal if isinstance(literal, Atom) else literal.body
                assert isinstance(atom, Atom)
                relation = relation_id(atom.relation, graph, text)
                head, tail = atom.head, atom.tail
                if atom.relation.text in _TYPES:
                    head, tail = (_of_type(end, relation, graph) for end in (head, tail))
                edges.append(Edge(node(head), relation, node(tail), isinstance(literal, Not)))
            case Different(left, right):
                a, b = node(left), node(right)
                if a == b:
                    return None  # two names of one entity: the inequality never holds
                if a >= 0 or b >= 0:
                    different.append((min(a, b), max(a, b)))
            case Same(left, right):
                a, b = node(left), node(right)
                if a >= 0 and b >= 0 and a != b:
                    conditions.append(Equal(a, b, (literal,)))
                elif a >= 0 or b >= 0:
                    one = members(np.array([~min(a, b)]))
                    conditions += [Within(max(a, b), one, said=(literal,))] if a != b else []
                elif a != b:
                    return None
            case Among(Constant() | Free() | Exists() as item, choices, negated):
                at = node(item)
                listed = [resolve(name, "entity", graph.entities, text) for name in choices if isinstance(name, Name)]
                if at >= 0:
                    ids = np.unique(np.array(listed, np.int64))
                    said = (literal,)
                    conditions.append(Outside(at, ids, said) if negated else Within(at, members(ids), said=said))
                elif (~at in listed) == negated:
                    return None
            case Not():
                raise ValueError("a negation stands above an atom")
            case _:
                others.append(literal)
    if others or alternatives:
        assert words is not None, "conditions on attributes need the attributes of a graph"
        binder = ConditionBinder(words, node, lambda atom: relation_id(atom.relation, graph, text), text)
        try:
            conditions += binder.bind(others)
        except NeverHolds:
            return None
        if alternatives is not None:
            conditions.append(_one_of(alternatives, binder, graph, text, misfits))
    names = tuple([variable.name for variable in variables])
    # A label and a name may mean the same thing, so identical atoms are dropped here once more.
    return QueryGraph(
        variables=names,
        free=tuple(range(len(clause.free))),
        edges=tuple(dict.fromkeys(edges)),
        different=tuple(dict.fromkeys(different)),
        conditions=tuple(conditions),
    )
