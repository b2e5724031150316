"""The command line: arguments, commands, and what they print."""

from tuplet.cli.commands import main

__all__ = ["main"]
