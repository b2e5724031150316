"""The same max-product top-k question for databases, logic engines and tuplet: lists, milliseconds, memory, growth.

    pip install duckdb ladybug clingo problog          # what is compared; pyoxigraph and sqlite3 are there already
    python benchmarks/shootout.py STORE QUERIES --engines duckdb,sqlite,ladybug,oxigraph
    python benchmarks/shootout.py STORE QUERIES --engines duckdb,sqlite,ladybug --shapes 2fp,3fp,2fd,3fc --growth

Every engine runs in a process of its own with one thread, its data loaded and indexed, one query at a time in turn
with ours; of two runs of a query the better counts. Milliseconds are processor time (machines are shared), and a
query may use `--limit` seconds of it. An engine that fails on `--patience` queries of a shape is not asked the rest.
Lists are equal if their truths are, and if so are the sets of tuples above the least truth, where ties are cut.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from shootout_engines import Edges, clauses_of

import tuplet
from tuplet.lab.bench.queries import read_any
from tuplet.lab.bench.run import refuse_other_graph

HERE = Path(__file__).resolve().parent
CRISP = {"oxigraph"}
ROUNDING = defaultdict(lambda: 1e-9, clingo=1e-5, problog=1e-7)
LOADING = 900.0  # seconds


class Worker:
    """One engine in its process, which is started again after it had to be killed."""

    def __init__(self, name: str, folder: Path, limit: float, memory: int) -> None:
        self.name, self.limit = name, limit
        self.command = [sys.executable, str(HERE / "shootout_worker.py"), name, str(folder), str(limit), str(memory)]
        self.peak = 0
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        ready = self._reply(LOADING)
        self.up = "loaded" in ready
        self.loaded, self.load_s = ready.get("loaded", 0), ready.get("load_s", 0.0)
        self.why = ready.get("failed", "")

    def ask(self, clauses: list[dict[str, Any]], k: int, least: float | None) -> dict[str, Any]:
        if not self.up:
            return {"failed": f"not loaded: {self.why}"}
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"clauses": clauses, "k": k, "least": least}) + "\n")
            self.process.stdin.flush()
            reply = self._reply(1.5 * self.limit + 1)
        except BrokenPipeError:
            reply = {"failed": "died"}
        self.peak = max(self.peak, reply.get("peak", 0))
        if reply.get("killed") or reply.get("failed") in ("died", "memory"):  # what is full may stay so
            self.close()
            self.start()
        return reply

    def _reply(self, most: float) -> dict[str, Any]:
        """The next line; the process is killed once it has used `most` seconds of processor time."""
        assert self.process.stdout is not None
        began = self._used()
        while not select.select([self.process.stdout], [], [], 0.2)[0]:
            if self._used() - began > most:
                self.process.kill()
                return {"failed": "time", "killed": True}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"failed": "died"}

    def _used(self) -> float:
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def same(ours: list[Any], theirs: list[Any], rounding: float) -> bool:
    """Whether two lists are equal, ties aside."""
    if len(ours) != len(theirs):
        return False
    if not ours:
        return True
    truths = np.array([[a[1], b[1]] for a, b in zip(ours, theirs, strict=True)])
    least = truths[-1, 0] * (1 + rounding)
    above = [{tuple(values) for values, truth in rows if truth > least} for rows in (ours, theirs)]
    return bool(np.allclose(truths[:, 0], truths[:, 1], rtol=rounding, atol=0)) and above[0] == above[1]


class Cell:
    """What one engine did on one shape, beside ours."""

    def __init__(self) -> None:
        self.ours: list[float] = []
        self.theirs: list[float] = []
        self.equal, self.different = 0, 0
        self.failed: dict[str, int] = defaultdict(int)
        self.cannot = ""

    def __str__(self) -> str:
        if self.cannot and not self.theirs:
            return "–"
        lost = ", ".join(f"{count} {why}" for why, count in self.failed.items())
        if not self.theirs:
            return lost or "–"
        ratio = sum(self.theirs) / sum(self.ours)
        unequal = f", {self.different} UNEQUAL" if self.different else ""
        return f"{np.mean(self.theirs):.3g} ({ratio:,.3g}×, {self.equal} equal{unequal}{', ' + lost if lost else ''})"


def compare(
    worker: Worker, own: Worker, queries: list[list[dict[str, Any]]], k: int, patience: int, cell: Cell
) -> None:
    """One engine on the queries of one shape, alternating with ours."""
    for clauses in queries:
        if sum(cell.failed.values()) >= patience:
            cell.failed["not asked"] += 1
            continue
        ours = own.ask(clauses, k, None)
        if "answer" not in ours:
            cell.cannot = ours.get("cannot") or f"ours: {ours.get('failed')}"
            continue
        least = ours["answer"][-1][1] * (1 - 1e-9) if len(ours["answer"]) == k and len(clauses) == 1 else None
        theirs = worker.ask(clauses, k, least)
        if "cannot" in theirs:
            cell.cannot = theirs["cannot"]
            continue
        if "failed" in theirs:
            cell.failed[theirs["failed"]] += 1
            continue
        if same(ours["answer"], theirs["answer"], ROUNDING[worker.name]):
            cell.equal += 1
        else:
            cell.different += 1
        times = [theirs["ms"], worker.ask(clauses, k, least).get("ms", np.inf)]
        cell.theirs.append(min(times))
        cell.ours.append(min(own.ask(clauses, k, None)["ms"] for _ in range(2)))


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def run(folder: Path, options: argparse.Namespace, by_shape: dict[str, list[Any]], k: int) -> list[list[str]]:
    """Rows of a table: shape, our milliseconds, each engine's."""
    names = options.engines
    workers = {name: Worker(name, folder, options.limit, options.memory << 20) for name in ["tuplet", *names]}
    crisp = Worker("tuplet-crisp", folder, options.limit, options.memory << 20) if CRISP & set(names) else None
    rows, reasons = [], {}
    for shape, queries in by_shape.items():
        cells = {}
        for name in names:
            cells[name] = Cell()
            own = crisp if name in CRISP and crisp is not None else workers["tuplet"]
            compare(workers[name], own, queries, k, options.patience, cells[name])
            if cells[name].cannot:
                reasons[name, cells[name].cannot] = None
        ours = [workers["tuplet"].ask(clauses, k, None)["ms"] for clauses in queries]
        rows.append([shape, f"{np.mean(ours):.3g}", *(str(cells[name]) for name in names)])
        print(f"{shape}: {' | '.join(rows[-1][1:])}", file=sys.stderr, flush=True)
    memory = [f"{w.loaded >> 20} / {max(w.peak, w.loaded) >> 20} MB" for w in workers.values()]
    rows.append(["memory: loaded / most", *memory])
    rows.append(["load, processor s", *(f"{w.load_s:.1f}" for w in workers.values())])
    for name, why in reasons:
        print(f"{name} does not answer some: {why}", file=sys.stderr)
    for worker in [*workers.values(), *([crisp] if crisp else [])]:
        worker.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("queries", help="of `tuplet bench sample`, on the graph of the store")
    parser.add_argument("--engines", default="duckdb,duckdb+hint,sqlite,sqlite+hint,ladybug,clingo,problog,oxigraph")
    parser.add_argument("--shapes", help="only these")
    parser.add_argument("--per-shape", type=int, default=10)
    parser.add_argument("-k", type=int, default=100, help="length of the lists")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of processor time for a query")
    parser.add_argument("--memory", type=int, default=4096, help="MiB for an engine")
    parser.add_argument("--patience", type=int, default=2, help="failures on a shape before the rest is left out")
    parser.add_argument("--growth", action="store_true", help="against the number of edges and the length of the lists")
    options = parser.parse_args()
    options.engines = options.engines.split(",")
    store, queries = tuplet.open(options.store), read_any(options.queries).first(options.per_shape)
    refuse_other_graph(queries, store.source)
    wanted = options.shapes.split(",") if options.shapes else list(queries.by_shape())
    by_shape = {name: [clauses_of(q.clauses()) for q in queries.by_shape()[name]] for name in wanted}
    truth = store.source.table([c for q in queries for c in q.clauses()])
    head = ["shape", "tuplet", *options.engines]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sizes = [(1 / 16, options.k), (1 / 4, options.k), (1.0, options.k)] if options.growth else [(1.0, options.k)]
        sizes += [(1.0, 10), (1.0, 1000), (1.0, 10_000)] if options.growth else []
        for share, k in sizes:
            edges = Edges.of(truth, share)
            edges.write(folder / str(share))
            start = time.time()
            rows = run(folder / str(share), options, by_shape, k)
            print(
                f"\n### {len(edges.head):,} edges, K = {k}, {options.per_shape} queries a shape\n\n{table(head, rows)}"
            )
            print(f"\n{time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
