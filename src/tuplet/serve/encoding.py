"""Answers as bytes, slice by slice under the deadline of the request; what there was no time to write is said."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tuplet.query.answers import Answers
from tuplet.query.limits import Deadline

SLICE = 256  # answers between two looks at the clock: some 50 ms where they rest on 30 atoms each
MEDIA = {
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


def encode(value: Any) -> bytes:
    """JSON as bytes, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def in_time(
    answers: Answers, rows: Callable[[int, int], Iterable[Any]], between: bytes, deadline: Deadline
) -> tuple[list[bytes], dict[str, Any]]:
    """The rows as slices of JSON until the time is up, the first slice in any case; and the head that is true of them.

    Answers that are not written are not shown, so the bound holds for them too.
    """
    slices: list[bytes] = []
    head = answers.head()
    for start in range(0, len(answers), SLICE):
        if slices and deadline.over():
            next_best = float(answers.ranking.truth[start])
            return slices, {**head, "pruned": "timeout", "bound": max(head["bound"], next_best)}
        slices.append(between.join(encode(row) for row in rows(start, start + SLICE)))
    return slices, head


def to_json(answers: Answers, deadline: Deadline) -> bytes:
    """The JSON schema of an answer."""
    slices, head = in_time(answers, answers.rows, b",", deadline)
    return encode(head)[:-1] + b',"answers":[' + b",".join(slices) + b"]}"


def to_lines(answers: Answers, deadline: Deadline) -> Iterator[bytes]:
    """Lines of JSON: first what was asked and what is known of the rest, then tuple by tuple."""
    slices, head = in_time(answers, answers.rows, b"\n", deadline)
    return (piece + b"\n" for piece in (encode(head), *slices))


def to_table(answers: Answers, form: str) -> bytes:
    """CSV or Parquet, in one piece: 10,000 tuples take some 50 ms."""
    if form == "csv":
        return answers.to_csv().encode()
    import pyarrow.parquet

    sink = io.BytesIO()
    pyarrow.parquet.write_table(answers.to_arrow(), sink)
    return sink.getvalue()
