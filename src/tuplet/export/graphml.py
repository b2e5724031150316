"""GraphML: nodes with their labels and values, edges with their relation, truth and values."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from tuplet.errors import BadInput
from tuplet.export.export import ExportContent, Tagged, typed_text
from tuplet.export.tables import column_kinds
from tuplet.graph.attributes import Kind

HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
"""
_TYPES: dict[Kind, str] = {"integer": "long", "number": "double", "boolean": "boolean"}


def write_graphml(content: ExportContent, path: Path) -> None:
    """Write a `.graphml` file."""
    graph, ids = content.graph, dict[tuple[str, str], str]()

    def data(element: str, said: Iterable[Tagged]) -> str:
        texts = ((ids[element, name], escape(_check(typed_text(value)[1]))) for name, value, _ in said)
        return "".join(f'<data key="{key}">{text}</data>' for key, text in texts)

    edges = dict[str, Kind](relation="text")
    if content.weighted:
        edges["truth"] = "number"
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        stream.write(HEADER)
        for element, fixed, relation in (("node", dict[str, Kind](label="text"), -1), ("edge", edges, None)):
            found = {name: kind for name, (kind, _) in column_kinds(content.columns(relation)).items()}
            for name, kind in {**fixed, **found, **fixed}.items():
                ids[element, name] = key = f"d{len(ids)}"
                about = f'attr.name={_quote(name)} attr.type="{_TYPES.get(kind, "string")}"'
                stream.write(f'<key id="{key}" for="{element}" {about}/>\n')
        stream.write('<graph edgedefault="directed">\n')
        for name, label, several in content.entities():
            said: list[Tagged] = [value for value in several if value[0] != "label"]
            said += [("label", label, "")] if label else []
            stream.write(f"<node id={_quote(name)}>{data('node', said)}</node>\n")
        for facts in content.facts():
            heads, tails = (graph.entities.names(ends) for ends in (facts.heads, facts.tails))
            values = content.values(facts.relation, facts.keys)
            every = ("relation", graph.relations.name(facts.relation), "")
            for i, key in enumerate(facts.keys.tolist()):
                said = [every, *values.get(key, ())]
                said += [("truth", float(facts.truth[i]), "")] if content.weighted else []
                ends = f"source={_quote(heads[i])} target={_quote(tails[i])}"
                stream.write(f"<edge {ends}>{data('edge', said)}</edge>\n")
        stream.write("</graph>\n</graphml>\n")


def _quote(text: str) -> str:
    return quoteattr(_check(text))


def _check(text: str) -> str:
    """XML has no way to write most control characters."""
    for letter in text:
        if (letter < " " and letter not in "\t\n\r") or letter in "\ufffe\uffff":
            raise BadInput(f"XML cannot hold {text!r}; export to another format")
    return text
