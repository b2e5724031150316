"""What can be typed: the commands of `tuplet` and their flags, mostly generated from settings. No work is done here."""

from __future__ import annotations

from argparse import SUPPRESS, RawDescriptionHelpFormatter
from collections.abc import Callable
from typing import TypeAlias, get_args

from tuplet._version import __version__
from tuplet.cli.command_parser import (
    RAY,
    Command,
    CommandParser,
    Group,
    add_engine,
    add_json,
    add_output,
    add_quiet,
    add_reading,
    add_tables,
)
from tuplet.predict.config import PACKAGED, PRESETS, TrainConfig
from tuplet.settings import OURS, flags, load_class

FORMATS = ("table", "json", "csv", "parquet")
CALIBRATION = (
    "learned (default, given enough valid edges), softmax-count or observed-mass; "
    "with --table given (default) or learned"
)


NEXT = """\
tuplet COMMAND --help tells more. With facts of your own:
  tuplet build facts.csv -o my.store
  tuplet ask my.store '?drug : treats(?drug, asthma)' --explain"""


def parser() -> CommandParser:
    """The parser of all commands."""
    known = commands()
    top = CommandParser(
        prog="tuplet",
        usage="tuplet COMMAND [options]",
        description="Ask incomplete knowledge graphs for tuples, jointly ranked.",
        epilog=_front_page(known),
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


def _front_page(known: dict[str, Command]) -> str:
    """What `tuplet --help` shows: the commands by what one wants to do, on one screen."""
    wide = max(map(len, known)) + 2
    groups = []
    for group in get_args(Group):
        lines = [f"  {name:{wide}}{command.about}" for name, command in known.items() if command.group == group]
        groups.append("\n".join([f"{group}:", *lines]))
    return "\n\n".join([*groups, NEXT])


def _demo(command: CommandParser) -> None:
    command.add_argument(
        "graph",
        metavar="world|attack",
        nargs="?",
        default="world",
        help="which bundled graph: countries of the world (default), or MITRE ATT&CK by date",
    )
    add_output(command, "STORE", required=False)
    add_quiet(command)


def _import(command: CommandParser) -> None:
    command.add_argument("source", metavar="SRC", nargs="+", help="files, also as a pattern, or a dataset folder")
    add_reading(command)
    _memory(command)
    add_output(command, "GRAPH")
    add_json(command)


def add_train_flags(command: CommandParser) -> None:
    command.add_argument("graph", metavar="GRAPH")
    add_output(command, "MODEL")
    command.add_argument("--resume", action="store_true", help="continue the run in MODEL")
    _training(command)
    add_quiet(command)
    add_json(command)


def _adopt(command: CommandParser) -> None:
    command.add_argument("source", metavar="SRC", help="PyKEEN directory, CQD-style checkpoint, safetensors or folder")
    command.add_argument("graph", metavar="GRAPH")
    add_output(command, "MODEL")
    command.add_argument("--model", help="complex, distmult, rotate or transe, if SRC does not say")
    command.add_argument(
        "--entity-names", metavar="F", help="entity names in the order of the rows (default: the order of GRAPH)"
    )
    command.add_argument(
        "--relation-names", metavar="F", help="relation names in the order of the rows (default: the order of GRAPH)"
    )
    command.add_argument("--relation-order", help="blocks or interleaved: how SRC orders reciprocal relations")
    command.add_argument(
        "--trust", action="store_true", help="load a pickle, which can run any code; only for files you trust"
    )
    add_json(command)


def _index(command: CommandParser) -> None:
    command.add_argument("graph", metavar="GRAPH")
    command.add_argument(
        "model", metavar="MODEL", nargs="*", help="a trained or adopted predictor; several are calibrated together"
    )
    add_output(command, "STORE")
    command.add_argument(
        "--candidates",
        metavar="PAIRS",
        help="half-links: pairs with an end that has a fact of the relation; wide: more rows of path networks, for a "
        "GPU; nearest: search for the best of many ends; all: every pair (default: the cheapest that hold nearly all "
        "valid edges)",
    )
    command.add_argument(
        "--parts", metavar="FOLDER", help="keep finished relations in this folder, or go on from those in it"
    )
    command.add_argument("--ray", metavar="ADDRESS", help=RAY)
    command.add_argument("--table", metavar="F.parquet", help="read truth values from this file instead of MODEL")
    command.add_argument(
        "--observed", default="train,valid", metavar="SPLITS", help="splits that count as facts (default: train,valid)"
    )
    command.add_argument(
        "--on-demand", action="store_true", help="build no table; compute rows when they are asked for"
    )
    command.add_argument(
        "--other-graph", action="store_true", help="accept a model trained on another graph with the same ids"
    )
    _indexing(command)
    _memory(command)
    add_quiet(command)
    add_json(command)


def _memory(command: CommandParser) -> None:
    command.add_argument(
        "--memory",
        metavar="BYTES",
        help="memory for facts and scores, such as 512M or 2G; facts beyond it wait on disk",
    )


def _build(command: CommandParser) -> None:
    command.add_argument("source", metavar="SRC", nargs="+", help="anything `import` reads, or a graph directory")
    add_reading(command)
    _memory(command)
    add_output(command, "STORE")
    command.add_argument(
        "--minutes",
        type=float,
        metavar="N",
        help="the most that all of it may take (default 15); what is trained, or computed without, is chosen to fit",
    )
    command.add_argument(
        "--holdout",
        choices=("random", "newest"),
        default="random",
        help="the facts that truth is learned from: some at random, or the newest by their date",
    )
    command.add_argument(
        "--predictors", metavar="NAMES", help="what is trained, such as complex,paths (default: what fits)"
    )
    command.add_argument(
        "--no-train",
        action="store_true",
        help="train nothing: predict with the path network that ships with the package",
    )
    _indexing(command)
    command.add_argument("--keep-model", metavar="MODEL", help="keep what was trained in this folder")
    command.add_argument("--ray", metavar="ADDRESS", help=RAY)
    _training(command, device=False)
    add_quiet(command)
    add_json(command)


def _add(command: CommandParser) -> None:
    _remove(command)
    command.add_argument(
        "--replace", action="store_true", help="the values of --attributes replace those that are there"
    )
    command.add_argument(
        "--new-entities", action="store_true", help="accept entities that the store does not know, and predict facts"
    )
    command.add_argument(
        "--seconds", type=float, metavar="S", help="compute predictions about new entities for S at most (default 300)"
    )
    _network(command)
    add_quiet(command)


def _remove(command: CommandParser) -> None:
    command.add_argument("store", metavar="STORE")
    command.add_argument("facts", metavar="FACTS", nargs="*", help="files as `import` reads them")
    command.add_argument(
        "--attributes",
        metavar="FILE",
        help="values: a table with the columns entity, attribute and value, or with entities and a column for each",
    )
    add_tables(command)
    _turn(command)
    command.set_defaults(new_entities=False)
    add_json(command)


def _update(command: CommandParser) -> None:
    command.add_argument("store", metavar="STORE")
    command.add_argument("--seconds", type=float, metavar="S", help="stop after S; what is left waits on")
    _network(command)
    _turn(command)
    add_quiet(command)
    add_json(command)


def _network(command: CommandParser) -> None:
    command.add_argument(
        "--model", default=PACKAGED, help="a model folder of kind any-graph (default: the one in the package)"
    )
    command.add_argument("--ray", metavar="ADDRESS", help=RAY)


def _compact(command: CommandParser) -> None:
    command.add_argument("store", metavar="STORE")
    _turn(command)
    add_quiet(command)
    add_json(command)


def _turn(command: CommandParser) -> None:
    command.add_argument("--timeout", type=float, metavar="SECONDS", help="how long to wait for another writer")


def _info(command: CommandParser) -> None:
    command.add_argument("path", metavar="PATH")
    command.add_argument("--verify", action="store_true", help="read every byte and compare it with what was written")
    add_json(command)


def _relations(command: CommandParser) -> None:
    command.add_argument("path", metavar="PATH", help="a store or a graph directory")
    add_json(command)


def _find(command: CommandParser) -> None:
    command.add_argument("path", metavar="PATH", help="a store or a graph directory")
    command.add_argument("text", metavar="TEXT", help="the beginning of a name or label, or a part of it")
    command.add_argument("-k", type=int, default=20, metavar="N", help="show at most N (default 20)")
    command.add_argument("--relations", action="store_true", help="find relations, not entities")
    add_json(command)


def _entity(command: CommandParser) -> None:
    command.add_argument("path", metavar="PATH", help="a store or a graph directory")
    command.add_argument("name", metavar="NAME", help="the name of an entity, or its label")
    command.add_argument(
        "-k", type=int, default=5, metavar="N", help="show at most N facts of each relation (default 5)"
    )
    add_json(command)


def _ask(command: CommandParser) -> None:
    from tuplet.query.limits import Limits

    command.add_argument("store", metavar="STORE", help="a store, or a graph directory (engine crisp)")
    command.add_argument(
        "query", metavar="QUERY", help="logic text, SPARQL or Cypher; @file reads a file, - standard input"
    )
    add_engine(command, "exact; crisp on a graph")
    command.add_argument("--observed", metavar="SPLITS", help="splits that count as facts; only for a graph directory")
    command.add_argument(
        "--grounding", metavar="JSON", help="what the symbols of an EFOk-CQA string stand for: names or ids"
    )
    command.add_argument(
        "--param",
        action="append",
        metavar="NAME=VALUE",
        help="what $NAME stands for in Cypher: a number, true, false, a list or text (repeatable)",
    )
    flags(command.add_argument_group("limits"), Limits)
    output = command.add_argument_group("output")
    output.add_argument("--explain", action="store_true", help="print the reason for every answer")
    output.add_argument("--plan", action="store_true", help="print how the query would be answered, and stop")
    output.add_argument(
        "--format", choices=FORMATS, metavar="|".join(FORMATS), help="default: table, or by the ending of -o"
    )
    output.add_argument("-o", "--output", metavar="FILE", help="write to this file")
    output.add_argument("--proof", metavar="FILE", help="write a proof of the answers, which `tuplet check` verifies")
    output.add_argument("--force", action="store_true", help="overwrite the output file")
    add_json(output)


def _data(command: CommandParser) -> None:
    actions = command.add_actions(metavar="ACTION")
    fetch = actions.add_parser("fetch", help="a graph directory of a benchmark graph, checked")
    fetch.add_argument("name", metavar="NAME", help="as `tuplet data list` has it")
    fetch.add_argument("--from-dir", metavar="DIR", help="a folder that holds the files (default: $TUPLET_DATA)")
    add_output(fetch, "GRAPH", required=False)
    known = actions.add_parser("list", help="the benchmark graphs that are known by name")
    for action in (fetch, known):
        action.set_defaults(parser=action)
        add_json(action)


def _export(command: CommandParser) -> None:
    command.add_argument("path", metavar="PATH", help="a store or a graph")
    command.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="its ending says how: .nt, .ttl, .parquet, .csv, .graphml"
    )
    command.add_argument("--predicted", action="store_true", help="write predictions too, with their truth")
    command.add_argument(
        "--threshold", type=float, default=0.0, metavar="T", help="the least truth of a prediction (default: all)"
    )
    command.add_argument("--force", action="store_true", help="replace FILE if it exists")
    add_json(command)


def _check(command: CommandParser) -> None:
    command.add_argument("proof", metavar="PROOF", help="what `tuplet ask --proof PROOF` has written")
    command.add_argument("store", metavar="STORE", nargs="?", help="its store, if that is not where it was then")
    add_json(command)


def _doctor(command: CommandParser) -> None:
    command.add_argument("--warm", action="store_true", help="compile and cache the search kernels")
    add_json(command)


def _completion(command: CommandParser) -> None:
    command.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


def _indexing(command: CommandParser) -> None:
    """How predictions become truth values."""
    command.add_argument(
        "--threshold",
        type=float,
        metavar="N",
        help="drop edges below this truth (default: 0.0005 if learned, else 0.005)",
    )
    command.add_argument("--calibration", metavar="NAME", help=CALIBRATION)
    command.add_argument(
        "--predict-types",
        action="store_true",
        help="predict node labels and rdf:type, too (default: they are facts and nothing else)",
    )
    command.add_argument("--device", default="auto", help="auto (default), cpu or cuda")


def _training(command: CommandParser, device: bool = True) -> None:
    """The settings of the trainer; --config reads them from a file."""
    if device:
        command.add_argument("--device", default="auto", help="auto (default), cpu or cuda")
    group = command.add_argument_group("training (defaults by the size of the graph)")
    group.add_argument("--config", metavar="F", help="settings from a .toml or .json file")
    group.add_argument("--preset", metavar="NAME", help=f"tuned settings: {', '.join(PRESETS)}")
    flags(group, TrainConfig, defaults=False)


Entry: TypeAlias = tuple[str, Callable[[CommandParser], None], str]  # what it does, its flags, its place in this room

_GROUPED: dict[Group, dict[str, Entry]] = {
    "start": {
        "demo": ("run the main job on a bundled graph: countries, or MITRE ATT&CK by date", _demo, "demo:run_demo"),
        "build": ("import, train and index in one go, with sane defaults", _build, "making:run_build"),
        "ask": ("answer a query", _ask, "asking:run_ask"),
    },
    "look inside": {
        "info": ("describe a graph, model or store", _info, "asking:run_info"),
        "relations": (
            "list the relations of a store or graph, with counts and examples",
            _relations,
            "asking:run_relations",
        ),
        "find": ("find entities by a part of their name or label", _find, "asking:run_find"),
        "entity": ("show what is known and predicted about one entity", _entity, "asking:run_entity"),
        "check": ("check the proof of an answer against its store", _check, "checking:run_check"),
        "export": ("write facts, predictions and attributes in other formats", _export, "asking:run_export"),
        "engines": ("list the engines with their options", add_json, "asking:run_engines"),
    },
    "build step by step": {
        "import": (
            "make a graph directory from TSV, CSV, Parquet, RDF, STIX or a dataset folder",
            _import,
            "making:run_import",
        ),
        "train": ("train a link predictor; --resume continues after Ctrl-C", add_train_flags, "making:run_train"),
        "adopt": ("convert a link predictor that was trained elsewhere", _adopt, "making:run_adopt"),
        "index": (
            "calibrate a predictor and build the truth table: a store that answers queries",
            _index,
            "making:run_index",
        ),
    },
    "keep up to date": {
        "add": ("add observed facts, at once and without retraining", _add, "making:run_edit"),
        "remove": ("remove observed facts, at once and without retraining", _remove, "making:run_edit"),
        "update": (
            "compute predictions that new entities wait for, and those around them again",
            _update,
            "making:run_update",
        ),
        "compact": (
            "merge what was added and removed since into the folders of a store",
            _compact,
            "making:run_compact",
        ),
    },
    "measure": {
        "data": ("list public graphs, two of them bundled, or import one and check it", _data, "asking:run_data")
    },
    "this machine": {
        "doctor": ("show versions, devices, memory and extras", _doctor, "doctor:run_doctor"),
        "completion": ("print a script that completes commands in a shell", _completion, "completion:run_completion"),
    },
}
COMMANDS = {
    name: Command(group, about, flags, f"tuplet.cli.{place}")
    for group, entries in _GROUPED.items()
    for name, (about, flags, place) in entries.items()
}
