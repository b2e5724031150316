"""Names and labels by what was typed so far: for completion, in well under a millisecond."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tuplet.graph.names import Strings, Vocabulary

_SEARCHED = 1 << 26  # bytes of names that are searched inside; beyond that only their beginnings


class Finder:
    """The entities or relations whose name or label begins with, or contains, a text.

    >>> finder = Finder(Vocabulary.of(["q1", "q2"], labels=["New York", "York"]))
    >>> [found["name"] for found in finder.find("york")], [found["name"] for found in finder.find("new")]
    (['q2', 'q1'], ['q1'])
    """

    def __init__(self, words: Vocabulary) -> None:
        self.words = words

    @cached_property
    def _lowered(self) -> list[tuple[Strings, bytes]]:
        parts = [s for s in (self.words.labels, self.words.strings) if len(s)]
        return [(s, bytes(s.blob).lower()) for s in parts if len(s.blob) <= _SEARCHED]

    def find(self, text: str, most: int = 20) -> list[dict[str, str]]:
        """The best matches: beginnings first, then beginnings of words, shorter ones before longer ones."""
        key = text.strip()
        if not key:
            ids = list(range(min(most, len(self.words))))
            return [self._entry(i) for i in ids]
        found: dict[int, tuple[int, int, str]] = {}
        for strings in (self.words.labels, self.words.strings):
            for variant in dict.fromkeys((key, key.lower(), key.capitalize(), key.title())):
                for i in self._beginning(strings, variant.encode("utf-8", "replace"), 4 * most):
                    self._note(found, i, strings, 0)
        if len(found) < most:
            for strings, lowered in self._lowered:
                self._inside(strings, lowered, key.lower().encode("utf-8", "replace"), found, 40 * most)
        best = sorted(found, key=found.__getitem__)[:most]
        return [self._entry(i) for i in best]

    def _entry(self, i: int) -> dict[str, str]:
        return {"name": self.words.name(i), "label": self.words.label(i)}

    @staticmethod
    def _note(found: dict[int, tuple[int, int, str]], i: int, strings: Strings, grade: int) -> None:
        text = strings.text(i)
        rank = (grade, len(text), text)
        if i not in found or rank < found[i]:
            found[i] = rank

    @staticmethod
    def _beginning(strings: Strings, key: bytes, most: int) -> list[int]:
        low, high = 0, len(strings.order)
        while low < high:
            middle = (low + high) // 2
            if strings.raw(int(strings.order[middle])) < key:
                low = middle + 1
            else:
                high = middle
        found = []
        for at in range(low, min(low + most, len(strings.order))):
            i = int(strings.order[at])
            if not strings.raw(i).startswith(key):
                break
            found.append(i)
        return found

    def _inside(
        self, strings: Strings, lowered: bytes, key: bytes, found: dict[int, tuple[int, int, str]], most: int
    ) -> None:
        at = lowered.find(key)
        for _ in range(most):
            if at < 0:
                return
            i = int(np.searchsorted(strings.offsets, at, side="right")) - 1
            if at + len(key) <= strings.offsets[i + 1]:
                begins = at == strings.offsets[i]
                word = begins or not lowered[at - 1 : at].isalnum()
                self._note(found, i, strings, 0 if begins else 1 if word else 2)
            at = lowered.find(key, at + 1)
