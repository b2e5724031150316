"""What a query with attributes means, in plain Python over dictionaries: nothing of the package is used.

A query is put into clauses; every assignment of entities to the variables of a clause, and every choice of values for
its attributes, is looked at. A clause is as true as its best assignment, a row as true as its clauses together; clauses
that differ in conditions on one entity alone are one reason, as true as the best of them.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from attribute_queries import (
    All,
    Ask,
    Cell,
    Clause,
    Ent,
    Fact,
    Formula,
    Literal,
    No,
    Of,
    OneOf,
    Present,
    Row,
    Shown,
    Some,
    Sort,
    Test,
    Val,
)
from attribute_worlds import Plain, World, family

# --- clauses ------------------------------------------------------------------------------------------------------


def clauses_of(formula: Formula, negative: bool = False) -> list[Clause]:
    """The disjunctive normal form, each literal once."""
    match formula:
        case No(part):
            return clauses_of(part, not negative)
        case All(parts) | Some(parts):
            found = [clauses_of(part, negative) for part in parts]
            if isinstance(formula, Some) != negative:
                return [clause for part in found for clause in part]
            return [tuple(dict.fromkeys(itertools.chain(*choice))) for choice in itertools.product(*found)]
        case _:
            return [((formula, negative),)]


def renamed(item: Any, names: Mapping[str, str]) -> Any:
    """The same with other variables."""
    match item:
        case str():
            return names.get(item, item)
        case Fact(relation, head, tail):
            return Fact(*(names.get(word, word) for word in (relation, head, tail)))
        case Of(of, name, mark):
            return Of(renamed(of, names), name, mark)
        case Test(operator, left, right):
            return Test(operator, renamed(left, names), renamed(right, names))
        case OneOf(what, choices):
            return OneOf(renamed(what, names), tuple(renamed(choice, names) for choice in choices))
        case Present(of, value):
            return Present(renamed(of, names), value)
        case _:
            return item


def distinct(clauses: list[Clause], exists: tuple[str, ...]) -> list[Clause]:
    """Of clauses that differ in nothing but the names of variables that only have to exist, the first."""
    found: dict[Any, Clause] = {}
    for clause in clauses:
        forms = []
        for names in itertools.permutations([f"?~{i}" for i in range(len(exists))]):
            own = dict(zip(exists, names, strict=True))
            forms.append(tuple(sorted({repr((_either_way(renamed(part, own)), no)) for part, no in clause})))
        found.setdefault(min(forms), clause)
    return list(found.values())


def _either_way(literal: Literal) -> Literal:
    match literal:
        case Test("=" | "!=" as operator, str() as left, str() as right) if right < left:
            return Test(operator, right, left)
        case _:
            return literal


# --- values -------------------------------------------------------------------------------------------------------


def comparable(value: Plain) -> Any:
    """A value as one that compares with others of its family."""
    if isinstance(value, datetime.datetime):
        return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    return value


def compares(operator: str, left: Plain, right: Plain, negated: bool) -> bool:
    """Whether two values compare, or, if negated, do not; values of different families do neither."""
    if family(left) != family(right):
        return False
    one, other = comparable(left), comparable(right)
    holds = {
        "=": lambda: one == other,
        "!=": lambda: one != other,
        "<": lambda: one < other,
        "<=": lambda: one <= other,
        ">": lambda: one > other,
        ">=": lambda: one >= other,
        "contains": lambda: other in one,
        "starts": lambda: one.startswith(other),
        "ends": lambda: one.endswith(other),
        "matches": lambda: re.search(other, one) is not None,
    }[operator]()
    return bool(holds) != negated


def sortable(cell: Cell) -> tuple[int, Any]:
    """Families in a fixed order; entities and relations by their names."""
    match cell:
        case None:
            return 9, 0
        case Ent(name):
            return 4, name
        case _:
            return {"boolean": 1, "number": 2, "time": 3, "text": 4}[family(cell)], comparable(cell)


# --- rows ---------------------------------------------------------------------------------------------------------


class Solution(NamedTuple):
    """An assignment under which a clause holds."""

    entities: Mapping[str, str]
    values: Mapping[Of, Plain | None]
    truth: float
    stated: bool  # the facts alone say so


@dataclass(frozen=True)
class Meaning:
    """What a query means on a world; with `facts`, what is predicted does not count."""

    world: World
    ask: Ask
    godel: bool = False
    facts: bool = False

    def rows(self, only: str | None = None) -> list[Row]:
        """All rows, best first, ties in the order of what is shown."""
        found: list[tuple[tuple[str, ...], Row]] = []
        for relations in self.choices():
            for columns, extra, clauses in self.groups(relations):
                found += self.grouped(relations, columns, extra, clauses, only)
        found.sort(key=lambda pair: (-pair[1].truth, pair[0], [sortable(key) for key in pair[1].keys]))
        best: dict[Any, Row] = {}
        for _, row in found:
            best.setdefault(tuple((type(c), c) for c in row.cells), row)
        return sorted(best.values(), key=lambda row: (-row.truth, [sortable(cell) for cell in row.cells]))

    def choices(self) -> Iterator[dict[str, str]]:
        """Everything that the variables for relations may stand for."""
        facts = [part for clause in clauses_of(self.ask.body) for part, _ in clause if isinstance(part, Fact)]
        used = list(dict.fromkeys(fact.relation for fact in facts if fact.relation[0] == "?"))
        words = []
        for variable in used:
            valued = all(fact.tail[0] == "?" for fact in facts if fact.relation == variable)
            words.append([*self.world.relations, *(self.world.of_entities if valued else ())])
        for picked in itertools.product(*words):
            yield dict(zip(used, picked, strict=True))

    def groups(self, relations: Mapping[str, str]) -> Iterator[tuple[tuple[Shown, ...], tuple[str, ...], list[Clause]]]:
        """Clauses that say the same of what is shown; truth is combined within a group."""
        found: dict[Any, list[Clause]] = {}
        for clause in distinct([c for c in self.decided(relations) if c is not None], self.ask.exists):
            values = value_variables(clause, self.world)
            columns = tuple(self._settled(column, relations, values) for column in self.ask.columns)
            shown = {column.what for column in columns if isinstance(column.what, Of)}
            about = frozenset((part, no) for part, no in clause if shown & {*attributes(self.valued(part, values))})
            wanted = {*shown, *(self._settled(s, relations, values).by for s in self.ask.order)}
            for pair in self.pairs(relations, values) * len(
                self.ask.exists
            ):  # what it is compared with says which value
                wanted |= pair if wanted & pair else set()
            terms = {term for of in wanted if isinstance(of, Of) for term in terms_of(of)}
            extra = tuple(sorted(terms & set(self.ask.exists)))
            found.setdefault((columns, extra, about), []).append(clause)
        for (columns, extra, _), clauses in found.items():
            yield columns, extra, clauses

    def pairs(self, relations: Mapping[str, str], values: Mapping[str, Of]) -> list[set[Of]]:
        """The attributes that are compared with each other, anywhere in the query."""
        parts = {part for clause in self.decided(relations) for part, _ in clause or ()}
        found = [set(attributes(self.valued(part, values))) for part in parts]
        shared = [
            {Of(p.head, p.relation, p.tail), values[p.tail]} for p in parts if isinstance(p, Fact) and p.tail in values
        ]
        return [pair for pair in (*found, *shared) if len(pair) == 2]

    def valued(self, literal: Literal, values: Mapping[str, Of]) -> Literal:
        """A literal with attributes in place of the variables for their values."""
        match literal:
            case Fact(relation, head, tail) if relation in self.world.of_entities:
                return Present(Of(head, relation, tail))
            case Test(operator, left, right):
                return Test(operator, values.get(left, left), values.get(right, right))  # type: ignore[arg-type]
            case OneOf(item, choices):
                return OneOf(values.get(item, item), choices)  # type: ignore[arg-type]
            case _:
                return literal

    def decided(self, relations: Mapping[str, str]) -> Iterator[Clause | None]:
        """The clauses with relations named, conditions on these decided; None where one does not hold."""
        for clause in clauses_of(self.ask.body):
            kept: list[tuple[Literal, bool]] | None = []
            for part, no in clause:
                match part:
                    case Test(operator, left, right) if left in relations or right in relations:
                        words = [relations.get(side, side) for side in (left, right)]  # type: ignore[arg-type]
                        holds = (words[0] == words[1]) == (operator == "=")
                    case OneOf(item, choices) if item in relations:
                        holds = relations[str(item)] in choices
                    case _:
                        assert kept is not None
                        kept.append((renamed(part, relations), no))
                        continue
                if holds == no:
                    kept = None
                    break
            yield None if kept is None else tuple(dict.fromkeys(kept))

    def _settled(self, item: Any, relations: Mapping[str, str], values: Mapping[str, Of]) -> Any:
        what = item.what if isinstance(item, Shown) else item.by
        what = values.get(what, what) if isinstance(what, str) else renamed(what, relations)
        return replace(item, what=what) if isinstance(item, Shown) else replace(item, by=what)

    def grouped(
        self,
        relations: Mapping[str, str],
        columns: tuple[Shown, ...],
        extra: tuple[str, ...],
        clauses: list[Clause],
        only: str | None,
    ) -> Iterator[tuple[tuple[str, ...], Row]]:
        """The rows of a group, each with its tuple of entities."""
        best: dict[Any, list[float]] = {}
        stated: dict[Any, bool] = {}
        reasons = self.reasons(clauses)
        for number, clause in enumerate(clauses):
            values = value_variables(clause, self.world)
            order = [self._settled(key, relations, values).by for key in self.ask.order]
            asked = [v for v in self.ask.free if v not in values and v not in relations]
            wanted = {column.what: column.optional for column in columns if isinstance(column.what, Of)}
            wanted |= {by: True for by in order if isinstance(by, Of) and by not in wanted}
            for solution in self.solutions(clause, wanted):
                tuple_ = tuple(solution.entities[v] for v in (*asked, *extra))
                cells = tuple(self._cell(c.what, solution, relations) for c in columns)
                names = {shown.what: cell for shown, cell in zip(self.ask.columns, cells, strict=True)}
                keys = tuple(
                    solution.values[by] if isinstance(by, Of) else names.get(sort.by) if by != "truth" else None
                    for by, sort in zip(order, self.ask.order, strict=True)
                )
                key = tuple_, cells, keys
                best.setdefault(key, [0.0] * len(clauses))
                best[key][number] = max(best[key][number], solution.truth)
                stated[tuple_] = stated.get(tuple_, False) or solution.stated
        for (tuple_, cells, keys), truths in best.items():
            if only is None or stated[tuple_] == (only == "observed"):
                truth = max(truths) if self.godel else 1.0
                if not self.godel:
                    for numbers in reasons:
                        truth *= 1 - max(truths[number] for number in numbers)
                    truth = 1 - truth
                if truth > 0:
                    told = tuple(truth if s.by == "truth" else key for s, key in zip(self.ask.order, keys, strict=True))
                    yield tuple_, Row(cells, truth, told)

    def reasons(self, clauses: list[Clause]) -> list[list[int]]:
        """The numbers of the clauses, those together that are one reason."""
        alike: dict[Any, list[tuple[int, set[tuple[Literal, bool]]]]] = {}
        for number, clause in enumerate(clauses):
            values = value_variables(clause, self.world)
            literals = [(self.valued(part, values), no) for part, no in clause]
            facts = [each for each in literals if not _on_one_entity(each[0])]
            names: dict[str, str] = {}
            for part, _ in facts:
                names |= {v: f"?~{len(names)}" for v in terms_of(part) if v in self.ask.exists and v not in names}
            told = {(renamed(part, names), no) for part, no in literals}
            joined = any(isinstance(part, Fact) and not no for part, no in facts)
            key = tuple((renamed(part, names), no) for part, no in facts) if joined else number
            alike.setdefault(key, []).append((number, told))
        found: list[list[int]] = []
        for members in alike.values():
            numbers, told_by = [number for number, _ in members], [told for _, told in members]
            shared = set.intersection(*told_by)
            own = {of for told in told_by for part, _ in told - shared for of in attributes(part)}
            shared = {e for e in shared if not (_on_one_entity(e[0]) and own & set(attributes(e[0])))}
            rest = [told - shared for told in told_by]
            about = {v for told in rest for part, _ in told for v in terms_of(part) if v.startswith("?")}
            together = len(about) == 1 or not all(rest)
            found += [numbers] if together else [[number] for number in numbers]
        return found

    @staticmethod
    def _cell(what: str | Of, solution: Solution, relations: Mapping[str, str]) -> Cell:
        if isinstance(what, Of):
            return solution.values[what]
        return Ent(relations[what] if what in relations else solution.entities[what])

    # --- one clause -------------------------------------------------------------------------------------------------

    def solutions(self, clause: Clause, wanted: Mapping[Of, bool]) -> Iterator[Solution]:
        """The assignments under which a clause has any truth; `wanted` are values to tell, and which are optional."""
        values = value_variables(clause, self.world)
        literals = [(self.valued(part, values), no, part) for part, no in clause]
        facts = [(part, old) for part, _, old in literals if isinstance(old, Fact)]
        if any(old.head in values or (isinstance(part, Fact) and old.tail in values) for part, old in facts):
            return  # a value is no entity
        for part, _, old in literals:  # one value that two attributes share
            if isinstance(part, Present) and isinstance(old, Fact) and part.of != values.get(old.tail, part.of):
                literals = [*literals, (Test("=", values[old.tail], part.of), False, old)]
        used = {t for part, _, _ in literals for t in terms_of(part)} | {t for of in wanted for t in terms_of(of)}
        variables = sorted({t for t in used | set(self.ask.free) - set(values) if t[0] == "?"} - self._relations())
        chosen = {of for part, no, _ in literals if not (no and isinstance(part, Present)) for of in attributes(part)}
        for picked in itertools.product(self.world.entities, repeat=len(variables)):
            env = dict(zip(variables, picked, strict=True))
            truth, stated = self._truth(literals, env)
            if not truth:
                continue
            options: dict[Of, list[Any]] = {of: self._values(of, env) for of in chosen}
            for of, optional in wanted.items():
                if of not in chosen:
                    options[of] = self._values(of, env) or ([None] if optional else [])
            for given in itertools.product(*options.values()):
                told = dict(zip(options, given, strict=True))
                if all(self._holds(part, no, env, told) for part, no, _ in literals):
                    yield Solution(env, told, truth, stated)

    def _relations(self) -> set[str]:
        return {v for relations in itertools.islice(self.choices(), 1) for v in relations}

    def _truth(self, literals: list[tuple[Literal, bool, Literal]], env: Mapping[str, str]) -> tuple[float, bool]:
        total, stated = 1.0, True
        for part, no, _ in literals:
            if isinstance(part, Fact):
                edge = (env.get(part.head, part.head), part.relation, env.get(part.tail, part.tail))
                known = edge in self.world.stated
                truth = float(known) if self.facts else self.world.truth.get(edge, 0.0)
                truth = 1 - truth if no else truth
                total = min(total, truth) if self.godel else total * truth
                stated &= known != no
                if not total:
                    break
        return total, stated

    def _values(self, of: Of, env: Mapping[str, str]) -> list[Plain]:
        if isinstance(of.of, Fact):
            head, tail = (env.get(term, term) for term in (of.of.head, of.of.tail))
            return self.world.values(of.name, (head, of.of.relation, tail))
        return self.world.values(of.name, env.get(of.of, of.of))

    def _holds(self, part: Literal, no: bool, env: Mapping[str, str], told: Mapping[Of, Any]) -> bool:
        match part:
            case Present(of, Val(value)):
                return any(compares("=", own, value, False) for own in self._values(of, env)) != no
            case Present(of):
                return not self._values(of, env) if no else True
            case Test(operator, str() as left, str() as right):
                return (env.get(left, left) == env.get(right, right)) == ((operator == "=") != no)
            case Test(operator, left, right):
                sides = [
                    told[side] if isinstance(side, Of) else side.value if isinstance(side, Val) else env.get(side, side)
                    for side in (left, right)
                ]
                return compares(operator, sides[0], sides[1], no)
            case OneOf(Of() as of, choices):
                given = [choice.value for choice in choices if isinstance(choice, Val)]
                fits = any(family(value) == family(told[of]) for value in given)
                return fits and any(compares("=", told[of], value, False) for value in given) != no
            case OneOf(str() as term, choices):
                return (env.get(term, term) in choices) != no
            case _:
                return True


def value_variables(clause: Clause, world: World) -> dict[str, Of]:
    """The variables that are values: tails of attributes that are written as relations."""
    found: dict[str, Of] = {}
    for part, no in clause:
        if isinstance(part, Fact) and part.relation in world.of_entities and not no:
            found.setdefault(part.tail, Of(part.head, part.relation, part.tail))
    return found


def attributes(literal: Literal) -> Iterator[Of]:
    """The attributes of a literal."""
    match literal:
        case Test(_, left, right):
            yield from (side for side in (left, right) if isinstance(side, Of))
        case OneOf(Of() as of) | Present(of, None):
            yield of


def _on_one_entity(part: Literal) -> bool:
    """Whether a literal is a condition on values or names, not on facts, nor that entities are equal or not."""
    match part:
        case Fact():
            return False
        case Test("=" | "!=", left, right) if isinstance(left, str) or isinstance(right, str):
            return False
        case Present(of):
            return isinstance(of.of, str)
        case _:
            return all(isinstance(of.of, str) for of in attributes(part))


def terms_of(item: Any) -> Iterator[str]:
    """The terms of a literal or an attribute."""
    match item:
        case str():
            yield item
        case Fact(_, head, tail):
            yield from (head, tail)
        case Of(of) | Present(of):
            yield from terms_of(of)
        case Test(_, left, right):
            yield from itertools.chain(terms_of(left), terms_of(right))
        case OneOf(what):
            yield from terms_of(what)


def in_order(rows: list[Row], order: tuple[Sort, ...]) -> list[Row]:
    """Rows by the keys of an order, what is missing last."""
    for i in range(len(order) - 1, -1, -1):
        there = sorted(
            (row for row in rows if row.keys[i] is not None),
            key=lambda row: sortable(row.keys[i]),
            reverse=order[i].descending,
        )
        rows = there + [row for row in rows if row.keys[i] is None]
    return rows


def cut(rows: list[Row], ask: Ask, crisp: bool, k: int | None, offset: int) -> list[Row]:
    """The rows that are shown: the best ones in order; where all are equally true or wanted, the first in order."""
    if crisp or k is None:
        return in_order(rows, ask.order)[offset : None if k is None else offset + k]
    return in_order(rows[offset : offset + k], ask.order)
