"""The event loop of the server's processes: uvloop where it is installed, which is about twice as quick."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys

from tuplet.errors import TupletError
from tuplet.server.allocator import give_back, settle
from tuplet.server.app import Application
from tuplet.server.command import ServerSettings
from tuplet.server.connections import OpenConnections
from tuplet.server.control import Control
from tuplet.server.guard import Cors, TrustedProxies
from tuplet.server.keys import KeyFile
from tuplet.server.logs import start_logging
from tuplet.server.metrics import ServerMetrics
from tuplet.server.service import Service
from tuplet.server.sparql_results import BaseIri
from tuplet.store import open_store


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop for `asyncio.Runner`."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


_PR_SET_PDEATHSIG = 1
log = logging.getLogger("tuplet.server")


def main() -> None:
    """Open the stores, say so, serve until told otherwise."""
    channel, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    _die_with(parent)
    settle()
    settings = ServerSettings.from_environment(os.environ)
    start_logging(settings.logs)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        try:
            service = _load(settings)
        except Exception as error:
            log.debug("cannot start", exc_info=error)
            reason = str(error) if isinstance(error, TupletError) else f"{type(error).__name__}: {error}"
            runner.run(_failed(channel, reason))
            sys.exit(1)
        runner.run(_serve(channel, service, settings))
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


async def _failed(channel: socket.socket, reason: str) -> None:
    Control(channel).tell("failed", reason=reason)


async def _serve(channel: socket.socket, service: Service, settings: ServerSettings) -> None:
    control, loop = Control(channel), asyncio.get_running_loop()
    keys = None if settings.key_file is None else KeyFile(settings.key_file)
    cors, proxies = Cors(settings.cors_origins), TrustedProxies(settings.proxies)
    app = Application(service, keys, settings.logs, cors, proxies)
    connections = OpenConnections(app, control)
    told = asyncio.Event()

    def drain() -> None:
        if not told.is_set() and not control.closed.done():
            control.tell("draining")
        service.served.draining = True
        told.set()

    control.on("ping", dict)
    control.on("drain", drain)
    service.served.attach(control)
    if keys is not None:
        control.on("keys", keys.refresh)
    loop.add_signal_handler(signal.SIGTERM, drain)  # the whole group may get it, or this process alone
    control.tell("ready", generations=service.served.generations())
    stopped = asyncio.ensure_future(told.wait())
    await asyncio.wait((stopped, control.closed), return_when=asyncio.FIRST_COMPLETED)
    if not control.closed.done():
        await connections.drain(settings.limits.max_time + 5)


def _die_with(parent: int) -> None:
    """End when the parent ends, however it ends. Elsewhere than on Linux the end of the channel does that alone."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    main()
