"""Where everything stands in a table: with a row for each fact, or a row for each entity."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuplet.errors import BadInput, Option, unknown
from tuplet.graph.attributes import Kind
from tuplet.read.columns import ROLES, Choice, Place

TYPE_RELATION = "type"  # of the facts that node labels become

# Names that say what a column is.
_KNOWN = {
    "head": ("head", "subject", "source", "h", "s"),
    "relation": ("relation", "predicate", "r", "p"),
    "tail": ("tail", "object", "target", "t", "o"),
    "truth": ("truth", "weight"),
    "date": ("date",),
}
_KNOWN_OF_ENTITIES = {
    "id": ("id", "node", "entity", "iri", "uri", "curie", "key"),
    "label": ("label", "name", "title"),
    "type": ("type", "types", "labels", "class", "category"),
}


@dataclass(frozen=True)
class TableLayout:
    """The place of each thing in a row, from 0."""

    width: int
    role: Mapping[str, int]
    relations: tuple[tuple[str, int], ...] = ()  # of which one may have several columns
    attributes: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)  # of attributes, where the header says it
    lists: frozenset[str] = frozenset()  # attributes that may have several values in a cell
    split: str = ""  # what stands between several values in a cell
    spaces: Mapping[str, str] = field(default_factory=dict)  # id spaces of head, tail and id
    relation_name: str = ""  # of all facts, where no column has it
    type_name: str = ""  # of all entities, where no column has it
    only: int | None = None  # only rows that have something here are of this layout
    also: TableLayout | None = None  # the layout of other rows
    unused: tuple[str, ...] = ()  # names of columns that nobody asked for
    missing: tuple[str, ...] = ()  # words that stand for an empty cell
    trim: bool = False  # whether spaces around what a cell holds are left out
    unnamed: frozenset[str] = frozenset()  # relations that the user did not name: `relation=*`

    @property
    def by_entity(self) -> bool:
        return "id" in self.role

    @property
    def used(self) -> list[int]:
        """The places that matter, ascending."""
        others = [] if self.also is None else self.also.used
        tails = [place for _, place in self.relations]
        return sorted({*self.role.values(), *tails, *self.attributes.values(), *others})


def known_columns(names: Sequence[str]) -> dict[str, int]:
    """The place of each role if these are well-known column names, else nothing.

    >>> known_columns(["Subject", "predicate", "object", "weight"]), known_columns(["paris", "in", "france"])
    ({'head': 0, 'relation': 1, 'tail': 2, 'truth': 3}, {})
    """
    role = _named(names, _KNOWN)
    return role if all(r in role for r in ROLES) else {}


def _named(names: Sequence[str], known: Mapping[str, Sequence[str]]) -> dict[str, int]:
    lowered = [name.strip().lower() for name in names]
    return {r: lowered.index(word) for r, words in known.items() for word in words[::-1] if word in lowered}


def node_choice(names: Sequence[str], choice: Choice | None = None) -> Choice:
    """How a table of nodes is read: an id, perhaps a label and types; all other columns are attributes.

    >>> dict(node_choice(["id", "name", "born"])), node_choice(["drug", "phase"]).role
    ({'id': 1, 'label': 2}, {'id': 1})
    """
    role = _named(names, _KNOWN_OF_ENTITIES)
    role.setdefault("id", role.pop("label") if role.get("label") == 0 else 0)
    split = choice.split if choice is not None else ""
    return Choice({r: place + 1 for r, place in role.items()}, rest="attribute", split=split, header=True)


def layout_of(where: str, names: Sequence[str], choice: Choice, numbers_are_names: bool = True) -> TableLayout:
    """The layout of a table whose columns have these names, as the user chose it.

    A number is a name where there is one (the columns of a data frame may be called 0, 1, 2), else a position from 1.

    >>> layout_of("f.csv", ["id", "who", "does", "whom"], Choice({"head": "who", "relation": 3, "tail": "whom"})).role
    {'head': 1, 'relation': 2, 'tail': 3}
    """

    def found(what: str, column: Place) -> int:
        if str(column) in names and (numbers_are_names or isinstance(column, str)):
            if list(names).count(str(column)) > 1:
                raise _twice(where, str(column))
            return list(names).index(str(column))
        if isinstance(column, str):
            raise unknown("column", column, names, f"is not in {where}")
        if not 1 <= column <= len(names):
            raise BadInput(f"{where} has {len(names)} columns; there is no column {column} for the {what}")
        return column - 1

    role = {what: found(what, column) for what, column in choice.items()} or known_columns(names)
    relations = tuple((name, found(name, column)) for name, column in choice.relations)
    attributes = {name: found(name, column) for name, column in choice.attributes.items()}
    taken = {*role.values(), *(place for _, place in relations), *attributes.values()}
    if choice.rest == "attribute" and "label" in role and names[role["label"]] != "label":
        taken.discard(role["label"])  # what a thing is called may be asked for as name or title too
    others = {name: i for i, name in enumerate(names) if i not in taken}
    if choice.rest:
        for name, i in others.items():
            if names[i] in names[:i]:
                raise _twice(where, name)
    if choice.rest == "relation":
        relations += tuple(others.items())
    elif choice.rest == "attribute":
        attributes |= others
    unused = () if choice.rest else tuple(others)
    split = choice.split or (";" if "type" in role else "")
    lists = frozenset(attributes if choice.split else ())
    return TableLayout(
        len(names),
        role,
        relations,
        attributes,
        lists=lists,
        split=split,
        relation_name=choice.relation_name,
        unused=unused,
        missing=choice.missing,
        trim=choice.trim,
        unnamed=frozenset(others if choice.rest == "relation" else ()),
    )


def _twice(where: str, name: str) -> BadInput:
    return BadInput(f"two columns are called {name!r} in {where}; rename one of them")


def plain(names: Sequence[str], role: Mapping[str, int]) -> TableLayout:
    """The layout of a table of which only the roles are known."""
    taken = set(role.values())
    return TableLayout(len(names), role, unused=tuple(name for i, name in enumerate(names) if i not in taken))


def unused_remark(where: str, layout: TableLayout) -> tuple[str, ...]:
    """What is said of columns that nobody asked for."""
    if not layout.unused:
        return ()
    named = ", ".join(map(repr, layout.unused[:8])) + (", …" if len(layout.unused) > 8 else "")
    one = len(layout.unused) == 1
    what = "column" if one else "columns"
    keep = f"attribute={layout.unused[0]}" if one else "attribute=*"
    return (f"{where}: {what} {named} not read ({keep} among the columns keeps {'it' if one else 'them'})",)


def header_unnamed(place: str, names: Sequence[str], rows: Sequence[Sequence[str]] = ()) -> BadInput:
    """The error for a first line that is a header whose names do not say which column is which.

    What may be meant is guessed from the rows that follow.

    >>> rows = [["ann", "tea", "2.5"], ["bob", "tea", "2.5"], ["ann", "ham", "9.1"]]
    >>> header_unnamed("f.csv:1", ["who", "what thing", "price"], rows).shell.split("; ")[1]
    "name the columns with --columns 'head=who,NAME=what thing,attribute=*' (NAME: what you call the relation)"
    """
    called = [name or str(place) for place, name in enumerate(names, start=1)]
    guess = _guess(called, [row for row in rows if len(row) == len(names)])
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return BadInput(
        f"{place}: the first line looks like a header ({shown}); name the columns with ",
        Option("columns", guess),
        " (NAME: what you call the relation)" if ",NAME=" in guess else "",
    )


def _guess(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """What the columns of a table may be: few relations in the second, a row for each entity, or for each pair."""
    columns = [[row[i] for row in rows if row[i]] for i in range(len(names))]
    values = [bool(column) and all(map(_VALUE.fullmatch, column)) for column in columns]
    different = [len(set(column)) for column in columns]
    ends = [i for i, value in enumerate(values) if not value and i]
    few = len(names) > 2 and not values[2] and different[1] <= min(12, max(1, len(rows) // 3)) < different[2]
    called = names[1].strip().lower() in (*_KNOWN["relation"], "rel", "edge", "does", "verb", "link")
    if len(names) > 2 and 1 in ends and (few or called or not rows):
        role, used = f"head={names[0]},relation={names[1]},tail={names[2]}", 3
    elif len(rows) > 2 and different[0] == len(rows):
        links = ends if len(ends) < len(names) - 1 else []
        role, used = ",".join([f"id={names[0]}", *(f"relation={names[i]}" for i in links)]), 1 + len(links)
        if not links:
            return f"{role},{'relation' if ends else 'attribute'}=*"
    else:
        role, used = f"head={names[0]},NAME={names[ends[0] if ends else 1]}", 2
    return role + (",attribute=*" if rows and used < len(names) else "")


# Numbers with fractions and dates, which are rarely names.
_VALUE = re.compile(r"[+-]?[0-9]*[.][0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2}.*")
