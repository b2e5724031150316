"""The bodies of the actions of `tuplet bench`; each returns what is to be printed."""

from __future__ import annotations

import argparse
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuplet import settings as registry
from tuplet.errors import BadInput
from tuplet.files import refuse_existing
from tuplet.progress import Progress

if TYPE_CHECKING:
    from tuplet.lab.bench.queries import QuerySet
    from tuplet.lab.bench.results import RunSettings
    from tuplet.query.engine import Engine


def sample(arguments: argparse.Namespace) -> dict[str, Any]:
    """`tuplet bench sample`: grounded queries, their number by shape, and what could not be filled."""
    from tuplet.graph.graph import KnowledgeGraph
    from tuplet.lab.bench.formats import write, write_efok
    from tuplet.lab.bench.hardness import STRATA
    from tuplet.lab.bench.sampling import sample
    from tuplet.lab.bench.shape_selection import select
    from tuplet.lab.bench.workers import default_workers

    target = Path(arguments.output)
    refuse_existing(target, arguments.force)
    shapes = select(arguments.shapes)
    graph = KnowledgeGraph.open(arguments.graph)
    with _pool(arguments) as executor, Progress(quiet=arguments.quiet) as progress:
        queries = sample(
            graph,
            shapes,
            arguments.per_shape,
            arguments.seed,
            known=arguments.known.split(","),
            target=arguments.target.split(","),
            balance=arguments.balance is not None,
            workers=arguments.workers or default_workers(),
            executor=executor,
            progress=progress.counting("sampling"),
        )
    if not len(queries):
        raise BadInput("not a single query could be sampled; is the target split empty?")
    write(queries, target, graph, force=arguments.force)
    if arguments.efok:
        write_efok(queries, arguments.efok, force=arguments.force)
    counts = {shape: len(members) for shape, members in queries.by_shape().items()}
    strata = Counter(n for query in queries if query.strata is not None for n in query.strata.tolist())
    summary: dict[str, Any] = {
        "queries": len(queries),
        "shapes": len(counts),
        "answers by predicted links": {f"{n}+" if n == STRATA else str(n): strata[n] for n in sorted(strata)},
        "output": str(target),
    }
    if queries.meta["shortage"]:
        summary["not filled"] = {name: short["found"] for name, short in queries.meta["shortage"].items()}
    if queries.meta["not_meaningful"]:
        summary["negation without effect"] = dict(queries.meta["not_meaningful"])
    return summary


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """`tuplet bench run`: what was run, and its means."""
    from tuplet.lab.bench.report import Result
    from tuplet.lab.bench.run import run
    from tuplet.lab.bench.workers import default_workers

    settings = _settings(arguments)
    settings.runner()
    queries = _queries(arguments)
    with _pool(arguments) as executor, Progress(quiet=arguments.quiet) as progress:
        run(
            arguments.store,
            queries,
            arguments.output,
            settings,
            workers=arguments.workers or default_workers(),
            executor=executor,
            progress=progress.counting(settings.engine),
        )
    result = Result.read(arguments.output)
    means = {metric: round(100 * groups["all"].mean, 2) for metric, groups in result.estimates.items()}
    quality = {name: round(value, 3) for name, value in result.quality.items()}
    links = {
        group.removeprefix("links="): {
            metric: round(100 * result.by_links[metric][group].mean, 2) for metric in ("hit10", "mrr")
        }
        for group in result.by_links["hit10"]
        if group.startswith("links=")
    }
    told = {"by predicted links": links} if links else {}
    return {"run": result.label, "queries": len(result.rows), "percent": means, **told, "quality": quality}


@contextmanager
def _pool(arguments: argparse.Namespace) -> Iterator[Executor | None]:
    """The workers of a cluster, if `--ray` names one."""
    if not arguments.ray:
        yield None
        return
    if arguments.workers:
        raise BadInput("give either --workers or --ray, not both")
    from tuplet.truth.cluster import RayExecutor

    with RayExecutor(arguments.ray) as executor:
        yield executor


def _queries(arguments: argparse.Namespace) -> QuerySet:
    from tuplet.lab.bench.formats import read_any

    queries = read_any(arguments.queries)
    return queries if arguments.per_shape is None else queries.first(arguments.per_shape)


def _settings(arguments: argparse.Namespace) -> RunSettings:
    from tuplet.lab.bench.results import RunSettings
    from tuplet.query.limits import DEFAULT_BUDGET, Limits
    from tuplet.settings import given

    engine: Engine[Any] = registry.find_plugin("engines", arguments.engine, modules=True)
    limits = given(arguments, Limits, checked=True)
    options: dict[str, Any] = dict(limits.get("options", {}))
    engine.settings(options)
    if engine.prunes:
        options["budget"] = limits.get("budget", DEFAULT_BUDGET)
        if "merge" in limits:
            options["merge"] = limits["merge"]
    elif "budget" in limits or "merge" in limits:
        flag = "--budget" if "budget" in limits else "--merge"
        raise BadInput(f"{flag} is for engines that prune, such as ns3, not for {arguments.engine!r}")
    return RunSettings(
        arguments.engine,
        limits.get("logic", "product"),
        limits.get("timeout"),
        marginals=arguments.marginals,
        options=options,
    )


def adopt(arguments: argparse.Namespace) -> dict[str, Any]:
    """`tuplet bench adopt`: the folders made, and how many queries each engine answered."""
    from tuplet.lab.bench.adopt import adopt

    engines = arguments.engines.split(",") if arguments.engines else ()
    counts = adopt(arguments.rows, arguments.store, _queries(arguments), arguments.output, engines)
    return {"output": arguments.output, "queries": counts}


def report(arguments: argparse.Namespace) -> dict[str, Any]:
    """`tuplet bench report`: the folder and the files in it."""
    from tuplet.lab.bench.report import write_report

    folder = write_report(arguments.results, arguments.output, arguments.force, arguments.unfinished)
    return {"output": str(folder), "files": sorted(path.name for path in folder.iterdir())}


def reliability(arguments: argparse.Namespace) -> dict[str, Any] | str:
    """`tuplet bench reliability`: how often predicted tuples are right, by families of queries and tenths of truth."""
    from tuplet.lab.bench.reliability import as_text, everything, families, judge
    from tuplet.lab.bench.run import refuse_other_graph
    from tuplet.store import open_store

    queries, source = _queries(arguments), open_store(arguments.store).source
    refuse_other_graph(queries, source)
    table = families(judge(source, queries, everything(source), arguments.top))
    return table if arguments.json else as_text(table)


def types(arguments: argparse.Namespace) -> str:
    """`tuplet bench types`: the enumerated types as CSV."""
    from tuplet.lab.bench.query_types import types

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["name", "formula", "free", "exists", "constants", "negations", "topology"])
    for t in types(arguments.profile):
        writer.writerow([t.name, t.formula, t.f_num, t.e_num, t.c_num, t.negations, t.topology])
    return out.getvalue().rstrip("\n")


ACTIONS: Mapping[str, Callable[[argparse.Namespace], dict[str, Any] | str]] = {
    "sample": sample,
    "run": run,
    "adopt": adopt,
    "report": report,
    "reliability": reliability,
    "types": types,
}
