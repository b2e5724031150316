"""The flags of `tuplet mcp`."""

from __future__ import annotations

from tuplet.cli.command_parser import CommandParser
from tuplet.settings import flags


def offering_tools(command: CommandParser) -> None:
    """Stores, the transport, and the limits of a call."""
    from tuplet.server.command import LIMITS, LOGS
    from tuplet.server.limits import ServerLimits
    from tuplet.server.logs import LogSettings

    command.add_argument("stores", metavar="STORE", nargs="+", help="a store or graph directory, also as NAME=STORE")
    command.add_argument(
        "--http",
        type=int,
        metavar="PORT",
        help="serve streamable HTTP on this port (default: standard input and output)",
    )
    command.add_argument("--host", help="with --http: default 127.0.0.1; any other address needs keys")
    command.add_argument("--api-key-file", metavar="F", help="with --http: keys as `tuplet serve --new-key` makes them")
    flags(command.add_argument_group("limits"), ServerLimits, LIMITS)
    flags(command.add_argument_group("logs, with --http"), LogSettings, LOGS)
