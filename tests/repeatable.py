"""How many random cases a test tries, and from which seed: the same few in `make test`, new and many in `make soak`.

No other file decides on a clock, a seed or a database of examples (`test_house.py` looks). A find of `make soak` is
repeated with the line that it prints. TUPLET_SOAK_EXAMPLES=100000 sets the number of cases of every random test.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

SOAK = os.environ.get("TUPLET_SOAK") == "1"
# put into the environment, so that worker processes collect the same tests
SEED = int(os.environ.setdefault("TUPLET_SOAK_SEED", str(secrets.randbelow(10**9)))) if SOAK else 0
HURRIED = (HealthCheck.too_slow,)  # looks at the clock, as deadlines do


def count(usual: int, soak: int) -> int:
    """The number of cases: what is usual, or in `make soak` that of the environment or of the test."""
    return int(os.environ.get("TUPLET_SOAK_EXAMPLES", soak)) if SOAK else usual


def seeds(usual: int, soak: int) -> range:
    """Seeds of a test that draws its own cases: the same in each `make test`."""
    return range(SEED, SEED + count(usual, soak))


def examples(
    usual: int, soak: int | None = None, *, allow: tuple[HealthCheck, ...] = (), **options: Any
) -> Callable[..., Any]:
    """Decorator: the number of examples of a hypothesis test, ten times as many in `make soak`."""
    number = count(usual, 10 * usual if soak is None else soak)
    return settings(max_examples=number, suppress_health_check=(*HURRIED, *allow), **options)


def load_profile() -> None:
    """Make hypothesis repeatable: no clock, no database, seeds from the code of a test or from `make soak`."""
    settings.register_profile(
        "tuplet",
        max_examples=count(100, 1000),
        deadline=None,
        database=None,
        derandomize=not SOAK,
        print_blob=True,
        suppress_health_check=HURRIED,
    )
    settings.load_profile("tuplet")
    # Constants of all imported modules would be among the examples: other tests on a worker, other examples.
    providers._get_local_constants = lambda: providers._local_constants
