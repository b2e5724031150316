"""Headers of the files that Neo4j imports: `personId:ID(Person),name,born:int,:LABEL` and `:START_ID,:END_ID,:TYPE`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tuplet.errors import BadInput
from tuplet.graph.attributes import Kind
from tuplet.read.layouts import TableLayout

_MARKED = re.compile(
    r"(?P<name>[^:]*):(?P<mark>START_ID|END_ID|TYPE|ID|LABEL|IGNORE)(?:\((?P<space>.*)\))?", re.IGNORECASE
)
_TYPED = re.compile(r"(?P<name>.+):(?P<type>[a-z]+)(?:\{.*\})?(?P<list>\[\])?", re.IGNORECASE)
_ROLES = {"ID": "id", "LABEL": "type", "START_ID": "head", "END_ID": "tail", "TYPE": "relation"}
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("int", "long", "byte", "short", "integer"), "integer"),
    **dict.fromkeys(("float", "double", "number"), "number"),
    "boolean": "boolean",
    "date": "date",
    **dict.fromkeys(("localdatetime", "datetime"), "time"),
    **dict.fromkeys(("string", "char", "point", "time", "localtime", "duration"), "text"),
}
_LABELS = ("name", "title", "label")  # properties that say what a node is called


def is_neo4j_header(names: Sequence[str]) -> bool:
    """Whether these are column names of a Neo4j file.

    >>> is_neo4j_header([":START_ID(Person)", "role", ":END_ID", ":TYPE"]), is_neo4j_header(["a:b", ":c", "d"])
    (True, False)
    """
    return any(_MARKED.fullmatch(name.strip()) for name in names)


def is_apoc_header(names: Sequence[str]) -> bool:
    """Whether these are the columns that `apoc.export.csv` writes: nodes and relationships in one table."""
    return {"_id", "_labels", "_start", "_end", "_type"} <= set(names)


def apoc_layout(names: Sequence[str]) -> TableLayout:
    """Where everything stands in such a table: rows with an `_id` are nodes, those with a `_start` relationships.

    >>> nodes = apoc_layout(["_id", "_labels", "name", "_start", "_end", "_type"])
    >>> nodes.role, nodes.also.role
    ({'id': 0, 'type': 1, 'label': 2}, {'head': 3, 'tail': 4, 'relation': 5})
    """
    place = {name: i for i, name in enumerate(names)}
    attributes = {name: i for name, i in place.items() if not name.startswith("_")}
    ends = {"head": place["_start"], "tail": place["_end"], "relation": place["_type"]}
    edges = TableLayout(len(names), ends, attributes=attributes, only=place["_start"])
    role = {"id": place["_id"], "type": place["_labels"], **_label(attributes)}
    return TableLayout(len(names), role, attributes=attributes, split=":", only=place["_id"], also=edges)


def _label(attributes: Mapping[str, int]) -> dict[str, int]:
    """The property that says what a node is called."""
    called = {name.lower(): i for name, i in attributes.items()}
    return {"label": next(called[word] for word in _LABELS if word in called)} if called.keys() & set(_LABELS) else {}


def neo4j_layout(place: str, names: Sequence[str]) -> TableLayout:
    """Where everything stands in a file with such a header.

    >>> people = neo4j_layout("p.csv:1", [":ID(Person)", "name", "born:int", "films:string[]", ":LABEL"])
    >>> people.role, people.spaces, people.kinds
    ({'id': 0, 'type': 4, 'label': 1}, {'id': 'Person'}, {'name': 'text', 'born': 'integer', 'films': 'text'})
    """
    role: dict[str, int] = {}
    spaces: dict[str, str] = {}
    attributes: dict[str, int] = {}
    kinds: dict[str, Kind] = {}
    lists: set[str] = set()
    for i, text in enumerate(names):
        marked, typed = _MARKED.fullmatch(text.strip()), _TYPED.fullmatch(text.strip())
        if marked:
            mark = marked["mark"].upper()
            if mark == "IGNORE":
                continue
            what = _ROLES[mark]
            if what in role:
                raise BadInput(f"{place}: two columns are the :{mark}; tuplet reads one")
            role[what] = i
            if marked["space"]:
                spaces[what] = marked["space"]
            if marked["name"] and what == "id":
                attributes[marked["name"]] = i
                kinds[marked["name"]] = "text"
        elif typed and typed["type"].lower() in _KINDS:
            attributes[typed["name"]] = i
            kinds[typed["name"]] = _KINDS[typed["type"].lower()]
            if typed["list"]:
                lists.add(typed["name"])
        else:
            attributes[text.strip()] = i
            kinds[text.strip()] = "text"
    if "id" not in role:
        for what, mark in (("head", "START_ID"), ("tail", "END_ID"), ("relation", "TYPE")):
            if what not in role:
                raise BadInput(
                    f"{place}: a Neo4j header has :ID (nodes) or :START_ID, :END_ID and :TYPE; no :{mark} here"
                )
    else:
        role |= _label(attributes)
    return TableLayout(
        len(names), role, attributes=attributes, kinds=kinds, lists=frozenset(lists), split=";", spaces=spaces
    )
