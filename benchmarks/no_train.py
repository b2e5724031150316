"""`tuplet build --no-train`: how long it takes, whether its truth comes true, how it answers beside a trained store.

    python benchmarks/no_train.py facts.tsv [--seeds 3] [--share 0.05] [--per-shape 20] [--trained]

For each seed a share of the facts is hidden as a test split, of which a build sees the size alone, and a store is built
of the rest. Prints the seconds, the reliability of truth among the facts that nobody stated (all seeds pooled, since a
small graph has few hidden facts), and with `--per-shape` joint HIT@10 of the exact engine on sampled queries of the
first seed; `--trained` does the same with training.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import tuplet
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.lab.bench.queries import QuerySet
from tuplet.lab.bench.report import Result
from tuplet.lab.bench.results import RunSettings
from tuplet.lab.bench.run import run
from tuplet.lab.bench.sampling import sample
from tuplet.lab.bench.shapes import JOINT
from tuplet.store import Store
from tuplet.truth.calibration.reliability import Reliability, table_reliability


def main() -> None:
    """Build, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--per-shape", type=int, default=0)
    parser.add_argument("--trained", action="store_true")
    arguments = parser.parse_args()
    whole = tuplet.read(arguments.source)
    for train in (False, True) if arguments.trained else (False,):
        found: list[Reliability] = []
        for seed in range(arguments.seeds):
            graph = hidden(whole, arguments.share, seed)
            with tempfile.TemporaryDirectory() as folder:
                path, began = Path(folder) / "store", time.monotonic()
                store = tuplet.build(graph, path, train=train, progress=False)
                print(
                    f"{'trained' if train else 'no training'}, seed {seed}: {time.monotonic() - began:.1f} s",
                    flush=True,
                )
                found += filter(None, [table_reliability(store.graph, store.source.truth, ("train", "valid"))])
                if arguments.per_shape and not seed:
                    show_hits(store, path, queries(graph, arguments.per_shape))
        show_reliability(found)


def hidden(graph: KnowledgeGraph, share: float, seed: int) -> KnowledgeGraph:
    """The graph with a share of its facts in the test split, the others in train."""
    facts = graph.adjacency.edges
    lot = np.random.default_rng(seed).random(facts) < share
    return graph.with_splits(np.where(lot, SPLIT_CODE["test"], SPLIT_CODE["train"]))


def queries(graph: KnowledgeGraph, per_shape: int) -> QuerySet:
    """Joint queries whose answers need hidden facts."""
    return sample(graph, JOINT, per_shape)


def show_hits(store: Store, path: Path, asked: QuerySet) -> None:
    """Joint HIT@10, each shape and the mean."""
    with tempfile.TemporaryDirectory() as folder:
        mine = replace(asked, meta=dict(asked.meta) | {"graph": store.graph.hash})
        run(path, mine, folder, RunSettings("exact"))
        found = {shape: 100 * each.mean for shape, each in Result.read(folder).estimates["hit10"].items()}
    told = "  ".join(f"{shape} {value:.1f}" for shape, value in found.items())
    print(f"joint HIT@10 of {len(asked)} queries: {told}", flush=True)


def show_reliability(found: list[Reliability]) -> None:
    """What was promised and what came true, all together."""
    entries, facts = (sum(getattr(one, name) for one in found) for name in ("entries", "facts"))
    mean = sum(one.entries * one.mean for one in found) / np.maximum(entries, 1)
    pooled = Reliability(found[0].bins, entries, facts, mean)
    print(f"ECE {pooled.error:.4f}, from 0.1 on {pooled.error_from(0.1):.4f}")
    for low, high, count, told, share in zip(pooled.bins, pooled.bins[1:], entries, mean, pooled.share, strict=False):
        print(f"  truth {low:.3f} to {high:.3f}: {count:8,} edges, promised {told:.3f}, came true {share:.3f}")


if __name__ == "__main__":
    main()
