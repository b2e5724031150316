"""The command line: one thin function per command. Data goes to standard output, progress to standard error.

Exit codes: 0 done (also with no answers), 1 a clear error of input or data, 2 wrong usage. argparse rather than a
heavier parser keeps a cold `tuplet ask` well under a second.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module

from tuplet.cli.arguments import parser
from tuplet.cli.show import echo, lines
from tuplet.errors import TupletError, unknown
from tuplet.files import reason


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = parser().parse_args(argv)
    try:
        _command(arguments.command)(arguments)
        sys.stdout.flush()
    except TupletError as error:
        print(f"error: {error.shell}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (head, less) went away: nothing is wrong, and Python must not complain at exit.
        _discard_output()
        return 0
    except OSError as error:
        # Files say what is wrong with them; what is left is the output itself: a full device, a closed terminal.
        print(f"error: cannot write {error.filename or 'the output'}: {reason(error)}", file=sys.stderr)
        _discard_output()
        return 1
    except KeyboardInterrupt:
        goes_on = arguments.command in ("build", "index")
        print("stopped; the same command goes on with what is finished" if goes_on else "stopped", file=sys.stderr)
        return 130
    return 0


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_serve(arguments: argparse.Namespace) -> None:
    """`tuplet serve`."""
    from tuplet.server.command import serve

    serve(arguments, lambda text: print(text, flush=True))


def run_mcp(arguments: argparse.Namespace) -> None:
    """`tuplet mcp`."""
    from tuplet.server.command import serve_tools

    serve_tools(arguments, lambda text: print(text, flush=True))


def run_data(arguments: argparse.Namespace) -> None:
    """`tuplet data fetch` and `list`."""
    from tuplet.read.datasets import fetch, listed

    if arguments.action == "list":
        echo([asdict(graph) for graph in listed()] if arguments.json else "\n".join(map(str, listed())))
        return
    graph = fetch(arguments.name, arguments.from_dir)
    target = arguments.output or f"{arguments.name}.graph"
    graph.save(target, force=arguments.force)
    echo(graph.info() if arguments.json else f"{lines(graph.info())}\n{target}")


def run_bench(arguments: argparse.Namespace) -> None:
    """`tuplet bench sample`, `run`, `report`, `reliability` and `types`."""
    from tuplet.lab.bench.actions import ACTIONS

    found = ACTIONS[arguments.action](arguments)
    echo(found if isinstance(found, str) or arguments.json else lines(found))


def run_doctor(arguments: argparse.Namespace) -> None:
    """`tuplet doctor`."""
    from tuplet.cli.doctor import examine

    about = examine(warm=arguments.warm)
    echo(about if arguments.json else lines(about))


def run_demo(arguments: argparse.Namespace) -> None:
    """`tuplet demo`."""
    from tuplet.cli import demo, demo_attack

    demos = {"world": demo.run, "attack": demo_attack.run}
    if arguments.graph not in demos:
        raise unknown("demonstration", arguments.graph, demos)
    demos[arguments.graph](print, progress=not arguments.quiet, keep=arguments.output, force=arguments.force)


# Where the functions are; the module of the chosen one alone is imported.
PLACES: Mapping[str, str] = {
    **{name: f"asking:run_{name}" for name in ("ask", "info", "relations", "find", "entity", "engines")},
    **{
        name: f"making:run_{name}"
        for name in ("import", "train", "adopt", "index", "build", "update", "compact", "upgrade")
    },
    **dict.fromkeys(("add", "remove"), "making:run_edit"),
    "check": "checking:run_check",
    "export": "exporting:run_export",
    "guarantee": "guaranteeing:run_guarantee",
    "completion": "completion:run_completion",
    **{name: f"commands:run_{name}" for name in ("serve", "mcp", "data", "bench", "doctor", "demo")},
}


def _command(name: str) -> Callable[[argparse.Namespace], None]:
    module, _, function = PLACES[name].partition(":")
    found: Callable[[argparse.Namespace], None] = getattr(import_module(f"tuplet.cli.{module}"), function)
    return found
