"""The command line: one thin function per command. Data goes to standard output, progress to standard error.

Exit codes: 0 done (also with no answers), 1 a clear error of input or data, 2 wrong usage. argparse rather than a
heavier parser keeps a cold `tuplet ask` well under a second.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from tuplet import __version__
from tuplet.errors import BadInput, TupletError, nearest

FORMATS = ("table", "json", "csv", "parquet")
LARGEST_QUERY = 1_000_000  # characters read from a query file


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = parser().parse_args(argv)
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except TupletError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (head, less) went away: nothing is wrong, and Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 0


class _Parser(argparse.ArgumentParser):
    """argparse that names the nearest command or option."""

    def error(self, message: str) -> NoReturn:
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
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}", file=sys.stderr)
        raise SystemExit(2)


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = _Parser(prog="tuplet", description="Ask incomplete knowledge graphs for tuples, jointly ranked.")
    top.add_argument("--version", action="version", version=f"tuplet {__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)

    def command(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(run=run)
        return sub

    demo = command("demo", run_demo, "the main job on the bundled graph of countries")
    _quiet(demo)

    imports = command("import", run_import, "make a graph directory from TSV, CSV, Parquet, RDF or a dataset folder")
    imports.add_argument("source", metavar="SRC")
    imports.add_argument("--valid", metavar="F", help="held-out facts for validation")
    imports.add_argument("--test", metavar="F", help="held-out facts for testing")
    imports.add_argument("--labels", metavar="F", action="append", default=[], help="name<TAB>label; may be repeated")
    _output(imports, "GRAPH")
    _json(imports)

    info = command("info", run_info, "what a graph, model or store is")
    info.add_argument("path", metavar="PATH")
    info.add_argument("--verify", action="store_true", help="recompute the content hash from every byte")
    _json(info)

    ask = command("ask", run_ask, "answer a query")
    ask.add_argument("store", metavar="STORE", help="a store, or a graph directory (engine crisp)")
    ask.add_argument("query", metavar="QUERY", help="SPARQL or logic text; @file reads a file, - standard input")
    ask.add_argument("-k", metavar="K", help="how many answers (default: LIMIT of the query, or 10); 'all'")
    ask.add_argument("--engine", help="crisp, brute, exact (default: exact on a store, crisp on a graph)")
    ask.add_argument("--logic", default="product", help="product (default) or godel")
    ask.add_argument("--timeout", type=float, metavar="S", help="stop after S seconds with the best so far")
    ask.add_argument("--observed", metavar="SPLITS", help="the splits that count as facts, on a graph directory")
    ask.add_argument("--grounding", metavar="JSON", help="names or ids of the symbols of an EFOk-CQA string")
    ask.add_argument("--only", choices=("predicted", "observed"), help="filter before the top k")
    ask.add_argument("--explain", action="store_true", help="the reason for every answer")
    ask.add_argument("--plan", action="store_true", help="show how the query would be answered, and stop")
    ask.add_argument("--format", choices=FORMATS, help="default: table, or by the ending of -o")
    ask.add_argument("-o", "--output", metavar="F")
    ask.add_argument("--force", action="store_true", help="overwrite the output file")
    _json(ask)

    data = command("data", run_data, "a public benchmark graph by name, checked")
    data.add_argument("action", choices=("fetch",))
    data.add_argument("name", metavar="NAME")
    data.add_argument("--from-dir", metavar="DIR", help="a folder that holds the files (default: $TUPLET_DATA)")
    _output(data, "GRAPH", required=False)
    _json(data)

    doctor = command("doctor", run_doctor, "versions, devices, memory, extras")
    doctor.add_argument("--warm", action="store_true", help="compile and cache the search kernels")
    _json(doctor)
    return top


def _quiet(command: argparse.ArgumentParser) -> None:
    command.add_argument("--quiet", action="store_true", help="no progress on standard error")


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON")


def _output(command: argparse.ArgumentParser, metavar: str, required: bool = True) -> None:
    command.add_argument("-o", "--output", required=required, metavar=metavar)
    command.add_argument("--force", action="store_true", help="replace what is there")


def run_import(arguments: argparse.Namespace) -> None:
    """`tuplet import`."""
    from tuplet.graph.readers import read_with_report

    graph, report = read_with_report(
        arguments.source, valid=arguments.valid, test=arguments.test, labels=arguments.labels
    )
    graph.save(arguments.output, force=arguments.force)
    _print(report.as_dict() if arguments.json else f"{report}\n{arguments.output}")


def run_info(arguments: argparse.Namespace) -> None:
    """`tuplet info`."""
    import tuplet

    about = tuplet.info(arguments.path, verify=arguments.verify)
    _print(about if arguments.json else _lines(about))


def run_ask(arguments: argparse.Namespace) -> None:
    """`tuplet ask`."""
    import tuplet

    splits = tuple(arguments.observed.split(",")) if arguments.observed else None
    store = tuplet.open(arguments.store, observed=splits)
    query = _query_text(arguments.query)
    grounding = _grounding(arguments.grounding)
    if arguments.plan:
        _print(store.plan(query, engine=arguments.engine, grounding=grounding))
        return
    form = "json" if arguments.json else arguments.format
    if arguments.output and Path(arguments.output).exists() and not arguments.force:
        raise BadInput(f"{arguments.output} exists already; --force overwrites it")
    answers = store.ask(
        query,
        k=_count(arguments.k),
        engine=arguments.engine,
        logic=arguments.logic,
        timeout=arguments.timeout,
        only=arguments.only,
        grounding=grounding,
    )
    if arguments.output:
        answers.write(arguments.output, form, force=arguments.force)
        print(answers.summary(), file=sys.stderr)
    elif form == "parquet":
        raise BadInput("Parquet is not for the screen; add -o FILE.parquet")
    elif form == "json":
        print(answers.to_json())
    elif form == "csv":
        print(answers.to_csv(), end="")
    else:
        print(answers)
        if arguments.explain:
            for answer in answers:
                print(f"\n{answer.explain()}")


def run_data(arguments: argparse.Namespace) -> None:
    """`tuplet data fetch`."""
    from tuplet.graph.fetch import fetch

    graph = fetch(arguments.name, arguments.from_dir)
    target = arguments.output or f"{arguments.name}.graph"
    graph.save(target, force=arguments.force)
    _print(graph.info() if arguments.json else f"{_lines(graph.info())}\n{target}")


def run_doctor(arguments: argparse.Namespace) -> None:
    """`tuplet doctor`."""
    from tuplet.doctor import examine

    about = examine(warm=arguments.warm)
    _print(about if arguments.json else _lines(about))


def run_demo(arguments: argparse.Namespace) -> None:
    """`tuplet demo`."""
    from tuplet.demo import run

    run(print, quiet=arguments.quiet)


def _query_text(argument: str) -> str:
    """The query itself, the content of @file, or standard input for -."""
    if argument == "-":
        text = sys.stdin.read(LARGEST_QUERY + 1)
    elif argument.startswith("@"):
        try:
            with open(argument[1:], encoding="utf-8") as file:
                text = file.read(LARGEST_QUERY + 1)
        except OSError as error:
            raise BadInput(f"cannot read the query file {argument[1:]!r}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise BadInput(f"the query file {argument[1:]!r} is not UTF-8 (byte {error.start})") from None
    else:
        text = argument
    if not text.strip():
        raise BadInput("the query is empty")
    return text


def _count(argument: str | None) -> int | Literal["all"] | None:
    if argument is None or argument == "all":
        return "all" if argument else None
    try:
        return int(argument)
    except ValueError:
        raise BadInput(f"-k takes a whole number or 'all', not {argument!r}") from None


def _grounding(argument: str | None) -> dict[str, Any] | None:
    if argument is None:
        return None
    try:
        grounding = json.loads(argument)
    except json.JSONDecodeError as error:
        raise BadInput(f"--grounding is not JSON: {error}") from None
    if not isinstance(grounding, dict):
        raise BadInput('--grounding must be a JSON object such as {"r1": "borders", "s1": "france"}')
    return grounding


def _print(value: Any) -> None:
    print(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1))


def _lines(about: dict[str, Any], indent: str = "") -> str:
    """A nested dictionary as aligned lines."""
    width = max((len(str(key)) for key in about), default=0)
    lines = []
    for key, value in about.items():
        if isinstance(value, dict):
            lines.append(f"{indent}{key}\n{_lines(value, indent + '  ')}")
        elif isinstance(value, str) and "\n" in value:
            lines.append(f"{indent}{key}\n" + "\n".join(f"{indent}  {line}" for line in value.splitlines()))
        else:
            shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
            lines.append(f"{indent}{str(key).ljust(width)}  {shown}")
    return "\n".join(lines)
