"""How long an import takes and how much memory it needs; each figure is measured in a fresh process.

python benchmarks/import_graph.py fb15k --data FOLDER     import the FB15k folder and open the saved graph
python benchmarks/import_graph.py synthetic               make a TSV of 10 million edges and import it
python benchmarks/import_graph.py synthetic --attributes 10        the same with a table of entities with ten columns
python benchmarks/import_graph.py synthetic --fact-attributes 10   the same with ten more columns in the TSV
python benchmarks/import_graph.py directory               checksum and open a directory of 300 MB
python benchmarks/import_graph.py suggest                 nearest names among 2 million
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def import_once(source: str, target: str, columns: str = "", nodes: str = "") -> None:
    """Runs in a child process: import, save, report wall time, CPU time and peak memory."""
    start = time.perf_counter()
    from tuplet.read.read import gather

    graph, report = gather(source, columns=columns or None, nodes=nodes or ()).graph()
    read = time.perf_counter() - start
    graph.save(target, force=True)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "read_s": round(read, 2),
                "read_and_save_s": round(time.perf_counter() - start, 2),
                "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
                "peak_mib": usage.ru_maxrss // 1024,
                "entities": report.entities,
                "relations": report.relations,
                "edges": sum(report.edges.values()),
                "duplicates": report.duplicates,
                "values": sum(found.values for found in report.attributes),
            }
        )
    )


def open_once(path: str) -> None:
    """Runs in a child process: the first and the following openings."""
    from tuplet.graph.graph import KnowledgeGraph

    times = []
    for _ in range(20):
        start = time.perf_counter()
        KnowledgeGraph.open(path)
        times.append(1e3 * (time.perf_counter() - start))
    print(json.dumps({"first_open_ms": round(times[0], 1), "median_open_ms": round(statistics.median(times), 1)}))


def child(*arguments: str) -> None:
    """Run this script again in a fresh process and print what it measured."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout) | {"process_s": round(time.perf_counter() - start, 2)}
    print(" ".join(arguments[:1]), *(f"{key}={value}" for key, value in figures.items()))


def attribute_cells(rows: int, columns: int, random: np.random.Generator) -> list[list[str]]:
    """Columns of whole numbers, fractions, dates, and words, in turn."""
    days = np.datetime64("1950-01-01") + np.arange(20_000)
    words = np.char.add("word ", np.arange(1000).astype(str))
    kinds = [
        lambda: random.integers(0, 100, rows).astype(str),
        lambda: np.round(random.random(rows), 3).astype(str),
        lambda: days[random.integers(0, len(days), rows)].astype(str),
        lambda: words[random.integers(0, len(words), rows)],
    ]
    return [kinds[i % len(kinds)]().tolist() for i in range(columns)]


def node_table(path: Path, entities: int, columns: int) -> None:
    """A TSV of all entities with attributes."""
    names = np.char.add("entity/", np.arange(entities).astype(str)).tolist()
    cells = attribute_cells(entities, columns, np.random.default_rng(1))
    with open(path, "w") as stream:
        stream.write("\t".join(["id", *(f"a{i}" for i in range(columns))]) + "\n")
        stream.write("\n".join(map("\t".join, zip(names, *cells, strict=True))) + "\n")


def synthetic(path: Path, edges: int, entities: int, relations: int, columns: int = 0) -> None:
    """A TSV of random edges, heads and tails skewed as in real graphs, perhaps with attributes."""
    random = np.random.default_rng(0)
    names = np.char.add("entity/", np.arange(entities).astype(str))
    kinds = np.char.add("relation/", np.arange(relations).astype(str))
    with open(path, "w") as stream:
        if columns:
            stream.write("\t".join(["head", "relation", "tail", *(f"a{i}" for i in range(columns))]) + "\n")
        for start in range(0, edges, 500_000):
            count = min(500_000, edges - start)
            head, tail = ((entities * random.random(count) ** 1.5).astype(int) for _ in range(2))
            relation = random.integers(0, relations, count)
            cells = attribute_cells(count, columns, random)
            rows = zip(names[head].tolist(), kinds[relation].tolist(), names[tail].tolist(), *cells, strict=True)
            stream.write("\n".join(map("\t".join, rows)) + "\n")


def directory(folder: Path) -> None:
    """Opening 15 arrays of 300 MB together, against hashing them."""
    import hashlib

    from tuplet.graph.arrays import open_directory, write_directory

    random = np.random.default_rng(0)
    arrays = {f"a{i}": random.integers(0, 1 << 30, 5_000_000, dtype=np.int32) for i in range(15)}
    write_directory(folder / "d", "benchmark", arrays, {})
    write_directory(folder / "small", "benchmark", {name: array[:10] for name, array in arrays.items()}, {})
    for name in ("d", "small"):
        times = []
        cpu = time.process_time()
        for _ in range(20):
            start = time.perf_counter()
            opened = open_directory(folder / name, "benchmark")
            times.append(1e3 * (time.perf_counter() - start))
        cpu = 1e3 * (time.process_time() - cpu) / len(times)
        wall = f"median {statistics.median(times):.1f} ms, best {min(times):.1f} ms, CPU {cpu:.1f} ms"
        print(f"open {opened.bytes / 1e6:.0f} MB, 15 arrays: {wall}")
    start = time.perf_counter()
    for array in arrays.values():
        hashlib.sha256(array.data).digest()
    print(f"sha256 of the same, one thread: {1e3 * (time.perf_counter() - start):.0f} ms")


def suggest() -> None:
    """Time of `suggest` and `find` among two million names."""
    from tuplet.graph.names import Vocabulary

    words = ["asthma", "calcium", "Hypertension", "new_york", "protein", "kinase", "receptor", "einstein"]
    names = [f"http://example.org/{words[i % 8]}_{i // 8}" for i in range(2_000_000)]
    vocabulary = Vocabulary.from_names(names)
    for text in ("asthma_1234", "recpetor_77777", "HYPERTENSION_5", "zzzzzz", "e", "http://example.org/protien_99"):
        start, cpu = time.perf_counter(), time.process_time()
        found = vocabulary.suggest(text)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        print(f"suggest {text!r}: {1e3 * wall:.0f} ms, CPU {1e3 * cpu:.0f} ms {found}")
    start = time.perf_counter()
    for i in range(0, 2_000_000, 2000):
        assert vocabulary.find(names[i]) == i
    print(f"find: {1e3 * (time.perf_counter() - start):.1f} µs a name")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fb15k", "synthetic", "directory", "suggest", "import-once", "open-once"])
    parser.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument(
        "--data", default=os.environ.get("TUPLET_DATA", "."), help="folder of benchmark graphs (default: $TUPLET_DATA)"
    )
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--relations", type=int, default=100)
    parser.add_argument("--attributes", type=int, default=0, help="columns of a table of entities")
    parser.add_argument("--fact-attributes", type=int, default=0, help="more columns of the edges")
    options = parser.parse_args()
    if options.what == "import-once":
        return import_once(*options.paths)
    if options.what == "open-once":
        return open_once(*options.paths)
    if options.what == "suggest":
        return suggest()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.what == "directory":
            return directory(folder)
        source = Path(options.data) / "fb15k"
        if options.what == "synthetic":
            source = folder / "edges.tsv"
            synthetic(source, options.edges, options.entities, options.relations, options.fact_attributes)
            print(f"made {source.stat().st_size / 1e6:.0f} MB")
        more = ["attribute=*" if options.fact_attributes else ""]
        if options.attributes:
            node_table(folder / "nodes.tsv", options.entities, options.attributes)
            more.append(str(folder / "nodes.tsv"))
        child("import-once", str(source), str(folder / "graph"), *more)
        child("open-once", str(folder / "graph"))


if __name__ == "__main__":
    main()
