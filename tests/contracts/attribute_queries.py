"""Random queries with attributes: their tree, how they are written as logic text, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeAlias

from attribute_worlds import FACT_VALUES, Plain, World, family

# --- the tree -----------------------------------------------------------------------------------------------------
# A term is a string: ?x is a variable, anything else the name of an entity.


@dataclass(frozen=True)
class Fact:
    """`relation(head, tail)`; the relation may be a variable, or an attribute whose value the tail is."""

    relation: str
    head: str
    tail: str


@dataclass(frozen=True)
class Of:
    """An attribute of an entity or of a fact; equal ones of a clause are one value."""

    of: str | Fact
    name: str
    mark: str = ""


@dataclass(frozen=True)
class Val:
    """A given value; `said` is how it is written."""

    value: Plain
    said: str


@dataclass(frozen=True)
class Test:
    """A comparison."""

    __test__ = False
    operator: str
    left: Of | str | Val
    right: Of | str | Val


@dataclass(frozen=True)
class OneOf:
    """One of several values, or of several entities."""

    item: Of | str
    choices: tuple[Val | str, ...]


@dataclass(frozen=True)
class Present:
    """There is a value, or a given one among the values."""

    of: Of
    value: Val | None = None


@dataclass(frozen=True)
class No:
    """Negation."""

    part: Formula


@dataclass(frozen=True)
class All:
    """Conjunction."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Some:
    """Disjunction."""

    parts: tuple[Formula, ...]


Literal: TypeAlias = Fact | Test | OneOf | Present
Formula: TypeAlias = Literal | No | All | Some
Clause: TypeAlias = tuple[tuple[Literal, bool], ...]  # with whether it is negated


@dataclass(frozen=True)
class Shown:
    """A column."""

    what: str | Of
    optional: bool = False


@dataclass(frozen=True)
class Sort:
    """A key of the order; `truth` is one, too."""

    by: str | Of
    descending: bool = False


@dataclass(frozen=True)
class Ask:
    """A query."""

    free: tuple[str, ...]
    exists: tuple[str, ...]
    body: Formula
    shown: tuple[Shown, ...] = ()
    order: tuple[Sort, ...] = ()
    limit: int | None = None
    offset: int = 0
    form: str = "select"

    @property
    def columns(self) -> tuple[Shown, ...]:
        return self.shown or tuple(Shown(variable) for variable in self.free)


@dataclass(frozen=True)
class Ent:
    """An entity or a relation in a row, so that none is taken for a text."""

    name: str


Cell: TypeAlias = Ent | Plain | None


class Row(NamedTuple):
    """What is shown, how true it is, and what it is ordered by."""

    cells: tuple[Cell, ...]
    truth: float
    keys: tuple[Cell, ...] = ()


# --- as logic text ------------------------------------------------------------------------------------------------


def written(ask: Ask) -> str:
    """The query as logic text."""
    head = {"select": "", "ask": "ask ", "count": "count "}[ask.form] + ", ".join(ask.free)
    body = _formula(ask.body)
    text = f"{head} : exists {', '.join(ask.exists)} . {body}" if ask.exists else f"{head} : {body}"
    if ask.shown:
        columns = [_side(c.what) + (" optional" if c.optional else "") + f" as c{i}" for i, c in enumerate(ask.shown)]
        text += " show " + ", ".join(columns)
    if ask.order:
        titles = {c.what: f"c{i}" for i, c in enumerate(ask.shown)}
        keys = [
            (titles.get(s.by, s.by) if isinstance(s.by, str) else _side(s.by)) + (" desc" if s.descending else "")
            for s in ask.order
        ]
        text += " order by " + ", ".join(keys)
    if ask.limit is not None:
        text += f" limit {ask.limit}"
    return text + (f" offset {ask.offset}" if ask.offset else "")


def _formula(formula: Formula) -> str:
    match formula:
        case No(part):
            return f"!({_formula(part)})"
        case All(parts):
            return "(" + " & ".join(map(_formula, parts)) + ")"
        case Some(parts):
            return "(" + " | ".join(map(_formula, parts)) + ")"
        case Fact():
            return _side(formula)
        case Test(operator, left, right):
            return f"{_side(left)} {operator} {_side(right)}"
        case OneOf(item, choices):
            return f"{_side(item)} in {{{', '.join(map(_side, choices))}}}"
        case Present(of, value):
            return f"has({_side(of)}{'' if value is None else ', ' + value.said})"


def _side(side: Any) -> str:
    match side:
        case Fact(relation, head, tail):
            return f"{relation}({head}, {tail})"
        case Of(of, name, mark):
            owner = f"<{of}>" if isinstance(of, str) and of[0] != "?" else _side(of)  # a word may have dots inside
            return f"{owner}.{name}" + (f"[{mark}]" if mark else "")
        case Val(_, said):
            return said
        case _:
            return str(side)


# --- at random ----------------------------------------------------------------------------------------------------

SIGNS = ("=", "!=", "<", "<=", ">", ">=")
WORDS = {
    "contains": ["a", "b", ""],
    "starts": ["a", "ab", "Ü"],
    "ends": ["c", "bc"],
    "matches": ["^a", "b+c?$", "ï|^$"],
}


def said(value: Plain, quoted: bool = False) -> Val:
    """A value as it is written; a date may be quoted."""
    match value:
        case bool():
            return Val(value, "true" if value else "false")
        case int() | float():
            return Val(value, repr(value))
        case str():
            return Val(value, f'"{value}"')
        case _:
            return Val(value, f'"{value.isoformat()}"' if quoted else value.isoformat())


class Maker:
    """Makes the parts of a random query about a place in a world, so that many queries have answers."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world, self.rng = world, rng
        self.home: dict[str, str] = {}

    def ask(self) -> Ask:
        """A random query."""
        rng = self.rng
        free = tuple(f"?x{i}" for i in range(rng.choices([1, 2, 3], [4, 5, 1])[0]))
        exists = tuple(f"?z{i}" for i in range(rng.choices([0, 1, 2], [5, 4, 1 if len(free) < 3 else 0])[0]))
        for variable in (*free, *exists):
            self.home[variable] = rng.choice(self.world.entities)
        if rng.random() < 0.25:
            body: Formula = Some(tuple(self.clause(free, exists) for _ in range(2)))
        else:
            body = self.clause(free, exists)
        free, exists, body = self.more(free, exists, body)
        ask = Ask(free, tuple(v for v in exists if v in repr(body)), body)
        return self.shown(ask) if rng.random() < 0.6 else ask

    def clause(self, free: tuple[str, ...], exists: tuple[str, ...]) -> All:
        """Facts that contain all variables, and conditions."""
        rng, variables = self.rng, [*free, *exists]
        rng.shuffle(variables)
        parts: list[Formula] = []
        loose = variables.pop() if rng.random() < 0.15 else None
        for i, variable in enumerate(variables):
            parts.append(self.fact(variable, rng.choice(variables[:i]) if i and rng.random() < 0.9 else None))
        facts = [part for part in parts if isinstance(part, Fact)]
        if loose is not None:  # only conditions say what it may be
            variables.append(loose)
            parts.append(self.binding(loose))
        for _ in range(rng.choices([0, 1, 2, 3], [1, 5, 3, 1])[0]):
            parts.append(self.condition(variables, facts))
        if rng.random() < 0.2:
            parts.append(Some((self.condition(variables, facts), self.condition(variables, facts))))
        if rng.random() < 0.15:
            one, other = self.condition(variables, facts), self.condition(variables, facts)
            parts.append(No(All((one, other)) if rng.random() < 0.5 else Some((one, other))))
        if rng.random() < 0.2:
            parts.append(No(self.fact(rng.choice(variables), rng.choice(variables))))
        rng.shuffle(parts)
        return All(tuple(parts))

    def binding(self, variable: str) -> Literal:
        """A condition that lists what a variable may be."""
        of = Of(variable, self.rng.choice(list(self.world.of_entities)))
        values = self._near(of)
        match self.rng.randrange(3):
            case 0:
                return OneOf(variable, tuple(sorted({self.home[variable], self.rng.choice(self.world.entities)})))
            case 1:
                return Present(of)
            case _:
                return Test(self.rng.choice(SIGNS[:2]), of, said(self.rng.choice(values)))

    def fact(self, one: str, other: str | None) -> Fact:
        """An atom with a variable, true at its place if any is."""
        world, rng = self.world, self.rng
        at = [e for e in world.truth if self.home[one] in (e[0], e[2])]
        if other is not None:
            at = [e for e in at if {self.home[one], self.home[other]} == {e[0], e[2]}]
        if not at or rng.random() < 0.1:
            ends = [one, other or rng.choice(world.entities)]
            rng.shuffle(ends)
            return Fact(rng.choice(world.relations), ends[0], ends[1])
        head, relation, tail = rng.choice(at)
        if other is None:
            return Fact(relation, one, tail) if head == self.home[one] else Fact(relation, head, one)
        return Fact(relation, one, other) if head == self.home[one] else Fact(relation, other, one)

    def condition(self, variables: list[str], facts: list[Fact]) -> Formula:
        """A condition of any kind, true at the place more often than not."""
        found = self._condition(variables, facts)
        return No(found) if self.rng.random() < 0.2 else found

    def _condition(self, variables: list[str], facts: list[Fact]) -> Literal:
        rng, kind = self.rng, self.rng.random()
        variable = rng.choice(variables)
        if kind < 0.12:
            other = rng.choice([v for v in variables if v != variable] or [rng.choice(self.world.entities)])
            return Test(rng.choice(["=", "!=", "!="]), variable, other)
        if kind < 0.22:
            return OneOf(variable, tuple({self.home[variable]: 0} | dict.fromkeys(rng.sample(self.world.entities, 2))))
        if kind < 0.3:
            return Test(*rng.choice([("contains", variable, said("e")), ("ends", variable, said("1"))]))
        of = self.attribute(variable, facts)
        if kind < 0.36 and not isinstance(of.of, Fact):
            near = self._near(of)
            return Present(of, said(rng.choice(near)) if near and rng.random() < 0.4 else None)
        if kind < 0.5:
            pair = self._pair(of, variables, facts)
            if pair is not None:
                return pair
        values = self._near(of)
        if not values:
            return Present(self.attribute(variable, []))
        value = rng.choice(values)
        if kind < 0.62:
            return OneOf(of, tuple(said(v) for v in dict.fromkeys([value, rng.choice(values)])))
        if isinstance(value, str) and rng.random() < 0.6:
            operator = rng.choice(list(WORDS))
            return Test(operator, of, said(rng.choice(WORDS[operator])))
        quoted = family(value) == "time" and rng.random() < 0.3
        sides = (of, said(value, quoted)) if rng.random() < 0.9 else (said(value, quoted), of)
        return Test(rng.choice(SIGNS[:2] if isinstance(value, bool) else SIGNS), *sides)

    def attribute(self, variable: str, facts: list[Fact]) -> Of:
        """An attribute of a variable, or of a fact."""
        rng = self.rng
        mark = "v" if rng.random() < 0.1 else ""
        if facts and rng.random() < 0.2:
            return Of(rng.choice(facts), rng.choice(list(FACT_VALUES)), mark)
        of = rng.choice(self.world.entities) if rng.random() < 0.05 else variable
        return Of(of, rng.choice(list(self.world.of_entities)), mark)

    def _near(self, of: Of) -> list[Plain]:
        """The values of an attribute, those at the place more often."""
        if isinstance(of.of, Fact):
            return [v for found in self.world.of_facts[of.name].values() for v in found]
        own = self.world.values(of.name, self.home.get(of.of, of.of))
        return own * 4 + [v for found in self.world.of_entities[of.name].values() for v in found]

    def _pair(self, of: Of, variables: list[str], facts: list[Fact]) -> Test | None:
        """A comparison of two attributes whose values compare."""
        rng = self.rng
        if of.name == "mixed":
            return None
        fact = of.of if isinstance(of.of, Fact) else None
        others = {
            "number": ["age", "score"],
            "time": ["born", "seen"],
            "text": ["note"],
            "boolean": ["active"],
        }[family((FACT_VALUES[of.name] if fact else self._near(of) or [""])[0])]
        if fact is not None and rng.random() < 0.3:
            names = [name for name in FACT_VALUES if family(FACT_VALUES[name][0]) == family(FACT_VALUES[of.name][0])]
            return Test(rng.choice(SIGNS), of, Of(fact, rng.choice(names)))
        variable = rng.choice([fact.head, fact.tail] if fact else variables)
        return Test(rng.choice(SIGNS), of, Of(variable, rng.choice(others)))

    def more(
        self, free: tuple[str, ...], exists: tuple[str, ...], body: Formula
    ) -> tuple[tuple[str, ...], tuple[str, ...], Formula]:
        """Now and then a variable for relations, or one for values."""
        rng = self.rng
        if rng.random() < 0.15:
            tail = "?y" if rng.random() < 0.5 else rng.choice([*free, *self.world.entities])
            parts: list[Formula] = [body, Fact("?p", rng.choice(free), tail)]
            if rng.random() < 0.3:
                parts.append(
                    OneOf("?p", tuple(self.world.relations[:2]))
                    if rng.random() < 0.5
                    else Test("!=", "?p", self.world.relations[0])
                )
            asked = [v for v in ("?p", "?y") if v in ("?p", tail) and rng.random() < 0.6]
            return (*free, *asked), (*exists, *(v for v in ("?p", "?y") if v not in asked)), All(tuple(parts))
        if rng.random() < 0.15:
            name = rng.choice([name for name in self.world.of_entities if name not in self.world.of_facts])
            variable = rng.choice(free)
            parts = [body, Fact(name, variable, "?a")]
            values = self._near(Of(variable, name))
            if rng.random() < 0.6 and name != "mixed" and values and family(values[0]) in ("number", "time"):
                parts.append(Test(rng.choice(SIGNS[2:]), "?a", said(rng.choice(values))))
            if rng.random() < 0.2:
                parts.append(Fact(name, rng.choice([*free, *exists]), "?a"))
            if rng.random() < 0.7:
                return (*free, "?a"), exists, All(tuple(parts))
            return free, (*exists, "?a"), All(tuple(parts))
        return free, exists, body

    def shown(self, ask: Ask) -> Ask:
        """The query with columns, an order, limits, or another form."""
        rng = self.rng
        if rng.random() < 0.15:
            return Ask(ask.free, ask.exists, ask.body, form=rng.choice(["ask", "count"]))
        entities = [v for v in (*ask.free, *ask.exists) if v[1] in "xz"]
        used = [of for of in _used(ask.body) if of.name != "name" and not isinstance(ask.body, Some)]
        columns: list[Shown] = []
        if rng.random() < 0.7:
            columns = [Shown(v) for v in ask.free if rng.random() < 0.8]
            for _ in range(rng.choice([0, 1, 1, 2])):
                of = (
                    rng.choice(used)
                    if used and rng.random() < 0.5
                    else Of(rng.choice(entities), rng.choice(list(self.world.of_entities)))
                )
                if not any(column.what == of for column in columns):
                    columns.append(Shown(of, rng.random() < 0.4))
        columns = columns or [Shown(v) for v in ask.free]
        order: list[Sort] = []
        if rng.random() < 0.5:
            choices: list[str | Of] = [column.what for column in columns]
            choices += [Of(rng.choice(entities), rng.choice(list(self.world.of_entities))), "truth"]
            order = [
                Sort(by, rng.random() < 0.5) for by in rng.sample(choices, rng.choice([1, 1, min(2, len(choices))]))
            ]
        limit = rng.choice([None, None, 1, 2, 5])
        return Ask(ask.free, ask.exists, ask.body, tuple(columns), tuple(order), limit, rng.choice([0, 0, 0, 1, 3]))


def _used(formula: Formula) -> list[Of]:
    match formula:
        case No(part):
            return _used(part)
        case All(parts) | Some(parts):
            return [of for part in parts for of in _used(part)]
        case Test(_, left, right):
            return [side for side in (left, right) if isinstance(side, Of)]
        case OneOf(Of() as of) | Present(of):
            return [of]
        case _:
            return []
