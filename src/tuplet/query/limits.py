"""How much is wanted and how long it may take: one value and one clock, from the door to the last array."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import Any, Literal, TypeAlias, TypedDict

from tuplet.errors import Argument, BadInput, unknown
from tuplet.errors import Option as Given
from tuplet.query.logic import LOGICS, Logic
from tuplet.settings import knob, size

Option: TypeAlias = str | int | float
Only: TypeAlias = Literal["predicted", "observed"]
Count: TypeAlias = int | Literal["all"]

DEFAULT_K = 10
MOST_GUARANTEED = 10_000  # answers of a set or list that keeps a promise, where nobody asks for more
DEFAULT_BUDGET = 4000
MERGES = ("progressive", "simultaneous", "adaptive")


@dataclass(frozen=True)
class Limits:
    """The limits of one question. The fields are the flags of `tuplet ask`, the keywords of `Store.ask` and the keys of
    `POST /ask`, with the same units everywhere.

    >>> Limits(k=5, timeout=2.0).k
    5
    >>> Limits(memory="2M").memory
    2097152
    >>> Limits(timeout="5")
    Traceback (most recent call last):
    tuplet.errors.BadInput: timeout must be a positive number, not '5'
    """

    k: Count | None = knob(None, "how many answers, or 'all' (default: LIMIT of the query, or 10)")
    offset: int = knob(0, "skip this many answers first")
    timeout: float | None = knob(None, "stop after this time with the best answers so far", unit="seconds")
    memory: int | None = knob(None, "stop when the search holds this many bytes, such as 2G", unit="bytes")
    work: int | None = knob(None, "stop when the search has looked at this many edges (exact)")
    only: Only | None = knob(
        None, "keep only tuples that the facts do not imply, or only those they imply", ("predicted", "observed")
    )
    ask_threshold: float | None = knob(
        None, "what an ASK query takes for true: a tuple of this truth at least (default: stated facts alone)"
    )
    confidence: float | None = knob(
        None, "a set that holds a true tuple beyond the facts this often, such as 0.9 (tuplet guarantee comes first)"
    )
    max_false: float | None = knob(
        None,
        "the longest list beyond the facts of which at most this share is wrong, as far as held-out facts bear it out, "
        "such as 0.3",
    )
    evidence: bool = knob(False, "list the stated facts that speak for each predicted one")
    witness: bool = knob(True, "leave out the facts that each answer rests on", flag="--no-witness")
    logic: str = knob("product", "how truth values combine", Logic.names)
    budget: Count = knob(DEFAULT_BUDGET, "entities kept for each variable, or 'all' (ns3)")
    merge: str = knob("progressive", "how hypernodes are merged (ns3)", MERGES)
    options: Mapping[str, Option] = field(
        default_factory=dict, metadata={"help": "settings of the engine by name", "choices": (), "least": None}
    )

    def __post_init__(self) -> None:
        if isinstance(self.memory, str):
            try:
                object.__setattr__(self, "memory", size(self.memory))
            except (ValueError, OverflowError):
                raise BadInput(Argument("memory"), f" takes bytes, such as 512M or 2G, not {self.memory!r}") from None
        given = self.__dict__
        for name, least, default, all_too in _WHOLE:
            value = given[name]
            if value is default or (type(value) is int and value >= least) or (all_too and value == "all"):
                continue
            object.__setattr__(self, name, whole_number(name, value, least, " or 'all'" if all_too else ""))
        if not (self.timeout is None or _is_number(self.timeout, math.inf)) or self.timeout == math.inf:
            raise BadInput(Argument("timeout"), f" must be a positive number, not {self.timeout!r}")
        _share("ask_threshold", self.ask_threshold, most=1.0)
        if self.guaranteed:
            _share("confidence", self.confidence)
            _share("max_false", self.max_false, example=0.1)
            if self.confidence is not None and self.max_false is not None:
                raise BadInput("give either ", Argument("confidence"), " or ", Argument("max_false"), ", not both")
            asked = Argument("max_false" if self.confidence is None else "confidence")
            if self.only == "observed":
                raise BadInput(asked, " is about what the facts do not imply: not with ", Given("only", "observed"))
            if self.logic != "product":
                raise BadInput(asked, " is for the product logic: not with ", Given("logic", self.logic))
        for name, choices in _CHOICES:
            value = given[name]
            if value is not None and value not in choices:
                raise unknown(name, value, choices)
        for name in ("evidence", "witness"):
            if not isinstance(given[name], bool):
                raise BadInput(Argument(name), f" must be true or false, not {given[name]!r}")
        if not isinstance(self.options, Mapping):
            raise BadInput(f"options must be a mapping from names to values, not {self.options!r}")

    @staticmethod
    def from_fields(given: Limits | None = None, **changes: Any) -> Limits:
        """Limits with some fields changed; an unknown field is refused by name."""
        if given is not None and not isinstance(given, Limits):
            raise BadInput(f"limits must be tuplet.Limits(…), not {given!r}")
        for name in changes:
            if name not in _FIELDS:
                raise unknown("limit", name, _FIELDS)
        return replace(given or NO_LIMITS, **changes) if changes else given or NO_LIMITS

    def settle(self, limit: int | None, offset: int = 0) -> Limits:
        """The same for a query that brings its own LIMIT and OFFSET, which what is given here overrides."""
        if self is NO_LIMITS and limit is None and not offset:
            return USUAL_LIMITS
        k = self.k if self.k is not None else limit if limit is not None else self.usual_k
        offset = self.offset or offset
        return self if (k, offset) == (self.k, self.offset) else replace(self, k=k, offset=offset)

    @property
    def guaranteed(self) -> bool:
        """Whether a set or list is asked for that keeps a promise."""
        return self.confidence is not None or self.max_false is not None

    @property
    def usual_k(self) -> int:
        """How many answers there are where nobody says: what is promised of a list is promised of all of it."""
        return MOST_GUARANTEED if self.guaranteed else DEFAULT_K

    def from_the_first(self, limit: int | None, offset: int = 0) -> Limits:
        """The same, settled, with the answers that the offset would skip."""
        settled = self.settle(limit, offset)
        k = settled.k if settled.k is None or settled.k == "all" else settled.k + settled.offset
        return replace(settled, k=k, offset=0)

    def count(self, most: int) -> int:
        """k as a number, offset included, where `most` is everything there can be."""
        if self.k is None or self.k == "all":
            return most if self.k == "all" else min(most, DEFAULT_K + self.offset)
        return min(most, self.k + self.offset)

    @property
    def rules(self) -> Logic:
        """The logic itself."""
        return LOGICS[self.logic]

    def given(self) -> dict[str, Any]:
        """The fields that were set, by name: what an answer says of its limits."""
        usual = NO_LIMITS.__dict__
        return {name: value for name, value in self.__dict__.items() if value != usual[name]}


class LimitFields(TypedDict, total=False):
    """The fields of `Limits` as keywords of `ask` and its sisters, for type checkers."""

    k: Count | None
    offset: int
    timeout: float | None
    memory: int | str | None
    work: int | None
    only: Only | None
    ask_threshold: float | None
    confidence: float | None
    max_false: float | None
    evidence: bool
    witness: bool
    logic: str
    budget: Count
    merge: str
    options: Mapping[str, str | int | float]


def whole_number(name: str, value: Any, least: int, other: str = "") -> int:
    """A whole number, also one of NumPy's, as Python's."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise BadInput(Argument(name), f" must be a whole number from {least}{other}, not {value!r}")
    return int(value)


def _is_number(value: Any, most: float) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) <= most


def _share(name: str, value: Any, most: float = math.nextafter(1.0, 0.0), example: float = 0.9) -> None:
    if not (value is None or _is_number(value, most)):
        raise BadInput(Argument(name), f" must be a share between 0 and 1, such as {example}, not {value!r}")


_FIELDS = {f.name: f for f in fields(Limits)}
_WHOLE = tuple(
    (name, least, _FIELDS[name].default, name in ("k", "budget"))
    for name, least in (("k", 0), ("offset", 0), ("memory", 1), ("work", 1), ("budget", 1))
)
_CHOICES = tuple((name, _FIELDS[name].metadata["choices"]) for name in ("only", "logic", "merge"))
NO_LIMITS, USUAL_LIMITS = Limits(), Limits(k=DEFAULT_K)


class OutOfTime(Exception):
    """A limit was reached in the middle of something that has no part to show: the deadline, as a rule."""

    why = "timeout"  # what the answer says of it


class OutOfMemory(OutOfTime):
    """The search would hold more than it may."""

    why = "memory"


class Brake:
    """What ends a question from outside, such as a client that went away: all deadlines of the question look at it.

    A brake that also holds a search for a while waits inside `pressed`.
    """

    stopped = False
    slice: int | None = None  # edges between two looks, if fewer than usual

    def stop(self) -> None:
        """Nobody waits for the answer: the search ends at its next look, as if its time were up."""
        self.stopped = True

    def pressed(self) -> bool:
        """Whether the question has to end here; called by the thread that searches."""
        return self.stopped

    def may_hold(self, size: int) -> bool:
        """Whether there is room for a search that holds so many bytes; its own limit aside."""
        return True


class Deadline:
    """When a question must be answered; started once, at the call or at the receipt of the request.

    Every loop that can be long looks at it; between two looks lie at most some 50 ms. `clock` is for tests.

    >>> deadline = Deadline(5.0, clock=lambda: 7.0)
    >>> deadline.left(), deadline.over()
    (5.0, False)
    >>> search = deadline.before(0.1, 1.0)
    >>> deadline.brake.stop()
    >>> deadline.over(), search.over()
    (True, True)
    """

    def __init__(
        self,
        seconds: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
        brake: Brake | None = None,
    ) -> None:
        self.seconds, self.clock = seconds, clock
        self.brake = brake or Brake()
        self.idle = 0.0  # seconds that were not the question's
        self.end = math.inf if seconds is None else clock() + seconds

    def worked(self) -> float:
        """The time on the clock, less what was not the question's: two of these tell how long a question took."""
        return self.clock() - self.idle

    def left(self) -> float:
        """Seconds that are left, at least 0; infinite without a limit."""
        return max(0.0, self.end - self.clock()) if self.end != math.inf else math.inf

    def over(self) -> bool:
        """Whether the time is up, or nobody waits any more."""
        return self.brake.pressed() or (self.end != math.inf and self.clock() >= self.end)

    def check(self) -> None:
        """Raises `OutOfTime` when the time is up."""
        if self.over():
            raise OutOfTime

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Work that is not the question's: loading and compiling what answers it."""
        start = self.clock()
        yield
        took = self.clock() - start
        self.end += took
        self.idle += took

    def before(self, share: float, most: float) -> Deadline:
        """An earlier deadline that leaves a share of the whole time, at most some seconds, for what follows."""
        earlier = Deadline(None, self.clock, self.brake)
        if self.seconds is not None:
            earlier.seconds, earlier.end = self.seconds, self.end - min(share * self.seconds, most)
        return earlier


NO_DEADLINE = Deadline()
