"""How long `tuplet build` takes, when it says what, and how well what it made ranks the held-out facts.

    python benchmarks/build.py facts.tsv [--minutes 15] [--predictors complex] [--rank 200 ...]

Prints a line with its time for everything that is said, then the filtered valid MRR of each predictor and of the truth
values of the store (out of fold: a calibration never judges an edge it was fitted to; an edge that is not listed ties
with all others that are not).
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tuplet
from tuplet.truth.edges import VALID


def cpu_seconds() -> float:
    """Of this process and those it started."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


class Times:
    """Says what is said, with its time."""

    def __init__(self) -> None:
        self.began, self.step = time.monotonic(), ""

    def __call__(self, step: str, done: float, total: float, note: str) -> None:
        if not total:
            self.say(note)
        elif step != self.step or done >= total:
            self.step = step
            self.say(f"{step} {done:,.0f}/{total:,.0f} {note}")

    def say(self, words: str) -> None:
        print(f"{time.monotonic() - self.began:7.1f} s ({cpu_seconds():6.1f} s of CPU)  {words}", flush=True)


def store_mrr(store: Any) -> float:
    """Filtered MRR of the observed valid edges by the predictions that the store keeps of them, both directions."""
    table, graph = store.source.truth, store.graph
    size = table.entities
    facts, found = table.fact_edges(), []
    valid = facts.source == VALID
    own = np.asarray(table.fact_prediction)[valid]
    guessed = table.predictions()
    h, r, t = (np.asarray(part, dtype=np.int64) for part in guessed[:3])
    known = [np.asarray(part, dtype=np.int64) for part in graph.adjacency.triples()[:3]]
    new = ~np.isin((r * size + h) * size + t, (known[1] * size + known[0]) * size + known[2])
    ends = [np.asarray(part, dtype=np.int64)[valid] for part in (facts.heads, facts.relation, facts.tails)]
    for near, side in ((0, h), (2, t)):
        row = (r * size + side)[new]
        found.append(
            reciprocal_ranks(
                row,
                np.asarray(guessed.prediction)[new],
                ends[1] * size + ends[near],
                own,
                known[1] * size + known[near],
                size,
            )
        )
    return float(np.mean(found))


def reciprocal_ranks(
    row: NDArray[np.int64],
    value: NDArray[np.floating],
    asked: NDArray[np.int64],
    own: NDArray[np.floating],
    known: NDArray[np.int64],
    entities: int,
) -> NDArray[np.float64]:
    """1 / expected rank of each asked edge in its row, among the unknown ones, listed or not."""
    order = np.lexsort((value, row))
    row, value, known = row[order], value[order], np.sort(known)
    result = np.empty(len(asked))
    for number, (key, mine) in enumerate(zip(asked.tolist(), own.tolist(), strict=True)):
        first, end = np.searchsorted(row, [key, key + 1])
        others = value[first:end]
        better = len(others) - np.searchsorted(others, mine, side="right")
        equal = float(np.searchsorted(others, mine, side="right") - np.searchsorted(others, mine))
        if mine <= 0:
            facts = np.searchsorted(known, key + 1) - np.searchsorted(known, key)
            equal += max(0, entities - facts - len(others))
        result[number] = 1 / (1 + better + equal / 2)
    return result


def main() -> None:
    """Build, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--predictors")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--epochs", type=int)
    asked = {key: value for key, value in vars(parser.parse_args()).items() if value is not None}
    times = Times()
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        store = tuplet.build(asked.pop("source"), Path(folder) / "store", keep_model=models, progress=times, **asked)
        times.say("done")
        for file in sorted(models.rglob("model.json")):
            about = json.loads(file.read_bytes())
            trained = f"{about['train_seconds']:.0f} s of training, {about['epochs']} epochs"
            print(f"{about['kind']:<8} valid MRR {about['metrics']['valid']['mrr']:.4f}  ({trained})")
        print(f"{'store':<8} valid MRR {store_mrr(store):.4f}  ({json.dumps(store.info()['report'])[:600]})")


if __name__ == "__main__":
    main()
