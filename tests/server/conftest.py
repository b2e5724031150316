"""A store with predictions, made in a second, and real server processes over it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running_server import Server, Start

import tuplet
from tuplet.build import choose_recipe, make
from tuplet.cli.demo import hide_facts
from tuplet.read.datasets import bundled


@pytest.fixture(scope="session")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled graph with a tenth of its facts hidden; these, and some wrong ones, are predicted."""
    given = os.environ.get("TUPLET_SCREENSHOTS")
    if given:
        return Path(given)
    folder = tmp_path_factory.mktemp("serve")
    graph = hide_facts(bundled())
    columns: dict[str, list[object]] = {"head": [], "relation": [], "tail": [], "truth": [], "source": []}
    for source, split in ((1, "train"), (2, "valid"), (0, "test")):
        heads, relations, tails = graph.edges(split)
        n = len(heads)
        columns["head"] += graph.entities.names(heads)
        columns["relation"] += graph.relations.names(relations)
        columns["tail"] += graph.entities.names(tails)
        columns["truth"] += [1.0] * n if source else [0.2 + 0.7 * (i * 37 % 101) / 101 for i in range(n)]
        columns["source"] += [source] * n
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    pq.write_table(table.set_column(4, "source", table["source"].cast(pa.uint8())), folder / "truth.parquet")
    make(graph, choose_recipe(table=folder / "truth.parquet"), folder / "world.store")
    return folder / "world.store"


@pytest.fixture(scope="session")
def people_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small graph with attributes of people and of facts."""
    folder = tmp_path_factory.mktemp("people")
    facts = "head,relation,tail,since\nann,knows,bob,2001\nbob,knows,cid,2010\ncid,likes,ann,2011\ndan,knows,bob,\n"
    (folder / "facts.csv").write_text(facts)
    nodes = "id,age,born,nick\nann,30,1990-05-01,Annie\nbob,41,1980-01-31,Bobby\ncid,7,2018-01-01,C\n"
    (folder / "nodes.csv").write_text(nodes)
    columns = "head=head,relation=relation,tail=tail,attribute=since"
    tuplet.read(folder / "facts.csv", columns=columns, nodes=folder / "nodes.csv").save(folder / "people")
    return folder / "people"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def start(store_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts servers with the given flags; all end with the tests."""
    running: list[subprocess.Popen[str]] = []

    def starting(
        *flags: str, stores: tuple[str, ...] | None = None, port: int | None = None, lazy: bool = True
    ) -> Server:
        port = port or free_port()
        log = (tmp_path_factory.mktemp("log") / "server.log").open("w")
        words = [
            *(stores or (str(store_path),)),
            "--port",
            str(port),
            "--workers",
            "1",
            *(["--lazy"] if lazy else []),
            *flags,
        ]
        command = [sys.executable, "-m", "tuplet", "serve", *words]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, text=True)
        running.append(process)
        server = Server(f"http://127.0.0.1:{port}", process, Path(log.name))
        for _ in range(2400):  # kernels may have to be compiled first
            assert process.poll() is None, Path(log.name).read_text()
            try:
                httpx.get(f"{server.url}/health", timeout=60)
                return server
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError("the server did not start")

    yield starting
    for process in running:
        process.terminate()
    for process in running:
        process.wait(300)


@pytest.fixture(scope="session")
def server(start: Start, store_path: Path, world_directory: Path, people_path: Path) -> Server:
    """Three stores, no keys, default limits but for the time.

    The first question to an engine loads what it needs (ns3: torch), which takes longer than ten seconds if the machine
    is busy and nothing of it was ever imported before.
    """
    stores = (f"world={store_path}", f"facts={world_directory}", f"people={people_path}")
    return start("--max-time", "60", stores=stores)


@pytest.fixture(scope="module")  # while it is open, no other event loop runs
def browser() -> Iterator[Any]:
    from browsing import CHROMIUM, FLAGS, playwright

    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield browser
        browser.close()


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client
