"""The exact engine of this checkout against that of another one, on the same queries, alternating shape by shape.

    git worktree add ../first e42f012          # the first version, for example
    python benchmarks/against.py ../first fb15k-237 nell995 fb15k --queries 100 --rounds 5

Each version runs in a process of its own; they take turns shape by shape, and of each query the least CPU time of all
rounds counts, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
WORKER = """
import json, sys, time
from pathlib import Path
root, graph, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
sys.path[:0] = [str(root / "src"), str(root / "benchmarks")]
import exact as benchmark
try:
    from tuplet.engines import exact
    def ask(query, table): exact.run(exact.plan([query], table), 100)
except ImportError:  # the first version
    from tuplet.engine import exact
    def ask(query, table): exact.run(exact.plan([query], table), table, 100)
table, triples = benchmark.read_table(graph, Path(sys.argv[4]))
exact.warm()
sampler = benchmark.Sampler(triples, 0)
queries = {name: [sampler.sample(atoms) for _ in range(count)] for name, atoms in benchmark.SHAPES.items()}
print(json.dumps(list(queries)), flush=True)
for line in sys.stdin:
    took = []
    for query in queries[line.strip()]:
        start = time.thread_time()
        ask(query, table)
        took.append(1e3 * (time.thread_time() - start))
    print(json.dumps(took), flush=True)
"""


class Version:
    """One checkout at work."""

    def __init__(self, root: Path, worker: str, *arguments: str) -> None:
        command = [sys.executable, "-c", worker, str(root), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.shapes: list[str] = self._answer()

    def _answer(self) -> list:  # type: ignore[type-arg]
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())  # type: ignore[no-any-return]

    def times(self, shape: str) -> list[float]:
        """Milliseconds of every query of a shape."""
        assert self.process.stdin is not None
        self.process.stdin.write(shape + "\n")
        self.process.stdin.flush()
        return self._answer()


def compare(other: Path, graph: str, count: int, rounds: int, data: str) -> None:
    """Prints a table for one graph."""
    print(f"\n### {graph}: K = 100, {count} queries a shape, least CPU time of {rounds} alternating rounds\n")
    turns([Version(root, WORKER, graph, str(count), data) for root in (other, HERE)], rounds)


def turns(versions: list[Version], rounds: int) -> None:
    """Prints how two versions, the other one first, do on every shape."""
    print("| shape | other, mean ms | this, mean ms | times faster | medians |\n|---|---|---|---|---|")
    totals = [0.0, 0.0]
    for shape in versions[0].shapes:
        best: list[list[float]] = [[], []]
        for turn in range(rounds):
            for i in (0, 1) if turn % 2 == 0 else (1, 0):
                times = versions[i].times(shape)
                best[i] = [min(pair) for pair in zip(best[i] or times, times, strict=True)]
        means = [statistics.mean(times) for times in best]
        totals = [total + mean for total, mean in zip(totals, means, strict=True)]
        medians = " / ".join(f"{statistics.median(times):.3f}" for times in best)
        print(f"| {shape} | {means[0]:.3f} | {means[1]:.3f} | {means[0] / means[1]:.2f} | {medians} |", flush=True)
    mean = [total / len(versions[0].shapes) for total in totals]
    print(f"| mean | {mean[0]:.3f} | {mean[1]:.3f} | {mean[0] / mean[1]:.2f} | |")
    for version in versions:
        version.process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the root of another checkout")
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", default=os.environ.get("TUPLET_DATA"), help="benchmark graphs (default $TUPLET_DATA)")
    options = parser.parse_args()
    for graph in options.graphs:
        compare(options.other.resolve(), graph, options.queries, options.rounds, options.data)


if __name__ == "__main__":
    main()
