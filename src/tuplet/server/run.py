"""The rules before the server starts, and its start."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec

from tuplet.errors import BadInput
from tuplet.server.operators.log_file import LogFile
from tuplet.server.operators.metrics import FOLDER
from tuplet.server.operators.server_log import start_logging
from tuplet.server.requests.cors import Cors
from tuplet.server.requests.keys import KeyFile, Keys
from tuplet.server.requests.proxies import TrustedProxies
from tuplet.server.server_settings import ServerSettings
from tuplet.server.sparql.base_iri import BaseIri

NEEDED = ("pydantic", "uvicorn", "httptools", "orjson")
log = logging.getLogger("tuplet.server")


def start(settings: ServerSettings, host: str, port: int, workers: int | None, ready: Callable[[int], None]) -> None:
    """Serve until stopped; requests in flight are finished first. `ready` is called once the first worker answers."""
    if sys.platform == "win32":
        raise BadInput("the server hands connections from process to process as Windows cannot; run it in WSL")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise BadInput(f"the server needs {' and '.join(missing)}; pip install 'tuplet[serve]'")
    from tuplet.server.processes.event_loop import new_event_loop

    count = workers or min(4, os.cpu_count() or 1)
    settings = _checked(settings.from_anywhere(), host, count)
    with (
        bound(host, port) as listening,
        tempfile.TemporaryDirectory(prefix="tuplet-serve-") as folder,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):

        def answering() -> None:
            log.info("%d workers; a search holds at most %d MB", count, (settings.limits.max_memory or 0) >> 20)
            ready(listening.getsockname()[1])

        os.environ[FOLDER] = folder
        runner.run(_supervise(settings, listening, count, answering))


def _checked(settings: ServerSettings, host: str, workers: int) -> ServerSettings:
    """The settings with what they leave open; what is wrong with them is said here, in one line."""
    start_logging(settings.logs)
    if settings.logs.access_log:
        LogFile(settings.logs.access_log)
    checked_keys(settings.key_file, host)
    TrustedProxies(settings.proxies)
    return replace(
        settings,
        limits=settings.limits.settled(workers),
        base_iri=BaseIri(settings.base_iri).text,
        cors_origins=Cors(settings.cors_origins).origins,
    )


def checked_keys(key_file: str | None, host: str) -> KeyFile | None:
    """The keys of a server, all of them as they should be; only one that nobody else can reach needs none."""
    if key_file is not None:
        Keys.read(key_file)
        keys = KeyFile(key_file)
        if warning := keys.warning():
            log.warning(warning)
        return keys
    if not is_loopback(host):
        raise BadInput(
            f"{host} can be reached from elsewhere, so keys are needed: make one with "
            "`tuplet serve --new-key NAME --api-key-file FILE`, then start with --api-key-file FILE"
        )
    return None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _supervise(settings: ServerSettings, listening: socket.socket, count: int, ready: Callable[[], None]) -> None:
    from tuplet.server.processes.door import OWN_FILES, Door, raise_file_limit
    from tuplet.server.processes.supervisor import Supervisor

    fits = max(1, raise_file_limit() - OWN_FILES)
    most = min(fits, settings.limits.max_connections)
    door = Door(listening, most, min(settings.limits.max_connections_each, max(1, most * 3 // 4)))
    await Supervisor(settings, count, door, ready).run()


def bound(host: str, port: int) -> socket.socket:
    """The socket that connections come to; small answers leave at once instead of waiting for the next packet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind(address)
    except OSError as error:
        raise BadInput(f"cannot listen on {host}, port {port}: {error.strerror}") from None
    return listening
