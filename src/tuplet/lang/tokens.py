"""Words of the query languages: one compiled expression splits the text, one reader walks the words.

Names are written alike in SPARQL and in logic text:

    <any text>      the exact name, every character but `>`; a space or `=` after `<` makes it a comparison
    :name           the exact name, or the declared expansion of the empty prefix and `name`
    p:name          a declared prefix and a name; `\\` before a character takes it literally, as in `:a\\>b`
    "some label"    a label, with the escapes `\\" \\' \\\\ \\n \\r \\t \\b \\f \\uXXXX \\UXXXXXXXX`; '…' works too
    17              the exact name 17; in the place of a value, the number
    @17             number 17 of the dataset, counted from 0: for benchmarks, whose queries have numbers
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple, NoReturn
from urllib.parse import urljoin

from tuplet.errors import BudgetExceeded, ParseError, Unsupported, hint
from tuplet.lang.ast import Name, Plain, Value

XSD = "http://www.w3.org/2001/XMLSchema#"
LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
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
_INTEGERS = (
    *("integer", "int", "long", "short", "byte", "gYear"),
    *("unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte"),
    *("nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger"),
)
_TIMES = ("dateTime", "dateTimeStamp")
_TEXTS = ("string", "normalizedString", "token", "anyURI")
DATATYPES = (*_INTEGERS, "decimal", "double", "float", "boolean", "date", *_TIMES, *_TEXTS)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def plain(text: str) -> Plain:
    """The value of a text that `UNQUOTED` matches.

    >>> [plain(text) for text in ("30", "-1.5", "true", "1990-01-01")]
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


def typed(text: str, datatype: str) -> Plain:
    """The value of a quoted text of a datatype of XML Schema; `KeyError` if it is not known, `ValueError` if it does
    not fit.

    >>> typed("30", XSD + "integer"), typed("0", XSD + "boolean"), typed("a", XSD + "string")
    (30, False, 'a')
    """
    name = datatype.removeprefix(XSD)
    if datatype == LANG_STRING or name in _TEXTS:
        return text
    written = text.strip()
    if name in _INTEGERS:
        return whole_number(written)
    if name in ("decimal", "double", "float"):
        return _finite(float(written), infinite=name != "decimal")
    if name == "boolean":
        return {"true": True, "1": True, "false": False, "0": False}[written]
    if name == "date":
        return datetime.date.fromisoformat(written)
    if name in _TIMES:
        return datetime.datetime.fromisoformat(written)
    raise LookupError(datatype)


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


def quoted(text: str) -> str:
    """A text in quotes, with escapes.

    >>> print(quoted('say "no"'))
    "say \\"no\\""
    """
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


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
            return quoted(text) + (f"@{value.language}" if value.language else "^^xsd:string" if full else "")
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
    split = [(match.lastgroup, match[match.lastindex or 0], match.start()) for match in _words(text, start, lexicon)]
    return [*map(Token._make, split), Token("end", "", len(text))]


def more_tokens_than(text: str, most: int) -> bool:
    """Whether a text has more than so many words and signs, told without reading further than that.

    >>> more_tokens_than("?x : r(?x, a) # all", 8), more_tokens_than("?x : r(?x, a) # all", 7)
    (False, True)
    """
    return next(islice(_words(text, 0), most, None), None) is not None


def _words(text: str, start: int, lexicon: Lexicon = WORDS) -> Iterator[re.Match[str]]:
    first = lexicon.before.match(text, start)
    return lexicon.word.finditer(text, first.end() if first else start)


class Reader:
    """Walks the words of a text; what the grammars share: expectations, carets, names, values, prefixes, depth."""

    lexicon = WORDS

    def __init__(self, text: str, prefixes: Mapping[str, str] | None = None) -> None:
        self.text = text
        self.tokens = tokenize(text, 0, self.lexicon)
        self.index = 0
        self.depth = 0
        self.base = ""  # where names in <…> begin that are no whole IRI
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
            self.fail(f"expected {sign!r} {place}, found {self.found()}{advice}")

    def found(self) -> str:
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

    def deeper(self) -> None:
        """Enter one level of nesting; leave it with `self.depth -= 1`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise BudgetExceeded(f"query too large: nested more than {MAX_DEPTH} levels deep", limit="depth")

    def number(self, what: str) -> int:
        """Read a whole number."""
        token = self.token
        if token.kind != "word" or not is_number(token.text):
            self.fail(f"expected a whole number {what}, found {self.found()}")
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
                self.fail(f"expected a prefix such as 'p:' after PREFIX, found {self.found()}")
            self.advance()
            self.prefixes[prefix.text[:-1]] = self._iri(f"after the prefix {prefix.text!r}")

    def _iri(self, place: str) -> str:
        if self.token.kind != "exact":
            self.fail(f"expected <…> {place}, found {self.found()}")
        return self._joined(self.advance().text[1:-1])

    def _joined(self, text: str) -> str:
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
            written = self._joined(text[1:-1])
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
