"""Conditions of Cypher.

    condition  := xor (OR xor)*        xor := and (XOR and)*        and := not (AND not)*        not := NOT* test
    test       := side [(= | <> | < | <= | > | >= | =~ | STARTS WITH | ENDS WITH | CONTAINS) side]
                | side IN list | side IS [NOT] NULL | variable:Label… | path | EXISTS(path) | EXISTS { [MATCH] path }
    side       := value | variable | variable.property | type(relationship) | id(node) | elementId(node)

A path in a condition says that such facts exist; it names no new variables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn, TypeAlias

from tuplet.errors import hint
from tuplet.lang.ast import (
    Among,
    Atom,
    Attribute,
    Compare,
    Constant,
    Different,
    Exists,
    Formula,
    Has,
    Name,
    Operator,
    Same,
    Value,
)
from tuplet.lang.cypher_paths import PatternReader
from tuplet.lang.cypher_patterns import FALSE, TRUE, Part, Relationship, all_of, any_of, joined, none_of
from tuplet.lang.tokens import Token, is_number

FLIPPED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SIGNS: dict[str, Operator] = {"=": "=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "=~": "matches"}
_ARITHMETIC = ("+", "-", "*", "/", "%", "^")
_FLAGS = re.compile(r"\(\?[a-zA-Z]+\)")
AGGREGATES = ("AVG", "COLLECT", "COUNT", "MAX", "MIN", "PERCENTILECONT", "PERCENTILEDISC", "STDEV", "STDEVP", "SUM")


@dataclass(frozen=True)
class Identity:
    """The name of a node, which is what `id(node)` is here."""

    node: Exists


@dataclass(frozen=True)
class TypeOf:
    """The type of a relationship."""

    relationship: Relationship


Side: TypeAlias = "Value | tuple[Value, ...] | Exists | Relationship | Attribute | Identity | TypeOf | None"


class ConditionReader(PatternReader):
    """The conditions of WHERE."""

    def condition(self) -> Formula:
        self.deeper()
        parts = [self.exclusive()]
        while self.keyword("OR"):
            parts.append(self.exclusive())
        self.depth -= 1
        return any_of(parts)

    def exclusive(self) -> Formula:
        fresh, first = self.fresh, self.token
        formula = self.all_parts()
        while self.keyword("XOR"):
            other = self.all_parts()
            self.only_known(fresh, first)
            formula = any_of([all_of([formula, none_of(other)]), all_of([none_of(formula), other])])
        return formula

    def all_parts(self) -> Formula:
        parts = [self.negated()]
        while self.keyword("AND"):
            parts.append(self.negated())
        return all_of(parts)

    def negated(self) -> Formula:
        token, fresh = self.token, self.fresh
        negative = False
        while self.keyword("NOT"):
            negative = not negative
        formula = self.test()
        if not negative:
            return formula
        self.only_known(fresh, token)
        return none_of(formula)

    def only_known(self, fresh: int, token: Token) -> None:
        """Refuse to negate what has nodes or relationships of its own."""
        if self.fresh > fresh:
            self.refuse(
                "this asks that there is no such node or relationship (¬∃); only facts of a named type between "
                "variables of the query can be negated",
                token,
            )

    def test(self) -> Formula:
        if self.at("("):
            if self.at_path():
                return self.facts()
            self.advance()
            formula = self.condition()
            self.expect(")", "after a condition")
            return formula
        if self.at_keyword("EXISTS") and self.tokens[self.index + 1].text in ("(", "{"):
            return self.exists()
        token = self.token
        left = self.side()
        formula = self.comparisons(left, token)
        if self.token.kind == "sign" and self.token.text in _ARITHMETIC:
            self.refuse("arithmetic is not supported; compute the value first")
        return formula

    @cached_property
    def closing(self) -> dict[int, int]:
        """Where each parenthesis is closed."""
        found: dict[int, int] = {}
        opened: list[int] = []
        for index, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text == "(":
                opened.append(index)
            elif token.kind == "sign" and token.text == ")" and opened:
                found[opened.pop()] = index
        return found

    def at_path(self) -> bool:
        """Whether a parenthesis opens a node that a relationship follows."""
        closing = self.closing.get(self.index)
        if closing is None:
            return False
        after = [token.text for token in self.tokens[closing + 1 : closing + 4]]
        if after[:1] == ["<"]:
            after = after[1:]
        return after[:1] == ["-"] and after[1:2] in (["-"], ["["])

    def facts(self) -> Formula:
        """A path as a condition."""
        parts: list[Part] = []
        self.path(parts, new=False)
        return joined([parts])

    def exists(self) -> Formula:
        self.advance()
        if self.accept("("):
            if self.at("("):
                formula = self.facts()
            else:
                token = self.token
                found = self.side()
                if not isinstance(found, Attribute):
                    self.fail("EXISTS() takes a pattern or a property", token)
                formula = Has(found)
            self.expect(")", "after EXISTS(…")
            return formula
        self.advance()
        self.keyword("MATCH")
        parts: list[Part] = []
        self.path(parts, new=False)
        while self.accept(","):
            self.path(parts, new=False)
        if self.keyword("WHERE"):
            parts.append(self.condition())
        self.expect("}", "after EXISTS { …")
        return joined([parts])

    def comparisons(self, left: Side, token: Token) -> Formula:
        """What follows the left side of a comparison."""
        formulas: list[Formula] = []
        while True:
            sign = self.token
            operator = self.comparing()
            if operator is None:
                break
            place = self.token
            right = self.side()
            formulas.append(self.comparison(operator, left, right, token, sign))
            left, token = right, place
        if formulas:
            return all_of(formulas)
        if self.keyword("IN"):
            return self.listed(left, token)
        if self.keyword("IS"):
            absent = not self.keyword("NOT")
            if not self.keyword("NULL"):
                self.unexpected("NULL" if not absent else "NULL or NOT NULL after IS", ("NULL", "NOT"))
            if isinstance(left, Attribute):
                return Has(left, absent)
            return TRUE if absent == (left is None) else FALSE
        if isinstance(left, Exists) and self.at(":"):
            return self.labels(left)
        if isinstance(left, Attribute):
            return Compare("=", left, Value(True))
        if isinstance(left, Value) and isinstance(left.value, bool):
            return TRUE if left.value else FALSE
        if self.token.kind == "sign" and self.token.text in _ARITHMETIC:
            self.refuse("arithmetic is not supported; compute the value first")
        self.unexpected("a comparison such as = or IN", ("AND", "OR", "IN", "IS", "CONTAINS", "RETURN"))

    def comparing(self) -> Operator | None:
        token = self.token
        if token.kind == "sign" and token.text in _SIGNS:
            self.advance()
            return _SIGNS[token.text]
        if token.kind == "sign" and token.text == "!":
            self.fail("in Cypher, 'not equal' is written <>")
        if self.keyword("STARTS"):
            if not self.keyword("WITH"):
                self.unexpected("WITH after STARTS")
            return "starts"
        if self.keyword("ENDS"):
            if not self.keyword("WITH"):
                self.unexpected("WITH after ENDS")
            return "ends"
        return "contains" if self.keyword("CONTAINS") else None

    def comparison(self, operator: Operator, left: Side, right: Side, token: Token, sign: Token) -> Formula:
        if left is None or right is None:
            self.no_null(token if left is None else self.tokens[self.index - 1])
        if isinstance(left, tuple) or isinstance(right, tuple):
            self.refuse("lists are compared with IN only", sign)
        if isinstance(left, Value) and not isinstance(right, Value):
            if operator not in FLIPPED:
                self.refuse(f"{sign.text} takes a property on its left and a text on its right", sign)
            operator, left, right = FLIPPED[operator], right, left
        if isinstance(left, TypeOf) and isinstance(right, TypeOf) and operator in ("=", "!="):
            types = [Constant(self.type_of(side.relationship)) for side in (left, right)]
            return Same(*types) if operator == "=" else Different(*types)
        if isinstance(left, TypeOf) and isinstance(right, Value) and operator in ("=", "!="):
            same = self.is_type(left.relationship, (right,))
            return same if operator == "=" else none_of(same)
        if isinstance(left, Exists) and isinstance(right, Exists):
            if operator not in ("=", "!="):
                self.fail("nodes have no order; compare their properties", sign)
            return Same(left, right) if operator == "=" else Different(left, right)
        if isinstance(left, Identity):
            if operator in ("=", "!=") and isinstance(right, Identity):
                return Same(left.node, right.node) if operator == "=" else Different(left.node, right.node)
            if operator in ("=", "!=") and isinstance(right, Value):
                named = Constant(self.entity(right))
                return Same(left.node, named) if operator == "=" else Different(left.node, named)
        one, other = (side.node if isinstance(side, Identity) else side for side in (left, right))
        known = isinstance(other, Value | Attribute) or isinstance(right, Identity)
        if not known or not (isinstance(one, Value | Attribute) or isinstance(left, Identity)):
            if isinstance(left, Exists) and isinstance(right, Value) and operator in ("=", "!="):
                shown = self.text[right.position : right.position + right.length]
                pattern = f"({left.name} {{name: {shown}}}) in MATCH, or " if operator == "=" else ""
                self.refuse(f"a node is no value; write {pattern}id({left.name}) {sign.text} {shown}", sign)
            self.refuse("this comparison is not supported; compare properties, or nodes with nodes", sign)
        assert isinstance(one, Value | Attribute | Exists)
        assert isinstance(other, Value | Attribute | Exists)
        if isinstance(one, Value) and isinstance(other, Value):
            return self.settled(operator, one, other, sign)
        if operator == "matches":
            other = self.whole(other, sign)
        return Compare(operator, one, other)

    def settled(self, operator: Operator, left: Value, right: Value, sign: Token) -> Formula:
        """A comparison of two values."""
        a, b = left.value, right.value
        if operator in ("=", "!="):
            return TRUE if (a == b) == (operator == "=") else FALSE
        try:
            found = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}.get(operator)  # type: ignore[operator]
        except TypeError:
            found = None
        if found is None:
            self.refuse("two values are compared with = < <= > >= only, and have to be of one kind", sign)
        return TRUE if found else FALSE

    def whole(self, pattern: Value | Attribute | Exists, sign: Token) -> Value:
        """A regular expression that has to match the whole text, as =~ wants it."""
        if not isinstance(pattern, Value) or not isinstance(pattern.value, str):
            self.refuse("=~ takes a text on its right", sign)
        try:
            re.compile(pattern.value)
        except re.error as error:
            self.fail(f"{pattern.value!r} is no regular expression: {error}", self.tokens[self.index - 1])
        flags = _FLAGS.match(pattern.value)
        start = flags.group() if flags else ""
        return replace(pattern, value=f"{start}^(?:{pattern.value[len(start) :]})$")

    def listed(self, left: Side, token: Token) -> Formula:
        place = self.token
        right = self.side()
        if isinstance(right, Attribute) and isinstance(left, Value):
            return Compare("=", replace(right, variable=self.new_name()), left)  # some value of it, whichever
        if right is None or left is None:
            self.no_null(place if right is None else token)
        if not isinstance(right, tuple):
            self.fail("expected a list such as ['a', 'b'] after IN", place)
        if isinstance(left, Value):
            return TRUE if any(left.value == choice.value for choice in right) else FALSE
        if not right:
            return FALSE
        if isinstance(left, TypeOf):
            return self.is_type(left.relationship, right)
        if isinstance(left, Identity):
            return Among(left.node, tuple(dict.fromkeys(map(self.entity, right))))
        if not isinstance(left, Attribute):
            self.refuse("IN takes a property, id(node) or type(relationship) on its left", token)
        return Among(left, right)

    def is_type(self, relationship: Relationship, types: tuple[Value, ...]) -> Formula:
        names = tuple(dict.fromkeys(map(as_name, types)))
        if len(relationship.types) == 1:
            return TRUE if relationship.types[0] in names else FALSE
        relationship.asked = True
        relation = Constant(relationship.variable)
        return Same(relation, Constant(names[0])) if len(names) == 1 else Among(relation, names)

    def type_of(self, relationship: Relationship) -> Name:
        """The variable for the type of a relationship."""
        if relationship.name.startswith("-"):
            relationship.name = self.new_name()
        relationship.asked = True
        return relationship.variable

    # --- sides --------------------------------------------------------------------------------------------------------

    def side(self) -> Side:
        token = self.token
        if self.starts_value():
            return self.value()
        if token.kind not in ("word", "quoted"):
            if self.at("("):
                self.refuse("brackets inside a comparison are not supported")
            self.unexpected("a condition")
        if token.kind == "word" and self.tokens[self.index + 1].text == "(":
            return self.function()
        name = self.identifier("a variable").text
        if not self.accept("."):
            return self.variable(name, token)
        return self.attribute(name, token)

    def attribute(self, name: str, token: Token) -> Attribute:
        """`name.property`, after the dot."""
        of = self.variable(name, token)
        key = self.named("a property")
        if self.at("."):
            self.refuse("properties of properties are not supported")
        if self.at("["):
            self.refuse("positions in lists are not supported")
        if isinstance(of, Relationship):
            of.filtered = True
            return Attribute(Atom(of.variable, of.left, of.right), key)
        return Attribute(of, key)

    def variable(self, name: str, token: Token) -> Exists | Relationship:
        name = self.plain(name)
        if name in self.lists:
            self.refuse(f"{name} is a list of relationships, which is no value here", token)
        if name in self.relationships:
            return self.relationships[name]
        if name not in self.nodes:
            if token.kind == "word" and name.upper() in ("CASE", "ALL", "ANY", "NONE", "SINGLE", "REDUCE"):
                self.refuse(f"{name.upper()} is not supported; write AND, OR and comparisons", token)
            known = [*(node for node, given in self.nodes.items() if given), *self.relationships]
            self.fail(f"the variable {name} is not defined{hint(name, known, '{}'.format)}", token)
        return Exists(name)

    def function(self) -> Side:
        token = self.advance()
        name = token.text.upper()
        if name not in ("TYPE", "ID", "ELEMENTID"):
            self.no_function(token)
        self.advance()
        place = self.token
        of = self.variable(self.identifier("a variable").text, place)
        self.expect(")", f"after {token.text}(…")
        if name == "TYPE":
            if not isinstance(of, Relationship):
                self.fail(f"{token.text}() takes a relationship", place)
            return TypeOf(of)
        if not isinstance(of, Exists):
            self.refuse(f"{token.text}() takes a node; relationships have no name of their own", place)
        return Identity(of)

    def entity(self, value: Value) -> Name:
        """A value as the name of an entity; a number keeps its spelling, as in 007."""
        spelt = self.text[value.position :][: value.length]
        return Name(spelt, "number", value.position, value.length) if is_number(spelt) else as_name(value)

    def no_function(self, token: Token) -> NoReturn:
        if token.text.upper() in AGGREGATES:
            self.refuse(f"{token.text}() is not supported here; only RETURN count(…) counts, for all answers", token)
        self.refuse(f"the function {token.text}() is not supported; there are type(), id(), date() and count()", token)


def as_name(value: Value) -> Name:
    """A value as the name of an entity or a relation."""
    return Name(str(value.value), "name", value.position, value.length)
