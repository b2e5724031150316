"""Values as queries write them: `30`, `-1.5`, `2e9`, `true`, `1990-01-01`, `1990-01-01T12:00:00Z`, `"text"@en`,
`"30"^^xsd:integer`."""

from __future__ import annotations

import datetime
import math
import re

from tuplet.lang.ast import Plain, Value

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
