"""Which column of a table is the head, the relation, the tail, the truth and the date of a fact."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tuplet.errors import BadInput, Option, unknown

ROLES = ("head", "relation", "tail")
ALL_ROLES = (*ROLES, "truth", "date")

Columns: TypeAlias = str | Sequence[str | int] | Mapping[str, str | int]  # as users write them
Choice: TypeAlias = Mapping[str, str | int]  # role → name, or position from 1

# Names that say what a column is.
_KNOWN = {
    "head": ("head", "subject", "source", "h", "s"),
    "relation": ("relation", "predicate", "r", "p"),
    "tail": ("tail", "object", "target", "t", "o"),
    "truth": ("truth", "weight"),
    "date": ("date",),
}
# Columns of the files that Neo4j imports and exports.
_NEO4J = re.compile(r"[^:]*:(START_ID|END_ID|TYPE|ID|LABEL)(\(.*\))?", re.IGNORECASE)


def choice_of(columns: Columns | None) -> Choice | None:
    """The columns that the user names, by role.

    >>> choice_of("head=A,relation=B,tail=C,date=E"), choice_of(["A", "B", "C", "D"]), choice_of("3,2,1")
    ({'head': 'A', 'relation': 'B', 'tail': 'C', 'date': 'E'}, \
{'head': 'A', 'relation': 'B', 'tail': 'C', 'truth': 'D'}, {'head': 3, 'relation': 2, 'tail': 1})
    >>> choice_of({"head": "A", "tial": "B"})
    Traceback (most recent call last):
    tuplet.errors.UnknownName: unknown column role 'tial'; did you mean 'tail'?
    """
    if columns is None:
        return None
    if isinstance(columns, str):
        parts = [part.strip() for part in columns.split(",")]
        columns = dict(_pair(part) for part in parts) if any("=" in part for part in parts) else parts
    if not isinstance(columns, Mapping):
        if len(columns) not in (3, 4):
            raise BadInput(f"name 3 or 4 columns (head, relation, tail and perhaps truth), not {len(columns)}")
        columns = dict(zip(ALL_ROLES, columns, strict=False))
    for role in columns:
        if role not in ALL_ROLES:
            raise unknown("column role", role, ALL_ROLES)
    for role in ROLES:
        if role not in columns:
            raise BadInput(Option("columns", None), f" does not name the {role}; it needs head, relation and tail")
    return {role: int(column) if str(column).isdecimal() else column for role, column in columns.items()}


def _pair(text: str) -> tuple[str, str]:
    role, sign, name = text.partition("=")
    if not sign or not name.strip():
        raise BadInput(Option("columns", None), f" is written head=A,relation=B,tail=C; {text!r} has no name")
    return role.strip(), name.strip()


def known_columns(names: Sequence[str]) -> dict[str, int]:
    """The place of each role if these are well-known column names, else nothing.

    >>> known_columns(["Subject", "predicate", "object", "weight"]), known_columns(["paris", "in", "france"])
    ({'head': 0, 'relation': 1, 'tail': 2, 'truth': 3}, {})
    """
    lowered = [name.strip().lower() for name in names]
    role = {r: lowered.index(word) for r, words in _KNOWN.items() for word in words[::-1] if word in lowered}
    return role if all(r in role for r in ROLES) else {}


def places(where: str, names: Sequence[str], choice: Choice, numbers_are_names: bool = True) -> dict[str, int]:
    """The place of each chosen column in a table whose columns have these names.

    A number is a name where there is one (the columns of a data frame may be called 0, 1, 2), else a position from 1.

    >>> places("f.csv", ["id", "who", "does", "whom"], {"head": "who", "relation": 3, "tail": "whom"})
    {'head': 1, 'relation': 2, 'tail': 3}
    """
    found = {}
    for role, column in choice.items():
        if str(column) in names and (numbers_are_names or isinstance(column, str)):
            found[role] = list(names).index(str(column))
        elif isinstance(column, str):
            raise unknown("column", column, names, f"is not in {where}")
        elif not 1 <= column <= len(names):
            raise BadInput(f"{where} has {len(names)} columns; there is no column {column} for the {role}")
        else:
            found[role] = column - 1
    return found


def named_by_position(choice: Choice) -> bool:
    """Whether all columns are chosen by position: then the first line is a fact and no header."""
    return all(isinstance(column, int) for column in choice.values())


def is_neo4j_header(names: Sequence[str]) -> bool:
    """Whether these are column names of a Neo4j file.

    >>> is_neo4j_header([":START_ID(Person)", "role", ":END_ID", ":TYPE"]), is_neo4j_header(["a:b", ":c", "d"])
    (True, False)
    """
    return any(_NEO4J.fullmatch(name.strip()) for name in names)


def header_unnamed(place: str) -> BadInput:
    """The error for a first line that is a header whose names do not say which column is which."""
    return BadInput(
        f"{place}: the first line looks like a header; name the columns with ",
        Option("columns", "head=A,relation=B,tail=C"),
    )
