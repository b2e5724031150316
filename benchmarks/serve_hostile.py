"""What hostile clients can do to `tuplet serve`, and what an honest one feels of it.

    python benchmarks/serve_hostile.py --store fb15k-237.store
    python benchmarks/serve_hostile.py --store fb15k-237.store --old OTHER/src   # another version before it

- fair: sixteen connections repeat a query that takes all its time; an honest client asks for a millisecond's work.
- gone: ten clients ask for ten seconds' work and leave; how long does the next query take?
- parse: eight clients post texts of 100,000 characters to /parse; how long does /health take?
- unread: clients ask for the largest answer there is and read nothing; how much memory does that take?

All come from one address and without keys: the server cannot tell them by who they are.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import time
from pathlib import Path

import numpy as np
from serve import Running, http, ready, send

RELATION = "</award/award_nominee/award_nominations./award/award_nomination/award_nominee>"
FAST = http({"query": "?x : </people/person/profession>(?x, </m/02hrh1q>)", "k": 5})
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def query(pairs: list[tuple[int, int]]) -> str:
    """Edges between numbered variables, all of them asked for."""
    variables = sorted({node for pair in pairs for node in pair})
    edges = " & ".join(f"{RELATION}(?v{a}, ?v{b})" for a, b in pairs)
    return f"{', '.join(f'?v{node}' for node in variables)} : {edges}"


RING = query([(0, 1), (1, 2), (2, 3), (3, 0)])
CHAIN = query([(i, i + 1) for i in range(5)])
CLIQUE = query([(i, j) for i in range(8) for j in range(i)])
SLOW = [
    http({"query": RING, "k": 100, "engine": "ns3"}),
    http({"query": CHAIN, "k": 10_000, "only": "predicted"}),
]


async def once(port: int, request: bytes) -> tuple[int, float]:
    """Status and seconds of a request on a connection of its own."""
    start = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    try:
        status, _ = await send(reader, writer, request)
    finally:
        writer.close()
    return status, time.perf_counter() - start


def told(name: str, what: str, taken: list[float]) -> None:
    milliseconds = 1000 * np.array(taken)
    p50, p99 = np.percentile(milliseconds, [50, 99])
    most = milliseconds.max()
    print(f"{name:<4} {what}: {len(taken)} times, p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {most:.1f} ms", flush=True)


async def fair(server: Running, connections: int, seconds: float) -> None:
    stop = asyncio.Event()
    answered = 0

    async def hostile(request: bytes) -> None:
        nonlocal answered
        while not stop.is_set():
            try:
                await asyncio.wait_for(once(server.port, request), 30)
                answered += 1
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.2)

    crowd = [asyncio.create_task(hostile(SLOW[i % len(SLOW)])) for i in range(connections)]
    await asyncio.sleep(1.5)
    taken, statuses, end = [], [], time.perf_counter() + seconds
    honest: set[asyncio.Task[None]] = set()

    async def ask() -> None:
        status, took = await once(server.port, FAST)
        statuses.append(status)
        taken.append(took)

    while time.perf_counter() < end:  # whether or not the one before was answered: people do not wait for each other
        honest.add(asyncio.create_task(ask()))
        await asyncio.sleep(0.1)
    await asyncio.gather(*honest)
    stop.set()
    for task in crowd:
        task.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    refused = sum(status != 200 for status in statuses)
    told(server.name, f"beside {connections} hostile connections (answered {answered}), {refused} refused", taken)


async def gone(server: Running) -> None:
    for _ in range(10):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(SLOW[0])
        await asyncio.sleep(0.25)
        writer.close()
    status, took = await once(server.port, FAST)
    print(
        f"{server.name:<4} after ten slow queries that nobody waits for: {status} after {1000 * took:.1f} ms",
        flush=True,
    )


async def parse(server: Running) -> None:
    text = "?x : " + "&".join(["(r(?x,a)|s(?x,b))"] * 5500)
    body = json.dumps({"query": text}).encode()
    head = f"POST /parse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    request = f"{head}\r\n\r\n".encode() + body
    crowd = [asyncio.create_task(once(server.port, request)) for _ in range(8) for _ in range(3)]
    await asyncio.sleep(0.3)
    taken = []
    for _ in range(20):
        taken.append((await once(server.port, HEALTH))[1])
        await asyncio.sleep(0.05)
    await asyncio.gather(*crowd)
    told(server.name, "/health beside 24 texts of 100,000 characters", taken)


def unread(server: Running, connections: int, seconds: float) -> None:
    request = http({"query": CLIQUE, "k": 10_000})
    before, open_ = memory(server.process.pid), []
    for _ in range(connections):
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request)
        open_.append(connection)
    most, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        most = max(most, memory(server.process.pid))
        time.sleep(0.5)
    last = memory(server.process.pid)
    for connection in open_:
        connection.close()
    grown, still = (most - before) >> 20, (last - before) >> 20
    print(
        f"{server.name:<4} {connections} clients that read nothing: {grown:+} MB, after {seconds:.0f} s {still:+} MB",
        flush=True,
    )


def memory(pid: int) -> int:
    """Resident bytes of a process and its children."""
    own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(memory(int(child)) for child in children)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True, help="a store of FB15k-237")
    parser.add_argument("--old", metavar="SRC", help="the folder src of another version")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--hostile", type=int, default=16, help="connections")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--port", type=int, default=8209)
    arguments = parser.parse_args()
    for name, source in (("old", arguments.old), ("new", None)):
        if name == "old" and not source:
            continue
        server = Running.start(name, arguments.store, arguments.port, arguments.workers, source)
        try:
            asyncio.run(ready(server.port, server.process))
            print(f"load {os.getloadavg()[0]:.1f} before", flush=True)
            asyncio.run(fair(server, arguments.hostile, arguments.seconds))
            asyncio.run(gone(server))
            asyncio.run(parse(server))
            unread(server, 24, arguments.seconds)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
