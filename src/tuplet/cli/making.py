"""Commands that make and change things: graphs, models and stores."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tuplet.cli.show import lines
from tuplet.errors import BadInput
from tuplet.predict.config import TrainConfig, preset
from tuplet.progress import counted, shown, sizes
from tuplet.settings import given, load, size
from tuplet.store import Store
from tuplet.truth.store_folder import PATIENCE, StoreFiles, generation


def run_import(arguments: argparse.Namespace) -> Any:
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
    return report if arguments.json else f"{report}\n{arguments.output}"


def _source(files: list[str]) -> str | list[str]:
    return files[0] if len(files) == 1 else files


def run_train(arguments: argparse.Namespace) -> Any:
    """`tuplet train`."""
    from tuplet.build import train

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
    return about if arguments.json else f"{lines(about)}\n{arguments.output}"


def run_index(arguments: argparse.Namespace) -> Any:
    """`tuplet index`."""
    from tuplet.build import index

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
    return _made(store, arguments)


def run_build(arguments: argparse.Namespace) -> Any:
    """`tuplet build`."""
    from tuplet.build import build

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
        return done | {"generation": generation(store)}
    if due(store):
        compact = f"tuplet compact {shlex.quote(arguments.store)}"
        print(f"{_waiting(store):,} changes wait; {compact} merges them", file=sys.stderr)
    return lines({key: value for key, value in done.items() if value}) or "nothing changed"


def run_update(arguments: argparse.Namespace) -> Any:
    """`tuplet update`."""
    from tuplet.truth.new_entities.predict import update

    with shown(not arguments.quiet) as told:
        settings = {"model": arguments.model, "ray": arguments.ray}
        report, store = update(arguments.store, arguments.seconds, told, _patience(arguments), **settings)
    if arguments.json:
        return asdict(report) | {"generation": generation(store)}
    return lines({key: value for key, value in asdict(report).items() if value}) or "nothing waits"


def run_compact(arguments: argparse.Namespace) -> Any:
    """`tuplet compact`."""
    from tuplet.truth.compact import compact

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


def _size(text: str) -> int:
    try:
        return size(text)
    except ValueError:
        raise BadInput(f"--memory takes bytes, such as 512M or 2G, not {text!r}") from None
