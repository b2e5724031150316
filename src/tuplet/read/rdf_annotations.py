"""Statements about statements (RDF 1.2, RDF-star): the truth and the attributes of annotated facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyoxigraph as ox

from tuplet.graph.attributes import Kind
from tuplet.read.cells import of_kind
from tuplet.read.facts import AttributeBatch
from tuplet.read.rdf_terms import REIFIES, TRUTH, kind_of_datatype, last_part

Triple: TypeAlias = tuple[str, str, str]


@dataclass
class _Noted:
    """What is said about a fact."""

    truth: float | None = None
    values: dict[tuple[str, Kind], list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Annotations:
    """The annotated facts, and the nodes that stand for them."""

    facts: dict[Triple, _Noted]
    reifiers: frozenset[Any]

    @property
    def has_truth(self) -> bool:
        """Whether some fact has a truth value."""
        return any(noted.truth is not None for noted in self.facts.values())

    def truth(self, fact: Triple) -> float:
        """How true a fact is; 1 if nothing says so."""
        noted = self.facts.get(fact)
        return 1.0 if noted is None or noted.truth is None else noted.truth

    def only_annotated(self, stated: set[Triple]) -> Iterator[Triple]:
        """The facts that are not stated, but whose truth is."""
        for fact, noted in self.facts.items():
            if fact not in stated and noted.truth is not None:
                yield fact

    def values(self, facts: Sequence[Triple]) -> list[AttributeBatch]:
        """The attributes of facts."""
        noted = [self.facts.get(fact) for fact in facts]
        names = dict.fromkeys(name for one in noted if one is not None for name in one.values)
        batches = []
        for name, kind in names:
            texts = [None if one is None else one.values.get((name, kind)) for one in noted]
            several = pa.array(texts, pa.list_(pa.large_string()))
            values, _ = of_kind(several.values, kind)
            batches.append(AttributeBatch(name, pa.ListArray.from_arrays(several.offsets, values)))
        return batches


NO_ANNOTATIONS = Annotations({}, frozenset())


def may_have_annotations(text: bytes) -> bool:
    """Whether a file may say something about statements: then all of it is kept in memory while it is read."""
    return any(mark in text for mark in (b"<<", b"{|", b"reifies", b"annotation", b"rdf:triple"))


def annotated(statements: Iterable[Any], name: Callable[[Any], str | None]) -> Annotations:
    """What statements say about others; `name` gives the names of nodes."""
    reified: dict[Any, list[Triple]] = {}
    for subject, predicate, value, _ in statements:
        if isinstance(value, ox.Triple) and predicate.value == REIFIES:
            head, tail = name(value.subject), name(value.object)
            several = reified.setdefault(subject, [])
            if head is not None and tail is not None:
                several.append((head, value.predicate.value, tail))
    facts: dict[Triple, _Noted] = {fact: _Noted() for several in reified.values() for fact in several}
    for subject, predicate, value, _ in statements if facts else ():
        for fact in reified.get(subject, ()):
            _note(facts[fact], predicate.value, value)
    return Annotations(facts, frozenset(reified))


def _note(noted: _Noted, name: str, value: Any) -> None:
    if isinstance(value, ox.NamedNode):
        noted.values.setdefault((name, "text"), []).append(value.value)
    elif isinstance(value, ox.Literal) and last_part(name) == TRUTH:
        truth = float(value.value)
        if not 0 <= truth <= 1:
            raise ValueError(f"the truth {value.value} is outside [0, 1]")
        noted.truth = truth if noted.truth is None else max(truth, noted.truth)
    elif isinstance(value, ox.Literal):
        noted.values.setdefault((name, kind_of_datatype(value.datatype.value)), []).append(value.value)
