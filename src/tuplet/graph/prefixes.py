"""Prefixes of the file that a graph came from: people read `ex:bob` where the name is a long IRI."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

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
