"""Names as IRIs and back: SPARQL clients that are strict about IRIs get whole ones, and may ask with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar
from urllib.parse import unquote

from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import Name, Query

T = TypeVar("T")
_WHOLE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|urn:|mailto:|tag:")  # a name that is an IRI already
_BASE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`]+")
# What an IRI may not hold, and what would mean something else at its end.
_ODD = re.compile(r"[\x00-\x20<>\"{}|\\^`%?#\[\]\x7f-\x9f\ue000-\uf8ff\ufdd0-\ufdef\ufff0-\uffff\U000e0000-\U0010ffff]")


@dataclass(frozen=True)
class BaseIri:
    """Where the IRIs of names begin that are none themselves; empty if they stand as they are.

    >>> base = BaseIri("http://example.org/kg/")
    >>> base.iri("france"), base.iri("50% of <x>"), base.iri("http://other.org/a")
    ('http://example.org/kg/france', 'http://example.org/kg/50%25%20of%20%3Cx%3E', 'http://other.org/a')
    >>> base.name("http://example.org/kg/50%25%20of%20%3Cx%3E"), base.name("http://other.org/a")
    ('50% of <x>', 'http://other.org/a')
    >>> BaseIri("").iri("france")
    'france'
    """

    text: str = ""

    def __post_init__(self) -> None:
        if self.text and not _BASE.fullmatch(self.text):
            raise BadInput(f"--base-iri is a whole IRI such as http://example.org/kg/, not {self.text!r}")

    def iri(self, name: str) -> str:
        """The IRI of a name."""
        if not self.text or _WHOLE.match(name):
            return name
        return self.text + _ODD.sub(_escaped, name)

    def name(self, iri: str) -> str:
        """The name of an IRI; any other text is itself."""
        if not self.text or not iri.startswith(self.text) or iri == self.text:
            return iri
        return unquote(iri[len(self.text) :], errors="replace")

    def query(self, tree: Query, graph: KnowledgeGraph) -> Query:
        """A query with names in the place of their IRIs; what the graph itself calls so stays."""
        if not self.text:
            return tree

        def own(name: Name) -> Name:
            known = name.kind != "name" or graph.entities.find(name.text) >= 0 or graph.relations.find(name.text) >= 0
            return name if known else replace(name, text=self.name(name.text))

        return _with_names(tree, own)


NO_BASE = BaseIri()


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode())


def _with_names(part: T, change: Callable[[Name], Name]) -> T:
    """A part of a syntax tree with every name in it changed."""
    made: Any = part
    if isinstance(part, Name):
        made = change(part)
    elif isinstance(part, tuple):
        made = tuple(_with_names(item, change) for item in part)
    elif is_dataclass(part) and not isinstance(part, type):
        inner = {field.name: getattr(part, field.name) for field in fields(part)}
        made = replace(part, **{name: _with_names(value, change) for name, value in inner.items()})
    return made  # type: ignore[no-any-return]
