"""FILTER expressions of SPARQL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NoReturn

from tuplet.errors import hint
from tuplet.lang.ast import (
    And,
    Atom,
    Attribute,
    Compare,
    Constant,
    Exists,
    Formula,
    Free,
    Has,
    Operand,
    Operator,
    Value,
    Variable,
    terms,
)
from tuplet.lang.tokens import (
    Reader,
    Side,
    Token,
    conjunction,
    disjunction,
    negation,
)

SIGNS = ("=", "!=", "<", "<=", ">", ">=")
TEXT_FUNCTIONS: dict[str, Operator] = {"CONTAINS": "contains", "STRSTARTS": "starts", "STRENDS": "ends"}
FUNCTIONS = (*TEXT_FUNCTIONS, "REGEX", "STR", "LANG", "LANGMATCHES", "SAMETERM", "NOT", "EXISTS")
FLAGS = "ims"

# Functions that are refused, with the way out.
REFUSED = {
    "BOUND": "that there is a value, or none, is asked by FILTER EXISTS or NOT EXISTS { one pattern }",
    "COALESCE": "ask one query for each case",
    "DATATYPE": "compare with a value of that type",
    "IF": "write both cases with || and &&",
    "ISBLANK": "write a pattern that says what it is",
    "ISIRI": "write a pattern that says what it is",
    "ISLITERAL": "a variable in the place of an attribute is a value anyway",
    "ISNUMERIC": "compare with a number; other values do not hold",
    "ISURI": "write a pattern that says what it is",
    "LCASE": 'regex(?text, "pattern", "i") does not tell large letters from small ones',
    "STRLEN": 'regex(?text, "^.{5}$") tells a length',
    "SUBSTR": "use STRSTARTS, STRENDS, CONTAINS or regex",
    "UCASE": 'regex(?text, "pattern", "i") does not tell large letters from small ones',
    "YEAR": 'compare with dates: ?date >= "1990-01-01"^^xsd:date',
}


@dataclass(frozen=True, slots=True)
class SpokenIn:
    """`LANG(?text)`, a side of a comparison."""

    of: Operand


@dataclass
class InnerGroup:
    """The group of an EXISTS: its own names for variables, which the outer group puts right when it ends."""

    negated: bool
    start: int  # where it begins in the text, and where it ends
    end: int = 0
    names: dict[str, tuple[Exists, Token]] = field(default_factory=dict)
    formula: Formula | None = None


@dataclass
class Scope:
    """What is put right at the end of a group: the variables that its filters compare, and the groups of EXISTS."""

    compared: list[Token] = field(default_factory=list)
    inner: list[InnerGroup] = field(default_factory=list)


class FilterParser(Reader, ABC):
    """Reads expressions; what groups and variables are, the parser of patterns says."""

    constants: dict[str, Side]  # variables that BIND gives a value

    @abstractmethod
    def inner_group(self, inner: InnerGroup) -> Formula:
        """The patterns of an EXISTS."""

    @abstractmethod
    def variable(self, token: Token) -> Variable:
        """The variable of a token."""

    def keyword(self, *words: str) -> bool:
        """Read the next word if it is one of these."""
        token = self.token
        if token.kind == "word" and token.text.upper() in words:
            self.index += 1
            return True
        return False

    # --- expressions -------------------------------------------------------------------------------------------------

    def filter(self, scope: Scope) -> Formula:
        """What stands after FILTER."""
        token = self.token
        if self.token.text == "(":
            self.advance()
            formula = self.expression(scope)
            self.closed("')' , '&&' or '||'")
            return formula
        if token.kind in ("word", "prefixed", "exact"):
            word = token.text.upper()
            if word in FUNCTIONS or word in REFUSED or self.tokens[self.index + 1].text == "(":
                return self.primary(scope)
            self.fail(f"expected '(' or NOT EXISTS after FILTER, found {self.found()}{hint(word, FUNCTIONS)}")
        self.fail(f"expected '(' or NOT EXISTS after FILTER, found {self.found()}")

    def closed(self, expected: str) -> None:
        token = self.token
        if self.accept(")"):
            return
        if token.kind == "sign" and token.text in "+-*/":
            self.refuse("arithmetic is not supported; write the value that comes out")
        self.fail(f"expected {expected}, found {self.found()}")

    def expression(self, scope: Scope) -> Formula:
        self.deeper()
        parts = [self.conjoined(scope)]
        while self.accept("||"):
            parts.append(self.conjoined(scope))
        self.depth -= 1
        return disjunction(parts)

    def conjoined(self, scope: Scope) -> Formula:
        parts = [self.unary(scope)]
        while self.accept("&&"):
            parts.append(self.unary(scope))
        return conjunction(parts)

    def unary(self, scope: Scope) -> Formula:
        if not self.accept("!"):
            return self.primary(scope)
        self.deeper()
        start = len(scope.inner)
        body = self.unary(scope)
        self.depth -= 1
        if len(scope.inner) > start:
            self.refuse("'!' before EXISTS is not supported; write NOT EXISTS", self.tokens[self.index - 1])
        return negation(body)

    def primary(self, scope: Scope) -> Formula:
        token = self.token
        if self.accept("("):
            formula = self.expression(scope)
            self.closed("')' , '&&' or '||'")
            return formula
        word = token.text.upper() if token.kind == "word" else ""
        if word in ("NOT", "EXISTS"):
            return self.existence(scope)
        if word in TEXT_FUNCTIONS:
            return self.text_function(TEXT_FUNCTIONS[word], scope)
        if word == "REGEX":
            return self.regex(scope)
        if word == "LANGMATCHES":
            return self.lang_matches(scope)
        if word == "SAMETERM":
            self.opened()
            left = self.side(scope)
            self.expect(",", "between the terms of sameTerm")
            formula = self.compared("=", left, self.side(scope))
            self.closed("')'")
            return formula
        return self.comparison(self.side(scope), token, scope)

    def existence(self, scope: Scope) -> Formula:
        """[NOT] EXISTS { patterns }."""
        start = self.token
        inner = InnerGroup(self.keyword("NOT"), start.position)
        if not self.keyword("EXISTS"):
            word = self.token.text.upper()
            self.fail(f"expected EXISTS after NOT, found {self.found()}{hint(word, ('EXISTS',))}")
        if self.token.text != "{":
            self.fail(f"expected '{{' after EXISTS, found {self.found()}")
        inner.formula = self.inner_group(inner)
        inner.end = self.token.position
        scope.inner.append(inner)
        if not inner.negated:
            return inner.formula
        match inner.formula:
            case And((Atom(relation, head, Exists(name) as tail), Compare("=", left, Value() as value))) if (
                left == tail
            ):
                return Has(Attribute(head, relation, name), True, value)  # the variable was made for the literal
        if not isinstance(inner.formula, Atom):
            known = {own for own, _ in inner.names.values()}
            if any(isinstance(term, Exists) and term not in known for term in terms(inner.formula)):
                self.refuse(
                    "NOT EXISTS with steps in between, blank nodes or values beside other patterns asks that there "
                    "is none (¬∃); write one pattern",
                    start,
                )
        return negation(inner.formula)

    # --- comparisons -------------------------------------------------------------------------------------------------

    def comparison(self, left: Side, start: Token, scope: Scope) -> Formula:
        sign = self.operator(*SIGNS)
        if sign:
            right = self.side(scope)
            if isinstance(left.what, SpokenIn) or isinstance(right.what, SpokenIn):
                return self.language(sign, left, right, start)
            return self.compared(sign, left, right)
        negated = self.keyword("NOT")
        if self.keyword("IN"):
            among = self.membership(left, start, scope)
            return negation(among) if negated else among
        if negated:
            self.fail(f"expected IN after NOT, found {self.found()}")
        token = self.token
        if token.kind == "sign" and token.text in "+-*/":
            self.refuse("arithmetic is not supported; write the value that comes out")
        if isinstance(left.what, Free | Exists) and token.text in (")", "&&", "||"):
            return Compare("=", left.what, Value(True))
        self.fail(f"expected a comparison such as '=' or '<', found {self.found()}")

    def membership(self, item: Side, start: Token, scope: Scope) -> Formula:
        self.expect("(", "after IN")
        choices: list[Side] = []
        while not self.accept(")"):
            if choices:
                self.expect(",", "or ')' after a member of IN")
            choices.append(self.side(scope))
        if any(isinstance(choice.what, Free | Exists) for choice in choices):
            return disjunction([self.compared("=", item, choice) for choice in choices])
        return self.among(item, choices, start)

    def text_function(self, operator: Operator, scope: Scope) -> Formula:
        name = self.token.text
        self.opened()
        left = self.side(scope)
        self.expect(",", f"after the first argument of {name}")
        right = self.side(scope)
        self.closed("')'")
        return Compare(operator, left.what, right.what)

    def regex(self, scope: Scope) -> Formula:
        self.opened()
        left = self.side(scope)
        self.expect(",", "after the first argument of regex")
        pattern = self.string("the pattern of regex")
        flags = self.string("the flags of regex") if self.accept(",") else None
        if flags is not None and str(flags.value).strip(FLAGS):
            at = self.tokens[self.index - 1]
            self.refuse(f"the flags {flags.value!r} of regex are not supported; known are i, m and s", at)
        self.closed("')'")
        if flags is not None and flags.value:
            pattern = Value(f"(?{flags.value}){pattern.value}", "", pattern.position, pattern.length)
        return Compare("matches", left.what, pattern)

    def lang_matches(self, scope: Scope) -> Formula:
        start = self.token
        self.opened()
        left = self.side(scope)
        self.expect(",", "after the first argument of langMatches")
        spoken = self.string("a language")
        self.closed("')'")
        wide = Value(f"{str(spoken.value).rstrip('*')}*", "", spoken.position, spoken.length)  # en-GB is en, too
        return self.language("=", left, Side(wide), start)

    def language(self, sign: str, left: Side, right: Side, start: Token) -> Formula:
        """`LANG(?text) = "en"`."""
        if not isinstance(left.what, SpokenIn):
            left, right = right, left
        if sign not in ("=", "!=") or not isinstance(left.what, SpokenIn) or not isinstance(right.what, Value):
            self.fail('LANG is compared with a language: LANG(?text) = "en"', start)
        spoken = Compare("language", left.what.of, right.what)
        return spoken if sign == "=" else negation(spoken)

    # --- sides -------------------------------------------------------------------------------------------------------

    def opened(self) -> None:
        name = self.advance().text
        self.expect("(", f"after {name}")

    def string(self, what: str) -> Value:
        side = self.read_value() if self.token.kind == "label" else None
        if side is None or not isinstance(side.what, Value) or not isinstance(side.what.value, str):
            self.fail(f"expected {what} in quotes, found {self.found()}")
        return side.what

    def side(self, scope: Scope) -> Side:
        token = self.token
        if token.kind == "variable":
            self.advance()
            name = token.text[1:]
            if name in self.constants:
                return self.constants[name]
            scope.compared.append(token)
            variable = self.variable(token)
            return Side(variable, variable)
        word = token.text.upper() if token.kind == "word" else ""
        if word in ("STR", "LANG"):
            self.opened()
            inner = self.side(scope)
            self.closed("')'")
            if word == "LANG":
                return Side(SpokenIn(inner.what))  # type: ignore[arg-type]
            if isinstance(inner.what, Constant):
                return Side(Value(inner.what.name.text, "", token.position, len(token.text)))
            return Side(inner.what)
        value = self.read_value()
        if value is not None:
            return value
        if self.tokens[self.index + 1 - (token.kind == "end")].text == "(" and token.kind != "sign":
            self.unknown_function(token)
        name_ = self.name(token)
        if name_ is None:
            if token.kind == "sign" and token.text in "+-*/":
                self.refuse("arithmetic is not supported; write the value that comes out")
            self.fail(f"expected a variable, a name or a value to compare, found {self.found()}")
        self.advance()
        return Side(Constant(name_), Constant(name_))

    def unknown_function(self, token: Token) -> NoReturn:
        word = token.text.upper()
        if word in REFUSED:
            self.refuse(f"the function {word} is not supported in FILTER; {REFUSED[word]}", token)
        self.refuse(f"the function {token.text!r} is not supported in FILTER{hint(word, FUNCTIONS)}", token)
