"""Which column of a table is what: as users say it (`--columns`, `columns=`), as headers say it, where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tuplet.errors import BadInput, Option, hint, unknown
from tuplet.graph.attributes import Kind

ROLES = ("head", "relation", "tail")
ALL_ROLES = (*ROLES, "truth", "date")
ENTITY_ROLES = ("id", "label", "type")
TYPE_RELATION = "type"  # of the facts that node labels become
_SEVERAL = ("relation", "attribute")  # of these a table may have several columns
_WORDS = (*ALL_ROLES, *ENTITY_ROLES, "attribute", "split", "missing", "spaces")
_REST = "*"  # all columns that are not named

Place: TypeAlias = str | int  # the name of a column, or its position from 1
# As users write it: text, a list of three or four columns, or a mapping from roles to columns.
Columns: TypeAlias = str | Sequence[Place] | Mapping[str, Place | Sequence[Place]]

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


# --- what users say ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice(Mapping[str, Place]):
    """The columns that the user names. As a mapping: the roles that have one column, and their columns.

    A table with a row for each fact has a head, a relation and a tail; one with a row for each entity has an id.
    """

    role: Mapping[str, Place] = field(default_factory=dict)
    relations: tuple[tuple[str, Place], ...] = ()  # by columns of tails, of which one relation may have several
    attributes: Mapping[str, Place] = field(default_factory=dict)
    rest: str = ""  # what the columns are that are not named: relation, attribute or nothing
    split: str = ""  # what stands between several values in one cell
    relation_name: str = ""  # of all facts, where no column has it
    missing: tuple[str, ...] = ()  # words that stand for an empty cell
    trim: bool = False  # whether spaces around what a cell holds are left out
    header: bool | None = None  # whether the first line is one; None: find out
    names: tuple[str, ...] = ()  # of the columns, where another file has the header

    def __getitem__(self, role: str) -> Place:
        return self.role[role]

    def __iter__(self) -> Iterator[str]:
        return iter(self.role)

    def __len__(self) -> int:
        return len(self.role)

    @property
    def pairs(self) -> bool:
        """Whether two columns are enough."""
        return "id" in self.role or self.relation_name != ""

    @property
    def says_something(self) -> bool:
        """Whether columns are named at all."""
        return bool(self.role or self.attributes or self.rest)

    @property
    def by_position(self) -> bool:
        """Whether all columns are chosen by position: then the first line is a row and no header."""
        places = (*self.role.values(), *(place for _, place in self.relations), *self.attributes.values())
        return all(isinstance(place, int) for place in places)


def choose_columns(columns: Columns | None, header: bool | None = None) -> Choice | None:
    """What the user says about the columns; None if nothing.

    >>> dict(choose_columns("head=A,relation=2,tail=C,date=E")), dict(choose_columns(["A", "B", "C"]))
    ({'head': 'A', 'relation': 2, 'tail': 'C', 'date': 'E'}, {'head': 'A', 'relation': 'B', 'tail': 'C'})
    >>> drugs = choose_columns("id=drug,relation=targets,treats=disease,attribute=*")
    >>> drugs.relations, drugs.rest
    ((('targets', 'targets'), ('treats', 'disease')), 'attribute')
    >>> transfers = choose_columns("head=from,transfers_to=to,missing=N/A")
    >>> dict(transfers), transfers.relation_name, transfers.missing
    ({'head': 'from', 'tail': 'to'}, 'transfers_to', ('N/A',))
    >>> games = choose_columns("id=game,relation=designers,split=,,spaces=trim")
    >>> games.split, games.trim
    (',', True)
    >>> choose_columns({"head": "A", "tial": "B"})
    Traceback (most recent call last):
    tuplet.errors.UnknownName: unknown column role 'tial'; did you mean 'tail'?
    """
    if columns is None:
        return None if header is None else Choice(header=header)
    return replace(_choose(_pairs(columns)), header=header)


def _wrong(*text: str) -> BadInput:
    return BadInput(Option("columns", None), *text)


def _pairs(columns: Columns) -> list[tuple[str, Place]]:
    """Roles with their columns, one by one."""
    if isinstance(columns, str):
        parts = [part.strip() for part in columns.split(",")]
        if any("=" in part for part in parts):
            return list(_split_pairs(parts))
        columns = parts
    if isinstance(columns, Mapping):
        pairs = ((role, [place] if isinstance(place, str | int) else place) for role, place in columns.items())
        return [(role, _parse_place(role, one)) for role, several in pairs for one in several]
    if len(columns) not in (3, 4):
        raise BadInput(f"name 3 or 4 columns (head, relation, tail and perhaps truth), not {len(columns)}")
    return [(role, _parse_place(role, column)) for role, column in zip(ALL_ROLES, columns, strict=False)]


def _split_pairs(parts: Sequence[str]) -> Iterator[tuple[str, Place]]:
    """Roles with their columns as text has them; a comma may be what is split at, `split=,`, at the end or not."""
    for before, part in zip(("", *parts), parts, strict=False):
        if part.replace(" ", "") == "split=":
            yield "split", ","
        elif part or before.replace(" ", "") != "split=":
            role, sign, name = (text.strip() for text in part.partition("="))
            if not sign or not (name or role == "missing"):
                raise _wrong(f" is written head=A,relation=B,tail=C; {part!r} has no name")
            yield role, _parse_place(role, name)


def _parse_place(role: str, given: Any) -> Place:
    """A column, by name or number; or the text that is split at or stands for nothing, which may look like a number."""
    return int(given) if role not in ("split", "missing", "spaces") and str(given).isdecimal() else str(given)


def _choose(pairs: list[tuple[str, Place]]) -> Choice:
    by_entity = any(role == "id" for role, _ in pairs)
    roles: dict[str, Place] = {}
    relations: list[tuple[str, Place]] = []
    attributes: dict[str, Place] = {}
    rest = split = relation_name = ""
    missing: list[str] = []
    trim = False
    one_relation = not by_entity and not any(role in ("relation", "tail") for role, _ in pairs)
    for role, column in pairs:
        called = column if isinstance(column, str) else f"column{column}"
        own_name = role not in _WORDS and not hint(role, _WORDS)  # that of a relation
        if role in _SEVERAL and column == _REST:
            rest = role
        elif role == "split":
            split = str(column)
        elif role == "missing":
            missing.append(str(column))
        elif role == "spaces":
            if column != "trim":
                raise _wrong(f" knows spaces=trim, not spaces={column}")
            trim = True
        elif role == "attribute":
            attributes[called] = column
        elif by_entity and role == "relation":
            relations.append((called, column))
        elif by_entity and own_name:
            relations.append((role, column))
        elif one_relation and not relation_name and own_name:
            relation_name, roles["tail"] = role, column  # the same, of all facts
        elif relation_name and own_name:
            head = next((place for what, place in pairs if what == "head"), "COLUMN")
            several = f"a row with several is about an entity: id={head} instead of head={head}"
            raise _wrong(f" names the relations {relation_name} and {role}; {several}")
        elif role not in _WORDS:
            raise unknown("column role", role, (*ALL_ROLES, *ENTITY_ROLES, "attribute"))
        elif role in roles:
            raise _wrong(f" names the {role} twice")
        else:
            roles[role] = column
    choice = Choice(roles, tuple(relations), attributes, rest, split, relation_name, tuple(missing), trim)
    _refuse_wrong(choice)
    return choice


def _refuse_wrong(choice: Choice) -> None:
    if "id" in choice.role:
        for role in choice.role:
            if role not in ENTITY_ROLES:
                both = "a table has a row for each entity (id=) or for each fact (head=)"
                raise _wrong(f" names an id and a {role}: {both}")
        if not (choice.relations or choice.attributes or choice.rest or len(choice) > 1):
            others = f"relation=COLUMN, attribute=COLUMN or relation={_REST} say what the other columns are"
            raise _wrong(f" says what the id is and nothing else; {others}")
        return
    for role in choice.role:
        if role in ENTITY_ROLES:
            raise _wrong(f" names a {role}, but no id: which entity is each row about?")
    missing = [role for role in ROLES if role not in choice.role and not (role == "relation" and choice.relation_name)]
    if missing == ["relation"] and choice.rest != "relation":
        pair = f"head={choice['head']},NAME={choice['tail']}"
        raise _wrong(f" does not name the relation; if all rows are of one called NAME, write {pair}")
    if missing and (choice.role or not (choice.attributes or choice.rest or choice.missing or choice.trim)):
        raise _wrong(f" does not name the {missing[0]}; it needs head, relation and tail")
    if choice.rest == "relation":
        raise _wrong(" names a relation for each fact, so the others cannot be relations")


# --- where it stands ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableLayout:
    """The place of each thing in a row, from 0; a row is about a fact, or about an entity."""

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
    role = _find_roles(names, _KNOWN)
    return role if all(r in role for r in ROLES) else {}


def _find_roles(names: Sequence[str], known: Mapping[str, Sequence[str]]) -> dict[str, int]:
    lowered = [name.strip().lower() for name in names]
    return {r: lowered.index(word) for r, words in known.items() for word in words[::-1] if word in lowered}


def node_choice(names: Sequence[str], choice: Choice | None = None) -> Choice:
    """How a table of nodes is read: an id, perhaps a label and types; all other columns are attributes.

    >>> dict(node_choice(["id", "name", "born"])), node_choice(["drug", "phase"]).role
    ({'id': 1, 'label': 2}, {'id': 1})
    """
    role = _find_roles(names, _KNOWN_OF_ENTITIES)
    role.setdefault("id", role.pop("label") if role.get("label") == 0 else 0)
    split = choice.split if choice is not None else ""
    return Choice({r: place + 1 for r, place in role.items()}, rest="attribute", split=split, header=True)


def find_layout(where: str, names: Sequence[str], choice: Choice, numbers_are_names: bool = True) -> TableLayout:
    """The layout of a table whose columns have these names, as the user chose it.

    A number is a name where there is one (the columns of a data frame may be called 0, 1, 2), else a position from 1.

    >>> find_layout("f.csv", ["id", "who", "does", "whom"], Choice({"head": "who", "relation": 3, "tail": "whom"})).role
    {'head': 1, 'relation': 2, 'tail': 3}
    """

    def found(what: str, column: Place) -> int:
        if str(column) in names and (numbers_are_names or isinstance(column, str)):
            if list(names).count(str(column)) > 1:
                raise twice(str(column))
            return list(names).index(str(column))
        if isinstance(column, str):
            raise unknown("column", column, names, f"is not in {where}")
        if not 1 <= column <= len(names):
            raise BadInput(f"{where} has {len(names)} columns; there is no column {column} for the {what}")
        return column - 1

    def twice(name: str) -> BadInput:
        return BadInput(f"two columns are called {name!r} in {where}; rename one of them")

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
                raise twice(name)
    if choice.rest == "relation":
        relations += tuple(others.items())
    elif choice.rest == "attribute":
        attributes |= others
    return TableLayout(
        len(names),
        role,
        relations,
        attributes,
        lists=frozenset(attributes if choice.split else ()),
        split=choice.split or (";" if "type" in role else ""),
        relation_name=choice.relation_name,
        unused=() if choice.rest else tuple(others),
        missing=choice.missing,
        trim=choice.trim,
        unnamed=frozenset(others if choice.rest == "relation" else ()),
    )


def plain_layout(names: Sequence[str], role: Mapping[str, int]) -> TableLayout:
    """The layout of a table of which only the roles are known."""
    taken = set(role.values())
    return TableLayout(len(names), role, unused=tuple(name for i, name in enumerate(names) if i not in taken))


def layout_of_names(where: str, names: Sequence[str], choice: Choice | None, nodes: bool = False) -> TableLayout | None:
    """The layout of a table whose columns have names that say what they are, or of a table of `nodes`; else None."""
    if is_neo4j_header(names):
        return neo4j_layout(where, names)
    if is_apoc_header(names):
        return apoc_layout(names)
    if nodes:
        return find_layout(where, names, node_choice(names, choice), numbers_are_names=False)
    role = known_columns(names)
    return plain_layout(names, role) if role else None


def unused_remark(where: str, layout: TableLayout) -> tuple[str, ...]:
    """The remark on columns that nobody asked for."""
    if not layout.unused:
        return ()
    shown = ", ".join(map(repr, layout.unused[:8])) + (", …" if len(layout.unused) > 8 else "")
    if len(layout.unused) == 1:
        return (f"{where}: column {shown} not read (attribute={layout.unused[0]} among the columns keeps it)",)
    return (f"{where}: columns {shown} not read (attribute=* among the columns keeps them)",)


def header_unnamed(place: str, names: Sequence[str], rows: Sequence[Sequence[str]] = ()) -> BadInput:
    """The error for a first line that is a header whose names do not say which column is which.

    What may be meant is guessed from the rows that follow.

    >>> rows = [["ann", "tea", "2.5"], ["bob", "tea", "2.5"], ["ann", "ham", "9.1"]]
    >>> header_unnamed("f.csv:1", ["who", "what thing", "price"], rows).shell.split("; ")[1]
    "name the columns with --columns 'head=who,NAME=what thing,attribute=*' (NAME: what you call the relation)"
    """
    called = [name or str(place) for place, name in enumerate(names, start=1)]
    guess = _guess_columns(called, [row for row in rows if len(row) == len(names)])
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return BadInput(
        f"{place}: the first line looks like a header ({shown}); name the columns with ",
        Option("columns", guess),
        " (NAME: what you call the relation)" if ",NAME=" in guess else "",
    )


# Numbers with fractions and dates, which are rarely names.
_VALUE = re.compile(r"[+-]?[0-9]*[.][0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2}.*")


def _guess_columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
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


# --- Neo4j: `personId:ID(Person),name,born:int,:LABEL` and `:START_ID,:END_ID,:TYPE` -----------------------------

_MARKED = re.compile(
    r"(?P<name>[^:]*):(?P<mark>START_ID|END_ID|TYPE|ID|LABEL|IGNORE)(?:\((?P<space>.*)\))?", re.IGNORECASE
)
_TYPED = re.compile(r"(?P<name>.+):(?P<type>[a-z]+)(?:\{.*\})?(?P<list>\[\])?", re.IGNORECASE)
_MARKS = {"ID": "id", "LABEL": "type", "START_ID": "head", "END_ID": "tail", "TYPE": "relation"}
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("int", "long", "byte", "short", "integer"), "integer"),
    **dict.fromkeys(("float", "double", "number"), "number"),
    "boolean": "boolean",
    "date": "date",
    **dict.fromkeys(("localdatetime", "datetime"), "time"),
    **dict.fromkeys(("string", "char", "point", "time", "localtime", "duration"), "text"),
}


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
    role = {"id": place["_id"], "type": place["_labels"], **label_place(attributes)}
    return TableLayout(len(names), role, attributes=attributes, split=":", only=place["_id"], also=edges)


def label_place(attributes: Mapping[str, int]) -> dict[str, int]:
    """The property that says what a node is called, as the role `label`."""
    called = {name.lower(): i for name, i in attributes.items()}
    word = next((word for word in ("name", "title", "label") if word in called), None)
    return {} if word is None else {"label": called[word]}


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
    for i, text in enumerate(map(str.strip, names)):
        marked, typed = _MARKED.fullmatch(text), _TYPED.fullmatch(text)
        name, kind = text, _KINDS["string"]
        if marked:
            mark = marked["mark"].upper()
            if mark == "IGNORE":
                continue
            what = _MARKS[mark]
            if what in role:
                raise BadInput(f"{place}: two columns are the :{mark}; tuplet reads one")
            role[what] = i
            if marked["space"]:
                spaces[what] = marked["space"]
            if not (marked["name"] and what == "id"):
                continue
            name = marked["name"]
        elif typed and typed["type"].lower() in _KINDS:
            name, kind = typed["name"], _KINDS[typed["type"].lower()]
            if typed["list"]:
                lists.add(name)
        attributes[name], kinds[name] = i, kind
    if "id" in role:
        role |= label_place(attributes)
    else:
        for what, mark in (("head", "START_ID"), ("tail", "END_ID"), ("relation", "TYPE")):
            if what not in role:
                wanted = "a Neo4j header has :ID (nodes) or :START_ID, :END_ID and :TYPE"
                raise BadInput(f"{place}: {wanted}; no :{mark} here")
    return TableLayout(
        len(names), role, attributes=attributes, kinds=kinds, lists=frozenset(lists), split=";", spaces=spaces
    )
