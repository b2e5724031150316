"""Time, memory and quality of the symbolic baselines beside NS3(M), query by shape, on one thread.

    python benchmarks/symbolic.py STORE QUERIES [--engines ns3-marginal,fit,qto,cqd] [--queries 20] [--option KEY=VALUE]

QUERIES is a file of `tuplet bench sample`. Each engine runs in a process of its own; the queries of a shape are
answered as one batch. ms is the mean wall-clock time of a query from query graphs to ranks, without loading the table.
HIT@10 is of the ranking by products, Marginal HIT@10 of each variable on its own (over queries with a hard value). The
peak is that of the process, all included.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))


def measure(engine: str, arguments: argparse.Namespace) -> None:
    import numpy as np
    import torch

    from tuplet.lab.bench.queries import read_any
    from tuplet.lab.bench.results import RunSettings
    from tuplet.lab.bench.run import Evaluator
    from tuplet.settings import pairs
    from tuplet.store import open_store

    torch.set_num_threads(1)
    source = open_store(arguments.store).source
    options = {} if RunSettings(engine).runner().prunes else pairs("--option", arguments.option)
    evaluator = Evaluator(source, RunSettings(engine, options=options))
    evaluator.warm()
    print(f"\n{engine} {options}\n\n| shape | answered | ms | HIT@10 | Marginal HIT@10 |\n|---|---|---|---|---|")
    means = []
    for shape, members in read_any(arguments.queries).by_shape().items():
        rows = evaluator.evaluate(members[: arguments.queries_per_shape])
        answered = [row for row in rows if row.answered]
        if not answered:
            print(f"| {shape} | 0 | {rows[0].pruned} |")
            continue
        ms = np.mean([row.ms for row in answered])
        hits = 100 * np.mean([row.hit10 for row in rows])
        marginal = 100 * np.mean([row.marginal_hit10 for row in rows if row.marginal_hit10 is not None])
        means.append((ms, hits, marginal))
        print(f"| {shape} | {len(answered)} | {ms:.1f} | {hits:.1f} | {marginal:.1f} |", flush=True)
    print("| mean | | " + " | ".join(f"{mean:.1f}" for mean in np.mean(means, axis=0)) + " |")
    print(f"\npeak memory {getrusage(RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("queries")
    parser.add_argument("--engines", default="ns3-marginal,fit,qto,cqd")
    parser.add_argument("--queries", dest="queries_per_shape", type=int, default=20, metavar="N", help="of each shape")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="of the baseline")
    arguments = parser.parse_args()
    engines = arguments.engines.split(",")
    if len(engines) == 1:
        return measure(engines[0], arguments)
    options = [word for option in arguments.option for word in ("--option", option)]
    for engine in engines:
        count = str(arguments.queries_per_shape)
        command = [__file__, arguments.store, arguments.queries, "--engines", engine, "--queries", count, *options]
        subprocess.run([sys.executable, *command], check=True)
    return None


if __name__ == "__main__":
    main()
