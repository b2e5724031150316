"""A subset of openCypher → `Query`: the read patterns.

    query   := single (UNION single)*
    single  := (MATCH path (, path)* [WHERE expression])+ RETURN [DISTINCT] (* | item (, item)*)
               [ORDER BY key (, key)*] [SKIP number] [LIMIT number]
    item    := (variable | variable.property | type(relationship) | id(node) | count(…)) [AS name]
    condition  := side [(= | <> | < | <= | > | >= | =~ | STARTS WITH | ENDS WITH | CONTAINS) side]
                | side IN list | side IS [NOT] NULL | variable:Label… | path | EXISTS(path) | EXISTS { [MATCH] path }
    side       := value | variable | variable.property | type(relationship) | id(node) | elementId(node)

Words:

    name  `any name`     a variable, label, type or property; a backtick inside is doubled
    'text'  "text"       a text, with the escapes of `tokens`
    17  1.5  -2e3        a number; true, false; date('2020-01-31'), datetime('2020-01-31T12:00:00')
    [1, 2]               a list of values
    $name                a parameter: a value or a list of values that is given beside the text

Paths are in `cypher_patterns`; a path in a condition says that such facts exist and names no new variables. A label is
a fact of the type relation of the graph; a node of which a query says nothing else is one that has a label. Returned
nodes are free, all others existential; the ends of a relationship that is returned are free, too, but not shown. Rows
are sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NoReturn, TypeAlias

from tuplet.errors import hint
from tuplet.lang.ast import (
    MIRRORED,
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
    Form,
    Formula,
    Free,
    Has,
    Name,
    Operator,
    Or,
    Order,
    Query,
    Same,
    Term,
    Value,
    terms,
)
from tuplet.lang.cypher_patterns import SUPPORTED, Parameters, Part, PatternReader, Relationship, in_order, join
from tuplet.lang.reader import MAX_DIGITS, Token, is_number
from tuplet.lang.rewrite import FALSE, TRUE, conjunction, disjunction, negation, rename

_FLAGS = re.compile(r"\(\?[a-zA-Z]+\)")
AGGREGATES = ("AVG", "COLLECT", "COUNT", "MAX", "MIN", "PERCENTILECONT", "PERCENTILEDISC", "STDEV", "STDEVP", "SUM")


@dataclass(frozen=True)
class Identity:
    """The name of a node, which is what `id(node)` is here."""

    node: Exists


@dataclass(frozen=True)
class TypeOf:
    """The type of a relationship."""

    relationship: Relationship


Side: TypeAlias = "Value | tuple[Value, ...] | Exists | Relationship | Attribute | Identity | TypeOf | None"


class ConditionReader(PatternReader):
    """The conditions of WHERE."""

    def both(self) -> Formula:
        fresh, first = self.fresh, self.token
        formula = super().both()
        while self.accept("XOR"):
            other = super().both()
            if self.fresh > fresh:
                self.refuse_negation(first)
            one, two = conjunction([formula, negation(other)]), conjunction([negation(formula), other])
            formula = disjunction([one, two])
        return formula

    def count_inside(self) -> int:
        return self.fresh

    def refuse_negation(self, start: Token) -> NoReturn:
        self.refuse(
            "this asks that there is no such node or relationship (¬∃); only facts of a named type between "
            "variables of the query can be negated",
            start,
        )

    def condition(self) -> Formula:
        if self.at("("):
            if self.at_path():
                return self.facts()
            self.advance()
            formula = self.expression()
            self.expect(")", "after a condition")
            return formula
        if self.at("EXISTS") and self.following().text in ("(", "{"):
            return self.exists()
        token = self.token
        left = self.side()
        formula = self.comparisons(left, token)
        self.refuse_arithmetic()
        return formula

    def refuse_arithmetic(self) -> None:
        if self.at("+", "-", "*", "/", "%", "^"):
            self.refuse("arithmetic is not supported; compute the value first")

    @cached_property
    def closing(self) -> dict[int, int]:
        """Where each parenthesis is closed."""
        found: dict[int, int] = {}
        opened: list[int] = []
        for index, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text == "(":
                opened.append(index)
            elif token.kind == "sign" and token.text == ")" and opened:
                found[opened.pop()] = index
        return found

    def at_path(self) -> bool:
        """Whether a parenthesis opens a node that a relationship follows."""
        closing = self.closing.get(self.index)
        if closing is None:
            return False
        after = [token.text for token in self.tokens[closing + 1 : closing + 4]]
        if after[:1] == ["<"]:
            after = after[1:]
        return after[:1] == ["-"] and after[1:2] in (["-"], ["["])

    def facts(self) -> Formula:
        """A path as a condition."""
        parts: list[Part] = []
        self.path(parts, new=False)
        return join([parts])

    def exists(self) -> Formula:
        self.advance()
        if self.accept("("):
            if self.at("("):
                formula = self.facts()
            else:
                token = self.token
                found = self.side()
                if not isinstance(found, Attribute):
                    self.fail("EXISTS() takes a pattern or a property", token)
                formula = Has(found)
            self.expect(")", "after EXISTS(…")
            return formula
        self.advance()
        self.accept("MATCH")
        parts: list[Part] = []
        self.several(lambda: self.path(parts, new=False), ",")
        if self.accept("WHERE"):
            parts.append(self.expression())
        self.expect("}", "after EXISTS { …")
        return join([parts])

    def comparisons(self, left: Side, token: Token) -> Formula:
        """What follows the left side of a comparison."""
        formulas: list[Formula] = []
        while True:
            sign = self.token
            operator = self.operator()
            if operator is None:
                break
            place = self.token
            right = self.side()
            formulas.append(self.comparison(operator, left, right, token, sign))
            left, token = right, place
        if formulas:
            return conjunction(formulas)
        if self.accept("IN"):
            return self.read_list(left, token)
        if self.accept("IS"):
            absent = not self.accept("NOT")
            if not self.accept("NULL"):
                self.unexpected("NULL" if not absent else "NULL or NOT NULL after IS", ("NULL", "NOT"))
            if isinstance(left, Attribute):
                return Has(left, absent)
            return TRUE if absent == (left is None) else FALSE
        if isinstance(left, Exists) and self.at(":"):
            return self.labels(left)
        if isinstance(left, Attribute):
            return Compare("=", left, Value(True))
        if isinstance(left, Value) and isinstance(left.value, bool):
            return TRUE if left.value else FALSE
        self.refuse_arithmetic()
        self.unexpected("a comparison such as = or IN", ("AND", "OR", "IN", "IS", "CONTAINS", "RETURN"))

    def operator(self) -> Operator | None:
        if self.at("!"):
            self.fail("in Cypher, 'not equal' is written <>")
        return super().operator()

    def after_starts(self, token: Token) -> None:
        if not self.accept("WITH"):
            self.unexpected(f"WITH after {token.text.upper()}")

    def comparison(self, operator: Operator, left: Side, right: Side, token: Token, sign: Token) -> Formula:
        if left is None or right is None:
            self.no_null(token if left is None else self.tokens[self.index - 1])
        if isinstance(left, tuple) or isinstance(right, tuple):
            self.refuse("lists are compared with IN only", sign)
        if isinstance(left, Value) and not isinstance(right, Value):
            if operator not in MIRRORED:
                self.refuse(f"{sign.text} takes a property on its left and a text on its right", sign)
            operator, left, right = MIRRORED[operator], right, left
        if operator in ("=", "!=") and (same := self.same(left, right)):
            return same if operator == "=" else negation(same)
        if isinstance(left, Exists) and isinstance(right, Exists):
            self.fail("nodes have no order; compare their properties", sign)
        one, other = (side.node if isinstance(side, Identity) else side for side in (left, right))
        known = isinstance(other, Value | Attribute) or isinstance(right, Identity)
        if not known or not (isinstance(one, Value | Attribute) or isinstance(left, Identity)):
            if isinstance(left, Exists) and isinstance(right, Value) and operator in ("=", "!="):
                shown = self.text[right.position : right.position + right.length]
                pattern = f"({left.name} {{name: {shown}}}) in MATCH, or " if operator == "=" else ""
                self.refuse(f"a node is no value; write {pattern}id({left.name}) {sign.text} {shown}", sign)
            self.refuse("this comparison is not supported; compare properties, or nodes with nodes", sign)
        assert isinstance(one, Value | Attribute | Exists)
        assert isinstance(other, Value | Attribute | Exists)
        if isinstance(one, Value) and isinstance(other, Value):
            return self.settle(operator, one, other, sign)
        if operator == "matches":
            other = self.whole(other, sign)
        return Compare(operator, one, other)

    def same(self, left: Side, right: Side) -> Formula | None:
        """That two nodes, names or types are one, if both sides are such."""
        match left, right:
            case TypeOf(one), TypeOf(other):
                return Same(Constant(self.type_of(one)), Constant(self.type_of(other)))
            case TypeOf(one), Value():
                return self.is_type(one, (right,))
            case (Exists(), Exists()):
                return Same(left, right)
            case Identity(node), Identity(again):
                return Same(node, again)
            case Identity(node), Value():
                return Same(node, Constant(self.entity(right)))
        return None

    def settle(self, operator: Operator, left: Value, right: Value, sign: Token) -> Formula:
        """A comparison of two values."""
        a, b = left.value, right.value
        if operator in ("=", "!="):
            return TRUE if (a == b) == (operator == "=") else FALSE
        try:
            found = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}.get(operator)  # type: ignore[operator]
        except TypeError:
            found = None
        if found is None:
            self.refuse("two values are compared with = < <= > >= only, and have to be of one kind", sign)
        return TRUE if found else FALSE

    def whole(self, pattern: Value | Attribute | Exists, sign: Token) -> Value:
        """A regular expression that has to match the whole text, as =~ wants it."""
        if not isinstance(pattern, Value) or not isinstance(pattern.value, str):
            self.refuse("=~ takes a text on its right", sign)
        try:
            re.compile(pattern.value)
        except re.error as error:
            self.fail(f"{pattern.value!r} is no regular expression: {error}", self.tokens[self.index - 1])
        flags = _FLAGS.match(pattern.value)
        start = flags.group() if flags else ""
        return replace(pattern, value=f"{start}^(?:{pattern.value[len(start) :]})$")

    def read_list(self, left: Side, token: Token) -> Formula:
        place = self.token
        right = self.side()
        if isinstance(right, Attribute) and isinstance(left, Value):
            return Compare("=", replace(right, variable=self.new_name()), left)  # some value of it, whichever
        if right is None or left is None:
            self.no_null(place if right is None else token)
        if not isinstance(right, tuple):
            self.fail("expected a list such as ['a', 'b'] after IN", place)
        if isinstance(left, Value):
            return TRUE if any(left.value == choice.value for choice in right) else FALSE
        if not right:
            return FALSE
        if isinstance(left, TypeOf):
            return self.is_type(left.relationship, right)
        if isinstance(left, Identity):
            return Among(left.node, tuple(dict.fromkeys(map(self.entity, right))))
        if not isinstance(left, Attribute):
            self.refuse("IN takes a property, id(node) or type(relationship) on its left", token)
        return Among(left, right)

    def is_type(self, relationship: Relationship, types: tuple[Value, ...]) -> Formula:
        names = tuple(dict.fromkeys(map(as_name, types)))
        if len(relationship.types) == 1:
            return TRUE if relationship.types[0] in names else FALSE
        relationship.asked = True
        relation = Constant(relationship.variable)
        return Same(relation, Constant(names[0])) if len(names) == 1 else Among(relation, names)

    def type_of(self, relationship: Relationship) -> Name:
        """The variable for the type of a relationship."""
        if relationship.name.startswith("-"):
            relationship.name = self.new_name()
        relationship.asked = True
        return relationship.variable

    # --- sides --------------------------------------------------------------------------------------------------------

    def side(self) -> Side:
        token = self.token
        if self.starts_value():
            return self.value()
        if token.kind not in ("word", "quoted"):
            if self.at("("):
                self.refuse("brackets inside a comparison are not supported")
            self.unexpected("a condition")
        if token.kind == "word" and self.following().text == "(":
            return self.function()
        name = self.identifier("a variable").text
        if not self.accept("."):
            return self.variable(name, token)
        return self.attribute(name, token)

    def attribute(self, name: str, token: Token) -> Attribute:
        """`name.property`, after the dot."""
        of = self.variable(name, token)
        key = self.read_name("a property")
        if self.at("."):
            self.refuse("properties of properties are not supported")
        if self.at("["):
            self.refuse("positions in lists are not supported")
        if isinstance(of, Relationship):
            of.filtered = True
            return Attribute(of.fact, key)
        return Attribute(of, key)

    def variable(self, name: str, token: Token) -> Exists | Relationship:
        name = self.plain(name)
        if name in self.lists:
            self.refuse(f"{name} is a list of relationships, which is no value here", token)
        if name in self.relationships:
            return self.relationships[name]
        if name not in self.nodes:
            if token.kind == "word" and name.upper() in ("CASE", "ALL", "ANY", "NONE", "SINGLE", "REDUCE"):
                self.refuse(f"{name.upper()} is not supported; write AND, OR and comparisons", token)
            known = [*(node for node, given in self.nodes.items() if given), *self.relationships]
            self.fail(f"the variable {name} is not defined{hint(name, known, '{}'.format)}", token)
        return Exists(name)

    def function(self) -> Side:
        token = self.advance()
        name = token.text.upper()
        if name in AGGREGATES:
            self.refuse(f"{token.text}() is not supported here; only RETURN count(…) counts, for all answers", token)
        if name not in ("TYPE", "ID", "ELEMENTID"):
            known = "there are type(), id(), date() and count()"
            self.refuse(f"the function {token.text}() is not supported; {known}", token)
        self.advance()
        place = self.token
        of = self.variable(self.identifier("a variable").text, place)
        self.expect(")", f"after {token.text}(…")
        if name == "TYPE":
            if not isinstance(of, Relationship):
                self.fail(f"{token.text}() takes a relationship", place)
            return TypeOf(of)
        if not isinstance(of, Exists):
            self.refuse(f"{token.text}() takes a node; relationships have no name of their own", place)
        return Identity(of)

    def entity(self, value: Value) -> Name:
        """A value as the name of an entity; a number keeps its spelling, as in 007."""
        spelt = self.text[value.position :][: value.length]
        return Name(spelt, "number", value.position, value.length) if is_number(spelt) else as_name(value)


def as_name(value: Value) -> Name:
    """A value as the name of an entity or a relation."""
    return Name(str(value.value), "name", value.position, value.length)


TRUTH = "truth"  # what the truth of an answer is called in ORDER BY


def parse_cypher(text: str, parameters: Parameters | None = None) -> Query:
    """Parse a query of MATCH, WHERE and RETURN.

    >>> from tuplet.lang.logic import parse_logic
    >>> query = parse_cypher("MATCH (d)-[:treats]->(x)<-[:causes]-(g) WHERE NOT (d)-[:targets]->(g) RETURN d, g")
    >>> query == parse_logic("?d, ?g : exists ?x . treats(?d, ?x) & causes(?g, ?x) & !targets(?d, ?g)")
    True
    """
    return CypherParser(text, parameters or {}).query()


@dataclass
class Shown:
    """What RETURN says: columns, what is counted, and which variables have to be free for that."""

    columns: list[Column] = field(default_factory=list)
    free: dict[str, None] = field(default_factory=dict)
    conditions: list[Formula] = field(default_factory=list)
    count: str = ""
    distinct: bool = False


class CypherParser(ConditionReader):
    """One query, from its first token to its last."""

    def query(self) -> Query:
        queries = [self.single()]
        while self.at("UNION"):
            token = self.advance()
            if self.accept("ALL"):
                self.refuse("UNION ALL is not supported; rows are sets, write UNION", token)
            queries.append(self.another(queries[0], token))
        self.accept(";")
        if self.token.kind != "end":
            self.unexpected("the end of the query", SUPPORTED)
        if len(queries) == 1:
            return queries[0]
        return replace(queries[0], body=disjunction([query.body for query in queries]))

    def another(self, first: Query, token: Token) -> Query:
        """The next query of a UNION, which has to have the columns of the first."""
        self.nodes, self.matched, self.relationships, self.lists = {}, {}, {}, set()
        query = self.single()
        if query.free != first.free or first.shown or query.shown or "select" != first.form != query.form:
            self.refuse("the queries of a UNION return the same variables, nothing else", token)
        for part in (first, query):
            if part.order or part.offset or part.limit is not None:
                self.refuse("ORDER BY, SKIP and LIMIT are not supported in a UNION", token)
        return query

    # --- clauses ------------------------------------------------------------------------------------------------------

    def single(self) -> Query:
        patterns: list[list[Part]] = []
        if not self.at("MATCH"):
            if self.at("RETURN"):
                self.refuse("RETURN without MATCH is not supported; a query has a pattern")
            self.unexpected("MATCH", ("MATCH",))
        while self.accept("MATCH"):
            patterns.append(self.patterns())
            if self.accept("WHERE"):
                patterns[-1].append(self.expression())
        if not self.accept("RETURN"):
            self.unexpected("RETURN", ("WHERE", "RETURN", "MATCH", "AND", "OR"))
        shown = self.read_shown()
        order = self.order(shown)
        offset = self.read_amount("SKIP") or 0
        limit = self.read_amount("LIMIT")
        patterns[0] = [*self.bare(patterns), *patterns[0]]
        patterns[-1] += shown.conditions
        if shown.count and not shown.distinct:
            self.count_types(patterns, shown)
        body = join(patterns)
        if body is FALSE:  # said of a node, so that it is a condition like any other
            node = Exists(next(iter(shown.free)))
            body = in_order(conjunction([*without_conditions(patterns), Different(node, node)]))
        return self.make_query(body, shown, order, offset, limit)

    def bare(self, patterns: list[list[Part]]) -> list[Part]:
        """That the nodes of which no pattern says anything are nodes: they have a label."""
        bound: set[str] = set()
        for part in (part for parts in patterns for part in parts):
            if isinstance(part, Relationship):
                bound.update(part.ends())
            else:
                bound |= binding(part)
        alone = ((name, token) for name, token in self.matched.items() if name not in bound)
        types = ((name, Name(TYPE, "name", token.position, len(token.text))) for name, token in alone)
        return [Atom(relation, Exists(name), Exists(self.new_name())) for name, relation in types]

    def read_amount(self, word: str) -> int | None:
        """`SKIP number` or `LIMIT number`."""
        if not self.accept(word):
            return None
        token = self.token
        if not self.starts_value():
            self.fail(f"{word} takes a whole number or a parameter, found {self.next_word()}")
        value = self.value()
        number = getattr(value, "value", None)
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            self.fail(f"{word} takes a whole number, not below 0", token)
        if len(str(number)) > MAX_DIGITS:
            self.fail(f"the number after {word} has more than {MAX_DIGITS} digits", token)
        if self.token.kind == "sign" and not self.at(";"):
            self.fail(f"{word} takes a whole number or a parameter, no expression", token)
        return number

    # --- RETURN -------------------------------------------------------------------------------------------------------

    def read_shown(self) -> Shown:
        shown = Shown(distinct=self.accept("DISTINCT"))
        if self.at("*"):
            token = self.advance()
            named = [name for name in self.matched if self.nodes.get(name)]
            if not named and not self.relationships:
                self.fail("RETURN * returns the variables of the patterns, but they have none", token)
            for name in named:
                self.show(name, Exists(name), shown)
            for name, relationship in self.relationships.items():
                self.show(name, relationship, shown)
        else:
            self.item(shown)
        while self.accept(","):
            self.item(shown)
        return shown

    def item(self, shown: Shown) -> None:
        token, start, counted = self.token, self.index, shown.count
        if token.kind == "word" and token.text.upper() == "COUNT" and self.tokens[start + 1].text == "(":
            self.count(shown)
        elif token.kind not in ("word", "quoted") or self.starts_value():
            if token.kind == "end":
                self.unexpected("what to return")
            self.refuse("RETURN takes variables, their properties, type(), id() and count(), no other expressions")
        else:
            what = self.side()
            self.refuse_rest(start)
            name = self.alias(start)
            self.show(name, what, shown, token)
        if shown.count and (shown.columns or counted):
            self.refuse("counts by group are not supported; return count(…) alone, or the rows", token)

    def refuse_rest(self, start: int) -> None:
        """Refuse an expression that goes on after what was read from `start`."""
        after = self.token
        if after.kind == "sign" and after.text not in (",", ";", "}"):
            if after.text == ":":
                self.refuse("conditions are no values here; write them in WHERE", self.tokens[start])
            self.refuse(f"{self.next_word()} is not supported in RETURN; return the properties and compute with them")
        if self.at("IS", "IN", "CONTAINS"):
            self.refuse("conditions are no values here; write them in WHERE", self.tokens[start])

    def alias(self, start: int) -> str:
        """The name of a column: what AS says, or the expression itself."""
        last = self.tokens[self.index - 1]
        if self.accept("AS"):
            return self.identifier("a name after AS").text
        if self.index == start + 1:
            return last.text[1:-1].replace("``", "`") if last.kind == "quoted" else last.text
        return self.text[self.tokens[start].position : last.position + len(last.text)]

    def show(self, name: str, what: object, shown: Shown, token: Token | None = None) -> None:
        """A column of a variable, a property or a type; its variables become free."""
        if any(column.name == name for column in shown.columns):
            self.fail(f"two columns are called {name}; rename one with AS", token)
        refusal = "RETURN takes variables, their properties, type(), id() and count()"
        found = self.visible(what, shown, token, refusal)
        column = Column(name, found, optional=isinstance(found, Attribute))
        shown.columns.append(column)

    def visible(self, what: object, shown: Shown, token: Token | None, refusal: str) -> Free | Name | Attribute:
        """What a column or an order shows; the variables that it needs become free."""
        match what:
            case Exists(name) | Identity(Exists(name)):
                shown.free.setdefault(name)
                return Free(name)
            case TypeOf(relationship) | (Relationship() as relationship):
                shown.free.update(dict.fromkeys(relationship.ends()))
                return self.type_of(relationship)
            case Attribute(Atom(relation)):
                relationship = self.relationships[relation.text]
                facts = relationship.facts()
                if len(facts) > 1:
                    several = "properties of a relationship without a direction are not returned; write -> or <-"
                    self.refuse(several, token)
                shown.free.update(dict.fromkeys(relationship.ends()))
                return replace(what, of=facts[0])
            case Attribute(Exists(name)):
                shown.free.setdefault(name)
                return what
            case _:
                self.refuse(refusal, token)

    def count(self, shown: Shown) -> None:
        """`count(*)`, `count(x)`, `count(x.property)` or `count(DISTINCT x)`"""
        start = self.index
        function = self.advance()
        self.advance()
        every: dict[str, None] = dict.fromkeys(self.matched)
        if not self.accept("*"):
            shown.distinct = distinct = self.accept("DISTINCT")
            token = self.token
            if self.starts_value() or token.kind not in ("word", "quoted"):
                self.refuse("count() takes *, a variable or a property", token)
            what = self.side()
            if isinstance(what, Attribute):
                if distinct:
                    self.refuse("distinct values are not counted; return them and count the rows", token)
                shown.conditions.append(Has(what))
            elif distinct and isinstance(what, Relationship):
                every = dict.fromkeys(what.ends())
            elif distinct and isinstance(what, Exists):
                every = {what.name: None}
            elif not isinstance(what, Exists | Relationship):
                self.refuse("count() takes *, a variable or a property", token)
        self.expect(")", f"after {function.text}(…")
        self.refuse_rest(start)
        shown.free.update(every)
        shown.count = self.alias(start)

    def count_types(self, patterns: list[list[Part]], shown: Shown) -> None:
        """Count the types of relationships, too, where they may be several."""
        several = [r for parts in patterns for r in parts if isinstance(r, Relationship) and len(r.types) != 1]
        if several:
            shown.columns = [Column(name, Free(name)) for name in shown.free]
            shown.columns += [Column(variable.text, variable) for variable in map(self.type_of, several)]

    def order(self, shown: Shown) -> list[Order]:
        """`ORDER BY key [ASC | DESC], …`"""
        if not self.accept("ORDER"):
            return []
        if not self.accept("BY"):
            self.unexpected("BY after ORDER", ("BY",))
        return self.several(lambda: self.order_key(shown), ",")

    def order_key(self, shown: Shown) -> Order:
        start, token = self.index, self.token
        columns = {column.name: column for column in shown.columns}
        by: str | Attribute | None = None
        if token.kind in ("word", "quoted"):
            name = token.text if token.kind == "word" else token.text[1:-1]
            alone = self.following().text not in (".", "(")
            if alone and (name in columns or (name == TRUTH and name not in self.nodes)):
                self.advance()
                by = name
        if by is None:
            if self.starts_value():
                self.refuse("ORDER BY takes variables and their properties", token)
            by = self.key_of(self.side(), columns, shown, token)
        if self.token.kind == "sign" and self.token.text not in (",", ";"):
            self.refuse("ORDER BY takes variables and their properties, no other expressions", self.tokens[start])
        descending = self.accept("DESC") or self.accept("DESCENDING")
        if not descending and not self.accept("ASC"):
            self.accept("ASCENDING")
        return Order(by, descending)

    def key_of(self, what: object, columns: dict[str, Column], shown: Shown, token: Token) -> str | Attribute:
        wanted = self.visible(what, shown, token, "ORDER BY takes variables and their properties")
        for name, column in columns.items():
            if column.what == wanted:
                return name
        if not isinstance(wanted, Attribute):
            self.refuse("ORDER BY takes what is returned, or a property", token)
        returned = [column.what for column in shown.columns]
        if shown.distinct and any(Free(t.name) not in returned for t in terms(Has(wanted)) if isinstance(t, Exists)):
            self.fail("after DISTINCT, ORDER BY takes properties of what is returned", token)
        return wanted

    # --- the query ----------------------------------------------------------------------------------------------------

    def make_query(self, body: Formula, shown: Shown, order: list[Order], offset: int, limit: int | None) -> Query:
        """The query, its variables free where RETURN needs them."""
        free = tuple(Free(name) for name in shown.free)
        renamed: dict[Term, Term] = {Exists(variable.name): variable for variable in free}

        columns = tuple(Column(c.name, rename(c.what, renamed), c.optional) for c in shown.columns)
        if columns == tuple(Column(variable.name, variable) for variable in free):
            columns = ()  # as every query shows its variables
        keys = tuple(replace(key, by=rename(key.by, renamed)) for key in order)
        form: Form = "count" if shown.count else "select"
        return Query(free, rename(body, renamed), limit, offset, columns, keys, form, shown.count, links=True)


def without_conditions(patterns: list[list[Part]]) -> Iterator[Formula]:
    """Facts that patterns may be, and nothing else."""
    for part in (part for parts in patterns for part in parts):
        if isinstance(part, Relationship):
            part.filtered = False
            yield from (disjunction([*part.facts()]), *part.state_type())
        elif binding(part):
            yield part


def binding(formula: Formula) -> set[str]:
    """The variables that some fact of a pattern binds, whichever alternative holds."""
    match formula:
        case Atom():
            return {term.name for term in (formula.head, formula.tail) if isinstance(term, Exists)}
        case And(parts):
            return set().union(*map(binding, parts))
        case Or(parts) if parts:
            return set.intersection(*map(binding, parts))
        case _:
            return set()
