"""What each trick of docs/contributing/tricks.md gains: the same work with and without it, in turn, in CPU time.

python benchmarks/tricks.py                # all but the compilation, which takes minutes
python benchmarks/tricks.py compile        # one of them
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

Work = Callable[[], object]


def compare(trick: str, with_it: Work, without: Work, times: int = 9, inner: int = 1) -> None:
    """Prints the median CPU time of both, taken in turn."""
    took: tuple[list[float], list[float]] = [], []
    for _ in range(times):
        for work, own in zip((with_it, without), took, strict=True):
            start = time.process_time()
            for _ in range(inner):
                work()
            own.append((time.process_time() - start) / inner)
    mine, other = (1000 * statistics.median(own) for own in took)
    print(f"{trick:24} with {mine:10.4f} ms   without {other:10.4f} ms   ratio {other / mine:6.2f}")


def addresses() -> None:
    """Conditions give kernels the addresses of their columns; without, the columns are copied into one array."""
    from tuplet.engines.condition_tests import ConditionTests
    from tuplet.graph.attributes import Ranked
    from tuplet.query.conditions import Within

    for size in (10_000, 5_000_000):
        values = Ranked(np.arange(size, dtype=np.int32), np.arange(size, dtype=np.int32)[::-1].copy())
        conditions = [Within(0, values, 0, 9), Within(1, values, 5, 9)]

        def copied(values: Ranked = values) -> object:
            return np.concatenate([values.keys, values.rank])

        compare(f"addresses, {size:,}", lambda: ConditionTests(conditions), copied)  # noqa: B023


def spare() -> None:
    """The memory of a finished search serves the next one."""
    from tuplet.engines import exact
    from tuplet.engines.exact import stream
    from tuplet.query.ranking import Edge, QueryGraph
    from tuplet.truth.table import TruthTable

    rng = np.random.default_rng(0)
    heads, tails = rng.integers(0, 1000, (2, 5000))
    truth, zeros = rng.random(5000), np.zeros(5000, dtype=np.int64)
    table = TruthTable.build(1000, 1, heads, zeros, tails, truth, zeros.astype(bool))
    plan = exact.plan([QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1)))], table)
    exact.run(plan, 10)

    def without() -> None:
        stream._spare.clear()
        exact.run(plan, 10)

    compare("memory used again", lambda: exact.run(plan, 10), without, inner=500)


def packed_names() -> None:
    """Tuples in the order of their names by one number each; without, column by column."""
    from tuplet.engines.crisp import name_order

    rng = np.random.default_rng(0)
    tuples, rank = rng.integers(0, 50_000, (1_000_000, 3)).astype(np.int32), rng.permutation(50_000).astype(np.int32)
    compare("packed names", lambda: name_order(tuples, rank), lambda: np.lexsort(rank[tuples].T[::-1]), times=3)


def packed_truths() -> None:
    """Rows by falling truth and name by one number each, from the bits of the truth; without, by two keys."""
    rng = np.random.default_rng(0)
    best, rank = rng.random(1_000_000).astype(np.float32), rng.permutation(1_000_000).astype(np.int32)

    def packed() -> object:
        return np.argsort(((0x7FFFFFFF - best.view(np.int32).astype(np.int64)) << 32) | rank, kind="stable")

    compare("packed truths", packed, lambda: np.lexsort((rank, -best)), times=3)


def marks() -> None:
    """Different entities are found by marking; without, by sorting."""
    import torch

    from tuplet.engines.ns3.tensors import distinct

    some = torch.as_tensor(np.random.default_rng(0).integers(0, 1_000_000, 500_000))
    compare("marks", lambda: distinct([some], len(some), 1_000_000, some.device), lambda: torch.unique(some))


def compile_() -> None:
    """Kernels call conditions by their address; without, they are inlined wherever they are looked at."""
    inlined = "from tuplet.engines import kernels; kernels.call_test = kernels.inlined(kernels.holds)"
    for name, before in (("with", "pass"), ("without", inlined)):
        code = f"{before}; from tuplet.engines import exact; exact.warm(); import tuplet.engines.crisp.kernels"
        with tempfile.TemporaryDirectory() as cache:
            before_it = os.times()
            subprocess.run([sys.executable, "-c", code], env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True)
            after = os.times()
        seconds = after.children_user + after.children_system - before_it.children_user - before_it.children_system
        print(f"conditions by address    {name:8} {seconds:6.1f} s of CPU to compile")


TRICKS: dict[str, Callable[[], None]] = {
    "addresses": addresses,
    "spare": spare,
    "names": packed_names,
    "truths": packed_truths,
    "marks": marks,
    "compile": compile_,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tricks", nargs="*", help=", ".join(TRICKS))
    for name in parser.parse_args().tricks or [name for name in TRICKS if name != "compile"]:
        TRICKS[name]()


if __name__ == "__main__":
    main()
