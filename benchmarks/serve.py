"""Load on `tuplet serve` over loopback: single requests, batches, and both beside a query that takes all its time.

    python benchmarks/serve.py --store fb15k-237.store
    python benchmarks/serve.py --store fb15k-237.store --old OTHER/src   # another version beside it, round by round
    python benchmarks/serve.py                      # makes the store from $TUPLET_DATA/fb15k-237 and ../truth
    python benchmarks/serve.py --limits             # how long a limit of 1 s takes, on a graph made for it

The mix is the 14 joint shapes, grounded on real edges, each query asked once of each server. The load generator is one
process with plain sockets and keep-alive; it opens all connections at once and shares the processors with the server.
Two servers take turns, round by round, so that whatever else the machine does falls on both alike. Where `wrk` is
installed it loads them too.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which

import numpy as np
import uvicorn
from deadlines import hub, path, two_halves
from exact import SHAPES, Sampler

import tuplet
from tuplet.lang.ast import And, Atom, Constant, Exists, Free, Name, Not, Query
from tuplet.lang.print import to_logic
from tuplet.query.ranking import QueryGraph
from tuplet.server.app import Application
from tuplet.server.limits import ServerLimits
from tuplet.server.metrics import ServerMetrics
from tuplet.server.service import Service
from tuplet.store import Store


def texts(store: Store, per_shape: int, seed: int) -> list[str]:
    """Distinct queries of all shapes in random order."""
    graph = store.graph
    sampler = Sampler(np.stack(graph.edges("train", "valid"), axis=1), seed)
    found = dict.fromkeys(written(sampler.sample(s), store) for s in SHAPES.values() for _ in range(per_shape))
    mixed = list(found)
    random.Random(seed).shuffle(mixed)
    return mixed


def written(query: QueryGraph, store: Store) -> str:
    """A query graph as logic text."""

    def term(node: int) -> Constant | Free | Exists:
        if node < 0:
            return Constant(Name(store.graph.entities.name(~node)))
        return (Free if node in query.free else Exists)(query.variables[node])

    atoms = [Atom(Name(store.graph.relations.name(e.relation)), term(e.head), term(e.tail)) for e in query.edges]
    parts = tuple(Not(a) if e.negated else a for a, e in zip(atoms, query.edges, strict=True))
    return to_logic(Query(tuple(Free(query.variables[v]) for v in query.free), And(parts)))


def http(body: object) -> bytes:
    """A request as bytes."""
    content = json.dumps(body).encode()
    head = [
        "POST /ask HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + content


async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bytes]:
    """One request on an open connection: status and body."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return int(head[9:12]), await reader.readexactly(length)


@dataclass
class Load:
    """What came of some requests."""

    latencies: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    seconds: float = 0.0
    processor: float = 0.0  # seconds of the server's
    size: int = 0  # bytes of all answers
    queries: int = 0

    def rate(self) -> float:
        """Queries a second."""
        return self.queries / self.seconds

    def add(self, other: Load) -> None:
        self.latencies += other.latencies
        self.statuses += other.statuses
        self.seconds += other.seconds
        self.processor += other.processor
        self.size += other.size
        self.queries += other.queries

    def line(self) -> str:
        taken = np.array(self.latencies) * 1000
        p50, p99 = np.percentile(taken, [50, 99])
        answered = sum(status == 200 for status in self.statuses)
        return (
            f"{len(taken):>6} requests {self.rate():8.0f} queries/s  p50 {p50:6.1f} ms  p99 {p99:6.1f} ms"
            f"  max {taken.max():6.1f} ms  {answered}/{len(taken)} answered"
            f"  {1000 * self.processor / self.queries:.2f} ms of processor each  {self.size / 1e6:.0f} MB"
        )


async def load(port: int, requests: list[bytes], connections: int) -> Load:
    """All requests over some connections, opened at once."""
    pending, done = iter(requests), Load()
    opening = (asyncio.open_connection("127.0.0.1", port, limit=1 << 26) for _ in range(connections))
    open_ = await asyncio.gather(*opening)

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for request in pending:
            start = time.perf_counter()
            status, body = await send(reader, writer, request)
            done.latencies.append(time.perf_counter() - start)
            done.statuses.append(status)
            done.size += len(body)
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(client(*pair) for pair in open_))
    done.seconds = time.perf_counter() - start
    return done


async def hostile(port: int, request: bytes, stop: asyncio.Event) -> int:
    """Asks what takes seconds, again and again; how often it was answered."""
    count = 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    while not stop.is_set():
        status, body = await send(reader, writer, request)  # whatever ends it: its time, its memory, or its last tuple
        count += status == 200
        if status not in (200, 429):  # with a full house it is refused
            print(f"the hostile query was answered with {status}: {body[:200]!r}", file=sys.stderr)
    writer.close()
    return count


def processor_seconds(pid: int) -> float:
    """Processor time of a process and its children so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(processor_seconds(int(child)) for child in children)


@dataclass
class Running:
    """A server process that is loaded."""

    name: str
    port: int
    process: subprocess.Popen[bytes]

    @staticmethod
    def start(name: str, path: str, port: int, workers: int, source: str | None) -> Running:
        """A server over a store; `source` is where its code lies, if not here."""
        words = [sys.executable, "-m", "tuplet", "serve", path, "--port", str(port), "--workers", str(workers)]
        environment = os.environ | ({"PYTHONPATH": str(Path(source).resolve())} if source else {})
        return Running(name, port, subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment))

    def measured(self, requests: list[bytes], queries: int, connections: int, slow: bytes | None = None) -> Load:
        """Load it, beside a query that takes all its time if one is given."""

        async def run() -> Load:
            stop = asyncio.Event()
            beside = asyncio.create_task(hostile(self.port, slow, stop)) if slow else None
            if beside:
                await asyncio.sleep(0.3)
            before = processor_seconds(self.process.pid)
            done = await load(self.port, requests, connections)
            done.processor = processor_seconds(self.process.pid) - before
            stop.set()
            if beside:
                await beside
            return done

        done = asyncio.run(run())
        done.queries = queries
        return done

    def wrk(self, bodies: list[str], connections: int, seconds: int, folder: Path) -> str:
        """The same by wrk, one thread: requests a second and the 99th percentile."""
        (folder / "bodies.txt").write_text("\n".join(bodies))
        (folder / "ask.lua").write_text(_WRK.replace("FILE", str(folder / "bodies.txt")))
        words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(folder / "ask.lua")]
        said = subprocess.run([*words, f"http://127.0.0.1:{self.port}/ask"], capture_output=True, text=True).stdout
        return ", ".join(
            " ".join(line.split()) for line in said.splitlines() if re.search("99%|Requests/sec|Non-2xx", line)
        )

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


_WRK = """
local bodies, next = {}, 0
for line in io.lines("FILE") do bodies[#bodies + 1] = line end
request = function()
  next = next % #bodies + 1
  return wrk.format("POST", nil, {["Content-Type"] = "application/json", Host = "localhost"}, bodies[next])
end
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", help="a store of FB15k-237 (default: made from $TUPLET_DATA)")
    parser.add_argument("--requests", type=int, default=3000, help="single requests")
    parser.add_argument("--per-shape", type=int, default=700, help="queries of each shape for the batches")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--port", type=int, default=8199)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--old", metavar="SRC", help="the folder src of another version, to be loaded beside this one")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each server")
    parser.add_argument("--wrk", type=int, default=5, metavar="SECONDS", help="how long wrk loads each, if it is there")
    parser.add_argument("--limits", action="store_true", help="only how time limits hold; needs no data set")
    arguments = parser.parse_args()
    if arguments.limits:
        limits(arguments.port)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.store or make(Path(folder))
        run(path, arguments)


def limits(port: int) -> None:
    """The cases of deadlines.py over HTTP under `--max-time 1`: how long each request takes, and what it claims."""
    service = Service({"halves": two_halves(), "hub": hub()}, ServerLimits(max_time=1.0), ServerMetrics())
    service.warm()
    server = uvicorn.Server(uvicorn.Config(Application(service), port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    asyncio.run(ready(port))
    spokes = {"query": "?x, ?y : r(?x, n0) & r(?y, n0)", "k": 10_000, "store": "hub"}
    paths = [{"query": path(hops, "n399"), "k": k} for hops in (4, 5, 6) for k in (5, 250)]
    for body, only in itertools.product([*paths, spokes], (None, "predicted", "observed")):
        start = time.perf_counter()
        answer = json.loads(asyncio.run(once(port, http({**body, "only": only}))))
        took, count = time.perf_counter() - start, len(answer["answers"])
        said = f"{count} answers, exact {answer['exact']}, pruned {answer['pruned']}"
        print(f"{took:6.3f} s  {'late' if took > 1.3 else 'in time'}  only {only}, {said}: {body['query'][:60]}")
    server.should_exit = True
    thread.join()


async def once(port: int, request: bytes) -> bytes:
    """The body of one request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    _, body = await send(reader, writer, request)
    writer.close()
    return body


def make(folder: Path) -> str:
    """The store from the shared graph and truth table."""
    data = Path(os.environ["TUPLET_DATA"])
    words = [sys.executable, "-m", "tuplet"]
    graph, store = folder / "graph", folder / "fb15k-237.store"
    subprocess.run([*words, "import", str(data / "fb15k-237"), "-o", str(graph)], check=True, stdout=subprocess.DEVNULL)
    table = data.parent / "truth" / "fb15k-237.parquet"
    subprocess.run(
        [*words, "index", str(graph), "--table", str(table), "--calibration", "given", "-o", str(store)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return str(store)


def run(path: str, arguments: argparse.Namespace) -> None:
    store = tuplet.open(path)
    queries = texts(store, arguments.per_shape, arguments.seed)
    relation = "</award/award_nominee/award_nominations./award/award_nomination/award_nominee>"
    chain = " & ".join(f"{relation}(?{a}, ?{b})" for a, b in ("ab", "bc", "cd", "de", "ef"))
    slow = http({"query": f"?a, ?b, ?c, ?d, ?e, ?f : {chain}", "k": 10_000, "timeout": 3, "only": "predicted"})
    port, k = arguments.port, arguments.k
    servers = [Running.start("new", path, port, arguments.workers, None)]
    if arguments.old:
        servers.insert(0, Running.start("old", path, port + 1, arguments.workers, arguments.old))
    try:
        warm = [http({"query": q, "k": k}) for q in texts(store, 20, arguments.seed + 1)]
        for server in servers:
            asyncio.run(ready(server.port, server.process))
            server.measured(warm, len(warm), arguments.connections)
        print(f"{len(queries):,} queries of {len(SHAPES)} shapes, k={k}, {arguments.workers} workers")
        rounds = f"{arguments.rounds} rounds, {arguments.connections} connections opened at once"
        print(f"{rounds}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        single = [http({"query": q, "k": k}) for q in queries[: arguments.requests]]
        size = arguments.batch
        batches = [http({"queries": queries[i : i + size], "k": k}) for i in range(0, len(queries), size)]
        for title, beside in (("", None), ("beside a query that takes seconds, again and again", slow)):
            print(title or "alone")
            in_rounds("single", servers, single, len(single), beside, arguments)
            in_rounds("batch", servers, batches, len(queries), beside, arguments)
        if which("wrk") and arguments.wrk:
            bodies = [json.dumps({"query": q, "k": k}) for q in queries]
            with tempfile.TemporaryDirectory() as folder:
                for server in servers * 2:
                    said = server.wrk(bodies, arguments.connections, arguments.wrk, Path(folder))
                    print(f"wrk    {server.name}  {said}", flush=True)
    finally:
        for server in servers:
            server.stop()


def in_rounds(
    name: str,
    servers: list[Running],
    requests: list[bytes],
    queries: int,
    slow: bytes | None,
    arguments: argparse.Namespace,
) -> None:
    """One line for each server, and how many times faster the last one is: in all, and round by round."""
    rounds = min(arguments.rounds, len(requests))
    total, ratios = {server.name: Load() for server in servers}, []
    for turn in range(rounds):
        part = requests[turn::rounds]
        share = queries * len(part) // len(requests)
        done = {s.name: s.measured(part, share, arguments.connections, slow) for s in servers}
        for server in servers:
            total[server.name].add(done[server.name])
        ratios.append(done[servers[-1].name].rate() / done[servers[0].name].rate())
    for server in servers:
        print(f"{name:<6} {server.name}  {total[server.name].line()}", flush=True)
    if len(servers) > 1:
        whole = total[servers[-1].name].rate() / total[servers[0].name].rate()
        print(
            f"{name:<6} {whole:.2f} times the old rate (by round: {', '.join(f'{r:.2f}' for r in ratios)})", flush=True
        )


async def ready(port: int, process: subprocess.Popen[bytes] | None = None) -> None:
    for _ in range(3000):
        if process is not None and process.poll() is not None:
            sys.exit("the server did not start")
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await asyncio.sleep(2)  # the other workers
            return
        except OSError:
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()
