"""Reads the patterns of Cypher; `cypher_patterns` has their grammar and their meaning."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import NoReturn

from tuplet.lang.ast import TYPE, Atom, Attribute, Compare, Constant, Exists, Formula, Name, Same, Value
from tuplet.lang.cypher_patterns import Part, Relationship, all_of, any_of
from tuplet.lang.cypher_tokens import CypherReader, Parameters
from tuplet.lang.tokens import Token

_PLAIN = re.compile(r"\w+")
MAX_STEPS = 16  # of a path of fixed length


class PatternReader(CypherReader, ABC):
    """The patterns of MATCH."""

    def __init__(self, text: str, parameters: Parameters) -> None:
        super().__init__(text, parameters)
        self.nodes: dict[str, bool] = {}  # every node, and whether a name was given to it
        self.matched: dict[str, Token] = {}  # the nodes of MATCH, and where they first stand
        self.relationships: dict[str, Relationship] = {}
        self.lists: set[str] = set()  # variables of paths of fixed length
        self.taken = {token.text for token in self.tokens if token.kind == "word"}
        self.renamed: dict[str, str] = {}  # variables with signs that other languages do not know
        self.fresh = 0

    # --- patterns -----------------------------------------------------------------------------------------------------

    def patterns(self) -> list[Part]:
        """`path, path …`"""
        parts: list[Part] = []
        while True:
            token = self.token
            if token.kind in ("word", "quoted") and self.tokens[self.index + 1].text == "=":
                self.refuse("paths are no values here; leave out the name of the path and return its nodes")
            if token.kind == "word" and token.text.upper() in ("SHORTESTPATH", "ALLSHORTESTPATHS"):
                self.refuse(f"{token.text} is not supported; a path has a fixed length")
            self.path(parts, new=True)
            if not self.accept(","):
                return parts

    def path(self, parts: list[Part], new: bool) -> None:
        """A path into `parts`; `new` tells whether it may name new variables."""
        left = self.node(parts, new)
        while self.at("-") or self.at("<", "-"):
            left = self.relationship(left, parts, new)

    def node(self, parts: list[Part], new: bool) -> Exists:
        if not self.at("("):
            self.unexpected("'(' with a node", ("MATCH",))
        opening = self.advance()
        if self.token.kind in ("word", "quoted") and not self.at_keyword("WHERE"):
            opening = token = self.token
            name = self.plain(self.identifier("a variable").text)
            if name in self.relationships or name in self.lists:
                self.fail(f"{name} is a relationship, it cannot be a node", token)
            if not new and name not in self.nodes:
                self.fail(f"{name} is not defined; a pattern in a condition names no new variables", token)
            self.nodes[name] = True
        else:
            name = self.new_name()
            self.nodes[name] = False
        node = Exists(name)
        if new:
            self.matched.setdefault(name, opening)
        if self.at(":"):
            parts.append(self.labels(node))
        if self.token.kind == "parameter":
            self.fail("a parameter cannot stand for all properties; write {property: $parameter}")
        parts.extend(Compare("=", Attribute(node, key), value) for key, value in self.properties())
        if self.keyword("WHERE"):
            parts.append(self.condition())
        self.expect(")", "after a node")
        return node

    def labels(self, node: Exists) -> Formula:
        """`:A:B`, `:A&B` or `:A|B`"""
        found: list[list[Formula]] = [[]]
        self.advance()
        while True:
            place = self.token
            label = self.named("a label")
            relation = Name(TYPE, "name", place.position, len(place.text))
            found[-1].append(Atom(relation, node, Constant(label)))
            if self.accept("|"):
                self.accept(":")
                found.append([])
            elif not self.accept(":", "&"):
                return any_of([all_of(group) for group in found])

    def relationship(self, left: Exists, parts: list[Part], new: bool) -> Exists:
        opening = self.token
        back = self.accept("<")
        self.expect("-", "in a relationship")
        name, steps = "", 1
        types: tuple[Name, ...] = ()
        properties: list[tuple[Name, Value]] = []
        named = False
        repeated = False
        token = self.token
        if self.accept("["):
            token = self.token
            if token.kind in ("word", "quoted"):
                name, named = self.relationship_name(new), True
                self.lists.add(name)  # no other node or relationship is called so
            if self.accept(":"):
                types = self.types()
            if self.at("*"):
                steps, repeated = self.steps(), True
            if self.token.kind == "parameter":
                self.fail("a parameter cannot stand for all properties; write {property: $parameter}")
            properties = self.properties()
            self.expect("]", "after a relationship")
        self.expect("-", "after a relationship")
        forward = self.accept(">")
        direction = "" if back == forward else (">" if forward else "<")
        after: list[Part] = []
        right = self.node(after, new)
        if named and not repeated:
            self.lists.discard(name)
        if steps == 0:
            parts.append(Same(left, right))
        for step in range(steps):
            middle = right if step == steps - 1 else self.between(opening, new)
            # one of a type is no variable, and needs a name only to be told apart
            unnamed = repeated or not named
            own = name if not unnamed else f"-{opening.position}-{step}" if types else self.new_name()
            found = Relationship(token if named else opening, own, types, left, middle, direction, tuple(properties))
            if named and not repeated:
                self.relationships[name] = found
            parts.append(found)
            left = middle
        parts += after
        return right

    def between(self, opening: Token, new: bool) -> Exists:
        """A node inside a path of fixed length."""
        name = self.new_name()
        if new:
            self.matched[name] = opening
        return Exists(name)

    def relationship_name(self, new: bool) -> str:
        token = self.token
        name = self.plain(self.identifier("a variable").text)
        if name in self.nodes:
            self.fail(f"{name} is a node, it cannot be a relationship", token)
        if name in self.relationships or name in self.lists:
            self.refuse(f"{name} is a relationship of another pattern; name it once", token)
        if not new:
            self.fail(f"{name} is not defined; a pattern in a condition names no new variables", token)
        return name

    def types(self) -> tuple[Name, ...]:
        found = [self.named("a type")]
        while self.accept("|"):
            self.accept(":")
            found.append(self.named("a type"))
        return tuple(found if len(found) == 1 else dict.fromkeys(found))

    def steps(self) -> int:
        """`*3` or `*3..3`: how many relationships the path has."""
        star = self.advance()
        low = self.number_of_steps()
        high = low
        if self.accept(".."):
            high = self.number_of_steps()
        if low is None or low != high:
            self.refuse("paths of variable length are not supported; write one query for each length, as *2", star)
        if low > MAX_STEPS:
            self.fail(f"a path has at most {MAX_STEPS} relationships", star)
        return low

    def number_of_steps(self) -> int | None:
        token = self.token
        if token.kind != "number":
            return None
        if not token.text.isdigit():
            self.fail(f"expected a whole number of relationships, found {self.found()}")
        self.advance()
        return int(token.text)

    def properties(self) -> list[tuple[Name, Value]]:
        """`{name: value, …}`"""
        found: list[tuple[Name, Value]] = []
        if not self.accept("{"):
            return found
        while not self.accept("}"):
            if found:
                self.expect(",", "or '}' after a property")
            key = self.named("a property")
            self.expect(":", "after a property")
            token = self.token
            if not self.starts_value():
                self.refuse("a property of a pattern takes a value or a parameter; write other conditions in WHERE")
            value = self.value()
            if value is None:
                self.no_null(token)
            if not isinstance(value, Value):
                self.refuse("a property is compared with one value; write IN for a list of them", token)
            found.append((key, value))
        return found

    def plain(self, name: str) -> str:
        """A variable without the signs that only backticks allow."""
        if not _PLAIN.fullmatch(name) and name not in self.renamed:
            self.renamed[name] = re.sub(r"\W", "_", name)
            while self.renamed[name] in self.taken:
                self.renamed[name] += "_"
            self.taken.add(self.renamed[name])
        return self.renamed.get(name, name)

    def new_name(self) -> str:
        """A name that is nowhere in the text."""
        while True:
            self.fresh += 1
            name = f"_{self.fresh}"
            if name not in self.taken:
                return name

    @abstractmethod
    def condition(self) -> Formula:
        """`WHERE …`, after the word."""

    def no_null(self, token: Token) -> NoReturn:
        self.fail("nothing equals null; write IS NULL or IS NOT NULL", token)
