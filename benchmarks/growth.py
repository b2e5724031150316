"""How import, an epoch of training and the candidate index grow with the graph: CPU seconds, memory, exponents.

    python benchmarks/growth.py WORK --entities 10000 100000 1000000 [--kinds searched]

For each size it makes a graph of ten facts an entity and 200 relations (large_graph.py), of which a hundredth are held
out, imports it, trains ComplEx (rank 50, sampled softmax as `tuplet build` plans it; one epoch) and lists the
candidates of the half-links of every tenth relation × ends of confidence 0.3: by all scores, or by those of the nearest
columns (`searched`, what `tuplet index` does with a graph of so many facts), with the share of held-out facts that are
listed. Every step is a process of its own. What is there already is not made again. Prints a line of JSON for each
size, then the exponents between neighbouring sizes; what a process needs to start (the same step on a graph of 100
entities) does not count.

    python benchmarks/growth.py GRAPH --model MODEL --index searched --per-fact 256 --floor 0.002 --most 32

lists the candidates of any graph and model alone, by other bounds.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from large_graph import make, write_names
from scale import measured

SEED, RELATIONS, EVERY, LEAST = 0, 200, 10, 0.3
TRAINING = ("--rank", "50", "--epochs", "1", "--batch", "250", "--negatives", "100", "--evaluate-every", "0")
KINDS = ("scored", "searched")
START = 100  # entities of the graph that shows what starting takes


def one(work: Path, entities: int, kinds: tuple[str, ...]) -> dict[str, Any]:
    """All steps of one size; each is kept in a file of its own."""
    folder = work / str(entities)
    folder.mkdir(parents=True, exist_ok=True)
    facts, valid, graph, model = (folder / name for name in ("facts.parquet", "valid.parquet", "graph", "model"))
    if not valid.exists():
        import numpy as np

        made = make(entities, RELATIONS, 10 * entities, SEED)
        order = np.random.default_rng(SEED).permutation(len(made.heads))
        for code, path in enumerate((facts, valid)):
            write_names(path, made, RELATIONS, order[made.held_out[order] == code])
        del made, order
    steps: dict[str, tuple[str, ...]] = {
        "import": ("import", str(facts), "--valid", str(valid), "-o", str(graph), "--force"),
        "epoch": ("train", str(graph), "-o", str(model), *TRAINING, "--device", "cpu", "--quiet", "--force"),
    }
    found: dict[str, Any] = {"entities": entities}
    for name, command in steps.items():
        found[name] = kept(folder / f"{name}.json", lambda command=command: measured(*command))  # type: ignore[misc]
    for kind in kinds:
        command = [sys.executable, __file__, str(graph), "--model", str(model), "--index", kind]
        found[kind] = kept(folder / f"{kind}.json", lambda c=command: json.loads(subprocess.check_output(c)))  # type: ignore[misc]
    return found


def kept(path: Path, work: Any) -> Any:
    """What a file holds, or what the work gives and the file holds from now on."""
    if not path.exists():
        result = work()
        path.write_text(json.dumps(result))
    return json.loads(path.read_text())


def index(graph_folder: Path, model_folder_: Path, kind: str, per_fact: int, floor: float, most: int) -> dict[str, Any]:
    """List the candidates of every tenth relation."""
    import resource

    import numpy as np
    import torch

    from tuplet.graph.graph import KnowledgeGraph
    from tuplet.predict import model_folder
    from tuplet.truth.candidates.scorer import CandidateScorer
    from tuplet.truth.candidates.sources import CandidateSources
    from tuplet.truth.edges import SearchCheck
    from tuplet.truth.rules import Calibration

    torch.set_num_threads(1)  # waiting for each other would count as work
    graph = KnowledgeGraph.open(graph_folder)
    began, clock = time.process_time(), time.perf_counter()
    sources = CandidateSources(LEAST, most=most or None, per_fact=per_fact if kind == "searched" else None)
    model = {"model": model_folder.load(model_folder_)}
    scorer = CandidateScorer(model, graph.edges("train"), sources, floor, Calibration())
    prepared = time.process_time() - began
    rows = pairs = listed = 0
    parts, check = {}, SearchCheck()
    with torch.inference_mode():
        for number in range(0, len(graph.relations), EVERY):
            links = scorer.links(number)
            rows += sum(len(side.rows) for both in links for side in both)
            pairs += sum(int(side.looks().sum()) for both in links for side in both)
            parts[number] = scorer.relation(number, rows=scorer.rows(links))
            listed, check = listed + len(parts[number]["heads"]), check + SearchCheck.from_part(parts[number])
    seconds = {"cpu_s": time.process_time() - began, "prepared_s": prepared, "wall_s": time.perf_counter() - clock}
    heads, relation, tails = (np.asarray(side, dtype=np.int64) for side in graph.edges("valid"))
    held_out = found = 0
    for number, part in parts.items():
        keys = part["heads"].astype(np.int64) * len(graph.entities) + part["tails"]
        hidden = (heads * len(graph.entities) + tails)[relation == number]
        held_out, found = held_out + len(hidden), found + int(np.isin(hidden, keys).sum())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {
        **{name: round(value, 2) for name, value in seconds.items()},
        "peak_gb": round(peak, 2),
        "rows": rows,
        "pairs": pairs,
        "listed": listed,
        "held_out": held_out,
        "held_out_listed": round(found / max(1, held_out), 4),
        "check": check.as_dict(),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder for files, graphs and models")
    parser.add_argument("--entities", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS, help="of index")
    parser.add_argument("--again", action="store_true", help="measure again what was measured")
    parser.add_argument("--model", type=Path, help="of the graph in WORK, with --index")
    parser.add_argument("--index", choices=KINDS, help="that alone")
    parser.add_argument("--per-fact", type=int, default=512, help="columns that a row looks at for each fact")
    parser.add_argument("--floor", type=float, default=0.008, help="truth in one direction from which on it is listed")
    parser.add_argument("--most", type=int, default=0, help="edges that a row lists beside as many as it has facts")
    asked = parser.parse_args()
    if asked.index:
        print(json.dumps(index(asked.work, asked.model, asked.index, asked.per_fact, asked.floor, asked.most)))
        return
    if asked.again:
        for name in asked.work.glob("[0-9]*/*.json"):
            name.unlink()
    kinds = tuple(asked.kinds)
    one(asked.work / "first", START, kinds)  # compiles what is compiled once
    start = one(asked.work, START, kinds)
    found = []
    for entities in sorted(asked.entities):
        found.append(one(asked.work, entities, kinds))
        print(json.dumps(found[-1]), flush=True)
    for less, more in pairwise(found):
        ratio = math.log(more["entities"] / less["entities"])
        exponents = {}
        for step in ("import", "epoch", *kinds):
            first, second = (max(0.01, size[step]["cpu_s"] - start[step]["cpu_s"]) for size in (less, more))
            exponents[step] = round(math.log(second / first) / ratio, 2)
        print(json.dumps({"from": less["entities"], "to": more["entities"], "exponents": exponents}), flush=True)


if __name__ == "__main__":
    main()
