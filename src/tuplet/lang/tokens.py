"""Words of the query languages: one compiled expression splits the text, one reader walks the words.

Names are written alike in SPARQL and in logic text:

    <any text>      the exact name, every character but `>`
    :name           the exact name, or the declared expansion of the empty prefix and `name`
    p:name          a declared prefix and a name; `\\` before a character takes it literally, as in `:a\\>b`
    "some label"    a label, with the escapes `\\" \\' \\\\ \\n \\r \\t \\b \\f \\uXXXX \\UXXXXXXXX`; '…' works too
    17              the number of an entity or relation in its dataset
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from tuplet.errors import BudgetExceeded, ParseError, Unsupported, hint
from tuplet.lang.ast import And, Formula, Name, Not, Or

MAX_DEPTH = 64
MAX_DIGITS = 18

# An opening `<` or quote that never closes takes the rest, so that splitting stays linear in the text.
_TOKEN = re.compile(
    r"""
      (?P<space>(?:\s|\#[^\n]*)+)
    | (?P<variable>[?$]\w+)
    | (?P<prefixed>(?:[^\W\d_](?:[\w-]|\.+(?=[\w:-]))*)?
                   :(?:(?:[\w:]|\\.|%[0-9A-Fa-f]{2})(?:[\w:-]|\\.|%[0-9A-Fa-f]{2}|\.+(?=[\w:%\\-]))*)?)
    | (?P<word>/?\w(?:[\w./-]*\w)?)
    | (?P<exact><[^>]*>)
    | (?P<label>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<unclosed><[^>]*|["'][^\n]*)
    | (?P<sign>!=|&&|\|\||\^\^|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


class Token(NamedTuple):
    """A word of the text: its kind (a group of the expression above, or `end`), itself, and where it stands."""

    kind: str
    text: str
    position: int


def tokenize(text: str, start: int = 0) -> list[Token]:
    """The words of a text from `start` on, spaces and comments left out, an `end` at the end.

    >>> [t.text for t in tokenize('?x : treats(?x, "asthma") # all')]
    ['?x', ':', 'treats', '(', '?x', ',', '"asthma"', ')', '']
    """
    found = [
        Token(match.lastgroup or "", match.group(), match.start())
        for match in _TOKEN.finditer(text, start)
        if match.lastgroup != "space"
    ]
    found.append(Token("end", "", len(text)))
    return found


def conjunction(parts: list[Formula]) -> Formula:
    """`parts` joined by and, with nested conjunctions made one level; a single part stays itself."""
    return _join(And, parts)


def disjunction(parts: list[Formula]) -> Formula:
    """`parts` joined by or, with nested disjunctions made one level; a single part stays itself."""
    return _join(Or, parts)


def negation(body: Formula) -> Formula:
    """Not `body`; two negations cancel."""
    return body.body if isinstance(body, Not) else Not(body)


def _join(kind: type[And] | type[Or], parts: list[Formula]) -> Formula:
    flat: list[Formula] = []
    for part in parts:
        if isinstance(part, kind):
            flat.extend(part.parts)
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


class Reader:
    """Walks the words of a text; what both grammars share: expectations, carets, names, prefixes, depth."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.index = 0
        self.depth = 0
        self.prefixes: dict[str, str] = {}

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

    def accept(self, *signs: str) -> bool:
        """Read the next word if it is one of these signs."""
        token = self.tokens[self.index]
        if token.kind in ("sign", "prefixed") and token.text in signs:
            self.index += 1
            return True
        return False

    def expect(self, sign: str, place: str) -> None:
        """Read this sign, or say that it was expected there."""
        if not self.accept(sign):
            self.fail(f"expected {sign!r} {place}, found {self.found()}")

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
        """Read `PREFIX p: <start of names>` declarations."""
        while self.token.kind == "word" and self.token.text.upper() == "PREFIX":
            self.advance()
            prefix = self.token
            if prefix.kind != "prefixed" or not prefix.text.endswith(":") or prefix.text.count(":") > 1:
                self.fail(f"expected a prefix such as 'p:' after PREFIX, found {self.found()}")
            self.advance()
            if self.token.kind != "exact":
                self.fail(f"expected <…> after the prefix {prefix.text!r}, found {self.found()}")
            self.prefixes[prefix.text[:-1]] = self.advance().text[1:-1]

    def name(self, token: Token) -> Name | None:
        """The name a word stands for, or None if it is not a name; bare words other than numbers are not."""
        kind, text = token.kind, token.text
        if kind == "prefixed":
            written = self._expand(token)
        elif kind == "exact":
            written = text[1:-1]
        elif kind == "label":
            if not text[1:-1]:
                self.fail("an empty label names nothing", token)
            label = self._unescape(token) if "\\" in text else text[1:-1]
            return Name(label, "label", token.position, len(text))
        elif kind == "word" and is_number(text):
            if len(text) > MAX_DIGITS:
                self.fail(f"a number of an entity or relation has at most {MAX_DIGITS} digits", token)
            return Name(str(int(text)), "id", token.position, len(text))
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
