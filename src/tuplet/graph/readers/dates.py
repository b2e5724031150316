"""Dates of facts: seconds since the beginning of 1970 in universal time, as int64; `NO_DATE` where there is none."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.graph import NO_DATE

_START = datetime(1970, 1, 1, tzinfo=UTC)
_PARTIAL = re.compile(r"(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2}))?)?")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)")


def seconds(text: str) -> int:
    """A date as seconds: a year, a month, a day or a time as ISO 8601 writes it; other whole numbers are Unix time.

    >>> [seconds(text) for text in ("1970-01-02", "1970/1/2", "1970", "19700102", "1970-01-02T00:00:30Z", "90", "")]
    [86400, 86400, 0, 86400, 86430, 90, -9223372036854775808]
    >>> seconds("tomorrow")
    Traceback (most recent call last):
    ValueError: the date 'tomorrow' is not like 2024, 2024-05-31 or 2024-05-31T12:30:00; an attribute may be any text
    """
    text = text.strip()
    if not text:
        return NO_DATE
    try:
        match = _PARTIAL.fullmatch(text) or _COMPACT.fullmatch(text)
        if match:
            year, month, day = (int(part or 1) for part in match.groups())
            moment = datetime(year, month, day, tzinfo=UTC)
        elif re.fullmatch(r"-?\d{1,12}", text):
            return int(text)
        else:
            moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"the date {text!r} is not like 2024, 2024-05-31 or 2024-05-31T12:30:00; an attribute may be any text"
        ) from None
    return int(((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _START).total_seconds())


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
    for chunk in column.chunks:
        try:
            known = np.array([seconds(text or "") for text in chunk.dictionary.to_pylist()], np.int64)
        except ValueError as error:
            raise BadInput(f"{where}: {error}") from None
        chunks.append(known[chunk.indices.to_numpy()])
    return np.concatenate(chunks)
