"""Is a joint answer of truth 0.7 right 7 times in 10, and does a fitted correction make it so?

    python benchmarks/tuple_reliability.py STORE [STORE …] --queries Q.parquet [--per-shape 50] [--top 100]
    python benchmarks/tuple_reliability.py STORE --queries Q.parquet --correction [--learned]

Prints what `tuplet bench reliability` prints, and the same by the number of predicted atoms. For each query the exact
engine lists its best tuples that the observed facts do not give; one is right if it is an answer on all splits of the
graph. "By chance" is the error of perfect truth values on the same tuples (edges drawn with their truth as chance).

`--correction` fits a logistic of log-odds of truth (and of the query, and of the number of predicted atoms) where train
is known and valid is hidden, on queries chosen from train alone, and shows what it does to the errors. `--learned` says
that the truth values are of a learned calibration: the chance of being a test edge, given that it is not a valid one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import torch

from tuplet.build import with_valid
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.lab.bench.held_out import TENTHS, JudgedTuples, as_text, everything, families, judge
from tuplet.lab.bench.queries import read_any
from tuplet.lab.bench.sampling import sample
from tuplet.lab.bench.shapes import JOINT
from tuplet.query.source import Source
from tuplet.store import Store, open_store
from tuplet.truth.calibration.reliability import SURE, reliability
from tuplet.truth.edges import HIGHEST_PREDICTION, observed_facts
from tuplet.truth.table import TruthTable


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", metavar="STORE", nargs="+")
    parser.add_argument("--queries", metavar="Q", required=True)
    parser.add_argument("--per-shape", type=int, default=50)
    parser.add_argument("--top", type=int, default=100)
    parser.add_argument("--correction", action="store_true")
    parser.add_argument("--learned", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    queries = read_any(arguments.queries).first(arguments.per_shape)
    for path in arguments.stores:
        store = open_store(path)
        judged = judge(store.source, queries, everything(store.source), arguments.top)
        print(f"{path}, {len(judged)} of {len(queries)} queries have such tuples")
        print(as_text(families(judged)), flush=True)
        show_by_atoms(judged)
        if arguments.correction:
            hidden_valid = as_if_valid_were_hidden(store, arguments.learned)
            chosen = sample(
                without_valid(store.graph), JOINT, arguments.per_shape, 1, target=["valid"], known=["train"]
            )
            known = judge(hidden_valid, chosen, Source(store.graph, ("train", "valid")), arguments.top)
            show_corrections(known, judged, store.graph, arguments.learned)


def show_by_atoms(judged: Sequence[JudgedTuples]) -> None:
    """One line for each number of predicted atoms."""
    truth, right, predicted = (np.concatenate([getattr(j, n) for j in judged]) for n in ("truth", "right", "predicted"))
    for count in np.unique(predicted):
        kept = predicted == count
        found = reliability(truth[kept], right[kept], TENTHS)
        numbers = f"{kept.sum():7} {truth[kept].mean():6.3f} {right[kept].mean():6.3f}"
        print(f"{count} predicted  {numbers} {found.error:6.3f} {'':11} {found.error_from(SURE):8.3f}")


# --- a fitted correction -----------------------------------------------------------------------------------------


def without_valid(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The train edges alone, some of them held out: queries chosen from it know nothing of valid or test edges."""
    edges = graph.edges("train")
    split = np.full(len(edges[0]), SPLIT_CODE["train"], dtype=np.uint8)
    return with_valid(KnowledgeGraph.from_edges(graph.entities, graph.relations, *edges, split), 0.05, 0)


def as_if_valid_were_hidden(store: Store, learned: bool) -> Source:
    """The same predictions over the train facts alone."""
    graph, table = store.graph, store.source.truth
    assert isinstance(table, TruthTable)
    heads, relation, tails, truth = table.predictions()
    if learned:
        # From the chance q of being a test edge if it is no valid one, to that of being one of both (`learned.Hidden`).
        ratio = _sizes(graph)["test"] / _sizes(graph)["valid"]
        sure = np.where(truth > 0.9, 0.9 - 0.1 * np.log1p(-np.clip((truth - 0.9) / 0.1, 0, 1 - 1e-9)), truth)
        truth = np.minimum((1 + ratio) * sure / (ratio + sure), HIGHEST_PREDICTION).astype(np.float32)
    facts = observed_facts(graph, ["train"])
    predicted = (heads, relation, tails, truth)
    made = TruthTable.assemble(table.entities, table.relations, facts, predicted, table.threshold)
    return Source(graph, ("train",), made)


def columns(judged: Sequence[JudgedTuples], kind: str) -> torch.Tensor:
    """What a correction looks at. [n, columns]"""
    truth = np.clip(np.concatenate([one.truth for one in judged]), 1e-6, 1 - 1e-4)
    each = [len(one.truth) for one in judged]
    chosen = [np.ones(len(truth)), np.log(truth / (1 - truth))]
    if kind != "truth":
        chosen.append(np.repeat([one.query.k - 2.0 for one in judged], each))
        for family in ("negation", "cyclic", "exists"):
            chosen.append(np.repeat([float(family in one.groups) for one in judged], each))
    if kind == "truth, query, atoms":
        chosen.append(np.concatenate([one.predicted for one in judged]) - 1.0)
    return torch.from_numpy(np.stack(chosen, axis=1))


def fit(known: Sequence[JudgedTuples], share: float, kind: str) -> torch.Tensor:
    """The weights of a logistic for the chance of being right on all facts, from what is right on train and valid.

    A tuple that rests on m hidden facts is seen to be right if all are valid edges: in `share` ** m of the cases.
    """
    given = columns(known, kind)
    right = torch.from_numpy(np.concatenate([one.right for one in known]).astype(np.float64))
    seen = share ** torch.from_numpy(np.concatenate([one.predicted for one in known]).astype(np.float64))
    start = torch.zeros(given.shape[1], dtype=torch.float64)
    start[1] = 1.0  # the truth as it is
    weights = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        chance = (torch.sigmoid(given @ weights) * seen).clamp(1e-7, 1 - 1e-7)
        value = torch.nn.functional.binary_cross_entropy(chance, right) + 1e-4 * (weights - start).square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weights.detach()


def show_corrections(
    known: Sequence[JudgedTuples], judged: Sequence[JudgedTuples], graph: KnowledgeGraph, learned: bool
) -> None:
    """The errors of the judged tuples before and after each correction."""
    sizes = _sizes(graph)
    share = sizes["valid"] / (sizes["valid"] + sizes["test"])
    right = np.concatenate([one.right for one in judged])
    chances = {"none": np.concatenate([one.truth for one in judged])}
    notes = {"none": ""}
    for kind in ("truth", "truth, query", "truth, query, atoms"):
        weights = fit(known, share, kind)
        chance = torch.sigmoid(columns(judged, kind) @ weights).numpy()
        # Valid edges are known now. Learned truth says so already; else a hidden fact is left with this chance.
        chances[kind] = chance if learned else (1 - share) * chance / (1 - share * chance)
        notes[kind] = " ".join(f"{w:+.2f}" for w in weights.tolist())
    print(f"{'correction by':20} {'ECE':>7} {'from .1':>8} {'log loss':>9}  weights")
    for kind, chance in chances.items():
        found = reliability(chance, right, TENTHS)
        safe = np.clip(chance, 1e-6, 1 - 1e-6)
        loss = -np.where(right, np.log(safe), np.log1p(-safe)).mean()
        print(f"{kind:20} {found.error:7.4f} {found.error_from(SURE):8.4f} {loss:9.4f}  {notes[kind]}", flush=True)


def _sizes(graph: KnowledgeGraph) -> dict[str, int]:
    return {split: len(graph.edges(split)[0]) for split in ("valid", "test")}


if __name__ == "__main__":
    main()
