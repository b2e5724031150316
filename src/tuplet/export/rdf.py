"""N-Triples, and Turtle with truth and attributes as annotations (RDF-star, RDF 1.2).

A stated fact is a triple; its truth, if that is not 1, and its attributes are said about the quoted triple. A predicted
fact is quoted, not stated. An IRI is itself, a blank node stays one, any other name is put into an IRI of ours.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np

from tuplet.export.export import ExportContent, ExportedFacts, typed_text
from tuplet.graph.attributes import Plain
from tuplet.graph.graph import NO_DATE
from tuplet.graph.names import NAMES
from tuplet.lang.reader import XSD

TRUTH, DATE = "urn:tuplet:truth", "date"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
REIFIES = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\\x7f-\x9f\ud800-\udfff]+")
_BLANK = re.compile(r"_:[A-Za-z0-9]+")
_LOCAL = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

Term = Callable[[str], str]
# Writes what is said about a fact: its number, the fact in one piece, properties and values.
Annotate = Callable[[int, str, list[tuple[str, str]]], Iterator[str]]


def term(name: str) -> str:
    """A name as N-Triples has it.

    >>> term("http://example.org/a"), term("MONDO:5000"), term("_:b0"), term("New York")
    ('<http://example.org/a>', '<MONDO:5000>', '_:b0', '<urn:tuplet:name:New%20York>')
    """
    if _BLANK.fullmatch(name):
        return name
    return f"<{name}>" if _IRI.fullmatch(name) and not name.startswith(NAMES) else f"<{NAMES}{quote(name, safe='')}>"


def write_ntriples(content: ExportContent, path: Path) -> None:
    """Write a `.nt` file."""

    def annotate(number: int, fact: str, said: list[tuple[str, str]]) -> Iterator[str]:
        # N-Triples has no quoted subjects: a node stands for the fact
        yield f"_:fact{number} {REIFIES} <<( {fact} )>> .\n"
        for name, value in said:
            yield f"_:fact{number} {name} {value} .\n"

    _write(content, path, term, annotate)


def write_turtle(content: ExportContent, path: Path) -> None:
    """Write a `.ttl` file."""
    prefixes = {prefix: space for prefix, space in content.graph.prefixes.known.items() if _IRI.fullmatch(space)}
    by_space = {space: prefix for prefix, space in prefixes.items()}

    def short(name: str) -> str:
        cut = max(name.rfind("/"), name.rfind("#"), name.rfind(":")) + 1
        prefix = by_space.get(name[:cut])
        return f"{prefix}:{name[cut:]}" if prefix is not None and _LOCAL.fullmatch(name, cut) else term(name)

    def annotate(number: int, fact: str, said: list[tuple[str, str]]) -> Iterator[str]:
        yield f"<< {fact} >> {' ; '.join(f'{name} {value}' for name, value in said)} .\n"

    head = "".join(f"@prefix {prefix}: <{space}> .\n" for prefix, space in prefixes.items())
    _write(content, path, short, annotate, head)


def _write(content: ExportContent, path: Path, name: Term, annotate: Annotate, head: str = "") -> None:
    graph, number = content.graph, 0
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        stream.write(head)
        for facts in content.facts():
            relation = name(graph.relations.name(facts.relation))
            heads, tails = (map(name, graph.entities.names(ends)) for ends in (facts.heads, facts.tails))
            said = _gather(content, facts, name)
            for i, (head, tail) in enumerate(zip(heads, tails, strict=True)):
                fact = f"{head} {relation} {tail}"
                if facts.stated[i]:
                    stream.write(f"{fact} .\n")
                if i in said:
                    stream.writelines(annotate(number, fact, said[i]))
                    number += 1
        label_names = graph.notes.get("label_attributes", ())
        for entity, label, several in content.entities():
            subject = name(entity) if label or several else ""
            if label and label not in {value for attribute, value, _ in several if attribute in label_names}:
                stream.write(f"{subject} {name(LABEL)} {literal(label)} .\n")
            for attribute, value, tag in several:
                stream.write(f"{subject} {name(attribute)} {literal(value, tag, name)} .\n")
        for r in range(len(graph.relations)):
            if label := graph.relations.label(r):
                stream.write(f"{name(graph.relations.name(r))} {name(LABEL)} {literal(label)} .\n")


def _gather(content: ExportContent, facts: ExportedFacts, name: Term) -> dict[int, list[tuple[str, str]]]:
    """Truth, date and attributes of facts that have any, by their place."""
    found: dict[int, list[tuple[str, str]]] = {}
    for i in np.flatnonzero((facts.truth != 1) | ~facts.stated).tolist():
        found.setdefault(i, []).append((name(TRUTH), literal(float(facts.truth[i]), name=name)))
    for i, seconds in enumerate(() if facts.date is None else facts.date.tolist()):
        if seconds != NO_DATE:
            moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
            found.setdefault(i, []).append((name(DATE), literal(moment, name=name)))
    if values := content.values(facts.relation, facts.keys):
        for i, key in enumerate(facts.keys.tolist()):
            for attribute, value, tag in values.get(key, ()):
                found.setdefault(i, []).append((name(attribute), literal(value, tag, name)))
    return found


def literal(value: Plain, tag: str = "", name: Term = term) -> str:
    """A value as RDF has it; `name` writes its datatype.

    >>> print(literal(datetime.date(1990, 5, 1)), literal('say "hi"', "en"))
    "1990-05-01"^^<http://www.w3.org/2001/XMLSchema#date> "say \\"hi\\""@en
    """
    kind, text = typed_text(value)
    if kind != "string":
        return f'"{text}"^^{name(XSD + kind)}'
    text = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
    return f"{text}@{tag}" if tag else text
