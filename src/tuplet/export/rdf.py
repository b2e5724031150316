"""N-Triples, and Turtle with truth and attributes as annotations (RDF-star, RDF 1.2).

A stated fact is a triple; its truth, if that is not 1, and its attributes are said about the quoted triple. A predicted
fact is quoted, not stated.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import numpy as np

from tuplet.export.content import ExportContent, ExportedFacts, Tagged
from tuplet.export.names import DATE, LABEL, TRUTH, TurtleNames, term
from tuplet.graph.attributes import Plain
from tuplet.graph.graph import NO_DATE

XSD = "http://www.w3.org/2001/XMLSchema#"
REIFIES = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
_CHUNK = 1 << 16  # entities at a time

# Writes what is said about a fact: its number, the fact in one piece, properties and values.
Annotate = Callable[[int, str, list[tuple[str, str]]], Iterator[str]]


def write_ntriples(content: ExportContent, path: Path) -> None:
    """Write a `.nt` file."""

    def annotate(number: int, fact: str, said: list[tuple[str, str]]) -> Iterator[str]:
        # N-Triples has no quoted subjects: a node stands for the fact
        yield f"_:fact{number} {REIFIES} <<( {fact} )>> .\n"
        for name, value in said:
            yield f"_:fact{number} {name} {value} .\n"

    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        _write(content, stream, term, annotate)


def write_turtle(content: ExportContent, path: Path) -> None:
    """Write a `.ttl` file."""
    names = TurtleNames(content.graph.prefixes)

    def annotate(number: int, fact: str, said: list[tuple[str, str]]) -> Iterator[str]:
        yield f"<< {fact} >> {' ; '.join(f'{name} {value}' for name, value in said)} .\n"

    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        for prefix, space in names.prefixes.items():
            stream.write(f"@prefix {prefix}: <{space}> .\n")
        _write(content, stream, names.term, annotate)


def _write(content: ExportContent, stream: TextIO, name: Callable[[str], str], annotate: Annotate) -> None:
    graph, number = content.graph, 0
    for facts in content.facts():
        relation = name(graph.relations.name(facts.relation))
        heads, tails = (list(map(name, graph.entities.names(ends))) for ends in (facts.heads, facts.tails))
        said = _said(content, facts, name)
        for i, (head, tail) in enumerate(zip(heads, tails, strict=True)):
            fact = f"{head} {relation} {tail}"
            if facts.stated[i]:
                stream.write(f"{fact} .\n")
            if i in said:
                stream.writelines(annotate(number, fact, said[i]))
                number += 1
    for text in _about_entities(content, name):
        stream.write(text)
    for r in range(len(graph.relations)):
        if label := graph.relations.label(r):
            stream.write(f"{name(graph.relations.name(r))} {name(LABEL)} {literal(label)} .\n")


def _said(content: ExportContent, facts: ExportedFacts, name: Callable[[str], str]) -> dict[int, list[tuple[str, str]]]:
    """What is said about each fact about which something is."""
    found: dict[int, list[tuple[str, str]]] = {}
    for i in np.flatnonzero((facts.truth != 1) | ~facts.stated).tolist():
        found.setdefault(i, []).append((name(TRUTH), literal(float(facts.truth[i]), name=name)))
    if facts.date is not None:
        for i in np.flatnonzero(facts.date != NO_DATE).tolist():
            moment = datetime.datetime.fromtimestamp(int(facts.date[i]), datetime.UTC)
            found.setdefault(i, []).append((name(DATE), literal(moment, name=name)))
    values, keys = content.values(facts.relation, facts.keys), facts.keys
    if values:
        for i, key in enumerate(keys.tolist()):
            for attribute, value, tag in values.get(key, ()):
                found.setdefault(i, []).append((name(attribute), literal(value, tag, name)))
    return found


def _about_entities(content: ExportContent, name: Callable[[str], str]) -> Iterator[str]:
    """Labels and values of entities."""
    entities = content.graph.entities
    for start in range(0, len(entities), _CHUNK):
        ids = np.arange(start, min(start + _CHUNK, len(entities)))
        values = content.values(-1, ids)
        for i in ids.tolist():
            several: list[Tagged] = values.get(i, [])
            label = entities.label(i)
            labels = {value for attribute, value, _ in several if attribute in content.label_names}
            if not several and not label:
                continue
            subject = name(entities.name(i))
            if label and label not in labels:
                yield f"{subject} {name(LABEL)} {literal(label)} .\n"
            for attribute, value, tag in several:
                yield f"{subject} {name(attribute)} {literal(value, tag, name)} .\n"


def literal(value: Plain, tag: str = "", name: Callable[[str], str] = term) -> str:
    """A value as RDF has it; `name` writes its datatype.

    >>> print(literal(datetime.date(1990, 5, 1)), literal('say "hi"', "en"))
    "1990-05-01"^^<http://www.w3.org/2001/XMLSchema#date> "say \\"hi\\""@en
    """
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
        return f"{text}@{tag}" if tag else text
    kind, text = _typed(value)
    return f'"{text}"^^{name(XSD + kind)}'


def _typed(value: bool | int | float | datetime.date) -> tuple[str, str]:
    if isinstance(value, bool):
        return "boolean", str(value).lower()
    if isinstance(value, int):
        return "integer", str(value)
    if isinstance(value, float):
        return "double", repr(value).replace("inf", "INF")
    return ("dateTime" if isinstance(value, datetime.datetime) else "date"), value.isoformat()
