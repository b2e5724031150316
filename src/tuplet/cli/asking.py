"""Commands that answer: queries, and what is in a store."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from tuplet.cli.command_parser import call_with, lines
from tuplet.errors import BadInput
from tuplet.files import refuse_existing
from tuplet.progress import announce_compiling
from tuplet.settings import given

WHY = "(why is it predicted? --evidence shows the stated facts that speak for it)"
MIXED = "(mixed: new, but resting on stated facts too; predicted: resting on predicted facts alone)"
LARGEST_QUERY = 1_000_000  # characters read from a query file


@announce_compiling(lambda text: print(text, file=sys.stderr, flush=True))
def run_ask(arguments: argparse.Namespace) -> None:
    """`tuplet ask`."""
    from tuplet.query.limits import Limits
    from tuplet.store import open_store

    store = open_store(arguments.store, arguments.observed)
    query, grounding = _query_text(arguments.query), _grounding(arguments.grounding)
    parameters = _parameters(arguments.param)
    limits = Limits(**given(arguments, Limits, checked=True))
    if arguments.plan:
        print(store.plan(query, arguments.engine, limits, grounding, parameters))
        return
    if arguments.json and arguments.format not in (None, "json"):
        raise BadInput(f"give either --json or --format {arguments.format}, not both")
    form = "json" if arguments.json else arguments.format
    if arguments.output:
        refuse_existing(arguments.output, arguments.force)
    elif form == "parquet":
        raise BadInput("Parquet is not for the screen; add -o FILE.parquet")
    if arguments.proof:
        store.prove(query, arguments.proof, arguments.engine, limits, grounding, parameters, arguments.force)
    answers = store.ask(query, arguments.engine, limits, grounding, parameters)
    if arguments.output:
        answers.write(arguments.output, form, force=arguments.force)
        print(answers.summary(), file=sys.stderr)
    elif form == "json":
        print(answers.to_json())
    elif form == "csv":
        print(answers.to_csv(), end="")
    else:
        print(answers.table(most=None))
        if limits.only == "predicted" and any(answer.status == "mixed" for answer in answers):
            print(MIXED, file=sys.stderr)
        if arguments.explain or limits.evidence:
            for answer in answers:
                print(f"\n{answer.explain()}")
            if not limits.evidence and any(fact.kind == "predicted" for answer in answers for fact in answer.witness):
                print(f"\n{WHY}", file=sys.stderr)


def run_info(arguments: argparse.Namespace) -> Any:
    """`tuplet info`."""
    from tuplet.store import info

    about = info(arguments.path, verify=arguments.verify)
    if not arguments.json:
        if queries := about.pop("try", []):
            about["try"] = "\n".join(queries)
        if "models" in about:
            del about["model"]  # the first of them
    return about


def run_find(arguments: argparse.Namespace) -> Any:
    """`tuplet find`."""
    from tuplet.store import open_store

    found = call_with(arguments, open_store(arguments.store).find)
    if arguments.json or len(found):
        return found
    print(f"nothing is called {arguments.text!r}", file=sys.stderr)
    return None


def run_method(arguments: argparse.Namespace) -> Any:
    """`tuplet relations`, `entity` and `export`: the method of a store that is called so."""
    from tuplet.store import open_store

    return call_with(arguments, getattr(open_store(arguments.store), arguments.command))


def run_data(arguments: argparse.Namespace) -> Any:
    """`tuplet data fetch` and `list`."""
    from tuplet.read.datasets import DATASETS, fetch

    if arguments.action == "list":
        return list(map(asdict, DATASETS.values())) if arguments.json else "\n".join(map(str, DATASETS.values()))
    graph = fetch(arguments.name, arguments.from_dir)
    target = arguments.output or f"{arguments.name}.graph"
    graph.save(target, force=arguments.force)
    return graph.info() if arguments.json else f"{lines(graph.info())}\n{target}"


def run_engines(arguments: argparse.Namespace) -> Any:
    """`tuplet engines`."""
    from tuplet.engines import engines

    return engines()


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


def _parameters(arguments: list[str] | None) -> dict[str, Any] | None:
    """Values of parameters: JSON where it is, else text.

    >>> _parameters(["phase=3", "name=asthma", "all=[1, 2]"])
    {'phase': 3, 'name': 'asthma', 'all': [1, 2]}
    """
    if arguments is None:
        return None
    found: dict[str, Any] = {}
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if not sign or not name:
            raise BadInput(f"--param is written NAME=VALUE, not {argument!r}")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


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
