"""Flags that several commands have."""

from __future__ import annotations

from typing import Any

from tuplet.cli.command_parser import CommandParser
from tuplet.settings import OURS

RAY = "share the work on a Ray cluster (auto, host:port, ray://…); what is needed there is sent"


def engine_flag(command: CommandParser, default: str) -> None:
    """`--engine`."""
    known = ", ".join(OURS["engines"])  # looking for those of other packages would slow down every start
    command.add_argument("--engine", metavar="NAME", help=f"{known} or module:Class (default: {default})")


def quiet_flag(command: CommandParser) -> None:
    """`--quiet`."""
    command.add_argument("--quiet", action="store_true", help="print no progress")


def json_flag(command: Any) -> None:
    """`--json`."""
    command.add_argument("--json", action="store_true", help="print JSON")


def output_flags(command: CommandParser, metavar: str, required: bool = True) -> None:
    """`-o` and `--force`."""
    command.add_argument("-o", "--output", required=required, metavar=metavar, help="write it here")
    command.add_argument("--force", action="store_true", help="replace what is there")
