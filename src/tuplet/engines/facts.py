"""Which given tuples the observed facts alone imply: what `status` and `only` ask, under the question's deadline."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tuplet.query.limits import Deadline
from tuplet.query.ranking import Clauses
from tuplet.query.source import Source


def holds(clauses: Clauses, source: Source, tuples: NDArray[np.integer], deadline: Deadline) -> NDArray[np.bool_]:
    """Which tuples [n, k] are answers on the facts; raises `OutOfTime` at the deadline."""
    from tuplet.engines import crisp

    deadline.check()
    return crisp.holds(clauses, source.facts, tuples)
