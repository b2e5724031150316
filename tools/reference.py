"""Write the reference pages that are made from the code: command line, settings, Python, metrics.

`python tools/reference.py` writes them; with `--check` it only says which are out of date, as a test does. Nothing here
says what a flag or a function means: that stands in the code, once.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tuplet
from tuplet import engines, errors
from tuplet import settings as registry
from tuplet.cli.command_parser import CommandParser
from tuplet.cli.commands import parser
from tuplet.predict.config import PRESETS, TrainConfig
from tuplet.query.answers import Explanation
from tuplet.query.display import Listing
from tuplet.query.limits import Limits
from tuplet.query.schema import (
    AnswerCount,
    AnswerDict,
    AnswersDict,
    Evidence,
    Fact,
    StatedFact,
    json_schema,
    schema_fields,
)
from tuplet.server.limits import ServerLimits
from tuplet.server.logs import LogSettings
from tuplet.server.metrics import FAMILIES
from tuplet.settings import describe, table
from tuplet.truth.edit import EditReport

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
MADE = "<!-- Made from the code by tools/reference.py (make reference). Do not edit. -->\n\n"
WIDTH = 100
NO_FLAGS = (argparse._HelpAction, argparse._SubParsersAction)

FUNCTIONS = ("read", "train", "index", "build", "open", "info", "engines")
CLASSES: dict[str, Any] = {
    "Store": tuplet.Store,
    "Graph": tuplet.Graph,
    "Answers": tuplet.Answers,
    "Answer": tuplet.Answer,
    "Limits": tuplet.Limits,
    "Source": tuplet.Source,
}
RETURNED = (Explanation, Fact, Evidence, StatedFact, Listing, EditReport)
KNOBS = {kind: [f.name for f in fields(kind)] for kind in (Limits, TrainConfig)}
HIDDEN = {"from_arrays", "from_edges", "from_files", "from_graph", "with_splits"}
HIDDEN |= {"replaced", "relation_edges", "engine", "question"}

CLI_INTRODUCTION = """\
`tuplet COMMAND --help` prints the same.

- Data goes to standard output, progress to standard error.
- Exit codes: 0 done (also with no answers), 1 an error of your input or data, in one line, 2 wrong usage,
  130 stopped by Ctrl-C.
- `-o` creates parent folders and refuses to overwrite without `--force`.
- Times are in seconds. Sizes are in bytes and may be written `512M` or `2G`."""
METRICS_INTRODUCTION = """\
`GET /metrics` of `tuplet serve`, in Prometheus' text format. One worker answers for all: counters are sums over all
workers, those that died included; gauges are sums over the living, or have a `pid`. A histogram `x` has `x_bucket`,
`x_count` and `x_sum`, in seconds. `packaging/grafana.json` is a dashboard of them."""
LIMITS_INTRODUCTION = """\
The fields of `tuplet.Limits` are the flags of [`tuplet ask`](cli.md#tuplet-ask), the keywords of `Store.ask` and
the keys of `POST /ask`, with the same units everywhere. [Answers and limits](answers.md) says what they mean."""
TRAINING_INTRODUCTION = """\
The fields of `TrainConfig` are flags of `tuplet train` and `tuplet build` (`--learning-rate`), keywords of
`tuplet.train` and `tuplet.build`, and keys of a file for `--config` (`.toml` or `.json`). An unknown key is refused
with the nearest known one."""
PRESETS_INTRODUCTION = """\
Presets (`--preset NAME`). By default a graph with fewer than 20,000 training edges gets `small`, and any other
graph the settings above, which are meant for a GPU."""
OPTIONS_INTRODUCTION = """\
`--option KEY=VALUE` on the command line, `options={…}` in Python and over HTTP. A server takes no options that name
files or devices. `tuplet engines` lists the options too."""
ERRORS_INTRODUCTION = """\
A mistake in input, data or limits raises a subclass of `tuplet.TupletError`; they are in `tuplet.errors`.
`str(error)` is the sentence, with arguments written as in Python (`force=True`); in `error.shell` they are flags
(`--force`). An error has the fields of its base as well."""


TYPES = "../../src/tuplet/server/web/answers.d.ts"
MARKS = "<!-- fields: made by `make reference` -->\n", "<!-- end of fields -->\n"


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    made = {"cli.md": cli(), "settings.md": settings(), "python.md": python(), "metrics.md": metrics()}
    return made | {"answers.md": answers(), TYPES: typescript(AnswersDict)}


# The JSON of an answer


def answers() -> str:
    """The page on answers: written by hand, except the tables of fields."""
    before, rest = (FOLDER / "answers.md").read_text(encoding="utf-8").split(MARKS[0])
    kinds = {
        "": AnswersDict,
        "One of the `answers`": AnswerDict,
        "One fact of a `witness`": Fact,
        "`count`": AnswerCount,
    }
    tables = [f"{f'**{title}**' if title else ''}\n\n{schema_table(kind)}\n" for title, kind in kinds.items()]
    return before + MARKS[0] + "\n".join(tables) + "\n" + MARKS[1] + rest.split(MARKS[1])[1]


def schema_table(kind: Any) -> str:
    """The fields of a type of the answer's schema."""
    rows = ["| key | type | meaning |", "|---|---|---|"]
    for name, (hint, _) in schema_fields(kind).items():
        schema = json_schema(hint, "", {})
        rows.append(f"| `{name}` | {_type_words(schema)} | {_cell(schema.get('description'))} |")
    return "\n".join(rows)


def _type_words(schema: dict[str, Any]) -> str:
    match schema:
        case {"$ref": name}:
            return str(name).lower()
        case {"anyOf": parts}:
            return ", ".join(map(_type_words, parts))
        case {"enum": values}:
            return ", ".join("null" if value is None else f"`{value}`" for value in values)
        case {"type": "array", "items": items}:
            return f"list of {_type_words(items)}"
        case {"type": list() as kinds}:
            return ", ".join(kinds)
        case _:
            return str(schema.get("type", "any"))


def typescript(kind: Any) -> str:
    """A type of the answer's schema, and all that it names, as TypeScript."""
    components: dict[str, dict[str, Any]] = {}
    json_schema(kind, "", components)
    found = ["// Made from query/schema.py by `make reference`."]
    for name, schema in components.items():
        fields = []
        for key, part in schema["properties"].items():
            optional = "" if key in schema["required"] else "?"
            fields.append(f"  /** {part.get('description', '')} */\n  {key}{optional}: {_script(part)};")
        found.append("\n".join([f"export interface {name} {{", *fields, "}"]))
    return "\n\n".join(found) + "\n"


def _script(schema: dict[str, Any]) -> str:
    plain = {"integer": "number"}
    match schema:
        case {"$ref": name}:
            return str(name)
        case {"anyOf": parts}:
            return " | ".join(map(_script, parts))
        case {"enum": values}:
            return " | ".join("null" if value is None else f'"{value}"' for value in values)
        case {"type": "array", "items": items}:
            return f"Array<{_script(items)}>"
        case {"type": "object"}:
            return f"Record<string, {_script(schema.get('additionalProperties', {}))}>"
        case {"type": kinds}:
            return " | ".join(plain.get(kind, kind) for kind in (kinds if isinstance(kinds, list) else [kinds]))
        case _:
            return "unknown"


# What a server counts


def metrics() -> str:
    """Every metric with its labels."""
    rows = [
        f"| `{family.name}` | {family.kind} | {', '.join(f'`{label}`' for label in family.labels)} | {family.text} |"
        for family in FAMILIES.values()
    ]
    head = ["# Metrics", "", METRICS_INTRODUCTION, "", "| metric | kind | labels | |", "|---|---|---|---|"]
    return MADE + "\n".join([*head, *rows]) + "\n"


# The command line


def cli() -> str:
    """Every command with every flag."""
    top = parser()
    commands = _commands(top)
    lines = [
        "# Command line",
        "",
        CLI_INTRODUCTION,
        "",
        "| command | does |",
        "|---|---|",
        *(
            f"| [`tuplet {name}`](#tuplet-{name}) | {_cell(command.description)} |"
            for name, command in commands.items()
        ),
        "",
    ]
    for name, command in commands.items():
        lines += _command(f"tuplet {name}", command, 2)
    return MADE + "\n".join(lines).rstrip() + "\n"


def _commands(command: CommandParser) -> dict[str, CommandParser]:
    command.fill_flags()
    found: dict[str, CommandParser] = {}
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def _command(title: str, command: CommandParser, level: int) -> list[str]:
    inner = _commands(command)
    lines = [f"{'#' * level} {title}", "", f"{_sentence(command.description or '')}", ""]
    if not inner:
        lines += ["```", _usage(title, command), "```", ""]
    plain, groups = [], []
    for group in command._action_groups:
        rows = [_flag(action) for action in group._group_actions if not isinstance(action, NO_FLAGS)]
        if group.title in ("positional arguments", "options"):
            plain += rows
        elif rows:
            groups += [f"*{_sentence(group.title or '')}*", "", "| | |", "|---|---|", *rows, ""]
    lines += ["| | |", "|---|---|", *plain, ""] if plain else []
    lines += groups
    for name, sub in inner.items():
        lines += _command(f"{title} {name}", sub, level + 1)
    return lines


def _usage(title: str, command: CommandParser) -> str:
    words = []
    for action in command._actions:
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction):
            name = str(action.metavar or action.dest)
            words.append({"?": f"[{name}]", "*": f"[{name}...]", "+": f"{name}..."}.get(str(action.nargs), name))
    words += [f"{a.option_strings[0]} {a.metavar}" for a in command._actions if a.option_strings and a.required]
    return " ".join([title, *words, "[options]"])


def _flag(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings) or str(action.metavar or action.dest)
    value = "" if action.nargs == 0 or not action.option_strings else f" {action.metavar or action.dest.upper()}"
    text = (action.help or "").replace("%%", "%")
    shown = action.default not in (None, False, argparse.SUPPRESS, []) and action.option_strings
    if shown and "default" not in text:
        text = f"{text} (default {action.default})".strip()
    return f"| `{_cell(names + value)}` | {_cell(text)} |"


# Settings


def settings() -> str:
    """The knobs of limits, training, engines and the server."""
    lines = [
        "# Settings",
        "",
        "## Limits of a question",
        "",
        LIMITS_INTRODUCTION,
        "",
        table(Limits),
        "",
        "## Training",
        "",
        TRAINING_INTRODUCTION,
        "",
        table(TrainConfig),
        "",
        PRESETS_INTRODUCTION,
        "",
        "| preset | what differs from the defaults |",
        "|---|---|",
        *(f"| `{name}` | {_differences(config)} |" for name, config in PRESETS.items()),
        "",
        "## Options of engines",
        "",
        OPTIONS_INTRODUCTION,
        "",
        "| engine | option | default | meaning |",
        "|---|---|---|---|",
    ]
    for name in registry.OURS["engines"]:
        engine = registry.find_plugin("engines", name)
        lines += [
            f"| `{name}` | `{key}` | {_value(default)} | {_cell(text)} |"
            for key, _, default, text in describe(engine.options)
        ]
    lines += [
        "",
        "## Limits of a server",
        "",
        "The flags of [`tuplet serve`](cli.md#tuplet-serve). They hold for every request.",
        "",
        table(ServerLimits, flags=True),
        "",
        "## Logs of a server",
        "",
        "Lines about the server itself go to the standard error.",
        "",
        table(LogSettings, flags=True),
    ]
    return MADE + "\n".join(lines).rstrip() + "\n"


def _differences(config: TrainConfig) -> str:
    usual = TrainConfig()
    changed = [(f.name, getattr(config, f.name)) for f in fields(config)]
    return ", ".join(
        f"{name} {value if isinstance(value, str) else format(value, 'g')}"
        for name, value in changed
        if value != getattr(usual, name)
    )


def _value(value: Any) -> str:
    return "" if value is None or value == "" else f"`{value}`"


# Python


def python() -> str:
    """What `help(tuplet)` shows."""
    lines = [
        "# Python",
        "",
        "What `help(tuplet)` shows. Names that are not on this page are internal: they may change with any version.",
        "",
        _text(inspect.getdoc(tuplet) or "").split("\n", 2)[2],
        "",
        "## Functions",
        "",
    ]
    for name in FUNCTIONS:
        lines += _function(f"tuplet.{name}", getattr(tuplet, name), 3)
    for name, kind in CLASSES.items():
        lines += _class(f"tuplet.{name}", kind)
    lines += ["## What methods return", ""]
    for kind in RETURNED:
        lines += _class(kind.__name__, kind, 3)
    lines += [
        "## Errors",
        "",
        ERRORS_INTRODUCTION,
        "",
        "| error | base | fields | when |",
        "|---|---|---|---|",
        *(_error(kind) for kind in _errors()),
    ]
    return MADE + "\n".join(lines).rstrip() + "\n"


def _type(text: str) -> tuple[str, str]:
    """The type of a field, and the sentence that describes it."""
    text = re.sub(r"\b(typing|tuplet\.[\w.]+)\.(?=[A-Z])", "", text)
    found = re.fullmatch(r"""Annotated\[(.+), (["'])(.+)\2\]""", text)
    return (found[1], found[3]) if found else (text, "")


def _class(title: str, kind: Any, level: int = 2) -> list[str]:
    lines = [f"{'#' * level} {title}", "", _text(_doc(kind)), ""]
    if is_dataclass(kind) and kind is not Limits and not issubclass(kind, tuplet.Answers | tuplet.Graph):
        rows = [(f.name, *_type(str(f.type))) for f in fields(kind) if f.name[0] != "_"]
        if any(meaning for *_, meaning in rows):
            lines += ["| field | type | meaning |", "|---|---|---|"]
            lines += [f"| `{name}` | `{_cell(of)}` | {meaning} |" for name, of, meaning in rows]
        else:
            lines += ["| field | type |", "|---|---|", *(f"| `{name}` | `{_cell(of)}` |" for name, of, _ in rows)]
        lines.append("")
    if kind is Limits:
        return [*lines, "Its fields are listed in [Settings](settings.md#limits-of-a-question).", ""]
    if kind is tuplet.Source:
        return lines
    properties, methods = [], []
    for owner in reversed(kind.__mro__):
        for name, member in vars(owner).items():
            if not owner.__module__.startswith("tuplet") or name.startswith("_") or name in HIDDEN or not _doc(member):
                continue
            if isinstance(member, property | cached_property):
                properties.append(f"| `{name}` | {_cell(' '.join(_doc(member).split()))} |")
            elif callable(member) or isinstance(member, staticmethod):
                shown = (
                    f"{kind.__name__}.{name}" if isinstance(member, staticmethod) else f"{kind.__name__.lower()}.{name}"
                )
                methods.append((shown, getattr(kind, name), not isinstance(member, staticmethod)))
    if properties:
        lines += ["| property | |", "|---|---|", *dict.fromkeys(properties), ""]
    for shown, method, bound in {m[0]: m for m in methods}.values():
        lines += _function(shown, method, level + 1, bound)
    return lines


def _function(title: str, function: Any, level: int, bound: bool = False) -> list[str]:
    target = (
        engines.engines if inspect.ismodule(function) else function
    )  # `tuplet.engines` is a package that can be called
    lines = [f"{'#' * level} {title}", "", "```python", _signature(title, target, bound), "```", ""]
    return [*lines, _text(_doc(target)), ""]


def _signature(title: str, function: Any, bound: bool) -> str:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    knobs = next((kind for kind in KNOBS if {f.name for f in fields(kind)} <= {p.name for p in parameters}), None)
    names = {f.name for f in fields(knobs)} if knobs else set()
    shown, keyword_only = [], False
    for p in parameters:
        if p.name in names:
            continue
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            shown.append("*")
            keyword_only = True
        hint = "" if p.annotation is p.empty else f": {_hint(p.annotation)}"
        default = "" if p.default is p.empty else f" = {p.default!r}" if hint else f"={p.default!r}"
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        shown.append(f"{stars}{p.name}{hint}{default}")
    note = (
        f"    **fields,  # those of {knobs.__name__}: {', '.join(sorted(names, key=KNOBS[knobs].index)[:4])}, …"
        if knobs
        else ""
    )
    result = "" if signature.return_annotation is signature.empty else f" -> {_hint(signature.return_annotation)}"
    line = f"{title}({', '.join(shown)}){result}"
    if len(line) <= WIDTH and not note:
        return line
    return "\n".join([f"{title}(", *(f"    {part}," for part in shown), *filter(None, [note]), f"){result}"])


def _hint(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _errors() -> list[Any]:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.TupletError)]
    return [kind for kind in kinds if kind.__module__ == errors.__name__]


def _error(kind: Any) -> str:
    own = [name for name in _error_fields(kind) if name != "parts"]
    base = kind.__bases__[0].__name__
    summary = _doc(kind).split("\n\n")[0]
    named = ", ".join(f"`{name}`" for name in own)
    return f"| `{kind.__name__}` | `{base}` | {named} | {_cell(' '.join(summary.split()))} |"


def _error_fields(kind: Any) -> list[str]:
    """The fields that a kind of error adds to those of its base."""
    found: list[str] = []
    made = vars(kind).get("__init__")
    if made is not None:
        found += re.findall(r"self\.(\w+)(?=[,\s].*?=|\s*=)", inspect.getsource(made))
    found += [name for name, member in vars(kind).items() if isinstance(member, property)]
    return list(dict.fromkeys(name for name in found if name not in ("args", "shell", "message")))


# Text


def _doc(thing: Any) -> str:
    target = thing.__func__ if isinstance(thing, staticmethod) else thing
    text = target.fget.__doc__ if isinstance(thing, property) else getattr(target, "__doc__", None)
    return inspect.cleandoc(text) if text else ""


def _text(doc: str) -> str:
    """A docstring as Markdown: examples and indented lines become blocks of code."""
    parts = []
    for part in doc.split("\n\n"):
        if part.startswith(">>>"):
            parts.append(f"```python\n{part}\n```")
        elif part.startswith("    "):
            parts.append(f"```python\n{inspect.cleandoc(part)}\n```")
        else:
            parts.append(part)
    return "\n\n".join(parts)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", ")")) else ".")


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("<", "&lt;")


def main() -> int:
    """Write the pages, or say which would change."""
    stale = [name for name, text in pages().items() if not _current(FOLDER / name, text)]
    if "--check" not in sys.argv[1:]:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name in stale:
            (FOLDER / name).write_text(pages()[name], encoding="utf-8")
    for name in stale:
        print(f"docs/reference/{name}", "is out of date" if "--check" in sys.argv[1:] else "written")
    return 1 if stale and "--check" in sys.argv[1:] else 0


def _current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
