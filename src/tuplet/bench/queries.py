"""Benchmark queries and their files: ours (Parquet), a NumPy export, EFOk-CQA and BetaE.

A query is a formula over symbols and a grounding. Relation numbers count directions, as in the public benchmarks: 2r is
relation r, 2r + 1 is relation r walked backwards.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.bench.shapes import AbstractEdge
from tuplet.errors import BadInput, TupletError
from tuplet.files import replacing, write_bytes, write_text
from tuplet.query.query_graph import Edge, QueryGraph

Tuples: TypeAlias = NDArray[np.int32]
AbstractClauses: TypeAlias = tuple[tuple[AbstractEdge, ...], ...]
PathLike: TypeAlias = "str | os.PathLike[str]"
FORMAT = 1


@dataclass(frozen=True, eq=False)
class BenchQuery:
    """A grounded query with its answers: `easy` on the known facts, `hard` only on the full graph."""

    shape: str
    formula: str  # as EFOk-CQA writes it
    grounding: Mapping[str, int]  # r1 … to relation numbers (directions count), s1 … to entities
    easy: Tuples  # [n, k]
    hard: Tuples  # [m, k]
    index: int = 0
    meaningful: bool = True  # the negated atoms change the answers

    @property
    def k(self) -> int:
        return int(self.hard.shape[1])

    def clauses(self) -> tuple[QueryGraph, ...]:
        """The bound clauses, as engines take them.

        >>> none = np.empty((0, 1), np.int32)
        >>> BenchQuery("1p", "r1(s1,f1)", {"r1": 5, "s1": 7}, none, none).clauses()[0].edges
        (Edge(head=0, relation=2, tail=-8, negated=False),)
        """
        return bound(abstract(self.formula), self.grounding)


@dataclass(frozen=True, eq=False)
class QuerySet:
    """Queries of several shapes, and how they came to be."""

    queries: tuple[BenchQuery, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[BenchQuery]:
        return iter(self.queries)

    def by_shape(self) -> dict[str, list[BenchQuery]]:
        """The queries of each shape, in order."""
        groups: dict[str, list[BenchQuery]] = {}
        for query in self.queries:
            groups.setdefault(query.shape, []).append(query)
        return groups

    def first(self, count: int) -> QuerySet:
        """The first queries of each shape; samples are nested, so this is what a smaller sample would have been."""
        if count < 1:
            raise BadInput(f"at least one query of each shape is needed, not {count}")
        return replace(self, queries=tuple(q for group in self.by_shape().values() for q in group[:count]))


# --- from formulas to query graphs -------------------------------------------------------------------------------


@cache
def abstract(formula: str) -> AbstractClauses:
    """The clauses of an EFOk-CQA formula over symbols; free variables become f1, f2, …

    >>> abstract("((r1(s1,f))|(r2(s2,f)))&(!(r3(s3,f)))")[1]
    (AbstractEdge(relation='r2', head='s2', tail='f1', negated=False), \
AbstractEdge(relation='r3', head='s3', tail='f1', negated=True))
    """
    from tuplet.lang.ast import Atom, Constant, Not, Term
    from tuplet.lang.benchmark_forms import parse_efok
    from tuplet.lang.rules import clauses

    query = parse_efok(formula, {symbol: symbol for symbol in re.findall(r"\b[rs]\d*\b", formula)})
    number: dict[Term, str] = {variable: f"f{i}" for i, variable in enumerate(query.free, start=1)}

    def term(t: Term) -> str:
        if isinstance(t, Constant):
            return t.name.text
        return number.setdefault(t, f"e{len(number) - len(query.free) + 1}")

    def edge(literal: object) -> AbstractEdge:
        atom = literal.body if isinstance(literal, Not) else literal
        if not isinstance(atom, Atom) or not re.fullmatch(r"r\d*", atom.relation.text):
            raise BadInput(f"a benchmark formula has symbols only, such as r1(s1,f1): {formula!r}")
        return AbstractEdge(atom.relation.text, term(atom.head), term(atom.tail), isinstance(literal, Not))

    return tuple(tuple(edge(literal) for literal in clause.literals) for clause in clauses(query))


def bound(clauses: AbstractClauses, grounding: Mapping[str, int]) -> tuple[QueryGraph, ...]:
    """The clauses with relations and constants filled in; free variables are numbered first."""
    free = sorted({n for c in clauses for e in c for n in (e.head, e.tail) if n[0] == "f"}, key=_number)
    graphs = []
    for clause in clauses:
        names = [*free, *dict.fromkeys(n for e in clause for n in (e.head, e.tail) if n[0] == "e")]
        node = {name: i for i, name in enumerate(names)}
        edges = []
        for relation, head, tail, negated in clause:
            view = grounding[relation]
            ends = tuple(node[n] if n in node else ~grounding[n] for n in (head, tail))
            edges.append(Edge(ends[view % 2], view // 2, ends[1 - view % 2], negated))
        graphs.append(QueryGraph(tuple(names), tuple(range(len(free))), tuple(dict.fromkeys(edges))))
    return tuple(graphs)


def efok_text(clauses: AbstractClauses) -> str:
    """A formula as EFOk-CQA writes it, from its clauses.

    >>> efok_text(abstract("(r1(s1,f1))|((r2(s2,f1))&(!(r3(s3,f1))))"))
    '(r1(s1,f1))|((r2(s2,f1))&(!(r3(s3,f1))))'
    """
    from tuplet.bench.enumerate import efok_formula

    written = [efok_formula(clause) for clause in clauses]
    formula = written[0]
    for clause in written[1:]:
        formula = f"({formula})|({clause})"
    return formula


def _number(symbol: str) -> int:
    return int(symbol[1:] or 0)


# --- our files ---------------------------------------------------------------------------------------------------


def write(queries: QuerySet, path: PathLike, graph: Any = None, force: bool = False) -> None:
    """Write the queries as one Parquet file; with a graph, the names of the grounding beside the numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def named(query: BenchQuery) -> list[tuple[str, str]]:
        if graph is None:
            return []
        return [
            (s, graph.relations.name(n // 2) if s[0] == "r" else graph.entities.name(n))
            for s, n in query.grounding.items()
        ]

    flat = pa.list_(pa.int32())
    columns = {
        "shape": pa.array([q.shape for q in queries], pa.string()),
        "index": pa.array([q.index for q in queries], pa.int32()),
        "k": pa.array([q.k for q in queries], pa.int32()),
        "formula": pa.array([q.formula for q in queries], pa.string()),
        "grounding": pa.array([list(q.grounding.items()) for q in queries], pa.map_(pa.string(), pa.int32())),
        "names": pa.array([named(q) for q in queries], pa.map_(pa.string(), pa.string())),
        "meaningful": pa.array([q.meaningful for q in queries], pa.bool_()),
        "easy": pa.array([q.easy.reshape(-1) for q in queries], flat),
        "hard": pa.array([q.hard.reshape(-1) for q in queries], flat),
    }
    table = pa.table(columns).replace_schema_metadata(
        {"tuplet.queries": json.dumps({"format": FORMAT, **queries.meta}, sort_keys=True)}
    )
    with replacing(path, force) as fresh:
        pq.write_table(table, fresh, compression="zstd")


def read(path: PathLike) -> QuerySet:
    """Read what `write` wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not Path(path).is_file():
        raise BadInput(f"there is no query file {path}")
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"{path} is not a query file: {str(error).splitlines()[0]}") from None
    meta = json.loads((table.schema.metadata or {}).get(b"tuplet.queries", b"{}"))
    if "format" not in meta:
        raise BadInput(f"{path} is a Parquet file, but not of benchmark queries")
    if meta.pop("format") > FORMAT:
        raise BadInput(f"{path} was written by a newer version of tuplet")
    column = {name: table[name].to_pylist() for name in ("shape", "index", "k", "formula", "grounding", "meaningful")}
    answers = {name: _split(table[name].combine_chunks()) for name in ("easy", "hard")}
    return QuerySet(
        tuple(
            BenchQuery(
                shape=column["shape"][i],
                formula=column["formula"][i],
                grounding=dict(column["grounding"][i]),
                easy=answers["easy"][i].reshape(-1, column["k"][i]),
                hard=answers["hard"][i].reshape(-1, column["k"][i]),
                index=column["index"][i],
                meaningful=column["meaningful"][i],
            )
            for i in range(len(table))
        ),
        meta,
    )


def _split(lists: Any) -> list[Tuples]:
    """The rows of an Arrow list column as arrays."""
    values, offsets = lists.flatten().to_numpy(), lists.offsets.to_numpy()
    return np.split(values, (offsets - offsets[0])[1:-1]) if len(lists) else []


# --- for machines that have NumPy alone --------------------------------------------------------------------------


def write_npz(queries: QuerySet, path: PathLike, force: bool = False) -> None:
    """The queries as plain arrays, readable with NumPy alone; the layout is described in docs/benchmark.md."""
    groups = queries.by_shape()
    arrays: dict[str, NDArray[Any]] = {
        "shapes": np.array(list(groups), dtype=np.str_),
        "meta": np.array(json.dumps(dict(queries.meta), sort_keys=True)),
    }
    for shape, members in groups.items():
        formula = members[0].formula
        if any(query.formula != formula for query in members):
            raise BadInput(f"the queries of shape {shape!r} have several formulas; they cannot be exported as one")
        clauses = abstract(formula)
        relations, constants = _symbols(clauses)
        # Grounding each symbol with its own position gives the structure.
        positions = {s: 2 * i for i, s in enumerate(relations)} | {s: i for i, s in enumerate(constants)}
        edges = [(c, *edge) for c, graph in enumerate(bound(clauses, positions)) for edge in graph.edges]
        arrays |= {
            f"{shape}.formula": np.array(formula),
            f"{shape}.edges": np.array(edges, dtype=np.int32),
            f"{shape}.relations": _table([[q.grounding[s] for s in relations] for q in members], len(relations)),
            f"{shape}.constants": _table([[q.grounding[s] for s in constants] for q in members], len(constants)),
            f"{shape}.index": np.array([q.index for q in members], dtype=np.int32),
        }
        for kind in ("easy", "hard"):
            parts = [getattr(q, kind) for q in members]
            arrays[f"{shape}.{kind}"] = np.concatenate(parts)
            arrays[f"{shape}.{kind}_ptr"] = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_bytes(path, buffer.getvalue(), force)


def read_npz(path: PathLike, most: int | None = None) -> QuerySet:
    """Read what `write_npz` wrote, at most so many queries of each shape; needs NumPy alone."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is not a file of benchmark queries: {error}") from None
    if "shapes" not in arrays:
        raise BadInput(f"{path} is a NumPy file, but not of benchmark queries")
    queries = []
    for shape in arrays["shapes"].tolist():
        formula = str(arrays[f"{shape}.formula"])
        relations, constants = _symbols(abstract(formula))
        answers = [
            np.split(arrays[f"{shape}.{kind}"], arrays[f"{shape}.{kind}_ptr"][1:-1]) for kind in ("easy", "hard")
        ]
        columns = (arrays[f"{shape}.{name}"].tolist() for name in ("relations", "constants", "index"))
        for views, entities, index, easy, hard in list(zip(*columns, *answers, strict=True))[:most]:
            grounding = dict(zip(relations + constants, views + entities, strict=True))
            queries.append(BenchQuery(shape, formula, grounding, easy, hard, index))
    return QuerySet(tuple(queries), json.loads(str(arrays["meta"])))


def _symbols(clauses: AbstractClauses) -> tuple[list[str], list[str]]:
    """The symbols of relations and of constants, each in the order of their numbers."""
    symbols = {n for clause in clauses for edge in clause for n in edge[:3]}
    relations, constants = (sorted((s for s in symbols if s[0] == kind), key=_number) for kind in "rs")
    return relations, constants


def _table(rows: list[list[int]], width: int) -> Tuples:
    return np.array(rows, dtype=np.int32).reshape(len(rows), width)


# --- EFOk-CQA ----------------------------------------------------------------------------------------------------


def read_efok(path: PathLike, shape: str | None = None) -> QuerySet:
    """Read an EFOk-CQA query file `{formula: [[grounding, easy, hard], …]}`; the shape is its type unless given."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is not an EFOk-CQA query file: {error}") from None
    if not isinstance(content, dict):
        raise BadInput(f"{path} is not an EFOk-CQA query file: expected an object of formulas")
    typed = re.search(r"type\d+", Path(path).name)
    queries = []
    for formula, entries in content.items():
        name = shape or (typed[0] if typed and len(content) == 1 else formula)
        k = len({n for clause in abstract(formula) for edge in clause for n in edge[1:3] if n[0] == "f"})
        for index, entry in enumerate(entries):
            try:
                grounding, easy, hard = entry
                ground = {str(symbol): int(number) for symbol, number in grounding.items()}
                query = BenchQuery(name, formula, ground, _tuples(easy, k), _tuples(hard, k), index)
                query.clauses()
            except (TypeError, ValueError, AttributeError, KeyError) as error:
                raise BadInput(f"{path}: query {index} of {formula!r} is malformed: {error}") from None
            queries.append(query)
    return QuerySet(tuple(queries), {"source": Path(path).name})


def _tuples(answers: Any, k: int) -> Tuples:
    """`{"f1_f2": [[a, b], …]}`, or `[]` for none."""
    rows = [row for listed in answers.values() for row in listed] if isinstance(answers, dict) else answers
    return np.array(rows, dtype=np.int32).reshape(-1, k)


def write_efok(queries: QuerySet, folder: PathLike, split: str = "test", force: bool = False) -> list[Path]:
    """Write one EFOk-CQA file for each shape, `test_type0000_EFOX_qaa.json`; returns the paths in order of the shapes.

    A shape that is no `type…` is numbered by its place among the shapes.
    """
    written = []
    for number, (shape, members) in enumerate(queries.by_shape().items()):
        content: dict[str, list[Any]] = {}
        for query in members:
            key = "_".join(sorted(f"f{i}" for i in range(1, query.k + 1)))
            answers = ({key: part.tolist()} for part in (query.easy, query.hard))
            content.setdefault(query.formula, []).append([dict(query.grounding), *answers])
        name = shape if re.fullmatch(r"type\d{4,}", shape) else f"type{number:04d}"
        path = Path(folder) / f"{split}_{name}_EFOX_qaa.json"
        write_text(path, json.dumps(content), force)
        written.append(path)
    return written


def merged(parts: Iterable[QuerySet], meta: Mapping[str, Any] | None = None) -> QuerySet:
    """Several query sets as one."""
    sets: Sequence[QuerySet] = list(parts)
    return QuerySet(tuple(q for part in sets for q in part), meta if meta is not None else sets[0].meta)


def read_any(path: PathLike) -> QuerySet:
    """Query files of any kind: our Parquet, our NumPy export, an EFOk-CQA file or folder of them, or a BetaE folder."""
    from tuplet.bench.betae import read_betae

    place = Path(path)
    if place.is_dir():
        if (place / "test-queries.pkl").exists():
            return read_betae(place)
        files = sorted(place.glob("*_qaa.json"))
        if not files:
            raise TupletError(f"{place} holds neither EFOk-CQA files (*_qaa.json) nor BetaE files (test-queries.pkl)")
        return merged((read_efok(file) for file in files), {"source": place.name})
    if place.suffix == ".npz":
        return read_npz(place)
    return read_efok(place) if place.suffix == ".json" else read(place)
