"""One promise from several trials, where every hidden fact was hidden in two of them.

The mean of trials puts candidates into a better order than one trial does, but promises too little at the top: what is
sure in most of them is a fact nearly always. So it is measured what a mean of two comes to, on the facts that were
hidden in both, and the mean of all is bent accordingly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.truth.calibration.fit import Curve
from tuplet.truth.calibration.split_correction import SplitCorrection
from tuplet.truth.edges import Floats

_FACTS = 40  # that each knot of the curve rests on
_KNOTS = 32


class JointPromise(NamedTuple):
    """What is promised to all candidates together, and what that was learned from."""

    key: NDArray[np.int64]  # of the candidates, ascending
    truth: NDArray[np.float32]
    of_two: NDArray[np.float32]  # the same from two of the trials alone: those in which a fact was hidden
    is_fact: NDArray[np.bool_]
    weight: Floats  # how many candidates each of them stands for
    correction: SplitCorrection


def promise_together(
    keys: Sequence[NDArray[np.int64]],
    chances: Sequence[Floats],
    hidden: Sequence[NDArray[np.int64]],
    correction: SplitCorrection,
) -> JointPromise:
    """From the unknown candidates of each trial, the chances it gives them of being hidden, and what was hidden.

    `correction` is that of the facts which are hidden in the same two trials.
    """
    key = np.unique(np.concatenate(keys))
    chance = np.zeros((len(trials := range(len(keys))), len(key)), dtype=np.float32)
    was_hidden = np.stack([np.isin(key, np.asarray(some)) for some in hidden])
    for trial in trials:
        chance[trial, np.searchsorted(key, keys[trial])] = chances[trial]
    is_fact = np.asarray(was_hidden.any(0), dtype=bool)
    # A fact is judged where it was hidden. Anything else by one of the pairs of trials, and stands for all pairs.
    first = key % len(trials)
    both = np.stack([chance[trial, np.arange(len(key))] for trial in (first, (first + 1) % len(trials))]).mean(0)
    hidden_mean = (chance * was_hidden).sum(0) / np.maximum(was_hidden.sum(0), 1)
    two = np.where(is_fact, hidden_mean, both)
    weight = np.where(is_fact, 1.0, len(trials))
    listed = two > 0
    label, each = torch.from_numpy(is_fact[listed]).float(), torch.from_numpy(weight[listed]).float()
    curve = Curve.fit(_logit(two[listed]), label, each, _KNOTS, _FACTS)
    honest = correction.measured(curve(_logit(two[listed])), label, each)

    def truth(mean: Floats) -> NDArray[np.float32]:
        return np.where(mean > 0, honest(curve(_logit(mean))).numpy(), np.float32(0))

    mean = np.where(is_fact, hidden_mean, chance.mean(0))
    return JointPromise(key, truth(mean), truth(two), is_fact, weight, honest)


def _logit(chance: Floats) -> torch.Tensor:
    return torch.logit(torch.from_numpy(np.clip(chance, 1e-7, 1 - 1e-7)).float())
