"""Flags of the commands that read facts."""

from __future__ import annotations

import argparse
from typing import Any

from tuplet.cli.command_parser import CommandParser


def reading(command: CommandParser) -> None:
    """How facts are read."""
    command.add_argument("--valid", metavar="F", help="held-out facts for validation")
    command.add_argument("--test", metavar="F", help="held-out facts for testing")
    command.add_argument(
        "--labels", metavar="F", action="append", default=[], help="a file of name<TAB>label lines; may be repeated"
    )
    tables(command)


def tables(command: CommandParser) -> None:
    """How tables are read."""
    command.add_argument(
        "--columns",
        metavar="COLUMNS",
        action=Once,
        help="which columns to read: head=A,relation=B,tail=C (also truth=, date=, attribute=), by name or by number "
        "from 1; head=A,NAME=B if all facts are of one relation; of a table with a row for each entity "
        "id=A,relation=B,attribute=C (also label=, type=, relation=*); missing=N/A reads such cells as empty, "
        "split=; reads several names from one cell, spaces=trim drops the spaces around names",
    )
    command.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether the first line of a file is a header (default: found out)",
    )
    command.add_argument(
        "--nodes",
        metavar="F",
        action="append",
        default=[],
        help="a table of entities: id, label, types, attributes; may be repeated",
    )


class Once(argparse.Action):
    """A flag whose second value would silently replace the first, although both seem to be meant."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Keep the value, unless there is one."""
        if getattr(namespace, self.dest) != self.default:
            parser.error(f"{option} is given twice; it holds for all files: write one list, its parts joined by commas")
        setattr(namespace, self.dest, values)
