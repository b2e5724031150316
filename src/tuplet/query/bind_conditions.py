"""Conditions by name become conditions on ids: a comparison is a range of ranks in the column of an attribute.

All conditions on one value are taken together, so that they speak of the same one. What is a range is looked up in the
column as it lies on disk; what is not (parts of texts, lists) becomes the list of the entities for which it holds.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, ParseError, WrongKind
from tuplet.graph.attributes import FAMILIES, AttributeColumn, Family, Ids, comparable, kind_of, members
from tuplet.graph.graph import AttributeWords
from tuplet.graph.names import Strings
from tuplet.lang.ast import Among, Atom, Attribute, Compare, Condition, Has, Operator, Term, Value
from tuplet.query.allowed_values import Allowed, common, together
from tuplet.query.conditions import COMPARES, PAIR, BoundCondition, Compared, Outside, Paired, Within

if TYPE_CHECKING:
    import pyarrow

MIRRORED: dict[str, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE: dict[str, Operator] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
FAMILY_WORDS = {"number": "numbers", "boolean": "true and false", "time": "dates", "text": "text"}

Node = Callable[[Term], int]  # the number of a variable, ~entity of a constant
Relation = Callable[[Atom], int]


class NeverHolds(Exception):
    """A condition on named entities that does not hold: the clause has no answers."""


@dataclass(frozen=True)
class ConditionBinder:
    """Binds the conditions of one clause."""

    words: AttributeWords
    node: Node
    relation: Relation
    text: str

    def bind(self, conditions: Sequence[Condition]) -> list[BoundCondition]:
        """The conditions on variables; raises `NeverHolds` if one on named entities does not hold."""
        own: dict[Attribute, list[Condition]] = {}
        bound: list[BoundCondition] = []
        pairs: list[Compare] = []
        for condition in conditions:
            match condition:
                case Has(attribute, True, value):
                    bound += _said(self._missing(attribute, value), condition)
                case Has(attribute) | Among(Attribute() as attribute):
                    own.setdefault(attribute, []).append(condition)
                case Compare(_, Attribute() as left, Attribute() as right):
                    own.setdefault(left, [])
                    own.setdefault(right, [])
                    pairs.append(condition)
                case Compare(operator, Value() as value, Attribute() as attribute, negated):
                    turned = Compare(MIRRORED.get(operator, operator), attribute, value, negated)
                    own.setdefault(attribute, []).append(turned)
                case Compare(_, Attribute() as attribute, Value()):
                    own.setdefault(attribute, []).append(condition)
                case Compare(operator, Value(left), Value(right), negated):
                    if compared_values(operator, left, right) == negated:
                        raise NeverHolds
        allowed = {attribute: self.allowed(attribute, parts) for attribute, parts in own.items()}
        joined = {side for pair in pairs for side in (pair.left, pair.right)}
        for attribute, choices in allowed.items():
            if attribute not in joined or own[attribute]:
                bound += _said(self._kept(attribute, choices), *own[attribute])
        for pair in pairs:
            bound += _said(self._pair(pair, allowed), pair)
        others = [pair for pair in pairs if pair.left != pair.right]
        for side, number in Counter(side for pair in others for side in (pair.left, pair.right)).items():
            if number > 1 and isinstance(side, Attribute) and any(c.has_several() for c in allowed[side]):
                said = f"{side.name.text} has several values and is compared with two others"
                raise BadInput(f"{said}; compare it with one of them, or with a given value")
        return bound

    # --- one attribute ----------------------------------------------------------------------------------------------

    def columns(self, attribute: Attribute) -> list[AttributeColumn]:
        """The columns of an attribute, one for each family of values."""
        if isinstance(attribute.of, Atom):
            return self.words.of_facts(attribute.name.text, self.relation(attribute.of))
        return self.words.of_entities(attribute.name.text)

    def allowed(self, attribute: Attribute, conditions: Iterable[Condition]) -> list[Allowed]:
        """What the conditions on a value leave of each column."""
        found = [Allowed(column, 0, column.distinct) for column in self.columns(attribute)]
        for condition in conditions:
            if isinstance(condition, Compare):
                assert isinstance(condition.right, Value)
                found = self._fitting(found, attribute, [condition.right])
                found = [self._narrowed(choice, condition) for choice in found]
            elif isinstance(condition, Among):
                values = [value for value in condition.choices if isinstance(value, Value)]
                found = self._fitting(found, attribute, values)
                found = [_among(choice, values, condition.negated) for choice in found]
        return [choice for choice in found if choice.low < choice.high]

    def _fitting(self, found: list[Allowed], attribute: Attribute, values: Sequence[Value]) -> list[Allowed]:
        """The columns whose values compare with the given ones; none of them is refused by name."""
        kept = [choice for choice in found if any(_fits(value, choice.column) is not None for value in values)]
        columns = self.columns(attribute)
        if kept or not values or not columns or any(_fits(v, column) is not None for v in values for column in columns):
            return kept
        known = " or ".join(FAMILY_WORDS[column.family] for column in columns)
        wrong = values[0]
        said = repr(wrong.value) if isinstance(wrong.value, str) else str(wrong.value)
        message = f"{attribute.name.text} holds {known}, and {said} is {_word(wrong)}"
        raise WrongKind(message, self.text, wrong.position, wrong.length)

    def _narrowed(self, choice: Allowed, condition: Compare) -> Allowed:
        """What one comparison with a given value leaves."""
        column, operator = choice.column, condition.operator
        value = condition.right
        assert isinstance(value, Value)
        if operator == "language":
            return replace(choice, column=column.only(_spoken(column, str(value.value)) != condition.negated))
        if operator == "starts" and isinstance(column.values, Strings) and not condition.negated:
            key = str(value.value).encode()
            after = column.values.before(_next(key)) if _next(key) else column.distinct
            return _cut(choice, column.values.before(key), after)
        if operator not in COMPARES:
            return _marked(choice, self._matching(column, operator, value) != condition.negated)
        if condition.negated:
            operator = OPPOSITE[operator]
        plain = _fits(value, column)
        below, upto = column.place(plain), column.place(plain, after=True)
        if value.language and operator in ("=", "!="):
            return replace(choice, column=column.only(_tagged(column, [value]) != (operator == "!=")))
        match operator:
            case "=":
                return _cut(choice, below, upto)
            case "<":
                return _cut(choice, 0, below)
            case "<=":
                return _cut(choice, 0, upto)
            case ">":
                return _cut(choice, upto, column.distinct)
            case ">=":
                return _cut(choice, below, column.distinct)
            case _:
                marks = np.ones(column.distinct, dtype=bool)
                marks[below:upto] = False
                return _marked(choice, marks)

    def _matching(self, column: AttributeColumn, operator: Operator, value: Value) -> NDArray[np.bool_]:
        """Which values of a column of texts have a part, beginning, end or pattern. [distinct values]"""
        wanted = str(value.value)
        if operator == "starts" and isinstance(column.values, Strings):
            marks = np.zeros(column.distinct, dtype=bool)
            key = wanted.encode()
            marks[column.values.before(key) : column.values.before(_next(key)) if _next(key) else None] = True
            return marks
        if not isinstance(column.values, Strings):
            message = f"{operator} is about text, and {column.name} holds {FAMILY_WORDS[column.family]}"
            raise WrongKind(message, self.text, value.position, value.length)
        import pyarrow.compute as pc

        texts = _arrow(column.values)
        match operator:
            case "contains":
                found = pc.match_substring(texts, wanted)
            case "ends":
                found = pc.ends_with(texts, wanted)
            case "starts":
                found = pc.starts_with(texts, wanted)
            case _:
                found = self._matched(texts, wanted, value)
        marked: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
        return marked

    def _matched(self, texts: pyarrow.Array, pattern: str, value: Value) -> pyarrow.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            return pc.match_substring_regex(
                texts, pattern
            )  # takes time in proportion to the text, whatever the pattern
        except pa.ArrowInvalid as error:
            reason = str(error).split(":", 1)[-1].strip()
            raise ParseError(f"bad pattern {pattern!r}: {reason}", self.text, value.position, value.length) from None

    def _kept(self, attribute: Attribute, choices: list[Allowed]) -> list[BoundCondition]:
        """The condition that a value is allowed."""
        if isinstance(attribute.of, Atom):
            return self._of_fact(attribute.of, choices)
        at = self.node(attribute.of)
        if at < 0:
            if not any(choice.allows(_ranks(choice.column, ~at)).any() for choice in choices):
                raise NeverHolds
            return []
        if len(choices) == 1 and choices[0].marks is None:
            return [Within(at, choices[0].column.ranked, choices[0].low, choices[0].high)]
        return [Within(at, members(_union([choice.keys() for choice in choices])))]

    def _missing(self, attribute: Attribute, value: Value | None) -> list[BoundCondition]:
        """The condition that there is no value, or not the given one."""
        given = [] if value is None else [Compare("=", attribute, value)]
        having = _union([choice.keys() for choice in self.allowed(attribute, given)])
        if isinstance(attribute.of, Atom):
            raise BadInput("that a fact has no such attribute cannot be asked; ask for the facts that have it")
        at = self.node(attribute.of)
        if at >= 0:
            return [Outside(at, having)]
        if bool(np.isin(~at, having)):
            raise NeverHolds
        return []

    def _of_fact(self, atom: Atom, choices: list[Allowed]) -> list[BoundCondition]:
        """The condition that a stated fact has an allowed value."""
        head, tail = self.node(atom.head), self.node(atom.tail)
        if len(choices) == 1 and choices[0].marks is None and head >= 0 and tail >= 0 and head != tail:
            return [Paired(head, tail, choices[0].column.ranked, choices[0].low, choices[0].high)]
        return self._facts(head, tail, _union([choice.keys() for choice in choices]))

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

    def _pair(self, pair: Compare, allowed: dict[Attribute, list[Allowed]]) -> list[BoundCondition]:
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
            return self._kept(left, allowed[left])
        found = [(a, b) for a in allowed[left] for b in allowed[right] if a.column.family == b.column.family]
        if isinstance(left.of, Atom) or isinstance(right.of, Atom):
            return self._pair_of_facts(left, right, operator, found)
        one, other = self.node(left.of), self.node(right.of)
        if not found:
            raise NeverHolds
        parts = [(operator, *common(a, b)) for a, b in found]
        if one >= 0 and other >= 0 and one != other:
            if len(parts) == 1:
                return [Compared(one, other, *parts[0])]
            if operator == "=":
                return [Compared(one, other, operator, *together([(a, b) for _, a, b in parts]))]
            raise BadInput(f"{left.name.text} or {right.name.text} holds values of several kinds, which do not compare")
        # one entity, or one of them is named: the entities for which it holds can be listed
        variable = max(one, other)
        listed = []
        for compare, a, b in parts:
            keys = np.unique(a.keys if one >= 0 else b.keys)
            same = Compared(0, 1, compare, a, b)
            first = keys if one >= 0 else np.full(len(keys), ~one)
            second = keys if other >= 0 else np.full(len(keys), ~other)
            listed.append(keys[same.holds(first, second)])
        if variable < 0:
            if not any(len(keys) for keys in listed):
                raise NeverHolds
            return []
        return [Within(variable, members(_union(listed)))]

    def _pair_of_facts(
        self, left: Attribute, right: Attribute, operator: Operator, found: list[tuple[Allowed, Allowed]]
    ) -> list[BoundCondition]:
        """A comparison of an attribute of a fact with one of the same fact, or of one of its ends."""
        if not isinstance(left.of, Atom):
            return self._pair_of_facts(right, left, MIRRORED[operator], [(b, a) for a, b in found])
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


def _said(bound: list[BoundCondition], *conditions: Condition) -> list[BoundCondition]:
    """Conditions that know how they were written."""
    return [replace(condition, said=conditions) for condition in bound]


def _ranks(column: AttributeColumn, key: int) -> NDArray[np.int32]:
    return column.ranked.gathered(np.array([key]))[1]


def _union(keys: Sequence[Ids]) -> Ids:
    return np.unique(np.concatenate([np.zeros(0, np.int64), *keys]))


def _cut(choice: Allowed, low: int, high: int) -> Allowed:
    return replace(choice, low=max(choice.low, low), high=min(choice.high, high))


def _marked(choice: Allowed, marks: NDArray[np.bool_]) -> Allowed:
    return replace(choice, marks=marks if choice.marks is None else choice.marks & marks)


def _spoken(column: AttributeColumn, language: str) -> NDArray[np.bool_]:
    """Which texts are in a language: `en` is that tag alone, `en*` also en-GB, `*` any tag, an empty one none. [n]"""
    wanted = language.lower()
    tags = [tag.lower() for tag in column.tags or ("",)]
    wide = [tag for tag in tags if tag and f"{tag}-".startswith(wanted.rstrip("*") + "-" * (len(wanted) > 1))]
    codes = [i for i, tag in enumerate(tags) if (tag in wide if wanted.endswith("*") else tag == wanted)]
    spoken = column.content.languages
    return np.isin(np.zeros(len(column), np.int16) if spoken is None else spoken, codes)


def _tagged(column: AttributeColumn, values: Sequence[Value]) -> NDArray[np.bool_]:
    """Which rows have one of the given values; one with a language tag is a text with that tag. [n]"""
    found = np.zeros(len(column), dtype=bool)
    for value in values:
        plain = _fits(value, column)
        if plain is not None:
            same = column.ranked.rank == column.place(plain)
            same &= column.place(plain) < column.place(plain, after=True)
            found |= same & _spoken(column, value.language) if value.language else same
    return found


def _among(choice: Allowed, values: Sequence[Value], negated: bool) -> Allowed:
    column = choice.column
    if any(value.language for value in values):
        return replace(choice, column=column.only(_tagged(column, values) != negated))
    marks = np.zeros(column.distinct, dtype=bool)
    for value in values:
        plain = _fits(value, column)
        if plain is not None:
            marks[column.place(plain) : column.place(plain, after=True)] = True
    return _marked(choice, marks != negated)


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


def _word(value: Value) -> str:
    return {"number": "a number", "boolean": "true or false", "time": "a date", "text": "text"}[
        FAMILIES[kind_of(value.value)]
    ]


def compared_values(operator: str, left: Any, right: Any) -> bool:
    """Whether two values compare; values of different families differ, and nothing else."""
    if FAMILIES[kind_of(left)] != FAMILIES[kind_of(right)]:
        return operator == "!="
    if operator in COMPARES:
        return bool(COMPARES[operator](np.asarray(comparable(left)), np.asarray(comparable(right))))
    match operator:
        case "contains":
            return str(right) in str(left)
        case "starts":
            return str(left).startswith(str(right))
        case "ends":
            return str(left).endswith(str(right))
        case _:
            return re.search(str(right), str(left)) is not None


def _next(key: bytes) -> bytes:
    """The first bytes behind all that begin with a key; nothing if there are none."""
    stripped = key.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b""


def _arrow(strings: Strings) -> pyarrow.Array:
    import pyarrow as pa

    blob, offsets = np.ascontiguousarray(strings.blob), np.ascontiguousarray(strings.offsets)
    return pa.LargeStringArray.from_buffers(len(strings), pa.py_buffer(offsets), pa.py_buffer(blob))
