"""`tuplet serve`: from flags to a running server, or to a new key."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import inf

from tuplet.errors import BadInput
from tuplet.server.operators.server_log import LogSettings
from tuplet.server.requests.keys import KeyOwner, add_key
from tuplet.server.requests.limits import ServerLimits
from tuplet.server.run import start
from tuplet.server.server_settings import ServerSettings, named_stores
from tuplet.settings import given


def serve(arguments: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Run the command."""
    fields = {"scopes": arguments.scope, "stores": arguments.key_stores, "expires": arguments.expires}
    told = [f"{word}={value}" for word, value in fields.items() if value is not None]
    if told and not arguments.new_key:
        raise BadInput("--scope, --stores and --expires are of a new key: --new-key NAME")
    if arguments.new_key:
        if not arguments.api_key_file:
            raise BadInput("--new-key needs --api-key-file FILE, where the hash of the key is kept")
        owner = KeyOwner.of(arguments.new_key, told)
        if owner.expired():
            raise BadInput(f"a key that expires on {owner.expires} would open nothing: that day has come")
        say(add_key(arguments.api_key_file, arguments.new_key, told))
        return
    if not arguments.stores:
        raise BadInput("name at least one STORE to serve")
    if arguments.workers is not None and arguments.workers < 1:
        raise BadInput(f"--workers must be positive, not {arguments.workers}")
    if not 0 <= arguments.port <= 65535:
        raise BadInput(f"a port is a number up to 65535, not {arguments.port}")
    if not 0 <= arguments.drain < inf:
        raise BadInput(f"--drain is a number of seconds, not {arguments.drain}")
    address = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    settings = ServerSettings(
        named_stores(arguments.stores),
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
        ready=lambda port: say(f"http://{address}:{port}"),
    )
