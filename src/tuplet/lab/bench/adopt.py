"""Results that were measured on another machine: rows made with NumPy alone, and how they become a result folder.

A machine with a GPU scores all entities for each free variable; `measure` makes one row of numbers of that,
`write_rows` an .npz of many, and `adopt` the same folder that `tuplet bench run` would have left.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, unknown
from tuplet.files import PathLike, write_bytes
from tuplet.lab.bench.metrics import CUTS, KINDS, NAMES, from_marginals, product_ranks
from tuplet.lab.bench.queries import QuerySet

COLUMNS = (*NAMES, "decided", *(f"{kind}_{name}" for kind in KINDS for name in NAMES), "hard_variables", "ms")


def measure(
    scores: NDArray[np.floating], truth: NDArray[np.float64], easy: NDArray[np.integer], hard: NDArray[np.integer]
) -> NDArray[np.float32]:
    """The numbers of one query [columns]: from scores [k, entities], and the same as numbers that may be multiplied.

    Without `ms`, which is NaN until it is filled in; so are marginal metrics of queries that have none.
    """
    ranks = product_ranks(list(truth), easy, hard)
    values: dict[str, float] = {
        **ranks.values(),
        "decided": float(np.mean(ranks.is_decided(max(CUTS)))),
        **from_marginals(list(scores), easy, hard),
    }
    return np.array([values.get(column, np.nan) for column in COLUMNS], dtype=np.float32)


Measured: TypeAlias = Mapping[
    str, Mapping[str, tuple[NDArray[np.int32], NDArray[np.float32]]]
]  # engine → shape → index, numbers


def write_rows(path: PathLike, rows: Measured, meta: Mapping[str, Any]) -> None:
    """All rows in one compressed file, written whole."""
    arrays: dict[str, Any] = {
        "columns": np.array(COLUMNS),
        "meta": np.array(json.dumps(dict(meta), sort_keys=True)),
        "names": np.array([f"{engine}\t{shape}" for engine, shapes in rows.items() for shape in shapes]),
    }
    parts = [part for shapes in rows.values() for part in shapes.values()]
    for number, (index, numbers) in enumerate(parts):
        arrays[f"{number}.index"], arrays[f"{number}.numbers"] = index, numbers
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_bytes(path, buffer.getvalue(), force=True)


def read_rows(path: PathLike) -> tuple[Measured, dict[str, Any]]:
    """What `write_rows` wrote, and its meta."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if tuple(arrays["columns"].tolist()) != COLUMNS:
                raise BadInput(f"{path} was written by another version of tuplet: its columns differ")
            rows: dict[str, dict[str, tuple[NDArray[np.int32], NDArray[np.float32]]]] = {}
            for number, name in enumerate(arrays["names"].tolist()):
                engine, shape = name.split("\t")
                rows.setdefault(engine, {})[shape] = arrays[f"{number}.index"], arrays[f"{number}.numbers"]
            return rows, json.loads(str(arrays["meta"]))
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, AttributeError, TypeError, BadZipFile):
        raise BadInput(f"{path} is not a file of benchmark rows (rows.npz of benchmarks/baselines_gpu.py)") from None


def adopt(
    path: PathLike,
    store: PathLike,
    queries: QuerySet,
    folder: PathLike,
    engines: Sequence[str] = (),
) -> dict[str, int]:
    """A result folder for each engine of a file of rows, beside those of `tuplet bench run`; the queries of each.

    `queries` are those that were scored. A query without a row was not
    answered and counts as missed, with the mean time of the others.
    """
    from tuplet.lab.bench.evaluate import by_stratum, make_missed_row
    from tuplet.lab.bench.results import RunSettings, write_part
    from tuplet.lab.bench.run import manifest_of, units

    rows, meta = read_rows(path)
    for engine in engines:
        if engine not in rows:
            raise unknown("engine", engine, rows, note=f"has no rows in {path}")
    counts = {}
    for engine in engines or list(rows):
        found = {
            (shape, int(number)): numbers
            for shape, (index, table) in rows[engine].items()
            for number, numbers in zip(index, table, strict=True)
        }
        answered = sum((query.shape, query.index) in found for query in queries)
        if not answered:
            raise BadInput(f"{path} has no row of engine {engine!r} for these queries")
        root = Path(folder) / engine
        measured = meta.get(engine, meta)
        manifest = manifest_of(store, queries, RunSettings(engine, marginals=True), 25)
        replace(manifest, measured=measured).begin(root)
        usual = float(np.mean([numbers[COLUMNS.index("ms")] for numbers in found.values()]))
        peak = measured.get("gpu_bytes", float("nan")) / 1e6
        for unit in units(queries, 25):
            made = []
            for query in unit.queries:
                numbers = found.get((query.shape, query.index))
                if numbers is None:
                    made.append(replace(make_missed_row(query, "not scored in time", usual), peak_mb=peak))
                    continue
                values: dict[str, Any] = {c: float(v) for c, v in zip(COLUMNS, numbers, strict=True) if not np.isnan(v)}
                values["hard_variables"] = int(values["hard_variables"])
                # Of several answers only the mean came home: it says nothing of their strata.
                for name in by_stratum(query, None):
                    values[name] = None if query.asked is None else values[name.split("_")[1]]
                made.append(replace(make_missed_row(query, None, usual), answered=True, peak_mb=peak, **values))
            write_part(root / "parts" / f"{unit.name}.parquet", made)
        counts[engine] = answered
    return counts
