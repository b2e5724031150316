"""Load on `tuplet serve` over loopback: single requests, batches, and both beside a query that takes all its time.

    python benchmarks/serve.py --store fb15k-237.store
    python benchmarks/serve.py                      # makes the store from $TUPLET_DATA/fb15k-237 and ../truth
    python benchmarks/serve.py --limits             # how long a limit of 1 s takes, on a graph made for it

The mix is the 14 joint shapes, grounded on real edges, each query asked once. The load generator is one process with
plain sockets and keep-alive; it shares the processors with the server.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import uvicorn
from deadlines import hub, path, two_halves
from exact import SHAPES, Sampler

import tuplet
from tuplet.lang.ast import And, Atom, Constant, Exists, Free, Name, Not, Query
from tuplet.lang.printer import to_logic
from tuplet.query.query_graph import QueryGraph
from tuplet.serve.app import create_app
from tuplet.serve.limits import ServerLimits
from tuplet.serve.metrics import ServerMetrics
from tuplet.serve.service import Service
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


async def load(port: int, requests: list[bytes], connections: int) -> tuple[np.ndarray, float, list[int], int]:
    """All requests over some connections: latencies, seconds, statuses, bytes."""
    pending = iter(requests)
    latencies: list[float] = []
    statuses: list[int] = []
    size = 0

    async def client(number: int) -> None:
        nonlocal size
        await asyncio.sleep(0.02 * number)  # at once, one worker would take them all before the others wake up
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
        for request in pending:
            start = time.perf_counter()
            status, body = await send(reader, writer, request)
            latencies.append(time.perf_counter() - start)
            statuses.append(status)
            size += len(body)
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(connections)))
    return np.array(latencies), time.perf_counter() - start, statuses, size


async def hostile(port: int, request: bytes, stop: asyncio.Event) -> int:
    """Asks what takes all its time, again and again; how often it was answered."""
    count = 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    while not stop.is_set():
        status, body = await send(reader, writer, request)
        answer = json.loads(body)
        assert status == 200, body[:300]
        assert answer["pruned"] in ("timeout", "memory"), body[:300]
        count += 1
    writer.close()
    return count


def processor_seconds(pid: int) -> float:
    """Processor time of a process and its children so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(processor_seconds(int(child)) for child in children)


async def measure(port: int, pid: int, queries: list[str], arguments: argparse.Namespace, slow: bytes | None) -> None:
    """One line for single requests and one for batches."""
    k, size = arguments.k, arguments.batch
    single = [http({"query": q, "k": k}) for q in queries[: arguments.requests]]
    batches = [http({"queries": queries[i : i + size], "k": k}) for i in range(0, len(queries), size)]
    for name, requests, each, connections in (
        ("single", single, 1, arguments.connections),
        ("batch", batches, size, arguments.connections),
    ):
        stop = asyncio.Event()
        beside = asyncio.create_task(hostile(port, slow, stop)) if slow else None
        if beside:
            await asyncio.sleep(0.3)
        before = processor_seconds(pid)
        taken, seconds, statuses, received = await load(port, requests, connections)
        used = processor_seconds(pid) - before
        stop.set()
        asked = f", hostile answered {await beside}" if beside else ""
        number = len(requests) * each if each == 1 else len(queries)
        p50, p99 = np.percentile(taken * 1000, [50, 99])
        print(
            f"{name:<6} {len(requests):>6} requests {number / seconds:8.0f} queries/s"
            f"  p50 {p50:6.1f} ms  p99 {p99:6.1f} ms  max {taken.max() * 1000:6.1f} ms"
            f"  {sum(s == 200 for s in statuses)}/{len(requests)} answered"
            f"  {1000 * used / number:.2f} ms of processor each  {received / 1e6:.0f} MB{asked}",
            flush=True,
        )


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
    server = uvicorn.Server(uvicorn.Config(create_app(service), port=port, log_level="warning"))
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
    words = [sys.executable, "-m", "tuplet", "serve", path, "--port", str(arguments.port)]
    server = subprocess.Popen([*words, "--workers", str(arguments.workers)], stdout=subprocess.DEVNULL)
    try:
        asyncio.run(ready(arguments.port))
        warm = [http({"query": q, "k": arguments.k}) for q in texts(store, 20, arguments.seed + 1)]
        asyncio.run(load(arguments.port, warm, 4))
        print(f"{len(queries):,} queries of {len(SHAPES)} shapes, k={arguments.k}, {arguments.workers} workers")
        print(f"{arguments.connections} connections, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        asyncio.run(measure(arguments.port, server.pid, queries, arguments, None))
        print("beside a query that runs into its timeout, again and again")
        asyncio.run(measure(arguments.port, server.pid, queries, arguments, slow))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


async def ready(port: int) -> None:
    for _ in range(3000):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await asyncio.sleep(2)  # the other workers
            return
        except OSError:
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()
