"""Queries as Cypher."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

from tuplet.errors import Refused
from tuplet.lang.ast import (
    TEXT_TESTS,
    TYPE,
    Among,
    And,
    Atom,
    Attribute,
    Column,
    Compare,
    Constant,
    Different,
    Exists,
    Formula,
    Free,
    Has,
    Name,
    Not,
    Operand,
    Or,
    Query,
    Same,
    Term,
    Value,
    atoms,
    attributes_of,
    terms,
)
from tuplet.lang.cypher import TRUTH
from tuplet.lang.reader import MAX_DIGITS, quote_text
from tuplet.lang.rewrite import disjunctive_normal_form, new_name, push_negation

CYPHER_RESERVED = frozenset(
    """ALL AND ANY AS ASC BY CALL CASE CONTAINS COUNT CREATE DATE DATETIME DELETE DESC DETACH DISTINCT ENDS EXISTS FALSE
    FOREACH IN IS LIMIT LOAD MATCH MERGE NONE NOT NULL OPTIONAL OR ORDER REDUCE REMOVE RETURN SET SINGLE SKIP STARTS
    TRUE UNION UNWIND USE WHERE WITH XOR""".split()  # noqa: SIM905 - a list of so many quotes is hard to read
)
_PLAIN = re.compile(r"[^\W\d]\w*")
_WHOLE = re.compile(r"(\(\?[a-zA-Z]+\))?\^\(\?:(.*)\)\$", re.DOTALL)
_SIGNS = {"!=": "<>", **{operator: test.cypher for operator, test in TEXT_TESTS.items()}}


def to_cypher(query: Query) -> str:
    """The query as Cypher; `Refused` if Cypher has no words for it.

    >>> from tuplet.lang.cypher import parse_cypher
    >>> print(to_cypher(parse_cypher("MATCH (x:Drug)-[:TREATS]->(y {name: 'asthma'}) WHERE x.phase > 2 RETURN x")))
    MATCH (x:Drug) MATCH (x)-[:TREATS]->(y) WHERE y.name = 'asthma' AND x.phase > 2 RETURN x
    """
    try:
        return Block(query, query.body).text()
    except Refused:
        if query.form != "select" or query.shown or query.order or query.offset or query.limit is not None:
            if isinstance(query.body, Or):
                _refuse("alternatives of whole patterns together with columns, an order or a limit")
            raise
    try:
        return _union(query)
    except Refused:
        return _union(disjunctive_normal_form(push_negation(query)))


def _union(query: Query) -> str:
    parts = query.body.parts if isinstance(query.body, Or) else (query.body,)
    return " UNION ".join(Block(query, part).text() for part in parts)


class Block:
    """One MATCH … RETURN: the parts of a conjunction in their order."""

    def __init__(self, query: Query, body: Formula) -> None:
        self.query = query
        self.parts = list(body.parts) if isinstance(body, And) else [body]
        self.clauses: list[str] = []
        self.conditions: list[Formula] = []
        self.known: set[Term] = set()
        self.uses = Counter(term for part in self.parts for term in terms(part))
        facts = [atom for part in self.parts for atom in atoms(part) if isinstance(atom, Atom)]
        self.taken = {term.name for term in self.uses if not isinstance(term, Constant)} | {v.name for v in query.free}
        self.taken |= {fact.relation.text for fact in facts}
        self.constants: dict[Name, str] = {}
        compared = list(attributes_of(body))
        self.variables = Counter((a.of, a.name, a.variable) for a in compared)
        self.written: set[Atom] = set()
        self.named: dict[Atom, str] = {}  # relationships that have a name, because something speaks of them
        for used in (*compared, *(column.what for column in query.shown), *(key.by for key in query.order)):
            if isinstance(used, Attribute) and isinstance(used.of, Atom):
                self.name_of(used.of)

    def text(self) -> str:
        others = [part for part in self.parts if not self.pattern(part)]
        conditions = [*self.conditions, *others]  # first which entities the nodes of patterns are
        spoken = {term for part in conditions for term in terms(part) if not isinstance(term, Constant)}
        if not self.clauses or not spoken <= self.known:
            _refuse("a condition on nodes that no pattern names")
        tests = [self.condition(part, inside=True) for part in conditions]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return f"{' '.join(self.clauses)}{where} RETURN {self.write_return()}{self.ending()}"

    # --- patterns -----------------------------------------------------------------------------------------------------

    def match(self, pattern: str, *nodes: Term) -> bool:
        self.clauses.append(f"MATCH {pattern}")
        self.known.update(nodes)
        return True

    def pattern(self, part: Formula) -> bool:
        """Write a part as a pattern, if it is one."""
        match part:
            case Atom(Name(text, "name"), head, Constant(Name(label, "name"))) if text == TYPE:
                if not isinstance(head, Constant):
                    return self.match(f"({_quote(head.name)}:{_quote(label)})", head)
            case Atom(Name(text, "name"), Free() | Exists() as head, Exists(hidden) as tail) if text == TYPE:
                alone = self.uses[tail] == 1 and hidden.startswith("_")
                if alone and not any(self.binds(other, head) for other in self.parts if other is not part):
                    return self.match(f"({_quote(head.name)})", head)
        match part:
            case Atom():
                about = self.relation(part.relation)
                return self.match(self.path(part, about, "->"), *self.ends(part.head, part.tail))
            case Or(parts):
                return self.choice(parts)
            case Different(Constant(Name(_, "variable") as relation), Constant(Name(text))) if text == TYPE:
                return any(isinstance(a, Atom) and a.relation == relation for part in self.parts for a in atoms(part))
            case Among(Constant(Name(_, "variable") as relation), _, False):
                return self.read_list(relation) is part
        return False

    def binds(self, part: Formula, node: Term) -> bool:
        return isinstance(part, Atom | Or) and node in set(terms(part))

    def choice(self, parts: tuple[Formula, ...]) -> bool:
        """`[:A|B]`, a relationship without a direction, or `:A|B`."""
        facts = [part for part in parts if isinstance(part, Atom)]
        if len(facts) < len(parts):
            return False
        first = facts[0]
        relations = list(dict.fromkeys(fact.relation for fact in facts))
        if any(name.kind not in ("name", "variable") for name in relations):
            return False
        ends = [(first.head, first.tail)]
        if first.relation.text == TYPE and all(isinstance(fact.tail, Constant) for fact in facts):
            labels = [fact.tail.name for fact in facts if isinstance(fact.tail, Constant)]
            same = all(fact.head == first.head and fact.relation == first.relation for fact in facts)
            if same and not isinstance(first.head, Constant) and all(label.kind == "name" for label in labels):
                shown = "|".join(_quote(label.text) for label in labels)
                return self.match(f"({_quote(first.head.name)}:{shown})", first.head)
        about = ":" + "|".join(_quote(name.text) for name in relations)
        if relations[0].kind == "variable":
            about = self.relation(relations[0])
        for arrow in ("->", "-"):
            if [Atom(name, *pair) for name in relations for pair in ends] == facts:
                return self.match(self.path(first, about, arrow), *self.ends(first.head, first.tail))
            ends.append((first.tail, first.head))
        return False

    def path(self, fact: Atom, about: str, arrow: str) -> str:
        name = self.named.get(fact, "") if arrow == "->" and fact not in self.written else ""
        self.written.add(fact)
        return f"({self.node(fact.head)})-[{_quote(name) if name else ''}{about}]{arrow}({self.node(fact.tail)})"

    def relation(self, relation: Name) -> str:
        if relation.kind == "id":
            _refuse("numbers of relations")
        if relation.kind != "variable":
            return f":{_quote(relation.text)}"
        if sum(relation in {a.relation for a in atoms(part) if isinstance(a, Atom)} for part in self.parts) > 1:
            _refuse("one variable for the relations of several facts")
        if types := self.read_list(relation):
            shown = [_quote(name.text) for name in types.choices if isinstance(name, Name)]
            return f"{_quote(relation.text)}:{'|'.join(shown)}"
        link = Different(Constant(relation), Constant(Name(TYPE)))
        if link not in self.parts:
            _refuse("a variable that may stand for the type relation or for attributes")
        return _quote(relation.text)

    def read_list(self, relation: Name) -> Among | None:
        """The types that a relationship is said to have, if there are several."""
        for part in self.parts:
            if isinstance(part, Among) and part.item == Constant(relation) and not part.negated:
                link = Different(Constant(relation), Constant(Name(TYPE)))
                return None if link in self.parts else part
        return None

    def ends(self, *nodes: Term) -> Iterable[Term]:
        return (node for node in nodes if not isinstance(node, Constant))

    def node(self, term: Term) -> str:
        """A node of a path; a named entity is a variable that is said to be it."""
        if not isinstance(term, Constant):
            return _quote(term.name)
        if term.name not in self.constants:
            self.constants[term.name] = new_name("", self.taken, numbered=True)
            self.conditions.append(Same(Exists(self.constants[term.name]), Constant(term.name)))
        self.known.add(Exists(self.constants[term.name]))
        return self.constants[term.name]

    def name_of(self, fact: Atom) -> str:
        if fact.relation.kind == "variable":
            return fact.relation.text
        if fact not in self.named:
            if fact not in self.parts:
                _refuse("properties of a fact that is one of several")
            self.named[fact] = new_name("", self.taken, numbered=True)
        return self.named[fact]

    # --- conditions ---------------------------------------------------------------------------------------------------

    def condition(self, part: Formula, inside: bool = False) -> str:
        """A condition; in brackets if it is an alternative `inside` others."""
        match part:
            case And(parts):
                return " AND ".join(self.condition(each, inside=True) for each in parts)
            case Or(parts):
                text = " OR ".join(self.condition(each) for each in parts)
                return f"({text})" if inside else text
            case Not(Atom() | Or() as body):
                return f"NOT {self.condition(body, inside=True)}"
            case Not(body):
                return f"NOT ({self.condition(body)})"
            case Atom(Name(text, "name"), Free() | Exists() as head, Constant(Name(label, "name"))) if text == TYPE:
                return f"{_quote(head.name)}:{_quote(label)}"
            case Atom(relation, head, tail):
                if isinstance(head, Constant) or isinstance(tail, Constant) or relation.kind != "name":
                    _refuse("named entities in an alternative or a negation")
                return self.path(part, f":{_quote(relation.text)}", "->")
            case Same(left, right) | Different(left, right):
                return self.identity(left, right, "=" if isinstance(part, Same) else "<>")
            case Compare():
                return f"{'NOT ' if part.negated else ''}{self.comparison(part)}"
            case Among(item, choices, negated):
                listed = ", ".join(_entity(each) if isinstance(each, Name) else _value(each) for each in choices)
                return f"{'NOT ' if negated else ''}{self.side(item)} IN [{listed}]"
            case Has(attribute, False, Value() as value):
                return f"{_value(value)} IN {self.attribute(attribute)}"
            case Has(_, _, Value()):
                _refuse("a property of which no value is the given one")
            case Has(attribute, negated):
                return f"{self.side(attribute)} IS {'' if negated else 'NOT '}NULL"

    def identity(self, left: Term, right: Term, sign: str) -> str:
        if isinstance(left, Constant) and left.name.kind != "variable":
            left, right = right, left
        if isinstance(right, Constant):
            other = f"type({_quote(right.name.text)})" if right.name.kind == "variable" else _entity(right.name)
            return f"{self.side(left)} {sign} {other}"
        if isinstance(left, Constant):
            _refuse("an entity that is compared with a relation")
        return f"{_quote(left.name)} {sign} {_quote(right.name)}"

    def comparison(self, part: Compare) -> str:
        left, right = part.left, part.right
        if isinstance(left, Attribute) and isinstance(right, Value) and self.is_listed(part, left):
            return f"{_value(right)} IN {self.attribute(left)}"
        if part.operator == "matches" and isinstance(right, Value) and isinstance(right.value, str):
            whole = _WHOLE.fullmatch(right.value)
            right = replace(right, value=(whole[1] or "") + whole[2] if whole else f"(?s).*(?:{right.value}).*")
        return f"{self.side(left)} {_SIGNS.get(part.operator, part.operator)} {self.side(right)}"

    def is_listed(self, part: Compare, left: Attribute) -> bool:
        """Whether this says that some value of a property is the given one, whichever: `7 IN x.numbers`."""
        once = self.variables[left.of, left.name, left.variable] == 1
        return left.variable.startswith("_") and once and part.operator == "=" and not part.negated

    def side(self, operand: Operand) -> str:
        match operand:
            case Value():
                return _value(operand)
            case Attribute(of, name, variable):
                alike = {v for (o, n, v) in self.variables if (o, n) == (of, name) and not v.startswith("_")}
                if len(alike | {variable}) > 1:
                    _refuse("several values of one property")
                return self.attribute(operand)
            case Constant(Name(text, "variable")):
                return f"type({_quote(text)})"
            case Constant():
                return _refuse("a named entity in a comparison")
            case _:
                return f"id({_quote(operand.name)})"

    def attribute(self, attribute: Attribute) -> str:
        of, name = attribute.of, attribute.name
        if name.kind != "name":
            _refuse("labels of properties")
        if isinstance(of, Constant):
            _refuse("properties of named entities")
        return f"{_quote(self.name_of(of) if isinstance(of, Atom) else of.name)}.{_quote(name.text)}"

    # --- RETURN -------------------------------------------------------------------------------------------------------

    def write_return(self) -> str:
        query = self.query
        if query.form == "ask":
            _refuse("ASK")
        if not query.free and not query.shown:
            _refuse("a query that asks for no variable")
        if query.form == "count":
            nodes = {term for term in self.known if isinstance(term, Free)}
            every = nodes == set(query.free) and not any(isinstance(term, Exists) for term in self.known)
            alone = len(query.free) == 1 and not query.shown
            if not every and not alone:
                _refuse("numbers of some of the nodes")
            text = f"count(DISTINCT {_quote(query.free[0].name)})" if alone else "count(*)"
            return text if query.counted == text else f"{text} AS {_quote(query.counted or 'count')}"
        columns = query.shown or tuple(Column(variable.name, variable) for variable in query.free)
        return ", ".join(self.column(column) for column in columns)

    def column(self, column: Column) -> str:
        match column.what:
            case Free(name):
                text = _quote(name)
            case Attribute() as attribute:
                text = self.side(attribute)
            case Name(name, "variable"):
                text = _quote(name)
            case _:
                _refuse("a relation as a value")
        return text if column.name == text else f"{text} AS {_quote(column.name)}"

    def ending(self) -> str:
        query = self.query
        columns = {column.name for column in query.shown} or {variable.name for variable in query.free}
        if any(isinstance(key.by, str) and key.by not in (TRUTH, *columns) for key in query.order):
            _refuse("an order by what is not returned")
        keys = [
            (_quote(key.by) if isinstance(key.by, str) else self.side(key.by)) + (" DESC" if key.descending else "")
            for key in query.order
        ]
        text = f" ORDER BY {', '.join(keys)}" if keys else ""
        text += f" SKIP {query.offset}" if query.offset else ""
        return text + ("" if query.limit is None else f" LIMIT {query.limit}")


def _quote(name: str) -> str:
    """A name as Cypher reads it.

    >>> _quote("x"), _quote("has part"), _quote("in")
    ('x', '`has part`', '`in`')
    """
    if _PLAIN.fullmatch(name) and name.upper() not in CYPHER_RESERVED:
        return name
    if not name:
        _refuse("an empty name")
    return "`" + name.replace("`", "``") + "`"


def _entity(name: Name) -> str:
    if name.kind == "number" and len(name.text) <= MAX_DIGITS:
        return name.text
    if name.kind not in ("name", "number"):
        _refuse("labels and numbers of entities")
    return quote_text(name.text, "'")


def _value(value: Value) -> str:
    if value.language:
        _refuse("language tags")
    match value.value:
        case bool():
            return "true" if value.value else "false"
        case str():
            return quote_text(value.value, "'")
        case datetime.datetime():
            return f"datetime('{value.value.isoformat()}')"
        case datetime.date():
            return f"date('{value.value.isoformat()}')"
        case _:
            return repr(value.value)


def _refuse(what: str) -> NoReturn:
    raise Refused(f"Cypher has no words for {what}")
