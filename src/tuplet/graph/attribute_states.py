"""What was changed in attributes: all values of a subject as they are now, whatever they were before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import refuse_misfits
from tuplet.graph.attribute_tables import joined_texts
from tuplet.graph.attributes import (
    FACTS,
    FAMILIES,
    STORED,
    AttributeColumn,
    Attributes,
    ColumnContent,
    Family,
    Kind,
    Plain,
    comparable,
    kind_of,
    plain,
    ranks_of,
    widest,
)
from tuplet.graph.names import Strings
from tuplet.graph.ranked import Ids, Ranked


class Subject(NamedTuple):
    """The attribute of one entity or fact."""

    name: str
    relation: int  # of the fact; -1: of an entity
    key: int


class StoredValue(NamedTuple):
    """A value with its kind, as it is written down: 1, 1.0 and true are three."""

    kind: Kind
    stored: bool | int | float | str
    tag: str = ""

    @staticmethod
    def of(value: Plain, tag: str = "") -> StoredValue:
        """A plain value."""
        return StoredValue(kind_of(value), comparable(value), tag)

    @property
    def same(self) -> tuple[Family, bool | int | float | str, str]:
        """Values that are the same have this in common: 1 and 1.0 are."""
        return FAMILIES[self.kind], self.stored, self.tag


@dataclass(frozen=True)
class AttributeStates:
    """All values of some subjects.

    A state says all about its subject: applied twice it changes nothing, and of two the later one counts.
    """

    values: Mapping[Subject, tuple[StoredValue, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def then(self, later: AttributeStates) -> AttributeStates:
        """These states and later ones."""
        return AttributeStates({**self.values, **later.values}) if later.values else self

    def differing(self, other: AttributeStates) -> AttributeStates:
        """Those that `other` does not have, or has otherwise."""
        theirs = other.values
        return AttributeStates({key: mine for key, mine in self.values.items() if theirs.get(key) != mine})

    def continues(self, older: AttributeStates) -> bool:
        """Whether it says something of every subject of another one."""
        return older.values.keys() <= self.values.keys()

    def array(self) -> NDArray[np.uint8]:
        """Everything as bytes."""
        rows = [[*subject, [list(value) for value in values]] for subject, values in sorted(self.values.items())]
        return np.frombuffer(json.dumps(rows, ensure_ascii=False).encode("utf-8", "surrogatepass"), dtype=np.uint8)

    @staticmethod
    def of_array(data: NDArray[np.uint8]) -> AttributeStates:
        """The inverse of `array`."""
        rows = json.loads(data.tobytes())
        return AttributeStates({Subject(*row[:3]): tuple(StoredValue(*value) for value in row[3]) for row in rows})

    def check(self, entities: int, relations: int) -> None:
        """Refuse states that do not fit with a ValueError: keys of columns are made of them."""
        good = True
        for subject, values in self.values.items():
            ends = divmod(subject.key, FACTS) if subject.relation >= 0 else (subject.key,)
            good &= -1 <= subject.relation < relations and all(0 <= end < entities for end in ends)
            good &= all(value.kind in FAMILIES for value in values)
        refuse_misfits(attributes=good)

    def applied(self, base: Attributes) -> Attributes:
        """Attributes in which this is so; a column is made when it is first looked at."""
        if not self.values:
            return base
        changed: dict[tuple[str, int], dict[int, tuple[StoredValue, ...]]] = {}
        for subject, values in self.values.items():
            changed.setdefault((subject.name, subject.relation), {})[subject.key] = values
        columns = {(column.name, column.relation, column.family): column for column in base.columns}
        for (name, relation), states in changed.items():
            families: dict[Family, list[Kind]] = {
                column.family: [column.kind] for column in base.of_facts(name, relation)
            }
            for values in states.values():
                for value in values:
                    families.setdefault(FAMILIES[value.kind], []).append(value.kind)
            for family, kinds in families.items():
                old, kind = columns.get((name, relation, family)), widest(kinds)
                tags = {"", *(v.tag for values in states.values() for v in values), *(old.tags if old else ())}
                spoken = tuple(sorted(tags)) if len(tags) > 1 and family == "text" else ()
                load = partial(_edited, old, kind, spoken, states, np.int64 if relation >= 0 else np.int32)
                columns[name, relation, family] = AttributeColumn(name, kind, load, relation, spoken)
        return Attributes(tuple(columns.values()))


def _edited(
    old: AttributeColumn | None,
    kind: Kind,
    tags: tuple[str, ...],
    states: Mapping[int, tuple[StoredValue, ...]],
    dtype: type[np.integer],
) -> ColumnContent:
    """The rows of a column with those of some keys replaced."""
    rows = [
        (key, value)
        for key, values in sorted(states.items())
        for value in values
        if FAMILIES[value.kind] == FAMILIES[kind]
    ]
    keys: Ids = np.array([key for key, _ in rows], dtype)
    stored, rank = ranks_of(kind, [plain(kind, value.stored) for _, value in rows])
    codes = np.array([tags.index(value.tag) for _, value in rows], np.int16) if tags else None
    order = np.lexsort((rank, keys))
    keys, rank, codes = keys[order], rank[order], None if codes is None else codes[order]
    if old is None:
        return ColumnContent(Ranked(keys, rank), stored, codes)
    ranked, values, languages = old.content
    keep = ~np.isin(ranked.keys, np.array(sorted(states), dtype))
    values, before, after = _joined(values, stored, kind)
    places = np.concatenate([before[ranked.rank[keep]], after[rank]])
    # rows of other keys stay in order, and none of them has a key of the new ones
    kept = ranked.keys[keep]
    at = np.searchsorted(kept, keys)
    spoken = None
    if tags and codes is not None:
        known = np.zeros(len(ranked.keys), np.int16) if languages is None else languages
        renumbered = np.array([tags.index(tag) for tag in (old.tags or ("",))], np.int16)[known[keep]]
        spoken = np.insert(renumbered, at, codes)
    ranks = np.insert(places[: len(kept)], at, places[len(kept) :]).astype(np.int32)
    return ColumnContent(Ranked(np.insert(kept, at, keys), ranks), values, spoken)


def _joined(
    values: NDArray[Any] | Strings, more: NDArray[Any] | Strings, kind: Kind
) -> tuple[NDArray[Any] | Strings, NDArray[np.int64], NDArray[np.int64]]:
    """All values of both, and where those of each are among them."""
    if isinstance(values, Strings) and isinstance(more, Strings):
        return joined_texts(values, more)
    assert not isinstance(values, Strings)
    assert not isinstance(more, Strings)
    dtype = STORED.get(kind, np.int64)
    both, place = np.unique(np.concatenate([values.astype(dtype), more.astype(dtype)]), return_inverse=True)
    return both, place[: len(values)], place[len(values) :]


def values_now(attributes: Attributes, subject: Subject) -> tuple[StoredValue, ...]:
    """The values of a subject."""
    return tuple(
        StoredValue(column.kind, comparable(value), tag)
        for column in attributes.of_facts(subject.name, subject.relation)
        for value, tag in column.tagged_values_of(subject.key)
    )


def united(values: Iterable[StoredValue]) -> tuple[StoredValue, ...]:
    """The values without repetition; of the same ones the first counts."""
    return tuple({value.same: value for value in reversed(list(values))}.values())[::-1]
