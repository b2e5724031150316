"""Conditions in three languages: one grammar over one stream of words, with a table of words for each language.

expression := both (OR both)*
both       := operand (AND operand)*
operand    := NOT* condition
condition  := '(' expression ')' | side operator side | side [NOT] IN set | what else a language has
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from tuplet.errors import BudgetExceeded, ParseError, hint
from tuplet.lang.ast import (
    Among,
    Compare,
    Constant,
    Different,
    Exists,
    Formula,
    Free,
    Name,
    Operand,
    Operator,
    Same,
    Term,
    Value,
    atoms,
    terms,
)
from tuplet.lang.rewrite import conjunction, disjunction, negation, rename
from tuplet.lang.tokens import DATATYPES, UNQUOTED, XSD, Reader, Token, is_number, plain, tokenize, typed

MAX_SPLITS = 64  # of `a<b` without a space


@dataclass(frozen=True)
class Syntax:
    """How a language writes conditions. Keywords are in capitals; the text may write them as it likes."""

    either: tuple[str, ...]
    both: tuple[str, ...]
    negation: tuple[str, ...]
    operators: Mapping[str, Operator]  # between two sides
    brackets: tuple[str, str] = ("(", ")")  # of a set
    before_members: str = "after IN"  # where the brackets are expected, as errors say it
    between_members: str = "or ')' after a member of IN"
    after_not: str = "IN after NOT"


class Side(NamedTuple):
    """A side of a comparison: as a value or an entity to compare, and as the entity it may stand for.

    `"asthma"` and `17` are values or entities, whichever the other side is; an attribute is never an entity.
    """

    what: Operand
    entity: Term | None = None


class ExpressionReader(Reader, ABC):
    """Reads conditions; a language says what else it has, and what the sides of a comparison are."""

    syntax: Syntax
    negative = False  # whether an odd number of negations stands above

    def __init__(self, text: str, prefixes: Mapping[str, str] | None = None) -> None:
        super().__init__(text, prefixes)
        self.splits = 0

    @abstractmethod
    def condition(self) -> Formula:
        """A condition without and, or, not around it."""

    @abstractmethod
    def unexpected(self, expected: str) -> NoReturn:
        """Refuse the next word, where something else was expected."""

    # --- and, or, not ------------------------------------------------------------------------------------------------

    def expression(self) -> Formula:
        """Conditions joined by or, and, not."""
        self.deeper()
        parts = [self.both()]
        while self.accept(*self.syntax.either):
            parts.append(self.both())
        self.depth -= 1
        return disjunction(parts) if len(parts) > 1 else parts[0]

    def both(self) -> Formula:
        """Conditions joined by and."""
        parts = [self.operand()]
        while self.accept(*self.syntax.both):
            parts.append(self.operand())
        return conjunction(parts) if len(parts) > 1 else parts[0]

    def operand(self) -> Formula:
        """A condition, or its negation."""
        if self.tokens[self.index].text.upper() not in self.syntax.negation:  # most of them
            return self.condition()
        start, made, outer = self.token, self.made_inside(), self.negative
        while self.accept(*self.syntax.negation):
            self.negative = not self.negative
        body = self.condition()
        odd, self.negative = self.negative != outer, outer
        if odd and self.made_inside() > made:
            self.refuse_negation(start)
        return negation(body) if odd else body

    def made_inside(self) -> int:
        """How many variables or groups of their own conditions have so far: they cannot be negated."""
        return 0

    def refuse_negation(self, start: Token) -> NoReturn:
        """Refuse a negation of what has variables of its own."""
        raise AssertionError("a language that counts them says why")

    # --- comparisons -------------------------------------------------------------------------------------------------

    def operator(self) -> Operator | None:
        """Read a sign or a word that compares, if one stands here."""
        token = self.token
        if token.kind in ("exact", "unclosed") and token.text[0] == "<":  # `a<b`: after a term it is no name
            self.split(token.position, Token("sign", "<", token.position))
            token = self.token
        if token.kind not in ("sign", "word"):
            return None
        found = self.syntax.operators.get(token.text if token.kind == "sign" else token.text.upper())
        if found is not None:
            self.advance()
            if found in ("starts", "ends"):
                self.after_starts(token)
        return found

    def after_starts(self, token: Token) -> None:
        """Read what follows STARTS or ENDS."""
        self.accept("WITH")

    def split(self, position: int, *tokens: Token) -> None:
        """Split the text again from a position, after words that are known."""
        self.splits += 1
        if self.splits > MAX_SPLITS:
            raise BudgetExceeded("query too large: put spaces around comparison signs", limit="splits")
        self.tokens[self.index :] = [*tokens, *tokenize(self.text, position + sum(len(t.text) for t in tokens))]


class SideReader(ExpressionReader):
    """Reads sides of comparisons that are values or entities, whichever the other side is."""

    def __init__(self, text: str, prefixes: Mapping[str, str] | None = None) -> None:
        super().__init__(text, prefixes)
        self.relations: dict[str, Token] = {}  # variables that stand for relations

    @abstractmethod
    def side(self) -> Side:
        """A side of a comparison."""

    def compared(self, operator: Operator, left: Side, right: Side) -> Formula:
        """`left operator right`: of entities if both sides can be entities, else of values."""
        if operator in ("=", "!=") and left.entity is not None and right.entity is not None:
            return (Same if operator == "=" else Different)(left.entity, right.entity)
        return Compare(operator, left.what, right.what)

    def members(self) -> list[Side] | None:
        """Read `IN {…}`, if it stands here."""
        if not self.accept("IN", "∈"):
            return None
        opening, closing = self.syntax.brackets
        self.expect(opening, self.syntax.before_members)
        choices: list[Side] = []
        while not self.accept(closing):
            if choices:
                self.expect(",", self.syntax.between_members)
            choices.append(self.side())
        return choices

    def membership(self, item: Side, start: Token) -> Formula | None:
        """Read `[NOT] IN {…}`, if it stands here."""
        negated = self.accept("NOT")
        choices = self.members()
        if choices is None:
            if negated:
                self.unexpected(self.syntax.after_not)
            return None
        found = self.among(item, choices, start)
        return negation(found) if negated else found

    def among(self, item: Side, choices: list[Side], place: Token) -> Formula:
        """`item in {choices}`: names if all of them can be entities, else values."""
        if item.entity is not None and all(choice.entity is not None for choice in choices):
            names = [choice.entity.name for choice in choices if isinstance(choice.entity, Constant)]
            if len(names) == len(choices):
                return Among(item.entity, tuple(names))
        if isinstance(item.what, Value):
            self.fail("a value among values says nothing; write a variable or an attribute before 'in'", place)
        values: list[Value] = []
        for choice in choices:
            if not isinstance(choice.what, Value):
                self.fail('entities and values do not mix in one set; a text is written in quotes: "text"', place)
            values.append(choice.what)
        return Among(item.what, tuple(values))

    def with_relations(self, body: Formula) -> Formula:
        """The body, with the variables that stand for relations compared as relations."""
        for atom in atoms(body):
            compared = set() if not isinstance(atom, Different | Same | Among) else set(terms(atom))
            for term in terms(atom):
                if not isinstance(term, Constant) and term.name in self.relations and term not in compared:
                    token = self.relations[term.name]
                    self.fail(f"{token.text} stands for a relation here and for an entity elsewhere", token)
        meant = {name: Constant(Name(name, "variable", t.position, len(t.text))) for name, t in self.relations.items()}
        return rename(body, {kind(name): constant for name, constant in meant.items() for kind in (Free, Exists)})

    # --- values --------------------------------------------------------------------------------------------------

    def read_value(self) -> Side | None:
        """Read a value, if one stands here: what it is, and the entity that it may be instead."""
        token = self.token
        if token.kind == "label":
            return self._quoted_value()
        if token.kind != "word" and token.text not in ("-", "+", "."):
            return None
        match = UNQUOTED.match(self.text, token.position)
        if match is None:
            return None
        text = match.group()
        entity = Constant(Name(text, "number", token.position, len(text))) if is_number(text) else None
        try:
            value = Value(plain(text), "", token.position, len(text))
        except ValueError as error:
            raise ParseError(f"{text} is no value: {error}", self.text, token.position, len(text)) from None
        if text == token.text:
            self.index += 1
        else:  # a sign, or a time with its colons: several words so far
            last = self.advance()
            while self.token.position < match.end() and self.token.kind != "end":
                last = self.advance()
            if last.position + len(last.text) > match.end():
                self.split(match.end())
        return Side(value, entity)

    def _quoted_value(self) -> Side:
        token = self.advance()
        text = self._unescape(token) if "\\" in token.text else token.text[1:-1]
        after = self.token
        length = len(token.text)
        if after.position == token.position + length and after.text == "@":
            self.advance()
            tag = self.advance()
            if tag.kind != "word":
                self.fail("expected a language such as en after '@'", tag)
            return Side(Value(text, tag.text.lower(), token.position, length + 1 + len(tag.text)))
        if after.position == token.position + length and after.text == "^^":
            self.advance()
            datatype = self.name(self.token)
            if datatype is None:
                self.fail(f"expected a datatype such as xsd:integer after '^^', found {self.found()}")
            last = self.advance()
            try:
                value = typed(text, datatype.text)
            except LookupError:
                near = hint(datatype.text.removeprefix(XSD), DATATYPES, "xsd:{}".format)
                self.refuse(f"the datatype {last.text} is not supported{near}", last)
            except ValueError as error:
                self.fail(f"{token.text} is no {last.text}: {error}", token)
            return Side(Value(value, "", token.position, last.position + len(last.text) - token.position))
        name = Name(text, "label", token.position, length)
        return Side(Value(text, "", token.position, length), Constant(name) if text else None)
