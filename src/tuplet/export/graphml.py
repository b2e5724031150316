"""GraphML: nodes with their labels and values, edges with their relation, truth and values."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from tuplet.errors import BadInput
from tuplet.export.content import ExportContent, Tagged
from tuplet.graph.attributes import AttributeColumn, Kind, Plain

HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
"""
_TYPES: dict[Kind, str] = {"integer": "long", "number": "double", "boolean": "boolean"}
_CHUNK = 1 << 16


def write_graphml(content: ExportContent, path: Path) -> None:
    """Write a `.graphml` file."""
    graph, keys = content.graph, _Keys()
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        stream.write(HEADER)
        keys.declare(stream, "node", [("label", "string"), *_typed(content.columns())])
        fixed = [("relation", "string"), *([("truth", "double")] if content.weighted else [])]
        keys.declare(stream, "edge", [*fixed, *_typed(content.fact_columns())])
        stream.write('<graph edgedefault="directed">\n')
        for start in range(0, len(graph.entities), _CHUNK):
            ids = np.arange(start, min(start + _CHUNK, len(graph.entities)))
            values = content.values(-1, ids)
            for i, name in zip(ids.tolist(), graph.entities.names(ids), strict=True):
                said: list[Tagged] = [pair for pair in values.get(i, []) if pair[0] != "label"]
                label = graph.entities.label(i)
                said += [("label", label, "")] if label else []
                stream.write(f"<node id={_quoted(name)}>{keys.data('node', said)}</node>\n")
        for facts in content.facts():
            relation = graph.relations.name(facts.relation)
            heads, tails = (graph.entities.names(ends) for ends in (facts.heads, facts.tails))
            values = content.values(facts.relation, facts.keys)
            for i, key in enumerate(facts.keys.tolist()):
                said = [("relation", relation, ""), *values.get(key, ())]
                said += [("truth", float(facts.truth[i]), "")] if content.weighted else []
                ends = f"source={_quoted(heads[i])} target={_quoted(tails[i])}"
                stream.write(f"<edge {ends}>{keys.data('edge', said)}</edge>\n")
        stream.write("</graph>\n</graphml>\n")


class _Keys:
    """The declared properties of nodes and edges."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], str] = {}

    def declare(self, stream: TextIO, of: str, names: Iterable[tuple[str, str]]) -> None:
        for name, kind in names:
            if (of, name) not in self._ids:
                self._ids[of, name] = key = f"d{len(self._ids)}"
                about = f'id="{key}" for="{of}" attr.name={_quoted(name)} attr.type="{kind}"'
                stream.write(f"<key {about}/>\n")

    def data(self, of: str, said: Iterable[Tagged]) -> str:
        return "".join(f'<data key="{self._ids[of, name]}">{_escaped(_text(value))}</data>' for name, value, _ in said)


def _typed(columns: Iterable[AttributeColumn]) -> list[tuple[str, str]]:
    """Attributes with their types: texts where they are a mixture."""
    kinds: dict[str, set[str]] = {}
    for column in columns:
        kinds.setdefault(column.name, set()).add(_TYPES.get(column.kind, "string"))
    numbers = {"long", "double"}
    return [
        (name, next(iter(found)) if len(found) == 1 else "double" if found == numbers else "string")
        for name, found in kinds.items()
    ]


def _text(value: Plain) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value)
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _quoted(text: str) -> str:
    return quoteattr(_checked(text))


def _escaped(text: str) -> str:
    return escape(_checked(text))


def _checked(text: str) -> str:
    """XML has no way to write most control characters."""
    for letter in text:
        if (letter < " " and letter not in "\t\n\r") or letter in "\ufffe\uffff":
            raise BadInput(f"XML cannot hold {text!r}; export to another format")
    return text
