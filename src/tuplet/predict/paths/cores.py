"""Several questions at once on a CPU: a thread for each, torch on one core in each.

The operations of a path network are short. If torch shared out each of them, its threads would wait for each other most
of the time, and spin while they wait; questions are independent of each other, and are shared out as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def shared(work: Callable[..., Result], parts: Iterable[Sequence[Any]]) -> list[Result]:
    """`work(*part)` of each part, in order; which thread takes a part does not matter to its result.

    >>> shared(pow, [(2, 3), (3, 2)])
    [8, 9]
    """
    given = list(parts)
    threads, before = min(len(given), len(os.sched_getaffinity(0))), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if threads <= 1:
            return list(starmap(work, given))
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda part: work(*part), given))
    finally:
        torch.set_num_threads(before)
