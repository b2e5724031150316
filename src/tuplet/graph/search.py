"""What is in a graph: entities and relations by what was typed so far, and how often each relation is used."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import Adjacency
from tuplet.graph.names import Strings, Vocabulary

_SEARCHED = 1 << 26  # bytes of names that are searched inside; beyond that only their beginnings


def relation_counts(facts: Adjacency) -> NDArray[np.int64]:
    """How many facts each relation has. [relations]

    >>> relation_counts(Adjacency.build(np.array([0, 1]), np.array([1, 1]), np.array([2, 2]), relations=3)[0])
    array([0, 2, 0])
    """
    return facts.view_entries[::2]


class Finder:
    """The entities or relations whose name or label begins with, or contains, a text; well under a millisecond.

    >>> finder = Finder(Vocabulary.of(["q1", "q2"], labels=["New York", "York"]))
    >>> finder.find("york"), finder.find("new"), finder.find("q", most=1)
    ([1, 0], [0], [0])
    """

    def __init__(self, words: Vocabulary) -> None:
        self.words = words

    def find(self, text: str, most: int = 20) -> list[int]:
        """The ids of the best matches: beginnings first, then beginnings of words, shorter ones before longer ones."""
        key = text.strip()
        if not key:
            return list(range(min(most, len(self.words))))
        found = self._matches(key, most)
        if self.words.more is not None:
            first = len(self.words.strings)
            found |= {first + i: rank for i, rank in Finder(self.words.more)._matches(key, most).items()}
        return sorted(found, key=found.__getitem__)[:most]

    def _matches(self, key: str, most: int) -> dict[int, tuple[int, int, str]]:
        """Grade, length and text of the best match of each id."""
        found: dict[int, tuple[int, int, str]] = {}
        for strings in (self.words.labels, self.words.strings):
            for variant in dict.fromkeys((key, key.lower(), key.capitalize(), key.title())):
                for i in strings.beginning(variant, 4 * most):
                    _note(found, i, strings, 0)
        if self.words.aliases is not None:
            for variant in dict.fromkeys((key, key.lower(), key.capitalize(), key.title())):
                for text, i in self.words.aliases.beginning(variant, most):
                    _better(found, i, (0, len(text), text))
        if len(found) < most:
            for strings, lowered in self._lowered:
                _search_inside(strings, lowered, key.lower().encode("utf-8", "replace"), found, 40 * most)
        return found

    @cached_property
    def _lowered(self) -> list[tuple[Strings, bytes]]:
        parts = [s for s in (self.words.labels, self.words.strings) if len(s)]
        return [(s, bytes(s.blob).lower()) for s in parts if len(s.blob) <= _SEARCHED]


def _search_inside(
    strings: Strings, lowered: bytes, key: bytes, found: dict[int, tuple[int, int, str]], most: int
) -> None:
    at = lowered.find(key)
    for _ in range(most):
        if at < 0:
            return
        i = int(np.searchsorted(strings.offsets, at, side="right")) - 1
        if at + len(key) <= strings.offsets[i + 1]:
            begins = at == strings.offsets[i]
            word = begins or not lowered[at - 1 : at].isalnum()
            _note(found, i, strings, 0 if begins else 1 if word else 2)
        at = lowered.find(key, at + 1)


def _note(found: dict[int, tuple[int, int, str]], i: int, strings: Strings, grade: int) -> None:
    text = strings.text(i)
    _better(found, i, (grade, len(text), text))


def _better(found: dict[int, tuple[int, int, str]], i: int, rank: tuple[int, int, str]) -> None:
    if i not in found or rank < found[i]:
        found[i] = rank
