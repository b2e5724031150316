"""Graphs and truth tables of a chosen size: CPU seconds and peak memory of `tuplet import` and `tuplet index --table`.

    python benchmarks/scale.py WORK --entities 100000 1000000 5000000

For each size it makes ten facts and about ten predicted edges per entity (types and relations of Zipf size, one hub),
imports the facts and indexes the truth values, each in a new process. Files that are there already are used again.
Prints one JSON line per size.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

GROUP = 2_000_000  # rows of a Parquet row group
Ids = NDArray[np.int64]


def zipf(rng: np.random.Generator, count: int, low: int, high: int, power: float) -> Ids:
    """Ids from low to high, small ones more often."""
    width = high - low
    rank = ((rng.random(count) * ((width + 1.0) ** (1 - power) - 1) + 1) ** (1 / (1 - power))) - 1
    return low + np.minimum(rank.astype(np.int64), width - 1)


def facts_of(rng: np.random.Generator, entities: int, relations: int) -> list[Ids]:
    """Keys head · entities + tail of the facts of each relation, ascending."""
    types = max(20, relations // 8)
    share = 1 / np.arange(1, types + 1) ** 0.9
    bounds = np.minimum(np.cumsum([0, *np.maximum(50, share / share.sum() * entities).astype(int)]), entities)
    bounds[-1] = entities
    often = 1 / np.arange(1, relations + 1)
    counts = rng.multinomial(10 * entities, often / often.sum())
    who = rng.permutation(entities)
    domain, range_ = (rng.choice(types, relations, p=share / share.sum()) for _ in range(2))
    made = []
    for count, near, far in zip(counts.tolist(), domain, range_, strict=True):
        heads = who[zipf(rng, count, bounds[near], bounds[near + 1], 0.5)]
        tails = who[zipf(rng, count, bounds[far], bounds[far + 1], 0.8)]
        made.append(np.unique(heads * entities + tails))
    return made


def write(folder: Path, entities: int, relations: int) -> dict[str, int]:
    """The files facts.parquet and truth.parquet; edges are in order of (head, relation, tail) within a row group."""
    rng = np.random.default_rng(7)
    facts = facts_of(rng, entities, relations)
    predicted = []
    for keys in facts:  # tails change places within a relation, so types and popularity stay
        fresh = np.unique(keys // entities * entities + rng.permutation(keys % entities))
        predicted.append(fresh[~np.isin(fresh, keys, assume_unique=True)])
    hub = int(np.bincount(facts[0] % entities).argmax())
    used = np.unique(np.concatenate([facts[0] // entities, facts[1] // entities]))
    more = used * entities + hub
    more = more[~np.isin(more, np.concatenate([facts[0], predicted[0]]))]
    predicted[0] = np.concatenate([predicted[0], more])
    names = pa.array([f"e{i}" for i in range(entities)]), pa.array([f"rel_{i}" for i in range(relations)])
    ends = ("head", pa.string()), ("relation", pa.string()), ("tail", pa.string())
    plain = pa.schema(ends)
    scored = pa.schema([*ends, ("truth", pa.float32()), ("source", pa.uint8())])
    with (
        pq.ParquetWriter(folder / "facts.parquet", plain) as first,
        pq.ParquetWriter(folder / "truth.parquet", scored) as second,
    ):
        for source, parts in ((1, facts), (0, predicted)):
            relation = np.repeat(np.arange(relations), [len(part) for part in parts])
            keys = np.concatenate(parts)
            order = rng.permutation(len(keys))
            for begin in range(0, len(order), GROUP):
                some = order[begin : begin + GROUP]
                some = some[np.lexsort((keys[some] % entities, relation[some], keys[some] // entities))]
                columns = [
                    names[0].take(pa.array(keys[some] // entities)),
                    names[1].take(pa.array(relation[some])),
                    names[0].take(pa.array(keys[some] % entities)),
                ]
                truth = np.minimum(rng.beta(0.5, 4, len(some)) + 0.005, 0.9999).astype(np.float32)
                codes = np.full(len(some), source, np.uint8)
                second.write_table(pa.table([*columns, truth, codes], schema=scored))
                if source:
                    first.write_table(pa.table(columns, schema=plain))
    return {"facts": sum(map(len, facts)), "edges": sum(map(len, facts)) + sum(map(len, predicted))}


def measured(*command: str) -> dict[str, float]:
    """CPU seconds (user and system), wall seconds and peak resident memory of a command."""
    began = time.perf_counter()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "tuplet", *command],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"tuplet {' '.join(command)} failed")
    cpu, wall = used.ru_utime + used.ru_stime, time.perf_counter() - began
    return {"cpu_s": round(cpu, 2), "wall_s": round(wall, 1), "peak_gb": round(used.ru_maxrss / 1e6, 2)}


def one(work: Path, entities: int, relations: int, memory: str | None) -> dict[str, Any]:
    folder = work / str(entities)
    folder.mkdir(parents=True, exist_ok=True)
    sizes = folder / "sizes.json"
    if not sizes.exists():
        sizes.write_text(json.dumps(write(folder, entities, relations)))
    counts = json.loads(sizes.read_text())
    graph, store = folder / "graph", folder / "store"
    for made in (graph, store):
        shutil.rmtree(made, ignore_errors=True)
    room = [] if memory is None else ["--memory", memory]
    imported = measured("import", f"{folder}/facts.parquet", "-o", str(graph), *room)
    indexed = measured("index", str(graph), "--table", f"{folder}/truth.parquet", "-o", str(store), "--quiet", *room)
    per_edge = round(1e6 * indexed["cpu_s"] / counts["edges"], 3)
    return {"entities": entities, **counts, "import": imported, "index": indexed, "index_us_per_edge": per_edge}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder for files, graphs and stores")
    parser.add_argument("--entities", type=int, nargs="+", default=[100_000])
    parser.add_argument("--memory", help="memory setting of import and index, such as 1G")
    arguments = parser.parse_args()
    for entities in arguments.entities:
        relations = 200 if entities < 1_000_000 else 400 if entities < 5_000_000 else 800
        print(json.dumps(one(arguments.work, entities, relations, arguments.memory)), flush=True)


if __name__ == "__main__":
    main()
