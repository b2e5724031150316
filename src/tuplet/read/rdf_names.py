"""Names that an export has put into IRIs: they are taken out again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from tuplet.read.facts import FactColumns

NAMES = "urn:tuplet:name:"


def plain(name: str) -> str:
    """The name in an IRI of ours; any other is itself.

    >>> plain("urn:tuplet:name:New%20York"), plain("http://example.org/a")
    ('New York', 'http://example.org/a')
    """
    return unquote(name[len(NAMES) :]) if name.startswith(NAMES) else name


def with_plain_names(part: FactColumns) -> FactColumns:
    """The same facts, labels and values, of things by their plain names."""
    values = tuple(
        replace(
            batch, name=plain(batch.name), subjects=None if batch.subjects is None else _plain_column(batch.subjects)
        )
        for batch in part.values
    )
    notes: dict[str, Any] = dict(part.notes)
    if "label_attributes" in notes:
        notes["label_attributes"] = [plain(name) for name in notes["label_attributes"]]
    if "type_relation" in notes:
        notes["type_relation"] = plain(notes["type_relation"])
    return replace(
        part,
        head=_plain_column(part.head),
        relation=_plain_column(part.relation),
        tail=_plain_column(part.tail),
        labels={plain(name): label for name, label in part.labels.items()},
        values=values,
        notes=notes,
    )


def _plain_column(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    coded = [chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode() for chunk in chunks]
    return pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays(
                chunk.indices, pa.array(map(plain, chunk.dictionary.to_pylist()), pa.large_string())
            )
            for chunk in coded
        ],
        pa.dictionary(pa.int32(), pa.large_string()),
    )
