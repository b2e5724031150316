"""All tables of docs/benchmark/reproduce.md for one graph, from its files to Markdown; what is done is not done again.

    python benchmarks/paper_tables.py --data DATA --graph fb15k-237 --truth TRUTH.parquet --per-shape 500 -o OUT

Tables: a the 14 shapes, b budget sweep (with d, recall and certificates), c progressive against simultaneous merging,
e EFOk-CQA types with two free variables and two constants, f four and five free variables. Every step is a `tuplet`
command, printed before it runs. The tables are written to OUT/GRAPH.md, the full reports with charts to OUT/report-*.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from pathlib import Path

BUDGETS = (1000, 2000, 4000, 6000, 8000)
TITLES = {
    "a": "The 14 shapes",
    "b": "Budget sweep, recall and certificates",
    "c": "Progressive against simultaneous merging",
    "e": "EFOk-CQA types, two free variables and two constants",
    "f": "Four and five free variables",
}
KEPT = ("Joint HIT@10", "Marginal, Multiply, Joint", "Coverage, time and memory")


class Folder:
    """The folder of one graph, and the steps that fill it."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.root = Path(arguments.output)
        self.budget = arguments.budget or (6000 if arguments.graph == "nell995" else 4000)

    def tuplet(self, *words: object, makes: Path | None = None) -> None:
        """Run a command, unless what it makes is there."""
        if makes is not None and makes.exists():
            return
        command = [str(word) for word in words]
        print("tuplet", shlex.join(command), flush=True)
        start = time.monotonic()
        subprocess.run([sys.executable, "-m", "tuplet", *command], check=True, stdout=subprocess.DEVNULL)
        print(f"  {time.monotonic() - start:.1f} s", flush=True)

    def prepare(self) -> None:
        """The graph, and its stores for both readings of what is observed."""
        a = self.arguments
        graph = self.root / "graph"
        self.tuplet("data", "fetch", a.graph, "--from-dir", a.data, "-o", graph, makes=graph)
        # As the paper has it: softmax × count, which is also what a table made elsewhere is taken for.
        made = (
            ["--table", a.truth, "--calibration", "given"] if a.truth else [a.model, "--calibration", "softmax-count"]
        )
        for name, observed in (("store", "train,valid"), ("store-train", "train")):
            store = self.root / name
            self.tuplet("index", graph, *made, "--observed", observed, "-o", store, makes=store)

    def sample(self, name: str, shapes: str, count: int) -> Path:
        queries = self.root / f"{name}-{count}.parquet"
        words = ("--shapes", shapes, "--per-shape", count, "--seed", self.arguments.seed)
        self.tuplet("bench", "sample", self.root / "graph", *words, *self.workers(), "-o", queries, makes=queries)
        return queries

    def run(self, queries: Path, engine: str, *options: object, store: str = "store") -> Path:
        """The results of an engine; a finished run is found finished."""
        name = "-".join([engine, *(str(o).strip("-") for o in options), *([] if store == "store" else [store])])
        target = self.root / "results" / queries.stem / name
        words = (self.root / store, queries, "--engine", engine, *options, *self.workers(), "-o", target)
        self.tuplet("bench", "run", *words)
        return target

    def workers(self) -> list[str]:
        return ["--workers", str(self.arguments.workers)] if self.arguments.workers else []

    def ns3(self, queries: Path, engine: str, budget: int, *more: object, store: str = "store") -> Path:
        return self.run(queries, engine, "--budget", budget, *more, store=store)

    def table(self, letter: str) -> list[Path]:
        """The runs of a table."""
        a, budget = self.arguments, self.budget
        if letter == "e":
            queries = self.sample("efok", "published741:k=2,c=2", a.per_type)
            return [self.run(queries, "exact", "--marginals"), self.ns3(queries, "ns3-marginal", budget)]
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
        return [exact, *(self.ns3(queries, engine, budget) for engine in ("ns3", "ns3-marginal"))]


def sections(text: str) -> str:
    """Of a report in Markdown, what it rests on and the tables that are shown."""
    head, *tables = text.split("\n### ")
    kept = [table.strip() for table in tables if table.startswith(KEPT)]
    lines = [line for line in head.splitlines() if line.startswith("- ")]
    return "\n\n### ".join(["\n".join(lines), *kept])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of benchmark graphs (see `tuplet data fetch`)")
    parser.add_argument("--graph", default="fb15k-237", help="its name: fb15k-237, fb15k, nell995, …")
    made = parser.add_mutually_exclusive_group(required=True)
    made.add_argument("--truth", help="a truth table made elsewhere (Parquet)")
    made.add_argument("--model", help="a trained or adopted predictor")
    parser.add_argument("--per-shape", type=int, default=500, help="queries of each shape (a, b, c)")
    parser.add_argument("--per-large", type=int, default=100, help="queries of each shape with k = 4 and 5 (f)")
    parser.add_argument("--per-type", type=int, default=50, help="queries of each EFOk-CQA type (e)")
    parser.add_argument("--budget", type=int, help="of NS3 (default: 4000; 6000 for nell995)")
    parser.add_argument("--budgets", type=lambda text: [int(b) for b in text.split(",")], default=BUDGETS)
    parser.add_argument("--tables", default="a,b,c,e,f", help="which, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, help="processes (default: one per processor)")
    parser.add_argument("-o", "--output", required=True)
    folder = Folder(parser.parse_args())
    letters = folder.arguments.tables.split(",")
    if not set(letters) <= set(TITLES):
        parser.error(f"--tables takes {', '.join(TITLES)}")
    folder.root.mkdir(parents=True, exist_ok=True)
    folder.prepare()
    text = [f"# {folder.arguments.graph}\n"]
    for letter in letters:
        report = folder.root / f"report-{letter}"
        folder.tuplet("bench", "report", *folder.table(letter), "--force", "-o", report)
        text += [f"## {letter}. {TITLES[letter]}\n", sections((report / "report.md").read_text(encoding="utf-8")), ""]
    target = folder.root / f"{folder.arguments.graph}.md"
    target.write_text("\n".join(text), encoding="utf-8")
    print(target)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.returncode) from None
