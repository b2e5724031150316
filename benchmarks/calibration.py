"""How reliable truth values are before and after a learned calibration, and what each group of features adds.

    python benchmarks/calibration.py GRAPH --table truth.parquet            a truth table made elsewhere
    python benchmarks/calibration.py GRAPH --model MODEL [--device cuda]    a trained predictor: every row is scored
    python benchmarks/calibration.py GRAPH --scored FOLDER                  head, relation, tail, forward, backward .npy

The columns: precision of the 2,000 and 20,000 surest unseen edges, expected calibration error among unseen edges of
truth 0.1 or more (tenths), logarithmic loss per test edge, and the share of test edges in each tenth from 0.1 on.
`--ablation` fits again without each group of features. `--store PREFIX` writes the stores PREFIX-before.store and
PREFIX-learned.store, to be compared with `tuplet bench run`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from tuplet.graph.graph import SPLITS, KnowledgeGraph
from tuplet.truth.edges import Predictions, observed_facts
from tuplet.truth.learned.calibrate import FLOOR, THRESHOLD, candidates_of, marked
from tuplet.truth.learned.features import GROUPS, TrainEdges
from tuplet.truth.learned.fit import SplitCorrection, fit
from tuplet.truth.scored import ScoredEdges
from tuplet.truth.store_folder import StoreFiles
from tuplet.truth.store_meta import StoreMeta
from tuplet.truth.sweep import sweep
from tuplet.truth.table import TruthTable

OBSERVED = ("train", "valid")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", metavar="GRAPH")
    parser.add_argument("--table", metavar="F.parquet")
    parser.add_argument("--model", metavar="MODEL")
    parser.add_argument("--scored", metavar="FOLDER")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--store", metavar="PREFIX")
    arguments = parser.parse_args()
    graph = KnowledgeGraph.open(arguments.graph)
    scored = read(arguments, graph)
    given = scored.predictions() if isinstance(scored, ScoredEdges) else scored
    size = len(graph.entities)
    train, valid_edge, test = (marked(graph, split, *given[:3]) for split in SPLITS)
    unseen, fact = ~(train | valid_edge), test[~(train | valid_edge)]
    sizes = {split: len(graph.edges(split)[0]) for split in ("valid", "test")}
    print(f"{len(test):,} candidates hold {fact.sum() / sizes['test']:.1%} of {sizes['test']:,} test edges")
    titles = ("top 2k", "top 20k", "ECE", "loss", "fit s", "CPU s", "apply")
    print(f"{'':22} {' '.join(f'{title:>7}' for title in titles)}  facts by truth")
    show("softmax-count", given.prediction[unseen], fact, sizes["test"])
    device = arguments.device
    known = TrainEdges.of(size, len(graph.relations), *(tensor(side, device) for side in graph.edges("train")))
    candidates = candidates_of(scored, given, device)
    valid = tensor(valid_edge, device).bool()
    hidden = SplitCorrection.of(sizes["valid"], sizes["test"], True)
    left_out: list[tuple[str, ...]] = [()]
    if arguments.ablation:
        left_out += [(group,) for group in GROUPS if group != "score"]
        left_out.append(tuple(group for group in GROUPS if group != "score"))
    for without in left_out:
        began, busy = time.perf_counter(), time.process_time()
        learned = fit(known, candidates, valid, hidden, without=without).learned
        fitted, used = time.perf_counter(), time.process_time() - busy
        truth = learned.truth(known, candidates).cpu().numpy()
        name = "learned" if not without else "score alone" if len(without) > 1 else f"without {without[0]}"
        seconds = (fitted - began, used, time.perf_counter() - fitted)
        show(name, truth[unseen], fact, sizes["test"], seconds)
        if arguments.store and not without:
            write(graph, given, FLOOR, f"{arguments.store}-before.store")
            write(graph, given._replace(prediction=truth), THRESHOLD, f"{arguments.store}-learned.store")


def read(arguments: argparse.Namespace, graph: KnowledgeGraph) -> ScoredEdges | Predictions:
    """The candidates, with the score of each direction if it is known."""
    if arguments.table:
        from tuplet.truth.parquet import read_table

        return read_table(arguments.table, graph, OBSERVED).predictions()
    if arguments.scored:
        names = ("head", "relation", "tail", "forward", "backward")
        columns = [np.load(Path(arguments.scored) / f"{name}.npy", allow_pickle=False) for name in names]
        return ScoredEdges(*columns[:3], ("complex",), np.stack(columns[3:])[None])
    from tuplet.predict import model_folder as files

    predictor = files.load(Path(arguments.model), arguments.device)
    return sweep(predictor, graph.edges("train"), FLOOR)


def tensor(array: np.ndarray, device: str) -> torch.Tensor:
    """The numbers as int64 on the device."""
    return torch.from_numpy(np.asarray(array, dtype=np.int64)).to(device)


def show(
    name: str, truth: np.ndarray, fact: np.ndarray, test: int, seconds: tuple[float, float, float] = (0, 0, 0)
) -> None:
    """One line of the table."""
    order = np.argsort(-truth, kind="stable")
    top = [fact[order[:count]].mean() for count in (2_000, 20_000)]
    at = np.minimum((truth * 10 + 1e-6).astype(int), 9)
    count, facts, total = (np.bincount(at, weights, 10)[1:] for weights in (None, fact, truth))
    share, mean = facts / np.maximum(count, 1), total / np.maximum(count, 1)
    error = (count * abs(share - mean)).sum() / max(count.sum(), 1)
    chance = np.clip(truth.astype(np.float64), 1e-7, 1 - 1e-6)
    loss = -(np.log(chance[fact]).sum() + np.log1p(-chance[~fact]).sum()) / test
    numbers = (
        f"{top[0]:7.3f} {top[1]:7.3f} {error:7.4f} {loss:7.3f} {seconds[0]:7.1f} {seconds[1]:7.1f} {seconds[2]:7.1f}"
    )
    print(f"{name:22} {numbers}  {' '.join(f'{s:.2f}' for s in share)}", flush=True)


def write(graph: KnowledgeGraph, edges: Predictions, threshold: float, path: str) -> None:
    """A store of these truth values over the observed facts."""
    sizes, facts = (len(graph.entities), len(graph.relations)), observed_facts(graph, OBSERVED)
    table = TruthTable.assemble(*sizes, facts, edges.reaching(threshold), threshold)
    StoreFiles.create(path, graph, table, StoreMeta(graph.hash, OBSERVED, threshold), force=True)


if __name__ == "__main__":
    main()
