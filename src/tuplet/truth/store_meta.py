"""What a store knows about itself: what made its truth values, how reliable they are, what was changed since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from types import UnionType
from typing import Any, get_args, get_origin

from tuplet.errors import CorruptStore
from tuplet.settings import types
from tuplet.truth.calibration.reliability import BorneOut

LEARNED = "learned"  # the calibration that is fitted to held-out facts
BOUNDED = "bounded"  # too few for that: a line, and no promise above what was measured
GIVEN = "given"  # the values of a table made elsewhere, as they are
AGED = 0.1  # share of the facts that may change until the truth values should be made again


@dataclass(frozen=True)
class ModelMeta:
    """The predictor: an object in Python has a class name and nothing else."""

    kind: str
    sha256: str | None = None  # of the tables in the model's folder; None: there is no folder
    rank: int | None = None
    metrics: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return self.kind if self.sha256 is None else f"{self.kind} {self.sha256[:12]}"

    def as_dict(self) -> dict[str, Any]:
        known = _known(self)
        return known if self.sha256 else known | {"note": "an object in Python; there is no model folder"}


@dataclass(frozen=True)
class StoreChanges:
    """How many facts came and went since the store was made."""

    added: int = 0
    removed: int = 0
    new_entities: int = 0

    @property
    def facts(self) -> int:
        """How many changes of facts that were."""
        return self.added + self.removed


@dataclass(frozen=True)
class NewEntities:
    """Entities that came since the truth values were made: who waits for predictions, and what calibrates these.

    >>> some = NewEntities().expecting([7, 9, 8, 3])
    >>> some.waiting, some.without([8]).waiting
    (((3, 4), (7, 10)), ((3, 4), (7, 8), (9, 10)))
    """

    waiting: tuple[tuple[int, int], ...] = ()  # ids whose own rows are to be computed: first and last + 1 of each range
    met: int = 0  # how many of them, the oldest, the rows of the entities around them know of
    later: tuple[tuple[int, int, int], ...] = ()  # facts about these that came after that: head, relation, tail
    calibration: Mapping[str, Any] | None = None  # all but the arrays; None: there is none yet
    why: str | None = None  # nothing can be predicted about them

    @property
    def ids(self) -> list[int]:
        """The ids of those that wait, ascending."""
        return [number for first, end in self.waiting for number in range(first, end)]

    def expecting(self, ids: Iterable[int]) -> NewEntities:
        """The same with more that wait."""
        return replace(self, waiting=_ranges({*self.ids, *ids}))

    def without(self, ids: Iterable[int]) -> NewEntities:
        """The same when some wait no longer."""
        return replace(self, waiting=_ranges({*self.ids} - {*ids}))

    def as_dict(self) -> dict[str, Any]:
        return _known(self, "waiting")


def _known(value: Any, *always: str) -> dict[str, Any]:
    """The fields of a value that say something, and some in any case."""
    return {key: part for key, part in asdict(value).items() if part not in (None, ()) or key in always}


def _ranges(ids: set[int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for number in sorted(ids):
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return tuple(found)


@dataclass(frozen=True)
class StoreReport:
    """Sizes of the table, and how its truth values agree with held-out facts."""

    edges: int = 0
    facts: int = 0
    predicted: int | None = None  # None: computed on demand
    reliability: Mapping[str, Any] | None = None
    reliability_before: Mapping[str, Any] | None = None  # of a learned calibration: what it started from
    held_out_listed: float | None = None  # share of the held-out facts that the table lists
    # which pairs were scored, the share of the valid edges they hold, and `rows` if there was no time for some
    candidates: Mapping[str, Any] | None = None
    not_learned: str | None = None  # why the calibration is not a learned one, where it would have been

    def as_dict(self) -> dict[str, Any]:
        return _known(self, "edges", "facts", "predicted", "reliability")

    @property
    def rows_computed(self) -> float | None:
        """The share of the rows that were computed; None if there was time for all.

        >>> StoreReport(5, 3, 2, candidates={"rows": {"computed": 5, "of": 20}}).rows_computed
        0.25
        """
        rows = (self.candidates or {}).get("rows")
        return None if rows is None else round(rows["computed"] / rows["of"], 4)


@dataclass(frozen=True)
class StoreMeta:
    """Everything about a store but its arrays.

    >>> meta = StoreMeta("1f3a", ("train",), 0.005, {"name": "softmax-count"}, report=StoreReport(5, 3, 2))
    >>> meta.calibrated, meta.why
    (False, 'calibration softmax-count was asked for')
    >>> from dataclasses import replace
    >>> replace(meta, new=NewEntities(calibration={})).why
    'calibration softmax-count was asked for; predictions about new entities are calibrated'
    >>> replace(meta, changes=StoreChanges(added=1)).info()["truth_age"]
    {'edits': 1, 'changed': 0.5, 'again_after': 0, 'make_again': True}
    >>> StoreMeta.from_dict(meta.as_dict(), "store.json") == meta
    True
    >>> StoreMeta.from_dict(meta.as_dict() | {"threshold": "high"}, "store.json")
    Traceback (most recent call last):
    tuplet.errors.CorruptStore: store.json: threshold is 'high', which makes no sense there
    """

    graph: str  # hash of the graph it was made from
    observed: tuple[str, ...]  # the splits that were facts then
    threshold: float
    calibration: Mapping[str, Any] | None = None  # its name, and of a learned one all but the arrays; None: none
    models: tuple[ModelMeta, ...] = ()  # the predictors; the calibration learned from all of them
    table: str | None = None  # the file, if the truth values were made elsewhere
    changes: StoreChanges = field(default_factory=StoreChanges)
    report: StoreReport = field(default_factory=lambda: StoreReport(predicted=0))
    new: NewEntities = field(default_factory=NewEntities)

    @property
    def calibrated(self) -> bool | None:
        """Whether every predicted fact passed a learned calibration; None where nothing is predicted."""
        if self.report.predicted == 0:
            return None
        return self.calibration is not None and self.calibration["name"] == LEARNED

    @property
    def why(self) -> str | None:
        """Why it is not calibrated, if it is not; where nothing is predicted, why not."""
        if self.calibrated:
            return None
        if self.report.not_learned or self.calibrated is None:
            reason = self.report.not_learned
        elif self.calibration is None:
            reason = "the truth values were given and taken as they are"
        else:
            reason = f"calibration {self.calibration['name']} was asked for"
        newcomers = reason is not None and self.new.calibration is not None
        return f"{reason}; predictions about new entities are calibrated" if newcomers else reason

    @property
    def borne_out(self) -> BorneOut | None:
        """How much of a predicted truth held-out facts bear out; None where that was not measured for all of them."""
        measured = (self.calibration or {}).get("borne_out")
        if not self.calibrated or measured is None or self.new.calibration is not None:
            return None
        return BorneOut.from_dict(measured, "store.json")

    @property
    def no_newcomers(self) -> str | None:
        """Why nothing is predicted about new entities; None if there is no reason."""
        if self.report.predicted is None:
            return "rows are computed when asked, by a model that was made before they came"
        if self.calibration is None or self.calibration["name"] == GIVEN:
            return "no truth value of this store was made by a predictor"
        return None

    @property
    def changed(self) -> float | None:
        """The share of the facts that came or went since the truth values were made; None where none is predicted."""
        if self.report.predicted == 0:
            return None
        return min(1.0, self.changes.facts / max(1, self._facts_then))

    @property
    def stale(self) -> float | None:
        """The same where it is so much that the truth values should be made again."""
        changed = self.changed
        return changed if changed is not None and changed > AGED else None

    @property
    def _facts_then(self) -> int:
        return self.report.facts - self.changes.added + self.changes.removed

    def as_dict(self) -> dict[str, Any]:
        """As store.json has it."""
        return {
            "graph": self.graph,
            "observed": list(self.observed),
            "threshold": self.threshold,
            "calibration": None if self.calibration is None else dict(self.calibration),
            "model": self.models[0].as_dict() if self.models else None,
            **({"models": [model.as_dict() for model in self.models]} if len(self.models) > 1 else {}),
            "changes": asdict(self.changes),
            **({} if self.table is None else {"table": self.table}),
            "report": self.report.as_dict(),
            **({} if self.new == NewEntities() else {"new_entities": self.new.as_dict()}),
        }

    def info(self) -> dict[str, Any]:
        """As `tuplet info` shows it."""
        known = {key: value for key, value in self.as_dict().items() if key not in ("graph", "new_entities")}
        known |= {"calibrated": self.calibrated} | ({} if self.why is None else {"why": self.why})
        if self.changed is None:
            return known
        age = {"edits": self.changes.facts, "changed": self.changed, "again_after": int(AGED * self._facts_then)}
        return known | {"truth_age": age | {"make_again": self.stale is not None}}

    @staticmethod
    def from_dict(values: Mapping[str, Any], where: object) -> StoreMeta:
        """What `as_dict` gave, checked; `where` is the file, for errors."""
        first = values.get("model")
        models = values.get("models") or ([] if first is None else [first])
        meta: StoreMeta = _read(StoreMeta, {**values, "models": models, "new": values.get("new_entities")}, where)
        if meta.calibration is not None:
            _check_value("name", str, meta.calibration.get("name"), where)
        return meta


def _read(kind: type[Any], values: Mapping[str, Any], where: object) -> Any:
    """A dataclass from a JSON object; a value of another type is refused by its key."""
    optional = {f.name for f in fields(kind) if f.default is not MISSING or f.default_factory is not MISSING}
    found = {
        key: _check_value(key, hint, values.get(key), where)
        for key, hint in types(kind).items()
        if values.get(key) is not None or key not in optional
    }
    return kind(**found)


def _check_value(key: str, hint: Any, value: Any, where: object) -> Any:
    """A value of a JSON object in the type that a field declares."""
    declared = get_args(hint)[0] if isinstance(hint, UnionType) else hint  # the other one is None
    kind, parts = get_origin(declared) or declared, get_args(declared)
    if value is None:
        raise CorruptStore(f"{where}: {key} is missing")
    if is_dataclass(kind) and isinstance(value, Mapping):
        return _read(kind, value, where)  # type: ignore[arg-type]
    if kind is tuple and isinstance(value, list | tuple):
        each = parts[:1] * len(value) if parts[-1] is ... else parts
        if len(each) == len(value):
            return tuple(_check_value(key, one, part, where) for one, part in zip(each, value, strict=True))
    elif kind is float and isinstance(value, int | float):
        return float(value)
    elif isinstance(value, kind):
        return value
    raise CorruptStore(f"{where}: {key} is {value!r}, which makes no sense there")
