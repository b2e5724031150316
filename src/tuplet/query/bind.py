"""From names to ids, once: clauses of a query become query graphs over one knowledge graph."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, ParseError, UnknownName, WrongKind
from tuplet.graph.attributes import FAMILIES, AttributeColumn, Family, Ids, kind_of, members
from tuplet.graph.graph import AttributeWords, KnowledgeGraph
from tuplet.graph.names import Strings, Vocabulary
from tuplet.lang.ast import (
    MIRRORED,
    RDF_TYPE,
    TEXT_TESTS,
    TYPE,
    Among,
    And,
    Atom,
    Attribute,
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
    Operator,
    Or,
    Same,
    Term,
    Value,
    Variable,
    attributes_of,
    terms,
)
from tuplet.lang.print import write_name
from tuplet.lang.reader import MAX_DIGITS, is_number
from tuplet.lang.rewrite import Clause, Literal, rename
from tuplet.query.conditions import (
    COMPARES,
    PAIR,
    Allowed,
    BoundCondition,
    Compared,
    Equal,
    Outside,
    Paired,
    Within,
    arrow_texts,
    common,
    compared_values,
    next_key,
    together,
)
from tuplet.query.ranking import Edge, QueryGraph

OPPOSITE: dict[str, Operator] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
FAMILY_WORDS = {"number": "numbers", "boolean": "true and false", "time": "dates", "text": "text"}
ONE_OF_FAMILY = {"number": "a number", "boolean": "true or false", "time": "a date", "text": "text"}


class NeverHolds(Exception):
    """A condition on named entities that does not hold: the clause has no answers."""


@dataclass(frozen=True)
class ClauseBinder:
    """Binds one clause: names become ids, variables numbers, conditions what they leave of the entities."""

    graph: KnowledgeGraph
    words: AttributeWords
    text: str
    misfits: list[WrongKind] | None = None  # see `bind`
    variables: dict[Variable, int] = field(default_factory=dict)

    def node(self, term: Term) -> int:
        """The number of a variable, ~entity of a constant."""
        if isinstance(term, Constant):
            return ~resolve(term.name, "entity", self.graph.entities, self.text)
        return self.variables.setdefault(term, len(self.variables))

    def bind(self, clause: Clause, alternatives: Alternatives | None) -> QueryGraph:
        """The clause as a query graph; raises `NeverHolds` if it contradicts itself."""
        edges: list[Edge] = []
        different: list[tuple[int, int]] = []
        conditions: list[BoundCondition] = []
        others: list[Condition] = []
        for literal in clause.literals:
            match literal:
                case Atom() | Not(Atom()):
                    atom = literal if isinstance(literal, Atom) else literal.body
                    assert isinstance(atom, Atom)
                    relation = self.graph.relations.find(atom.relation.text)
                    if relation < 0:
                        relation = relation_id(atom.relation, self.graph, self.text)
                    head, tail = atom.head, atom.tail
                    if atom.relation.text in _TYPES:
                        head, tail = (_of_type(end, relation, self.graph) for end in (head, tail))
                    edges.append(Edge(self.node(head), relation, self.node(tail), isinstance(literal, Not)))
                case Different(left, right):
                    a, b = self.node(left), self.node(right)
                    if a == b:
                        raise NeverHolds  # two names of one entity
                    if a >= 0 or b >= 0:
                        different.append((min(a, b), max(a, b)))
                case Same(left, right):
                    a, b = self.node(left), self.node(right)
                    if a >= 0 and b >= 0 and a != b:
                        conditions.append(Equal(a, b, said=(literal,)))
                    elif a >= 0 or b >= 0:
                        one = members(np.array([~min(a, b)]))
                        conditions += [Within(max(a, b), one, said=(literal,))] if a != b else []
                    elif a != b:
                        raise NeverHolds
                case Among(Constant() | Free() | Exists()):
                    conditions += self._bind_named(literal)
                case Not():
                    raise ValueError("a negation stands above an atom")
                case _:
                    others.append(literal)
        if others:
            conditions += self.bind_conditions(others)
        if alternatives is not None:
            conditions.append(self._bind_alternatives(alternatives))
        # A label and a name may mean the same thing, so identical atoms are dropped here once more.
        return QueryGraph(
            variables=tuple(map(attrgetter("name"), self.variables)),
            free=tuple(range(len(clause.free))),
            edges=tuple(dict.fromkeys(edges)),
            different=tuple(dict.fromkeys(different)),
            conditions=tuple(conditions),
        )

    def _bind_alternatives(self, alternatives: Alternatives) -> Within:
        """The entities that meet all conditions of one of several lists."""
        found: list[NDArray[np.integer]] = [np.zeros(0, np.int64)]
        for conditions in alternatives.lists:
            try:
                named = [
                    part for part in conditions if isinstance(part, Among) and not isinstance(part.item, Attribute)
                ]
                met = [found for part in named for found in self._bind_named(part)]
                met += self.bind_conditions(conditions)
            except NeverHolds:
                continue
            except WrongKind as error:
                if self.misfits is None:
                    raise
                self.misfits.append(error)
                continue
            allowed: NDArray[np.integer] | None = None  # what was met so far
            for condition in sorted(met, key=lambda condition: isinstance(condition, Outside)):
                assert isinstance(condition, Within | Outside)
                if allowed is None and isinstance(condition, Within):
                    allowed = condition.entities()
                else:
                    everyone = np.arange(len(self.graph.entities)) if allowed is None else allowed
                    allowed = everyone[condition.holds(everyone)]
            found.append(np.arange(len(self.graph.entities)) if allowed is None else allowed)
        said = Or(tuple(And(conditions) for conditions in alternatives.lists))
        return Within(self.node(alternatives.variable), members(np.unique(np.concatenate(found))), said=(said,))

    def _bind_named(self, among: Among) -> list[BoundCondition]:
        """The condition that an entity is, or is not, one of the named ones."""
        assert not isinstance(among.item, Attribute)
        names = [
            resolve(name, "entity", self.graph.entities, self.text) for name in among.choices if isinstance(name, Name)
        ]
        at, listed = self.node(among.item), np.unique(np.array(names, np.int64))
        if at < 0:
            if (~at in names) == among.negated:
                raise NeverHolds
            return []
        return [Outside(at, listed, said=(among,)) if among.negated else Within(at, members(listed), said=(among,))]

    def bind_conditions(self, conditions: Sequence[Condition]) -> list[BoundCondition]:
        """The conditions on variables; raises `NeverHolds` if one on named entities does not hold."""
        bound: list[BoundCondition] = []
        for condition in conditions:
            match condition:
                case Has(attribute, True, value):
                    bound += _with_words(self._bind_missing(attribute, value), condition)
                case Compare(operator, Value(left), Value(right), negated):
                    if compared_values(operator, left, right) == negated:
                        raise NeverHolds
        own, pairs = by_attribute(conditions)
        allowed = {attribute: self.find_allowed(attribute, parts) for attribute, parts in own.items()}
        joined = {side for pair in pairs for side in (pair.left, pair.right)}
        for attribute, choices in allowed.items():
            if attribute not in joined or own[attribute]:
                bound += _with_words(self._bind_allowed(attribute, choices), *own[attribute])
        for pair in pairs:
            bound += _with_words(self._bind_pair(pair, allowed), pair)
        others = [pair for pair in pairs if pair.left != pair.right]
        for side, number in Counter(side for pair in others for side in (pair.left, pair.right)).items():
            if not isinstance(side, Attribute) or number == 1:
                continue
            keys = [choice.column.ranked.keys for choice in allowed[side]]
            if any((some[1:] == some[:-1]).any() for some in keys):
                said = f"{side.name.text} has several values and is compared with two others"
                raise BadInput(f"{said}; compare it with one of them, or with a given value")
        return bound

    # --- one attribute ----------------------------------------------------------------------------------------------

    def columns(self, attribute: Attribute) -> list[AttributeColumn]:
        """The columns of an attribute, one for each family of values."""
        if isinstance(attribute.of, Atom):
            relation = relation_id(attribute.of.relation, self.graph, self.text)
            return self.words.of_facts(attribute.name.text, relation)
        return self.words.of_entities(attribute.name.text)

    def find_allowed(self, attribute: Attribute, conditions: Iterable[Condition]) -> list[Allowed]:
        """What the conditions on a value leave of each column."""
        found = [Allowed(column, 0, column.distinct) for column in self.columns(attribute)]
        for condition in conditions:
            if isinstance(condition, Compare):
                assert isinstance(condition.right, Value)
                found = self._keep_fitting(found, attribute, [condition.right])
                found = [self._narrow(choice, condition) for choice in found]
            elif isinstance(condition, Among):
                values = [value for value in condition.choices if isinstance(value, Value)]
                found = self._keep_fitting(found, attribute, values)
                found = [_among(choice, values, condition.negated) for choice in found]
        return [choice for choice in found if choice.low < choice.high]

    def _keep_fitting(self, found: list[Allowed], attribute: Attribute, values: Sequence[Value]) -> list[Allowed]:
        """The columns whose values compare with the given ones; none of them is refused by name."""
        kept = [choice for choice in found if any(_fits(value, choice.column) is not None for value in values)]
        columns = self.columns(attribute)
        if kept or not values or not columns or any(_fits(v, column) is not None for v in values for column in columns):
            return kept
        known = " or ".join(FAMILY_WORDS[column.family] for column in columns)
        wrong = values[0]
        said = repr(wrong.value) if isinstance(wrong.value, str) else str(wrong.value)
        message = f"{attribute.name.text} holds {known}, and {said} is {ONE_OF_FAMILY[FAMILIES[kind_of(wrong.value)]]}"
        raise WrongKind(message, self.text, wrong.position, wrong.length)

    def _narrow(self, choice: Allowed, condition: Compare) -> Allowed:
        """What one comparison with a given value leaves."""
        column, operator = choice.column, condition.operator
        value = condition.right
        assert isinstance(value, Value)
        if operator == "language":
            return replace(choice, column=column.only(_in_language(column, str(value.value)) != condition.negated))
        if operator == "starts" and isinstance(column.values, Strings):
            key = str(value.value).encode()
            after = column.values.before(next_key(key)) if next_key(key) else column.distinct
            return _cut(choice, column.values.before(key), after, condition.negated)
        if operator not in COMPARES:
            return _mark(choice, self._match_texts(column, operator, value) != condition.negated)
        if condition.negated:
            operator = OPPOSITE[operator]
        plain = _fits(value, column)
        below, upto = column.place(plain), column.place(plain, after=True)
        if operator in ("=", "!="):
            if value.language:
                return replace(choice, column=column.only(_have_values(column, [value]) != (operator == "!=")))
            return _cut(choice, below, upto, operator == "!=")
        end = upto if operator in ("<=", ">") else below
        return _cut(choice, 0, end) if operator.startswith("<") else _cut(choice, end, column.distinct)

    def _match_texts(self, column: AttributeColumn, operator: Operator, value: Value) -> NDArray[np.bool_]:
        """Which values of a column of texts have a part, end or pattern. [distinct values]"""
        if not isinstance(column.values, Strings):
            message = f"{operator} is about text, and {column.name} holds {FAMILY_WORDS[column.family]}"
            raise WrongKind(message, self.text, value.position, value.length)
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = str(value.value)
        try:
            found = getattr(pc, TEXT_TESTS[operator].arrow)(arrow_texts(column.values), wanted)
        except pa.ArrowInvalid as error:
            reason = str(error).split(":", 1)[-1].strip()
            raise ParseError(f"bad pattern {wanted!r}: {reason}", self.text, value.position, value.length) from None
        marked: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
        return marked

    def _bind_allowed(self, attribute: Attribute, choices: list[Allowed]) -> list[BoundCondition]:
        """The condition that a value is allowed."""
        one = choices[0] if len(choices) == 1 and choices[0].marks is None else None
        if isinstance(attribute.of, Atom):
            head, tail = self.node(attribute.of.head), self.node(attribute.of.tail)
            if one and head >= 0 and tail >= 0 and head != tail:
                return [Paired(head, tail, one.column.ranked, one.low, one.high)]
            return self._facts(head, tail, _union([choice.keys() for choice in choices]))
        at = self.node(attribute.of)
        if at < 0:
            entity = np.array([~at])
            if not any(choice.allows(choice.column.ranked.gather(entity)[1]).any() for choice in choices):
                raise NeverHolds
            return []
        if one:
            return [Within(at, one.column.ranked, one.low, one.high)]
        return [Within(at, members(_union([choice.keys() for choice in choices])))]

    def _bind_missing(self, attribute: Attribute, value: Value | None) -> list[BoundCondition]:
        """The condition that there is no value, or not the given one."""
        given = [] if value is None else [Compare("=", attribute, value)]
        having = _union([choice.keys() for choice in self.find_allowed(attribute, given)])
        if isinstance(attribute.of, Atom):
            raise BadInput("that a fact has no such attribute cannot be asked; ask for the facts that have it")
        at = self.node(attribute.of)
        if at >= 0:
            return [Outside(at, having)]
        if bool(np.isin(~at, having)):
            raise NeverHolds
        return []

    @staticmethod
    def _facts(head: int, tail: int, keys: Ids) -> list[BoundCondition]:
        """The condition that two nodes are the ends of one of the listed facts."""
        if head >= 0 and tail >= 0 and head != tail:
            return [Paired(head, tail, members(keys))]
        heads, tails = keys // PAIR, keys % PAIR
        fits = np.ones(len(keys), dtype=bool)
        if head < 0:
            fits &= heads == ~head
        if tail < 0:
            fits &= tails == ~tail
        if head == tail:
            fits &= heads == tails
        if head < 0 and tail < 0:
            if not fits.any():
                raise NeverHolds
            return []
        ends = (tails if head < 0 else heads)[fits]
        return [Within(max(head, tail), members(np.unique(ends)))]

    # --- two attributes ---------------------------------------------------------------------------------------------

    def _bind_pair(self, pair: Compare, allowed: dict[Attribute, list[Allowed]]) -> list[BoundCondition]:
        """The condition that two values compare."""
        left, right = pair.left, pair.right
        assert isinstance(left, Attribute)
        assert isinstance(right, Attribute)
        if pair.operator not in COMPARES:
            raise BadInput(f"{pair.operator} compares with a given text, not with another attribute")
        operator = OPPOSITE[pair.operator] if pair.negated else pair.operator
        if left == right:  # one and the same value
            if operator not in ("=", "<=", ">="):
                raise NeverHolds
            return self._bind_allowed(left, allowed[left])
        found = [(a, b) for a in allowed[left] for b in allowed[right] if a.column.family == b.column.family]
        if isinstance(left.of, Atom) or isinstance(right.of, Atom):
            return self._bind_pair_of_facts(left, right, operator, found)
        one, other = self.node(left.of), self.node(right.of)
        if not found:
            raise NeverHolds
        parts = [common(a, b) for a, b in found]
        if one >= 0 and other >= 0 and one != other:
            if len(parts) == 1 or operator == "=":
                return [Compared(one, other, operator, *(parts[0] if len(parts) == 1 else together(parts)))]
            raise BadInput(f"{left.name.text} or {right.name.text} holds values of several kinds, which do not compare")
        # one entity, or one of them is named: the entities for which it holds can be listed
        variable = max(one, other)
        listed = []
        for a, b in parts:
            keys = np.unique(a.keys if one >= 0 else b.keys)
            first, second = (keys if node >= 0 else np.full(len(keys), ~node) for node in (one, other))
            listed.append(keys[Compared(0, 1, operator, a, b).holds(first, second)])
        if variable < 0:
            if not any(len(keys) for keys in listed):
                raise NeverHolds
            return []
        return [Within(variable, members(_union(listed)))]

    def _bind_pair_of_facts(
        self, left: Attribute, right: Attribute, operator: Operator, found: list[tuple[Allowed, Allowed]]
    ) -> list[BoundCondition]:
        """A comparison of an attribute of a fact with one of the same fact, or of one of its ends."""
        if not isinstance(left.of, Atom):
            return self._bind_pair_of_facts(right, left, MIRRORED[operator], [(b, a) for a, b in found])
        fact = left.of
        listed = []
        for a, b in found:
            first, second = common(a, b)
            keys = np.unique(first.keys)
            if right.of == fact:
                others = keys
            elif right.of == fact.head:
                others = keys // PAIR
            elif right.of == fact.tail:
                others = keys % PAIR
            else:
                raise BadInput(
                    f"{left.name.text} of a fact compares with values of the same fact or of its ends, "
                    f"not with {right.name.text} of something else"
                )
            listed.append(keys[Compared(0, 1, operator, first, second).holds(keys, others)])
        return self._facts(self.node(fact.head), self.node(fact.tail), _union(listed))


def by_attribute(conditions: Iterable[Formula]) -> tuple[dict[Attribute, list[Condition]], list[Compare]]:
    """The conditions on one value each, which comes first in a comparison, by attribute; and those that compare two."""
    own: dict[Attribute, list[Condition]] = {}
    pairs: list[Compare] = []
    for condition in conditions:
        match condition:
            case Compare(_, Attribute() as left, Attribute() as right):
                own.setdefault(left, [])
                own.setdefault(right, [])
                pairs.append(condition)
            case Compare(operator, Value() as value, Attribute() as attribute, negated):
                turned = Compare(MIRRORED.get(operator, operator), attribute, value, negated)
                own.setdefault(attribute, []).append(turned)
            case Compare(_, Attribute() as attribute) | Has(attribute, False) | Among(Attribute() as attribute):
                own.setdefault(attribute, []).append(condition)
    return own, pairs


def _with_words(bound: list[BoundCondition], *conditions: Condition) -> list[BoundCondition]:
    """Conditions that know how they were written."""
    return [replace(condition, said=conditions) for condition in bound]


def _union(keys: Sequence[Ids]) -> Ids:
    return np.unique(np.concatenate([np.zeros(0, np.int64), *keys]))


def _cut(choice: Allowed, low: int, high: int, negated: bool = False) -> Allowed:
    """The values of some ranks, or all others."""
    if negated:
        marks = np.ones(choice.column.distinct, dtype=bool)
        marks[low:high] = False
        return _mark(choice, marks)
    return replace(choice, low=max(choice.low, low), high=min(choice.high, high))


def _mark(choice: Allowed, marks: NDArray[np.bool_]) -> Allowed:
    return replace(choice, marks=marks if choice.marks is None else choice.marks & marks)


def _in_language(column: AttributeColumn, language: str) -> NDArray[np.bool_]:
    """Which texts are in a language: `en` is that tag alone, `en*` also en-GB, `*` any tag, an empty one none. [n]"""
    wanted = language.lower()
    tags = [tag.lower() for tag in column.tags or ("",)]
    wide = [tag for tag in tags if tag and f"{tag}-".startswith(wanted.rstrip("*") + "-" * (len(wanted) > 1))]
    codes = [i for i, tag in enumerate(tags) if (tag in wide if wanted.endswith("*") else tag == wanted)]
    spoken = column.content.languages
    return np.isin(np.zeros(len(column), np.int16) if spoken is None else spoken, codes)


def _have_values(column: AttributeColumn, values: Sequence[Value]) -> NDArray[np.bool_]:
    """Which rows have one of the given values; one with a language tag is a text with that tag. [n]"""
    found = np.zeros(len(column), dtype=bool)
    for value in values:
        plain = _fits(value, column)
        if plain is not None:
            same = column.ranked.rank == column.place(plain)
            same &= column.place(plain) < column.place(plain, after=True)
            found |= same & _in_language(column, value.language) if value.language else same
    return found


def _among(choice: Allowed, values: Sequence[Value], negated: bool) -> Allowed:
    column = choice.column
    if any(value.language for value in values):
        return replace(choice, column=column.only(_have_values(column, values) != negated))
    marks = np.zeros(column.distinct, dtype=bool)
    for value in values:
        plain = _fits(value, column)
        if plain is not None:
            marks[column.place(plain) : column.place(plain, after=True)] = True
    return _mark(choice, marks != negated)


def _fits(value: Value, column: AttributeColumn) -> Any:
    """A given value as one of a column's family; None if it is none. A text that is a date is one among dates."""
    plain = value.value
    family: Family = FAMILIES[kind_of(plain)]
    if family == column.family:
        return plain
    if family == "text" and column.family == "time":
        try:
            return datetime.datetime.fromisoformat(str(plain))
        except ValueError:
            return None
    return None


@dataclass(frozen=True)
class Alternatives:
    """What a variable has to meet, one way or another: all conditions of one of the lists."""

    variable: Variable
    lists: tuple[tuple[Condition, ...], ...]


def merge_alternatives(clauses: Sequence[Clause]) -> list[tuple[Clause, Alternatives | None]]:
    """The clauses, those that are alternatives of one variable together.

    >>> from tuplet.lang.logic import parse_logic
    >>> from tuplet.lang.rewrite import clauses
    >>> text = "?x : r(?x, a) & (?x.age > 50 | ?x.name = 'Bob') & has(?x.size)"
    >>> found = merge_alternatives(clauses(parse_logic(text)))
    >>> [(len(clause.literals), len(some.lists)) for clause, some in found]
    [(2, 2)]
    """
    groups: dict[tuple[Literal, ...], list[Clause]] = {}
    for clause in clauses:
        numbers = _number_variables(clause)
        atoms = tuple([rename(part, numbers) for part in clause.literals if not _may_merge(part)])
        groups.setdefault(atoms, []).append(clause)
    found: list[tuple[Clause, Alternatives | None]] = []
    for group in groups.values():
        one = _merge_group(group) if len(group) > 1 else None
        found += [one] if one is not None else [(clause, None) for clause in group]
    return found


def _merge_group(clauses: Sequence[Clause]) -> tuple[Clause, Alternatives | None] | None:
    """Clauses of the same atoms as one, if what differs is about one variable alone."""
    free, names = clauses[0].free, {number: old for old, number in _number_variables(clauses[0]).items()}
    members = []
    for clause in clauses:
        renamed = {old: names[number] for old, number in _number_variables(clause).items()}
        members.append(tuple([rename(part, renamed) for part in clause.literals]))
    if not any(isinstance(part, Atom) for part in members[0]):
        return None
    shared = set(members[0]).intersection(*members[1:])
    # conditions on one attribute speak of the same value, so they stay together
    differing = [part for literals in members for part in literals if part not in shared]
    own = {attribute for part in differing for attribute in attributes_of(part)}
    shared -= {part for part in shared if _may_merge(part) and own & set(attributes_of(part))}
    rest = [tuple(part for part in literals if part not in shared) for literals in members]
    about = {term for literals in rest for part in literals for term in terms(part) if isinstance(term, Free | Exists)}
    kept = tuple(part for part in members[0] if part in shared)
    if any(not literals for literals in rest):
        return Clause(free, kept), None  # one alternative asks for nothing more
    if len(about) != 1:
        return None
    [variable] = about
    return Clause(free, kept), Alternatives(variable, tuple(rest))  # type: ignore[arg-type]


def _may_merge(part: Literal) -> bool:
    """Whether a literal is a condition that says of one entity which it may be."""
    match part:
        case Compare() | Has() | Among():
            return all(not isinstance(attribute.of, Atom) for attribute in attributes_of(part))
        case _:
            return False


def _number_variables(clause: Clause) -> dict[Term, Term]:
    """A number for each existential variable, in the order in which the atoms have them."""
    found = [term for part in clause.literals if not _may_merge(part) for term in terms(part)]
    return {term: Exists(str(n)) for n, term in enumerate(dict.fromkeys(t for t in found if isinstance(t, Exists)))}


_TYPES = (TYPE, RDF_TYPE)
FEW = 8  # names that are all listed where one is unknown
MOST_LISTED = 10_000  # relations that are looked through for the last part of an IRI
_PLAIN = re.compile(r"[\w-]+")


def bind(
    clauses: Sequence[Clause],
    graph: KnowledgeGraph,
    text: str = "",
    words: AttributeWords | None = None,
    misfits: list[WrongKind] | None = None,
) -> tuple[QueryGraph, ...]:
    """The clauses of a query as query graphs; none if the query contradicts itself.

    In every clause the free variables come first, in the order asked. `words` are the attributes of the graph, `text`
    is where carets point to. Clauses with values of a wrong kind are left out, and `misfits` gets why; without it they
    are mistakes.
    """
    words, found = words or AttributeWords(graph), []
    for clause, alternatives in merge_alternatives(clauses) if len(clauses) > 1 else zip(clauses, [None], strict=False):
        try:
            binder = ClauseBinder(graph, words, text, misfits, dict(zip(clause.free, count(), strict=False)))
            found.append(binder.bind(clause, alternatives))
        except NeverHolds:
            continue
        except WrongKind as error:
            if misfits is None:
                raise
            misfits.append(error)
    return tuple(found) if len(found) < 2 else tuple(dict.fromkeys(found))


def resolve(name: Name, kind: str, words: Vocabulary, text: str = "") -> int:
    """The id of a name; the one place where names are looked up."""
    if name.kind == "id":
        if name.text.isdigit() and int(name.text) < len(words):
            return int(name.text)
        note = f"does not exist (there are {len(words)}, from 0)"
        if words.find(name.text) >= 0:
            note += f"; the name {name.text} is written {write_name(name.text)}"
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
        close = _suggest_names(name, words)
        few = [write_name(words.name(i)) for i in range(len(words))] if not close and len(words) <= FEW else []
        note = ""
        if not close and is_number(name.text) and len(name.text) <= MAX_DIGITS and int(name.text) < len(words):
            note = f"is not the name of any; number {int(name.text)} of the dataset is written @{int(name.text)}"
        raise UnknownName(kind, name.text, close or few, note, sure=bool(close), **_place(name, text))
    return number


def find_relation(name: Name, graph: KnowledgeGraph) -> int:
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
    if len(words) > MOST_LISTED or not _PLAIN.fullmatch(name.text):
        return -1
    called = ((i, words.name(i)) for i in range(len(words)))
    ending = [i for i, word in called if "://" in word and re.split(r"[#/]", word)[-1] == name.text]
    return ending[0] if len(ending) == 1 else -1


def relation_id(name: Name, graph: KnowledgeGraph, text: str = "") -> int:
    """The relation that a name means; an unknown one is refused, with the nearest or all of a few."""
    found = find_relation(name, graph)
    if found < 0 and name.text == TYPE and text[name.position :][: name.length] != TYPE:  # a label, or a node alone
        known = [f"-[:{graph.relations.name(i)}]->" for i in range(min(len(graph.relations), 2))]
        note = f"has no facts here: this graph has no labels; write how the node is connected, as {' or '.join(known)}"
        raise UnknownName("relation", name.text, note=note, **_place(name, text))
    return found if found >= 0 else resolve(name, "relation", graph.relations, text)


def _suggest_names(name: Name, words: Vocabulary, most: int = 3) -> list[str]:
    """What may have been meant, as it has to be written: a name, a label in quotes; each entity once."""
    if name.kind != "label" and words.find_label(name.text):
        return [f'"{name.text}"']  # right word, but it is a label
    chosen: dict[int, str] = {}
    for word in words.suggest(name.text, 3 * most):
        number = words.find(word)
        if number >= 0 and (name.kind != "label" or number not in chosen):
            chosen[number] = write_name(word)
        elif number < 0:
            for labelled in words.find_label(word)[:1]:
                if name.kind == "label" or labelled not in chosen:
                    chosen[labelled] = f'"{word}"'
    return list(chosen.values())[:most]


def _place(name: Name, text: str) -> dict[str, Any]:
    return {"text": text, "position": name.position, "length": name.length}


def _of_type(term: Term, relation: int, graph: KnowledgeGraph) -> Term:
    """A type by its whole name, where the last part of an IRI was written: `(d:Drug)` in a graph from RDF."""
    if not isinstance(term, Constant) or term.name.kind != "name":
        return term
    if graph.entities.find(term.name.text) >= 0 or not _PLAIN.fullmatch(term.name.text):
        return term
    types = np.unique(graph.adjacency.relation(relation)[1])
    named = [name for i in types.tolist() if re.split(r"[#/]", name := graph.entities.name(i))[-1] == term.name.text]
    return Constant(replace(term.name, text=named[0])) if len(named) == 1 else term
