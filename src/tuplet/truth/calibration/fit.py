"""The learned calibration: from what is known about a candidate edge to the probability that it is a fact.

A logistic of the log truth that softmax-count gives, corrected by boosted trees over all columns of `features`, then
bent by a rising curve so that its values come true as often as they say. It is fitted on the valid edges among all
candidates that the predictor did not learn from; everything else counts as false there, so what comes out is the chance
of being a *valid* edge, and one number (`SplitCorrection`) turns it into the chance of being a fact.

Facts that nobody stated are among the candidates that count as false, and trees that saw them would say so. So every
edge is judged by trees that did not see it: edges are dealt into folds, and each fold has trees fitted to the others.
Test edges are never looked at. Needs torch and numpy alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.predict.device import Item, Result, side_by_side
from tuplet.progress import Report, silent
from tuplet.truth.calibration.features import Candidates, column_names, columns
from tuplet.truth.calibration.trees import Bins, TreeRows, Trees, TreeSettings, boost, log_loss
from tuplet.truth.edges import HIGHEST_PREDICTION
from tuplet.truth.known_edges import TrainEdges

POOL = 3  # times as many candidates are in the pool as are fitted to
QUICK = TreeSettings(trees=80, depth=6, rate=0.15, rows=0.25)
RAREST = 1e-3  # no candidate is left to a smaller chance: it would stand for too many


def by_first_fit(pool: TreeRows, rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """All facts of a pool and about `rows` others; how many of the pool each stands for."""
    fact = pool.label > 0
    if int((~fact).sum()) <= rows:
        return torch.arange(len(fact)), torch.ones_like(pool.weight)
    trees, _ = boost(pool, QUICK)
    likely = torch.sigmoid(pool.start + trees(pool.bins)).double() * pool.weight
    return _draw(torch.where(fact, 0, likely), fact, rows, seed + 1, RAREST)


def _draw(worth: Tensor, fact: Tensor, rows: int, seed: int, rarest: float = 0.0) -> tuple[Tensor, Tensor]:
    """All facts and about `rows` others, the likelier the more they are worth; one over the chance of each."""
    low, high = 1e-6, max(1.0, float(worth.max()) if len(worth) else 1.0)  # the worth from which on all are taken
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if float((worth / middle).clamp(max=1).sum()) < rows else (middle, high)
    chance = torch.where(fact, 1.0, (worth / high).clamp(max=1))
    chance = torch.where(worth > 0, chance.clamp(min=rarest), chance)
    drawn = torch.rand(len(chance), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    places = torch.nonzero(drawn < chance).view(-1)
    return places, (1 / chance[places]).float()


_SOFT = 0.9  # above, truth approaches the most that is promised instead of reaching it: no two values become one
_SEEN = 3  # candidates of that truth that are thought to have been facts before any is looked at
_LEVELS = (_SOFT, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)  # where that may begin instead
_ROOM = 0.05  # that is left there for all of them at least


@dataclass(frozen=True)
class SplitCorrection:
    """How the chance p of being a valid edge becomes the chance of being a fact: times · p / (1 − given · p).

    Facts are hidden by a split at random, so an edge is a test edge `test / valid` times as often as a valid one.

    >>> SplitCorrection.from_sizes(valid=100, test=100, valid_observed=True)   # it is not valid: is it test?
    SplitCorrection(times=1.0, given=1.0, soft=0.9, most=1.0)
    >>> SplitCorrection.from_sizes(valid=100, test=100, valid_observed=False)  # is it one of both?
    SplitCorrection(times=2.0, given=0.0, soft=0.9, most=1.0)
    >>> SplitCorrection.from_sizes(valid=100, test=0, valid_observed=True)  # nobody knows; as often as a valid edge was
    SplitCorrection(times=1.0, given=0.0, soft=0.9, most=1.0)
    >>> SplitCorrection.from_sizes(valid=100, test=200, valid_observed=True, test_observed=True)  # and it is not test
    SplitCorrection(times=1.0, given=2.0, soft=0.9, most=1.0)
    """

    times: float = 1.0
    given: float = 0.0
    soft: float = _SOFT  # from here on truth approaches …
    most: float = 1.0  # … this

    @staticmethod
    def from_sizes(valid: int, test: int, valid_observed: bool, test_observed: bool = False) -> SplitCorrection:
        """From the sizes of the splits alone."""
        if test_observed:
            return SplitCorrection(1.0, test / valid)
        if valid_observed and test:
            return SplitCorrection(test / valid, 1.0)
        return SplitCorrection(1.0 + test / valid, 0.0)

    def __call__(self, logit: Tensor) -> Tensor:
        """Truth from the logit of being a valid edge, below `most` and strictly rising."""
        return self._bent(self._plain(logit)).clamp(max=float(HIGHEST_PREDICTION)).float()

    def share(self, chance: float) -> float:
        """The chance of being a fact, of an edge with this chance of being a held-out one; never above 1.

        >>> SplitCorrection(1.0, 1.0).share(0.25), SplitCorrection(1.0, 1.0).share(1.0)
        (0.3333333333333333, 1.0)
        """
        return min(1.0, self.times * chance / max(1e-12, 1 - self.given * chance))

    def _plain(self, logit: Tensor) -> Tensor:
        chance = torch.sigmoid(logit.double())
        return self.times * chance / (1 - self.given * chance).clamp(min=1e-12)

    def _bent(self, truth: Tensor) -> Tensor:
        room = self.most - self.soft
        above = (truth - self.soft).clamp(min=0) / room
        # The truth itself for half of the room. Then the rest shrinks with its logarithm: no two values become one.
        far = 1 - 0.5 / (1 + (2 * above).clamp(min=1).log())
        return torch.where(truth > self.soft, self.soft + room * torch.where(above > 0.5, far, above), truth)

    def lower_top(self, logit: Tensor, label: Tensor, weight: Tensor) -> SplitCorrection:
        """The same, promising the surest candidates no more than they bear out when they are held out.

        A few hundred facts leave the top uncertain, and a share above 1 is cut, so that mistakes upwards are all that
        is left. So they get the mean of all shares of facts that could have left so many valid edges among them;
        together with those below where that is less than these get.

        >>> half = SplitCorrection(1.0, 1.0)  # as many test edges as valid ones: half of the surest are valid
        >>> logit, label = torch.full((100,), 0.1), torch.arange(100) % 2
        >>> few = half.lower_top(logit, label, torch.ones(100))
        >>> many = half.lower_top(logit, label, torch.full((100,), 50.0))
        >>> [round(float(each(logit[:1])), 2) for each in (half, few, many)]  # unmeasured, 50 of 100, 2,500 of 5,000
        [0.98, 0.9, 0.98]
        """
        plain = self._plain(logit)
        for soft in _LEVELS:
            surest = plain >= soft
            top, each = plain[surest], weight[surest].double()
            tried = float(each.sum())
            borne_out = tried * self._share(float((label[surest] * each).sum()), tried)
            least = replace(self, soft=soft, most=soft + _ROOM)
            if tried and float(each @ least._bent(top)) <= borne_out:
                break  # else those below are no less likely: one group with these
        else:
            return self
        if float(each @ self._bent(top)) <= borne_out:
            return self
        low, high = least.most, 1.0
        while high - low > 1e-6:
            middle = (low + high) / 2
            too_sure = float(each @ replace(least, most=middle)._bent(top)) > borne_out
            low, high = (low, middle) if too_sure else (middle, high)
        return replace(least, most=high)

    def _share(self, right: float, tried: float) -> float:
        """The mean of all shares of facts that could have left so many valid edges among so many candidates.

        Higher shares are thought likelier before, for the trees are sure: with all as likely, a high one is missed.
        """
        share = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
        chance = share / (self.times + self.given * share)
        said = right * chance.log() + (tried - right) * torch.log1p(-chance)
        likely = torch.softmax(said + _SEEN * share.log(), 0)
        return float((likely * share).sum())


Tensor = torch.Tensor
LEAST_VALID = 300  # valid edges among the candidates: with fewer there is too little to learn from
ROWS = 400_000  # how many candidates a fit looks at, beside all valid edges: at most so many, for each of them …
_ROWS_EACH, _LEAST_ROWS = 100, 50_000  # … so many, and at least these
_FACTS_EACH = 25  # valid edges for each leaf of a tree; with fewer of them trees are shallower
FOLDS = 5
_FEW, _FITS = 5_000, 3  # with fewer valid edges chance has a say in what trees learn: so many fits are averaged
_KNOTS, _FACTS = 16, 200  # of the curve at most, and the valid edges each rests on at least


@dataclass(frozen=True)
class Curve:
    """A strictly rising map of logits, linear between its knots: it repairs the scale and keeps the order.

    >>> curve = Curve(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0]))
    >>> curve(torch.tensor([-1.0, 0.5, 2.0])).tolist()
    [-1.0, 1.5, 4.0]
    """

    before: Tensor  # [knots] ascending
    after: Tensor  # [knots] ascending

    @staticmethod
    def fit(logit: Tensor, label: Tensor, weight: Tensor, knots: int = _KNOTS, facts: int = _FACTS) -> Curve:
        """The curve that gives each of some groups of logits, of equally many facts each, its share of facts."""
        order = torch.argsort(logit)
        fact, count = (label * weight).double()[order], weight.double()[order]
        groups = max(1, min(knots, int(fact.sum()) // facts))
        group = (torch.cumsum(fact, 0) * groups / fact.sum()).ceil().long().clamp(1, groups) - 1
        chance = torch.sigmoid(logit.double())[order]
        none = torch.zeros(groups, dtype=torch.float64)
        totals = [none.index_add(0, group, side) for side in (count, count * chance, fact)]
        before, after = (torch.logit(side / totals[0], eps=1e-9) for side in totals[1:])
        rising = torch.arange(groups) * 1e-3
        return Curve(torch.cummax(before, 0).values.float(), (torch.cummax(after - rising, 0).values + rising).float())

    def __call__(self, logit: Tensor) -> Tensor:
        """The bent logits; beyond the outermost knots they move along with them. [n]"""
        before, after = self.before, self.after
        right = torch.searchsorted(before, logit.contiguous())
        left = (right - 1).clamp(min=0)
        right = right.clamp(max=len(before) - 1)
        width = before[right] - before[left]
        slope = torch.where(width > 0, (after[right] - after[left]) / width.clamp(min=1e-9), 1.0)
        return after[left] + slope * (logit - before[left])


@dataclass(frozen=True)
class LearnedCalibration:
    """A fitted calibration."""

    names: tuple[str, ...]  # of the columns
    line: tuple[float, float]  # logit before the trees: first + second · log truth
    bins: Bins
    folds: tuple[Trees, ...]  # each judges the edges of its fold, and was fitted to all others
    curve: Curve
    hidden: SplitCorrection
    about: dict[str, Any]  # how it was fitted: counts and losses

    def logit(self, known: TrainEdges, edges: Candidates, later: bool = False, progress: Report = silent) -> Tensor:
        """Log odds of being a valid edge. [n]

        `later`: what is asked came after everything that was fitted to. Then no fold has seen the answer, and the mean
        of all is steadier than one.
        """

        def one(block: tuple[int, int]) -> Tensor:
            part = edges.where(slice(*block))
            logit = self.line[0] + self.line[1] * part.log_truth
            bins = self.bins(columns(known, part, self.names))
            if later:
                for trees in self.folds:
                    logit += trees(bins) / len(self.folds)
            else:
                _judge(logit, self.folds, bins, fold_of(known, part))
            return self.curve(logit)

        return torch.cat([torch.zeros(0), *_all_of(one, list(edges.blocks()), progress)])

    def truth(self, known: TrainEdges, edges: Candidates, later: bool = False, progress: Report = silent) -> Tensor:
        """The calibrated truth. float32 [n]"""
        return self.hidden(self.logit(known, edges, later, progress))

    def as_dict(self) -> dict[str, Any]:
        """Everything but the arrays."""
        fitted = {"names": list(self.names), "line": list(self.line), "hidden": asdict(self.hidden)}
        return fitted | {"about": self.about}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays, by name."""
        out = {"edges": self.bins.edges.numpy()}
        out |= {"curve_from": self.curve.before.numpy(), "curve_to": self.curve.after.numpy()}
        for number, trees in enumerate(self.folds):
            out |= {f"{name}_{number}": array for name, array in trees.arrays().items()}
        return out

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> LearnedCalibration:
        """What `arrays` and `as_dict` gave."""
        return LearnedCalibration(
            tuple(values["names"]),
            (float(values["line"][0]), float(values["line"][1])),
            Bins(torch.from_numpy(np.array(arrays["edges"]))),
            tuple(
                Trees.from_arrays({name: arrays[f"{name}_{number}"] for name in ("column", "split", "value")})
                for number in range(FOLDS)
            ),
            Curve(*(torch.from_numpy(np.array(arrays[name])) for name in ("curve_from", "curve_to"))),
            SplitCorrection(**values["hidden"]),
            dict(values["about"]),
        )


class Trial(NamedTuple):
    """Candidates of predictors that knew some of the facts; the others are to be found among them."""

    known: TrainEdges
    edges: Candidates
    is_fact: Tensor  # [n] the facts that were hidden

    @property
    def unknown(self) -> Tensor:
        """Marks the candidates that are no known edges. bool [n]"""
        return ~self.known.has(*self.edges[:3])


@dataclass(frozen=True)
class CrossFit:
    """A fitted calibration, and what it says of the candidates it was fitted to when they were held out."""

    learned: LearnedCalibration
    places: Tensor  # of the sampled candidates, those of several trials in sequence
    held_out: Tensor  # [n] their logits by trees that did not see them
    label: Tensor  # [n] whether each is a valid edge
    weight: Tensor  # [n] how many candidates each stands for


def fit(
    trials: Sequence[Trial],
    hidden: SplitCorrection,
    settings: TreeSettings | None = None,
    without: tuple[str, ...] = (),
    rows: int | None = None,
    until: float = math.inf,
) -> CrossFit:
    """Fit on the candidates of all trials that are not known, each described by what was known in its own.

    `without`: see `column_names`. There are fewer trees if it would not be over `until` then, by the monotonic clock.
    """
    free = [trial.unknown for trial in trials]
    facts = sum(int((trial.is_fact & mine).sum()) for trial, mine in zip(trials, free, strict=True))
    if facts < LEAST_VALID:
        raise BadInput(f"a calibration is learned from at least {LEAST_VALID} listed valid edges, not {facts}")
    # no more leaves than so many facts bear
    depth = min(TreeSettings().depth, max(2, int(np.log2(facts / _FACTS_EACH))))
    chosen = settings or replace(TreeSettings(), depth=depth)
    size = rows or min(ROWS, max(_LEAST_ROWS, _ROWS_EACH * facts))
    for group, kept in (("paths", "two_step"), ("time", "times")):
        if any(getattr(trial.known, kept) is None for trial in trials):
            without = tuple(dict.fromkeys((*without, group)))
    scorers = trials[0].edges.scorers
    names = column_names(scorers, without)
    drawn: list[tuple[Tensor, ...]] = []
    cells: list[Tensor] = []
    for (known, edges, is_fact), mine in zip(trials, free, strict=True):
        worth = torch.where(mine & ~is_fact, edges.log_truth.double().exp(), 0)  # the truer, the likelier to be drawn
        some, each = _draw(worth, is_fact & mine, POOL * size // len(trials), chosen.seed)
        before = sum(len(other) for other in free[: len(drawn)])
        drawn.append((before + some, each, is_fact[some].float(), edges.log_truth[some], fold_of(known, edges)[some]))
        cells.append(_columns_at(known, edges, names, some))
    places, weight, label, log_truth, fold = (torch.cat(side) for side in zip(*drawn, strict=True))
    table = torch.cat(cells, 1)
    bins = Bins.from_columns(table)
    line = fit_line(log_truth, label, weight)
    pool = TreeRows(bins(table), label, weight, line[0] + line[1] * log_truth)
    telling, each = by_first_fit(pool, size, chosen.seed)
    places, fitted = places[telling], pool.where(telling)._replace(weight=weight[telling] * each)
    label, weight = fitted.label, fitted.weight
    folds, held_out, losses = _cross_fit(fitted, fold[telling], chosen, until)
    curve = Curve.fit(held_out, label, weight)
    bent = curve(held_out)
    losses["after"] = log_loss(bent, label, weight)
    about = {
        "valid_edges": facts,
        "sampled": len(places),
        "candidates": sum(int(mine.sum()) for mine in free),
        "trees": len(folds[0]),
        "depth": chosen.depth,
        "scorers": list(scorers),
        "without": list(without),
        "loss_per_valid_edge": {name: round(value * float(weight.sum()) / facts, 4) for name, value in losses.items()},
    }
    honest = hidden.lower_top(bent, label, weight)
    return CrossFit(LearnedCalibration(names, line, bins, folds, curve, honest, about), places, bent, label, weight)


def _columns_at(known: TrainEdges, edges: Candidates, names: tuple[str, ...], places: Tensor) -> Tensor:
    """The columns of some candidates; they depend on all others of their relation. float16 [columns, places]"""

    def one(block: tuple[int, int]) -> Tensor:
        inside = places[(places >= block[0]) & (places < block[1])] - block[0]
        return columns(known, edges.where(slice(*block)), names)[:, inside]

    return torch.cat(_all_of(one, list(edges.blocks())), 1)


def _all_of(work: Callable[[Item], Result], items: Sequence[Item], progress: Report = silent) -> list[Result]:
    """The results of all items, as many at a time as torch has threads."""
    found = list[Result]()
    for result in side_by_side(torch.inference_mode()(work), items, torch.get_num_threads()):
        found.append(result)
        progress("calibrate", len(found), len(items), "parts")
    return found


def fit_line(log_truth: Tensor, label: Tensor, weight: Tensor, steady: float = 0.0) -> tuple[float, float]:
    """The logistic regression on log truth alone: Newton's method, steps halved until they help.

    `steady` holds the slope near 1, where odds move with truth, as firmly as about that many facts would.
    """
    inputs = torch.stack([torch.ones_like(log_truth), log_truth]).double()
    total = float(weight.sum())
    share = np.clip(float((label * weight).sum()) / total, 1e-6, 1 - 1e-6)  # all, or none, may be facts
    line = torch.tensor([float(np.log(share / (1 - share))), 0.0], dtype=torch.float64)
    pull = torch.tensor([0.0, steady], dtype=torch.float64)

    def cost(line: Tensor) -> float:
        return log_loss(line @ inputs, label, weight) + float(pull @ (line - 1) ** 2) / (2 * total)

    loss = cost(line)
    for _ in range(25):
        chance = torch.sigmoid(line @ inputs)
        slope = inputs @ (weight * (chance - label)) + pull * (line - 1)
        curvature = (inputs * (weight * chance * (1 - chance))) @ inputs.T + torch.diag(pull)
        step = torch.linalg.solve(curvature + 1e-6 * torch.eye(2), slope)
        while (better := cost(line - step)) > loss and float(step.abs().max()) > 1e-6:
            step = step / 2
        if better >= loss:
            break
        line, loss = line - step, better
    # A falling line would turn the order of the predictor around where the trees say nothing.
    return float(line[0]), max(float(line[1]), 0.01)


def fold_of(known: TrainEdges, edges: Candidates) -> Tensor:
    """The fold of each edge, decided by the edge alone. [n]"""
    key = (edges.relation * known.entities + edges.heads) * known.entities + edges.tails
    mixed = (key % 0x7FFFFFFF) * 0x9E3779B1
    return (mixed >> 16) % FOLDS


def _judge(logit: Tensor, folds: tuple[Trees, ...], bins: Tensor, fold: Tensor) -> None:
    """Add to each logit what the trees of its fold say."""
    for number, trees in enumerate(folds):
        mine = torch.nonzero(fold == number).view(-1)
        logit[mine] += trees(torch.stack([column.index_select(0, mine) for column in bins]))


def _cross_fit(
    rows: TreeRows, fold: Tensor, settings: TreeSettings, until: float = math.inf
) -> tuple[tuple[Trees, ...], Tensor, dict[str, float]]:
    """The trees of each fold, as many as are best on average; the logits they give; the loss before and after."""

    seeds = range(settings.seed, settings.seed + (_FITS if float(rows.label.sum()) < _FEW else 1))
    jobs, begun = [(number, seed) for number in range(FOLDS) for seed in seeds], count()
    at_once = torch.get_num_threads()

    def share() -> float:
        """When a job that begins now must be over, so that as much is left for each of those to come."""
        left, now = max(at_once, len(jobs) - next(begun)), time.monotonic()
        return now + (until - now) * at_once / left

    def one(job: tuple[int, int]) -> tuple[Trees, list[float]]:
        number, seed = job
        out, end = fold == number, share()
        return boost(rows.where(~out), replace(settings, seed=seed), rows.where(out), end)

    results = _all_of(one, jobs)
    length = min(len(losses) for _, losses in results)
    best = int(np.argmin(np.mean([losses[:length] for _, losses in results], 0)))
    trees = [grown.first(best) for grown, _ in results]
    folds = tuple(Trees.mean(trees[at : at + len(seeds)]) for at in range(0, len(trees), len(seeds)))
    logit = rows.start.clone().float()
    _judge(logit, folds, rows.bins, fold)
    before, after = (log_loss(side, rows.label, rows.weight) for side in (rows.start, logit))
    return folds, logit, {"before": before, "after": after}
