"""Every table of the NS3 paper, and ours beyond it, from graphs, truth tables and models to one page; resumes.

    python benchmarks/paper.py --data DATA --truth TRUTH --per-shape 500 -o OUT            # or: make paper

`TRUTH` holds a truth table GRAPH.parquet for each graph, or a trained predictor in the folder GRAPH. `--models MODELS`
holds trained baselines as GRAPH/lmpnn, GRAPH/betae, …; the page names the cells that need one which is not there. No
GPU is needed. Every step is a `tuplet` command, printed before it runs, and what is done is not done again.

`OUT/tables.md` is the page. `OUT/numbers.csv` has a row for each number: its value, and the command, commit, hashes of
graph and queries, machine and date that it comes from. Full reports with charts are in OUT/GRAPH/report-*.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuplet.bench.report_tables import Result

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
}
KEPT = ("Joint HIT@10", "Marginal, Multiply, Joint", "By predicted links", "Coverage, time and memory")
SYMBOLIC, TRAINED = ("fit", "qto", "cqd"), ("lmpnn", "betae", "logice", "cone")
COLUMNS = (
    *("table", "graph", "run", "metric", "group", "value", "low", "high", "queries"),
    *("command", "commit", "graph_hash", "query_digest", "machine", "date", "seconds"),
)


class Folder:
    """The folder of one graph, and the steps that fill it."""

    def __init__(self, arguments: argparse.Namespace, graph: str) -> None:
        self.arguments, self.graph = arguments, graph
        self.root = Path(arguments.output) / graph
        self.budget = arguments.budget or (6000 if graph == "nell995" else 4000)
        self.missing: list[str] = []  # models that are not here

    def tuplet(self, *words: object, makes: Path, again: bool = False) -> None:
        """Run a command, unless what it makes is there (`again`: the command itself finds out), and note it."""
        if makes.exists() and not again:
            return
        command = [str(word) for word in words]
        print("tuplet", shlex.join(command), flush=True)
        start = time.monotonic()
        subprocess.run([sys.executable, "-m", "tuplet", *command], check=True, stdout=subprocess.DEVNULL)
        seconds = round(time.monotonic() - start, 1)
        print(f"  {seconds} s", flush=True)
        noted = self.noted()
        made = str(makes.relative_to(self.root))
        if made not in noted or not again:  # a run that was there already took its time before
            noted[made] = {"command": f"tuplet {shlex.join(command)}", **circumstances(), "seconds": seconds}
            (self.root / "commands.json").write_text(json.dumps(noted, indent=1), encoding="utf-8")

    def noted(self) -> dict[str, dict[str, Any]]:
        """What made each file here."""
        path = self.root / "commands.json"
        found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found

    def prepare(self) -> None:
        """The graph, and its stores for both readings of what is observed."""
        truth = Path(self.arguments.truth)
        graph, table = self.root / "graph", truth / f"{self.graph}.parquet"
        self.root.mkdir(parents=True, exist_ok=True)
        self.tuplet("data", "fetch", self.graph, "--from-dir", self.arguments.data, "-o", graph, makes=graph)
        # As the paper has it: softmax × count, which is also what a table made elsewhere is taken for.
        made = ["--table", table, "--calibration", "given"]
        if not table.exists():
            made = [truth / self.graph, "--calibration", "softmax-count"]
        for name, observed in (("store", "train,valid"), ("store-train", "train")):
            store = self.root / name
            self.tuplet("index", graph, *made, "--observed", observed, "-o", store, "--quiet", makes=store)

    def sample(self, name: str, shapes: str, count: int, *more: str) -> Path:
        queries = self.root / f"{name}-{count}.parquet"
        words = ("--shapes", shapes, *more, "--per-shape", count, "--seed", self.arguments.seed, "--quiet")
        self.tuplet("bench", "sample", self.root / "graph", *words, *self.workers(), "-o", queries, makes=queries)
        return queries

    def run(self, queries: Path, engine: str, *options: object, store: str = "store") -> Path:
        """The results of an engine; a finished run is found finished."""
        named = [str(o).strip("-").replace("/", "_") for o in options]
        target = self.root / "results" / queries.stem / "-".join([engine, *named, *([store] * (store != "store"))])
        words = (self.root / store, queries, "--engine", engine, *options, *self.workers(), "-o", target, "--quiet")
        self.tuplet("bench", "run", *words, makes=target, again=True)
        return target

    def workers(self) -> list[str]:
        return ["--workers", str(self.arguments.workers)] if self.arguments.workers else []

    def ns3(self, queries: Path, engine: str, budget: int, *more: object, store: str = "store") -> Path:
        return self.run(queries, engine, "--budget", budget, *more, store=store)

    def trained(self, queries: Path) -> list[Path]:
        """The trained baselines whose models are here."""
        found = []
        for name in TRAINED:
            model = Path(self.arguments.models or "") / self.graph / name
            if self.arguments.models and model.exists():
                found.append(self.run(queries, name, "--option", f"model={model}"))
            else:
                self.missing.append(name)
        return found

    def table(self, letter: str) -> list[Path]:
        """The runs of a table."""
        a, budget = self.arguments, self.budget
        if letter == "e":
            queries = self.sample("efok", "published741:k=2,c=2", a.per_type)
            return [self.run(queries, "exact", "--marginals"), self.ns3(queries, "ns3-marginal", budget)]
        if letter == "i":
            queries = self.sample("tuple-h", "paper14", a.per_stratum, "--balance", "predicted")
            ns3 = [self.ns3(queries, engine, budget) for engine in ("ns3", "ns3-marginal")]
            return [self.run(queries, "exact"), *ns3, *(self.run(queries, engine) for engine in SYMBOLIC)]
        shapes = "joint:k=4,joint:k=5" if letter == "f" else "paper14"
        count = a.per_large if letter == "f" else a.per_shape
        queries = self.sample("k45" if letter == "f" else "paper14", shapes, count)
        exact = self.run(queries, "exact")
        if letter == "a":
            pairs = [(engine, store) for store in ("store", "store-train") for engine in ("ns3", "ns3-marginal")]
            found = {pair: self.ns3(queries, pair[0], budget, store=pair[1]) for pair in pairs}
            strict = self.run(queries, "exact", store="store-train")
            return [exact, *list(found.values())[:2], strict, *list(found.values())[2:]]
        if letter == "b":
            return [exact, *(self.ns3(queries, e, b) for e in ("ns3", "ns3-marginal") for b in a.budgets)]
        if letter == "c":
            progressive = self.ns3(queries, "ns3", budget)
            return [exact, progressive, self.ns3(queries, "ns3", budget, "--merge", "simultaneous")]
        if letter == "g":
            return [exact, *(self.run(queries, engine) for engine in SYMBOLIC), *self.trained(queries)]
        return [exact, *(self.ns3(queries, engine, budget) for engine in ("ns3", "ns3-marginal"))]

    def report(self, letter: str) -> tuple[str, list[dict[str, Any]]]:
        """A table as Markdown, and its numbers."""
        if letter == "k":
            return self.statistics()
        runs, report = self.table(letter), self.root / f"report-{letter}"
        words = ("bench", "report", *runs, "--force", "-o", report)
        self.tuplet(*words, makes=report, again=True)
        text = sections((report / "report.md").read_text(encoding="utf-8"))
        if letter == "g" and self.missing:
            text += (
                f"\n\nNot here: {', '.join(self.missing)}. They need a model each (`--models`), trained on a GPU: "
                "`benchmarks/baselines_gpu.py`."
            )
        return text, [row for run in runs for row in self.numbers(letter, run)]

    def numbers(self, letter: str, run: Path) -> list[dict[str, Any]]:
        """The numbers of one run, each with where it comes from."""
        result = Result.read(run)
        origin = {
            **self.noted()[str(run.relative_to(self.root))],
            "graph_hash": result.manifest.store["graph"],
            "query_digest": result.manifest.digest,
        }
        place = {"table": letter, "graph": self.graph, "run": result.label}
        rows = [
            {"metric": metric, "group": group, "value": e.mean, "low": e.low, "high": e.high, "queries": e.queries}
            for groups_of in (result.estimates, result.by_links if letter == "i" else {})
            for metric, groups in groups_of.items()
            for group, e in groups.items()
        ]
        rows += [
            {"metric": metric, "group": "all", "value": value, "low": "", "high": "", "queries": len(result.rows)}
            for metric, value in result.quality.items()
        ]
        return [place | row | origin for row in rows]

    def statistics(self) -> tuple[str, list[dict[str, Any]]]:
        """How large the graph is."""
        command = ["info", str(self.root / "graph"), "--json"]
        found = json.loads(subprocess.check_output([sys.executable, "-m", "tuplet", *command]))
        sizes = {name: found[name] for name in ("entities", "relations")} | found["edges"]
        origin = {"command": f"tuplet {shlex.join(command)}", **circumstances(), "graph_hash": found["hash"]}
        rows = [
            {"table": "k", "graph": self.graph, "run": "graph", "metric": name, "group": "all", "value": value} | origin
            for name, value in sizes.items()
        ]
        line = " | ".join(f"{value:,}" for value in sizes.values())
        return f"| {' | '.join(sizes)} |\n|{'---|' * len(sizes)}\n| {line} |", rows


def circumstances() -> dict[str, str]:
    """On which commit and machine something was measured, and when."""
    here = Path(__file__).parent
    found = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True)
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
    return {"commit": found.stdout.strip() or "unknown", "machine": machine, "date": date}


def sections(text: str) -> str:
    """Of a report in Markdown, what it rests on and the tables that are shown."""
    head, *tables = text.split("\n### ")
    kept = [table.strip() for table in tables if table.startswith(KEPT)]
    lines = [line for line in head.splitlines() if line.startswith("- ")]
    return "\n\n#### ".join(["\n".join(lines), *kept])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of benchmark graphs (see `tuplet data fetch`)")
    parser.add_argument("--graphs", default="fb15k-237,fb15k,nell995", help="their names, separated by commas")
    parser.add_argument("--truth", required=True, help="folder of truth tables GRAPH.parquet, or predictors GRAPH/")
    parser.add_argument("--models", help="folder of trained baselines: GRAPH/lmpnn, GRAPH/betae, …")
    parser.add_argument("--per-shape", type=int, default=500, help="queries of each shape (a, b, c, g)")
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
    letters = arguments.tables.split(",")
    if not set(letters) <= set(TITLES):
        parser.error(f"--tables takes {', '.join(TITLES)}")
    text, numbers = ["# Tables of the NS3 paper, and beyond\n"], []
    target = Path(arguments.output)
    for graph in arguments.graphs.split(","):
        folder = Folder(arguments, graph)
        folder.prepare()
        text.append(f"## {graph}\n")
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
