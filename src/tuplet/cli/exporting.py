"""`tuplet export`: its flags, and what it does."""

from __future__ import annotations

import argparse

from tuplet.cli.command_parser import CommandParser
from tuplet.cli.show import echo


def exporting(command: CommandParser) -> None:
    """What is written, and where."""
    command.add_argument("path", metavar="PATH", help="a store or a graph")
    command.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="its ending says how: .nt, .ttl, .parquet, .csv, .graphml"
    )
    command.add_argument("--predicted", action="store_true", help="write predictions too, with their truth")
    command.add_argument(
        "--threshold", type=float, default=0.0, metavar="T", help="the least truth of a prediction (default: all)"
    )
    command.add_argument("--force", action="store_true", help="replace FILE if it exists")
    command.add_argument("--json", action="store_true", help="print JSON")


def run_export(arguments: argparse.Namespace) -> None:
    """`tuplet export`."""
    from tuplet.store import open_store

    given = (arguments.output, arguments.predicted, arguments.threshold, arguments.force)
    report = open_store(arguments.path).export(*given)
    echo(report.as_dict() if arguments.json else str(report))
