"""What a query means on a graph: which words name relations and which attributes, and which variables are values.

SPARQL writes `?x :knows ?y` and `?x :age ?a` alike. Here every clause of a query is read on its own: an atom whose
relation is an attribute becomes a condition, and its variable a value. A word may name both, and a variable may stand
for any relation (`?p`): then there are several readings, and each is asked. Clauses that show the same values in the
same way are one reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any, TypeVar, cast

from tuplet.errors import BudgetExceeded, Refused, UnknownName, WrongKind
from tuplet.graph.graph import NAME_WORD, AttributeWords, KnowledgeGraph
from tuplet.lang.ast import (
    TEXT_TESTS,
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
    Term,
    Value,
    Variable,
    atoms,
    attributes_of,
    terms,
)
from tuplet.lang.reader import whole_number
from tuplet.lang.rewrite import Clause, Literal, clauses, rename
from tuplet.query.bind import find_relation
from tuplet.query.conditions import compared_values

MOST_READINGS = 10_000
F = TypeVar("F", bound=Formula)


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
    # those that are said not to be the type relation stand for links between nodes, no attributes
    links = set[str]()
    for part in atoms(query.body):
        match part:
            case Different(Constant(Name(variable, "variable")), Constant(Name(text, "name"))) if text == TYPE:
                links.add(variable)
    for name in used:
        values = [a for a in atoms(query.body) if isinstance(a, Atom) and a.relation.text == name]
        if name not in links and all(not isinstance(atom.tail, Constant) for atom in values):
            choices[name] += [word for word in graph.attributes.names if graph.attributes.of_entities(word)]
    _restrict(body, choices)
    number = prod(map(len, choices.values()))
    if number > MOST_READINGS:
        variables = " and ".join(f"?{name}" for name in used)
        raise BudgetExceeded(
            f"{variables} may stand for {number:,} choices of relations, at most {MOST_READINGS:,}; name some of them",
            limit="relations",
        )
    hidden = {variable for variable in query.free if variable.name in used}
    shown = [
        Column(c.name, Name(c.what.name, "variable")) if isinstance(c.what, Free) and c.what in hidden else c
        for c in query.shown
    ]
    free = tuple(variable for variable in query.free if variable not in hidden)
    for picked in product(*choices.values()):
        relations = dict(zip(used, picked, strict=True))

        facts = _name_facts([*(column.what for column in shown), *(o.by for o in query.order)], relations)
        columns = tuple(replace(column, what=rename(column.what, facts)) if facts else column for column in shown)
        order = tuple(replace(o, by=rename(o.by, facts)) if facts else o for o in query.order)
        chosen = replace(query, free=free, body=_name_relations(body, relations), shown=columns, order=order)
        yield chosen, relations


def _with_whole_names(formula: Formula, graph: KnowledgeGraph) -> Formula:
    """The formula with the names of relations that variables are compared with as the graph has them."""

    def whole(name: Name) -> Name:
        found = find_relation(name, graph) if name.kind != "variable" else -1
        return name if found < 0 else replace(name, text=graph.relations.name(found), kind="name")

    def changed(part: Formula) -> Formula | None:
        match part:
            case Same(Constant(left), Constant(right)) | Different(Constant(left), Constant(right)):
                if "variable" in (left.kind, right.kind):
                    return type(part)(Constant(whole(left)), Constant(whole(right)))
            case Among(Constant(Name(_, "variable")) as item, choices, negated):
                return Among(item, tuple(whole(name) for name in choices if isinstance(name, Name)), negated)
        return None

    return map_formula(formula, changed)


def map_formula(formula: Formula, change: Callable[[Formula], Formula | None]) -> Formula:
    """The formula with some of its parts replaced; where `change` gives None, the parts of a part are looked at."""
    found = change(formula)
    if found is not None:
        return found
    match formula:
        case Not(body):
            return Not(map_formula(body, change))
        case And(parts) | Or(parts):
            return type(formula)(tuple(map_formula(part, change) for part in parts))
        case _:
            return formula


def _restrict(body: Formula, choices: dict[str, list[str]]) -> None:
    """Leave out choices that a condition on the variable alone excludes: fewer readings are looked at."""
    for part in body.parts if isinstance(body, And) else (body,):
        if isinstance(part, Same | Different | Among | Compare):
            used = {name for name in map(_relation_variable, _sides(part)) if name is not None}
            for name in used & set(choices) if len(used) == 1 else ():
                choices[name] = [word for word in choices[name] if _decide(part, {name: word}) is not False]


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


def _decide(condition: Condition, relations: Mapping[str, str]) -> bool | None:
    """Whether a condition on what variables for relations stand for holds; None if it is about something else."""

    def word(item: object) -> str | None:
        match item:
            case _ if (variable := _relation_variable(item)) is not None:
                return relations.get(variable)
            case Constant(Name(text)) | Name(text):
                return text
            case Value(value):
                return str(value)
            case _:
                return None

    sides = _sides(condition)
    words = [word(side) for side in sides]
    if None in words or not any(_relation_variable(side) in relations for side in sides):
        return None
    match condition:
        case Among(_, listed, negated):
            return (words[0] in [word(choice) for choice in listed]) != negated
        case Compare(operator, _, _, negated):
            return compared_values(operator, words[0], words[1]) != negated
        case _:
            return (words[0] == words[1]) == isinstance(condition, Same)


def _name_relations(formula: F, relations: Mapping[str, str]) -> F:
    """The formula with names in place of predicate variables; conditions on these are decided."""

    def changed(part: Formula) -> Formula | None:
        match part:
            case Atom(Name(variable, "variable") as name, head, tail):
                return Atom(replace(name, text=relations[variable], kind="name"), head, tail)
            case Same() | Different() | Among() | Compare() if (holds := _decide(part, relations)) is not None:
                return And(()) if holds else Or(())
            case Compare() | Among() | Has():
                return rename(part, _name_facts(attributes_of(part), relations))
            case _:
                return None

    return cast(F, map_formula(formula, changed))


def _name_facts(attributes: Iterable[object], relations: Mapping[str, str]) -> dict[Atom, Atom]:
    """The facts that have some attributes, with names in place of predicate variables."""
    return {
        a.of: _name_relations(a.of, relations)
        for a in attributes
        if isinstance(a, Attribute) and isinstance(a.of, Atom)
    }


ENTITY_KINDS = ("name", "id")  # the other kinds of names may be values: a label is a text


@dataclass(frozen=True)
class Reading:
    """Clauses that ask for the same entities and show the same values; `relations` are what `?p` stands for."""

    free: tuple[Free, ...]
    columns: tuple[Column, ...]
    clauses: tuple[Clause, ...] = ()
    order: tuple[Order, ...] = ()
    relations: Mapping[str, str] = field(default_factory=dict)
    alone: bool = True  # the query means nothing else: values of a wrong kind are a mistake


class Impossible(Exception):
    """A reading under which nothing can be an answer, such as a value in the place of an entity."""


def readings(query: Query, graph: KnowledgeGraph, words: AttributeWords, text: str = "") -> list[Reading]:
    """Everything that a query may mean on a graph; none if it contradicts itself."""
    found: list[Reading] = []
    misfits: list[WrongKind] = []
    columns = query.shown or tuple(Column(variable.name, variable) for variable in query.free)
    # Before clauses get variables of their own: what is shown is the same in all of them.
    free, (body,), columns, order = _free_shown(query.free, (query.body,), columns, query.order)
    query = replace(query, free=free, body=body, shown=columns, order=order)
    for chosen, relations in relation_choices(query, graph):
        found += _group_clauses(_missing_values(chosen, graph, words), graph, words, relations, text, misfits)
    if misfits and not found:
        raise misfits[0]
    return found


# --- attributes that are written as relations --------------------------------------------------------------------


def _missing_values(query: Query, graph: KnowledgeGraph, words: AttributeWords) -> Query:
    """The query in which `not exists age(x, a)` says that x has no age: nothing else binds such a variable."""
    used = Counter(terms(query.body))

    def missing(part: Formula) -> Formula | None:
        match part:
            case Not(Atom(relation, head, Free() | Exists() as tail)) if used[tail] == 1:
                if not _is_relation(relation, graph) and words.find(relation.text) is not None:
                    return Has(Attribute(head, relation, tail.name), negated=True)
        return None

    return replace(query, body=map_formula(query.body, missing))


def _is_relation(name: Name, graph: KnowledgeGraph) -> bool:
    if name.kind == "id":
        return True  # a number of the data set
    return find_relation(name, graph) >= 0 or (name.kind == "label" and bool(graph.relations.find_label(name.text)))


def _group_clauses(
    query: Query,
    graph: KnowledgeGraph,
    words: AttributeWords,
    relations: Mapping[str, str],
    text: str,
    misfits: list[WrongKind],
) -> list[Reading]:
    """The readings of a query whose relations are named; `misfits` gets why others are none."""
    groups: dict[Any, Reading] = {}
    alone = not relations
    for clause in clauses(query):
        choices = list(_list_choices(clause, graph, words, query.links))
        alone = alone and len(choices) == 1
        for chosen in choices:
            reader = _ClauseReader(chosen, graph, words, text, alone)
            try:
                literals = reader.literals()
                columns, order = reader.read_shown(query)
            except Impossible:
                continue
            except WrongKind as error:
                if alone:
                    raise
                misfits.append(error)
                continue
            free = tuple(variable for variable in clause.free if variable not in reader.values)
            free, literals, columns, order = _free_shown(free, literals, columns, order)  # those of values
            shown = {column.what for column in columns if isinstance(column.what, Attribute)}
            about = frozenset(part for part in literals if shown & set(attributes_of(part)))
            key = free, columns, about
            before = groups[key].clauses if key in groups else ()
            groups[key] = Reading(free, columns, (*before, Clause(free, literals)), order, relations, alone)
    return [reading if reading.alone == alone else replace(reading, alone=alone) for reading in groups.values()]


def _free_shown(
    free: tuple[Free, ...], parts: tuple[F, ...], columns: tuple[Column, ...], order: tuple[Order, ...]
) -> tuple[tuple[Free, ...], tuple[F, ...], tuple[Column, ...], tuple[Order, ...]]:
    """The same with free variables in place of existential ones whose values are shown: a tuple has to name them."""
    wanted = {c.what for c in columns if isinstance(c.what, Attribute)}
    wanted |= {o.by for o in order if isinstance(o.by, Attribute)}
    if not wanted:
        return free, parts, columns, order
    _add_compared(wanted, [found for part in parts for found in map(attributes_of, atoms(part))])
    bound = {term for attribute in wanted for term in terms(Has(attribute)) if isinstance(term, Exists)}
    if not bound:
        return free, parts, columns, order
    renamed: dict[Term, Term] = {variable: Free(variable.name) for variable in bound}
    more = tuple(sorted((Free(variable.name) for variable in bound), key=lambda variable: variable.name))
    return (
        (*free, *more),
        tuple(rename(part, renamed) for part in parts),
        tuple(replace(c, what=rename(c.what, renamed)) for c in columns),
        tuple(replace(o, by=rename(o.by, renamed)) for o in order),
    )


def _add_compared(wanted: set[Attribute], compared: Iterable[Iterable[Attribute]]) -> None:
    """Add what is compared with a wanted value: it says which of several values is shown."""
    pairs = [pair for pair in map(set, compared) if len(pair) == 2]
    while pairs and any(wanted & pair and not pair <= wanted for pair in pairs):
        for pair in pairs:
            if wanted & pair:
                wanted |= pair


def _list_choices(
    clause: Clause, graph: KnowledgeGraph, words: AttributeWords, links: bool
) -> Iterator[tuple[tuple[Literal, bool], ...]]:
    """The literals of a clause, each with whether it speaks of an attribute; a word that names both gives a choice."""
    options: list[tuple[tuple[Literal, bool], ...]] = []
    for literal in clause.literals:
        atom = literal.body if isinstance(literal, Not) else literal
        if not isinstance(atom, Atom):
            options.append(((literal, False),))
            continue
        relation = _is_relation(atom.relation, graph)
        attribute = words.is_stated(atom.relation.text) and not (links and relation)
        if not relation and not attribute:
            attribute = words.find(atom.relation.text) is not None
            relation = not attribute
        if relation and attribute and isinstance(atom.tail, Constant):
            if atom.tail.name.kind in ENTITY_KINDS:
                attribute = False  # an entity is no value
            elif isinstance(literal, Not):
                relation = False  # readings are alternatives, but both would have to be denied
        options.append(tuple((literal, value) for value in (False, True) if (attribute if value else relation)))
    return product(*options)


@dataclass
class _ClauseReader:
    """One clause, its atoms told apart."""

    chosen: Sequence[tuple[Literal, bool]]
    graph: KnowledgeGraph
    words: AttributeWords
    text: str
    alone: bool
    values: dict[Variable, Attribute] = field(default_factory=dict)

    def literals(self) -> tuple[Literal, ...]:
        """The literals with attributes in place of values."""
        entities = {
            term
            for literal, value in self.chosen
            for atom in [literal.body if isinstance(literal, Not) else literal]
            if isinstance(atom, Atom)
            for term in ((atom.head,) if value else (atom.head, atom.tail))
        }
        values = {literal.tail for literal, value in self.chosen if value and isinstance(literal, Atom)}
        if any(not isinstance(term, Constant) for term in entities & values):
            raise Impossible
        made = [part for literal, value in self.chosen if value for part in self._value_atom(literal, entities)]
        for literal, value in self.chosen:
            if not value:
                found = literal if isinstance(literal, Atom | Not) else self._condition(literal)
                if found is not None and not (self.alone or isinstance(found, Not)):
                    found = self._among_entities(found)
                if found is not None:
                    made.append(found)
        return tuple(dict.fromkeys(made))

    def _among_entities(self, literal: Literal) -> Literal | None:
        """A literal of one meaning among several: what no entity is called was meant as a value, which no entity is."""
        match literal:
            case Among(Constant() | Free() | Exists() as item, choices, negated):
                known = tuple(name for name in choices if isinstance(name, Name) and not self._means_value(name))
                return Among(item, known, negated)
            case Atom(_, left, right) | Same(left, right) | Different(left, right):
                if any(isinstance(term, Constant) and self._means_value(term.name) for term in (left, right)):
                    if isinstance(literal, Different):
                        return None
                    raise Impossible
        return literal

    def _means_value(self, name: Name) -> bool:
        """Whether a word is written like a value, and is no label or name of an entity."""
        entities = self.graph.entities
        if name.kind == "label":
            return not entities.find_label(name.text) and entities.find(name.text) < 0
        return name.kind == "number" and entities.find(name.text) < 0

    def _value_atom(self, literal: Literal, entities: set[Term]) -> list[Literal]:
        """`age(x, a)`: a is a value of x's age; said twice, both values are equal."""
        negated = isinstance(literal, Not)
        atom = literal.body if isinstance(literal, Not) else literal
        assert isinstance(atom, Atom)
        if isinstance(atom.tail, Constant):
            attribute = self.attribute(Attribute(atom.head, atom.relation))
            value = self._as_value(atom.tail.name)
            return [Has(attribute, True, value) if negated else Compare("=", attribute, value)]
        attribute = self.attribute(Attribute(atom.head, atom.relation, atom.tail.name))
        if negated:
            if atom.tail in entities:
                raise Impossible
            raise Refused(
                f"that something does not have {attribute.name.text} ?{atom.tail.name}, which another has, cannot be "
                "asked; compare two values with !="
            )
        if atom.tail in self.values:
            return [Has(attribute), Compare("=", self.values[atom.tail], attribute)]
        self.values[atom.tail] = attribute
        return [Has(attribute)]

    def _condition(self, literal: Condition) -> Literal | None:
        """A condition with its values in place; None if it always holds."""
        match literal:
            case Same(left, right) | Different(left, right):
                equal = isinstance(literal, Same)
                one, other = self.values.get(left), self.values.get(right)  # type: ignore[arg-type]
                if one is None and other is None:
                    return literal
                if one is None:
                    one, right, other = other, left, None
                assert one is not None
                if other is None and not (isinstance(right, Constant) and right.name.kind not in ENTITY_KINDS):
                    if equal:
                        raise Impossible  # an entity is no value
                    return None
                if other is None:
                    assert isinstance(right, Constant)
                    return Compare("=" if equal else "!=", one, self._as_value(right.name))
                return Compare("=" if equal else "!=", one, other)
            case Compare(operator, left, right, negated):
                return self._compare(operator, self._operand(left), self._operand(right), negated)
            case Among(item, listed, negated):
                attribute = self.values.get(item) if isinstance(item, Free | Exists) else None
                if isinstance(item, Attribute):
                    attribute = self.attribute(item)
                if attribute is not None:
                    values = tuple(
                        self._as_value(word) if isinstance(word, Name) else word
                        for word in listed
                        if not (isinstance(word, Name) and word.kind in ENTITY_KINDS)  # an entity is no value
                    )
                    return Among(attribute, values, negated)
                names = tuple(word if isinstance(word, Name) else _as_name(word) for word in listed)
                return Among(item, names, negated)
            case Has(attribute, False, Value() as value):  # whatever else is said of the attribute
                own = replace(attribute, variable=f"{attribute.variable}={value.value}")
                return Compare("=", self.attribute(own), value)
            case Has(attribute, negated, given):
                return Has(self.attribute(attribute), negated, given)

    def _compare(self, operator: Any, left: Operand, right: Operand, negated: bool) -> Literal:
        entity, other = (left, right) if isinstance(left, Constant | Free | Exists) else (right, left)
        if not isinstance(entity, Constant | Free | Exists):
            return Compare(operator, left, right, negated)
        if operator in TEXT_TESTS:
            name = Attribute(entity, Name(NAME_WORD))
            return Compare(operator, name if entity is left else left, right if entity is left else name, negated)
        if operator in ("=", "!="):
            if isinstance(other, Attribute):
                raise Impossible  # an entity is no value
            term = Constant(_as_name(other)) if isinstance(other, Value) else other
            return (Same if (operator == "=") != negated else Different)(entity, term)
        known = next(filter(None, self.words.suggest("")), "age")
        shown = f"?{entity.name}" if not isinstance(entity, Constant) else f"<{entity.name.text}>"
        dotted = "." in shown and "://" not in shown  # a word may have dots, so this was read as one name
        such = shown.replace(".", ">.", 1).removesuffix(">") if dotted else f"{shown}.{known}"
        place = next(((part.position, part.length) for part in (left, right) if isinstance(part, Value)), (0, 1))
        message = f"{shown} is an entity, which is not larger or smaller; compare an attribute, such as {such}"
        raise WrongKind(message, self.text, *place)

    def _operand(self, operand: Operand) -> Operand:
        if isinstance(operand, Attribute):
            return self.attribute(operand)
        return self.values.get(operand, operand) if isinstance(operand, Free | Exists) else operand

    def _as_value(self, name: Name) -> Value:
        """A name in the place of a value: a quoted word is text, a number a number."""
        try:
            plain = whole_number(name.text) if name.kind == "number" else name.text
        except ValueError as error:
            raise WrongKind(f"{name.text} is no value: {error}", self.text, name.position, name.length) from None
        return Value(plain, "", name.position, name.length)

    def attribute(self, attribute: Attribute) -> Attribute:
        """An attribute by its own name; `x.a` of a value is refused, and what nobody has is unknown."""
        of, name = attribute.of, attribute.name
        if isinstance(of, Free | Exists) and of in self.values:
            raise WrongKind(f"?{of.name} is a value, which has no attributes", self.text, name.position, name.length)
        if isinstance(of, Atom) and of.tail in self.values:
            raise Impossible  # a value is no end of a fact
        found = self.words.find(name.text, facts=isinstance(of, Atom))
        if found is None:
            relation = self.graph.relations.find(name.text) >= 0
            note = f"is a relation, not an attribute; write {name.text}(?x, ?y)" if relation else ""
            choices = () if relation else self.words.suggest(name.text)
            raise UnknownName("attribute", name.text, choices, note, self.text, name.position, name.length)
        return replace(attribute, name=Name(found))

    def read_shown(self, query: Query) -> tuple[tuple[Column, ...], tuple[Order, ...]]:
        """What is shown, and in which order."""
        settled = []
        for column in query.shown:
            what = self.values.get(column.what, column.what) if isinstance(column.what, Free) else column.what
            if isinstance(column.what, Attribute):
                what = self.attribute(column.what)
            settled.append(column if what is column.what else replace(column, what=what))
        order = tuple(replace(o, by=self.attribute(o.by)) if isinstance(o.by, Attribute) else o for o in query.order)
        return tuple(settled), order


def _as_name(value: Value) -> Name:
    """A value in the place of an entity: text is its label."""
    return Name(str(value.value), "label", value.position, value.length)
