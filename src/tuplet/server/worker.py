"""A worker process of the server: it opens the stores, reports readiness and serves until the parent ends it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import pickle
import resource
import signal
import socket
import sys
from contextlib import suppress

from uvicorn.loops.auto import auto_loop_factory

from tuplet.errors import TupletError
from tuplet.server.allocator import give_back, settle
from tuplet.server.app import Application
from tuplet.server.command import ServerSettings
from tuplet.server.connections import ConnectionCounts, OpenConnections
from tuplet.server.control import Control
from tuplet.server.guard import Cors
from tuplet.server.keys import KeyFile
from tuplet.server.logs import start_logging
from tuplet.server.metrics import ServerMetrics
from tuplet.server.service import Service
from tuplet.server.sparql_results import BaseIri
from tuplet.store import open_store

OWN_FILES = 100  # beside connections
log = logging.getLogger("tuplet.server")


def main() -> None:
    """Open the stores, report readiness, serve until the parent ends it."""
    *files, counted, slot, workers, settings = pickle.load(sys.stdin.buffer)
    channel, listening = (socket.socket(fileno=file) for file in files)
    counts = ConnectionCounts(counted, slot)
    settle()
    start_logging(settings.logs)
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(_serve(channel, listening, settings, counts, workers))
        os._exit(0)  # searches that nobody waits for any more do not keep it


def _load(settings: ServerSettings) -> Service:
    stores = {name: open_store(path) for name, path in settings.stores}
    service = Service(stores, settings.limits, ServerMetrics(), BaseIri(settings.base_iri))
    service.warm()
    if not settings.lazy:
        service.load_all()
    # What is here stays: the collector need not look at it again, nor after every few answers.
    gc.collect()
    gc.freeze()
    give_back()
    gc.set_threshold(50_000, 20, 50)
    return service


async def _serve(
    channel: socket.socket,
    listening: socket.socket,
    settings: ServerSettings,
    counts: ConnectionCounts,
    workers: int,
) -> None:
    control = await Control.open(channel)
    try:
        service = _load(settings)
    except Exception as error:
        log.debug("cannot start", exc_info=error)
        control.tell(
            "failed", reason=str(error) if isinstance(error, TupletError) else f"{type(error).__name__}: {error}"
        )
        await control.close()
        sys.exit(1)
    keys = None if settings.key_file is None else KeyFile(settings.key_file)
    app = Application(service, keys, settings.logs, Cors(settings.cors_origins), settings.proxies)
    limits = settings.limits
    most = min(max(1, raise_file_limit() - OWN_FILES), limits.max_connections)
    each = min(limits.max_connections_each, max(1, most * 3 // 4))  # each worker has its share of both
    shares = max(1, most // workers), max(1, each // workers)
    connections = OpenConnections(app, service.metrics, *shares, counts)
    stopping = asyncio.Event()

    def drain() -> None:
        if not stopping.is_set() and not control.closed.done():
            control.tell("draining")
        service.served.draining = True
        stopping.set()

    control.on("ping", dict)
    control.on("drain", drain)
    control.on("serve", lambda: connections.listen(listening))
    service.served.attach(control)
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGTERM, drain
    )  # the whole group may get it, or this process alone
    control.tell("ready", generations=service.served.generations())
    stopped = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((stopped, control.closed), return_when=asyncio.FIRST_COMPLETED)
    if not control.closed.done():
        await connections.drain(settings.limits.max_time + 5)


def raise_file_limit() -> int:
    """Raise the limit of open files; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = 1 << 16 if sys.platform != "darwin" else 10_240  # macOS takes no more than this
    if soft == resource.RLIM_INFINITY or soft >= hard:
        return hard
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


if __name__ == "__main__":
    main()
