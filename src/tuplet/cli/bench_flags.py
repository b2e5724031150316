"""The flags of `tuplet bench`."""

from __future__ import annotations

from tuplet.cli.command_parser import CommandParser
from tuplet.cli.common_flags import RAY, engine_flag, json_flag, output_flags, quiet_flag
from tuplet.settings import flags


def benchmarking(command: CommandParser) -> None:
    """Its actions, each with its flags."""
    from tuplet.query.limits import Limits

    actions = command.add_subparsers(title="actions", dest="action", required=True, parser_class=CommandParser)

    def action(name: str, help: str) -> CommandParser:
        sub = actions.add_parser(name, help=help, description=help)
        sub.set_defaults(parser=sub)
        json_flag(sub)
        return sub

    sample = action("sample", "sample grounded queries with easy and hard answers")
    sample.add_argument("graph", metavar="GRAPH")
    sample.add_argument(
        "--shapes",
        required=True,
        help="2fp,3fc,1p, paper14, betae14, tuple-h, joint:k=4, published741:k=2,c=2, complete:…",
    )
    sample.add_argument("--per-shape", type=int, required=True, metavar="N", help="queries of each shape")
    sample.add_argument(
        "--balance",
        choices=["predicted"],
        help="N queries for each number of links that must be predicted (1, 2, 3, 4+), one answer of each scored",
    )
    sample.add_argument("--seed", type=int, default=0)
    sample.add_argument(
        "--known", default="train,valid", metavar="SPLITS", help="splits that are known: answers on these are easy"
    )
    sample.add_argument(
        "--target", default="test", metavar="SPLITS", help="splits that are hidden: answers that need these are hard"
    )
    sample.add_argument("--workers", type=int, metavar="N", help="processes (default: one per processor)")
    sample.add_argument("--ray", metavar="ADDRESS", help=RAY)
    sample.add_argument("--efok", metavar="DIR", help="also write EFOk-CQA files to this folder")
    output_flags(sample, "QUERIES")
    quiet_flag(sample)

    run = action("run", "run an engine over queries and rank their hard answers; the same command resumes")
    run.add_argument("store", metavar="STORE")
    run.add_argument("queries", metavar="QUERIES", help="a file of `bench sample`, or EFOk-CQA or BetaE files")
    engine_flag(run, "exact")
    run.set_defaults(engine="exact")
    flags(run.add_argument_group("limits"), Limits, ("timeout", "logic", "budget", "merge", "options"))
    run.add_argument("--marginals", action="store_true", help="also rank each variable on its own")
    run.add_argument("--per-shape", type=int, metavar="N", help="only the first N queries of each shape")
    run.add_argument("--workers", type=int, metavar="N", help="processes (default: one per processor)")
    run.add_argument("--ray", metavar="ADDRESS", help=RAY)
    run.add_argument("-o", "--output", required=True, metavar="RESULTS", help="the folder of the run")
    quiet_flag(run)

    adopt = action("adopt", "import result rows that were measured on another machine")
    adopt.add_argument("rows", metavar="ROWS", help="rows.npz of benchmarks/baselines_gpu.py")
    adopt.add_argument("queries", metavar="QUERIES", help="the queries that were measured")
    adopt.add_argument("store", metavar="STORE")
    adopt.add_argument("--per-shape", type=int, metavar="N", help="only the first N queries of each shape")
    adopt.add_argument("--engines", metavar="NAMES", help="only these, such as betae,cone (default: all)")
    adopt.add_argument("-o", "--output", required=True, metavar="DIR", help="one result folder for each engine")

    report = action("report", "make tables, plots and one page from results")
    report.add_argument("results", metavar="RESULTS", nargs="+")
    report.add_argument("--unfinished", action="store_true", help="include runs that are not done yet")
    output_flags(report, "DIR")

    reliability = action("reliability", "check whether predicted tuples of truth 0.7 are right 7 times in 10")
    reliability.add_argument("store", metavar="STORE")
    reliability.add_argument(
        "queries", metavar="QUERIES", help="best made by `bench sample --known train --target valid`"
    )
    reliability.add_argument("--per-shape", type=int, metavar="N", help="only the first N queries of each shape")
    reliability.add_argument(
        "--top", type=int, default=100, metavar="N", help="judge N tuples of each query (default: 100)"
    )

    types = action("types", "enumerate query types, as CSV")
    types.add_argument("--profile", default="complete", help="complete (default, 1,907) or published741")
