"""Variables in the place of relations: a query is asked once for every choice of what they may stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from tuplet.errors import BudgetExceeded
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import (
    TYPE,
    Among,
    And,
    Atom,
    Attribute,
    Column,
    Compare,
    Condition,
    Constant,
    Different,
    Exists,
    Formula,
    Free,
    Has,
    Name,
    Not,
    Operand,
    Or,
    Order,
    Query,
    Same,
    Value,
    atoms,
)
from tuplet.query.bind import find_relation
from tuplet.query.bind_conditions import compared_values

MOST_READINGS = 10_000


def relation_choices(query: Query, graph: KnowledgeGraph) -> Iterator[tuple[Query, dict[str, str]]]:
    """The query with every choice of relations for its predicate variables."""
    used = dict.fromkeys(
        a.relation.text for a in atoms(query.body) if isinstance(a, Atom) and a.relation.kind == "variable"
    )
    if not used:
        yield query, {}
        return
    body = _with_whole_names(query.body, graph)
    choices = {name: [*graph.relations] for name in used}
    links = set(_links(query.body))
    for name in used:
        values = [a for a in atoms(query.body) if isinstance(a, Atom) and a.relation.text == name]
        if name not in links and all(not isinstance(atom.tail, Constant) for atom in values):
            choices[name] += [word for word in graph.attributes.names if graph.attributes.of_entities(word)]
    _restricted(body, choices)
    number = 1
    for names in choices.values():
        number *= len(names)
    if number > MOST_READINGS:
        variables = " and ".join(f"?{name}" for name in used)
        raise BudgetExceeded(
            f"{variables} may stand for {number:,} choices of relations, at most {MOST_READINGS:,}; name some of them",
            limit="relations",
        )
    hidden = {variable.name for variable in query.free} & set(used)
    columns = query.shown or tuple(Column(variable.name, variable) for variable in query.free)
    shown = tuple(
        Column(c.name, Name(c.what.name, "variable")) if isinstance(c.what, Free) and c.what.name in hidden else c
        for c in columns
    )
    free = tuple(variable for variable in query.free if variable.name not in hidden)
    for picked in product(*choices.values()):
        relations = dict(zip(used, picked, strict=True))
        chosen = replace(query, free=free, body=_named(body, relations), shown=_columns(shown, relations))
        yield replace(chosen, order=_order(query.order, relations)), relations


def _columns(shown: tuple[Column, ...], relations: Mapping[str, str]) -> tuple[Column, ...]:
    return tuple(
        replace(c, what=_named_attribute(c.what, relations)) if isinstance(c.what, Attribute) else c for c in shown
    )


def _order(order: tuple[Order, ...], relations: Mapping[str, str]) -> tuple[Order, ...]:
    return tuple(replace(o, by=_named_attribute(o.by, relations)) if isinstance(o.by, Attribute) else o for o in order)


def _links(body: Formula) -> Iterator[str]:
    """The variables that are said not to be the type relation: they stand for links between nodes, no attributes."""
    for atom in atoms(body):
        match atom:
            case Different(Constant(Name(variable, "variable")), Constant(Name(text, "name"))) if text == TYPE:
                yield variable


def _with_whole_names(formula: Formula, graph: KnowledgeGraph) -> Formula:
    """The formula with the names of relations that variables are compared with as the graph has them."""

    def whole(name: Name) -> Name:
        found = find_relation(name, graph) if name.kind != "variable" else -1
        return name if found < 0 else replace(name, text=graph.relations.name(found), kind="name")

    match formula:
        case Not(body):
            return Not(_with_whole_names(body, graph))
        case And(parts) | Or(parts):
            return type(formula)(tuple(_with_whole_names(part, graph) for part in parts))
        case Same(Constant(left), Constant(right)) | Different(Constant(left), Constant(right)):
            if "variable" in (left.kind, right.kind):
                return type(formula)(Constant(whole(left)), Constant(whole(right)))
        case Among(Constant(Name(_, "variable")) as item, choices, negated):
            return Among(item, tuple(whole(name) for name in choices if isinstance(name, Name)), negated)
    return formula


def _restricted(body: Formula, choices: dict[str, list[str]]) -> None:
    """Leave out choices that a condition on the variable alone excludes: fewer readings are looked at."""
    for part in body.parts if isinstance(body, And) else (body,):
        if isinstance(part, Same | Different | Among | Compare):
            used = {name for name in map(_relation_variable, _sides(part)) if name is not None}
            for name in used & set(choices) if len(used) == 1 else ():
                choices[name] = [word for word in choices[name] if _decided(part, {name: word}) is not False]


def _sides(condition: Condition) -> tuple[object, ...]:
    match condition:
        case Same(left, right) | Different(left, right) | Compare(_, left, right):
            return left, right
        case Among(item):
            return (item,)
        case _:
            return ()


def _relation_variable(item: object) -> str | None:
    """The variable that an operand is, if it may stand for a relation."""
    match item:
        case Constant(Name(text, "variable")) | Free(text) | Exists(text):
            return text
        case _:
            return None


def _decided(condition: Condition, relations: Mapping[str, str]) -> bool | None:
    """Whether a condition on what variables for relations stand for holds; None if it is about something else."""

    def word(item: object) -> str | None:
        variable = _relation_variable(item)
        if variable is not None:
            return relations.get(variable)
        match item:
            case Constant(Name(text)) | Name(text):
                return text
            case Value(value):
                return str(value)
            case _:
                return None

    words = [word(side) for side in _sides(condition)]
    named = any(_relation_variable(side) in relations for side in _sides(condition))
    if not named or None in words:
        return None
    match condition:
        case Same():
            return words[0] == words[1]
        case Different():
            return words[0] != words[1]
        case Among(_, listed, negated):
            return (words[0] in [word(choice) for choice in listed]) != negated
        case Compare(operator, _, _, negated):
            return compared_values(operator, words[0], words[1]) != negated
        case _:
            return None


def _named(formula: Formula, relations: Mapping[str, str]) -> Formula:
    """The formula with names in place of predicate variables; conditions on these are decided."""
    match formula:
        case Atom(Name(variable, "variable") as name, head, tail):
            return Atom(replace(name, text=relations[variable], kind="name"), head, tail)
        case Not(body):
            return Not(_named(body, relations))
        case And(parts) | Or(parts):
            return type(formula)(tuple(_named(part, relations) for part in parts))
        case Same() | Different() | Among() | Compare() if (holds := _decided(formula, relations)) is not None:
            return And(()) if holds else Or(())
        case Compare(operator, left, right, negated):
            return Compare(operator, _named_operand(left, relations), _named_operand(right, relations), negated)
        case Among(Attribute() as item, listed, negated):
            return Among(_named_attribute(item, relations), listed, negated)
        case Has(attribute, negated, value):
            return Has(_named_attribute(attribute, relations), negated, value)
        case _:
            return formula


def _named_operand(operand: Operand, relations: Mapping[str, str]) -> Operand:
    return _named_attribute(operand, relations) if isinstance(operand, Attribute) else operand


def _named_attribute(attribute: Attribute, relations: Mapping[str, str]) -> Attribute:
    if isinstance(attribute.of, Atom):
        named = _named(attribute.of, relations)
        assert isinstance(named, Atom)
        return replace(attribute, of=named)
    return attribute
