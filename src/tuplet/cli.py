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
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from tuplet import __version__
from tuplet.errors import BadInput, TupletError, nearest

if TYPE_CHECKING:
    from tuplet.progress import Progress

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

    train = command("train", run_train, "train a link predictor; Ctrl-C safe, --resume goes on")
    train.add_argument("graph", metavar="GRAPH")
    _output(train, "MODEL")
    _training(train)
    train.add_argument("--resume", action="store_true", help="continue the run in MODEL")
    _quiet(train)
    _json(train)

    adopt = command("adopt", run_adopt, "take a link predictor trained elsewhere")
    adopt.add_argument("source", metavar="SRC", help="PyKEEN directory, CQD-style checkpoint, safetensors or folder")
    adopt.add_argument("graph", metavar="GRAPH")
    _output(adopt, "MODEL")
    adopt.add_argument("--model", help="complex, distmult, rotate or transe, where SRC does not say it")
    adopt.add_argument("--entities", metavar="F", help="entity names in the order of the rows (default: that of GRAPH)")
    adopt.add_argument("--relations", metavar="F", help="relation names in the order of the rows")
    adopt.add_argument("--trust", action="store_true", help="load a pickle; only for files of your own")
    _json(adopt)

    index = command("index", run_index, "calibrate a predictor and build the truth table: a store that answers queries")
    index.add_argument("graph", metavar="GRAPH")
    index.add_argument("model", metavar="MODEL", nargs="?", help="a trained or adopted predictor")
    _output(index, "STORE")
    index.add_argument("--table", metavar="F.parquet", help="a truth table made elsewhere, instead of MODEL")
    index.add_argument("--threshold", type=float, help="edges below are not kept (default 0.005)")
    index.add_argument("--calibration", default="softmax-count", help="softmax-count (default) or observed-mass")
    index.add_argument("--observed", default="train,valid", metavar="SPLITS", help="default: train,valid")
    index.add_argument("--on-demand", action="store_true", help="build no table, compute rows when asked")
    index.add_argument("--device", default="auto", help="auto, cpu, cuda")
    index.add_argument("--memory", type=float, metavar="GIB", help="how much the builder may hold")
    _quiet(index)
    _json(index)

    build = command("build", run_build, "import, train and index in one go, with sane defaults")
    build.add_argument("source", metavar="SRC", help="anything `import` reads, or a graph directory")
    build.add_argument("--valid", metavar="F")
    build.add_argument("--test", metavar="F")
    build.add_argument("--labels", metavar="F", action="append", default=[])
    _output(build, "STORE")
    _training(build)
    build.add_argument("--threshold", type=float, default=0.005)
    build.add_argument("--keep-model", metavar="MODEL", help="leave the trained predictor there")
    _quiet(build)
    _json(build)

    for name, verb in (("add", "make facts observed"), ("remove", "stop observing facts")):
        edit = command(name, run_edit, f"{verb}, at once and without retraining")
        edit.add_argument("store", metavar="STORE")
        edit.add_argument("facts", metavar="FACTS", help="a file as `import` reads it")
        if name == "add":
            edit.add_argument("--new-entities", action="store_true", help="accept entities the store does not know")
        edit.set_defaults(verb=name, new_entities=False)
        _json(edit)

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


def _training(command: argparse.ArgumentParser) -> None:
    """The settings of the trainer that users change most; --config reads all of them from a file."""
    command.add_argument("--config", metavar="F", help="settings from a .toml or .json file")
    command.add_argument("--preset", help="tuned settings: fb15k-237, nell995, fb15k, wn18rr, small")
    command.add_argument("--model", help="complex (default), distmult, rotate, transe")
    command.add_argument("--rank", type=int)
    command.add_argument("--epochs", type=int)
    command.add_argument("--batch", type=int)
    command.add_argument("--learning-rate", type=float, dest="learning_rate")
    command.add_argument("--regularisation", type=float)
    command.add_argument("--seed", type=int)
    command.add_argument("--device", default="auto", help="auto, cpu, cuda")


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


def run_train(arguments: argparse.Namespace) -> None:
    """`tuplet train`."""
    from tuplet.build import train
    from tuplet.graph.graph import KnowledgeGraph

    graph = KnowledgeGraph.open(arguments.graph)
    config = _config(arguments, int((graph.split == 1).sum() // 2), keep=arguments.resume)
    with _Steps(arguments.quiet) as told:
        trained = train(graph, arguments.output, config, arguments.device, arguments.resume, arguments.force, told=told)
    metrics = {split: measured.to_json() for split, measured in trained.metrics.items()}
    if arguments.json:
        _print({"model": str(trained.folder), "epochs": trained.epochs, "metrics": metrics})
        return
    for split, measured in trained.metrics.items():
        print(f"{split:<5}  {measured}")
    print(f"{trained.epochs} epochs in {trained.train_seconds:.1f} s\n{trained.folder}")


def run_adopt(arguments: argparse.Namespace) -> None:
    """`tuplet adopt`."""
    from tuplet.graph.graph import KnowledgeGraph
    from tuplet.predict.adopt import adopt

    about = adopt(
        arguments.source,
        KnowledgeGraph.open(arguments.graph),
        arguments.output,
        kind=arguments.model,
        entity_names=arguments.entities,
        relation_names=arguments.relations,
        allow_pickle=arguments.trust,
        force=arguments.force,
    )
    _print(about if arguments.json else f"{_lines(about)}\n{arguments.output}")


def run_index(arguments: argparse.Namespace) -> None:
    """`tuplet index`."""
    from tuplet.graph.graph import KnowledgeGraph
    from tuplet.truth.index import index, index_facts, index_table

    graph = KnowledgeGraph.open(arguments.graph)
    observed = arguments.observed.split(",")
    if arguments.table and arguments.model:
        raise BadInput("give either a MODEL or --table, not both")
    if arguments.table:
        index_table(graph, arguments.table, arguments.output, observed, arguments.threshold, arguments.force)
    elif not arguments.model and graph.weighted:
        index_facts(graph, arguments.output, observed, arguments.force)
    elif not arguments.model:
        raise BadInput(
            "give a MODEL (tuplet train, tuplet adopt) or --table FILE.parquet; only a weighted graph needs none"
        )
    else:
        from tuplet.predict.train import pick_device

        with _Steps(arguments.quiet) as told:
            index(
                graph,
                arguments.model,
                arguments.output,
                0.005 if arguments.threshold is None else arguments.threshold,
                arguments.calibration,
                observed,
                on_demand=arguments.on_demand,
                device=str(pick_device(arguments.device)),
                memory=None if arguments.memory is None else int(arguments.memory * 2**30),
                force=arguments.force,
                progress=lambda done, total: told("index", done, total, "relations"),
            )
    _told_store(arguments)


def run_build(arguments: argparse.Namespace) -> None:
    """`tuplet build`."""
    from tuplet.build import Options, build

    options = Options(config=_config(arguments, None), device=arguments.device, threshold=arguments.threshold)
    with _Steps(arguments.quiet) as told:
        build(
            arguments.source,
            arguments.output,
            valid=arguments.valid,
            test=arguments.test,
            labels=arguments.labels,
            options=options,
            keep_model=arguments.keep_model,
            force=arguments.force,
            told=told,
        )
    _told_store(arguments)


def run_edit(arguments: argparse.Namespace) -> None:
    """`tuplet add` and `tuplet remove`."""
    from tuplet.graph.readers import read
    from tuplet.truth.edit import add_facts, remove_facts
    from tuplet.truth.store import read_store

    read_store(arguments.store)  # a wrong store is said before the facts are read
    facts = read(arguments.facts)
    if arguments.verb == "add":
        report = add_facts(arguments.store, facts, arguments.new_entities)
    else:
        report = remove_facts(arguments.store, facts)
    shown = {key: value for key, value in report.as_dict().items() if value}
    _print(report.as_dict() if arguments.json else _lines(shown) or "nothing changed")


def _told_store(arguments: argparse.Namespace) -> None:
    import tuplet

    about = tuplet.info(arguments.output)
    _print(about if arguments.json else f"{_lines(about)}\n{arguments.output}")


def _config(arguments: argparse.Namespace, train_edges: int | None, keep: bool = False) -> Any:
    """The settings of a run: a file or a preset or what suits the size, changed by the flags given."""
    from tuplet.config import TrainConfig, changed, load, preset, suitable

    flags = ("model", "rank", "epochs", "batch", "learning_rate", "regularisation", "seed")
    given = {flag: getattr(arguments, flag) for flag in flags if getattr(arguments, flag) is not None}
    if arguments.config and arguments.preset:
        raise BadInput("give either --config or --preset, not both")
    if arguments.config:
        return changed(load(TrainConfig, arguments.config), given)
    if arguments.preset:
        return changed(preset(arguments.preset), given)
    if train_edges is None or keep:
        return None if not given else changed(suitable(train_edges or 0), given)
    return changed(suitable(train_edges), given)


class _Steps:
    """Progress of work with several steps: one line each."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.step = quiet, ""
        self.progress: Progress | None = None

    def __enter__(self) -> _Steps:
        return self

    def __call__(self, step: str, done: float, total: float, note: str = "") -> None:
        from tuplet.progress import Progress

        if step != self.step or self.progress is None:
            self.__exit__()
            self.step, self.progress = step, Progress(step, quiet=self.quiet)
        self.progress(done, total, note)

    def __exit__(self, *_: object) -> None:
        if self.progress is not None:
            self.progress.__exit__(None, None, None)


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
