"""The result of a benchmark run: rows of numbers, one for each query, and a manifest that says what was run on what.

A result is a folder: `run.json` is the manifest, `parts/` holds one Parquet file for each block of queries of a shape.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from tuplet import settings as registry
from tuplet._version import __version__
from tuplet.errors import BadInput, TupletError
from tuplet.files import make_folder, replacing, system_errors, write_text
from tuplet.query.engine import Engine
from tuplet.query.limits import Limits

PROTOCOL = 1
_LIMITS = ("memory", "work", "only", "budget", "merge")  # options of a run that are fields of `Limits`


@dataclass(frozen=True)
class ResultRow:
    """The result of one query: a row of a part, whose columns are these fields."""

    shape: str
    index: int
    k: int
    e: int  # existential variables
    topology: str  # S tree, M with a doubled edge, C cyclic
    easy: int
    hard: int  # that are scored
    mrr: float = 0.0
    hit1: float = 0.0
    hit3: float = 0.0
    hit10: float = 0.0
    answered: bool = False
    exact: bool = False  # the list is proven
    pruned: str | None = None  # why not
    decided: float = 0.0  # share of hard tuples whose HIT@10 is exact
    listed: int = 0
    ms: float = 0.0
    peak_mb: float = 0.0  # the largest memory of the process so far
    recall: float | None = None  # of methods that prune: the share of hard tuples kept
    recall_variable: float | None = None
    marginal_mrr: float | None = None  # these and what follows: only where each variable was ranked on its own
    marginal_hit1: float | None = None
    marginal_hit3: float | None = None
    marginal_hit10: float | None = None
    multiply_mrr: float | None = None
    multiply_hit1: float | None = None
    multiply_hit3: float | None = None
    multiply_hit10: float | None = None
    joint_mrr: float | None = None
    joint_hit1: float | None = None
    joint_hit3: float | None = None
    joint_hit10: float | None = None
    hard_variables: int | None = None  # variables that have a hard value
    links1_mrr: float | None = None  # these and what follows: over the scored answers of a stratum
    links1_hit10: float | None = None
    links2_mrr: float | None = None
    links2_hit10: float | None = None
    links3_mrr: float | None = None
    links3_hit10: float | None = None
    links4_mrr: float | None = None  # four or more
    links4_hit10: float | None = None


def _schema() -> Any:
    """The columns of a part, from the types of the fields."""
    import pyarrow as pa

    kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    return pa.schema({f.name: kinds[str(f.type).removesuffix(" | None")] for f in fields(ResultRow)})


@dataclass(frozen=True)
class RunSettings:
    """The settings that decide the numbers of a run.

    `options` holds limits of the search by name (budget, merge, memory, work) and settings of the engine itself.
    """

    engine: str = "exact"  # a name, or module:Class
    logic: str = "product"
    timeout: float | None = None  # seconds for one query
    reach: int = 100  # non-answers listed at least; a hard tuple below the list counts 0 in MRR (docs/benchmark)
    most: int = 100_000  # tuples listed at most, when ties at the end of the list are followed
    marginals: bool = False  # also rank each free variable on its own, for Marginal, Multiply and Joint
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def limits(self) -> Limits:
        limits = {name: value for name, value in self.options.items() if name in _LIMITS}
        own = {name: value for name, value in self.options.items() if name not in _LIMITS}
        return Limits(logic=self.logic, timeout=self.timeout, options=own, **limits)

    def runner(self) -> Engine[Any]:
        """The engine; refuses what cannot be run, before anything is."""
        engine: Engine[Any] = registry.find_plugin("engines", self.engine, modules=True)
        engine.settings(self.limits.options)
        return engine


@dataclass(frozen=True)
class RunManifest:
    """The manifest of a run, `run.json`: settings, queries and store."""

    settings: RunSettings
    block: int  # queries in a part
    queries: Mapping[str, Any]  # digest, count, and what the query set says of itself
    store: Mapping[str, Any]  # graph, entities, relations, observed, and what made the truth values
    version: str = __version__

    @property
    def digest(self) -> str:
        """Only runs with the same one may be compared."""
        return str(self.queries["digest"])

    @property
    def count(self) -> int:
        return int(self.queries["count"])

    @property
    def observed(self) -> str:
        given = self.store["observed"]
        return given if isinstance(given, str) else "+".join(given)

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(json.dumps({"protocol": PROTOCOL, **asdict(self)}, default=str))
        return plain

    @staticmethod
    def read(folder: str | os.PathLike[str]) -> RunManifest:
        file = Path(folder) / "run.json"
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise BadInput(f"{folder} is not a benchmark result: it has no run.json") from None
        except ValueError as error:
            raise BadInput(f"{file} is damaged: {error}") from None
        if not isinstance(content, dict) or content.pop("protocol", 0) > PROTOCOL:
            raise TupletError(f"{folder} was written by a newer version of tuplet")
        try:
            return RunManifest(**content | {"settings": RunSettings(**content["settings"])})
        except (TypeError, KeyError) as error:
            raise BadInput(f"{file} is not a manifest of a benchmark run: {error}") from None

    def begin(self, folder: str | os.PathLike[str]) -> RunManifest:
        """Start a result folder, or go on with one that was made for the same run."""
        root = Path(folder)
        now = self.to_json()
        if (root / "run.json").exists():
            earlier = RunManifest.read(root)
            before = earlier.to_json()
            for key in now:
                if key != "version" and before.get(key) != now[key]:
                    raise BadInput(f"{root} holds another run: its {_difference(before.get(key), now[key], key)}")
            return earlier
        if root.exists() and any(root.iterdir()):
            raise BadInput(f"{root} is not empty and not a benchmark result")
        with system_errors(root):
            make_folder(root / "parts")
        write_text(root / "run.json", json.dumps(now, indent=1, sort_keys=True))
        return self


def _difference(earlier: Any, now: Any, key: str) -> str:
    """The first entry that differs, by its path."""
    if isinstance(earlier, dict) and isinstance(now, dict):
        different = next(k for k in {**earlier, **now} if earlier.get(k) != now.get(k))
        return _difference(earlier.get(different), now.get(different), f"{key}.{different}")
    return f"{key} is {json.dumps(earlier)[:60]}, not {json.dumps(now)[:60]}"


def write_part(path: Path, rows: Sequence[ResultRow]) -> None:
    """One part, written whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with replacing(path, force=True) as fresh:
        pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows], _schema()), fresh)


def read_rows(folder: str | os.PathLike[str]) -> list[ResultRow]:
    """The results of a run in the order of its units; the manifest says how many a finished run has."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[ResultRow] = []
    for part in sorted((Path(folder) / "parts").glob("[!.]*.parquet")):  # what a killed writer left begins with a dot
        try:
            rows += [ResultRow(**row) for row in pq.read_table(part).to_pylist()]
        except (pa.ArrowInvalid, OSError) as error:
            raise BadInput(f"{part} is damaged ({str(error).splitlines()[0]}); delete it and run again") from None
        except TypeError:
            raise BadInput(f"{part} was written by another version of tuplet: its columns differ") from None
    return rows
