"""What users say about the columns of a table: `--columns` and `columns=`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tuplet.errors import BadInput, Option, hint, unknown

ROLES = ("head", "relation", "tail")
ALL_ROLES = (*ROLES, "truth", "date")
ENTITY_ROLES = ("id", "label", "type")
_SEVERAL = ("relation", "attribute")  # of these a table may have several columns
_WORDS = (*ALL_ROLES, *ENTITY_ROLES, "attribute", "split", "missing", "spaces")
REST = "*"  # all columns that are not named

Place: TypeAlias = str | int  # the name of a column, or its position from 1
# As users write it: text, a list of three or four columns, or a mapping from roles to columns.
Columns: TypeAlias = str | Sequence[Place] | Mapping[str, Place | Sequence[Place]]


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
    def by_entity(self) -> bool:
        """Whether each row is about an entity."""
        return "id" in self.role

    @property
    def pairs(self) -> bool:
        """Whether two columns are enough."""
        return self.by_entity or self.relation_name != ""

    @property
    def says_something(self) -> bool:
        """Whether columns are named at all."""
        return bool(self.role or self.attributes or self.rest)

    @property
    def by_position(self) -> bool:
        """Whether all columns are chosen by position: then the first line is a row and no header."""
        places = (*self.role.values(), *(place for _, place in self.relations), *self.attributes.values())
        return all(isinstance(place, int) for place in places)


def choice_of(columns: Columns | None, header: bool | None = None) -> Choice | None:
    """What the user says about the columns; None if nothing.

    >>> dict(choice_of("head=A,relation=2,tail=C,date=E")), dict(choice_of(["A", "B", "C"]))
    ({'head': 'A', 'relation': 2, 'tail': 'C', 'date': 'E'}, {'head': 'A', 'relation': 'B', 'tail': 'C'})
    >>> drugs = choice_of("id=drug,relation=targets,treats=disease,attribute=*")
    >>> drugs.relations, drugs.rest
    ((('targets', 'targets'), ('treats', 'disease')), 'attribute')
    >>> transfers = choice_of("head=from,transfers_to=to,missing=N/A")
    >>> dict(transfers), transfers.relation_name, transfers.missing
    ({'head': 'from', 'tail': 'to'}, 'transfers_to', ('N/A',))
    >>> games = choice_of("id=game,relation=designers,split=,,spaces=trim")
    >>> games.split, games.trim
    (',', True)
    >>> choice_of({"head": "A", "tial": "B"})
    Traceback (most recent call last):
    tuplet.errors.UnknownName: unknown column role 'tial'; did you mean 'tail'?
    """
    if columns is None:
        return None if header is None else Choice(header=header)
    return replace(_chosen(_pairs(columns)), header=header)


def _pairs(columns: Columns) -> list[tuple[str, Place]]:
    """Roles with their columns, one by one."""
    if isinstance(columns, str):
        parts = [part.strip() for part in columns.split(",")]
        if any("=" in part for part in parts):
            return list(_written(parts))
        columns = parts
    if isinstance(columns, Mapping):
        pairs = ((role, [place] if isinstance(place, str | int) else place) for role, place in columns.items())
        return [(role, _meant(role, one)) for role, several in pairs for one in several]
    if len(columns) not in (3, 4):
        raise BadInput(f"name 3 or 4 columns (head, relation, tail and perhaps truth), not {len(columns)}")
    return [(role, _place(column)) for role, column in zip(ALL_ROLES, columns, strict=False)]


def _written(parts: Sequence[str]) -> Iterator[tuple[str, Place]]:
    """Roles with their columns as text has them; a comma may be what is split at, `split=,`, at the end or not."""
    for before, part in zip(("", *parts), parts, strict=False):
        if part.replace(" ", "") == "split=":
            yield "split", ","
        elif part or before.replace(" ", "") != "split=":
            yield _pair(part)


def _pair(text: str) -> tuple[str, Place]:
    role, sign, name = text.partition("=")
    if not sign or not (name.strip() or role.strip() == "missing"):
        raise BadInput(Option("columns", None), f" is written head=A,relation=B,tail=C; {text!r} has no name")
    return role.strip(), _meant(role.strip(), name.strip())


def _meant(role: str, given: Any) -> Place:
    """A column, by name or number; or the text that is split at or stands for nothing, which may look like a number."""
    return str(given) if role in ("split", "missing", "spaces") else _place(given)


def _place(column: Any) -> Place:
    return int(column) if str(column).isdecimal() else str(column)


def _chosen(pairs: list[tuple[str, Place]]) -> Choice:
    by_entity = any(role == "id" for role, _ in pairs)
    roles: dict[str, Place] = {}
    relations: list[tuple[str, Place]] = []
    attributes: dict[str, Place] = {}
    rest = split = relation_name = ""
    missing: list[str] = []
    trim = False
    one_relation = not by_entity and not any(role in ("relation", "tail") for role, _ in pairs)
    for role, column in pairs:
        if role in _SEVERAL and column == REST:
            rest = role
        elif role == "split":
            split = str(column)
        elif role == "missing":
            missing.append(str(column))
        elif role == "spaces":
            if column != "trim":
                raise BadInput(Option("columns", None), f" knows spaces=trim, not spaces={column}")
            trim = True
        elif role == "attribute":
            attributes[_called(column)] = column
        elif by_entity and role == "relation":
            relations.append((_called(column), column))
        elif by_entity and role not in _WORDS and not hint(role, _WORDS):
            relations.append((role, column))  # a relation by its own name
        elif one_relation and not relation_name and role not in _WORDS and not hint(role, _WORDS):
            relation_name, roles["tail"] = role, column  # the same, of all facts
        elif relation_name and role not in _WORDS and not hint(role, _WORDS):
            head = next((place for what, place in pairs if what == "head"), "COLUMN")
            several = f"a row with several is about an entity: id={head} instead of head={head}"
            raise BadInput(Option("columns", None), f" names the relations {relation_name} and {role}; {several}")
        elif role not in _WORDS:
            raise unknown("column role", role, (*ALL_ROLES, *ENTITY_ROLES, "attribute"))
        elif role in roles:
            raise BadInput(Option("columns", None), f" names the {role} twice")
        else:
            roles[role] = column
    choice = Choice(roles, tuple(relations), attributes, rest, split, relation_name, tuple(missing), trim)
    _refuse_wrong(choice)
    return choice


def _called(column: Place) -> str:
    return column if isinstance(column, str) else f"column{column}"


def _refuse_wrong(choice: Choice) -> None:
    if choice.by_entity:
        for role in choice.role:
            if role not in ENTITY_ROLES:
                raise BadInput(
                    Option("columns", None),
                    f" names an id and a {role}: a table has a row for each entity (id=) or for each fact (head=)",
                )
        if not (choice.relations or choice.attributes or choice.rest or len(choice) > 1):
            raise BadInput(
                Option("columns", None),
                f" says what the id is and nothing else; relation=COLUMN, attribute=COLUMN or relation={REST} "
                "say what the other columns are",
            )
        return
    for role in choice.role:
        if role in ENTITY_ROLES:
            raise BadInput(Option("columns", None), f" names a {role}, but no id: which entity is each row about?")
    missing = [role for role in ROLES if role not in choice.role and not (role == "relation" and choice.relation_name)]
    if missing == ["relation"] and choice.rest != "relation":
        pair = f"head={choice['head']},NAME={choice['tail']}"
        raise BadInput(
            Option("columns", None), f" does not name the relation; if all rows are of one called NAME, write {pair}"
        )
    if missing and (choice.role or not (choice.attributes or choice.rest or choice.missing or choice.trim)):
        raise BadInput(Option("columns", None), f" does not name the {missing[0]}; it needs head, relation and tail")
    if choice.rest == "relation":
        raise BadInput(Option("columns", None), " names a relation for each fact, so the others cannot be relations")
