"""FILTER expressions of SPARQL."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import NoReturn

from tuplet.errors import hint
from tuplet.lang.ast import (
    TEXT_TESTS,
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
    Value,
    Variable,
    terms,
)
from tuplet.lang.reader import Side, SideReader, Syntax, Token
from tuplet.lang.rewrite import disjunction, negation

SYNTAX = Syntax(("||",), ("&&",), ("!",), {"=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="})
TEXT_FUNCTIONS = {test.sparql: operator for operator, test in TEXT_TESTS.items() if operator != "matches"}
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


class FilterParser(SideReader):
    """Reads expressions; what groups and variables are, the parser of patterns says."""

    syntax = SYNTAX
    constants: dict[str, Side]  # variables that BIND gives a value
    scope: Scope  # of the group that is read

    @abstractmethod
    def inner_group(self, inner: InnerGroup) -> Formula:
        """The patterns of an EXISTS."""

    @abstractmethod
    def variable(self, token: Token) -> Variable:
        """The variable of a token."""

    # --- expressions -------------------------------------------------------------------------------------------------

    def filter(self) -> Formula:
        """What stands after FILTER."""
        token = self.token
        if self.token.text == "(":
            self.advance()
            formula = self.expression()
            self.close("')' , '&&' or '||'")
            return formula
        if token.kind in ("word", "prefixed", "exact"):
            word = token.text.upper()
            if word in FUNCTIONS or word in REFUSED or self.following().text == "(":
                return self.condition()
            self.fail(f"expected '(' or NOT EXISTS after FILTER, found {self.next_word()}{hint(word, FUNCTIONS)}")
        self.fail(f"expected '(' or NOT EXISTS after FILTER, found {self.next_word()}")

    def close(self, expected: str) -> None:
        if not self.accept(")"):
            self.refuse_arithmetic()
            self.fail(f"expected {expected}, found {self.next_word()}")

    def refuse_arithmetic(self, what: str = "arithmetic") -> None:
        if self.at("+", "-", "*", "/"):
            self.refuse(f"{what} is not supported; write the value that comes out")

    def count_inside(self) -> int:
        return len(self.scope.inner)

    def refuse_negation(self, start: Token) -> NoReturn:
        self.refuse("'!' before EXISTS is not supported; write NOT EXISTS", self.tokens[self.index - 1])

    def condition(self) -> Formula:
        token = self.token
        if self.accept("("):
            formula = self.expression()
            self.close("')' , '&&' or '||'")
            return formula
        word = token.text.upper() if token.kind == "word" else ""
        if word in ("NOT", "EXISTS"):
            return self.existence()
        if word in TEXT_FUNCTIONS:
            left = self.first_argument(f"after the first argument of {token.text}")
            right = self.side()
            self.close("')'")
            return Compare(TEXT_FUNCTIONS[word], left.what, right.what)
        if word == "REGEX":
            return self.regex()
        if word == "LANGMATCHES":
            left = self.first_argument("after the first argument of langMatches")
            spoken = self.string("a language")
            self.close("')'")
            wide = Value(f"{str(spoken.value).rstrip('*')}*", "", spoken.position, spoken.length)  # en-GB is en, too
            return self.language("=", left, Side(wide), token)
        if word == "SAMETERM":
            left = self.first_argument("between the terms of sameTerm")
            formula = self.compare("=", left, self.side())
            self.close("')'")
            return formula
        return self.comparison(self.side(), token)

    def existence(self) -> Formula:
        """[NOT] EXISTS { patterns }."""
        start = self.token
        inner = InnerGroup(self.accept("NOT"), start.position)
        if not self.accept("EXISTS"):
            word = self.token.text.upper()
            self.fail(f"expected EXISTS after NOT, found {self.next_word()}{hint(word, ('EXISTS',))}")
        if self.token.text != "{":
            self.fail(f"expected '{{' after EXISTS, found {self.next_word()}")
        inner.formula = self.inner_group(inner)
        inner.end = self.token.position
        self.scope.inner.append(inner)
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

    def comparison(self, left: Side, start: Token) -> Formula:
        operator = self.operator()
        if operator is not None:
            right = self.side()
            if isinstance(left.what, SpokenIn) or isinstance(right.what, SpokenIn):
                return self.language(operator, left, right, start)
            return self.compare(operator, left, right)
        found = self.membership(left, start)
        if found is not None:
            return found
        self.refuse_arithmetic()
        if isinstance(left.what, Free | Exists) and self.at(")", "&&", "||"):
            return Compare("=", left.what, Value(True))
        self.fail(f"expected a comparison such as '=' or '<', found {self.next_word()}")

    def among(self, item: Side, choices: list[Side], place: Token) -> Formula:
        if any(isinstance(choice.what, Free | Exists) for choice in choices):
            return disjunction([self.compare("=", item, choice) for choice in choices])
        return super().among(item, choices, place)

    def regex(self) -> Formula:
        left = self.first_argument("after the first argument of regex")
        pattern = self.string("the pattern of regex")
        flags = self.string("the flags of regex") if self.accept(",") else None
        if flags is not None and str(flags.value).strip(FLAGS):
            at = self.tokens[self.index - 1]
            self.refuse(f"the flags {flags.value!r} of regex are not supported; known are i, m and s", at)
        self.close("')'")
        if flags is not None and flags.value:
            pattern = Value(f"(?{flags.value}){pattern.value}", "", pattern.position, pattern.length)
        return Compare("matches", left.what, pattern)

    def language(self, sign: str, left: Side, right: Side, start: Token) -> Formula:
        """`LANG(?text) = "en"`."""
        if not isinstance(left.what, SpokenIn):
            left, right = right, left
        if sign not in ("=", "!=") or not isinstance(left.what, SpokenIn) or not isinstance(right.what, Value):
            self.fail('LANG is compared with a language: LANG(?text) = "en"', start)
        spoken = Compare("language", left.what.of, right.what)
        return spoken if sign == "=" else negation(spoken)

    # --- sides -------------------------------------------------------------------------------------------------------

    def open_call(self) -> None:
        name = self.advance().text
        self.expect("(", f"after {name}")

    def first_argument(self, place: str) -> Side:
        """A function, its bracket, its first argument and the comma."""
        self.open_call()
        left = self.side()
        self.expect(",", place)
        return left

    def string(self, what: str) -> Value:
        side = self.read_value() if self.token.kind == "label" else None
        if side is None or not isinstance(side.what, Value) or not isinstance(side.what.value, str):
            self.fail(f"expected {what} in quotes, found {self.next_word()}")
        return side.what

    def side(self) -> Side:
        token = self.token
        if token.kind == "variable":
            self.advance()
            name = token.text[1:]
            if name in self.constants:
                return self.constants[name]
            self.scope.compared.append(token)
            variable = self.variable(token)
            return Side(variable, variable)
        word = token.text.upper() if token.kind == "word" else ""
        if word in ("STR", "LANG"):
            self.open_call()
            inner = self.side()
            self.close("')'")
            if word == "LANG":
                return Side(SpokenIn(inner.what))  # type: ignore[arg-type]
            if isinstance(inner.what, Constant):
                return Side(Value(inner.what.name.text, "", token.position, len(token.text)))
            return Side(inner.what)
        value = self.read_value()
        if value is not None:
            return value
        if self.following().text == "(" and token.kind != "sign":
            word = token.text.upper()
            if word in REFUSED:
                self.refuse(f"the function {word} is not supported in FILTER; {REFUSED[word]}", token)
            self.refuse(f"the function {token.text!r} is not supported in FILTER{hint(word, FUNCTIONS)}", token)
        name_ = self.name(token)
        if name_ is None:
            self.refuse_arithmetic()
            self.fail(f"expected a variable, a name or a value to compare, found {self.next_word()}")
        self.advance()
        return Side(Constant(name_), Constant(name_))
