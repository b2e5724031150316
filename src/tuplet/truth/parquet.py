"""Truth tables made elsewhere: a Parquet file of named edges with their truth (needs pyarrow)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuplet.errors import BadInput, UnknownName, nearest
from tuplet.graph.graph import SPLIT_CODE, SPLITS, KnowledgeGraph, known_splits
from tuplet.graph.names import Vocabulary
from tuplet.truth.table import (
    HIGHEST_PREDICTION,
    OBSERVED,
    FactEdges,
    Predictions,
    TruthTable,
    edge_keys,
    observed_facts,
)


def read_table(
    file: str | os.PathLike[str],
    graph: KnowledgeGraph,
    observed: Sequence[str] = OBSERVED,
    threshold: float | None = None,
) -> TruthTable:
    """The table of a Parquet file with the columns `head, relation, tail` (names), `truth` and perhaps `source`.

    `source` (0 predicted, 1 train, 2 valid, 3 test) decides what is observed; without it, the graph does. Edges of the
    graph's observed splits that the file does not list are added. The file lists nothing below `threshold`; if that is
    not said, its smallest predicted truth is taken.
    """
    path = Path(file)
    columns = _read(path)
    ids = [
        _ids(path, columns, role, vocabulary)
        for role, vocabulary in (("head", graph.entities), ("relation", graph.relations), ("tail", graph.entities))
    ]
    truth = _truth(path, columns)
    key = edge_keys(len(graph.entities), *ids)
    order = np.argsort(key)
    _refuse_duplicates(path, key[order], order)
    facts = observed_facts(graph, observed)
    if "source" in columns.column_names:
        facts = _by_source(path, columns, ids, facts, observed, graph)
    known = np.isin(key, edge_keys(len(graph.entities), *facts[:3]), assume_unique=True)
    prediction = np.minimum(truth, HIGHEST_PREDICTION)
    listed = prediction > 0
    if threshold is None:
        unknown = prediction[listed & ~known]
        threshold = float(unknown.min()) if len(unknown) else 0.0
    heads, relation, tails = (column[order][listed[order]] for column in ids)
    entities, relations = len(graph.entities), len(graph.relations)
    predicted = Predictions(heads, relation, tails, prediction[order][listed[order]])
    return TruthTable.assemble(entities, relations, facts, predicted, threshold)


def agreeing_graph(graph: KnowledgeGraph, table: TruthTable, observed: Sequence[str]) -> KnowledgeGraph:
    """The graph whose observed facts are those of the table, so that joins and truth values never contradict."""
    size, facts = len(graph.entities), table.fact_edges()
    stated = observed_facts(graph, observed)
    wanted, given = edge_keys(size, *facts[:3]), edge_keys(size, *stated[:3])
    if np.array_equal(wanted, given):
        return graph
    heads, relation, tails, _ = graph.adjacency.triples()
    keep = ~np.isin(edge_keys(size, heads, relation, tails), np.concatenate([wanted, given]))
    return graph.replaced(keep, *facts[:3], facts.source, facts.truth)


def _read(path: Path) -> Any:
    if not path.is_file():
        raise BadInput(f"no such file: {path}")
    try:
        names = pq.read_schema(path).names
        for wanted in ("head", "relation", "tail", "truth"):
            if wanted not in names:
                close = nearest(wanted, names, 1)
                hint = f" (is it {close[0]!r}?)" if close else ""
                raise BadInput(f"{path}: no column {wanted!r}{hint}; it has {', '.join(map(repr, names))}")
        chosen = [name for name in ("head", "relation", "tail", "truth", "source") if name in names]
        table = pq.read_table(path, columns=chosen, read_dictionary=["head", "relation", "tail"])
        table.validate(full=True)  # a damaged file may decode into text that is none
        return table
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{path}: not a readable Parquet file: {reason}") from None


def _ids(path: Path, columns: Any, role: str, vocabulary: Vocabulary) -> NDArray[np.int32]:
    """Ids of a column of names; each distinct name is looked up once."""
    column = columns[role].unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # several chunks, or none
        column = column.chunk(0) if column.num_chunks else pa.array([], pa.dictionary(pa.int32(), pa.string()))
    if column.null_count:
        raise BadInput(f"{path}: row {_first(column.is_null())} has no {role}")
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if not (pa.types.is_string(column.type.value_type) or pa.types.is_large_string(column.type.value_type)):
        raise BadInput(f"{path}: column {role!r} holds {column.type.value_type}, not names")
    number = {name: i for i, name in enumerate(vocabulary.names(range(len(vocabulary))))}
    codes = column.indices.to_numpy(zero_copy_only=False)
    names = column.dictionary.to_pylist()
    lookup = np.array([number.get(name, -1) for name in names], dtype=np.int32)
    ids: NDArray[np.int32] = lookup[codes]
    if len(ids) and ids.min() < 0:
        row = int(np.argmin(ids >= 0))
        kind = "relation" if role == "relation" else "entity"
        name = str(names[codes[row]])
        raise UnknownName(kind, name, vocabulary.suggest(name), f"in row {row + 1} of {path} is not in the graph")
    return ids


def _truth(path: Path, columns: Any) -> NDArray[np.float32]:
    column = columns["truth"]
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise BadInput(f"{path}: column 'truth' holds {column.type}, not numbers")
    if column.null_count:
        raise BadInput(f"{path}: row {_first(column.is_null())} has no truth")
    truth = column.to_numpy().astype(np.float32)
    good = (truth >= 0) & (truth <= 1)
    if not good.all():
        row = int(np.argmin(good))
        raise BadInput(f"{path}: truth {truth[row]} in row {row + 1} is not between 0 and 1")
    return np.asarray(truth)


def _by_source(
    path: Path,
    columns: Any,
    ids: list[NDArray[np.int32]],
    facts: FactEdges,
    observed: Sequence[str],
    graph: KnowledgeGraph,
) -> FactEdges:
    """Facts as the codes say; the graph adds those that the file does not list, and the truth of weighted facts."""
    column = columns["source"]
    if not pa.types.is_integer(column.type) or column.null_count:
        raise BadInput(f"{path}: column 'source' must hold 0 predicted, 1 train, 2 valid or 3 test in every row")
    codes = column.to_numpy().astype(np.int64)
    if len(codes) and (codes.min() < 0 or codes.max() > len(SPLITS)):
        row = int(np.argmax((codes < 0) | (codes > len(SPLITS))))
        raise BadInput(f"{path}: source {codes[row]} in row {row + 1}; 0 predicted, 1 train, 2 valid, 3 test")
    marked = np.isin(codes, [SPLIT_CODE[name] for name in known_splits(observed)])
    entities = len(graph.entities)
    stated = edge_keys(entities, *facts[:3])  # ascending: the graph is in that order
    unlisted = ~np.isin(stated, edge_keys(entities, *ids), assume_unique=True)
    key = edge_keys(entities, ids[0][marked], ids[1][marked], ids[2][marked])
    truth = np.ones(len(key), dtype=np.float32)
    if len(stated):
        at = np.minimum(np.searchsorted(stated, key), len(stated) - 1)
        truth = np.where(stated[at] == key, facts.truth[at], truth)
    more = facts.where(unlisted)
    heads, relation, tails = (np.concatenate([c[marked], m]) for c, m in zip(ids, more[:3], strict=True))
    return FactEdges(
        heads,
        relation,
        tails,
        np.concatenate([truth, more.truth]),
        np.concatenate([codes[marked].astype(np.uint8), more.source]),
    )


def _refuse_duplicates(path: Path, key: NDArray[np.int64], order: NDArray[np.int64]) -> None:
    same = key[1:] == key[:-1]
    if same.any():
        first, again = sorted(order[[int(np.argmax(same)), int(np.argmax(same)) + 1]].tolist())
        raise BadInput(f"{path}: row {again + 1} repeats the edge of row {first + 1}")


def _first(mask: Any) -> int:
    return int(np.argmax(np.asarray(mask.to_numpy(zero_copy_only=False) if isinstance(mask, pa.Array) else mask))) + 1
