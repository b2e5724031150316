"""The command line: the table of commands with their flags, and `main`, which runs one and prints what it returns.

Data goes to standard output, progress to standard error. Exit codes: 0 done (also with no answers), 1 a clear error of
input or data, 2 wrong usage. argparse rather than a heavier parser keeps a cold `tuplet ask` well under a second.
"""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from typing import get_args

from tuplet._version import __version__
from tuplet.cli.command_parser import (
    JSON,
    QUIET,
    RAY,
    READING,
    TABLES,
    Command,
    CommandParser,
    Group,
    arg,
    echo,
    engine_flag,
    output_flags,
    rows,
)
from tuplet.errors import TupletError
from tuplet.files import reason
from tuplet.predict.config import PACKAGED, PRESETS, TrainConfig
from tuplet.settings import OURS, flags, load_class

FORMATS = ("table", "json", "csv", "parquet")
NEXT = """\
tuplet COMMAND --help tells more. With facts of your own:
  tuplet build facts.csv -o my.store
  tuplet ask my.store '?drug : treats(?drug, asthma)' --explain"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = parser().parse_args(argv)
    arguments.say = lambda text: print(text, flush=True)
    try:
        module, _, function = arguments.run.partition(":")
        echo(getattr(import_module(module), function)(arguments), getattr(arguments, "json", False))
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


def parser() -> CommandParser:
    """The parser of all commands."""
    known = commands()
    wide = max(map(len, known)) + 2
    groups = []  # the commands by what one wants to do, on one screen
    for group in get_args(Group):
        lines = [f"  {name:{wide}}{command.about}" for name, command in known.items() if command.group == group]
        groups.append("\n".join([f"{group}:", *lines]))
    top = CommandParser(
        prog="tuplet",
        usage="tuplet COMMAND [options]",
        description="Ask incomplete knowledge graphs for tuples, jointly ranked.",
        epilog="\n\n".join([*groups, NEXT]),
        formatter_class=RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"tuplet {__version__}")
    inner = top.add_subparsers(
        required=True, prog="tuplet", metavar="COMMAND", help=SUPPRESS, parser_class=CommandParser
    )
    for name, command in known.items():
        sub = inner.add_parser(name, description=command.about)
        sub.set_defaults(command=name, parser=sub, run=command.run)
        sub.fill = command.flags
    return top


def commands() -> dict[str, Command]:
    """All commands, those of the rooms too, group by group; a room may extend a command of the core."""
    known = COMMANDS | {name: load_class("commands", name) for name in OURS["commands"]}
    order = get_args(Group)
    return dict(sorted(known.items(), key=lambda entry: order.index(entry[1].group)))


def _training(command: CommandParser) -> None:
    """The settings of the trainer; --config reads them from a file."""
    group = command.add_argument_group("training (defaults by the size of the graph)")
    arg("--config F", "settings from a .toml or .json file")(group)
    arg("--preset NAME", f"tuned settings: {', '.join(PRESETS)}")(group)
    flags(group, TrainConfig, defaults=False)


def _limits(command: CommandParser) -> None:
    from tuplet.query.limits import Limits

    flags(command.add_argument_group("limits"), Limits)


def _data(command: CommandParser) -> None:
    actions = command.add_actions(metavar="ACTION")
    fetch = actions.add_parser("fetch", help="a graph directory of a benchmark graph, checked")
    known = actions.add_parser("list", help="the benchmark graphs that are known by name")
    arg("name NAME", "as `tuplet data list` has it")(fetch)
    arg("--from-dir DIR", "a folder that holds the files (default: $TUPLET_DATA)")(fetch)
    output_flags("GRAPH", required=False)(fetch)
    for action in (fetch, known):
        action.set_defaults(parser=action)
        JSON(action)


# What several commands share.
GRAPH, STORE, PATH = arg("graph GRAPH"), arg("store STORE"), arg("store PATH", "a store or a graph directory")
DEVICE = arg("--device DEVICE", "auto (default), cpu or cuda", default="auto")
MEMORY = arg("--memory BYTES", "memory for facts and scores, such as 512M or 2G; facts beyond it wait on disk")
TURN = arg("--timeout SECONDS", "how long to wait for another writer", type=float)
NETWORK = rows(
    arg("--model MODEL", "a model folder of kind any-graph (default: the one in the package)", default=PACKAGED), RAY
)
INDEXING = rows(  # how predictions become truth values
    arg("--threshold N", "drop edges below this truth (default: 0.0005 if learned, else 0.005)", type=float),
    arg(
        "--calibration NAME",
        "learned (default, given enough valid edges), softmax-count or observed-mass; "
        "with --table given (default) or learned",
    ),
    arg("--predict-types", "predict node labels and rdf:type, too (default: they are facts and nothing else)"),
    DEVICE,
)
EDITED = rows(
    STORE,
    arg("facts FACTS*", "files as `import` reads them"),
    arg(
        "--attributes FILE",
        "values: a table with the columns entity, attribute and value, or with entities and a column for each",
    ),
    TABLES,
    TURN,
    JSON,
)
TRAIN_FLAGS = rows(
    GRAPH, output_flags("MODEL"), arg("--resume", "continue the run in MODEL"), DEVICE, _training, QUIET, JSON
)

COMMANDS: dict[str, Command] = {
    "demo": Command(
        "start",
        "run the main job on a bundled graph: countries, or MITRE ATT&CK by date",
        rows(
            arg(
                "graph world|attack?",
                "which bundled graph: countries of the world (default), or MITRE ATT&CK by date",
                default="world",
            ),
            output_flags("STORE", required=False),
            QUIET,
        ),
        "tuplet.cli.demo:run_demo",
    ),
    "build": Command(
        "start",
        "import, train and index in one go, with sane defaults",
        rows(
            arg("source SRC+", "anything `import` reads, or a graph directory"),
            READING,
            MEMORY,
            output_flags("STORE"),
            arg(
                "--minutes N",
                "the most that all of it may take (default 15); what is trained, or computed without, is chosen to fit",
                type=float,
            ),
            arg(
                "--holdout",
                "the facts that truth is learned from: some at random, or the newest by their date",
                choices=("random", "newest"),
                default="random",
            ),
            arg("--predictors NAMES", "what is trained, such as complex,paths (default: what fits)"),
            arg("--no-train", "train nothing: predict with the path network that ships with the package"),
            INDEXING,
            arg("--keep-model MODEL", "keep what was trained in this folder"),
            RAY,
            _training,
            QUIET,
            JSON,
        ),
        "tuplet.cli.making:run_build",
    ),
    "ask": Command(
        "start",
        "answer a query",
        rows(
            arg("store STORE", "a store, or a graph directory (engine crisp)"),
            arg("query QUERY", "logic text, SPARQL or Cypher; @file reads a file, - standard input"),
            engine_flag("exact; crisp on a graph"),
            arg("--observed SPLITS", "splits that count as facts; only for a graph directory"),
            arg("--grounding JSON", "what the symbols of an EFOk-CQA string stand for: names or ids"),
            arg(
                "--param NAME=VALUE",
                "what $NAME stands for in Cypher: a number, true, false, a list or text (repeatable)",
                action="append",
            ),
            _limits,
            rows(
                arg("--explain", "print the reason for every answer"),
                arg("--plan", "print how the query would be answered, and stop"),
                arg(f"--format {'|'.join(FORMATS)}", "default: table, or by the ending of -o", choices=FORMATS),
                arg("-o --output FILE", "write to this file"),
                arg("--proof FILE", "write a proof of the answers, which `tuplet check` verifies"),
                arg("--force", "overwrite the output file"),
                JSON,
                group="output",
            ),
        ),
        "tuplet.cli.asking:run_ask",
    ),
    "info": Command(
        "look inside",
        "describe a graph, model or store",
        rows(arg("path PATH"), arg("--verify", "read every byte and compare it with what was written"), JSON),
        "tuplet.cli.asking:run_info",
    ),
    "relations": Command(
        "look inside",
        "list the relations of a store or graph, with counts and examples",
        rows(PATH, JSON),
        "tuplet.cli.asking:run_method",
    ),
    "find": Command(
        "look inside",
        "find entities by a part of their name or label",
        rows(
            PATH,
            arg("text TEXT", "the beginning of a name or label, or a part of it"),
            arg("-k N", "show at most N (default 20)", type=int, default=20),
            arg("--relations", "find relations, not entities"),
            JSON,
        ),
        "tuplet.cli.asking:run_find",
    ),
    "entity": Command(
        "look inside",
        "show what is known and predicted about one entity",
        rows(
            PATH,
            arg("name NAME", "the name of an entity, or its label"),
            arg("-k N", "show at most N facts of each relation (default 5)", type=int, default=5),
            JSON,
        ),
        "tuplet.cli.asking:run_method",
    ),
    "check": Command(
        "look inside",
        "check the proof of an answer against its store",
        rows(
            arg("proof PROOF", "what `tuplet ask --proof PROOF` has written"),
            arg("store STORE?", "its store, if that is not where it was then"),
            JSON,
        ),
        "tuplet.cli.checking:run_check",
    ),
    "export": Command(
        "look inside",
        "write facts, predictions and attributes in other formats",
        rows(
            arg("store PATH", "a store or a graph"),
            arg(
                "-o --output FILE",
                "its ending says how: .nt, .ttl, .parquet, .csv, .graphml",
                required=True,
                dest="path",
            ),
            arg("--predicted", "write predictions too, with their truth"),
            arg("--threshold T", "the least truth of a prediction (default: all)", type=float, default=0.0),
            arg("--force", "replace FILE if it exists"),
            JSON,
        ),
        "tuplet.cli.asking:run_method",
    ),
    "engines": Command("look inside", "list the engines with their options", JSON, "tuplet.cli.asking:run_engines"),
    "import": Command(
        "build step by step",
        "make a graph directory from TSV, CSV, Parquet, RDF, STIX or a dataset folder",
        rows(
            arg("source SRC+", "files, also as a pattern, or a dataset folder"),
            READING,
            MEMORY,
            output_flags("GRAPH"),
            JSON,
        ),
        "tuplet.cli.making:run_import",
    ),
    "train": Command(
        "build step by step",
        "train a link predictor; --resume continues after Ctrl-C",
        TRAIN_FLAGS,
        "tuplet.cli.making:run_train",
    ),
    "adopt": Command(
        "build step by step",
        "convert a link predictor that was trained elsewhere",
        rows(
            arg("source SRC", "PyKEEN directory, CQD-style checkpoint, safetensors or folder"),
            GRAPH,
            output_flags("MODEL"),
            arg("--model MODEL", "complex, distmult, rotate or transe, if SRC does not say"),
            arg("--entity-names F", "entity names in the order of the rows (default: the order of GRAPH)"),
            arg("--relation-names F", "relation names in the order of the rows (default: the order of GRAPH)"),
            arg("--relation-order RELATION_ORDER", "blocks or interleaved: how SRC orders reciprocal relations"),
            arg("--trust", "load a pickle, which can run any code; only for files you trust"),
            JSON,
        ),
        "tuplet.cli.making:run_adopt",
    ),
    "index": Command(
        "build step by step",
        "calibrate a predictor and build the truth table: a store that answers queries",
        rows(
            GRAPH,
            arg("model MODEL*", "a trained or adopted predictor; several are calibrated together"),
            output_flags("STORE"),
            arg(
                "--candidates PAIRS",
                "half-links: pairs with an end that has a fact of the relation; wide: more rows of path networks, for "
                "a GPU; nearest: search for the best of many ends; all: every pair (default: the cheapest that hold "
                "nearly all valid edges)",
            ),
            arg("--parts FOLDER", "keep finished relations in this folder, or go on from those in it"),
            RAY,
            arg("--table F.parquet", "read truth values from this file instead of MODEL"),
            arg("--observed SPLITS", "splits that count as facts (default: train,valid)", default="train,valid"),
            arg("--on-demand", "build no table; compute rows when they are asked for"),
            arg("--other-graph", "accept a model trained on another graph with the same ids"),
            INDEXING,
            MEMORY,
            QUIET,
            JSON,
        ),
        "tuplet.cli.making:run_index",
    ),
    "add": Command(
        "keep up to date",
        "add observed facts, at once and without retraining",
        rows(
            EDITED,
            arg("--replace", "the values of --attributes replace those that are there"),
            arg("--new-entities", "accept entities that the store does not know, and predict facts"),
            arg("--seconds S", "compute predictions about new entities for S at most (default 300)", type=float),
            NETWORK,
            QUIET,
        ),
        "tuplet.cli.making:run_edit",
    ),
    "remove": Command(
        "keep up to date",
        "remove observed facts, at once and without retraining",
        EDITED,
        "tuplet.cli.making:run_edit",
    ),
    "update": Command(
        "keep up to date",
        "compute predictions that new entities wait for, and those around them again",
        rows(STORE, arg("--seconds S", "stop after S; what is left waits on", type=float), NETWORK, TURN, QUIET, JSON),
        "tuplet.cli.making:run_update",
    ),
    "compact": Command(
        "keep up to date",
        "merge what was added and removed since into the folders of a store",
        rows(STORE, TURN, QUIET, JSON),
        "tuplet.cli.making:run_compact",
    ),
    "data": Command(
        "measure",
        "list public graphs, two of them bundled, or import one and check it",
        _data,
        "tuplet.cli.asking:run_data",
    ),
    "doctor": Command(
        "this machine",
        "show versions, devices, memory and extras",
        rows(arg("--warm", "compile and cache the search kernels"), JSON),
        "tuplet.cli.doctor:run_doctor",
    ),
    "completion": Command(
        "this machine",
        "print a script that completes commands in a shell",
        arg("shell SHELL", "bash, zsh or fish", choices=("bash", "zsh", "fish")),
        "tuplet.cli.completion:run_completion",
    ),
}
