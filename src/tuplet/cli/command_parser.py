"""argparse as the commands of `tuplet` need it: flags when they are wanted, mistakes in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from tuplet.errors import nearest


class CommandParser(argparse.ArgumentParser):
    """argparse that gets its flags when its command is chosen, and answers mistakes with one line."""

    fill: Callable[[CommandParser], None] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Only the chosen command needs its flags: the others would make a short command start later."""
        if self.fill is not None:
            fill, self.fill = self.fill, None
            fill(self)
            positional = [str(a.metavar or a.dest) for a in self._actions if not a.option_strings]
            required = [f"{a.option_strings[0]} {a.metavar}" for a in self._actions if a.option_strings and a.required]
            if "COMMAND" not in positional and self.usage is None:
                self.usage = " ".join([self.prog, *positional, *required, "[options]"])
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Unknown flags are an error of the command they were given to, which knows the nearest."""
        known, unknown = self.parse_known_args(args, namespace)
        if unknown:
            getattr(known, "parser", self).error(f"unrecognized arguments: {' '.join(unknown)}")
        return known

    def error(self, message: str) -> NoReturn:
        """One line: what is wrong, the nearest word, where to read more."""
        if "invalid choice: '" in message:
            word = message.split("invalid choice: '", 1)[1].split("'", 1)[0]
            choices = message.split("(choose from ", 1)[1].rstrip(")").replace("'", "").split(", ")
            close = nearest(word, choices)
            if close:
                message = f"{message.split(':', 1)[0]}: {word!r} is not known; did you mean {close[0]!r}?"
        elif message.startswith("unrecognized arguments: -"):
            word = message.split(": ", 1)[1].split()[0]
            close = nearest(word, self._option_string_actions)
            if close:
                message += f"; did you mean {close[0]}?"
        print(f"{self.prog}: {message} ({self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)
