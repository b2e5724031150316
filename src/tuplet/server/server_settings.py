"""What `tuplet serve` hands to its worker processes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tuplet.errors import BadInput
from tuplet.server.operators.server_log import LogSettings
from tuplet.server.requests.limits import ServerLimits

VARIABLE = "TUPLET_SERVE"


@dataclass(frozen=True)
class ServerSettings:
    """Everything that parent and workers share but sockets.

    >>> settings = ServerSettings((("world", "world.store"),), limits=ServerLimits(max_k=5))
    >>> ServerSettings.from_environment(settings.to_environment()) == settings
    True
    """

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

    def from_anywhere(self) -> ServerSettings:
        """The same with absolute paths: a worker that starts later, perhaps in another folder, finds the same files."""
        return replace(
            self,
            stores=tuple((name, os.path.abspath(path)) for name, path in self.stores),
            key_file=None if self.key_file is None else os.path.abspath(self.key_file),
            logs=self.logs.found_from_anywhere(),
        )

    def to_environment(self) -> dict[str, str]:
        """As a variable of the environment."""
        return {VARIABLE: json.dumps(asdict(self))}

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> ServerSettings:
        """The inverse of `to_environment`."""
        if VARIABLE not in environment:
            raise BadInput("start the server with `tuplet serve`")
        given = json.loads(environment[VARIABLE])
        given["limits"], given["logs"] = ServerLimits(**given["limits"]), LogSettings(**given["logs"])
        given["stores"] = tuple(map(tuple, given["stores"]))
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
