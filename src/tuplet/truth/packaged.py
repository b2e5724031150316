"""The network that ships with the package: it reads its scores off the facts of any graph, alone or beside others.

Without training, hiding facts is leaving them out, and the rows are what takes the time. Of few facts, as many parts
are hidden in turn as there is time for. Of many, and where there is a valid split, the valid edges are hidden. Where
the minutes that somebody says do not suffice for all rows, the most useful are computed, and the store says so.

Beside predictors that were trained, it joins them if there is time for its rows, and if held-out facts are found better
with it than without.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tuplet.errors import BudgetExceeded, Option
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.base import LinkPredictor, TrainingEdges, device_of, kind_of
from tuplet.predict.config import PACKAGED
from tuplet.predict.evaluate import KnownAnswers, score_rows
from tuplet.predict.model_folder import describe, find_model_folder, load, load_for
from tuplet.progress import Report, counted, duration
from tuplet.truth.calibration.hold_out import hide_twice
from tuplet.truth.candidates.scorer import RowLimit
from tuplet.truth.predictor_choice import model_meta
from tuplet.truth.recipes import HeldOut, HoldOut, Predicted
from tuplet.truth.trained import CHEAP, FAST_MESSAGES, KeptChoice

Tensor = torch.Tensor

PARTS = 5  # times at most that others of few facts are hidden
SECONDS = 20.0  # that all these rows may take, unless somebody says otherwise; once they are computed in any case
SHARE = 0.5  # of the minutes that somebody says, for the rows …
CALIBRATED = 0.8  # … and until the calibration is learned; what is left is for the table
LEAST_ROWS = 0.1  # share of the rows that are worth a store
_PROBES = 3  # batches for each core that are timed
DECISION = "packaged.json"
PLAN = "rows.json"
TRIED = 200  # held-out facts that are looked for with and without the network
_TRYING, _SCORES = 0.2, 1 << 26  # share of the time for all rows that this may take, scores that it may hold


@dataclass(frozen=True)
class RowWork:
    """The rows that a graph needs, and how long one takes."""

    rows: int
    seconds: float  # of one

    @staticmethod
    def of(network: Any, edges: TrainingEdges, clock: Callable[[], float] = time.monotonic) -> RowWork:
        """Count the half-links of one end, and time some of their rows on this machine."""
        heads, relation, _ = (np.asarray(side, dtype=np.int64) for side in edges.splits["train"])
        often, bound = int(np.bincount(relation).argmax()), network.on(edges)
        some = np.resize(np.unique(heads[relation == often]), _PROBES * bound.batch * torch.get_num_threads())
        asked = torch.from_numpy(some).to(bound.device)
        bound.tails(asked, often)  # the first time kernels are compiled and the relations described
        began = clock()
        bound.tails(asked, often)
        return RowWork(edges.half_links_of_one_end, (clock() - began) / len(asked))

    @staticmethod
    def least(network: Any, edges: TrainingEdges) -> RowWork:
        """The same as it would be on a fast machine: if that is too much, nobody needs to time it."""
        messages = 2.0 * edges.count("train") * len(network.network.layers) * network.network.width
        return RowWork(edges.half_links_of_one_end, messages / (3 * FAST_MESSAGES * torch.get_num_threads()))

    @property
    def total(self) -> float:
        """Seconds that all rows take."""
        return self.rows * self.seconds

    def parts(self, seconds: float) -> int:
        """How many times all rows can be computed in this time, at least once, and not twice (see `hide_twice`).

        >>> [RowWork(4_000, 0.002).parts(seconds) for seconds in (1, 20, 30, 1000)]
        [1, 1, 3, 5]
        """
        times = min(PARTS, int(seconds / max(1e-9, self.total)))
        return times if times > 2 else 1

    def sentence(self, parts: int = 1, limit: RowLimit | None = None) -> str:
        """What is going to be done, and how long that takes.

        >>> print(RowWork(7_000, 0.01).sentence())
        nothing is trained: 7,000 rows of the packaged network, about 1 min 10 s
        >>> print(RowWork(4_000, 0.002).sentence(3))
        nothing is trained: 4,000 rows of the packaged network, 3 times with other facts hidden, about 24 s
        >>> print(RowWork(4_000, 0.02).sentence(1, RowLimit(1_500, 0.0, 0.0)))
        nothing is trained: the most useful 1,500 of 4,000 rows of the packaged network, about 30 s
        """
        several = f", {parts} times with other facts hidden" if parts > 1 else ""
        rows, seconds = counted(self.rows, "row"), parts * self.total
        if limit is not None and limit.rows < self.rows:
            rows, seconds = f"the most useful {limit.rows:,} of {rows}", parts * limit.rows * self.seconds
        return f"nothing is trained: {rows} of the packaged network{several}, about {duration(seconds)}"

    def least_seconds(self, times: int) -> float:
        """That must be left for so few rows, `times` over, that a store is just worth it."""
        return LEAST_ROWS * times * self.total / SHARE

    def limit(self, times: int, left: float | None, minutes: float | None) -> RowLimit | None:
        """What rows there is time for, `times` over, if so many seconds of the minutes are left.

        >>> made = RowWork(7_000, 0.01).limit(1, left=50.0, minutes=1)
        >>> made.rows, round(made.over - made.until)
        (2500, 15)
        >>> RowWork(70_000, 0.01).limit(1, left=50.0, minutes=1)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        tuplet.errors.BudgetExceeded: a tenth of 70,000 rows of the packaged network takes about 1 min ...
        """
        if left is None or minutes is None:
            return None
        needed = self.least_seconds(times)
        if needed > left:
            rows = counted(times * self.rows, "row")
            taken = f"a tenth of {rows} of the packaged network takes about {duration(SHARE * needed)}; "
            raise BudgetExceeded(taken, Option("minutes", math.ceil(minutes + (needed - left) / 60)), " would do")
        now = time.monotonic()
        return RowLimit(int(SHARE * left / (times * self.seconds)), now + SHARE * left, now + CALIBRATED * left)


@dataclass(frozen=True)
class TimeGiven:
    """The minutes that somebody says, and when they began."""

    minutes: float | None
    began: float

    def left(self) -> float | None:
        """Seconds; None if nothing was said."""
        return None if self.minutes is None else self.began + 60 * self.minutes - time.monotonic()


def _planned(plan: KeptChoice, work: RowWork, left: float | None) -> dict[str, Any]:
    """What was planned before; nothing if no relation is finished, or if there is no time for it any more."""
    before = plan.read() if any(plan.file.parent.glob("*/*.npz")) else {}
    return {} if before and left is not None and work.least_seconds(before["parts"]) > left else before


def _limit(
    plan: KeptChoice, before: Mapping[str, Any], work: RowWork, parts: int, left: float | None, minutes: float | None
) -> RowLimit | None:
    """The rows there is time for: as many as were planned before, if the build goes on."""
    limit = work.limit(parts, left, minutes)
    if before:
        return None if limit is None else replace(limit, rows=int(before["rows"]))
    plan.write({"parts": parts, "rows": limit and limit.rows})
    return limit


def recipe_in_turn(
    graph: KnowledgeGraph, device: str, given: TimeGiven, folder: Path, report: Report, seed: int, **choices: Any
) -> HeldOut:
    """What the network says while some of the facts are hidden, then others: as often as there is time for."""
    model = find_model_folder(PACKAGED)
    name, facts, hold_outs, limit = describe(model)["sha256"], graph.edges("train", "valid"), list[HoldOut](), None
    if len(facts[0]) > 2:  # two are hidden at least
        whole = TrainingEdges({"train": facts}, len(graph.entities), len(graph.relations))
        network: Any = load_for(whole, model, device)  # which suits all of them, so that parts do not choose another
        work, left = RowWork.of(network, whole), given.left()
        about = {"graph": graph.hash, "model": name, "minutes": given.minutes, "device": device, "seed": seed}
        before = _planned(plan := KeptChoice(folder / PLAN, about), work, left)
        times = int(before["parts"]) if before else work.parts(SECONDS if left is None else SHARE * left)
        parts = hide_twice(facts, seed, times)
        limit = _limit(plan, before, work, len(parts), left, given.minutes)
        report("plan", 0, 0, work.sentence(len(parts), limit))
        for part in parts:
            known = TrainingEdges({"train": part.known}, len(graph.entities), len(graph.relations))
            hold_outs.append(HoldOut(part, {kind_of(network): network.on(known)}, name))
    return HeldOut(hold_outs, (model_meta(model, graph, False),), limit=limit, **choices)


def recipe_at_once(
    graph: KnowledgeGraph, device: str, given: TimeGiven, folder: Path, report: Report, windows: int, **choices: Any
) -> Predicted:
    """What the network says while the valid edges are hidden, and at the end of each window of the newest facts."""
    model = find_model_folder(PACKAGED)
    work, times = RowWork.of(load(model, device), TrainingEdges.from_graph(graph)), 1 + windows
    about = {"graph": graph.hash, "model": describe(model)["sha256"], "minutes": given.minutes, "device": device}
    plan, left = KeptChoice(folder / PLAN, about | {"windows": windows}), given.left()
    limit = _limit(plan, _planned(plan, work, left), work, times, left, given.minutes)
    report("plan", 0, 0, work.sentence(times, limit))
    return Predicted(model, device=device, later=[[model]] * windows, limit=limit, **choices)


def seconds_left(elapsed: float, minutes: float) -> float:
    """What its rows may take beside trained predictors: as long as these took, and a third of the time that is left.

    >>> seconds_left(3.0, 15.0), seconds_left(60.0, 15.0), seconds_left(60.0, 2.0)
    (20.0, 60.0, 20.0)
    """
    return max(0.0, min(max(CHEAP, elapsed), (60 * minutes - elapsed) / 3))


def beside(
    graph: KnowledgeGraph, models: Sequence[Path], times: int, seconds: float, device: str, work: Path, report: Report
) -> list[Path]:
    """The network, if it joins these models; a build that goes on where it stopped keeps to what was decided."""
    folder = find_model_folder(PACKAGED)
    if not folder.exists() or not graph.split_edges["valid"]:
        return []
    about = {"graph": graph.hash, "models": [describe(model)["sha256"] for model in (*models, folder)]}
    kept = KeptChoice(work / DECISION, about)
    decided = kept.read()
    if not decided:
        decided = {"joins": joins(graph, models, times, seconds, device, report)}
        kept.write(decided)
    return [folder] if decided["joins"] else []


def joins(
    graph: KnowledgeGraph, models: Sequence[Path], times: int, seconds: float, device: str, report: Report
) -> bool:
    """Whether the network is worth its rows, `times` over, beside these models: in this time, on the valid edges."""
    network: Any = load(find_model_folder(PACKAGED), device)
    edges = TrainingEdges.from_graph(graph)
    if device.startswith("cpu") and times * RowWork.least(network, edges).total > seconds:
        return False
    work = RowWork.of(network, edges)
    if times * work.total > seconds:
        report("plan", 0, 0, f"the packaged network is left out: its rows take about {duration(times * work.total)}")
        return False
    tried = min(TRIED, int(_TRYING * seconds / (2 * work.seconds)), _SCORES // (2 * edges.entities))
    if not tried:
        return False
    before, after = with_and_without(
        [load_for(edges, model, device) for model in models], network.on(edges), edges, tried
    )
    gain = after - before
    helps = bool(gain.mean() > gain.std() / len(gain) ** 0.5)
    found = f"MRR of {len(gain) // 2:,} held-out facts {before.mean():.3f} without, {after.mean():.3f} with it"
    unsure = ", a gain that may be chance and does not pay for its time" if not helps and gain.mean() > 0 else ""
    report("plan", 0, 0, f"the packaged network {'joins' if helps else 'is left out'}: {found}{unsure}")
    return helps


@torch.inference_mode()
def with_and_without(
    models: Sequence[LinkPredictor], another: LinkPredictor, edges: TrainingEdges, most: int
) -> tuple[Tensor, Tensor]:
    """Reciprocal filtered ranks of some valid edges by the mean chance of models, without and with another. [2 · n]"""
    valid = edges.splits["valid"]
    some = np.random.default_rng(0).permutation(len(valid[0]))[:most]
    device = device_of(another)
    heads, relation, tails = (torch.from_numpy(np.asarray(side, dtype=np.int64)[some]).to(device) for side in valid)
    asked, target = torch.cat([heads, tails]), torch.cat([tails, heads])
    relation = torch.cat([relation, relation + edges.relations])
    known = KnownAnswers(
        {split: edges.splits[split] for split in ("train", "valid")}, edges.entities, edges.relations, device
    )

    def chances(model: LinkPredictor) -> Tensor:
        scores = score_rows(model, asked, relation)
        own = scores.gather(1, target[:, None])
        known.mask(scores, asked, relation)
        return torch.softmax(scores.scatter(1, target[:, None], own), 1)

    before = torch.stack([chances(model) for model in models]).mean(0)
    after = before + (chances(another) - before) / (len(models) + 1)
    return _reciprocal(before, target), _reciprocal(after, target)


def _reciprocal(chance: Tensor, target: Tensor) -> Tensor:
    own = chance.gather(1, target[:, None])
    return 1 / (1 + (chance > own).sum(1) + ((chance == own).sum(1) - 1) / 2)
