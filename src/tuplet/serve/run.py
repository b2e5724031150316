"""What `tuplet serve` hands to its worker processes, and the rules before any of them starts."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import re
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tuplet.errors import BadInput
from tuplet.serve.keys import KeyFile
from tuplet.serve.limits import ServerLimits

VARIABLE = "TUPLET_SERVE"
COUNTERS = "PROMETHEUS_MULTIPROC_DIR"  # read when prometheus_client is imported: in the workers, not here
NEEDED = ("pydantic", "uvicorn", "prometheus_client")
log = logging.getLogger("tuplet.serve")


@dataclass(frozen=True)
class ServerSettings:
    """Stores by name, the file of keys, limits."""

    stores: tuple[tuple[str, str], ...]
    key_file: str | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)

    def to_environment(self) -> dict[str, str]:
        """As a variable of the environment."""
        return {VARIABLE: json.dumps(asdict(self))}

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> ServerSettings:
        """The inverse of `to_environment`."""
        if VARIABLE not in environment:
            raise BadInput("start the server with `tuplet serve`")
        given = json.loads(environment[VARIABLE])
        return ServerSettings(tuple((name, path) for name, path in given["stores"]), given["key_file"], given["limits"])


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
    ready: Callable[[int], None] = lambda port: None,
) -> None:
    """Serve until stopped; requests in flight are finished first."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise BadInput(f"the server needs {' and '.join(missing)}; pip install 'tuplet[serve]'")
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    from tuplet.store import open_store

    if key_file is not None:
        if warning := KeyFile(key_file).warning():
            log.warning(warning)
    elif not is_loopback(host):
        raise BadInput(
            f"{host} can be reached from elsewhere, so keys are needed: make one with "
            "`tuplet serve --new-key NAME --api-key-file FILE`, then start with --api-key-file FILE"
        )
    named = named_stores(stores)
    for _, path in named:
        open_store(path)  # what cannot be opened is said here, in one line
    limits = limits or ServerLimits()
    count = workers or min(4, os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="tuplet-serve-") as folder:
        os.environ |= {COUNTERS: folder, **ServerSettings(named, key_file, asdict(limits)).to_environment()}
        config = uvicorn.Config(
            "tuplet.serve.app:from_environment",
            factory=True,
            host=host,
            port=port,
            workers=count,
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(limits.max_time) + 5,
        )
        listening = _listen(host, port)
        ready(listening.getsockname()[1])
        if count > 1:
            Multiprocess(config, sockets=[listening]).run()
        else:
            uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    """The socket of all workers; small answers leave at once instead of waiting for the next packet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind(address)
        listening.set_inheritable(True)
    except OSError as error:
        raise BadInput(f"cannot listen on {host}, port {port}: {error.strerror}") from None
    return listening
