"""Tables of facts, and beside them tables of entities where these have labels or values: Parquet and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from tuplet.export.export import ExportContent, ExportedFacts, typed_text
from tuplet.graph.attributes import AttributeColumn, Kind
from tuplet.graph.graph import NO_DATE
from tuplet.graph.names import Strings, Vocabulary
from tuplet.query.conditions import arrow_texts

SEVERAL = ";"  # between the values of one cell
_ARROW: dict[Kind, pa.DataType] = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "time": pa.timestamp("us", "UTC"),
    "text": pa.large_string(),
}
_WIDER: dict[frozenset[Kind], Kind] = {
    frozenset({"integer", "number"}): "number",
    frozenset({"date", "time"}): "time",
}
_FIXED = ("head", "relation", "tail", "truth", "status", "date", "id", "label")


def write_facts(content: ExportContent, path: Path, as_text: bool) -> None:
    """Write the facts as Parquet, where a column of values has its own type, or as CSV."""
    fields = [("head", pa.large_string()), ("relation", pa.large_string()), ("tail", pa.large_string())]
    fields += [("truth", pa.float64())] if content.weighted else []
    fields += [("status", pa.large_string())] if content.predicted else []
    fields += [("date", pa.timestamp("s", "UTC"))] if content.graph.date is not None else []
    for name, (kind, several) in column_kinds(content.columns(None)).items():
        if name not in _FIXED:
            fields.append((name, pa.large_list(_ARROW[kind]) if several else _ARROW[kind]))
    schema = pa.schema(fields)
    writer = pa.csv.CSVWriter(path, _plain(schema)) if as_text else pa.parquet.ParquetWriter(path, schema)
    with writer:
        for facts in content.facts():
            table = _facts(content, facts, schema)
            writer.write_table(_as_text(table) if as_text else table)


def nodes(content: ExportContent) -> pa.Table | None:
    """Entities with labels and values; None if no entity has any, and all have facts."""
    entities = content.graph.entities
    columns = content.columns()
    if not columns and not entities.labelled:
        return None
    ids = np.arange(len(entities))
    found: dict[str, Any] = {"id": _names(entities, ids)}
    if entities.labelled:
        labels = pa.array([entities.label(i) for i in ids.tolist()], pa.large_string())
        found["label"] = pc.if_else(pc.equal(labels, ""), pa.scalar(None, pa.large_string()), labels)
    for name, (kind, several) in column_kinds(columns).items():
        if name not in found:
            found[name] = _values([c for c in columns if c.name == name], ids, kind, several)
    return pa.table(found)


def write_nodes(table: pa.Table, path: Path, as_text: bool) -> None:
    """Write a table of entities as Parquet or CSV."""
    if as_text:
        pa.csv.write_csv(_as_text(table), path)
    else:
        pa.parquet.write_table(table, path)


def column_kinds(columns: Sequence[AttributeColumn]) -> dict[str, tuple[Kind, bool]]:
    """Of each attribute the kind that holds all its values (a mixture is text), and whether there are several."""
    found: dict[str, tuple[Kind, bool]] = {}
    for column in columns:
        keys, kind, before = column.ranked.keys, column.kind, found.get(column.name)
        several = bool((keys[1:] == keys[:-1]).any())
        if before is not None:
            kind = kind if kind == before[0] else _WIDER.get(frozenset({kind, before[0]}), "text")
            several |= before[1] or column.relation < 0  # of two families of one entity
        found[column.name] = kind, several
    return found


def _facts(content: ExportContent, facts: ExportedFacts, schema: pa.Schema) -> pa.Table:
    graph = content.graph
    relation = pa.array([graph.relations.name(facts.relation)], pa.large_string())
    found: dict[str, Any] = {
        "head": _names(graph.entities, facts.heads),
        "relation": relation.take(pa.array(np.zeros(len(facts.heads), np.int64))),
        "tail": _names(graph.entities, facts.tails),
        "truth": pa.array(facts.truth),
        "status": pa.array(np.where(facts.stated, "observed", "predicted"), pa.large_string()),
    }
    if facts.date is not None:
        found["date"] = pa.array(facts.date, mask=facts.date == NO_DATE).cast(pa.timestamp("s", "UTC"))
    columns = content.columns(facts.relation)
    for field in schema:
        if field.name not in _FIXED:
            several = pa.types.is_large_list(field.type)
            kind = next(k for k, t in _ARROW.items() if t == (field.type.value_type if several else field.type))
            found[field.name] = _values([c for c in columns if c.name == field.name], facts.keys, kind, several)
    return pa.table({name: found[name] for name in schema.names}, schema)


def _names(words: Vocabulary, ids: NDArray[np.integer]) -> pa.Array:
    distinct, place = np.unique(ids, return_inverse=True)
    return pa.array(words.names(distinct), pa.large_string()).take(pa.array(place))


def _values(columns: Sequence[AttributeColumn], keys: NDArray[Any], kind: Kind, several: bool) -> pa.Array:
    """The values of keys, null where there is none; lists of them if there may be several."""
    dtype, found, parts = _ARROW[kind], [np.zeros(0, np.int64)], [pa.array([], _ARROW[kind])]
    for column in columns:
        place, rank = column.ranked.gather(keys)
        found.append(place)
        parts.append(_distinct(column, dtype).take(pa.array(rank)))
    places, values = np.concatenate(found), pa.concat_arrays(parts)
    if several:
        counts = np.bincount(places, minlength=len(keys))
        offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]))
        values = values.take(pa.array(np.argsort(places, kind="stable")))
        return pa.LargeListArray.from_arrays(offsets, values, mask=pa.array(counts == 0))
    index = np.full(len(keys), -1, np.int64)
    index[places] = np.arange(len(places))
    return values.take(pa.array(index, mask=index < 0))


def _distinct(column: AttributeColumn, dtype: pa.DataType) -> pa.Array:
    """The values of a column, ascending, as a type that holds them."""
    if isinstance(column.values, Strings):
        return arrow_texts(column.values)
    values = pa.array(column.values)
    if column.kind in ("date", "time"):
        values = values.cast(pa.timestamp("us", "UTC")).cast(_ARROW[column.kind])
        if column.kind == "date" and pa.types.is_timestamp(dtype):
            values = values.cast(pa.timestamp("us"))
    return values.cast(dtype)


def _plain(schema: pa.Schema) -> pa.Schema:
    """The types of the columns of a text file."""

    def plain(kind: pa.DataType) -> pa.DataType:
        return pa.large_string() if pa.types.is_large_list(kind) or pa.types.is_timestamp(kind) else kind

    return pa.schema([field.with_type(plain(field.type)) for field in schema])


def _as_text(table: pa.Table) -> pa.Table:
    return pa.table(list(map(_text, table.columns)), schema=_plain(table.schema))


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_large_list(column.type):
        rows = ((typed_text(value)[1] for value in row) if row is not None else None for row in column.to_pylist())
        return pa.chunked_array([pa.array([row and SEVERAL.join(row) for row in rows], pa.large_string())])
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ").cast(pa.large_string())
    return column
