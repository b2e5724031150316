"""The server as processes: a parent that accepts and hands over, workers that may die, one generation for all."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from running_server import Server, Start

import tuplet
from conftest import free_port
from repeatable import SOAK

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
QUERY = {"query": "?x : borders(?x, atlantis)"}


@dataclass(frozen=True)
class Supervised(Server):
    """Two workers over a store of their own, what they write, and what they tell the service manager."""

    log: Path
    store: Path
    manager: socket.socket
    each: httpx.Client  # closes its connection after each request
    told: list[str] = field(default_factory=list)

    def hear(self) -> str:
        """All that the service manager was told."""
        with suppress(BlockingIOError):
            while True:
                self.told.append(self.manager.recv(1000).decode())
        return "\n".join(self.told)

    def serving(self, count: int) -> bool:
        """Whether so many workers serve now."""
        return re.findall(r"STATUS=(\d) of 2 workers serve", self.hear())[-1:] == [str(count)]

    def fresh(self) -> httpx.Response:
        """An answer over a connection of its own: whichever worker gets it."""
        return self.each.post("/ask", json=QUERY)

    def said(self, text: str) -> int:
        return self.log.read_text().count(text)

    def connections(self, worker: int) -> int:
        """How many of the clients' connections a process has."""
        port = f":{int(self.url.rpartition(':')[2]):04X}"
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        ours = {row[9] for row in rows if row[1].endswith(port) and row[3] == "01"}
        held = 0
        for file in Path(f"/proc/{worker}/fd").iterdir():
            held += os.readlink(file).strip("socket:[]") in ours
        return held


def wait(true: Callable[[], bool]) -> None:
    """Until something holds; a machine may be busy."""
    for _ in range(1200):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it never came true")


@pytest.fixture(scope="module")
def supervised(store_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervised]:
    folder = tmp_path_factory.mktemp("process")
    shutil.copytree(store_path, folder / "own.store")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(folder / "notify"))
    manager.setblocking(False)
    port, log = free_port(), folder / "log"
    flags = ["--workers", "2", "--lazy", "--no-watch", "--max-connections", "60", "--max-connections-each", "60"]
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tuplet", "serve", "own.store", "--port", str(port), *flags],
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=os.environ | {"NOTIFY_SOCKET": str(folder / "notify")},
        )
    url = f"http://127.0.0.1:{port}"
    each = httpx.Client(base_url=url, timeout=60, headers={"connection": "close"})
    server = Supervised(url, process, log, folder / "own.store", manager, each)
    try:
        wait(lambda: server.url in log.read_text() or process.poll() is not None)
        assert each.get("/health").status_code == 200, "it is printed when it is true"
        assert server.hear().startswith("READY=1\n")
        wait(lambda: server.serving(2))
        yield server
    finally:
        process.kill()
        process.wait()


def test_eight_connections_at_once_are_spread(supervised: Supervised) -> None:
    opened = [socket.create_connection(("127.0.0.1", int(supervised.url.rpartition(":")[2]))) for _ in range(8)]
    wait(lambda: sum(map(supervised.connections, supervised.workers())) == 8)
    assert [supervised.connections(worker) for worker in supervised.workers()] == [4, 4]
    assert supervised.connections(supervised.process.pid) == 0
    for one in opened:
        one.close()


def test_idle_connections_keep_nobody_out(supervised: Supervised) -> None:
    before = supervised.log.read_text()
    address = ("127.0.0.1", int(supervised.url.rpartition(":")[2]))
    idle = [socket.create_connection(address) for _ in range(200)]
    for half in idle[::2]:
        half.send(b"GET /health HTTP/1.1\r\nhost: ")
    assert {supervised.each.get("/health").status_code for _ in range(20)} == {200}
    assert sum(map(supervised.connections, supervised.workers())) <= 60
    for one in idle:
        one.close()
    assert supervised.log.read_text() == before


def test_a_worker_that_dies_is_replaced_and_nobody_notices(supervised: Supervised) -> None:
    first, second = supervised.workers()
    os.kill(first, signal.SIGBUS)  # as if a file of the store had been cut short
    assert {supervised.fresh().status_code for _ in range(50)} == {400}, "atlantis is unknown, and somebody says so"
    wait(lambda: supervised.said(f"worker {first} died of SIGBUS; a new one starts in ") == 1)
    wait(lambda: supervised.serving(2))
    assert second in supervised.workers()
    assert first not in supervised.workers()


def test_a_store_that_is_gone_degrades_and_comes_back(supervised: Supervised) -> None:
    away = supervised.store.with_name("away.store")
    supervised.store.rename(away)
    os.kill(supervised.workers()[0], signal.SIGKILL)
    wait(lambda: supervised.said("own.store") > 0)
    assert supervised.serving(1)
    about = supervised.each.get("/health").json()
    assert (about["status"], about["serving"]) == ("degraded", 1)
    assert supervised.fresh().status_code == 400
    assert supervised.said("Traceback") == 0
    away.rename(supervised.store)
    wait(lambda: supervised.serving(2))


def test_after_an_edit_and_a_death_all_workers_serve_one_generation(supervised: Supervised) -> None:
    with tuplet.open(supervised.store) as store:
        store.add([("spain", "borders", "atlantis")], new_entities=True)
    assert {supervised.fresh().status_code for _ in range(10)} == {400}, "nobody has looked at the folder"
    os.kill(supervised.workers()[0], signal.SIGKILL)
    codes = [supervised.fresh().status_code]
    while codes[-1] == 400:
        codes.append(supervised.fresh().status_code)
    codes += [supervised.fresh().status_code for _ in range(1000 if SOAK else 50)]
    assert codes == sorted(codes, reverse=True), "once one has answered from the new generation, all do"
    wait(lambda: supervised.serving(2))
    with tuplet.open(supervised.store) as store:
        store.remove([("spain", "borders", "atlantis")])
    supervised.process.send_signal(signal.SIGHUP)
    wait(lambda: "RELOADING=1\nMONOTONIC_USEC=" in supervised.hear() and supervised.told[-1] == "READY=1")
    assert {len(supervised.fresh().json()["answers"]) for _ in range(10)} == {0}


def test_when_the_parent_is_killed_nobody_stays(supervised: Supervised) -> None:
    workers = supervised.workers()
    assert len(workers) == 2
    supervised.process.kill()
    supervised.process.wait()
    wait(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", int(supervised.url.rpartition(":")[2])))


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_every_engine_is_loaded_before_the_first_request(start: Start) -> None:
    """Importing torch holds a process for a second: nobody's query should wait for that."""
    server = start(lazy=False)
    [worker] = server.workers()
    assert "libtorch" in Path(f"/proc/{worker}/maps").read_text()
