"""A subset of openCypher → `Query`: the read patterns.

    query   := single (UNION single)*
    single  := (MATCH path (, path)* [WHERE condition])+ RETURN [DISTINCT] (* | item (, item)*)
               [ORDER BY key (, key)*] [SKIP number] [LIMIT number]
    item    := (variable | variable.property | type(relationship) | id(node) | count(…)) [AS name]

Paths are in `cypher_patterns`, conditions in `cypher_conditions`. A label is a fact of the type relation of the graph;
a node of which a query says nothing else is one that has a label. Returned nodes are free, all others existential; the
ends of a relationship that is returned are free, too, but not shown. Rows are sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tuplet.lang.ast import (
    TYPE,
    And,
    Atom,
    Attribute,
    Column,
    Different,
    Exists,
    Form,
    Formula,
    Free,
    Has,
    Name,
    Or,
    Order,
    Query,
    Term,
    terms,
)
from tuplet.lang.cypher_conditions import ConditionReader, Identity, TypeOf
from tuplet.lang.cypher_patterns import FALSE, Part, Relationship, all_of, any_of, in_order, joined
from tuplet.lang.cypher_tokens import SUPPORTED, Parameters
from tuplet.lang.rules import rename
from tuplet.lang.tokens import Token, disjunction
from tuplet.lang.values import MAX_DIGITS

TRUTH = "truth"  # what the truth of an answer is called in ORDER BY


def parse_cypher(text: str, parameters: Parameters | None = None) -> Query:
    """Parse a query of MATCH, WHERE and RETURN.

    >>> from tuplet.lang.logic_text import parse_logic
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
        while self.at_keyword("UNION"):
            token = self.advance()
            if self.keyword("ALL"):
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
        if not self.at_keyword("MATCH"):
            if self.at_keyword("RETURN"):
                self.refuse("RETURN without MATCH is not supported; a query has a pattern")
            self.unexpected("MATCH", ("MATCH",))
        while self.keyword("MATCH"):
            patterns.append(self.patterns())
            if self.keyword("WHERE"):
                patterns[-1].append(self.condition())
        if not self.keyword("RETURN"):
            self.unexpected("RETURN", ("WHERE", "RETURN", "MATCH", "AND", "OR"))
        shown = self.shown()
        order = self.order(shown)
        offset = self.amount("SKIP") or 0
        limit = self.amount("LIMIT")
        patterns[0] = [*self.bare(patterns), *patterns[0]]
        patterns[-1] += shown.conditions
        if shown.count and not shown.distinct:
            self.count_types(patterns, shown)
        body = joined(patterns)
        if body is FALSE:  # said of a node, so that it is a condition like any other
            node = Exists(next(iter(shown.free)))
            body = in_order(all_of([*without_conditions(patterns), Different(node, node)]))
        return self.finished(body, shown, order, offset, limit)

    def bare(self, patterns: list[list[Part]]) -> list[Part]:
        """That the nodes of which no pattern says anything are nodes: they have a label."""
        bound: set[str] = set()
        for part in (part for parts in patterns for part in parts):
            if isinstance(part, Relationship):
                bound.update(part.ends())
            else:
                bound |= binding(part)
        return [self.is_node(Exists(name)) for name in self.matched if name not in bound]

    def is_node(self, node: Exists) -> Formula:
        place = self.matched[node.name]
        return Atom(Name(TYPE, "name", place.position, len(place.text)), node, Exists(self.new_name()))

    def amount(self, word: str) -> int | None:
        """`SKIP number` or `LIMIT number`."""
        if not self.keyword(word):
            return None
        token = self.token
        if not self.starts_value():
            self.fail(f"{word} takes a whole number or a parameter, found {self.found()}")
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

    def shown(self) -> Shown:
        shown = Shown(distinct=self.keyword("DISTINCT"))
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
            self.ended(start)
            name = self.alias(start)
            self.show(name, what, shown, token)
        if shown.count and (shown.columns or counted):
            self.refuse("counts by group are not supported; return count(…) alone, or the rows", token)

    def ended(self, start: int) -> None:
        """Refuse an expression that goes on after what was read from `start`."""
        after = self.token
        if after.kind == "sign" and after.text not in (",", ";", "}"):
            if after.text == ":":
                self.refuse("conditions are no values here; write them in WHERE", self.tokens[start])
            self.refuse(f"{self.found()} is not supported in RETURN; return the properties and compute with them")
        if self.at_keyword("IS") or self.at_keyword("IN") or self.at_keyword("CONTAINS"):
            self.refuse("conditions are no values here; write them in WHERE", self.tokens[start])

    def alias(self, start: int) -> str:
        """The name of a column: what AS says, or the expression itself."""
        last = self.tokens[self.index - 1]
        if self.keyword("AS"):
            return self.identifier("a name after AS").text
        if self.index == start + 1:
            return last.text[1:-1].replace("``", "`") if last.kind == "quoted" else last.text
        return self.text[self.tokens[start].position : last.position + len(last.text)]

    def show(self, name: str, what: object, shown: Shown, token: Token | None = None) -> None:
        """A column of a variable, a property or a type; its variables become free."""
        if any(column.name == name for column in shown.columns):
            self.fail(f"two columns are called {name}; rename one with AS", token)
        match what:
            case Exists() as node:
                column = Column(name, Free(node.name))
                shown.free.setdefault(node.name)
            case Identity(node):
                column = Column(name, Free(node.name))
                shown.free.setdefault(node.name)
            case TypeOf(relationship) | (Relationship() as relationship):
                column = Column(name, self.type_of(relationship))
                shown.free.update(dict.fromkeys(relationship.ends()))
            case Attribute() as attribute:
                column = Column(name, self.shown_attribute(attribute, shown, token), optional=True)
            case _:
                self.refuse("RETURN takes variables, their properties, type(), id() and count()", token)
        shown.columns.append(column)

    def shown_attribute(self, attribute: Attribute, shown: Shown, token: Token | None) -> Attribute:
        """An attribute in a column or an order: of the one fact that a relationship is, of nodes that are free."""
        of = attribute.of
        if isinstance(of, Atom):
            relationship = self.relationships[of.relation.text]
            facts = relationship.facts()
            if len(facts) > 1:
                self.refuse("properties of a relationship without a direction are not returned; write -> or <-", token)
            attribute = replace(attribute, of=facts[0])
            shown.free.update(dict.fromkeys(relationship.ends()))
        elif isinstance(of, Exists):
            shown.free.setdefault(of.name)
        return attribute

    def count(self, shown: Shown) -> None:
        """`count(*)`, `count(x)`, `count(x.property)` or `count(DISTINCT x)`"""
        start = self.index
        function = self.advance()
        self.advance()
        every: dict[str, None] = dict.fromkeys(self.matched)
        if not self.accept("*"):
            shown.distinct = distinct = self.keyword("DISTINCT")
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
        self.ended(start)
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
        if not self.keyword("ORDER"):
            return []
        if not self.keyword("BY"):
            self.unexpected("BY after ORDER", ("BY",))
        keys = [self.order_key(shown)]
        while self.accept(","):
            keys.append(self.order_key(shown))
        return keys

    def order_key(self, shown: Shown) -> Order:
        start, token = self.index, self.token
        columns = {column.name: column for column in shown.columns}
        by: str | Attribute | None = None
        if token.kind in ("word", "quoted"):
            name = token.text if token.kind == "word" else token.text[1:-1]
            alone = self.tokens[self.index + 1].text not in (".", "(")
            if alone and (name in columns or (name == TRUTH and name not in self.nodes)):
                self.advance()
                by = name
        if by is None:
            if self.starts_value():
                self.refuse("ORDER BY takes variables and their properties", token)
            by = self.key_of(self.side(), columns, shown, token)
        if self.token.kind == "sign" and self.token.text not in (",", ";"):
            self.refuse("ORDER BY takes variables and their properties, no other expressions", self.tokens[start])
        descending = self.keyword("DESC") or self.keyword("DESCENDING")
        if not descending and not self.keyword("ASC"):
            self.keyword("ASCENDING")
        return Order(by, descending)

    def key_of(self, what: object, columns: dict[str, Column], shown: Shown, token: Token) -> str | Attribute:
        match what:
            case Attribute() as attribute:
                wanted: object = self.shown_attribute(attribute, shown, token)
            case Exists(name) | Identity(Exists(name)):
                wanted = Free(name)
            case TypeOf(relationship) | (Relationship() as relationship):
                wanted = self.type_of(relationship)
            case _:
                self.refuse("ORDER BY takes variables and their properties", token)
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

    def finished(self, body: Formula, shown: Shown, order: list[Order], offset: int, limit: int | None) -> Query:
        """The query, its variables free where RETURN needs them."""
        free = tuple(Free(name) for name in shown.free)
        renamed: dict[Term, Term] = {Exists(variable.name): variable for variable in free}

        def freed(attribute: Attribute) -> Attribute:
            found = rename(Has(attribute), renamed)
            assert isinstance(found, Has)
            return found.attribute

        columns = tuple(
            replace(column, what=freed(column.what)) if isinstance(column.what, Attribute) else column
            for column in shown.columns
        )
        if columns == tuple(Column(variable.name, variable) for variable in free):
            columns = ()  # as every query shows its variables
        keys = tuple(replace(key, by=freed(key.by)) if isinstance(key.by, Attribute) else key for key in order)
        form: Form = "count" if shown.count else "select"
        return Query(free, rename(body, renamed), limit, offset, columns, keys, form, shown.count, links=True)


def without_conditions(patterns: list[list[Part]]) -> Iterator[Formula]:
    """Facts that patterns may be, and nothing else."""
    for part in (part for parts in patterns for part in parts):
        if isinstance(part, Relationship):
            part.filtered = False
            yield from (any_of([*part.facts()]), *part.typed())
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
