"""Commands that make and change things: graphs, models and stores."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tuplet.cli.show import echo, lines
from tuplet.errors import BadInput
from tuplet.predict.config import TrainConfig, preset
from tuplet.progress import counted, shown, sizes
from tuplet.settings import given, load, size
from tuplet.store import Store
from tuplet.truth.store_folder import PATIENCE, StoreFiles, generation


def run_import(arguments: argparse.Namespace) -> None:
    """`tuplet import`."""
    from tuplet.read.read import import_graph

    report = import_graph(
        _source(arguments.source),
        arguments.output,
        valid=arguments.valid,
        test=arguments.test,
        labels=arguments.labels,
        columns=arguments.columns,
        memory=None if arguments.memory is None else _size(arguments.memory),
        force=arguments.force,
        header=arguments.header,
        nodes=arguments.nodes,
    )
    echo(report.as_dict() if arguments.json else f"{report}\n{arguments.output}")


def _source(files: list[str]) -> str | list[str]:
    return files[0] if len(files) == 1 else files


def run_train(arguments: argparse.Namespace) -> None:
    """`tuplet train`."""
    from tuplet.pipeline import train
    from tuplet.predict.process_group import is_follower

    if _train_query_model(arguments):
        return
    trained = train(
        arguments.graph,
        arguments.output,
        config=_config(arguments),
        device=arguments.device,
        resume=arguments.resume,
        force=arguments.force,
        progress=not arguments.quiet,
        **given(arguments, TrainConfig),
    )
    if is_follower():  # of several processes one speaks
        return
    metrics = {split: measured.to_json() for split, measured in trained.metrics.items()}
    if arguments.json:
        echo({"model": str(trained.folder), "epochs": trained.epochs, "metrics": metrics})
        return
    for split, measured in trained.metrics.items():
        print(f"{split:<5}  {measured}")
    print(f"{trained.epochs:g} epoch{'s' * (trained.epochs != 1)} in {trained.train_seconds:.1f} s\n{trained.folder}")


def _train_query_model(arguments: argparse.Namespace) -> bool:
    """Train a query model, if that is what is asked for."""
    from tuplet.lab.baselines.trained import command

    if not command.asked(arguments):
        return False
    trained = command.run(arguments, progress=not arguments.quiet)
    if arguments.json:
        echo({"model": str(trained.folder), "steps": trained.steps, "valid_mrr": dict(trained.valid)})
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
        model=arguments.model,
        relation_order=arguments.relation_order,
        entity_names=arguments.entity_names,
        relation_names=arguments.relation_names,
        trust=arguments.trust,
        force=arguments.force,
    )
    echo(about if arguments.json else f"{lines(about)}\n{arguments.output}")


def run_index(arguments: argparse.Namespace) -> None:
    """`tuplet index`."""
    from tuplet.pipeline import index

    store = index(
        arguments.graph,
        arguments.model or None,
        arguments.output,
        candidates=arguments.candidates,
        parts=arguments.parts,
        ray=arguments.ray,
        table=arguments.table,
        threshold=arguments.threshold,
        calibration=arguments.calibration,
        observed=arguments.observed,
        on_demand=arguments.on_demand,
        predict_types=arguments.predict_types,
        other_graph=arguments.other_graph,
        device=arguments.device,
        memory=None if arguments.memory is None else _size(arguments.memory),
        force=arguments.force,
        progress=not arguments.quiet,
    )
    _made(store, arguments)


def run_build(arguments: argparse.Namespace) -> None:
    """`tuplet build`."""
    from tuplet.pipeline import build

    store = build(
        _source(arguments.source),
        arguments.output,
        memory=None if arguments.memory is None else _size(arguments.memory),
        ray=arguments.ray,
        columns=arguments.columns,
        header=arguments.header,
        nodes=arguments.nodes,
        valid=arguments.valid,
        test=arguments.test,
        labels=arguments.labels,
        holdout=arguments.holdout,
        minutes=arguments.minutes,
        predictors=arguments.predictors,
        train=not arguments.no_train,
        config=_config(arguments),
        device=arguments.device,
        threshold=arguments.threshold,
        calibration=arguments.calibration,
        keep_model=arguments.keep_model,
        predict_types=arguments.predict_types,
        force=arguments.force,
        progress=not arguments.quiet,
        **given(arguments, TrainConfig),
    )
    _made(store, arguments)


def _made(store: Store, arguments: argparse.Namespace) -> None:
    """What there is now, in three lines, and what to do with it."""
    about = store.info()
    if arguments.json:
        echo(about)
        return
    report = about["report"]
    predicted = "computed when asked" if report["predicted"] is None else f"{report['predicted']:,}"
    print(sizes(about["entities"], about["relations"]))
    print(f"{counted(report['facts'], 'fact')}, predictions: {predicted}")
    if reason := store.source.about.get("not_calibrated"):
        print(
            f"truth values are not calibrated: {reason}"
            if report["predicted"] != 0
            else f"nothing is predicted: {reason}"
        )
    if rows := (report.get("candidates") or {}).get("rows"):
        there = f"{rows['computed']:,} of {counted(rows['of'], 'row')} were computed in the time given; in them are"
        print(f"{there} {100 * rows['facts_in_them']:.0f} % of the facts. What the others would say is not known")
    print(arguments.output)
    path = shlex.quote(arguments.output)
    for query in about["try"][:1]:
        print(f"\nask it:      tuplet ask {path} {shlex.quote(query)}")
        print(f"look inside: tuplet info {path}, tuplet relations {path}, tuplet find {path} TEXT")


def run_edit(arguments: argparse.Namespace) -> None:
    """`tuplet add` and `tuplet remove`."""
    from tuplet.read.read import read
    from tuplet.read.text import read_values
    from tuplet.truth.compact import due
    from tuplet.truth.edit import with_facts, without_facts
    from tuplet.truth.new_entities.predict import refuse_wrong, with_predictions
    from tuplet.truth.store_folder import read_store

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
        report, store = with_facts(arguments.store, facts, *edit)
        if arguments.new_entities:
            with shown(not arguments.quiet) as told:
                report, store = with_predictions(
                    report, store, arguments.seconds, told, _patience(arguments), arguments.model, arguments.ray
                )
    else:
        report, store = without_facts(arguments.store, facts, _patience(arguments), attributes=values)
    done = report.as_dict()
    if arguments.json:
        echo(done | {"generation": generation(store)})
        return
    echo(lines({key: value for key, value in done.items() if value}) or "nothing changed")
    if due(store):
        compact = f"tuplet compact {shlex.quote(arguments.store)}"
        print(f"{_waiting(store):,} changes wait; {compact} merges them", file=sys.stderr)


def run_update(arguments: argparse.Namespace) -> None:
    """`tuplet update`."""
    from tuplet.truth.new_entities.update import update

    with shown(not arguments.quiet) as told:
        settings = {"model": arguments.model, "ray": arguments.ray}
        report, store = update(arguments.store, arguments.seconds, told, _patience(arguments), **settings)
    if arguments.json:
        echo(asdict(report) | {"generation": generation(store)})
        return
    echo(lines({key: value for key, value in asdict(report).items() if value}) or "nothing waits")


def run_compact(arguments: argparse.Namespace) -> None:
    """`tuplet compact`."""
    from tuplet.truth.compact import compact

    before = StoreFiles.open(arguments.store)
    with shown(not arguments.quiet) as report:
        done = compact(arguments.store, _patience(arguments), report)
    merged, after = _waiting(before) if done else 0, StoreFiles.open(arguments.store)
    if arguments.json:
        echo({"store": arguments.store, "merged": merged, "generation": generation(after)})
        return
    said = f"merged {counted(merged, 'change')}" if done else "nothing to merge"
    print(f"{arguments.store}: {said}; generation {after.generation}")


def _waiting(store: StoreFiles) -> int:
    return sum(generation(store)["waiting"].values())


def _patience(arguments: argparse.Namespace) -> float:
    return PATIENCE if arguments.timeout is None else float(arguments.timeout)


def run_upgrade(arguments: argparse.Namespace) -> None:
    """`tuplet upgrade`."""
    from tuplet.truth.compact import upgrade

    changed = upgrade(arguments.store)
    said = "upgraded to the format of this version" if changed else "up to date already"
    echo({"store": arguments.store, "upgraded": changed} if arguments.json else f"{arguments.store}: {said}")


def _config(arguments: argparse.Namespace) -> TrainConfig | None:
    """The settings of a file or a preset, if one is given."""
    if arguments.config and arguments.preset:
        raise BadInput("give either --config or --preset, not both")
    if arguments.config:
        return load(TrainConfig, arguments.config)
    return preset(arguments.preset) if arguments.preset else None


def _size(text: str) -> int:
    try:
        return size(text)
    except ValueError:
        raise BadInput(f"--memory takes bytes, such as 512M or 2G, not {text!r}") from None
