"""Train and index a graph of Wikidata5M's size on one GPU, stage by stage.

    python benchmarks/wikidata5m_size.py WORK                      # 4.6 M entities, 822 relations, 20.6 M facts
    python benchmarks/wikidata5m_size.py WORK --entities 46000 --relations 200 --facts 206000 --device cpu

Stages: `generate` (benchmarks/large_graph.py, and what ordering by type and degree reaches), `train` (sampled softmax,
filtered valid MRR over all entities after each round), `index` (candidates of the half-links of all relations in both
directions) and `check` (some rows once more, whole and in float64). Each stage prints a line of JSON and appends it to
WORK/results.jsonl. All of them go on where an earlier call was cut off. Needs torch, numpy and safetensors; Triton on a
GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from large_graph import make, type_and_degree_mrr, write_arrays

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tuplet.predict import model_folder
from tuplet.predict.base import TrainingEdges
from tuplet.predict.config import TrainConfig
from tuplet.predict.train import train
from tuplet.predict.training import RunOptions, read_config
from tuplet.progress import Progress
from tuplet.settings import to_mapping
from tuplet.truth.candidates.rows import HalfLinks
from tuplet.truth.candidates.score import FLOOR, finished_relations
from tuplet.truth.candidates.scorer import CandidateScorer
from tuplet.truth.candidates.sources import HALF_LINKS, CandidateSources, choose
from tuplet.truth.rules import Calibration

RANKED = 2000  # valid and test edges that are ranked; all of them are taken out of the ranking
WRITERS = 4
CHECKED = 24  # relations of which rows are computed once more, some in each direction
CHECKED_ROWS = 8
CLEAR = 1e-3  # logs that are nearer to a threshold than this may fall on either side of it


class Work:
    """A folder, and what the stages share."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked, self.folder = asked, asked.work
        self.folder.mkdir(parents=True, exist_ok=True)
        self.graph, self.model = self.folder / "graph.npz", self.folder / "model"

    @cached_property
    def arrays(self) -> dict[str, Any]:
        with np.load(self.graph) as stored:
            return {name: stored[name] for name in stored.files}

    @cached_property
    def splits(self) -> dict[str, tuple[Any, Any, Any]]:
        """Train, a few edges of valid and test, and the other ones."""
        splits, rest = {"train": tuple(self.arrays["train"])}, []
        for split in ("valid", "test"):
            edges = self.arrays[split]
            order = np.random.default_rng(1).permutation(edges.shape[1])
            splits[split] = tuple(edges[:, np.sort(order[:RANKED])])
            rest.append(edges[:, order[RANKED:]])
        return splits | {"other": tuple(np.concatenate(rest, 1))}  # type: ignore[return-value]

    @property
    def sizes(self) -> tuple[int, int]:
        return int(self.arrays["entities"]), int(self.arrays["relations"])

    def generate(self) -> dict[str, Any]:
        """The graph, and the MRR of what needs no learning."""
        asked = self.asked
        if not self.graph.exists():
            made = make(asked.entities, asked.relations, asked.facts, asked.seed)
            fresh = self.folder / "fresh.npz"
            write_arrays(fresh, made, asked.relations)
            os.replace(fresh, self.graph)
        facts = {split: self.arrays[split].shape[1] for split in ("train", "valid", "test")}
        kept, began = self.folder / "baseline.json", time.perf_counter()
        if not kept.exists():
            valid = np.stack(self.splits["valid"])
            kept.write_text(json.dumps(type_and_degree_mrr(self.arrays["train"], valid, self.sizes[0])))
        baseline, spent = json.loads(kept.read_text()), round(time.perf_counter() - began, 1)
        return {"sizes": self.sizes, "facts": facts, "type_and_degree_mrr": baseline, "baseline_seconds": spent}

    def train(self) -> dict[str, Any]:
        """Sampled softmax; `--minutes` ends a call early, the next one goes on."""
        asked, begun = self.asked, (self.model / "config.json").exists()
        config = read_config(self.model, TrainConfig) if begun else TrainConfig(
            rank=asked.rank, epochs=asked.epochs, batch=asked.batch, negatives=asked.negatives,
            learning_rate=asked.learning_rate, regularisation=asked.regularisation,
            relation_weight=asked.relation_weight, evaluate_every=asked.evaluate_every, patience=0,
            checkpoint_seconds=asked.checkpoint_seconds,
        )  # fmt: skip
        stop = None if asked.minutes is None else 60 * asked.minutes
        options = RunOptions(self.model, asked.device, resume=begun, progress=True, stop_after=stop)
        found = train(TrainingEdges(self.splits, *self.sizes), config, options)
        baseline = json.loads((self.folder / "baseline.json").read_text())
        lines = [json.loads(line) for line in (self.model / "log.jsonl").read_text().splitlines()]
        curve = [(line["round"], line["seconds"], line["valid"]["mrr"]) for line in lines if "valid" in line]
        enough = [seconds for _, seconds, mrr in curve if mrr >= 3 * baseline]
        return {
            "config": to_mapping(config),
            "valid_mrr": found.metrics["valid"].mrr,
            "test_mrr": found.metrics["test"].mrr,
            "times_baseline": round(found.metrics["valid"].mrr / baseline, 2),
            "three_times_after_seconds": enough[0] if enough else None,
            "curve": [(number, round(seconds, 1), round(mrr, 4)) for number, seconds, mrr in curve],
            "train_seconds": round(found.train_seconds, 1),
            "measure_seconds": round(found.evaluate_seconds, 1),
        }

    @cached_property
    def scorer(self) -> CandidateScorer:
        asked = self.asked
        edges = TrainingEdges({"train": self.splits["train"]}, *self.sizes)
        model = model_folder.load_for(edges, self.model, asked.device)
        return CandidateScorer({"complex": model}, edges.splits["train"], self.sources, asked.floor, Calibration())

    @cached_property
    def sources(self) -> CandidateSources:
        kept = self.folder / "sources.json"
        if not kept.exists():
            choice = choose(
                *self.sizes, self.splits["train"], self.splits["valid"], HALF_LINKS, device=self.asked.device
            )
            kept.write_text(json.dumps({"least": choice.sources.least, **choice.as_dict()}))
        return CandidateSources(json.loads(kept.read_text())["least"], most=self.asked.most)

    @cached_property
    def parts(self) -> Any:
        about = model_folder.describe(self.model)
        return finished_relations(
            self.folder / "parts",
            [about["sha256"]],
            self.sources,
            self.asked.floor,
            Calibration(),
            self.splits["train"],
        )

    def index(self) -> dict[str, Any]:
        """The candidates of every relation; parts are written while the next relation is computed."""
        began = time.perf_counter()
        sources = self.sources
        chosen = time.perf_counter()
        scorer, parts = self.scorer, self.parts
        opened, listed, made = time.perf_counter(), 0, 0
        assert scorer.views is not None
        with Progress() as progress, ThreadPoolExecutor(WRITERS) as pool, torch.inference_mode():
            waiting: list[Any] = []
            for number in range(self.sizes[1]):
                if not parts.has(number):
                    part = scorer.relation(number)
                    listed, made = listed + len(part["heads"]), made + 1
                    waiting.append(pool.submit(parts.save, number, part))
                    if len(waiting) > WRITERS:
                        waiting.pop(0).result()
                progress("index", number + 1, self.sizes[1], f"relations, {listed:,} edges")
            for writing in waiting:
                writing.result()
        return {
            **json.loads((self.folder / "sources.json").read_text()),
            "sources": str(sources),
            "floor": self.asked.floor,
            "relations": made,
            "listed": listed,
            "half_links": len(scorer.views.views),
            "choose_seconds": round(chosen - began, 1),
            "open_seconds": round(opened - chosen, 1),
            "index_seconds": round(time.perf_counter() - opened, 1),
            "bytes": sum(file.stat().st_size for file in parts.folder.glob("*.npz")),
        }

    def check(self) -> dict[str, Any]:
        """Rows of some relations, whole and in float64, beside what the index has of them."""
        rng, told = (
            np.random.default_rng(5),
            dict.fromkeys(("rows", "scores", "listed", "missing", "unequal", "raised"), 0),
        )
        farthest, chosen = 0.0, rng.choice(self.sizes[1], min(CHECKED, self.sizes[1]), replace=False)
        for number in sorted(chosen.tolist()):
            part = self.parts.load(number)
            heads, tails = (torch.from_numpy(part[name]).to(self.asked.device).long() for name in ("heads", "tails"))
            logs = torch.from_numpy(part["logs"]).to(self.asked.device)[0]
            for links in self.scorer.links(number)[0]:
                places = torch.from_numpy(
                    rng.choice(len(links.rows), min(CHECKED_ROWS, len(links.rows)), replace=False)
                )
                near, far = (tails, heads) if links.inverse else (heads, tails)
                for place in places.tolist():
                    whole, floor = self._whole_row(links, place)
                    wanted = links.columns[torch.nonzero(whole >= floor + CLEAR).view(-1)]
                    mine = torch.nonzero(near == links.rows[place]).view(-1)
                    is_column = torch.isin(far[mine], links.columns)
                    there = mine[is_column]
                    at = whole[torch.searchsorted(links.columns, far[there])]
                    apart = (at - logs[int(links.inverse), there]).abs()
                    # An edge below the floor of this row is listed by its other row.
                    other = logs[1 - int(links.inverse), there] >= math.log(self.asked.floor) - CLEAR
                    told["unequal"] += int((apart > CLEAR).sum()) + int(((at < floor - CLEAR) & ~other).sum())
                    told["missing"] += int((~torch.isin(wanted, far[there])).sum())
                    told["rows"] += 1
                    told["raised"] += floor > math.log(self.asked.floor)
                    told["scores"] += len(whole)
                    told["listed"] += len(there)
                    farthest = max(farthest, float(apart.max())) if len(apart) else farthest
        return {**told, "farthest_log": farthest}

    def _whole_row(self, links: HalfLinks, place: int) -> tuple[torch.Tensor, float]:
        """The log truth of all columns of a row in float64, and its floor; from the definitions."""
        model, known = self.scorer.scorers[0], int((links.known_rows == place).sum())
        number = links.relation + (model.relations if links.inverse else 0)
        row, columns = model.factors(links.rows[place, None], number, links.columns)  # type: ignore[attr-defined]
        scores = torch.cat([part.double() @ row[0].double() for part in torch.split(columns, 1 << 18)])
        logs = scores - torch.logsumexp(scores, 0) + math.log(max(1, known))
        levels = [self.asked.floor * 4**power for power in range(20) if self.asked.floor * 4**power < 1] + [1.0]
        fit = [level for level in levels if int((logs >= math.log(level)).sum()) <= self.asked.most + known]
        return logs, math.log(fit[0] if fit else 1.0)


def memory(device: str) -> dict[str, float]:
    """Peaks in GB."""
    peaks = {"host_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2)}
    if device.startswith("cuda"):
        peaks["gpu_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
        torch.cuda.reset_peak_memory_stats()
    return peaks


def main() -> None:
    """Run the stages in their order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder for the graph, the model and the parts of the index")
    parser.add_argument("--stages", default="generate,train,index,check")
    parser.add_argument("--entities", type=int, default=4_600_000)
    parser.add_argument("--relations", type=int, default=822)
    parser.add_argument("--facts", type=int, default=20_600_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--negatives", type=int, default=8192)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--regularisation", type=float, default=0.05)
    parser.add_argument("--relation-weight", type=float, default=0.5)
    parser.add_argument("--evaluate-every", type=int, default=2)
    parser.add_argument("--checkpoint-seconds", type=float, default=120.0)
    parser.add_argument("--minutes", type=float, help="of training in this call")
    parser.add_argument("--floor", type=float, default=FLOOR)
    parser.add_argument("--most", type=int, default=16, help="edges that a row lists beside as many as it has facts")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    asked = parser.parse_args()
    work = Work(asked)
    for stage in asked.stages.split(","):
        began = time.perf_counter()
        told = {"stage": stage, **getattr(work, stage)(), "seconds": round(time.perf_counter() - began, 1)}
        line = json.dumps(told | memory(asked.device))
        print(line, flush=True)
        with open(work.folder / "results.jsonl", "a", encoding="utf-8") as stream:
            stream.write(line + "\n")


if __name__ == "__main__":
    main()
