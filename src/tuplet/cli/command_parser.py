"""What all commands of `tuplet` share: declaration, parser, flags of several of them, how results are printed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import unwrap
from typing import Any, Literal, NoReturn, TypeAlias

from tuplet.errors import nearest
from tuplet.settings import OURS

Group: TypeAlias = Literal[
    "start", "look inside", "build step by step", "keep up to date", "offer to others", "measure", "this machine"
]
Row: TypeAlias = Callable[[Any], None]


class CommandParser(argparse.ArgumentParser):
    """argparse that gets its flags when its command is chosen, and answers mistakes with one line."""

    fill: Callable[[CommandParser], None] | None = None

    def fill_flags(self) -> None:
        """Add the flags, if they are not there yet: those of all commands would make a short one start later."""
        if self.fill is not None:
            fill, self.fill = self.fill, None
            fill(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Add the flags, and a short usage, before anything is parsed."""
        if self.fill is not None:
            self.fill_flags()
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

    def add_actions(self, **more: Any) -> argparse._SubParsersAction[CommandParser]:
        """Actions of a command, each with flags of its own."""
        return self.add_subparsers(title="actions", dest="action", required=True, parser_class=CommandParser, **more)


@dataclass(frozen=True)
class Command:
    """A command: where `tuplet --help` lists it and as what, its flags, and the place of the function that runs it.

    The function takes the parsed arguments and returns what is to be printed: text as it is, a report or a table as
    text or JSON, None if nothing is left to print. `arguments.say` prints a line before that.
    """

    group: Group
    about: str
    flags: Row
    run: str  # module:function, imported when the command is chosen


def call_with(arguments: argparse.Namespace, function: Callable[..., Any], *given: Any, **more: Any) -> Any:
    """Call a function with what was typed: `more`, and each argument that is called like one of its parameters."""
    code = unwrap(getattr(function, "__func__", function)).__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount][len(given) :]
    return function(*given, **({name: value for name, value in vars(arguments).items() if name in names} | more))


# Flags. A row adds one flag, or several, to a parser or to a group of one.


def arg(spec: str, text: str | None = None, **more: Any) -> Row:
    """A flag or an argument as people type it: `-o --output FILE`; without a value it is on or off.

    >>> parser = argparse.ArgumentParser()
    >>> rows(arg("source SRC+", "files"), arg("--force", "replace what is there"))(parser)
    >>> parser.parse_args(["a", "b", "--force"])
    Namespace(source=['a', 'b'], force=True)
    """
    *names, last = spec.split()
    if last.startswith("-"):
        names.append(last)
        if not more:
            more["action"] = "store_true"
    else:
        more["metavar"] = last.rstrip("?*+")
        if last != more["metavar"]:
            more["nargs"] = last[-1]
    return lambda parser: parser.add_argument(*names, help=text, **more)


def rows(*several: Row, group: str = "") -> Row:
    """Several rows as one, perhaps under a title of their own."""

    def add(parser: Any) -> None:
        place = parser.add_argument_group(group) if group else parser
        for row in several:
            row(place)

    return add


def engine_flag(default: str) -> Row:
    """`--engine`."""
    known = ", ".join(OURS["engines"])  # looking for those of other packages would slow down every start
    return arg("--engine NAME", f"{known} or module:Class (default: {default})")


def output_flags(metavar: str, required: bool = True) -> Row:
    """`-o` and `--force`."""
    where = arg(f"-o --output {metavar}", "write it here", required=required)
    return rows(where, arg("--force", "replace what is there"))


class Once(argparse.Action):
    """A flag whose second value would silently replace the first, although both seem to be meant."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Keep the value, unless there is one."""
        if getattr(namespace, self.dest) != self.default:
            parser.error(f"{option} is given twice; it holds for all files: write one list, its parts joined by commas")
        setattr(namespace, self.dest, values)


QUIET, JSON = arg("--quiet", "print no progress"), arg("--json", "print JSON")
RAY = arg("--ray ADDRESS", "share the work on a Ray cluster (auto, host:port, ray://…); what is needed there is sent")
TABLES = rows(  # how tables are read
    arg(
        "--columns COLUMNS",
        "which columns to read: head=A,relation=B,tail=C (also truth=, date=, attribute=), by name or by number from "
        "1; head=A,NAME=B if all facts are of one relation; of a table with a row for each entity "
        "id=A,relation=B,attribute=C (also label=, type=, relation=*); missing=N/A reads such cells as empty, split=; "
        "reads several names from one cell, spaces=trim drops the spaces around names",
        action=Once,
    ),
    arg(
        "--header",
        "whether the first line of a file is a header (default: found out)",
        action=argparse.BooleanOptionalAction,
    ),
    arg("--nodes F", "a table of entities: id, label, types, attributes; may be repeated", action="append", default=[]),
)
READING = rows(  # how facts are read
    arg("--valid F", "held-out facts for validation"),
    arg("--test F", "held-out facts for testing"),
    arg("--labels F", "a file of name<TAB>label lines; may be repeated", action="append", default=[]),
    TABLES,
)


# Results: what `tuplet info` and the reports of other commands look like.

_MOST = 20  # of a list; more would fill the screen, and --json has them all


def echo(value: Any, as_json: bool = False) -> None:
    """Print what a command returns: text as it is, a mapping as lines, a report or a table as its text; or JSON."""
    if as_json and not isinstance(value, str | None):
        convert = getattr(value, "to_dicts", None) or getattr(value, "as_dict", None)
        print(json.dumps(convert() if convert else value, ensure_ascii=False, indent=1))
    elif value is not None:
        print(lines(value) if isinstance(value, Mapping) else value)


def lines(about: Mapping[str, Any], indent: str = "") -> str:
    """One line per key, what belongs together indented; a reliability table becomes its diagram.

    >>> print(lines({"entities": 1234, "observed": ["train", "valid"], "model": None, "edges": {"train": 10}}))
    entities  1,234
    observed  train, valid
    model     none
    edges
      train  10
    >>> print(lines({"models": [{"kind": "complex"}, {"kind": "paths"}]}))
    models
      1
        kind  complex
      2
        kind  paths
    >>> print(lines({"names": list("abcdefghijklmnopqrstuvwxyz")}))
    names  a, b, c, … (26)
    """
    width = max((len(str(key)) for key in about), default=0)
    shown = []
    for key, value in about.items():
        text: Any = value
        if key.startswith("reliability") and isinstance(value, Mapping):
            from tuplet.truth.calibration.reliability import Reliability

            text = str(Reliability.from_dict(dict(value)))
        if isinstance(text, list) and text and all(isinstance(one, Mapping) for one in text):
            text = {str(number): one for number, one in enumerate(text, 1)}
        if isinstance(text, Mapping) and text:
            shown.append(f"{indent}{key}\n{lines(text, indent + '  ')}")
        elif isinstance(text, str) and "\n" in text:
            shown.append(f"{indent}{key}\n" + "\n".join(f"{indent}  {line}" for line in text.splitlines()))
        else:
            shown.append(f"{indent}{str(key).ljust(width)}  {_word(text)}".rstrip())
    return "\n".join(shown)


def _word(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple) and len(value) > _MOST:
        return f"{', '.join(map(_word, value[:3]))}, … ({len(value)})"
    if isinstance(value, list | tuple):
        return ", ".join(map(_word, value)) or "none"
    return str(value)
