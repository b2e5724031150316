"""`tuplet mcp`: from flags to a server on standard input and output, or on a port."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields
from importlib.util import find_spec

from tuplet.errors import BadInput
from tuplet.server.operators.server_log import LogSettings
from tuplet.server.requests.limits import ServerLimits
from tuplet.server.server_settings import named_stores
from tuplet.server.tools.toolbox import Toolbox
from tuplet.settings import given
from tuplet.store import open_store

# What holds for a call, whatever it comes over.
LIMITS = tuple(
    f.name for f in fields(ServerLimits) if f.name not in ("max_sending", "max_batch") and "connections" not in f.name
)
LOGS = ("access_log", "log_format")


def serve_tools(arguments: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Run the command."""
    if find_spec("mcp") is None:
        raise BadInput("tools for agents need the package mcp; pip install 'tuplet[mcp]'")
    if arguments.http is None and (arguments.api_key_file or arguments.host or arguments.access_log):
        alone = "on standard input nobody else can ask"
        raise BadInput(f"--host, --api-key-file and --access-log are for --http PORT; {alone}")
    stores = {name: open_store(path) for name, path in named_stores(arguments.stores)}
    tools = Toolbox(stores, ServerLimits(**given(arguments, ServerLimits)))
    if arguments.http is None:
        from tuplet.server.mcp.stdio import run

        run(tools)
    else:
        from tuplet.server.mcp.http import listen

        logs = LogSettings(**given(arguments, LogSettings))
        listen(tools, arguments.host or "127.0.0.1", arguments.http, arguments.api_key_file, logs, say)
