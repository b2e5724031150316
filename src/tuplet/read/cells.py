"""Texts as values: what kind the cells of a column are, and the Arrow array of that kind."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuplet.graph.attributes import Kind
from tuplet.graph.graph import NO_DATE

# What stands for a missing value where the others are no texts; an empty cell always does.
MISSING = pa.array(["NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "none", "\\N"], pa.large_string())

_PATTERNS: dict[Kind, str] = {
    "integer": r"^[+-]?(0|[1-9][0-9]{0,18})$",
    "number": r"^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$",
    "boolean": r"^(true|false|True|False|TRUE|FALSE)$",
    "date": r"^[0-9]{4}-[01][0-9]-[0-3][0-9]$",
    "time": r"^[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?$",
}
# A number that begins with 0 is a code, such as that of a town; so is one that 64 bits do not hold.
_CODE = r"^[+-]?(0[0-9]+|[1-9][0-9]{18,})$"
_ARROW: dict[Kind, pa.DataType] = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "time": pa.timestamp("us", "UTC"),
    "text": pa.large_string(),
}


NO_ROW = -1


class BadRow(Exception):
    """What is wrong in a row, which is counted from 0; NO_ROW: in a whole column."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row, self.message = row, message


def infer_values(cells: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """The values of cells of the most special kind that fits them all; null where there is none.

    If at least half are numbers (or dates) and the others are not, there are two arrays: those, and the rest as texts.

    >>> [part.to_pylist() for part in infer_values(pa.array(["31", "", "28"])) if part is not None]
    [[31, None, 28]]
    >>> [part.to_pylist() for part in infer_values(pa.array(["31", "old", "28", "NA"])) if part is not None]
    [[31, None, 28, None], [None, 'old', None, None]]
    >>> [part.to_pylist()[1] for part in infer_values(pa.array(["2024-02-01", "2024-02-30"])) if part is not None]
    [None, '2024-02-30']
    >>> infer_values(pa.array(["007", ""]))[0].to_pylist()
    ['007', None]
    >>> infer_values(pa.array(["12345678901234567890", "7"]))[0].to_pylist()
    ['12345678901234567890', '7']
    """
    coded = join_chunks(cells).cast(pa.large_string()).dictionary_encode()
    words = coded.dictionary
    empty = pc.equal(words, "")
    stated = pc.invert(pc.or_(empty, pc.is_in(words, MISSING)))
    some = pc.sum(stated).as_py() or 0
    fitting: dict[Kind, pa.Array] = {}
    for kind in _PATTERNS:
        values = _parse_words(kind, words)
        if kind == "number":
            code = pc.and_(pc.match_substring_regex(words, _CODE), pc.is_null(fitting["integer"]))
            values = _keep(values, pc.invert(code))
        found = len(values) - values.null_count
        if found and found == some:
            return values.take(coded.indices), None
        fitting[kind] = values
    halves: tuple[Kind, ...] = () if pc.any(code).as_py() else ("number", "date")
    for kind in halves:
        values = fitting[kind]
        if 2 * (len(values) - values.null_count) >= max(some, 1):
            others = pc.and_(stated, pc.is_null(values))
            if kind == "number" and fitting["integer"].null_count == values.null_count:
                values = fitting["integer"]
            return values.take(coded.indices), _keep(words, others).take(coded.indices)
    # Texts keep their dictionary, which spares looking up each of them.
    absent = empty.take(coded.indices)
    indices = pc.if_else(absent, pa.scalar(None, coded.indices.type), coded.indices)
    return pa.DictionaryArray.from_arrays(indices, words), None


def cast_words(cells: pa.Array, kind: Kind) -> tuple[pa.Array, str | None]:
    """The values of cells of a stated kind, null where a cell is empty; and the first cell that is of another.

    >>> cast_words(pa.array(["1", "", "x"]), "integer")[1], cast_words(pa.array([" +7"]), "integer")[0].to_pylist()
    ('x', [7])
    """
    cells = join_chunks(cells).cast(pa.large_string())
    if kind == "text":
        return cells, None
    coded = cells.dictionary_encode()
    words = _keep(coded.dictionary, pc.not_equal(coded.dictionary, ""))
    values, bad = _parse_words(kind, words), None
    if values.null_count > words.null_count:  # other spellings, such as 007 and INF
        read = [None if word is None else _read(kind, word.strip()) for word in words.to_pylist()]
        values = pa.array(read, _ARROW[kind])
        failed = words.filter(pc.and_(pc.is_valid(words), pc.is_null(values)))
        bad = failed[0].as_py() if len(failed) else None
    return values.take(coded.indices), bad


def _parse_words(kind: Kind, words: pa.Array) -> pa.Array:
    """Words as values of a kind, null where a word does not look like one."""
    fitting = _keep(words, pc.match_substring_regex(words, _PATTERNS[kind]))
    try:
        return _cast(kind, fitting)
    except pa.ArrowException:  # one looks like a value and is none: there is no 30th of February
        return pa.array([None if word is None else _read(kind, word) for word in fitting.to_pylist()], _ARROW[kind])


def _read(kind: Kind, word: str) -> Any:
    """The value of a word, None if it is not of the kind."""
    try:
        return READERS[kind](word)
    except (ValueError, OverflowError):
        return None


def join_chunks(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if not column.num_chunks:
        return pa.array([], column.type)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def is_text(kind: pa.DataType) -> bool:
    """Whether it is a type of texts."""
    t = pa.types
    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))


def _keep(values: pa.Array, keep: pa.Array) -> pa.Array:
    return pc.if_else(keep, values, pa.scalar(None, values.type))


def _cast(kind: Kind, words: pa.Array) -> pa.Array:
    """Words that look like a kind, as values of it."""
    if kind == "boolean":
        return pc.utf8_lower(words).cast(pa.bool_())
    if kind in ("integer", "number"):
        words = pc.replace_substring_regex(words, r"^\+", "")
    if kind == "time":
        # Without a zone a time is in universal time.
        zoned = pc.match_substring_regex(words, r"(Z|[+-][0-9]{2}:?[0-9]{2})$")
        zone, between = pa.scalar("Z", words.type), pa.scalar("", words.type)
        words = pc.if_else(zoned, words, pc.binary_join_element_wise(words, zone, between))
    return words.cast(_ARROW[kind])


def _integer(text: str) -> int:
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise OverflowError(text)
    return value


def _time(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


# What makes a value of a kind from a text; a ValueError says that it is none.
READERS: dict[Kind, Callable[[str], Any]] = {
    "integer": _integer,
    "number": lambda text: float({"INF": "inf", "-INF": "-inf"}.get(text, text)),
    "boolean": lambda text: ("false", "0", "true", "1").index(text.lower()) > 1,
    "date": lambda text: datetime.date.fromisoformat(re.sub(r"(Z|[+-]\d\d:\d\d)$", "", text)),
    "time": _time,
}


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], Kind], ...] = (
    (pa.types.is_integer, "integer"),
    (pa.types.is_floating, "number"),
    (pa.types.is_decimal, "number"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "time"),
    (pa.types.is_time, "text"),
    (is_text, "text"),
)


def find_kind(kind: pa.DataType) -> Kind | None:
    """The kind of the values of an Arrow type, if attributes can hold them."""
    return next((found for fits, found in _KINDS if fits(kind)), None)


def normalize(column: pa.Array | pa.ChunkedArray) -> pa.Array | None:
    """Values of a table as attributes keep them: 64-bit numbers, days, times in microseconds, texts; None if neither.

    >>> normalize(pa.array([1.0, None])).to_pylist(), normalize(pa.array([1.5, float("nan")])).to_pylist()
    ([1, None], [1.5, None])
    """
    array, stored = join_chunks(column), column.type
    if pa.types.is_dictionary(stored):
        return normalize(array.cast(stored.value_type))
    if pa.types.is_list(stored) or pa.types.is_large_list(stored):
        inner = normalize(array.values)
        made = pa.ListArray if pa.types.is_list(stored) else pa.LargeListArray
        return None if inner is None else made.from_arrays(array.offsets, inner, mask=pc.is_null(array))
    if (kind := find_kind(stored)) is None:
        return None
    wanted = pa.timestamp("us") if kind == "time" and stored.tz is None else _ARROW[kind]
    array = array.cast(wanted, safe=False)
    if kind != "number":
        return array
    # Where values are missing, data frames write whole numbers with a fraction of 0.
    array = _keep(array, pc.invert(pc.is_nan(array)))
    if array.null_count in (0, len(array)) or not pc.all(pc.equal(pc.round(array), array)).as_py():
        return array
    return array.cast(pa.int64()) if pc.max(pc.abs(array)).as_py() < 2**53 else array


_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_PARTIAL = re.compile(r"(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2}))?)?")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)")
# As spreadsheets write it: 31.05.2024, 31/05/2024 or 05/31/2024, perhaps with a time of day.
_LOCAL = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T](\d{1,2}):(\d\d)(?::(\d\d))?)?")


def parse_seconds(text: str, day_first: bool | None = None) -> int:
    """A date as seconds: a year, a month, a day or a time as ISO 8601 writes it; other whole numbers are Unix time.

    Days are read as 31.05.2024, too; with slashes if it is known whether the day comes first.

    >>> [parse_seconds(text) for text in ("1970-01-02", "1970/1/2", "1970", "19700102", "02.01.1970", "90", "")]
    [86400, 86400, 0, 86400, 86400, 90, -9223372036854775808]
    >>> parse_seconds("1/2/1970", day_first=False), parse_seconds("2/1/1970 0:01", day_first=True)
    (86400, 86460)
    >>> parse_seconds("tomorrow")
    Traceback (most recent call last):
    ValueError: the date 'tomorrow' is not like 2024, 2024-05-31 or 2024-05-31T12:30:00; an attribute may be any text
    """
    text = text.strip()
    if not text:
        return NO_DATE
    local = _LOCAL.fullmatch(text)
    if local and local[2] != "." and day_first is None:
        either = "may have the day or the month first, and no other date of the column says which"
        raise ValueError(f"the date {text!r} {either}; write 2024-05-31")
    try:
        match = _PARTIAL.fullmatch(text) or _COMPACT.fullmatch(text)
        if match:
            year, month, day = (int(part or 1) for part in match.groups())
            moment = datetime.datetime(year, month, day, tzinfo=datetime.UTC)
        elif local:
            one, other, year, hour, minute, second = (int(local[place] or 0) for place in (1, 3, 4, 5, 6, 7))
            day, month = (one, other) if local[2] == "." or day_first else (other, one)
            moment = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
        elif re.fullmatch(r"-?\d{1,12}", text):
            return int(text)
        else:
            moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"the date {text!r} is not like 2024, 2024-05-31 or 2024-05-31T12:30:00; an attribute may be any text"
        ) from None
    return int(((moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)) - _START).total_seconds())


def _day_first(words: Iterable[str]) -> bool | None:
    """Whether dates of a column have the day first: one beyond the twelfth says so. None if none does, or both.

    >>> _day_first(["3/4/2024", "31/5/2024"]), _day_first(["3/4/2024", "5/31/2024"]), _day_first(["3/4/2024"])
    (True, False, None)
    """
    found = [match for word in words if (match := _LOCAL.fullmatch(word.strip())) and match[2] != "."]
    first, second = (any(int(match[place]) > 12 for match in found) for place in (1, 3))
    return first if first != second else None


def cast_dates(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """The dates of an Arrow column of dates, times, numbers or text. [rows]"""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        moments = join_chunks(column).cast(pa.timestamp("s", getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        dates: NDArray[np.int64] = moments.fill_null(NO_DATE).to_numpy()
        return dates
    try:
        coded = join_chunks(column).cast(pa.large_string()).fill_null("").dictionary_encode()
    except pa.ArrowException:
        raise BadRow(NO_ROW, f"the date column of type {kind} does not hold dates") from None
    words = coded.dictionary.to_pylist()
    day_first, known = _day_first(words), np.empty(len(words), np.int64)
    for i, text in enumerate(words):
        try:
            known[i] = parse_seconds(text, day_first)
        except ValueError as error:
            raise BadRow(pc.index(coded.indices, i).as_py(), str(error)) from None
    dates = known[coded.indices.to_numpy()]
    return dates
