"""From the chance of being one of the held-out facts to the chance of being a fact. Needs torch alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from tuplet.truth.edges import HIGHEST_PREDICTION

Tensor = torch.Tensor

_SOFT = 0.9  # above, truth approaches the most that is promised instead of reaching it: no two values become one
_SEEN = 3  # candidates of that truth that are thought to have been facts before any is looked at
_LEVELS = (_SOFT, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)  # where that may begin instead
_ROOM = 0.05  # that is left there for all of them at least


@dataclass(frozen=True)
class SplitCorrection:
    """How the chance p of being a valid edge becomes the chance of being a fact: times · p / (1 − given · p).

    Facts are hidden by a split at random, so an edge is a test edge `test / valid` times as often as a valid one.

    >>> SplitCorrection.of(valid=100, test=100, valid_observed=True)   # it is not valid: is it test?
    SplitCorrection(times=1.0, given=1.0, soft=0.9, most=1.0)
    >>> SplitCorrection.of(valid=100, test=100, valid_observed=False)  # is it one of both?
    SplitCorrection(times=2.0, given=0.0, soft=0.9, most=1.0)
    >>> SplitCorrection.of(valid=100, test=0, valid_observed=True)     # nobody knows; as often as a valid edge was
    SplitCorrection(times=1.0, given=0.0, soft=0.9, most=1.0)
    >>> SplitCorrection.of(valid=100, test=200, valid_observed=True, test_observed=True)  # the same, and it is not test
    SplitCorrection(times=1.0, given=2.0, soft=0.9, most=1.0)
    """

    times: float = 1.0
    given: float = 0.0
    soft: float = _SOFT  # from here on truth approaches …
    most: float = 1.0  # … this

    @staticmethod
    def of(valid: int, test: int, valid_observed: bool, test_observed: bool = False) -> SplitCorrection:
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

    def measured(self, logit: Tensor, label: Tensor, weight: Tensor) -> SplitCorrection:
        """The same, promising the surest candidates no more than they bear out when they are held out.

        A few hundred facts leave the top uncertain, and a share above 1 is cut, so that mistakes upwards are all that
        is left. So they get the mean of all shares of facts that could have left so many valid edges among them;
        together with those below where that is less than these get.

        >>> half = SplitCorrection(1.0, 1.0)  # as many test edges as valid ones: half of the surest are valid
        >>> logit, label = torch.full((100,), 0.1), torch.arange(100) % 2
        >>> few = half.measured(logit, label, torch.ones(100))
        >>> many = half.measured(logit, label, torch.full((100,), 50.0))
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
