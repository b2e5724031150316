"""How reliable truth values are before and after a learned calibration, and what each scorer and each group of features
adds.

    python benchmarks/calibration.py GRAPH --table truth.parquet            a truth table made elsewhere
    python benchmarks/calibration.py GRAPH --table truth.parquet --beside path.parquet
                                                                            and beside it, row for row, the log-softmax
                                                                            of a path network: path_forward, _backward
    python benchmarks/calibration.py GRAPH --model MODEL [--device cuda]    a trained predictor: every row is scored
    python benchmarks/calibration.py GRAPH --scored F.npz                   scored edges: heads, relation, tails,
                                                                            scorers (names), logs [scorers, 2, edges]

The columns: precision of the 2,000 and 20,000 surest unseen edges, expected calibration error among unseen edges of
truth 0.1 or more (tenths), logarithmic loss per test edge, the same per valid edge by trees that did not see it (what
choices are made by), and the share of test edges in each tenth from 0.1 on. `--ablation` fits again without each scorer
and each group of features. `--store PREFIX` writes the stores PREFIX-before.store and
PREFIX-learned.store, to be compared with `tuplet bench run`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from tuplet.graph.graph import SPLITS, KnowledgeGraph
from tuplet.truth.calibration.calibrate import THRESHOLD, as_predictions, candidates_of, known_edges, mark_split
from tuplet.truth.calibration.features import GROUPS, LOWEST
from tuplet.truth.calibration.fit import SplitCorrection, Trial, fit
from tuplet.truth.candidates.score import score_candidates
from tuplet.truth.candidates.sources import choose
from tuplet.truth.edges import Predictions, ScoredEdges, observed_facts
from tuplet.truth.recipes import PLAIN_THRESHOLD
from tuplet.truth.store_folder import StoreContent, StoreFiles
from tuplet.truth.store_meta import StoreMeta
from tuplet.truth.table import TruthTable

OBSERVED = ("train", "valid")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", metavar="GRAPH")
    parser.add_argument("--table", metavar="F.parquet")
    parser.add_argument("--beside", metavar="F.parquet")
    parser.add_argument("--model", metavar="MODEL")
    parser.add_argument("--scored", metavar="F.npz")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--store", metavar="PREFIX")
    arguments = parser.parse_args()
    graph = KnowledgeGraph.open(arguments.graph)
    scored = read(arguments, graph)
    given = as_predictions(scored)
    train, valid_edge, test = (mark_split(graph, split, given[:3]) for split in SPLITS)
    unseen, fact = ~(train | valid_edge), test[~(train | valid_edge)]
    sizes = {split: len(graph.edges(split)[0]) for split in ("valid", "test")}
    print(f"{len(test):,} candidates hold {fact.sum() / sizes['test']:.1%} of {sizes['test']:,} test edges")
    titles = ("top 2k", "top 20k", "ECE", "loss", "valid", "fit s", "CPU s", "apply")
    print(f"{'':22} {' '.join(f'{title:>7}' for title in titles)}  facts by truth")
    show("softmax-count", given.prediction[unseen], fact, sizes["test"])
    known, valid = known_edges(graph), torch.from_numpy(valid_edge)
    hidden = SplitCorrection.from_sizes(sizes["valid"], sizes["test"], True)
    for name, some, without in trials(scored, arguments.ablation):
        candidates = candidates_of(some, as_predictions(some))
        began, busy = time.perf_counter(), time.process_time()
        learned = fit([Trial(known, candidates, valid)], hidden, without=without).learned
        fitted, used = time.perf_counter(), time.process_time() - busy
        truth = learned.truth(known, candidates).numpy()
        seconds = (fitted - began, used, time.perf_counter() - fitted)
        held_out = learned.about["loss_per_valid_edge"]["after"]
        show(name, truth[unseen], fact, sizes["test"], held_out, seconds)
        if arguments.store and some is scored and not without:
            write(graph, given, PLAIN_THRESHOLD, f"{arguments.store}-before.store")
            write(graph, given._replace(prediction=truth), THRESHOLD, f"{arguments.store}-learned.store")


Scored = ScoredEdges | Predictions


def trials(scored: Scored, ablation: bool) -> Iterator[tuple[str, Scored, tuple[str, ...]]]:
    """What is fitted: a name, the candidates, the groups left out."""
    yield "learned", scored, ()
    if not ablation:
        return
    if isinstance(scored, ScoredEdges) and len(scored.scorers) > 1:
        for place, scorer in enumerate(scored.scorers):
            rest = tuple(other for other in scored.scorers if other != scorer)
            yield f"without {scorer}", replace(scored, scorers=rest, logs=np.delete(scored.logs, place, 0)), ()
    groups = tuple(group for group in GROUPS if group != "score")
    for group in groups:
        yield f"without {group}", scored, (group,)
    yield "score alone", scored, groups


def read(arguments: argparse.Namespace, graph: KnowledgeGraph) -> Scored:
    """The candidates, with the score of each direction if it is known."""
    if arguments.table and arguments.beside:
        return two_scorers(arguments.table, arguments.beside, graph)
    if arguments.table:
        from tuplet.truth.parquet import GivenTable

        return GivenTable.read(arguments.table, graph, OBSERVED).table().predictions()
    if arguments.scored:
        with np.load(arguments.scored, allow_pickle=False) as arrays:
            ends = (arrays[name] for name in ("heads", "relation", "tails"))
            return ScoredEdges(*ends, tuple(arrays["scorers"].tolist()), arrays["logs"])
    from tuplet.predict import model_folder as files

    predictor = files.load(Path(arguments.model), arguments.device)
    sizes, train = (len(graph.entities), len(graph.relations)), graph.edges("train")
    choice = choose(*sizes, train, graph.edges("valid"))
    return score_candidates({predictor.kind: predictor}, train, choice.sources)


def two_scorers(table: str, beside: str, graph: KnowledgeGraph) -> ScoredEdges:
    """A truth table, which has one number for both directions, and a path network's log-softmax of the same rows."""
    import pyarrow.parquet as pq

    given, paths = pq.read_table(table), pq.read_table(beside)
    names = {"head": graph.entities, "relation": graph.relations, "tail": graph.entities}
    ends = []
    for column, vocabulary in names.items():
        coded = given[column].combine_chunks().dictionary_encode()
        ids = np.array([vocabulary.find(name) for name in coded.dictionary.to_pylist()], dtype=np.int32)
        ends.append(ids[coded.indices.to_numpy()])
    heads, relation, tails = ends
    truth = given["truth"].to_numpy().astype(np.float32)
    logs = np.full((2, 2, len(truth)), np.nan, dtype=np.float32)
    logs[0] = np.log(np.maximum(truth, np.exp(np.float32(LOWEST))))
    # softmax × count, as `index` has it: the known facts in the row of each half-link
    for side, (column, near) in enumerate((("path_forward", heads), ("path_backward", tails))):
        row = relation.astype(np.int64) * len(graph.entities)
        known = graph.edges("train")
        counts = np.bincount(
            known[1].astype(np.int64) * len(graph.entities) + known[2 * side],
            minlength=len(graph.relations) * len(graph.entities),
        )
        own = paths[column].to_numpy(zero_copy_only=False).astype(np.float32)  # null is NaN
        logs[1, side] = own + np.log(np.maximum(counts[row + near], 1))
    # A fact that was no candidate is listed with truth 0. Trees would learn that such edges are facts.
    order = np.lexsort((tails, heads, relation))
    order = order[truth[order] > 0]
    return ScoredEdges(heads[order], relation[order], tails[order], ("complex", "paths"), logs[:, :, order])


def show(
    name: str,
    truth: np.ndarray,
    fact: np.ndarray,
    test: int,
    held_out: float = 0,
    seconds: tuple[float, float, float] = (0, 0, 0),
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
    numbers = f"{top[0]:7.3f} {top[1]:7.3f} {error:7.4f} {loss:7.3f} {held_out:7.3f} "
    numbers += " ".join(f"{number:7.1f}" for number in seconds)
    print(f"{name:22} {numbers}  {' '.join(f'{s:.2f}' for s in share)}", flush=True)


def write(graph: KnowledgeGraph, edges: Predictions, threshold: float, path: str) -> None:
    """A store of these truth values over the observed facts."""
    sizes, facts = (len(graph.entities), len(graph.relations)), observed_facts(graph, OBSERVED)
    table = TruthTable.assemble(*sizes, facts, edges.reaching(threshold), threshold)
    StoreFiles.create(path, StoreContent(graph, table, StoreMeta(graph.hash, OBSERVED, threshold)), force=True)


if __name__ == "__main__":
    main()
