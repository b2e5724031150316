"""Property graphs: those of NetworkX, and GraphML files. Nodes and edges have properties, which become attributes."""

from __future__ import annotations

import datetime
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuplet.errors import BadInput, Option
from tuplet.graph.attributes import FAMILIES, Family, Kind, kind_of
from tuplet.read.cells import READERS, BadRow
from tuplet.read.facts import AttributeBatch, FactColumns
from tuplet.read.mapping import TYPE_RELATION, Choice
from tuplet.read.tables import cast_truth
from tuplet.read.text import load

RELATION = "edge"  # of edges that do not say what they are
_RELATIONS = ("relation", "predicate", "label", "type")  # properties of an edge that do
_LABELS = ("label", "name", "title")
_TYPES = ("labels", "types", "type")


Properties: TypeAlias = Mapping[str, Any]
_Node: TypeAlias = tuple[str, Properties]
_Edge: TypeAlias = tuple[str, str, Any, Properties]  # head, tail, the key of one of several edges between them


def from_networkx(graph: Any, choice: Choice | None = None) -> FactColumns:
    """What a graph of NetworkX says."""
    nodes = [(str(name), properties) for name, properties in graph.nodes(data=True)]
    if graph.is_multigraph():
        found = graph.edges(keys=True, data=True)
    else:
        found = ((head, tail, None, properties) for head, tail, properties in graph.edges(data=True))
    edges = [(str(head), str(tail), key, properties) for head, tail, key, properties in found]
    return _facts("the NetworkX graph", nodes, edges, graph.is_directed(), choice)


def read_graphml(path: Path, columns: Choice | None = None) -> FactColumns:
    """What a GraphML file says."""
    nodes: list[_Node] = []
    edges: list[_Edge] = []
    directed = True
    keys: dict[str, tuple[str, str]] = {}  # name and type of each property by its id
    try:
        for event, element in ElementTree.iterparse(BytesIO(bytes(load(path))), ("start", "end")):
            tag = element.tag.rsplit("}", 1)[-1]
            if event == "start":
                if tag == "graph":
                    directed = element.get("edgedefault", "directed") == "directed"
            elif tag == "key":
                name = element.get("attr.name") or element.get("id", "")
                keys[element.get("id", "")] = name, element.get("attr.type", "string")
            elif tag == "node":
                nodes.append((_attribute(path, element, "id"), _data(path, element, keys)))
                element.clear()
            elif tag == "edge":
                ends = _attribute(path, element, "source"), _attribute(path, element, "target")
                edges.append((*ends, None, _data(path, element, keys)))
                element.clear()
    except ElementTree.ParseError as error:
        raise BadInput(f"{path}:{error.position[0]}: {str(error).split(':')[0]}") from None
    if not edges:
        raise BadInput(f"{path}: no edges; is it GraphML?")
    return _facts(str(path), nodes, edges, directed, columns)


def _attribute(path: Path, element: ElementTree.Element, name: str) -> str:
    if not element.get(name):
        raise BadInput(f"{path}: a {element.tag.rsplit('}', 1)[-1]} has no {name}")
    return element.attrib[name]


_KINDS: dict[str, Kind] = {
    **{"boolean": "boolean", "int": "integer", "long": "integer"},
    **{"float": "number", "double": "number"},
}


def _data(path: Path, element: ElementTree.Element, keys: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """The properties of a node or an edge, by their types."""
    # Neo4j writes labels also as attributes of the element.
    found: dict[str, Any] = {name: element.attrib[name] for name in ("labels", "label") if name in element.attrib}
    several: dict[str, list[Any]] = {}
    for data in element:
        if data.tag.rsplit("}", 1)[-1] != "data" or data.text is None:
            continue
        name, kind = keys.get(data.get("key", ""), (data.get("key", ""), "string"))
        try:
            value = READERS[_KINDS[kind]](data.text.strip()) if kind in _KINDS else data.text
        except (ValueError, OverflowError):
            raise BadInput(f"{path}: {name} is {data.text!r}, which is no {kind}") from None
        several.setdefault(name, []).append(value)
    return found | {name: values if len(values) > 1 else values[0] for name, values in several.items()}


def _facts(where: str, nodes: list[_Node], edges: list[_Edge], directed: bool, choice: Choice | None) -> FactColumns:
    """All that nodes and edges say."""
    if not edges:
        raise BadInput(f"{where}: no edges")
    wanted = None if choice is None or not choice.role else choice.get("relation")
    remarks: list[str] = []
    facts: list[tuple[str, str, str]] = []
    named = 0
    for head, tail, key, about in edges:
        relation = _first(about, _RELATIONS if wanted is None else (str(wanted),))
        if relation is None and isinstance(key, str):
            relation = key
        named += relation is not None
        facts.append((head, RELATION if relation is None else str(relation), tail))
    if wanted is not None and not named:
        raise BadInput(f"{where}: no edge has a property {wanted!r}, which ", Option("columns", None), " names")
    if named < len(edges):
        remarks.append(f"{where}: {len(edges) - named:,} edges do not say what they are; they are called {RELATION!r}")
    properties = [about for *_, about in edges]
    if not directed:
        remarks.append(f"{where}: its edges have no direction; each is two facts")
        facts += [(tail, relation, head) for head, relation, tail in facts]
        properties *= 2
    left_out = Counter[str]()
    taken = {"truth"} | ({str(wanted)} if wanted is not None else set(_RELATIONS))
    typed = [(name, TYPE_RELATION, kind) for name, about in nodes for kind in _types(about)]
    properties += [{} for _ in typed]
    values = list(_columns(properties, None, taken, left_out))
    names = pa.array([name for name, _ in nodes], pa.large_string())
    values += _columns([about for _, about in nodes], names, {"labels"}, left_out)
    remarks += [f"{where}: {count:,} values of {name!r} not read" for name, count in left_out.items()]
    truth = None
    if any(one.get("truth") is not None for one in properties):
        truth = _truth(where, [1.0 if one.get("truth") is None else one["truth"] for one in properties])
    return FactColumns.from_triples(
        facts + typed,
        truth=truth,
        labels={name: str(label) for name, about in nodes if (label := _first(about, _LABELS)) is not None},
        values=tuple(values),
        nodes=names,
        remarks=tuple(remarks),
        notes={"type_relation": TYPE_RELATION} if typed else {},
    )


def _truth(where: str, truths: list[Any]) -> NDArray[np.float64]:
    try:
        return cast_truth(pa.array(truths, pa.float64()))
    except (pa.ArrowException, TypeError):
        raise BadInput(f"{where}: a truth is not a number") from None
    except BadRow as error:
        raise BadInput(f"{where}: {error.message}") from None


def _first(properties: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((properties[name] for name in names if properties.get(name) not in (None, "")), None)


def _types(properties: Mapping[str, Any]) -> list[str]:
    """The types of a node: a list, or text as Neo4j writes it (`:Person:Actor`)."""
    found = _first(properties, _TYPES)
    if isinstance(found, str):
        return [part for part in found.split(":") if part] if found.startswith(":") else [found]
    return [str(part) for part in found] if isinstance(found, list | tuple | set | frozenset) else []


def _columns(
    rows: list[Properties], subjects: pa.Array | None, taken: set[str], left_out: Counter[str]
) -> Iterator[AttributeBatch]:
    """The properties of rows as attributes, one batch for each family of values."""
    found: dict[tuple[str, Family], dict[int, list[Any]]] = {}
    for i, properties in enumerate(rows):
        for name, value in properties.items():
            if name in taken or value is None:
                continue
            for one in value if isinstance(value, list | tuple | set | frozenset) else (value,):
                if isinstance(one, np.generic):
                    one = one.item()
                too_large = isinstance(one, int) and not -(2**63) <= one < 2**63
                if isinstance(one, bool | int | float | str | datetime.date) and not too_large:
                    found.setdefault((str(name), FAMILIES[kind_of(one)]), {}).setdefault(i, []).append(one)
                else:
                    left_out[str(name)] += 1
    for (name, family), values in found.items():
        mixed = len({kind_of(one) for several in values.values() for one in several}) > 1
        cells = [values.get(i) for i in range(len(rows))]
        if mixed and family in ("time", "number"):
            alike = _moment if family == "time" else float
            cells = [several and [alike(one) for one in several] for several in cells]
        yield AttributeBatch(name, pa.array(cells), subjects)


def _moment(value: datetime.date) -> datetime.datetime:
    if not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
