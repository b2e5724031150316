"""The command line: one thin function per command. Data goes to standard output, progress to standard error.

Exit codes: 0 done (also with no answers), 1 a clear error of input or data, 2 wrong usage. argparse rather than a
heavier parser keeps a cold `tuplet ask` well under a second.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tuplet.cli.arguments import parser
from tuplet.cli.show import lines
from tuplet.errors import BadInput, TupletError
from tuplet.files import reason, refuse_existing
from tuplet.progress import Progress
from tuplet.settings import TrainConfig, given, size

LARGEST_QUERY = 1_000_000  # characters read from a query file


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = parser().parse_args(argv)
    try:
        COMMANDS[arguments.command](arguments)
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
        print("stopped", file=sys.stderr)
        return 130
    return 0


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_import(arguments: argparse.Namespace) -> None:
    """`tuplet import`."""
    from tuplet.graph.readers.read import read_with_report

    graph, report = read_with_report(
        arguments.source, valid=arguments.valid, test=arguments.test, labels=arguments.labels
    )
    graph.save(arguments.output, force=arguments.force)
    _print(report.as_dict() if arguments.json else f"{report}\n{arguments.output}")


def run_train(arguments: argparse.Namespace) -> None:
    """`tuplet train`."""
    from tuplet.graph.graph import KnowledgeGraph
    from tuplet.pipeline import train
    from tuplet.settings import changed, suitable

    if _trained_baseline(arguments):
        return
    graph = KnowledgeGraph.open(arguments.graph)
    config, settings = _config(arguments)
    if config is not None or settings or not arguments.resume:
        # A run that is continued brings its own settings where none are given.
        config = changed(config or suitable(len(graph.edges("train")[0])), settings)
    with Progress(quiet=arguments.quiet) as told:
        trained = train(graph, arguments.output, config, arguments.device, arguments.resume, arguments.force, told=told)
    metrics = {split: measured.to_json() for split, measured in trained.metrics.items()}
    if arguments.json:
        _print({"model": str(trained.folder), "epochs": trained.epochs, "metrics": metrics})
        return
    for split, measured in trained.metrics.items():
        print(f"{split:<5}  {measured}")
    print(f"{trained.epochs} epochs in {trained.train_seconds:.1f} s\n{trained.folder}")


def _trained_baseline(arguments: argparse.Namespace) -> bool:
    """Train a query model, if that is what is asked for."""
    from tuplet.baselines.trained import command

    if not command.asked(arguments):
        return False
    with Progress(quiet=arguments.quiet) as told:
        trained = command.run(arguments, told)
    if arguments.json:
        _print({"model": str(trained.folder), "steps": trained.steps, "valid_mrr": dict(trained.valid)})
    else:
        print("valid MRR  " + "  ".join(f"{name} {value:.4f}" for name, value in trained.valid.items()))
        print(f"{trained.steps:,} steps in {trained.seconds:.1f} s\n{trained.folder}")
    return True


def run_adopt(arguments: argparse.Namespace) -> None:
    """`tuplet adopt`."""
    from tuplet.graph.graph import KnowledgeGraph
    from tuplet.predict.adopt import adopt

    about = adopt(
        arguments.source,
        KnowledgeGraph.open(arguments.graph),
        arguments.output,
        kind=arguments.model,
        relation_order=arguments.relation_order,
        entity_names=arguments.entity_names,
        relation_names=arguments.relation_names,
        allow_pickle=arguments.trust,
        force=arguments.force,
    )
    _print(about if arguments.json else f"{lines(about)}\n{arguments.output}")


def run_index(arguments: argparse.Namespace) -> None:
    """`tuplet index`."""
    from tuplet.graph.graph import KnowledgeGraph
    from tuplet.truth.make import index, index_facts, index_table

    graph = KnowledgeGraph.open(arguments.graph)
    observed = arguments.observed.split(",")
    if arguments.table and arguments.model:
        raise BadInput("give either a MODEL or --table, not both")
    if not arguments.model and (arguments.on_demand or (arguments.calibration and not arguments.table)):
        raise BadInput(f"{'--on-demand' if arguments.on_demand else '--calibration'} needs a MODEL (tuplet train)")
    if arguments.table:
        index_table(
            graph,
            arguments.table,
            arguments.output,
            observed,
            arguments.threshold,
            arguments.force,
            arguments.calibration,
        )
    elif not arguments.model and graph.weighted:
        index_facts(graph, arguments.output, observed, arguments.force)
    elif not arguments.model:
        raise BadInput(
            "give a MODEL (tuplet train, tuplet adopt) or --table FILE.parquet; only a weighted graph needs none"
        )
    else:
        from tuplet.predict.train import pick_device

        with Progress(quiet=arguments.quiet) as told:
            index(
                graph,
                arguments.model,
                arguments.output,
                arguments.threshold,
                arguments.calibration,
                observed,
                on_demand=arguments.on_demand,
                device=str(pick_device(arguments.device)),
                memory=None if arguments.memory is None else _size(arguments.memory),
                force=arguments.force,
                progress=lambda done, total: told("index", done, total, "relations"),
                other_graph=arguments.other_graph,
            )
    _told_store(arguments)


def run_build(arguments: argparse.Namespace) -> None:
    """`tuplet build`."""
    from tuplet.pipeline import Options, build

    config, settings = _config(arguments)
    options = Options(config, settings, arguments.device, arguments.threshold)
    with Progress(quiet=arguments.quiet) as told:
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
    from tuplet.graph.readers.read import read
    from tuplet.truth.edit import add_facts, remove_facts
    from tuplet.truth.store_folder import read_store

    read_store(arguments.store)  # a wrong store is said before the facts are read
    facts = read(arguments.facts)
    if arguments.command == "add":
        report = add_facts(arguments.store, facts, arguments.new_entities)
    else:
        report = remove_facts(arguments.store, facts)
    shown = {key: value for key, value in report.as_dict().items() if value}
    _print(report.as_dict() if arguments.json else lines(shown) or "nothing changed")


def _told_store(arguments: argparse.Namespace) -> None:
    import tuplet

    about = tuplet.info(arguments.output)
    _print(about if arguments.json else f"{lines(about)}\n{arguments.output}")


def _config(arguments: argparse.Namespace) -> tuple[TrainConfig | None, dict[str, Any]]:
    """The settings of a run: those of a file or a preset, if one is given, and what the flags change of them."""
    from tuplet.settings import load, preset

    settings = given(arguments, TrainConfig)
    if arguments.config and arguments.preset:
        raise BadInput("give either --config or --preset, not both")
    if arguments.config:
        return load(TrainConfig, arguments.config), settings
    return preset(arguments.preset) if arguments.preset else None, settings


def run_info(arguments: argparse.Namespace) -> None:
    """`tuplet info`."""
    import tuplet

    about = tuplet.info(arguments.path, verify=arguments.verify)
    _print(about if arguments.json else lines(about))


def run_ask(arguments: argparse.Namespace) -> None:
    """`tuplet ask`."""
    import tuplet
    from tuplet.query.limits import Limits

    splits = tuple(arguments.observed.split(",")) if arguments.observed is not None else None
    store = tuplet.open(arguments.store, observed=splits)
    query = _query_text(arguments.query)
    grounding = _grounding(arguments.grounding)
    limits = Limits(**given(arguments, Limits))
    if arguments.plan:
        _print(store.plan(query, arguments.engine, limits, grounding))
        return
    form = "json" if arguments.json else arguments.format
    if arguments.output:
        refuse_existing(arguments.output, arguments.force)
    answers = store.ask(query, arguments.engine, limits, grounding)
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
        print(answers.table(most=None))
        if arguments.explain:
            for answer in answers:
                print(f"\n{answer.explain()}")


def run_serve(arguments: argparse.Namespace) -> None:
    """`tuplet serve`."""
    from tuplet.serve.command import serve

    serve(arguments, lambda text: print(text, flush=True))


def run_data(arguments: argparse.Namespace) -> None:
    """`tuplet data fetch`."""
    from tuplet.graph.datasets import fetch

    graph = fetch(arguments.name, arguments.from_dir)
    target = arguments.output or f"{arguments.name}.graph"
    graph.save(target, force=arguments.force)
    _print(graph.info() if arguments.json else f"{lines(graph.info())}\n{target}")


def run_bench(arguments: argparse.Namespace) -> None:
    """`tuplet bench sample`, `run`, `report`, `reliability` and `types`."""
    from tuplet.bench.command import ACTIONS

    told = ACTIONS[arguments.action](arguments)
    _print(told if isinstance(told, str) or arguments.json else lines(told))


def run_doctor(arguments: argparse.Namespace) -> None:
    """`tuplet doctor`."""
    from tuplet.cli.doctor import examine

    about = examine(warm=arguments.warm)
    _print(about if arguments.json else lines(about))


def run_demo(arguments: argparse.Namespace) -> None:
    """`tuplet demo`."""
    from tuplet.cli.demo import run

    with Progress(quiet=arguments.quiet) as told:
        run(print, told, keep=arguments.output, force=arguments.force)


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


def _size(text: str) -> int:
    try:
        return size(text)
    except ValueError:
        raise BadInput(f"--memory takes bytes, such as 512M or 2G, not {text!r}") from None


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


COMMANDS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "demo": run_demo,
    "import": run_import,
    "info": run_info,
    "train": run_train,
    "adopt": run_adopt,
    "index": run_index,
    "build": run_build,
    "add": run_edit,
    "remove": run_edit,
    "ask": run_ask,
    "bench": run_bench,
    "serve": run_serve,
    "data": run_data,
    "doctor": run_doctor,
}
