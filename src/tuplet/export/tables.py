"""Tables of facts, and beside them tables of entities where these have labels or values: Parquet and CSV."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from tuplet.export.content import ExportContent, ExportedFacts
from tuplet.graph.attributes import AttributeColumn, Kind
from tuplet.graph.graph import NO_DATE
from tuplet.graph.names import Strings, Vocabulary

SEVERAL = ";"  # between the values of one cell
_ARROW: dict[Kind, pa.DataType] = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "time": pa.timestamp("us", "UTC"),
    "text": pa.large_string(),
}
_FIXED = ("head", "relation", "tail", "truth", "status", "date", "id", "label")


def write_facts_parquet(content: ExportContent, path: Path) -> None:
    """Write the facts as Parquet; a column of values has its own type."""
    schema = _schema(content)
    with pa.parquet.ParquetWriter(path, schema) as writer:
        for facts in content.facts():
            writer.write_table(_facts(content, facts, schema))


def write_facts_csv(content: ExportContent, path: Path) -> None:
    """Write the facts as CSV."""
    schema = _schema(content)
    plain = pa.schema([(name, _plain(kind)) for name, kind in zip(schema.names, schema.types, strict=True)])
    with pa.csv.CSVWriter(path, plain) as writer:
        for facts in content.facts():
            writer.write_table(_as_text(_facts(content, facts, schema), plain))


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
    for name, (kind, several) in _kinds(columns).items():
        if name not in found:
            found[name] = _values([c for c in columns if c.name == name], ids, kind, several)
    return pa.table(found)


def write_nodes_csv(table: pa.Table, path: Path) -> None:
    """Write a table of entities as CSV."""
    plain = pa.schema([(field.name, _plain(field.type)) for field in table.schema])
    pa.csv.write_csv(_as_text(table, plain), path)


def _schema(content: ExportContent) -> pa.Schema:
    fields = [("head", pa.large_string()), ("relation", pa.large_string()), ("tail", pa.large_string())]
    fields += [("truth", pa.float64())] if content.weighted else []
    fields += [("status", pa.large_string())] if content.predicted else []
    fields += [("date", pa.timestamp("s", "UTC"))] if content.graph.date is not None else []
    for name, (kind, several) in _kinds(content.fact_columns()).items():
        if name not in _FIXED:
            fields.append((name, pa.large_list(_ARROW[kind]) if several else _ARROW[kind]))
    return pa.schema(fields)


def _kinds(columns: Sequence[AttributeColumn]) -> dict[str, tuple[Kind, bool]]:
    """Of each attribute the kind that holds all its values (a mixture is text), and whether there are several."""
    found: dict[str, tuple[Kind, bool]] = {}
    for column in columns:
        keys = column.ranked.keys
        several = bool((keys[1:] == keys[:-1]).any())
        kind, before = column.kind, found.get(column.name)
        if before is not None:
            pair = {kind, before[0]}
            wide: dict[frozenset[Kind], Kind] = {
                frozenset({"integer", "number"}): "number",
                frozenset({"date", "time"}): "time",
            }
            kind = kind if len(pair) == 1 else wide.get(frozenset(pair), "text")
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
    dtype, parts = _ARROW[kind], []
    for column in columns:
        place, rank = column.ranked.gathered(keys)
        parts.append((place, _cast(_distinct(column), dtype).take(pa.array(rank))))
    if not several:
        if not parts:
            return pa.nulls(len(keys), dtype)
        index = np.full(len(keys), -1, np.int64)
        index[np.concatenate([place for place, _ in parts])] = np.arange(sum(len(place) for place, _ in parts))
        values = pa.concat_arrays([value for _, value in parts])
        return values.take(pa.array(index, mask=index < 0))
    if not parts:
        return pa.nulls(len(keys), pa.large_list(dtype))
    places = np.concatenate([place for place, _ in parts])
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=len(keys))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    values = pa.concat_arrays([value for _, value in parts]).take(pa.array(order))
    return pa.LargeListArray.from_arrays(pa.array(offsets), values, mask=pa.array(counts == 0))


def _distinct(column: AttributeColumn) -> pa.Array:
    values = column.values
    if isinstance(values, Strings):
        buffers = pa.py_buffer(np.ascontiguousarray(values.offsets)), pa.py_buffer(np.ascontiguousarray(values.blob))
        return pa.LargeStringArray.from_buffers(len(values), *buffers)
    if column.kind in ("date", "time"):
        return pa.array(values).cast(pa.timestamp("us", "UTC")).cast(_ARROW[column.kind])
    return pa.array(values)


def _cast(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    if pa.types.is_date(values.type) and pa.types.is_timestamp(dtype):
        return values.cast(pa.timestamp("us")).cast(dtype)
    return values if values.type == dtype else values.cast(dtype)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of a column of a text file."""
    written = pa.types.is_large_list(kind) or pa.types.is_timestamp(kind)
    return pa.large_string() if written else kind


def _as_text(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.table([_text(table.column(name)) for name in schema.names], schema=schema)


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_large_list(column.type):
        texts = [None if row is None else SEVERAL.join(map(_word, row)) for row in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.large_string())])
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ").cast(pa.large_string())
    return column


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
