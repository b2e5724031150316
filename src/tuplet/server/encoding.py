"""Answers as bytes, slice by slice within the time and the bytes of the request; truncation is reported."""

from __future__ import annotations

import io
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson

from tuplet.query.answers import Answers, csv_text
from tuplet.query.limits import Deadline
from tuplet.server.logs import notes

SLICE = 256  # answers between two looks at the clock: some 50 ms where they rest on 30 atoms each
WORTH_PACKING = 1024  # bytes
MEDIA = {
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "csv_safe": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
_NOT_WANTED = re.compile(r"\bgzip\s*;\s*q=0(\.0*)?\s*(,|$)", re.IGNORECASE)


def encode(value: Any) -> bytes:
    """JSON as bytes, without spaces.

    >>> encode({"é": 10**30, "half a letter": "\\ud800"})
    b'{"\\\\u00e9":1000000000000000000000000000000,"half a letter":"\\\\ud800"}'
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # a number of more than 64 bits, or a text that is none
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def in_time(
    answers: Answers,
    rows: Callable[[int, int], Iterable[Any]],
    between: bytes,
    deadline: Deadline,
    most: float = math.inf,
) -> tuple[list[bytes], dict[str, Any]]:
    """The rows as slices of JSON until the time is up or `most` bytes are written; and the head that is true of them.

    Of the first slice something is shown in any case. Answers that are not written are not shown, so the bound holds
    for them too.
    """
    slices: list[bytes] = []
    head = answers.head()
    for start in range(0, len(answers), SLICE):
        stopped = None
        if slices and deadline.over():
            stopped = notes().pruned = "timeout"
        else:
            found = list(rows(start, start + SLICE))
            piece = encode(found)[1:-1] if between == b"," else between.join(map(encode, found))
            if len(piece) > most:
                stopped = "bytes"
                fitting = _take_fitting(found, between, most, at_least=not slices)
                start += len(fitting)
                piece = between.join(fitting)
            if piece:
                notes().written(len(piece))
                slices.append(piece)
            most -= len(piece)
        if stopped and start < len(answers):
            next_best = float(answers.ranking.truth[start])
            return slices, {**head, "pruned": stopped, "bound": max(head["bound"], next_best)}
    return slices, head


def _take_fitting(rows: Sequence[Any], between: bytes, most: float, at_least: int) -> list[bytes]:
    """The first rows that together are not longer than `most`."""
    found: list[bytes] = []
    for row in rows:
        piece = encode(row)
        most -= len(piece) + len(between)
        if most < 0 and len(found) >= at_least:
            break
        found.append(piece)
    return found


def json_pieces(answers: Answers, deadline: Deadline, most: float = math.inf) -> list[bytes]:
    """The JSON schema of an answer, in pieces."""
    slices, head = in_time(answers, answers.rows, b",", deadline, most)
    begin = encode(head)[:-1] + b',"answers":['
    if len(slices) <= 1:
        return [begin + b"".join(slices) + b"]}"]
    for i, piece in enumerate(slices):  # one by one: all of it is there but once
        slices[i] = (b"," if i else begin) + piece
    return [*slices, b"]}"]


def to_json(answers: Answers, deadline: Deadline, most: float = math.inf) -> bytes:
    """The JSON schema of an answer, in one piece."""
    return b"".join(json_pieces(answers, deadline, most))


def to_lines(answers: Answers, deadline: Deadline, most: float = math.inf) -> list[bytes]:
    """Lines of JSON: first the head, then answer by answer."""
    slices, head = in_time(answers, answers.rows, b"\n", deadline, most)
    return [piece + b"\n" for piece in (encode(head), *slices)]


def to_table(answers: Answers, form: str, most: float = math.inf) -> tuple[bytes, bool]:
    """CSV or Parquet, in one piece (10,000 tuples take some 50 ms); and whether it is all of it."""
    if form in ("csv", "csv_safe"):
        text = csv_text(answers.to_arrow(), safe=form == "csv_safe").encode()
        return (text, True) if len(text) <= most else (_whole_lines(text, int(most)), False)
    import pyarrow.parquet

    table, rows = answers.to_arrow(), len(answers)
    while True:
        sink = io.BytesIO()
        pyarrow.parquet.write_table(table.slice(0, rows), sink)
        size = sink.tell()
        if size <= most or rows <= 1:
            return sink.getvalue(), rows == len(answers)
        rows = max(1, int(0.9 * rows * most / size))


def _whole_lines(text: bytes, most: int) -> bytes:
    """The lines of a CSV file that are not longer than `most` together; a line may lie in quotes.

    >>> _whole_lines(b'x,y\\n1,"a\\nb"\\n2,c\\n', 11), _whole_lines(b'x,y\\n1,"a\\nb"\\n2,c\\n', 12)
    (b'x,y\\n', b'x,y\\n1,"a\\nb"\\n')
    """
    end = text.rfind(b"\n", 0, most)
    while end > 0 and text.count(b'"', 0, end) % 2:
        end = text.rfind(b"\n", 0, end)
    return text[: end + 1]


def takes_gzip(accepted: str) -> bool:
    """Whether a client that sends this `Accept-Encoding` wants gzip.

    >>> [takes_gzip(sent) for sent in ("gzip, deflate, br", "", "identity", "gzip;q=0", "br, GZIP;q=0.5")]
    [True, False, False, False, True]
    """
    return "gzip" in accepted.lower() and not _NOT_WANTED.search(accepted)


def packed(pieces: Sequence[bytes]) -> list[bytes]:
    squeeze = zlib.compressobj(1, wbits=31)
    found = [squeezed for piece in pieces if (squeezed := squeeze.compress(piece))]
    return [*found, squeeze.flush()]
