"""Words, values and conditions of the query languages, which a table of words adapts to each of them.

Names are written alike in SPARQL and in logic text:

    <any text>      the exact name, every character but `>`; a space or `=` after `<` makes it a comparison
    :name           the exact name, or the declared expansion of the empty prefix and `name`
    p:name          a declared prefix and a name; `\\` before a character takes it literally, as in `:a\\>b`
    "some label"    a label, with the escapes `\\" \\' \\\\ \\n \\r \\t \\b \\f \\uXXXX \\UXXXXXXXX`; '…' works too
    17              the exact name 17; in the place of a value, the number
    @17             number 17 of the dataset, counted from 0: for benchmarks, whose queries have numbers

One compiled expression splits the text, one reader walks the words. Conditions have one grammar:

    expression := both (OR both)*
    both       := operand (AND operand)*
    operand    := NOT* condition
    condition  := '(' expression ')' | side operator side | side [NOT] IN set | what else a language has
"""

from __future__ import annotations

import datetime
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, NoReturn, TypeVar
from urllib.parse import urljoin

from tuplet.errors import BudgetExceeded, ParseError, Unsupported, hint
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
    Plain,
    Same,
    Term,
    Value,
    atoms,
    terms,
)
from tuplet.lang.rewrite import conjunction, disjunction, negation, rename

XSD = "http://www.w3.org/2001/XMLSchema#"
LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
T = TypeVar("T")
MAX_DIGITS = 18  # of limits and of numbers of the data set

# What is a value without quotes; a word that merely begins so is none.
UNQUOTED = re.compile(
    r"""(?: (?P<time>\d{4}-\d\d-\d\d T\d\d:\d\d (?: :\d\d (?: \.\d+ )? )? (?: Z | [+-]\d\d:\d\d )?)
          | (?P<date>\d{4}-\d\d-\d\d)
          | (?P<number>[+-]? (?: \d+ (?: \.\d+ )? | \.\d+ ) (?: [eE][+-]?\d+ )?)
          | (?P<boolean>true|false)
        ) (?! \w | [./:-]\w )""",
    re.VERBOSE | re.ASCII,
)
INTEGERS = (  # datatypes of XML Schema
    *("integer", "int", "long", "short", "byte", "gYear"),
    *("unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte"),
    *("nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger"),
)
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def parse_plain(text: str) -> Plain:
    """The value of a text that `UNQUOTED` matches.

    >>> [parse_plain(text) for text in ("30", "-1.5", "true", "1990-01-01")]
    [30, -1.5, True, datetime.date(1990, 1, 1)]
    """
    match = UNQUOTED.fullmatch(text)
    kind = match.lastgroup if match else None
    if kind == "time":
        return datetime.datetime.fromisoformat(text)
    if kind == "date":
        return datetime.date.fromisoformat(text)
    if kind == "boolean":
        return text == "true"
    return whole_number(text) if kind == "number" and text.lstrip("+-").isdigit() else _finite(float(text))


def parse_typed(text: str, datatype: str) -> Plain:
    """The value of a quoted text of a datatype of XML Schema; `KeyError` if it (or a truth) is not known, `ValueError`
    if it does not fit.

    >>> parse_typed("30", XSD + "integer"), parse_typed("0", XSD + "boolean"), parse_typed("a", XSD + "string")
    (30, False, 'a')
    """
    return str(text) if datatype == LANG_STRING else DATATYPES[datatype.removeprefix(XSD)](text)


def whole_number(text: str) -> int:
    """The whole number of a text, as graphs keep them.

    >>> whole_number("1234567890123456789")
    1234567890123456789
    """
    number = int(text) if len(text) <= 20 else 2**63
    if not -(2**63) <= number < 2**63:
        raise ValueError("a whole number has at most 64 bits")
    return number


def _finite(number: float, infinite: bool = False) -> float:
    if math.isnan(number) or (math.isinf(number) and not infinite):
        raise ValueError("not a number" if math.isnan(number) else "the number is too large")
    return number


DATATYPES: dict[str, Callable[[str], Plain]] = {
    **dict.fromkeys(INTEGERS, lambda text: whole_number(text.strip())),
    "decimal": lambda text: _finite(float(text)),
    **dict.fromkeys(("double", "float"), lambda text: _finite(float(text), infinite=True)),
    "boolean": lambda text: {"true": True, "1": True, "false": False, "0": False}[text.strip()],
    "date": lambda text: datetime.date.fromisoformat(text.strip()),
    **dict.fromkeys(("dateTime", "dateTimeStamp"), lambda text: datetime.datetime.fromisoformat(text.strip())),
    **dict.fromkeys(("string", "normalizedString", "token", "anyURI"), str),
}


def quote_text(text: str, mark: str = '"') -> str:
    """A text in quotes, with escapes.

    >>> print(quote_text('say "no"'), quote_text("it's", "'"))
    "say \\"no\\"" 'it\\'s'
    """
    escapes = _ESCAPES | {mark: f"\\{mark}"}
    return mark + "".join(escapes.get(character, character) for character in text) + mark


def is_ambiguous(value: Value) -> bool:
    """Whether the value, written plainly, may as well be the label or the number of an entity: a text, or digits."""
    plainly = isinstance(value.value, str) and not value.language
    digits = type(value.value) is int and value.value >= 0
    return plainly or digits


def write(value: Value, full: bool = False) -> str:
    """A value as both languages read it; `full` says its type if it could be taken for an entity.

    >>> write(Value(30)), write(Value(30), full=True), write(Value("Bob", "en")), write(Value(1.0))
    ('30', '"30"^^xsd:integer', '"Bob"@en', '1.0')
    """
    match value.value:
        case bool() as truth:
            return "true" if truth else "false"
        case str() as text:
            return quote_text(text) + (f"@{value.language}" if value.language else "^^xsd:string" if full else "")
        case float() as number if math.isinf(number):
            return '"INF"^^xsd:double' if number > 0 else '"-INF"^^xsd:double'
        case int() | float() as number:
            return f'"{number}"^^xsd:integer' if full and is_ambiguous(value) else repr(number)
        case moment:
            return moment.isoformat()


def write_sparql(value: Value) -> str:
    """A value as other SPARQL engines read it, too.

    >>> write_sparql(Value(datetime.date(1990, 1, 1))), write_sparql(Value(1.5))
    ('"1990-01-01"^^xsd:date', '1.5')
    """
    match value.value:
        case datetime.datetime() as moment:
            return f'"{moment.isoformat()}"^^xsd:dateTime'
        case datetime.date() as day:
            return f'"{day.isoformat()}"^^xsd:date'
        case _:
            return write(value)


MAX_DEPTH = 64


# A word takes the spaces and comments behind it. An opening `<` or quote that never closes takes the rest, so that
# splitting stays linear in the text.
class Lexicon(NamedTuple):
    """How a language splits a text: what lies before its first word, and a word with what lies behind it."""

    before: re.Pattern[str]
    word: re.Pattern[str]

    @staticmethod
    def from_expressions(words: str, space: str) -> Lexicon:
        """The lexicon of alternatives, each a group named like its kind, and of what lies between them."""
        flags = re.VERBOSE | re.DOTALL
        return Lexicon(re.compile(space, flags), re.compile(f"(?:{words}){space}", flags))


WORDS = Lexicon.from_expressions(
    r"""
      (?P<variable>[?$]\w+)
    | (?P<prefixed>(?:[^\W\d_](?:[\w-]|\.+(?=[\w:-]))*)?
                   :(?:(?:[\w:]|\\.|%[0-9A-Fa-f]{2})(?:[\w:-]|\\.|%[0-9A-Fa-f]{2}|\.+(?=[\w:%\\-]))*)?)
    | (?P<word>/?\w(?:[\w./-]*\w)?)
    | (?P<exact><(?![\s=])[^>]*>)
    | (?P<label>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<unclosed><(?![\s=])[^>]*|["'][^\n]*)
    | (?P<id>@[0-9]+(?!\w))
    | (?P<sign>!=|<=|>=|&&|\|\||\^\^|.)
    """,
    r"(?>(?:\s|\#[^\n]*)*)",
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


_SIGNS = ("sign", "prefixed")  # `:` alone is a prefixed name, too


class Token(NamedTuple):
    """A word of the text: its kind (a group of the expression above, or `end`), itself, and where it stands."""

    kind: str
    text: str
    position: int


def tokenize(text: str, start: int = 0, lexicon: Lexicon = WORDS) -> list[Token]:
    """The words of a text from `start` on, spaces and comments left out, an `end` at the end.

    >>> [t.text for t in tokenize('?x : treats(?x, "asthma") # all')]
    ['?x', ':', 'treats', '(', '?x', ',', '"asthma"', ')', '']
    """
    words = lexicon.word.finditer(text, lexicon.before.match(text, start).end())  # type: ignore[union-attr]
    split = [(match.lastgroup, match[match.lastindex or 0], match.start()) for match in words]
    return [*map(Token._make, split), Token("end", "", len(text))]


def has_more_tokens(text: str, most: int) -> bool:
    """Whether a text has more than so many words and signs, told without reading further than that.

    >>> has_more_tokens("?x : r(?x, a) # all", 8), has_more_tokens("?x : r(?x, a) # all", 7)
    (False, True)
    """
    words = WORDS.word.finditer(text, WORDS.before.match(text).end())  # type: ignore[union-attr]
    return next(islice(words, most, None), None) is not None


class Reader:
    """Walks the words of a text; what the grammars share: expectations, carets, names, values, prefixes, depth."""

    lexicon = WORDS

    def __init__(self, text: str, prefixes: Mapping[str, str] | None = None) -> None:
        self.text = text
        self.tokens = tokenize(text, 0, self.lexicon)
        self.index = 0
        self.depth = self.splits = 0
        self.base = ""  # where names in <…> begin that are no whole IRI
        self.relations: dict[str, Token] = {}  # variables that stand for relations
        self.prefixes: dict[str, str] = dict(prefixes) if prefixes else {}

    @property
    def token(self) -> Token:
        """The word to read next."""
        return self.tokens[self.index]

    def advance(self) -> Token:
        """Read one word; the end is never passed."""
        token = self.tokens[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def following(self, steps: int = 1) -> Token:
        """A word after the next one; the end where there is none."""
        return self.tokens[min(self.index + steps, len(self.tokens) - 1)]

    def at(self, *words: str) -> bool:
        """Whether one of these signs or keywords comes next; keywords are given in capitals."""
        kind, text, _ = self.tokens[self.index]
        if kind == "word":
            return text.upper() in words
        return text in words and kind in _SIGNS

    def accept(self, *words: str) -> bool:
        """Read the next word if it is one of these signs or keywords."""
        kind, text, _ = self.tokens[self.index]
        if text.upper() in words if kind == "word" else text in words and kind in _SIGNS:
            self.index += 1
            return True
        return False

    def expect(self, sign: str, place: str, advice: str = "") -> None:
        """Read this sign, or say that it was expected there."""
        if not self.accept(sign):
            self.fail(f"expected {sign!r} {place}, found {self.next_word()}{advice}")

    def next_word(self) -> str:
        """The next word as error messages name it."""
        token = self.token
        if token.kind == "end":
            return "the end of the query"
        return repr(token.text if len(token.text) <= 40 else token.text[:39] + "…")

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Refuse the text at a word (the next one)."""
        at = token or self.token
        if at.kind == "unclosed":
            close = ">" if at.text[0] == "<" else at.text[0]
            raise ParseError(f"this {at.text[0]} is never closed with {close}", self.text, at.position)
        raise ParseError(message, self.text, at.position, _caret(at))

    def refuse(self, message: str, token: Token | None = None) -> NoReturn:
        """Refuse a construct by name at a word (the next one)."""
        at = token or self.token
        raise Unsupported(message, self.text, at.position, _caret(at))

    def several(self, read: Callable[[], T], *signs: str) -> list[T]:
        """Read one or more of something, with these signs or keywords between them."""
        found = [read()]
        while self.accept(*signs):
            found.append(read())
        return found

    def deeper(self) -> None:
        """Enter one level of nesting; leave it with `self.depth -= 1`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise BudgetExceeded(f"query too large: nested more than {MAX_DEPTH} levels deep", limit="depth")

    def number(self, what: str) -> int:
        """Read a whole number."""
        token = self.token
        if token.kind != "word" or not is_number(token.text):
            self.fail(f"expected a whole number {what}, found {self.next_word()}")
        if len(token.text) > MAX_DIGITS:
            self.fail(f"the number {what} has more than {MAX_DIGITS} digits")
        return int(self.advance().text)

    def prologue(self) -> None:
        """Read `PREFIX p: <start of names>` and `BASE <…>` declarations."""
        while self.at("PREFIX", "BASE"):
            word = self.advance().text.upper()
            prefix = self.token
            if word == "BASE":
                self.base = self._iri("after BASE")
                continue
            if prefix.kind != "prefixed" or not prefix.text.endswith(":") or prefix.text.count(":") > 1:
                self.fail(f"expected a prefix such as 'p:' after PREFIX, found {self.next_word()}")
            self.advance()
            self.prefixes[prefix.text[:-1]] = self._iri(f"after the prefix {prefix.text!r}")

    def _iri(self, place: str) -> str:
        if self.token.kind != "exact":
            self.fail(f"expected <…> {place}, found {self.next_word()}")
        return self._join_base(self.advance().text[1:-1])

    def _join_base(self, text: str) -> str:
        """A name in <…>, joined to the base if there is one."""
        if not self.base:
            return text
        return urljoin(self.base, text) + "#" * (text.endswith("#") and text != "#")  # which urljoin leaves out

    def name(self, token: Token) -> Name | None:
        """The name a word stands for, or None if it is not a name; bare words other than numbers are not."""
        kind, text = token.kind, token.text
        if kind == "prefixed":
            written = self._expand(token)
        elif kind == "exact":
            written = self._join_base(text[1:-1])
        elif kind == "label":
            if not text[1:-1]:
                self.fail("an empty label names nothing", token)
            label = self._unescape(token) if "\\" in text else text[1:-1]
            return Name(label, "label", token.position, len(text))
        elif kind == "word" and is_number(text):
            return Name(text, "number", token.position, len(text))
        elif kind == "id":
            if len(text) > 1 + MAX_DIGITS:
                self.fail(f"a number of the dataset has at most {MAX_DIGITS} digits", token)
            return Name(str(int(text[1:])), "id", token.position, len(text))
        else:
            return None
        if not written:
            self.fail("an empty name names nothing", token)
        return Name(written, "name", token.position, len(text))

    def _expand(self, token: Token) -> str:
        prefix, _, local = token.text.partition(":")
        if "\\" in local:
            local = re.sub(r"\\(.)", r"\1", local, flags=re.DOTALL)
        if prefix in self.prefixes:
            return self.prefixes[prefix] + local
        if not prefix:
            return local
        if prefix == "xsd":
            return XSD + local
        advice = hint(prefix, self.prefixes, "'{}:'".format) or f"; write <{token.text}> if that is the whole name"
        self.fail(f"the prefix '{prefix}:' is not declared{advice}", token)

    def _unescape(self, token: Token) -> str:
        def character(match: re.Match[str]) -> str:
            short, long, letter = match.groups()
            if letter is not None:
                if letter in _ESCAPED:
                    return _ESCAPED[letter]
            else:
                code = int(short or long, 16)
                if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
                    return chr(code)
            at = token.position + 1 + match.start()
            raise ParseError(f"{match.group()} is no escape of a label", self.text, at, len(match.group()))

        return _ESCAPE.sub(character, token.text[1:-1])


def is_number(word: str) -> bool:
    """Whether a word is digits only.

    >>> is_number("17"), is_number("1.7"), is_number("x17")
    (True, False, False)
    """
    return word.isascii() and word.isdigit()


def _caret(token: Token) -> int:
    return max(1, len(token.text.split("\n", 1)[0]))


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
        parts = self.several(self.both, *self.syntax.either)
        self.depth -= 1
        return disjunction(parts) if len(parts) > 1 else parts[0]

    def both(self) -> Formula:
        """Conditions joined by and."""
        parts = self.several(self.operand, *self.syntax.both)
        return conjunction(parts) if len(parts) > 1 else parts[0]

    def operand(self) -> Formula:
        """A condition, or its negation."""
        if self.tokens[self.index].text.upper() not in self.syntax.negation:  # most of them
            return self.condition()
        start, made, outer = self.token, self.count_inside(), self.negative
        while self.accept(*self.syntax.negation):
            self.negative = not self.negative
        body = self.condition()
        odd, self.negative = self.negative != outer, outer
        if odd and self.count_inside() > made:
            self.refuse_negation(start)
        return negation(body) if odd else body

    def count_inside(self) -> int:
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

    @abstractmethod
    def side(self) -> Side:
        """A side of a comparison."""

    def compare(self, operator: Operator, left: Side, right: Side) -> Formula:
        """`left operator right`: of entities if both sides can be entities, else of values."""
        if operator in ("=", "!=") and left.entity is not None and right.entity is not None:
            return (Same if operator == "=" else Different)(left.entity, right.entity)
        return Compare(operator, left.what, right.what)

    def membership(self, item: Side, start: Token) -> Formula | None:
        """Read `[NOT] IN {…}`, if it stands here."""
        negated = self.accept("NOT")
        if not self.accept("IN", "∈"):
            if negated:
                self.unexpected(self.syntax.after_not)
            return None
        opening, closing = self.syntax.brackets
        self.expect(opening, self.syntax.before_members)
        choices: list[Side] = []
        while not self.accept(closing):
            if choices:
                self.expect(",", self.syntax.between_members)
            choices.append(self.side())
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
            value = Value(parse_plain(text), "", token.position, len(text))
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
                self.fail(f"expected a datatype such as xsd:integer after '^^', found {self.next_word()}")
            last = self.advance()
            try:
                value = parse_typed(text, datatype.text)
            except LookupError:
                near = hint(datatype.text.removeprefix(XSD), DATATYPES, "xsd:{}".format)
                self.refuse(f"the datatype {last.text} is not supported{near}", last)
            except ValueError as error:
                self.fail(f"{token.text} is no {last.text}: {error}", token)
            return Side(Value(value, "", token.position, last.position + len(last.text) - token.position))
        name = Name(text, "label", token.position, length)
        return Side(Value(text, "", token.position, length), Constant(name) if text else None)
