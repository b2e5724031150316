"""Dates of facts: seconds since the beginning of 1970 in universal time, as int64; `NO_DATE` where there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.graph import NO_DATE

_START = datetime(1970, 1, 1, tzinfo=UTC)
_PARTIAL = re.compile(r"(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2}))?)?")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)")
# As spreadsheets write it: 31.05.2024, 31/05/2024 or 05/31/2024, perhaps with a time of day.
_LOCAL = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T](\d{1,2}):(\d\d)(?::(\d\d))?)?")


def seconds(text: str, day_first: bool | None = None) -> int:
    """A date as seconds: a year, a month, a day or a time as ISO 8601 writes it; other whole numbers are Unix time.

    Days are read as 31.05.2024, too; with slashes if it is known whether the day comes first.

    >>> [seconds(text) for text in ("1970-01-02", "1970/1/2", "1970", "19700102", "1970-01-02T00:00:30Z", "90", "")]
    [86400, 86400, 0, 86400, 86430, 90, -9223372036854775808]
    >>> seconds("02.01.1970"), seconds("1/2/1970", day_first=False), seconds("2/1/1970 0:01", day_first=True)
    (86400, 86400, 86460)
    >>> seconds("tomorrow")
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
            moment = datetime(year, month, day, tzinfo=UTC)
        elif local:
            one, other, year, hour, minute, second = (int(local[place] or 0) for place in (1, 3, 4, 5, 6, 7))
            day, month = (one, other) if local[2] == "." or day_first else (other, one)
            moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        elif re.fullmatch(r"-?\d{1,12}", text):
            return int(text)
        else:
            moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"the date {text!r} is not like 2024, 2024-05-31 or 2024-05-31T12:30:00; an attribute may be any text"
        ) from None
    return int(((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _START).total_seconds())


def _day_first(words: Iterable[str]) -> bool | None:
    """Whether dates of a column have the day first: one beyond the twelfth says so. None if none does, or both.

    >>> _day_first(["3/4/2024", "31/5/2024"]), _day_first(["3/4/2024", "5/31/2024"]), _day_first(["3/4/2024"])
    (True, False, None)
    """
    found = [match for word in words if (match := _LOCAL.fullmatch(word.strip())) and match[2] != "."]
    first, second = (any(int(match[place]) > 12 for match in found) for place in (1, 3))
    return first if first != second else None


def seconds_of(where: str, column: pa.ChunkedArray) -> NDArray[np.int64]:
    """The dates of an Arrow column of dates, times, numbers or text. [rows]"""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        whole = column.cast(pa.timestamp("s", getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        dates: NDArray[np.int64] = whole.fill_null(NO_DATE).to_numpy().astype(np.int64)
        return dates
    if not pa.types.is_dictionary(kind):
        try:
            column = column.cast(pa.large_string())
        except pa.ArrowException:
            raise BadInput(f"{where}: the date column of type {kind} does not hold dates") from None
        column = column.fill_null("").dictionary_encode()
    chunks = [np.zeros(0, np.int64)]
    day_first = _day_first(text for chunk in column.chunks for text in chunk.dictionary.to_pylist() if text)
    for chunk in column.chunks:
        try:
            known = np.array([seconds(text or "", day_first) for text in chunk.dictionary.to_pylist()], np.int64)
        except ValueError as error:
            raise BadInput(f"{where}: {error}") from None
        chunks.append(known[chunk.indices.to_numpy()])
    return np.concatenate(chunks)
