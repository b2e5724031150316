"""The commands of the laboratory: `tuplet bench`, `tuplet guarantee`, and `tuplet train` for query models too."""

from __future__ import annotations

import argparse
import csv
import io
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuplet import settings as registry
from tuplet.cli.command_parser import JSON, QUIET, RAY, Command, CommandParser, arg, engine_flag, output_flags, rows
from tuplet.cli.commands import TRAIN_FLAGS
from tuplet.errors import BadInput
from tuplet.files import refuse_existing
from tuplet.progress import Progress
from tuplet.settings import flags

if TYPE_CHECKING:
    from tuplet.lab.bench.queries import QuerySet
    from tuplet.lab.bench.results import RunSettings
    from tuplet.query.engine import Engine


QUERIES = arg("queries QUERIES", "a file of `bench sample`, or EFOk-CQA or BetaE files")
PER_SHAPE = arg("--per-shape N", "only the first N queries of each shape", type=int)
WORKERS = rows(arg("--workers N", "processes (default: one per processor)", type=int), RAY)


def add_bench_flags(command: CommandParser) -> None:
    from tuplet.query.limits import Limits

    actions = command.add_actions()

    def action(run: Callable[[argparse.Namespace], Any], help: str, *flags: Callable[[Any], None]) -> CommandParser:
        sub = actions.add_parser(run.__name__.removeprefix("bench_"), help=help, description=help)
        sub.set_defaults(parser=sub, perform=run)
        rows(JSON, *flags)(sub)
        return sub

    action(
        bench_sample,
        "sample grounded queries with easy and hard answers",
        arg("graph GRAPH"),
        arg(
            "--shapes SHAPES",
            "2fp,3fc,1p, paper14, betae14, tuple-h, joint:k=4, published741:k=2,c=2, complete:…",
            required=True,
        ),
        arg("--per-shape N", "queries of each shape", type=int, required=True),
        arg(
            "--balance",
            "N queries for each number of links that must be predicted (1, 2, 3, 4+), one answer of each scored",
            choices=["predicted"],
        ),
        arg("--seed SEED", type=int, default=0),
        arg("--known SPLITS", "splits that are known: answers on these are easy", default="train,valid"),
        arg("--target SPLITS", "splits that are hidden: answers that need these are hard", default="test"),
        WORKERS,
        arg("--efok DIR", "also write EFOk-CQA files to this folder", default=None),
        output_flags("QUERIES"),
        QUIET,
    )
    action(
        bench_run,
        "run an engine over queries and rank their hard answers; the same command resumes",
        arg("store STORE"),
        QUERIES,
        engine_flag("exact"),
        lambda sub: flags(sub.add_argument_group("limits"), Limits, ("timeout", "logic", "budget", "merge", "options")),
        arg("--marginals", "also rank each variable on its own"),
        PER_SHAPE,
        WORKERS,
        arg("-o --output RESULTS", "the folder of the run", required=True),
        QUIET,
    ).set_defaults(engine="exact")
    action(
        bench_report,
        "make tables, plots and one page from results",
        arg("results RESULTS+"),
        arg("--unfinished", "include runs that are not done yet"),
        output_flags("DIR"),
    )
    action(
        bench_reliability,
        "check whether predicted tuples of truth 0.7 are right 7 times in 10",
        arg("store STORE"),
        arg("queries QUERIES", "best made by `bench sample --known train --target valid`"),
        PER_SHAPE,
        arg("--top N", "judge N tuples of each query (default: 100)", type=int, default=100),
    )
    profile = arg("--profile PROFILE", "complete (default, 1,907) or published741", default="complete")
    action(bench_types, "enumerate query types, as CSV", profile)


ADD_GUARANTEE_FLAGS = rows(
    arg("store STORE"),
    arg("queries QUERIES", "made by `bench sample` with --known as the store observes"),
    arg(
        "--measured-on OTHER",
        "a store of the same graph that observes what the queries take for known, where STORE observes more",
        default=None,
    ),
    PER_SHAPE,
    QUIET,
    JSON,
)
ADD_TRAIN_FLAGS = rows(
    TRAIN_FLAGS,
    rows(
        arg("--minutes N", "training time in minutes (default 5), instead of --steps", type=float),
        arg("--predictor MODEL", "the trained ComplEx model that lmpnn builds on", default=None),
        group="query models (--model betae, logice, cone or lmpnn)",
    ),
)


def run_train(arguments: argparse.Namespace) -> Any:
    """`tuplet train`: a query model if that is asked for, else a link predictor."""
    from tuplet.cli import making
    from tuplet.lab.baselines.train import is_query_model, train_from_flags

    if not is_query_model(arguments):
        return making.run_train(arguments)
    trained = train_from_flags(arguments, progress=not arguments.quiet)
    if arguments.json:
        return {"model": str(trained.folder), "steps": trained.steps, "valid_mrr": dict(trained.valid)}
    valid = "  ".join(f"{name} {value:.4f}" for name, value in trained.valid.items())
    return f"valid MRR  {valid}\n{trained.steps:,} steps in {trained.seconds:.1f} s\n{trained.folder}"


def run_guarantee(arguments: argparse.Namespace) -> dict[str, Any]:
    from tuplet.lab.bench.held_out import guarantee, summary

    with Progress(quiet=arguments.quiet) as progress:
        report = progress.counting("held-out queries")
        return summary(guarantee(arguments.store, _queries(arguments), arguments.measured_on, report))


def run_bench(arguments: argparse.Namespace) -> dict[str, Any] | str:
    """`tuplet bench`: the action that is asked for."""
    result: dict[str, Any] | str = arguments.perform(arguments)
    return result


def bench_sample(arguments: argparse.Namespace) -> dict[str, Any]:
    """`tuplet bench sample`: grounded queries, their number by shape, and what could not be filled."""
    from tuplet.graph.graph import KnowledgeGraph
    from tuplet.lab.bench.hardness import STRATA
    from tuplet.lab.bench.queries import write, write_efok
    from tuplet.lab.bench.query_types import select
    from tuplet.lab.bench.run import default_workers
    from tuplet.lab.bench.sampling import sample

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


def bench_run(arguments: argparse.Namespace) -> dict[str, Any]:
    """`tuplet bench run`: what was run, and its means."""
    from tuplet.lab.bench.report import Result
    from tuplet.lab.bench.run import default_workers, run

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
    strata = {"by predicted links": links} if links else {}
    return {"run": result.label, "queries": len(result.rows), "percent": means, **strata, "quality": quality}


def _pool(arguments: argparse.Namespace) -> AbstractContextManager[Executor | None]:
    """The workers of a cluster, if `--ray` names one."""
    if not arguments.ray:
        return nullcontext()
    if arguments.workers:
        raise BadInput("give either --workers or --ray, not both")
    from tuplet.truth.cluster import RayExecutor

    return RayExecutor(arguments.ray)


def _queries(arguments: argparse.Namespace) -> QuerySet:
    from tuplet.lab.bench.queries import read_any

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


def bench_report(arguments: argparse.Namespace) -> dict[str, Any]:
    """`tuplet bench report`: the folder and the files in it."""
    from tuplet.lab.bench.report import write_report

    folder = write_report(arguments.results, arguments.output, arguments.force, arguments.unfinished)
    return {"output": str(folder), "files": sorted(path.name for path in folder.iterdir())}


def bench_reliability(arguments: argparse.Namespace) -> dict[str, Any] | str:
    """`tuplet bench reliability`: how often predicted tuples are right, by families of queries and tenths of truth."""
    from tuplet.lab.bench.held_out import as_text, everything, families, judge
    from tuplet.lab.bench.run import refuse_other_graph
    from tuplet.store import open_store

    queries, source = _queries(arguments), open_store(arguments.store).source
    refuse_other_graph(queries, source)
    table = families(judge(source, queries, everything(source), arguments.top))
    return table if arguments.json else as_text(table)


def bench_types(arguments: argparse.Namespace) -> str:
    from tuplet.lab.bench.query_types import types

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["name", "formula", "free", "exists", "constants", "negations", "topology"])
    for t in types(arguments.profile):
        writer.writerow([t.name, t.formula, len(t.free), len(t.exists), len(t.constants), t.negations, t.topology])
    return out.getvalue().rstrip("\n")


BENCH = Command(
    "measure",
    "benchmark engines: sample queries, run, report",
    add_bench_flags,
    "tuplet.lab.commands:run_bench",
)
GUARANTEE = Command(
    "measure",
    "learn from held-out queries how long the sets of ask --confidence must be",
    ADD_GUARANTEE_FLAGS,
    "tuplet.lab.commands:run_guarantee",
)
TRAIN = Command(
    "build step by step",
    "train a link predictor or a query model; --resume continues after Ctrl-C",
    ADD_TRAIN_FLAGS,
    "tuplet.lab.commands:run_train",
)
