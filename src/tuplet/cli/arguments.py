"""What can be typed: the commands of `tuplet` and their options, with no work done here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from tuplet._version import __version__
from tuplet.errors import BadInput, nearest

FORMATS = ("table", "json", "csv", "parquet")


class _Parser(argparse.ArgumentParser):
    """argparse that names the nearest command or option."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Unknown options are an error of the command they were given to, which knows the nearest."""
        known, unknown = self.parse_known_args(args, namespace)
        if unknown:
            getattr(known, "parser", self).error(f"unrecognized arguments: {' '.join(unknown)}")
        return known

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

    def command(name: str, help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(command=name, parser=sub)
        return sub

    demo = command("demo", "the main job on the bundled graph of countries")
    _output(demo, "STORE", required=False)
    _quiet(demo)

    imports = command("import", "make a graph directory from TSV, CSV, Parquet, RDF or a dataset folder")
    imports.add_argument("source", metavar="SRC")
    imports.add_argument("--valid", metavar="F", help="held-out facts for validation")
    imports.add_argument("--test", metavar="F", help="held-out facts for testing")
    imports.add_argument("--labels", metavar="F", action="append", default=[], help="name<TAB>label; may be repeated")
    _output(imports, "GRAPH")
    _json(imports)

    train = command("train", "train a link predictor or a query model; Ctrl-C safe, --resume goes on")
    train.add_argument("graph", metavar="GRAPH")
    _output(train, "MODEL")
    _training(train, "; query models: betae, logice, cone, lmpnn")
    train.add_argument("--minutes", type=float, help="of a query model: training time of the whole run (default 5)")
    train.add_argument("--steps", type=int, help="of a query model: steps, in place of minutes")
    train.add_argument("--predictor", metavar="MODEL", help="of lmpnn: the trained ComplEx that it rests on")
    train.add_argument("--resume", action="store_true", help="continue the run in MODEL")
    _quiet(train)
    _json(train)

    adopt = command("adopt", "take a link predictor trained elsewhere")
    adopt.add_argument("source", metavar="SRC", help="PyKEEN directory, CQD-style checkpoint, safetensors or folder")
    adopt.add_argument("graph", metavar="GRAPH")
    _output(adopt, "MODEL")
    adopt.add_argument("--model", help="complex, distmult, rotate or transe, where SRC does not say it")
    adopt.add_argument("--entity-names", metavar="F", help="names in the order of the rows (default: that of GRAPH)")
    adopt.add_argument("--relation-names", metavar="F", help="names in the order of the rows (default: that of GRAPH)")
    adopt.add_argument("--relation-order", help="how SRC orders reciprocal relations, where it does not say it")
    adopt.add_argument("--trust", action="store_true", help="load a pickle; only for files of your own")
    _json(adopt)

    index = command("index", "calibrate a predictor and build the truth table: a store that answers queries")
    index.add_argument("graph", metavar="GRAPH")
    index.add_argument("model", metavar="MODEL", nargs="?", help="a trained or adopted predictor")
    _output(index, "STORE")
    index.add_argument("--table", metavar="F.parquet", help="a truth table made elsewhere, instead of MODEL")
    index.add_argument(
        "--threshold", type=float, help="edges below are not kept (default: 0.0005 if learned, else 0.005)"
    )
    index.add_argument(
        "--calibration",
        metavar="NAME",
        help="learned (default, given enough valid edges), softmax-count, observed-mass; of --table: learned, given",
    )
    index.add_argument("--observed", default="train,valid", metavar="SPLITS", help="default: train,valid")
    index.add_argument("--on-demand", action="store_true", help="build no table, compute rows when asked")
    index.add_argument("--other-graph", action="store_true", help="take a MODEL of another graph, numbered alike")
    index.add_argument("--device", default="auto", help="auto, cpu, cuda")
    index.add_argument("--memory", type=float, metavar="GIB", help="how much the builder may hold")
    _quiet(index)
    _json(index)

    build = command("build", "import, train and index in one go, with sane defaults")
    build.add_argument("source", metavar="SRC", help="anything `import` reads, or a graph directory")
    build.add_argument("--valid", metavar="F")
    build.add_argument("--test", metavar="F")
    build.add_argument("--labels", metavar="F", action="append", default=[])
    _output(build, "STORE")
    _training(build)
    build.add_argument("--threshold", type=float)
    build.add_argument("--keep-model", metavar="MODEL", help="leave the trained predictor there")
    _quiet(build)
    _json(build)

    for name, verb in (("add", "make facts observed"), ("remove", "stop observing facts")):
        edit = command(name, f"{verb}, at once and without retraining")
        edit.add_argument("store", metavar="STORE")
        edit.add_argument("facts", metavar="FACTS", help="a file as `import` reads it")
        if name == "add":
            edit.add_argument("--new-entities", action="store_true", help="accept entities the store does not know")
        edit.set_defaults(new_entities=False)
        _json(edit)

    info = command("info", "what a graph, model or store is")
    info.add_argument("path", metavar="PATH")
    info.add_argument("--verify", action="store_true", help="recompute the content hash from every byte")
    _json(info)

    ask = command("ask", "answer a query")
    ask.add_argument("store", metavar="STORE", help="a store, or a graph directory (engine crisp)")
    ask.add_argument("query", metavar="QUERY", help="SPARQL or logic text; @file reads a file, - standard input")
    ask.add_argument("-k", metavar="K", help="how many answers (default: LIMIT of the query, or 10); 'all'")
    ask.add_argument(
        "--engine",
        help="crisp, brute, exact, ns3, ns3-marginal (default: exact; crisp on a graph), "
        "or a baseline: fit, qto, cqd, lmpnn, betae, logice, cone",
    )
    ask.add_argument("--budget", metavar="B", help="of ns3: entities per variable, or 'all' (default 4000)")
    ask.add_argument("--merge", default="progressive", help="of ns3: progressive (default), simultaneous, adaptive")
    ask.add_argument("--logic", default="product", help="product (default) or godel")
    ask.add_argument("--timeout", type=float, metavar="S", help="stop after S seconds with the best so far")
    ask.add_argument("--memory", type=float, metavar="GIB", help="of exact: stop when the search holds so much")
    ask.add_argument("--work", type=int, metavar="N", help="of exact: stop after looking at N edges")
    _options(ask)
    ask.add_argument("--observed", metavar="SPLITS", help="the splits that count as facts, on a graph directory")
    ask.add_argument("--grounding", metavar="JSON", help="names or ids of the symbols of an EFOk-CQA string")
    ask.add_argument("--only", choices=("predicted", "observed"), help="filter before the top k")
    ask.add_argument("--explain", action="store_true", help="the reason for every answer")
    ask.add_argument("--plan", action="store_true", help="show how the query would be answered, and stop")
    ask.add_argument("--format", choices=FORMATS, help="default: table, or by the ending of -o")
    ask.add_argument("-o", "--output", metavar="F")
    ask.add_argument("--force", action="store_true", help="overwrite the output file")
    _json(ask)

    _serve(command("serve", "answer over HTTP, with a web page"))

    data = command("data", "a public benchmark graph by name, checked")
    data.add_argument("action", choices=("fetch",))
    data.add_argument("name", metavar="NAME")
    data.add_argument("--from-dir", metavar="DIR", help="a folder that holds the files (default: $TUPLET_DATA)")
    _output(data, "GRAPH", required=False)
    _json(data)

    _bench(command("bench", "the benchmark: sample queries, run engines, report"))

    doctor = command("doctor", "versions, devices, memory, extras")
    doctor.add_argument("--warm", action="store_true", help="compile and cache the search kernels")
    _json(doctor)
    return top


def _bench(command: argparse.ArgumentParser) -> None:
    """The actions of `tuplet bench`."""
    actions = command.add_subparsers(title="actions", dest="action", required=True, parser_class=_Parser)

    def action(name: str, help: str) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=help, description=help)
        _json(sub)
        return sub

    sample = action("sample", "grounded queries with easy and hard answers")
    sample.add_argument("graph", metavar="GRAPH")
    sample.add_argument(
        "--shapes", required=True, help="2fp,3fc,1p, paper14, betae14, joint:k=4, published741:k=2,c=2, complete:…"
    )
    sample.add_argument("--per-shape", type=int, required=True, metavar="N", help="queries of each shape")
    sample.add_argument("--seed", type=int, default=0)
    sample.add_argument("--known", default="train,valid", metavar="SPLITS", help="answers on these are easy")
    sample.add_argument("--target", default="test", metavar="SPLITS", help="answers that need these are hard")
    sample.add_argument("--workers", type=int, metavar="N", help="processes (default: one per processor)")
    sample.add_argument("--efok", metavar="DIR", help="write EFOk-CQA files there too")
    _output(sample, "QUERIES")
    _quiet(sample)

    run = action("run", "run an engine over queries and rank their hard answers; run again to go on")
    run.add_argument("store", metavar="STORE")
    run.add_argument("queries", metavar="QUERIES", help="of `bench sample`; EFOk-CQA or BetaE files")
    run.add_argument(
        "--engine",
        default="exact",
        help="exact (default), ns3, ns3-marginal, crisp, brute, fit, qto, cqd, lmpnn, betae, logice, cone",
    )
    _options(run)
    run.add_argument("--budget", metavar="B", help="of ns3 and ns3-marginal: entities per variable, or 'all'")
    run.add_argument("--merge", help="of ns3: progressive (default), simultaneous, adaptive")
    run.add_argument("--logic", default="product", help="product (default) or godel")
    run.add_argument("--timeout", type=float, metavar="S", help="seconds for one query")
    run.add_argument("--marginals", action="store_true", help="also rank each variable on its own")
    run.add_argument("--per-shape", type=int, metavar="N", help="only the first N queries of each shape")
    run.add_argument("--workers", type=int, metavar="N", help="processes (default: one per processor)")
    run.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster instead (auto, host:port, ray://…)")
    run.add_argument("-o", "--output", required=True, metavar="RESULTS")
    _quiet(run)

    adopt = action("adopt", "results of engines that were measured elsewhere, as a GPU machine leaves them")
    adopt.add_argument("rows", metavar="ROWS", help="rows.npz of benchmarks/baselines_gpu.py")
    adopt.add_argument("queries", metavar="QUERIES", help="the queries that were measured")
    adopt.add_argument("store", metavar="STORE")
    adopt.add_argument("--per-shape", type=int, metavar="N", help="only the first N queries of each shape")
    adopt.add_argument("--engines", metavar="NAMES", help="some of them: betae,cone (default: all)")
    adopt.add_argument("-o", "--output", required=True, metavar="DIR", help="one result folder for each engine")

    report = action("report", "tables, plots and one page from results")
    report.add_argument("results", metavar="RESULTS", nargs="+")
    report.add_argument("--unfinished", action="store_true", help="also of runs that are not done yet")
    _output(report, "DIR")

    reliability = action("reliability", "is an answer of truth 0.7 right 7 times in 10? predicted tuples, judged")
    reliability.add_argument("store", metavar="STORE")
    reliability.add_argument("queries", metavar="QUERIES", help="best of `bench sample --known train --target valid`")
    reliability.add_argument("--per-shape", type=int, metavar="N", help="only the first N queries of each shape")
    reliability.add_argument("--top", type=int, default=100, metavar="N", help="tuples of each query (default: 100)")

    types = action("types", "enumerate query types, as CSV")
    types.add_argument("--profile", default="complete", help="complete (default, 1,907) or published741")


def _serve(command: argparse.ArgumentParser) -> None:
    """The settings of the server; the limits hold for every request."""
    command.add_argument("stores", metavar="STORE", nargs="*", help="stores or graphs, also as NAME=STORE")
    command.add_argument("--host", default="127.0.0.1", help="default 127.0.0.1; any other address needs keys")
    command.add_argument("--port", type=int, default=8000)
    command.add_argument("--api-key-file", metavar="F", help="keys that open the server, hashed")
    command.add_argument("--new-key", metavar="NAME", help="add a key to the key file, print it once, and stop")
    command.add_argument("--workers", type=int, metavar="N", help="processes (default: one per processor, at most 4)")
    for name, kind, help in (
        ("body", int, "bytes of a request (default 1048576)"),
        ("atoms", int, "atoms of a query (default 32)"),
        ("variables", int, "variables of a query (default 16)"),
        ("k", int, "answers of a query (default 10000)"),
        ("time", float, "seconds of a request (default 10)"),
        ("concurrent", int, "queries at once in one process (default 4)"),
        ("waiting", int, "requests that wait in one process (default 64)"),
        ("batch", int, "queries of one request (default 256)"),
    ):
        command.add_argument(f"--max-{name}", type=kind, metavar="N", help=help)


def _training(command: argparse.ArgumentParser, others: str = "") -> None:
    """The settings of the trainer that users change most; --config reads all of them from a file."""
    command.add_argument("--config", metavar="F", help="settings from a .toml or .json file")
    command.add_argument("--preset", help="tuned settings: fb15k-237, nell995, fb15k, wn18rr, small")
    command.add_argument("--model", help=f"complex (default), distmult, rotate, transe{others}")
    command.add_argument("--rank", type=int)
    command.add_argument("--epochs", type=int)
    command.add_argument("--batch", type=int)
    command.add_argument("--learning-rate", type=float, dest="learning_rate")
    command.add_argument("--regularisation", type=float)
    command.add_argument("--seed", type=int)
    command.add_argument("--device", default="auto", help="auto, cpu, cuda")


def given_options(given: Sequence[str]) -> dict[str, str]:
    """`--option KEY=VALUE`, as often as it is given; the engine makes numbers of what is a number."""
    options: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise BadInput(f"--option takes KEY=VALUE, such as most=10, not {text!r}")
        if key in options:
            raise BadInput(f"--option {key} is given twice")
        options[key] = value
    return options


def _options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="of a baseline, may be repeated: most=10, mode=paper (fit); neg_scale=3 (qto); method=co, beam=64 (cqd); "
        "model=FOLDER (cqd with method=co and the trained ones); docs/baselines.md has them all",
    )


def _quiet(command: argparse.ArgumentParser) -> None:
    command.add_argument("--quiet", action="store_true", help="no progress on standard error")


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON")


def _output(command: argparse.ArgumentParser, metavar: str, required: bool = True) -> None:
    command.add_argument("-o", "--output", required=required, metavar=metavar)
    command.add_argument("--force", action="store_true", help="replace what is there")
