"""Every table of the NS3 paper, and ours beyond it, from graphs, truth tables and models to one page; resumes.

    python benchmarks/paper.py --data DATA --truth TRUTH --per-shape 500 -o OUT            # or: make paper

`TRUTH` holds a truth table GRAPH.parquet for each graph, or a trained predictor in the folder GRAPH. `--models MODELS`
holds trained baselines as GRAPH/lmpnn, GRAPH/betae, …. No GPU is needed: cells that need a model or a package that is
not there are named before the start and on the page. Every step is a command, printed with the time that is left before
it runs, and what is done is not done again.

`OUT/tables.md` is the page. `OUT/numbers.csv` has a row for each number: its value, and the command, commit, hashes of
graph and queries, machine and date that it comes from. Full reports with charts are in OUT/GRAPH/report-*.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from paper_steps import Progress, Steps, circumstances

from tuplet.lab.bench.queries import read
from tuplet.lab.bench.report import Result, topology_table

BUDGETS = (1000, 2000, 4000, 6000, 8000)
TITLES = {
    "k": "The graphs (the paper's statistics)",
    "a": "The 14 shapes (its main table)",
    "b": "Budget sweep, recall and certificates (its figure on B, its tables of running times and of recall)",
    "c": "Progressive against simultaneous merging (its two ablations)",
    "e": "EFOk-CQA types, two free variables and two constants (its tables of EFO2)",
    "f": "Four and five free variables (ours)",
    "g": "Baselines on the 14 shapes (its main table, running times)",
    "i": "By the links that must be predicted: tuple-H, two and three free variables (ours)",
    "j": "One free variable: the 14 BetaE types (ours)",
    "l": "Guarantees: sets that hold a true tuple, on held-out queries (ours)",
    "p": "Proofs: what they cost (ours)",
    "s": "Shoot-out of exact engines (ours)",
    "t": "Speed against the limit (ours)",
}
KEPT = ("Joint HIT@10", "Marginal, Multiply, Joint", "By predicted links", "Coverage, time and memory")
SYMBOLIC, TRAINED = ("fit", "qto", "cqd"), ("lmpnn", "betae", "logice", "cone")
PACKAGES = {"duckdb": "duckdb", "sqlite": "sqlite3", "ladybug": "ladybug", "oxigraph": "pyoxigraph"}
COLUMNS = (
    *("table", "graph", "run", "metric", "group", "value", "low", "high", "queries"),
    *("command", "commit", "graph_hash", "query_digest", "machine", "date", "seconds"),
)
Numbers: TypeAlias = list[dict[str, Any]]


class Folder(Steps):
    """The folder of one graph with its stores, queries, runs and tables."""

    def __init__(self, arguments: argparse.Namespace, graph: str, progress: Progress) -> None:
        super().__init__(Path(arguments.output) / graph, progress)
        self.arguments, self.graph = arguments, graph
        self.budget = arguments.budget or (6000 if graph == "nell995" else 4000)
        self.missing: dict[str, dict[str, list[str]]] = {}  # table → what would be needed → for which rows

    def prepare(self) -> None:
        """The graph, and its stores for both readings of what is observed."""
        truth = Path(self.arguments.truth)
        graph, table = self.root / "graph", truth / f"{self.graph}.parquet"
        self.root.mkdir(parents=True, exist_ok=True)
        data = Path(self.arguments.data)
        self.tuplet("data", "fetch", self.graph, "--from-dir", data, "--force", "-o", graph, makes=graph)
        # As the paper has it: softmax × count, which is also what a table made elsewhere is taken for.
        made: list[object] = ["--table", table, "--calibration", "given"]
        if not table.exists():
            made = [truth / self.graph, "--calibration", "softmax-count"]
        for name, observed in (("store", "train,valid"), ("store-train", "train")):
            store = self.root / name
            words = ("index", graph, *made, "--observed", observed, "--force", "-o", store, "--quiet")
            self.tuplet(*words, makes=store)

    def sample(self, name: str, shapes: str, count: int, *more: str) -> Path:
        seed = self.arguments.seed
        queries = self.root / f"{name}-{count}{f'-seed{seed}' * bool(seed)}.parquet"
        words = ("--shapes", shapes, *more, "--per-shape", count, "--seed", seed, "--quiet", "--force")
        self.tuplet("bench", "sample", self.root / "graph", *words, *self.workers(), "-o", queries, makes=queries)
        return queries

    def run(self, queries: Path, engine: str, *options: object, store: str = "store") -> Path:
        """The results of an engine; `bench run` goes on where it was stopped."""
        named = [str(o).strip("-").replace("/", "_") for o in options]
        target = self.root / "results" / queries.stem / "-".join([engine, *named, *([store] * (store != "store"))])
        words = (self.root / store, queries, "--engine", engine, *options, *self.workers(), "-o", target, "--quiet")
        self.tuplet("bench", "run", *words, makes=target)
        return target

    def workers(self) -> list[str]:
        return ["--workers", str(self.arguments.workers)] if self.arguments.workers else []

    def ns3(self, queries: Path, engine: str, budget: int, *more: object, store: str = "store") -> Path:
        return self.run(queries, engine, "--budget", budget, *more, store=store)

    def baselines(self, letter: str, queries: Path) -> list[Path]:
        """The symbolic baselines, and of the trained ones those whose models are here."""
        found = [self.run(queries, engine) for engine in SYMBOLIC]
        for name in TRAINED:
            model = Path(self.arguments.models or "") / self.graph / name
            if self.arguments.models and model.exists():
                found.append(self.run(queries, name, "--option", f"model={model}"))
            else:
                self.lacks(letter, name, "a model file (`--models`), trained on a GPU by `benchmarks/baselines_gpu.py`")
        return found

    def lacks(self, letter: str, row: str, what: str) -> None:
        rows = self.missing.setdefault(letter, {}).setdefault(what, [])
        rows += [row] * (row not in rows)

    def lacking(self, letter: str) -> str:
        """What a table lacks and why, if anything."""
        return "; ".join(f"{', '.join(rows)}: {what}" for what, rows in self.missing.get(letter, {}).items())

    # --- tables ------------------------------------------------------------------------------------------------------

    def table(self, letter: str) -> list[Path]:
        """The runs of a table that `bench report` makes."""
        a, budget = self.arguments, self.budget
        if letter == "e":
            queries = self.sample("efok", "published741:k=2,c=2", a.per_type)
            own = [self.run(queries, "exact", "--marginals"), self.ns3(queries, "ns3-marginal", budget)]
            return [*own, *self.baselines(letter, queries)]
        if letter == "i":
            queries = self.sample("tuple-h", "paper14", a.per_stratum, "--balance", "predicted")
            ns3 = [self.ns3(queries, engine, budget) for engine in ("ns3", "ns3-marginal")]
            return [self.run(queries, "exact"), *ns3, *self.baselines(letter, queries)]
        if letter == "j":
            queries = self.sample("betae14", "betae14", a.per_shape)
            return [self.run(queries, "exact"), *self.baselines(letter, queries)]
        if letter == "f":
            queries = self.sample("k45", "joint:k=4,joint:k=5", a.per_large)
            return [self.run(queries, "exact"), *(self.ns3(queries, e, budget) for e in ("ns3", "ns3-marginal"))]
        queries = self.paper14
        exact = self.run(queries, "exact")
        if letter == "a":
            pairs = [(engine, store) for store in ("store", "store-train") for engine in ("ns3", "ns3-marginal")]
            found = [self.ns3(queries, engine, budget, store=store) for engine, store in pairs]
            return [exact, *found[:2], self.run(queries, "exact", store="store-train"), *found[2:]]
        if letter == "b":
            return [exact, *(self.ns3(queries, e, b) for e in ("ns3", "ns3-marginal") for b in a.budgets)]
        if letter == "c":
            progressive = self.ns3(queries, "ns3", budget)
            return [exact, progressive, self.ns3(queries, "ns3", budget, "--merge", "simultaneous")]
        return [exact, self.ns3(queries, "ns3", budget), *self.baselines(letter, queries)]  # g

    @property
    def paper14(self) -> Path:
        return self.sample("paper14", "paper14", self.arguments.per_shape)

    def printed(self, letter: str) -> tuple[Path, Path]:
        """What a program of this folder prints for a table, and the queries it is about."""
        store, target, most = self.root / "store", self.root / f"{TITLES[letter].split()[0].strip(':').lower()}.md", 10
        few = min(most, self.arguments.per_shape)
        if letter == "l":
            count = max(self.arguments.per_shape * 3 // 10, 4)
            queries = self.sample("held-out", "paper14", count, "--known", "train", "--target", "valid")
            gathered = self.root / f"gathered-{count}"
            asked = ("gather", self.root / "store-train", queries, "-o", gathered, "--depth", 2000)
            self.program("guarantees.py", *asked, "--per-shape", count, makes=gathered)
            self.program("guarantees.py", "sets", gathered, "--reached", makes=target, inputs=[gathered])
            return target, queries
        queries = self.paper14
        if letter == "p":
            self.program("proofs.py", store, queries, few, makes=target)
        elif letter == "t":
            self.program("limit.py", store, queries, "--per-shape", few, makes=target)
        else:
            there = [engine for engine, package in PACKAGES.items() if find_spec(package)]
            for engine in PACKAGES.keys() - there:
                self.lacks(letter, engine, f"`pip install {PACKAGES[engine]}`")
            words = ("--engines", ",".join(there), "--per-shape", min(few, 3), "--limit", 2, "--patience", 1)
            self.program("shootout.py", store, queries, *words, makes=target)
        return target, queries

    def plan(self, letters: Sequence[str]) -> None:
        """Count the steps, and find out what cannot be done here."""
        self.prepare()
        for letter in letters:
            if letter in "lpst":
                self.printed(letter)
            elif letter != "k":
                self.reported(letter)
        self.counting = False

    def reported(self, letter: str) -> tuple[list[Path], Path]:
        """The runs of a table, and the folder of their report."""
        runs, report = self.table(letter), self.root / f"report-{letter}"
        self.tuplet("bench", "report", *runs, "--force", "-o", report, makes=report, inputs=runs, again=True)
        return runs, report

    def report(self, letter: str) -> tuple[str, Numbers]:
        """A table as Markdown, and its numbers."""
        if letter == "k":
            return self.statistics()
        if letter in "lpst":
            target, queries = self.printed(letter)
            text = target.read_text(encoding="utf-8").strip()
            numbers = list(self.cells(letter, target, text, queries))
            text = text.replace("### ", "#### ") if "\n|" in text else f"```\n{text}\n```"
        else:
            runs, report = self.reported(letter)
            kept = (*KEPT, "Joint MRR") if letter == "j" else KEPT
            text = sections((report / "report.md").read_text(encoding="utf-8"), kept)
            numbers = [row for run in runs for row in self.numbers(letter, run)]
        if lacking := self.lacking(letter):
            text += f"\n\nNot here, and what it would need: {lacking}."
        return text, numbers

    def numbers(self, letter: str, run: Path) -> Numbers:
        """The numbers of one run, each with where it comes from."""
        result = Result.read(run)
        origin = self.origin(run) | {
            "graph_hash": result.manifest.store["graph"],
            "query_digest": result.manifest.digest,
        }
        place = {"table": letter, "graph": self.graph, "run": result.label}
        rows: Numbers = [
            {"metric": metric, "group": group, "value": e.mean, "low": e.low, "high": e.high, "queries": e.queries}
            for groups_of in (result.estimates, result.by_links)
            for metric, groups in groups_of.items()
            for group, e in groups.items()
        ]
        rows += [
            {"metric": metric, "group": "all", "value": value, "queries": len(result.rows)}
            for metric, value in result.quality.items()
        ]
        alone = topology_table([result])
        for label, *values, count in alone.rows if alone else []:
            if label.startswith(result.label):
                metric = label.rsplit(", ")[-1]
                rows += [
                    {"metric": metric, "group": group, "value": value, "queries": count}
                    for group, value in zip(alone.header[1:-1] if alone else [], values, strict=True)
                ]
        return [place | row | origin for row in rows]

    def cells(self, letter: str, target: Path, text: str, queries: Path) -> Iterator[dict[str, Any]]:
        """The cells of the tables that a program printed."""
        origin = self.origin(target) | {"graph_hash": self.about["hash"], "query_digest": read(queries).digest}
        place = {"table": letter, "graph": self.graph, "run": target.stem}
        head: list[str] = []
        title = ""
        for line in text.splitlines():
            row = [cell.strip() for cell in line.strip("| ").split("|")] if line.startswith("|") else []
            if not row or not head:
                head = row
            elif not re.fullmatch(r"[-:|\s]+", line):
                for name, value in zip(head[1:], row[1:], strict=False):
                    yield place | {"metric": name, "group": row[0], "value": value} | origin
            if found := re.fullmatch(r"(\S.*?)\s{2,}([\d.].*)", line):  # a table in columns of fixed width
                yield place | {"metric": title, "group": found[1], "value": found[2]} | origin
            elif not row and line.strip():
                title = line if line[0] != " " else f"{title}: {' '.join(line.split())}"

    @cached_property
    def about(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            subprocess.check_output([sys.executable, "-m", "tuplet", "info", str(self.root / "graph"), "--json"])
        )
        return found

    def statistics(self) -> tuple[str, Numbers]:
        """How large the graph is."""
        sizes = {name: self.about[name] for name in ("entities", "relations")} | self.about["edges"]
        command = f"tuplet info {shlex.quote(str(self.root / 'graph'))} --json"
        origin = {"command": command, **circumstances(), "graph_hash": self.about["hash"]}
        rows = [
            {"table": "k", "graph": self.graph, "run": "graph", "metric": name, "group": "all", "value": value} | origin
            for name, value in sizes.items()
        ]
        line = " | ".join(f"{value:,}" for value in sizes.values())
        return f"| {' | '.join(sizes)} |\n|{'---|' * len(sizes)}\n| {line} |", rows


def sections(text: str, wanted: tuple[str, ...]) -> str:
    """Of a report in Markdown, what it rests on and the tables that are shown."""
    head, *tables = text.split("\n### ")
    kept = [table.strip() for table in tables if table.startswith(wanted)]
    lines = [line for line in head.splitlines() if line.startswith("- ")]
    return "\n\n#### ".join(["\n".join(lines), *kept])


def parsed() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of benchmark graphs (see `tuplet data fetch`)")
    parser.add_argument("--graphs", default="fb15k-237,fb15k,nell995", help="their names, separated by commas")
    parser.add_argument("--truth", required=True, help="folder of truth tables GRAPH.parquet, or predictors GRAPH/")
    parser.add_argument("--models", help="folder of trained baselines: GRAPH/lmpnn, GRAPH/betae, …")
    parser.add_argument("--per-shape", type=int, default=500, help="queries of each shape (a, b, c, g, j)")
    parser.add_argument("--per-large", type=int, help="of each shape with k = 4 and 5 (f); default: a fifth of that")
    parser.add_argument("--per-type", type=int, help="of each EFOk-CQA type (e); default: a tenth")
    parser.add_argument("--per-stratum", type=int, help="of each stratum of each shape (i); default: a tenth")
    parser.add_argument("--budget", type=int, help="of NS3 (default: 4000; 6000 for nell995)")
    parser.add_argument("--budgets", type=lambda text: [int(b) for b in text.split(",")], default=BUDGETS)
    parser.add_argument("--tables", default=",".join(TITLES), help="which, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, help="processes (default: one per processor)")
    parser.add_argument("-o", "--output", required=True)
    arguments = parser.parse_args()
    for name, part in (("per_large", 5), ("per_type", 10), ("per_stratum", 10)):
        if getattr(arguments, name) is None:
            setattr(arguments, name, max(1, arguments.per_shape // part))
    arguments.graphs, arguments.tables = arguments.graphs.split(","), arguments.tables.split(",")
    if not set(arguments.tables) <= set(TITLES):
        parser.error(f"--tables takes {', '.join(TITLES)}")
    for graph in arguments.graphs:
        truth = Path(arguments.truth)
        if not (truth / f"{graph}.parquet").exists() and not (truth / graph).exists():
            parser.error(
                f"no truth values for {graph}: {truth} has neither {graph}.parquet (a truth table) nor the folder "
                f"{graph} (a predictor: tuplet train, on a GPU minutes)"
            )
    return arguments


def main() -> None:
    arguments, progress = parsed(), Progress()
    target, letters = Path(arguments.output), arguments.tables
    folders = [Folder(arguments, graph, progress) for graph in arguments.graphs]
    for folder in folders:
        folder.plan(letters)
    print(f"{len(progress.planned)} steps")
    for folder in folders:
        for letter in letters:
            if lacking := folder.lacking(letter):
                print(f"{folder.graph}, table {letter} will lack {lacking}")
    text, numbers = ["# Tables of the NS3 paper, and beyond\n"], []
    for folder in folders:
        folder.prepare()
        text.append(f"## {folder.graph}\n")
        for letter in letters:
            made, rows = folder.report(letter)
            text += [f"### {letter}. {TITLES[letter]}\n", made, ""]
            numbers += rows
            (target / "tables.md").write_text("\n".join(text), encoding="utf-8")
            with (target / "numbers.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, COLUMNS, restval="")
                writer.writeheader()
                writer.writerows(numbers)
    print(f"{target / 'tables.md'}: {len(numbers):,} numbers, each with its origin in {target / 'numbers.csv'}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.returncode) from None
    except KeyboardInterrupt:
        raise SystemExit("stopped; the same command goes on from here") from None
