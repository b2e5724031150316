"""Names and labels of entities or relations, as arrays: opening two million names costs nothing, finding one 20 µs."""

from __future__ import annotations

import copy
import difflib
import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.adjacency import are_pointers, are_within, refuse_misfits

if TYPE_CHECKING:
    from tuplet.graph.attributes import LabelColumns

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# Up to this many strings are compared in full by `suggest`; of larger vocabularies only those that share a piece.
_COMPARED = 2000
# Up to this many names (relations, mostly) are kept in a dictionary once one is looked up.
_LISTED = 2000


@dataclass(frozen=True, eq=False)
class Strings:
    """UTF-8 strings one after another, with the order of their bytes."""

    blob: Bytes  # [bytes]
    offsets: Longs  # [strings + 1]
    order: Ints  # ids of the non-empty strings in ascending order of their bytes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"<Strings: {len(self):,} of {len(self.blob):,} bytes>"

    @staticmethod
    def from_texts(strings: Sequence[str]) -> Strings:
        """The strings in the given order."""
        try:
            encoded = [text.encode() for text in strings]
        except UnicodeEncodeError as error:
            raise BadInput(f"{error.object!r} cannot be written as UTF-8") from None
        order = sorted((i for i, text in enumerate(encoded) if text), key=encoded.__getitem__)
        return Strings.from_bytes(encoded, order)

    @staticmethod
    def from_bytes(encoded: Sequence[bytes], order: Sequence[int]) -> Strings:
        """The same of their bytes, where their order is known; as distinct texts, unlike names, one may be empty."""
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return Strings(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets, np.array(order, dtype=np.int32))

    def __reduce__(self) -> tuple[Any, ...]:
        return Strings, (self.blob, self.offsets, self.order)  # not the view, which has no pickle

    # Views give single bytes and numbers several times quicker than arrays do.
    @cached_property
    def _view(self) -> memoryview:
        return np.ascontiguousarray(self.blob).data

    @cached_property
    def _ends(self) -> memoryview[int]:
        return np.ascontiguousarray(self.offsets).data

    @cached_property
    def _sorted(self) -> memoryview[int]:
        return np.ascontiguousarray(self.order).data

    def raw(self, i: int) -> bytes:
        ends = self._ends
        return bytes(self._view[ends[i] : ends[i + 1]])

    def text(self, i: int) -> str:
        return self.raw(i).decode()

    def texts(self, ids: Iterable[int] | NDArray[np.integer]) -> list[str]:
        view, ends = self._view, self._ends
        chosen = ids.tolist() if isinstance(ids, np.ndarray) else ids
        return [str(view[ends[i] : ends[i + 1]], "utf-8") for i in chosen]

    def span(self, text: str) -> tuple[int, int]:
        """The part of `order` whose strings equal `text`."""
        low, key = self._first(text)
        return (low, bisect_right(self._sorted, key, low, key=self.raw)) if low >= 0 else (0, 0)

    def find(self, text: str) -> int:
        """The first id of a string, -1 if there is none."""
        low, _ = self._first(text)
        return self._sorted[low] if low >= 0 else -1

    def _first(self, text: str) -> tuple[int, bytes]:
        """Where in `order` the strings begin that equal `text`, -1 if there are none; and its bytes."""
        try:
            key = text.encode()
        except UnicodeEncodeError:
            return -1, b""
        low = self.before(key)
        there = key and low < len(self._sorted) and self.raw(self._sorted[low]) == key
        return low if there else -1, key

    def beginning(self, text: str, most: int) -> list[int]:
        """The ids of strings that begin with `text`, in ascending order of their bytes."""
        key = text.encode("utf-8", "replace")
        low = self.before(key)
        near = (int(i) for i in self.order[low : low + most])
        return list(itertools.takewhile(lambda i: self.raw(i).startswith(key), near))

    def before(self, key: bytes) -> int:
        """How many strings come before the given bytes."""
        return bisect_left(self._sorted, key, key=self.raw)

    def near(self, text: str) -> list[str]:
        """Strings that may be meant by `text`: a small set in which the nearest ones are."""
        if not text:
            return []
        if len(self.order) <= _COMPARED:
            return sorted(set(self.texts(self.order)))
        shared = self._sharing_a_piece(text.encode("utf-8", "replace").lower())
        return sorted(set(self.texts(np.unique(np.concatenate(shared)))))

    def _sharing_a_piece(self, key: bytes) -> list[Longs]:
        # Two typing errors leave one of three pieces intact. What stands before and after the piece tells how well it
        # is aligned; the end counts more than the start, because long names end in the word people remember.
        lowered = bytes(self._view).lower()
        found: list[Longs] = [np.zeros(0, dtype=np.int64)]
        size = max(2, -(-len(key) // 3))
        pieces = {key: 0} | {key[begin : begin + size]: begin for begin in range(0, len(key), size)}
        for piece, begin in pieces.items():
            hits = np.array(_occurrences(lowered, piece, most=20_000), dtype=np.int64)
            ids = np.searchsorted(self.offsets, hits, side="right") - 1
            inside = hits + len(piece) <= self.offsets[ids + 1]
            hits, ids = hits[inside], ids[inside]
            before = np.abs(hits - self.offsets[ids] - begin)
            after = np.abs(self.offsets[ids + 1] - hits - (len(key) - begin))
            best = np.argsort(np.minimum(before, 8) + 2 * after, kind="stable")[: _COMPARED // 4]
            found.append(ids[best])
        return found


def arrow_bytes(texts: Any) -> tuple[Bytes, Longs]:
    """The bytes of Arrow strings, and where each begins and ends."""
    import pyarrow as pa

    large = texts.cast(pa.large_string())
    _, places, data = large.buffers()
    offsets = np.zeros(1, np.int64)
    if len(large):
        offsets = np.frombuffer(places, np.int64)[large.offset : large.offset + len(large) + 1]
    blob = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return blob[offsets[0] : offsets[-1]], offsets - offsets[0]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Names by id and ids by name; labels where known.

    >>> v = Vocabulary.from_names(["b", "a"], labels=["Bee", ""])
    >>> v, list(v), "a" in v
    (<Vocabulary: 2 names: 'b', 'a'>, ['b', 'a'], True)
    >>> len(v), v.name(0), v.find("a"), v.find("c"), v.label(0), v.find_label("Bee"), v.suggest("bee")
    (2, 'b', 1, -1, 'Bee', [0], ['Bee'])
    """

    strings: Strings
    labels: Strings  # as many as names, "" where unknown; or none at all
    more: Vocabulary | None = None  # names that came later; their ids follow
    aliases: LabelColumns | None = field(default=None, repr=False)

    def with_aliases(self, aliases: LabelColumns | None) -> Vocabulary:
        """The same names with further labels; what was made of the names stays."""
        other = copy.copy(self)
        object.__setattr__(other, "aliases", aliases)
        return other

    def __len__(self) -> int:
        return len(self.strings) + (0 if self.more is None else len(self.more))

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _LISTED):
            yield from self.names(range(start, min(start + _LISTED, len(self))))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) >= 0

    def __repr__(self) -> str:
        shown = [*map(repr, self.names(range(min(len(self), 3)))), *(["…"] if len(self) > 3 else [])]
        return f"<Vocabulary: {len(self):,} names: {', '.join(shown)}>"

    def extend_names(self, names: Sequence[str]) -> Vocabulary:
        """The vocabulary with more names behind those that are there, which are not copied.

        >>> v = Vocabulary.from_names(["b", "d"], labels=["Bee", ""]).extend_names(["c"]).extend_names(["a"])
        >>> list(v), v.find("a"), v.find("d"), v.label(0), v.label(3), v.sort_rank.tolist()
        (['b', 'd', 'c', 'a'], 3, 1, 'Bee', '', [1, 3, 2, 0])
        >>> list(v.flat), v.flat.more is None, v.flat.label(0)
        (['b', 'd', 'c', 'a'], True, 'Bee')
        """
        if not names:
            return self
        return Vocabulary(self.strings, self.labels, Vocabulary.from_names([*(self.more or ()), *names]), self.aliases)

    @property
    def flat(self) -> Vocabulary:
        if self.more is None:
            return self
        one, two = self.strings, self.more.strings
        blob, offsets = np.concatenate([one.blob, two.blob]), np.append(one.offsets, one.offsets[-1] + two.offsets[1:])
        order = np.empty(len(self), dtype=np.int32)
        order[self.sort_rank] = np.arange(len(self), dtype=np.int32)
        labels = self.labels
        if len(labels):
            ends = np.full(len(two), labels.offsets[-1])
            labels = Strings(labels.blob, np.append(labels.offsets, ends), labels.order)
        return Vocabulary(Strings(blob, offsets, order), labels, aliases=self.aliases)

    @staticmethod
    def from_names(names: Sequence[str], labels: Sequence[str] | None = None) -> Vocabulary:
        """The vocabulary whose ids are positions in `names`, which must be distinct and not empty."""
        strings = Strings.from_texts(names)
        if len(strings.order) < len(strings):
            raise BadInput(f"name number {next(i for i, name in enumerate(names) if not name) + 1} is empty")
        ordered = strings.texts(strings.order)
        for one, other in itertools.pairwise(ordered):
            if one == other:
                raise BadInput(f"the name {one!r} is listed twice")
        if labels is not None and len(labels) != len(names):
            raise BadInput(f"{len(labels)} labels for {len(names)} names")
        return Vocabulary(strings, Strings.from_texts(labels if labels is not None and any(labels) else []))

    def check(self, prefix: str) -> None:
        """Refuse arrays that do not fit together with a ValueError."""
        for part, strings in (("name", self.strings), ("label", self.labels)):
            refuse_misfits(
                **{
                    f"{prefix}{part}_offsets": are_pointers(strings.offsets, len(strings.blob)),
                    f"{prefix}{part}_order": are_within(strings.order, len(strings)),
                }
            )

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """What `from_arrays` needs, each key beginning with `prefix`."""
        if self.more is not None:
            return self.flat.arrays(prefix)
        return {
            f"{prefix}{part}_{field}": getattr(strings, field)
            for part, strings in (("name", self.strings), ("label", self.labels))
            for field in ("blob", "offsets", "order")
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Vocabulary:
        """The inverse of `arrays`."""
        name, label = (
            Strings(*(arrays[f"{prefix}{part}_{field}"] for field in ("blob", "offsets", "order")))
            for part in ("name", "label")
        )
        return Vocabulary(name, label)

    @cached_property
    def sort_rank(self) -> Ints:
        """The rank of each id in order of name, for display. [names]"""
        rank = np.empty(len(self), dtype=np.int32)
        first = len(self.strings)
        if self.more is None:
            rank[self.strings.order] = np.arange(first, dtype=np.int32)
            return rank
        # Each new name moves those behind it by one.
        order = self.more.strings.order
        before = np.array([self.strings.before(self.more.strings.raw(int(i))) for i in order], dtype=np.int64)
        moved = np.zeros(first + 1, dtype=np.int32)
        np.add.at(moved, before, 1)
        rank[self.strings.order] = np.arange(first, dtype=np.int32) + np.cumsum(moved[:first], dtype=np.int32)
        rank[first + order] = before + np.arange(len(order))
        return rank

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.strings.texts(range(len(self.strings))))}

    @property
    def labelled(self) -> int:
        return len(self.labels.order)

    def name(self, i: int) -> str:
        first = len(self.strings)
        return self.strings.text(i) if i < first or self.more is None else self.more.name(i - first)

    def names(self, ids: Iterable[int] | NDArray[np.integer]) -> list[str]:
        if self.more is None:
            return self.strings.texts(ids)
        return [self.name(int(i)) for i in ids]

    def find(self, name: str) -> int:
        """The id of a name, -1 if there is none."""
        if len(self.strings) <= _LISTED:
            found = self._ids.get(name, -1)
        else:
            found = self.strings.find(name)
        if found < 0 and self.more is not None:
            later = self.more.find(name)
            return later if later < 0 else len(self.strings) + later
        return found

    def label(self, i: int) -> str:
        return self.labels.text(i) if i < len(self.labels) else ""

    def labels_of(self, ids: Sequence[int]) -> list[str]:
        if not len(self.labels):
            return [""] * len(ids)
        if self.more is None and len(self.labels) == len(self.strings):
            return self.labels.texts(ids)
        return [self.label(i) for i in ids]

    def find_label(self, label: str) -> list[int]:
        """All ids with that label, ascending; if there is none, those for which it is a further label."""
        low, high = self.labels.span(label)
        if low == high and self.aliases is not None:
            return self.aliases.find(label)
        return sorted(int(i) for i in self.labels.order[low:high])

    def suggest(self, text: str, most: int = 3) -> list[str]:
        """The names and labels nearest to `text`, best first; also by the last part of names like `/film/genre`.

        >>> Vocabulary.from_names(["/film/film/genre", "/people/person/gender"]).suggest("gendre")
        ['/film/film/genre', '/people/person/gender']
        """
        folded = text.casefold()
        matcher = difflib.SequenceMatcher(autojunk=False)
        matcher.set_seq2(folded)
        scored = {}
        # The last word of a label says less than the last part of a name.
        further = [] if self.aliases is None else [(strings, 0.9) for strings in self.aliases.strings()]
        for strings, last in ((self.labels, 0.9), *further, (self.strings, 0.97)):
            for candidate in strings.near(text):
                whole = candidate.casefold()
                score = max(_likeness(matcher, whole), last * _likeness(matcher, _last_part(whole, len(folded))))
                if score >= 0.6 and candidate != text:
                    scored[candidate] = (-score, len(candidate), candidate)
        if self.more is not None:
            scored |= {name: (-1.0, len(name), name) for name in self.more.suggest(text, most)}
        return sorted(scored, key=scored.__getitem__)[:most]


def _occurrences(text: bytes, piece: bytes, most: int) -> list[int]:
    found: list[int] = []
    at = text.find(piece)
    while at >= 0 and len(found) < most:
        found.append(at)
        at = text.find(piece, at + 1)
    return found


def _likeness(matcher: difflib.SequenceMatcher[str], text: str) -> float:
    matcher.set_seq1(text)
    if matcher.real_quick_ratio() < 0.6 or matcher.quick_ratio() < 0.6:
        return 0.0
    return matcher.ratio()


def _last_part(text: str, length: int) -> str:
    """The end of `text` that begins after a separator and is nearest in length.

    >>> _last_part("concept_city_new_york", 8), _last_part("http://example.org/asthma", 6)
    ('new_york', 'asthma')
    """
    starts = [i + 1 for i, letter in enumerate(text) if letter in "/#:_. "]
    best = min(starts, key=lambda start: abs(len(text) - start - length), default=0)
    return text[best:]


_SEARCHED = 1 << 26  # bytes of names that are searched inside; beyond that only their beginnings


@dataclass(frozen=True)
class Finder:
    """The entities or relations whose name or label begins with, or contains, a text; well under a millisecond.

    >>> finder = Finder(Vocabulary.from_names(["q1", "q2"], labels=["New York", "York"]))
    >>> finder.find("york"), finder.find("new"), finder.find("q", most=1)
    ([1, 0], [0], [0])
    """

    words: Vocabulary

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
        for variant in dict.fromkeys((key, key.lower(), key.capitalize(), key.title())):
            for strings in (self.words.labels, self.words.strings):
                for i in strings.beginning(variant, 4 * most):
                    _note(found, i, strings, 0)
            for text, i in self.words.aliases.beginning(variant, most) if self.words.aliases else ():
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
    for at in _occurrences(lowered, key, most):
        i = int(np.searchsorted(strings.offsets, at, side="right")) - 1
        if at + len(key) <= strings.offsets[i + 1]:
            begins = at == strings.offsets[i]
            word = begins or not lowered[at - 1 : at].isalnum()
            _note(found, i, strings, 0 if begins else 1 if word else 2)


def _note(found: dict[int, tuple[int, int, str]], i: int, strings: Strings, grade: int) -> None:
    text = strings.text(i)
    _better(found, i, (grade, len(text), text))


def _better(found: dict[int, tuple[int, int, str]], i: int, rank: tuple[int, int, str]) -> None:
    if i not in found or rank < found[i]:
        found[i] = rank


NAMES = "urn:tuplet:name:"  # begins the IRI of a name that is none, in an export
WELL_KNOWN = {
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_LOCAL = r"(\w(?:[\w.-]*[\w-])?)(?![\w/#:])"


@dataclass(frozen=True)
class Prefixes:
    """Short forms of names.

    >>> prefixes = Prefixes({"ex": "http://example.org/", "exp": "http://example.org/people/"})
    >>> prefixes.short("http://example.org/people/bob"), prefixes.short("http://example.org/a/b"), prefixes.short("bob")
    ('exp:bob', 'http://example.org/a/b', 'bob')
    >>> prefixes.short("Bob <http://example.org/people/bob>")
    'Bob <exp:bob>'
    """

    known: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _names(self) -> dict[str, str]:
        return {space: prefix for prefix, space in self.known.items() if space}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        spaces = sorted(self._names, key=len, reverse=True)  # of two that fit, the longer one counts
        return re.compile(f"(?<![\\w:/#])({'|'.join(map(re.escape, spaces))}){_LOCAL}")

    def short(self, text: str) -> str:
        """A text whose names are written as a query may write them: with a prefix where there is one."""
        if not self._names or "://" not in text:
            return text
        return self._pattern.sub(lambda found: f"{self._names[found[1]]}:{found[2]}", text)

    def whole(self, name: str) -> str:
        """The name that a short form stands for; any other text is itself.

        >>> Prefixes({"ex": "http://example.org/"}).whole("ex:bob")
        'http://example.org/bob'
        """
        prefix, sign, local = name.partition(":")
        return self.known[prefix] + local if sign and prefix in self.known else name


NO_PREFIXES = Prefixes()
