"""Benchmark queries, sets of them, and their files: ours (Parquet), EFOk-CQA and BetaE.

A query is a formula over symbols and a grounding. Relation numbers count directions, as in the public benchmarks: 2r is
relation r, 2r + 1 is relation r walked backwards.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, TupletError
from tuplet.files import PathLike, replacing, write_text
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.bench.hardness import strata
from tuplet.lab.bench.shapes import Role, Symbol, ground_clauses, parse_formula, shape, symbols
from tuplet.query.ranking import QueryGraph

FORMAT = 1
Tuples: TypeAlias = NDArray[np.int32]


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
    links: NDArray[np.int32] | None = None  # [m] links that must be predicted for each hard answer (bench/hardness.py)
    asked: int | None = None  # the place of the only hard answer that is scored; None: all are

    @property
    def k(self) -> int:
        return int(self.hard.shape[1])

    @property
    def scored(self) -> Tuples:
        """The hard answers whose ranks count."""
        return self.hard if self.asked is None else self.hard[self.asked : self.asked + 1]

    @property
    def filtered(self) -> Tuples:
        """The answers that neither count nor compete: the easy ones, and the hard ones that are not scored."""
        return (
            self.easy if self.asked is None else np.concatenate([self.easy, np.delete(self.hard, self.asked, axis=0)])
        )

    @property
    def strata(self) -> NDArray[np.int32] | None:
        """The stratum of each scored answer; None if the links were never counted."""
        if self.links is None:
            return None
        return strata(self.links if self.asked is None else self.links[self.asked : self.asked + 1])

    def clauses(self) -> tuple[QueryGraph, ...]:
        """The bound clauses, as engines take them.

        >>> none = np.empty((0, 1), np.int32)
        >>> BenchQuery("1p", "r1(s1,f1)", {"r1": 5, "s1": 7}, none, none).clauses()[0].edges
        (Edge(head=0, relation=2, tail=-8, negated=False),)
        """
        return ground_clauses(parse_formula(self.formula), self.grounding)


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
        groups: dict[str, list[BenchQuery]] = {}
        for query in self.queries:
            groups.setdefault(query.shape, []).append(query)
        return groups

    def first(self, count: int) -> QuerySet:
        """The first queries of each shape; samples are nested, so this is what a smaller sample would have been."""
        if count < 1:
            raise BadInput(f"at least one query of each shape is needed, not {count}")
        return replace(self, queries=tuple(q for group in self.by_shape().values() for q in group[:count]))

    @property
    def digest(self) -> str:
        """A hash of the queries, their answers and what is scored: only runs with the same one may be compared."""
        total = hashlib.sha256()
        for q in self.queries:
            total.update(json.dumps([q.shape, q.formula, sorted(q.grounding.items())]).encode())
            for answers in (q.easy, q.hard):
                total.update(np.ascontiguousarray(answers, dtype=np.int32).tobytes() + b"|")
            if q.asked is not None:
                total.update(f"asked {q.asked}".encode())
        return total.hexdigest()


# --- files ---------------------------------------------------------------------------------------------------------


def read_any(path: PathLike) -> QuerySet:
    """Query files of any kind: our Parquet, an EFOk-CQA file or a folder of them, or a BetaE folder."""
    place = Path(path)
    if place.is_dir():
        if (place / "test-queries.pkl").exists():
            return read_betae(place)
        files = sorted(place.glob("*_qaa.json"))
        if not files:
            raise TupletError(f"{place} holds neither EFOk-CQA files (*_qaa.json) nor BetaE files (test-queries.pkl)")
        return QuerySet(tuple(query for file in files for query in read_efok(file)), {"source": place.name})
    return read_efok(place) if place.suffix == ".json" else read(place)


# --- our files ---------------------------------------------------------------------------------------------------


def write(queries: QuerySet, path: PathLike, graph: KnowledgeGraph | None = None, force: bool = False) -> None:
    """Write the queries as one Parquet file; with a graph, the names of the grounding beside the numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def name_symbols(query: BenchQuery) -> list[tuple[str, str]]:
        if graph is None:
            return []
        return [
            (s, graph.relations.name(n // 2) if Symbol(s).role is Role.RELATION else graph.entities.name(n))
            for s, n in query.grounding.items()
        ]

    flat = pa.list_(pa.int32())
    columns = {
        "shape": pa.array([q.shape for q in queries], pa.string()),
        "index": pa.array([q.index for q in queries], pa.int32()),
        "k": pa.array([q.k for q in queries], pa.int32()),
        "formula": pa.array([q.formula for q in queries], pa.string()),
        "grounding": pa.array([list(q.grounding.items()) for q in queries], pa.map_(pa.string(), pa.int32())),
        "names": pa.array([name_symbols(q) for q in queries], pa.map_(pa.string(), pa.string())),
        "meaningful": pa.array([q.meaningful for q in queries], pa.bool_()),
        "easy": pa.array([q.easy.reshape(-1) for q in queries], flat),
        "hard": pa.array([q.hard.reshape(-1) for q in queries], flat),
        "links": pa.array([q.links for q in queries], flat),
        "asked": pa.array([q.asked for q in queries], pa.int32()),
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
    if meta.pop("format") != FORMAT or "asked" not in table.column_names:
        raise BadInput(f"{path} has query files' format of another version; sample the queries again")
    answers = [_split(table[name].combine_chunks()) for name in ("easy", "hard")]
    queries = []
    for row, easy, hard in zip(table.drop_columns(["easy", "hard"]).to_pylist(), *answers, strict=True):
        query = BenchQuery(
            shape=row["shape"],
            formula=row["formula"],
            grounding=dict(row["grounding"]),
            easy=easy.reshape(-1, row["k"]),
            hard=hard.reshape(-1, row["k"]),
            index=row["index"],
            meaningful=row["meaningful"],
            links=None if row["links"] is None else np.array(row["links"], dtype=np.int32),
            asked=row["asked"],
        )
        queries.append(query)
    return QuerySet(tuple(queries), meta)


def _split(lists: Any) -> list[Tuples]:
    values, offsets = lists.flatten().to_numpy(), lists.offsets.to_numpy()
    return np.split(values, (offsets - offsets[0])[1:-1]) if len(lists) else []


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
        k = len(symbols(parse_formula(formula), Role.FREE))
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
    for number, (kind, members) in enumerate(queries.by_shape().items()):
        content: dict[str, list[Any]] = {}
        for query in members:
            key = "_".join(sorted(f"f{i}" for i in range(1, query.k + 1)))
            answers = ({key: part.tolist()} for part in (query.filtered, query.scored))
            content.setdefault(query.formula, []).append([dict(query.grounding), *answers])
        name = kind if re.fullmatch(r"type\d{4,}", kind) else f"type{number:04d}"
        path = Path(folder) / f"{split}_{name}_EFOX_qaa.json"
        write_text(path, json.dumps(content), force)
        written.append(path)
    return written


# --- BetaE -------------------------------------------------------------------------------------------------------

# The nested tuples that BetaE writes for each type: "e" for a constant, "r" for a relation, numbered as they come; "n"
# is negation, "u" union.
_STRUCTURES: Mapping[str, Any] = {
    "1p": ("e", ("r",)),
    "2p": ("e", ("r", "r")),
    "3p": ("e", ("r", "r", "r")),
    "2i": (("e", ("r",)), ("e", ("r",))),
    "3i": (("e", ("r",)), ("e", ("r",)), ("e", ("r",))),
    "ip": ((("e", ("r",)), ("e", ("r",))), ("r",)),
    "pi": (("e", ("r", "r")), ("e", ("r",))),
    "2u": (("e", ("r",)), ("e", ("r",)), ("u",)),
    "up": ((("e", ("r",)), ("e", ("r",)), ("u",)), ("r",)),
    "2in": (("e", ("r",)), ("e", ("r", "n"))),
    "3in": (("e", ("r",)), ("e", ("r",)), ("e", ("r", "n"))),
    "inp": ((("e", ("r",)), ("e", ("r", "n"))), ("r",)),
    "pin": (("e", ("r", "r")), ("e", ("r", "n"))),
    "pni": (("e", ("r", "r", "n")), ("e", ("r",))),
}


class _PlainUnpickler(pickle.Unpickler):
    """Loads tuples, numbers, strings, lists, dicts and sets; anything else is refused before it can run."""

    def find_class(self, module: str, name: str) -> Any:
        allowed: dict[tuple[str, str], Any] = {
            ("builtins", "set"): set,
            ("builtins", "frozenset"): frozenset,
            ("__builtin__", "set"): set,
            ("collections", "defaultdict"): defaultdict,
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"it holds {module}.{name}, which is not data")
        return allowed[module, name]


def read_betae(folder: PathLike, split: str = "test", most: int | None = None) -> QuerySet:
    """Read `<split>-queries.pkl` and its easy and hard answers; at most `most` queries of a type, in sorted order.

    The files are pickles and are not trusted: only plain containers are let in.
    """
    base = Path(folder)
    queries = _load(base / f"{split}-queries.pkl")
    easy, hard = (_load(base / f"{split}-{kind}-answers.pkl") for kind in ("easy", "hard"))
    found = []
    for name in (name for name, structure in _STRUCTURES.items() if structure in queries):
        formula = shape(name).formula
        for index, query in enumerate(sorted(queries[_STRUCTURES[name]])[:most]):
            numbers: dict[str, list[int]] = {"e": [], "r": [], "n": [], "u": []}
            _unfold(_STRUCTURES[name], query, numbers)
            grounding = {f"{letter}{i}": n for letter, kind in ("se", "rr") for i, n in enumerate(numbers[kind], 1)}
            known, new = (np.array(sorted(part.get(query, ())), dtype=np.int32)[:, None] for part in (easy, hard))
            found.append(BenchQuery(name, formula, grounding, known, new, index))
    unknown = sorted(repr(structure) for structure in queries if structure not in _STRUCTURES.values())
    return QuerySet(tuple(found), {"source": f"BetaE {base.name} {split}", "types_not_read": unknown})


def _unfold(structure: Any, query: Any, numbers: dict[str, list[int]]) -> None:
    """Collect the numbers of a query under the letters of its structure."""
    if isinstance(structure, str):
        numbers[structure].append(int(query))
    elif not isinstance(query, tuple) or len(query) != len(structure):
        raise BadInput(f"the BetaE query {query!r} does not fit its structure")
    else:
        for part, value in zip(structure, query, strict=True):
            _unfold(part, value, numbers)


def _load(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file).load()
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except (pickle.UnpicklingError, EOFError, ValueError, AttributeError, IndexError, KeyError, TypeError) as error:
        raise BadInput(f"{path} is not a BetaE file: {error}") from None
