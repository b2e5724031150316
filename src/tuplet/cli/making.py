"""Commands that make and change things: graphs, models and stores."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tuplet.cli.command_parser import call_with, lines
from tuplet.errors import BadInput
from tuplet.predict.config import TrainConfig, preset
from tuplet.progress import counted, shown, sizes
from tuplet.settings import given, load, size
from tuplet.store import Store
from tuplet.truth.store_folder import PATIENCE, StoreFiles, generation


def run_import(arguments: argparse.Namespace) -> Any:
    """`tuplet import`."""
    from tuplet.read.read import gather

    files, output = _source(arguments.source), arguments.output
    report = call_with(arguments, gather, files, memory=_memory(arguments), path=output).save(output, arguments.force)
    return report if arguments.json else f"{report}\n{arguments.output}"


def _source(files: list[str]) -> str | list[str]:
    return files[0] if len(files) == 1 else files


def run_train(arguments: argparse.Namespace) -> Any:
    """`tuplet train`."""
    from tuplet.build import train

    progress, settings = not arguments.quiet, given(arguments, TrainConfig)
    trained = call_with(
        arguments, train, arguments.graph, arguments.output, config=_config(arguments), progress=progress, **settings
    )
    if arguments.json:
        metrics = {split: measured.to_json() for split, measured in trained.metrics.items()}
        return {"model": str(trained.folder), "epochs": trained.epochs, "metrics": metrics}
    epochs = f"{trained.epochs:g} epoch{'s' * (trained.epochs != 1)} in {trained.train_seconds:.1f} s"
    return "\n".join(
        [*(f"{split:<5}  {found}" for split, found in trained.metrics.items()), epochs, str(trained.folder)]
    )


def run_adopt(arguments: argparse.Namespace) -> Any:
    """`tuplet adopt`."""
    from tuplet.graph.graph import KnowledgeGraph
    from tuplet.predict.adopt import adopt

    graph = KnowledgeGraph.open(arguments.graph)
    about = call_with(arguments, adopt, arguments.source, graph, arguments.output)
    return about if arguments.json else f"{lines(about)}\n{arguments.output}"


def run_index(arguments: argparse.Namespace) -> Any:
    """`tuplet index`."""
    from tuplet.build import index

    made = {"memory": _memory(arguments), "progress": not arguments.quiet}
    store = call_with(arguments, index, arguments.graph, arguments.model or None, arguments.output, **made)
    return _made(store, arguments)


def run_build(arguments: argparse.Namespace) -> Any:
    """`tuplet build`."""
    from tuplet.build import build

    made = {"memory": _memory(arguments), "progress": not arguments.quiet, **given(arguments, TrainConfig)}
    made |= {"train": not arguments.no_train, "config": _config(arguments)}
    store = call_with(arguments, build, _source(arguments.source), arguments.output, **made)
    return _made(store, arguments)


def _made(store: Store, arguments: argparse.Namespace) -> Any:
    """What there is now, in three lines, and what to do with it."""
    about = store.info()
    if arguments.json:
        return about
    report = about["report"]
    predicted = "computed when asked" if report["predicted"] is None else f"{report['predicted']:,}"
    said = [sizes(about["entities"], about["relations"])]
    said.append(f"{counted(report['facts'], 'fact')}, predictions: {predicted}")
    origin = store.source.origin
    if reason := origin and origin.not_calibrated:
        what = "truth values are not calibrated" if report["predicted"] != 0 else "nothing is predicted"
        said.append(f"{what}: {reason}")
    if rows := (report.get("candidates") or {}).get("rows"):
        there = f"{rows['computed']:,} of {counted(rows['of'], 'row')} were computed in the time given; in them are"
        said.append(f"{there} {100 * rows['facts_in_them']:.0f} % of the facts. What the others would say is not known")
    said.append(arguments.output)
    path = shlex.quote(arguments.output)
    for query in about["try"][:1]:
        said.append(f"\nask it:      tuplet ask {path} {shlex.quote(query)}")
        said.append(f"look inside: tuplet info {path}, tuplet relations {path}, tuplet find {path} TEXT")
    return "\n".join(said)


def run_edit(arguments: argparse.Namespace) -> Any:
    """`tuplet add` and `tuplet remove`."""
    from tuplet.read.read import read
    from tuplet.read.text import read_values
    from tuplet.truth.edit import add_facts, remove_facts
    from tuplet.truth.new_entities.predict import PredictionWork, refuse_wrong
    from tuplet.truth.store_folder import due, read_store

    read_store(arguments.store)  # a wrong store is said before the facts are read
    if not (arguments.facts or arguments.nodes or arguments.attributes):
        raise BadInput("nothing to do: give files of facts, or --attributes FILE")
    given = _source(arguments.facts) if arguments.facts else ()
    facts: Any = ()
    if arguments.facts or arguments.nodes:
        facts = read(given, columns=arguments.columns, header=arguments.header, nodes=arguments.nodes)
        for remark in facts.notes["report"]["remarks"]:
            print(remark, file=sys.stderr)
    values = read_values(Path(arguments.attributes)) if arguments.attributes else None
    if arguments.command == "add":
        refuse_wrong(arguments.seconds, arguments.model, arguments.new_entities, arguments.ray)
        edit = (arguments.new_entities, _patience(arguments), None, values, arguments.replace)
        report, store = add_facts(arguments.store, facts, *edit)
        if arguments.new_entities:
            with shown(not arguments.quiet) as told:
                how = (arguments.seconds, told, _patience(arguments), arguments.model, arguments.ray)
                work = PredictionWork(store, *how)
                report, store = work.follow(report), work.store
    else:
        report, store = remove_facts(arguments.store, facts, _patience(arguments), attributes=values)
    done = report.as_dict()
    if arguments.json:
        return done | {"generation": generation(store)}
    if due(store):
        compact = f"tuplet compact {shlex.quote(arguments.store)}"
        print(f"{_waiting(store):,} changes wait; {compact} merges them", file=sys.stderr)
    return lines({key: value for key, value in done.items() if value}) or "nothing changed"


def run_update(arguments: argparse.Namespace) -> Any:
    """`tuplet update`."""
    from tuplet.truth.new_entities.predict import PredictionWork

    with shown(not arguments.quiet) as told:
        how = (arguments.seconds, told, _patience(arguments), arguments.model, arguments.ray)
        work = PredictionWork(StoreFiles.open(arguments.store), *how)
        report = work.update()
    if arguments.json:
        return asdict(report) | {"generation": generation(work.store)}
    return lines({key: value for key, value in asdict(report).items() if value}) or "nothing waits"


def run_compact(arguments: argparse.Namespace) -> Any:
    """`tuplet compact`."""
    from tuplet.truth.store_folder import compact

    before = StoreFiles.open(arguments.store)
    with shown(not arguments.quiet) as report:
        done = compact(arguments.store, _patience(arguments), report)
    merged, after = _waiting(before) if done else 0, StoreFiles.open(arguments.store)
    if arguments.json:
        return {"store": arguments.store, "merged": merged, "generation": generation(after)}
    said = f"merged {counted(merged, 'change')}" if done else "nothing to merge"
    return f"{arguments.store}: {said}; generation {after.generation}"


def _waiting(store: StoreFiles) -> int:
    return sum(generation(store)["waiting"].values())


def _patience(arguments: argparse.Namespace) -> float:
    return PATIENCE if arguments.timeout is None else float(arguments.timeout)


def _config(arguments: argparse.Namespace) -> TrainConfig | None:
    """The settings of a file or a preset, if one is given."""
    if arguments.config and arguments.preset:
        raise BadInput("give either --config or --preset, not both")
    if arguments.config:
        return load(TrainConfig, arguments.config)
    return preset(arguments.preset) if arguments.preset else None


def _memory(arguments: argparse.Namespace) -> int | None:
    if arguments.memory is None:
        return None
    try:
        return size(arguments.memory)
    except ValueError:
        raise BadInput(f"--memory takes bytes, such as 512M or 2G, not {arguments.memory!r}") from None
