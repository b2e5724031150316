"""Check how well the tests watch: one-line mutants, each judged by the tests of its room.

    python tools/mutants.py --count 120 --workers 2      # a sample of all rooms below, seeded by the last commit
    python tools/mutants.py --only engines --count 20 --seed 7
    python tools/mutants.py --list --count 120           # show the mutants, run nothing

A mutant is one changed operator, constant or condition, in kernels too. It is killed if a test fails or runs out of
time; the log names the test. Survivors are printed with their line. Results are appended to the file of --log, and an
interrupted run resumes there.

Most mutants die within seconds if the tests that run their line come first. `--coverage` names the data file of a run
of the tests under coverage with `dynamic_context = test_function`; what survives these tests faces all of its room.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The tests of each room, the quickest first.
TESTS = {
    "lang": ["tests/lang"],
    "query": ["tests/query", "tests/test_answers.py", "tests/test_display.py", "tests/test_store.py",
              "tests/test_store_attributes.py", "tests/engines/test_exact_order.py",
              "tests/contracts/test_contract_deadline.py", "tests/engines/test_many.py", "tests/contracts"],
    "graph": ["tests/graph", "tests/test_store_attributes.py", "tests/test_store_changes.py", "tests/contracts"],
    "read": ["tests/graph", "tests/test_cli_reading.py", "tests/test_docs_your_data.py"],
    "truth": ["tests/truth", "tests/test_store_changes.py", "tests/contracts/test_contract_generations.py"],
    "engines": ["tests/engines", "tests/contracts", "tests/test_random_queries.py"],
    "proof": ["tests/proof"],
    "predict": ["tests/predict"],
}  # fmt: skip
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
MOST_TESTS = 30  # that run first
NEED_TRITON = ("triton_kernels.py", "product_kernels.py")
HARMLESS = ("strict", "frozen", "slots", "eq", "cache", "nogil", "maxsize")
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Mutant:
    """One change: a stretch of a line replaced."""

    file: str
    line: int
    start: int
    end: int
    text: str

    @property
    def folder(self) -> str:
        return Path(self.file).parts[2]

    def source(self) -> str:
        lines = (ROOT / self.file).read_text(encoding="utf-8").split("\n")
        old = lines[self.line - 1]
        lines[self.line - 1] = old[: self.start] + self.text + old[self.end :]
        return "\n".join(lines)

    def __str__(self) -> str:
        line = (ROOT / self.file).read_text(encoding="utf-8").split("\n")[self.line - 1]
        return f"{self.file}:{self.line}: {line[self.start : self.end]!r} → {self.text!r}   in   {line.strip()}"


def mutants(file: Path) -> Iterator[Mutant]:
    """Every mutant of a file whose changed expression stands on one line; annotations and messages are left alone."""
    name = str(file.relative_to(ROOT))
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = {id(inner) for node in ast.walk(tree) for part in _untested(node) for inner in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in skipped or not hasattr(node, "lineno") or node.lineno != getattr(node, "end_lineno", 0):
            continue
        changed = _changed(node)
        if changed is not None:
            yield Mutant(name, node.lineno, node.col_offset, node.end_col_offset or 0, changed)


def _untested(node: ast.AST) -> Iterator[ast.AST]:
    """Parts that no test can watch: annotations, the text of errors, checks of what cannot happen."""
    if isinstance(node, ast.FunctionDef):
        yield from (a.annotation for a in [*node.args.args, *node.args.kwonlyargs] if a.annotation)
        yield from [node.returns] if node.returns else []
    elif isinstance(node, ast.AnnAssign):
        yield node.annotation
    elif isinstance(node, ast.Raise | ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg in HARMLESS):
        yield node
    elif isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) and t.id[:1].isupper() for t in node.targets):
        yield node  # constants: sizes of blocks and tables, and aliases of types


def _changed(node: ast.AST) -> str | None:
    """The source of the changed expression."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        return ast.unparse(ast.Compare(node.left, [SWAPS[type(node.ops[0])]()], node.comparators))
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        return f"({ast.unparse(ast.BinOp(node.left, SWAPS[type(node.op)](), node.right))})"
    if isinstance(node, ast.BoolOp):
        return f"({ast.unparse(ast.BoolOp(SWAPS[type(node.op)](), node.values))})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"({ast.unparse(node.operand)})"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return str(not node.value)
    if isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value < 64:
        return str(node.value + 1)
    if isinstance(node, ast.Name) and node.id in CALLS:
        return CALLS[node.id]
    return None


def sample(folders: list[str], count: int, seed: int) -> list[Mutant]:
    """A random sample, each room in proportion to its lines. Kernels for GPUs need Triton's interpreter."""
    files = [file for folder in folders for file in sorted((ROOT / "src/tuplet" / folder).rglob("*.py"))]
    if importlib.util.find_spec("triton") is None:
        files = [file for file in files if file.name not in NEED_TRITON]
        print(f"without {' and '.join(NEED_TRITON)}: triton is not installed, so their tests do not run")
    found = [mutant for file in files for mutant in mutants(file)]
    return random.Random(seed).sample(found, min(count, len(found)))


def tests_of_line(mutant: Mutant, data: Path | None) -> list[str]:
    """The tests that run the line of a mutant, at most MOST_TESTS of them, by the contexts of a coverage run."""
    if data is None:
        return []
    from coverage import CoverageData

    read = CoverageData(str(data))
    read.read()
    measured = next((file for file in read.measured_files() if file.endswith(mutant.file)), "")
    found = []
    for context in sorted(read.contexts_by_lineno(measured).get(mutant.line, [])):
        module, _, test = context.rpartition("tests.")[2].rpartition(".")
        files = sorted(ROOT.glob(f"tests/**/{module.rpartition('.')[2]}.py"))
        found += [f"{file.relative_to(ROOT)}::{test}" for file in files if test.startswith("test_")]
    return random.Random(0).sample(found, min(MOST_TESTS, len(found)))


def killer(mutant: Mutant, seconds: float, data: Path | None) -> str | None:
    """The test that fails on a mutant, or why none ended; None if all tests of its room pass."""
    with tempfile.TemporaryDirectory() as folder:
        # Compiled code is cached by the file that calls it, so a changed kernel needs an empty cache.
        stale = ["__pycache__"] if "kernels" in mutant.file else []
        shutil.copytree(ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("*.egg-info", *stale))
        (Path(folder) / mutant.file).write_text(mutant.source(), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": f"{folder}/src", "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("TUPLET_DATA", None)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header"]
        room = [f"{folder}/{mutant.file}", *TESTS[mutant.folder]]
        for tests in filter(None, (tests_of_line(mutant, data), room)):
            try:
                done = subprocess.run(
                    [*command, *tests], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds
                )
            except subprocess.TimeoutExpired:
                return f"more than {seconds:g} s"
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
            if done.returncode not in (0, 4, 5):  # 4: a test that is not found, 5: none were
                return failed[1] if failed else f"exit code {done.returncode}"
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, help="default: from the hash of the last commit")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=list(TESTS), action="append")
    parser.add_argument("--seconds", type=float, default=1800, help="time after which a mutant counts as killed")
    parser.add_argument("--log", type=Path, default=ROOT / "out" / "mutants.jsonl")
    parser.add_argument("--coverage", type=Path, help="data file of a coverage run with a context for each test")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    seed = options.seed
    if seed is None:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
        seed = int(commit.stdout[:8], 16)
        print(f"seed {seed}, from commit {commit.stdout[:12]}")
    chosen = sample(options.only or list(TESTS), options.count, seed)
    if options.list:
        print("\n".join(map(str, chosen)))
        return
    options.log.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, str | None] = {}
    if options.log.exists():
        known = {row["mutant"]: row["killer"] for row in map(json.loads, options.log.read_text().splitlines())}

    def judge(mutant: Mutant) -> str | None:
        name = str(mutant)
        if name not in known:
            known[name] = killer(mutant, options.seconds, options.coverage)
            with options.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps({"mutant": name, "killer": known[name], **asdict(mutant)}) + "\n")
            print(f"SURVIVED  {name}" if known[name] is None else f"killed    {name}   by {known[name]}", flush=True)
        return known[name]

    with ThreadPoolExecutor(options.workers) as pool:
        results = list(pool.map(judge, chosen))
    survivors = [mutant for mutant, by in zip(chosen, results, strict=True) if by is None]
    dead = len(chosen) - len(survivors)
    print(f"\n{dead} of {len(chosen)} killed ({100 * dead / max(1, len(chosen)):.1f} %); survivors:")
    print("\n".join(f"  {mutant}" for mutant in survivors) or "  none")


if __name__ == "__main__":
    main()
