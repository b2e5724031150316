"""What a server with two workers does when it is flooded with idle connections, when workers die or hang, and when its
store changes: what honest clients see meanwhile.

    python benchmarks/serve_processes.py --store world.store    # of which it serves a copy
    python benchmarks/serve_processes.py                        # the bundled graph
    python benchmarks/serve_processes.py --only idle generations
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tuplet
from tuplet.read.datasets import bundled

KNOWN = json.dumps({"query": "?x, ?y : borders(?x, ?y)", "k": 5})
FAR = ("japan", "australia", "cuba", "iceland", "madagascar")  # no neighbours of Spain


class Running:
    """A server process with two workers."""

    def __init__(self, store: Path, *flags: str, files: int | None = None) -> None:
        self.store, self.log = store, store.with_suffix(".log")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        few = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) if files else None
        command = [sys.executable, "-m", "tuplet", "serve", str(store), "--port", str(self.port), "--workers", "2"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*command, *flags], stdout=log, stderr=subprocess.STDOUT, preexec_fn=few)
        while "2 of 2 workers serve" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)

    def workers(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in children.read_text().split()]

    def sockets(self) -> list[int]:
        """How many each worker has."""
        files = [Path(f"/proc/{worker}/fd").iterdir() for worker in self.workers()]
        return [sum("socket" in os.readlink(file) for file in of_one) for of_one in files]

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def ask(self, query: str = KNOWN, connection: http.client.HTTPConnection | None = None) -> str:
        """The answer to a query, over a fresh connection if none is given."""
        used = connection or self.connect()
        used.request("POST", "/ask", query, {"content-type": "application/json"})
        answer = used.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text
        if connection is None:
            used.close()
        return text

    def knows(self, country: str) -> bool:
        """Whether Spain borders a country, whoever answers."""
        return '"spain"' in self.ask(json.dumps({"query": f"?x : borders(?x, {country})", "only": "observed"}))

    def ready(self) -> int:
        return self.log.read_text().count("2 of 2 workers serve")


@contextmanager
def running(store: Path, *flags: str, files: int | None = None) -> Iterator[Running]:
    server = Running(store, *flags, files=files)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait(60)


@contextmanager
def load(server: Running, clients: int) -> Iterator[Counter[str]]:
    """Clients that keep their connections and count what happens to their requests."""
    seen: Counter[str] = Counter()
    stop = threading.Event()

    def client() -> None:
        connection = server.connect()
        while not stop.is_set():
            try:
                server.ask(connection=connection)
                seen["answered"] += 1
            except (OSError, http.client.HTTPException):
                seen["lost"] += 1
                connection = server.connect()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def idle(store: Path, connections: int, files: int | None) -> None:
    """Connections that send nothing, or half a head, before any key is checked."""
    with running(store, files=files) as server:
        before = server.log.stat().st_size
        opened = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(connections)]
        for half in opened[::2]:
            half.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: ")
        times = []
        for _ in range(100):
            begun = time.perf_counter()
            server.ask()
            times.append(1000 * (time.perf_counter() - begun))
        times.sort()
        grown = server.log.stat().st_size - before
        files_said = f" with {files} files" if files else ""
        print(
            f"{connections} idle connections{files_said}: queries over fresh connections take {times[50]:.1f} ms, ",
            end="",
        )
        print(f"99 of 100 at most {times[98]:.1f}, the slowest {times[99]:.1f}; the log grew by {grown} bytes")
        for one in opened:
            one.close()


def spread(store: Path) -> None:
    """Eight connections opened at once, ten times."""
    with running(store) as server:
        told = []
        for _ in range(10):
            opened = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
            time.sleep(0.2)
            during = server.sockets()
            for one in opened:
                one.close()
            time.sleep(0.2)
            told.append(":".join(str(a - b) for a, b in zip(during, server.sockets(), strict=True)))
        print(f"eight connections at once, over two workers: {', '.join(told)}")


def deaths(store: Path, how: signal.Signals) -> None:
    """One worker of two dies, or hangs, under load."""
    with running(store) as server, load(server, 8) as seen:
        time.sleep(3)
        ready, begun = server.ready(), time.perf_counter()
        os.kill(server.workers()[0], how)
        while server.ready() == ready:
            time.sleep(0.02)
        back = time.perf_counter() - begun
        time.sleep(2)
        print(f"{how.name} of a worker under load of 8 connections: {dict(seen)}; two workers again after {back:.1f} s")


def generations(store: Path, queries: int) -> None:
    """`add`, then `kill -9` of a worker, then queries over fresh connections: which generation answers?"""
    with running(store, "--no-watch") as server:
        with tuplet.open(store) as opened:
            opened.add([("spain", "borders", FAR[0])])
        ready = server.ready()
        os.kill(server.workers()[0], signal.SIGKILL)
        new = [server.knows(FAR[0]) for _ in range(queries)]
        while server.ready() == ready:
            new.append(server.knows(FAR[0]))
        new += [server.knows(FAR[0]) for _ in range(queries)]
        old = new.index(True)
        print(f"add, kill -9, {len(new)} queries: the first {old} from the old generation, ", end="")
        print(f"of the others {sum(new)} from the new one, {len(new) - old - sum(new)} from the old")


def reloads(store: Path) -> None:
    """Edits while eight clients ask, each taken up by the watch of the folder."""
    with running(store) as server, load(server, 8) as seen:
        for country in FAR[1:]:
            with tuplet.open(store) as opened:
                opened.add([("spain", "borders", country)])
            begun = time.perf_counter()
            while not server.knows(country):
                time.sleep(0.05)
            print(f"an edit is served after {time.perf_counter() - begun:.1f} s")
    print(f"{len(FAR[1:])} generations under load of 8 connections: {dict(seen)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--only", nargs="*", default=["idle", "spread", "deaths", "generations", "reloads"])
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "copy.store"
        if arguments.store:
            shutil.copytree(arguments.store, store)
        else:
            tuplet.build(bundled(), store, train=False, progress=False)
        if "idle" in arguments.only:
            idle(store, arguments.connections, None)
            idle(store, 400, 256)
        if "spread" in arguments.only:
            spread(store)
        if "deaths" in arguments.only:
            deaths(store, signal.SIGKILL)
            deaths(store, signal.SIGSTOP)
        if "generations" in arguments.only:
            generations(store, arguments.queries)
        if "reloads" in arguments.only:
            reloads(store)


if __name__ == "__main__":
    main()
