"""Names in RDF: an IRI is itself, a blank node stays one, any other name is put into an IRI of ours."""

from __future__ import annotations

import re
from urllib.parse import quote

from tuplet.graph.names import NAMES, Prefixes

TRUTH, DATE = "urn:tuplet:truth", "date"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\\x7f-\x9f\ud800-\udfff]+")
_BLANK = re.compile(r"_:[A-Za-z0-9]+")
_LOCAL = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def term(name: str) -> str:
    """A name as N-Triples has it.

    >>> term("http://example.org/a"), term("MONDO:5000"), term("_:b0"), term("New York")
    ('<http://example.org/a>', '<MONDO:5000>', '_:b0', '<urn:tuplet:name:New%20York>')
    """
    if _BLANK.fullmatch(name):
        return name
    return f"<{name}>" if _IRI.fullmatch(name) and not name.startswith(NAMES) else f"<{NAMES}{quote(name, safe='')}>"


class TurtleNames:
    """Names as Turtle has them: with a prefix where there is one.

    >>> TurtleNames(Prefixes({"ex": "http://example.org/"})).term("http://example.org/a")
    'ex:a'
    """

    def __init__(self, prefixes: Prefixes) -> None:
        self.prefixes = {prefix: space for prefix, space in prefixes.known.items() if _is_iri(space)}
        self._by_space = {space: prefix for prefix, space in self.prefixes.items()}

    def term(self, name: str) -> str:
        """A name."""
        cut = max(name.rfind("/"), name.rfind("#"), name.rfind(":")) + 1
        prefix = self._by_space.get(name[:cut])
        if prefix is not None and _LOCAL.fullmatch(name, cut):
            return f"{prefix}:{name[cut:]}"
        return term(name)


def _is_iri(text: str) -> bool:
    return bool(_IRI.fullmatch(text))
