"""What `tuplet serve` hands to its worker processes, and the rules before any of them starts."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tuplet.errors import BadInput
from tuplet.serve.base_iri import BaseIri
from tuplet.serve.cors import Cors
from tuplet.serve.keys import KeyFile, Keys
from tuplet.serve.limits import ServerLimits
from tuplet.serve.log_file import LogFile
from tuplet.serve.metrics import FOLDER
from tuplet.serve.proxies import TrustedProxies
from tuplet.serve.server_log import LogSettings, start_logging

VARIABLE = "TUPLET_SERVE"
NEEDED = ("pydantic", "uvicorn", "httptools", "orjson")
log = logging.getLogger("tuplet.serve")


@dataclass(frozen=True)
class ServerSettings:
    """Stores by name, the file of keys, limits, whether changed stores are looked for."""

    stores: tuple[tuple[str, str], ...]
    key_file: str | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    watch: bool = True
    base_iri: str = ""
    cors_origins: tuple[str, ...] = ()
    logs: Mapping[str, Any] = field(default_factory=dict)
    drain: float = 0.0  # seconds between SIGTERM and the end of accepting
    proxies: tuple[str, ...] = ()

    def to_environment(self) -> dict[str, str]:
        """As a variable of the environment."""
        return {VARIABLE: json.dumps(asdict(self))}

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> ServerSettings:
        """The inverse of `to_environment`."""
        if VARIABLE not in environment:
            raise BadInput("start the server with `tuplet serve`")
        given = json.loads(environment[VARIABLE])
        given["stores"] = tuple((name, path) for name, path in given["stores"])
        given["cors_origins"], given["proxies"] = tuple(given["cors_origins"]), tuple(given["proxies"])
        return ServerSettings(**given)


def named_stores(arguments: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """STORE or NAME=STORE as pairs of name and path; the name is that of the folder unless given.

    >>> named_stores(["/data/world.store", "kg=/data/other.store"])
    (('world', '/data/world.store'), ('kg', '/data/other.store'))
    """
    stores: dict[str, str] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or os.path.exists(argument):
            path = argument
            name = re.sub(r"\.(store|graph)$", "", Path(argument).resolve().name)
        if not re.fullmatch(r"[\w.-]{1,64}", name):
            raise BadInput(f"a store is named with letters, digits and . _ -, not {name!r}; write NAME={path}")
        if name in stores:
            raise BadInput(f"two stores are named {name!r}; write NAME=STORE to tell them apart")
        stores[name] = path
    return tuple(stores.items())


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


def start(
    stores: Sequence[str],
    host: str = "127.0.0.1",
    port: int = 8000,
    key_file: str | None = None,
    limits: ServerLimits | None = None,
    workers: int | None = None,
    watch: bool = True,
    ready: Callable[[int], None] = lambda port: None,
    base_iri: str = "",
    cors_origins: Sequence[str] = (),
    logs: LogSettings | None = None,
    drain: float = 0.0,
    proxies: Sequence[str] = (),
) -> None:
    """Serve until stopped; requests in flight are finished first. `ready` is called once the first worker answers."""
    if sys.platform == "win32":
        raise BadInput("the server hands connections from process to process as Windows cannot; run it in WSL")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise BadInput(f"the server needs {' and '.join(missing)}; pip install 'tuplet[serve]'")
    from tuplet.serve.event_loop import new_event_loop

    logs = (logs or LogSettings()).found_from_anywhere()
    start_logging(logs)
    if logs.access_log:
        LogFile(logs.access_log)  # one that cannot be written is said here
    if key_file is not None:
        Keys.read(key_file)  # what is wrong with it is said here
        if warning := KeyFile(key_file).warning():
            log.warning(warning)
    elif not is_loopback(host):
        raise BadInput(
            f"{host} can be reached from elsewhere, so keys are needed: make one with "
            "`tuplet serve --new-key NAME --api-key-file FILE`, then start with --api-key-file FILE"
        )
    # A worker that starts later, perhaps from another folder, finds the same files.
    named = tuple((name, os.path.abspath(path)) for name, path in named_stores(stores))
    keys = None if key_file is None else os.path.abspath(key_file)
    origins = Cors(tuple(cors_origins)).origins
    TrustedProxies(proxies)  # what is no address is said here
    count = workers or min(4, os.cpu_count() or 1)
    known = asdict((limits or ServerLimits()).settled(count))
    base = BaseIri(base_iri).text
    settings = ServerSettings(named, keys, known, watch, base, origins, asdict(logs), drain, tuple(proxies))
    listening = _bound(host, port)
    with (
        listening,
        tempfile.TemporaryDirectory(prefix="tuplet-serve-") as folder,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        os.environ[FOLDER] = folder
        runner.run(_supervise(settings, listening, count, lambda: ready(listening.getsockname()[1])))


async def _supervise(settings: ServerSettings, listening: socket.socket, count: int, ready: Callable[[], None]) -> None:
    from tuplet.serve.door import OWN_FILES, Door, raise_file_limit
    from tuplet.serve.supervisor import Supervisor

    fits = max(1, raise_file_limit() - OWN_FILES)
    most = min(fits, settings.limits["max_connections"])
    door = Door(listening, most, min(settings.limits["max_connections_each"], max(1, most * 3 // 4)))
    await Supervisor(settings, count, door, ready).run()


def _bound(host: str, port: int) -> socket.socket:
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
