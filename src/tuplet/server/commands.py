"""The commands `tuplet serve` and `tuplet mcp`: their flags, and where they are run."""

from __future__ import annotations

from argparse import BooleanOptionalAction

from tuplet.cli.command_parser import Command, CommandParser
from tuplet.settings import flags


def add_serve_flags(command: CommandParser) -> None:
    """The settings of the server; the limits hold for every request."""
    from tuplet.server.limits import ServerLimits
    from tuplet.server.logs import LogSettings

    command.add_argument("stores", metavar="STORE", nargs="*", help="a store or graph directory, also as NAME=STORE")
    command.add_argument("--host", default="127.0.0.1", help="default 127.0.0.1; any other address needs keys")
    command.add_argument("--port", type=int, default=8000)
    command.add_argument("--api-key-file", metavar="F", help="file of hashed API keys")
    command.add_argument("--new-key", metavar="NAME", help="add a key to the key file, print it once and stop")
    command.add_argument(
        "--scope", metavar="S", help="of the new key: read (default), write, admin, or several: read,write"
    )
    command.add_argument(
        "--stores", metavar="NAMES", dest="key_stores", help="stores that the new key opens (default: all)"
    )
    command.add_argument(
        "--expires", metavar="DATE", help="day from which the new key opens nothing, such as 2027-01-01"
    )
    command.add_argument("--workers", type=int, metavar="N", help="processes (default: one per processor, at most 4)")
    command.add_argument(
        "--watch",
        action=BooleanOptionalAction,
        default=True,
        help="serve the newest generation as soon as a store changes on disk (default: yes)",
    )
    command.add_argument(
        "--drain",
        type=float,
        default=0.0,
        metavar="S",
        help="seconds to go on after SIGTERM while /ready says no, so that balancers look elsewhere (default: 0)",
    )
    command.add_argument(
        "--lazy",
        action="store_true",
        help="load engines other than a store's own when they are first asked for: starts sooner, but all wait then",
    )
    command.add_argument(
        "--base-iri",
        default="",
        metavar="IRI",
        help="what /sparql puts before names that are no IRIs: http://example.org/",
    )
    command.add_argument(
        "--cors-origin", action="append", default=[], metavar="ORIGIN", help="pages that may ask from elsewhere, or *"
    )
    command.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="a proxy, or a network of them, that says in X-Forwarded-For who asks",
    )
    flags(command.add_argument_group("logs"), LogSettings)
    flags(command.add_argument_group("limits"), ServerLimits)


def add_mcp_flags(command: CommandParser) -> None:
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


SERVE = Command("offer to others", "answer over HTTP, with a web page", add_serve_flags, "tuplet.server.command:serve")
MCP = Command(
    "offer to others",
    "offer tools to agents (Model Context Protocol)",
    add_mcp_flags,
    "tuplet.server.command:serve_tools",
)
