"""Words of Cypher: one compiled expression splits the text; names, values and parameters are read here.

name  `any name`     a variable, label, type or property; a backtick inside is doubled
'text'  "text"       a text, with the escapes of `tokens`
17  1.5  -2e3        a number; true, false; date('2020-01-31'), datetime('2020-01-31T12:00:00')
[1, 2]               a list of values
$name                a parameter: a value or a list of values that is given beside the text
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

from tuplet.errors import hint
from tuplet.lang.ast import Name, Value
from tuplet.lang.tokens import Reader, Token
from tuplet.lang.values import whole_number

Parameters: TypeAlias = Mapping[str, Any]

_TOKEN = re.compile(
    r"""
      (?P<word>[^\W\d]\w*)
    | (?P<space>(?:\s|//[^\n]*|/\*.*?\*/)+)
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
    | (?P<label>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<parameter>\$(?:\w+|`(?:[^`]|``)+`))
    | (?P<unclosed>["'`].*|/\*.*)
    | (?P<sign><>|<=|>=|=~|\.\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)

# What Cypher has and this subset has not, with the way out where there is one.
UNSUPPORTED = {
    "CALL": "a query is one MATCH … RETURN",
    "CREATE": "queries only read",
    "DELETE": "queries only read",
    "DETACH": "queries only read",
    "FOREACH": "queries only read",
    "LOAD": "queries only read",
    "MERGE": "queries only read",
    "OPTIONAL": "every variable of an answer has a value; a property that is missing is returned empty",
    "REMOVE": "queries only read",
    "SET": "queries only read",
    "UNWIND": "list the values with IN",
    "USE": "a query reads one graph",
    "WITH": "write all patterns and conditions before one RETURN",
}
SUPPORTED = ("MATCH", "WHERE", "RETURN", "ORDER", "SKIP", "LIMIT", "UNION")
_FULL = {"OPTIONAL": "OPTIONAL MATCH", "LOAD": "LOAD CSV"}
_CLOSED_BY = {"/": "*/"}
_NUMBER_TYPES = (bool, int, float, str, datetime.date)


class CypherReader(Reader):
    """Walks the words of a Cypher text: names, values, parameters and keywords."""

    def __init__(self, text: str, parameters: Parameters) -> None:
        self.text = text
        self.tokens = cypher_tokens(text)
        self.index = 0
        self.depth = 0
        self.prefixes = {}
        self.parameters = parameters

    # --- words --------------------------------------------------------------------------------------------------------

    def at(self, sign: str, then: str = "") -> bool:
        """Whether this sign comes next, and another one `then`."""
        token = self.tokens[self.index]
        return token.text == sign and token.kind == "sign" and (not then or self.tokens[self.index + 1].text == then)

    def at_keyword(self, word: str) -> bool:
        """Whether this keyword comes next."""
        token = self.tokens[self.index]
        return token.kind == "word" and token.text.upper() == word

    def keyword(self, word: str) -> bool:
        """Read this keyword if it comes next."""
        if not self.at_keyword(word):
            return False
        self.index += 1
        return True

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        at = token or self.token
        if at.kind == "unclosed":
            close = _CLOSED_BY.get(at.text[0], at.text[0])
            super().fail(f"this {at.text[: len(close)]} is never closed with {close}", Token("sign", "", at.position))
        super().fail(message, token)

    def refuse(self, message: str, token: Token | None = None) -> NoReturn:
        if (token or self.token).kind == "unclosed":
            self.fail(message, token)
        super().refuse(message, token)

    def unexpected(self, expected: str, near: tuple[str, ...] = ()) -> NoReturn:
        """Refuse the next word: by name if Cypher knows it, with a suggestion if it is nearly a keyword."""
        token = self.token
        word = token.text.upper() if token.kind == "word" else ""
        if word in UNSUPPORTED:
            self.refuse(f"{_FULL.get(word, word)} is not supported; {UNSUPPORTED[word]}")
        advice = hint(word, near) if word and word not in near else ""
        self.fail(f"expected {expected}, found {self.found()}{advice}")

    # --- names and values ---------------------------------------------------------------------------------------------

    def identifier(self, what: str) -> Token:
        """Read a name; the token's text is the name itself."""
        token = self.token
        if token.kind == "quoted":
            self.index += 1
            return token._replace(text=token.text[1:-1].replace("``", "`"))
        if token.kind != "word":
            self.fail(f"expected {what}, found {self.found()}")
        self.index += 1
        return token

    def named(self, what: str) -> Name:
        """Read the name of something in the graph."""
        place = self.token
        token = self.identifier(what)
        return Name(token.text, "name", place.position, len(place.text))

    def value(self) -> Value | tuple[Value, ...] | None:
        """Read a value, a list of values, or null (`None`)."""
        token = self.token
        match token.kind:
            case "label":
                self.index += 1
                text = self._unescape(token) if "\\" in token.text else token.text[1:-1]
                return Value(text, "", token.position, len(token.text))
            case "number":
                self.index += 1
                return Value(self._number(token), "", token.position, len(token.text))
            case "parameter":
                self.index += 1
                return self._parameter(token)
        if self.accept("-", "+"):
            number = self.value() if self.token.kind in ("number", "parameter") else None
            if not isinstance(number, Value) or isinstance(number.value, bool | str | datetime.date):
                self.fail("expected a number after the sign", token)
            plain = -number.value if token.text == "-" else number.value
            return Value(plain, "", token.position, number.position + number.length - token.position)
        if self.accept("["):
            return self._list()
        if self.keyword("TRUE"):
            return Value(True, "", token.position, 4)
        if self.keyword("FALSE"):
            return Value(False, "", token.position, 5)
        if self.keyword("NULL"):
            return None
        if self.at_keyword("DATE") or self.at_keyword("DATETIME") or self.at_keyword("LOCALDATETIME"):
            return self._time()
        if self.at("{"):
            self.refuse("maps are not supported; compare properties one by one")
        self.unexpected("a value")

    def starts_value(self) -> bool:
        """Whether a value comes next."""
        token = self.token
        if token.kind == "word":
            timed = token.text.upper() in ("DATE", "DATETIME", "LOCALDATETIME")
            opened = self.tokens[self.index + 1].text == "("
            return token.text.upper() in ("TRUE", "FALSE", "NULL") or (timed and opened)
        return token.kind in ("label", "number", "parameter") or token.text in ("[", "-", "+", "{")

    def _number(self, token: Token) -> int | float:
        number = float(token.text)
        if token.text.isdigit():
            try:
                return whole_number(token.text)
            except ValueError as error:
                self.fail(str(error), token)
        if number in (float("inf"), float("-inf")):
            self.fail("this number is too large", token)
        return number

    def _list(self) -> tuple[Value, ...]:
        self.deeper()
        values: list[Value] = []
        while not self.accept("]"):
            if values:
                self.expect(",", "or ']' in a list")
            token = self.token
            value = self.value()
            if not isinstance(value, Value):
                self.refuse("a list holds numbers, texts, dates, true and false, nothing else", token)
            values.append(value)
        self.depth -= 1
        return tuple(values)

    def _time(self) -> Value:
        function = self.advance()
        self.expect("(", f"after {function.text}")
        token = self.token
        given = self.value()
        if not isinstance(given, Value) or not isinstance(given.value, str):
            self.fail(f"{function.text}() takes a text such as '2020-01-31'", token)
        closing = self.token
        self.expect(")", f"after the text of {function.text}")
        read = datetime.date if function.text.upper() == "DATE" else datetime.datetime
        try:
            value = read.fromisoformat(given.value)
        except ValueError:
            self.fail(f"{given.value!r} is no {function.text}; write it as 2020-01-31 or 2020-01-31T12:00:00", token)
        return Value(value, "", function.position, closing.position + 1 - function.position)

    def _parameter(self, token: Token) -> Value | tuple[Value, ...] | None:
        name = token.text[1:].strip("`")
        if name not in self.parameters:
            self.fail(f"the parameter ${name} has no value{hint(name, self.parameters, '${}'.format)}", token)
        given = self.parameters[name]
        if isinstance(given, list | tuple):
            if not all(isinstance(item, _NUMBER_TYPES) for item in given):
                self.fail(f"the list ${name} holds something that is no number, text or date", token)
            return tuple(Value(item, "", token.position, len(token.text)) for item in given)
        if given is None:
            return None
        if not isinstance(given, _NUMBER_TYPES):
            self.fail(f"the parameter ${name} is no number, text, date or list of them", token)
        return Value(given, "", token.position, len(token.text))


def cypher_tokens(text: str) -> list[Token]:
    """The words of a Cypher text, spaces and comments left out, an `end` at the end.

    >>> [t.text for t in cypher_tokens("MATCH (d:Drug)-->(x) // all")]
    ['MATCH', '(', 'd', ':', 'Drug', ')', '-', '-', '>', '(', 'x', ')', '']
    """
    found = [
        Token(kind, match.group(), match.start())
        for match in _TOKEN.finditer(text)
        if (kind := match.lastgroup or "") != "space"
    ]
    found.append(Token("end", "", len(text)))
    return found
