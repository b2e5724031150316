"""`tuplet guarantee`: its flags, and what it does."""

from __future__ import annotations

import argparse

from tuplet.cli.command_parser import CommandParser
from tuplet.cli.common_flags import json_flag, quiet_flag
from tuplet.cli.show import echo, lines
from tuplet.progress import Progress


def guaranteeing(command: CommandParser) -> None:
    """What is measured, and on what."""
    command.add_argument("store", metavar="STORE")
    command.add_argument("queries", metavar="QUERIES", help="made by `bench sample` with --known as the store observes")
    command.add_argument(
        "--measured-on",
        metavar="OTHER",
        help="a store of the same graph that observes what the queries take for known, where STORE observes more",
    )
    command.add_argument("--per-shape", type=int, metavar="N", help="only the first N queries of each shape")
    quiet_flag(command)
    json_flag(command)


def run_guarantee(arguments: argparse.Namespace) -> None:
    """`tuplet guarantee`."""
    from tuplet.lab.bench.formats import read_any
    from tuplet.lab.bench.guarantee import guarantee, summary

    queries = read_any(arguments.queries)
    queries = queries if arguments.per_shape is None else queries.first(arguments.per_shape)
    with Progress(quiet=arguments.quiet) as progress:
        found = guarantee(arguments.store, queries, arguments.measured_on, progress.counting("held-out queries"))
    told = summary(found)
    echo(told if arguments.json else lines(told))
