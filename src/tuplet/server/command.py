"""What `tuplet serve` hands to its worker processes."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from math import inf
from pathlib import Path

from tuplet.errors import BadInput
from tuplet.server.keys import KeyFile, KeyOwner, add_key
from tuplet.server.limits import ServerLimits
from tuplet.server.logs import AccessLog, LogSettings, start_logging
from tuplet.server.tools.toolbox import Toolbox
from tuplet.settings import given
from tuplet.store import open_store


@dataclass(frozen=True)
class ServerSettings:
    """The settings that parent and workers share."""

    stores: tuple[tuple[str, str], ...]  # names and paths
    key_file: str | None = None
    limits: ServerLimits = field(default_factory=ServerLimits)
    logs: LogSettings = field(default_factory=LogSettings)
    watch: bool = True  # whether stores that change on disk are looked for
    drain: float = 0.0  # seconds between SIGTERM and the end of accepting
    base_iri: str = ""
    cors_origins: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    lazy: bool = False  # whether engines are loaded when they are first asked for

    def with_absolute_paths(self) -> ServerSettings:
        """Make paths absolute, for a worker that starts later and perhaps in another folder."""
        return replace(
            self,
            stores=tuple((name, os.path.abspath(path)) for name, path in self.stores),
            key_file=_make_absolute(self.key_file),
            logs=replace(self.logs, access_log=_make_absolute(self.logs.access_log)),
        )


def _make_absolute(path: str | None) -> str | None:
    return path if path in (None, "-") else os.path.abspath(path)


def name_stores(arguments: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """STORE or NAME=STORE as pairs of name and path; the name is that of the folder unless given.

    >>> name_stores(["/data/world.store", "kg=/data/other.store"])
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


NEEDED = ("pydantic", "uvicorn", "httptools", "orjson", "prometheus_client", "starlette")
log = logging.getLogger("tuplet.server")


def start(settings: ServerSettings, host: str, port: int, workers: int | None, ready: Callable[[int], None]) -> None:
    """Serve until stopped; requests in flight are finished first. `ready` is called once the first worker answers."""
    if sys.platform == "win32":
        raise BadInput("the workers of the server share a socket as Windows cannot; run it in WSL")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise BadInput(f"the server needs {' and '.join(missing)}; pip install 'tuplet[serve]'")
    count = workers or min(4, os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="tuplet-serve-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # before prometheus_client is imported
        settings = _check_settings(settings.with_absolute_paths(), host, count)
        from uvicorn.loops.auto import auto_loop_factory

        from tuplet.server.supervisor import Supervisor

        with bind_socket(host, port) as listening, asyncio.Runner(loop_factory=auto_loop_factory()) as runner:

            def answering() -> None:
                log.info("%d workers; a search holds at most %d MB", count, (settings.limits.max_memory or 0) >> 20)
                ready(listening.getsockname()[1])

            runner.run(Supervisor(settings, count, listening, answering).run())


def _check_settings(settings: ServerSettings, host: str, workers: int) -> ServerSettings:
    """Check the settings, in one line if one is wrong, and fill in what they leave open."""
    from tuplet.server.guard import Cors, check_proxies
    from tuplet.server.sparql_results import BaseIri

    start_logging(settings.logs)
    AccessLog(settings.logs)  # a file that cannot be written is an error now
    check_keys(settings.key_file, host)
    check_proxies(settings.proxies)
    return replace(
        settings,
        limits=settings.limits.settled(workers),
        base_iri=BaseIri(settings.base_iri).text,
        cors_origins=Cors(settings.cors_origins).origins,
    )


def check_keys(key_file: str | None, host: str) -> KeyFile | None:
    """Read the keys of a server strictly; only a server that nobody else can reach needs none."""
    if key_file is not None:
        keys = KeyFile(key_file, strict=True)
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


def bind_socket(host: str, port: int) -> socket.socket:
    """The socket that connections come to; small answers leave at once instead of waiting for the next packet."""
    if not 0 <= port <= 65535:
        raise BadInput(f"a port is a number up to 65535, not {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind(address)
    except OSError as error:
        raise BadInput(f"cannot listen on {host}, port {port}: {error.strerror}") from None
    return listening


def serve(arguments: argparse.Namespace) -> None:
    fields = {"scopes": arguments.scope, "stores": arguments.key_stores, "expires": arguments.expires}
    chosen = [f"{word}={value}" for word, value in fields.items() if value is not None]
    if chosen and not arguments.new_key:
        raise BadInput("--scope, --stores and --expires are of a new key: --new-key NAME")
    if arguments.new_key:
        if not arguments.api_key_file:
            raise BadInput("--new-key needs --api-key-file FILE, where the hash of the key is kept")
        owner = KeyOwner.from_words(arguments.new_key, chosen)
        if owner.expired():
            raise BadInput(f"a key that expires on {owner.expires} would open nothing: that day has come")
        arguments.say(add_key(arguments.api_key_file, arguments.new_key, chosen))
        return
    if not arguments.stores:
        raise BadInput("name at least one STORE to serve")
    if arguments.workers is not None and arguments.workers < 1:
        raise BadInput(f"--workers must be positive, not {arguments.workers}")
    if not 0 <= arguments.drain < inf:
        raise BadInput(f"--drain is a number of seconds, not {arguments.drain}")
    address = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    settings = ServerSettings(
        name_stores(arguments.stores),
        arguments.api_key_file,
        ServerLimits(**given(arguments, ServerLimits)),
        LogSettings(**given(arguments, LogSettings)),
        arguments.watch,
        arguments.drain,
        arguments.base_iri,
        tuple(arguments.cors_origin),
        tuple(arguments.trusted_proxy),
        arguments.lazy,
    )
    start(
        settings,
        arguments.host,
        arguments.port,
        arguments.workers,
        ready=lambda port: arguments.say(f"http://{address}:{port}"),
    )


# What holds for a call, whatever it comes over.
LIMITS = tuple(
    f.name for f in fields(ServerLimits) if f.name not in ("max_sending", "max_batch") and "connections" not in f.name
)
LOGS = ("access_log", "log_format")


def serve_tools(arguments: argparse.Namespace) -> None:
    if find_spec("mcp") is None:
        raise BadInput("tools for agents need the package mcp; pip install 'tuplet[mcp]'")
    if arguments.http is None and (arguments.api_key_file or arguments.host or arguments.access_log):
        alone = "on standard input nobody else can ask"
        raise BadInput(f"--host, --api-key-file and --access-log are for --http PORT; {alone}")
    stores = {name: open_store(path) for name, path in name_stores(arguments.stores)}
    tools = Toolbox(stores, ServerLimits(**given(arguments, ServerLimits)))
    if arguments.http is None:
        from tuplet.server.mcp_server import run

        run(tools)
    else:
        from tuplet.server.mcp_server import listen

        logs = LogSettings(**given(arguments, LogSettings))
        listen(tools, arguments.host or "127.0.0.1", arguments.http, arguments.api_key_file, logs, arguments.say)
