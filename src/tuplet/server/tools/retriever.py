"""Facts for retrieval-augmented generation: what a store says, and predicts, about the entities that a text names."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tuplet.query import contents
from tuplet.query.answers import show_entity
from tuplet.query.limits import whole_number
from tuplet.store import Store

_WORDS = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")
_LONGEST = 6  # words of a name in a text
# Words that name nothing by themselves, even where a graph has an entity of that name.
_EMPTY = frozenset(
    re.findall(
        r"\w+",
        "a about all an and any are as at be by can did do does for from had has have how i if in is it its may not of "
        "on or should so than that the their them then there these they this to was we were what when where which who "
        "whom whose why will with would you",
    )
)


@dataclass(frozen=True)
class RetrievedFact(contents.EntityFact):
    """A fact that a text may need; `str` of it is a line for a prompt."""

    def __str__(self) -> str:
        relation = self.relation.replace("_", " ")
        ends = show_entity(self.head, self.head_label), show_entity(self.tail, self.tail_label)
        known = "stated" if self.status == "observed" else f"predicted, truth {self.truth:.2f}"
        return f"{ends[0]} — {relation} — {ends[1]} ({known})"

    def to_dict(self) -> dict[str, Any]:
        """The fact as JSON has it, with its line."""
        return {**asdict(self), "text": str(self)}


class Retriever:
    """Finds facts, stated and predicted, about the entities that a text names.

    >>> from tuplet.read.read import read
    >>> from tuplet.query.source import Source
    >>> facts = [("paris", "capital_of", "france"), ("france", "borders", "spain"), ("spain", "member_of", "nato")]
    >>> retriever = Retriever(Store(Source(read(facts))))
    >>> retriever.mentions("Does France border Spain?")
    ['france', 'spain']
    >>> for fact in retriever.retrieve("Does France border Spain?", k=2):
    ...     print(fact)
    france — borders — spain (stated)
    paris — capital of — france (stated)
    """

    def __init__(self, store: Store, least: float = 0.05, each: int = 20) -> None:
        self.store, self.least = store, least  # predictions of less truth are left out
        self.each = whole_number("each", each, 1)  # facts of each relation and direction that are looked at

    def mentions(self, text: str) -> list[str]:
        """The entities that a text names, by name or label, in the order of the text; the longest names first."""
        return list(dict.fromkeys(self.store.graph.entities.name(i) for i in self._mentioned(text)))

    def retrieve(self, text: str, k: int = 20) -> list[RetrievedFact]:
        """The facts that a text may need, the most useful first.

        First come facts between two entities that the text names, then those of relations that it speaks of, then the
        others. Among these come first what is likely, and what says something of its own: that an organisation has one
        more member says less than where it has its seat.
        """
        whole_number("k", k, 1)
        named = self.mentions(text)
        known, spoken = set(named), {_stem(word) for word in _words(text)}
        found: dict[tuple[str, str, str], tuple[tuple[Any, ...], RetrievedFact]] = {}
        for name in named:
            facts = [fact for fact in contents.entity(self.store.source, name, self.each) if self._counts(fact)]
            alike = Counter((fact.relation, fact.head == name) for fact in facts)
            for fact in facts:
                between = fact.head in known and fact.tail in known
                about = sum(_stem(word) in spoken for word in _words(fact.relation) if word not in _EMPTY)
                tells = fact.truth / (1 + math.log(alike[fact.relation, fact.head == name]))
                key = fact.head, fact.relation, fact.tail
                found[key] = (not between, -about, -tells, *key), RetrievedFact(**asdict(fact))
        return [fact for _, fact in sorted(found.values(), key=lambda one: one[0])[:k]]

    def _counts(self, fact: contents.EntityFact) -> bool:
        return fact.status == "observed" or fact.truth >= self.least

    def context(self, text: str, k: int = 20) -> str:
        """The facts as lines of a prompt; empty if the text names nothing that the store knows."""
        return "\n".join(map(str, self.retrieve(text, k)))

    def _mentioned(self, text: str) -> Iterator[int]:
        spans = [found.span() for found in _WORDS.finditer(text)]
        at = 0
        while at < len(spans):
            for length in range(min(_LONGEST, len(spans) - at), 0, -1):
                words = text[spans[at][0] : spans[at + length - 1][1]]
                if length == 1 and words.lower() in _EMPTY:
                    continue
                ids = self._called(words)
                if ids:
                    yield from ids
                    at += length - 1
                    break
            at += 1

    def _called(self, words: str) -> list[int]:
        entities = self.store.graph.entities
        for spelling in dict.fromkeys((words, words.lower(), words.capitalize(), words.title(), words.upper())):
            found = entities.find_label(spelling)
            if found:
                return found
            for name in (spelling, spelling.replace(" ", "_"), spelling.replace(" ", "-")):
                if (known := entities.find(name)) >= 0:
                    return [known]
        return []


def _words(text: str) -> list[str]:
    return [word.lower() for part in _WORDS.findall(text) for word in part.split("-")]


def _stem(word: str) -> str:
    """A word without its ending, roughly: `borders` and `bordering` are one."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word
