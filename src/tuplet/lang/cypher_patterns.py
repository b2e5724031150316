"""Patterns of Cypher: nodes joined by relationships, and how they become formulas.

    path         := node (relationship node)*
    node         := ( [variable] [:Label…] [{property: value, …}] [WHERE condition] )
    relationship := -[…]-> | <-[…]- | -[…]- | --> | <-- | --      […] := [variable] [:TYPE|TYPE…] [*length] [{…}]

A relationship without a type is a variable that stands for a relation, as is one whose type is asked for. One without
a direction, or of several types, is a choice between facts. Within a MATCH no fact is used twice: where two
relationships may be the same fact, their ends or their relations differ. The alternatives of that exclude each other
(`a != b | a = b & c != d`), for they are alternatives of one fact and not further evidence.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from math import prod
from typing import Any, NoReturn, TypeAlias

from tuplet.errors import BudgetExceeded, hint
from tuplet.lang.ast import (
    TEXT_TESTS,
    TYPE,
    Among,
    And,
    Atom,
    Attribute,
    Compare,
    Constant,
    Different,
    Exists,
    Formula,
    Name,
    Or,
    Same,
    Term,
    Value,
)
from tuplet.lang.reader import ExpressionReader, Lexicon, Syntax, Token, whole_number
from tuplet.lang.rewrite import MAX_CLAUSES, conjunction, disjunction, new_name, rename


@dataclass(eq=False)
class Relationship:
    """One relationship of a pattern, from `left` to `right` as they are written."""

    token: Token
    name: str  # its variable, or one that is nowhere in the text
    types: tuple[Name, ...]
    left: Exists
    right: Exists
    direction: str  # ">", "<" or ""
    properties: tuple[tuple[Name, Value], ...] = ()
    asked: bool = False  # whether its type is: it is returned, or compared
    filtered: bool = False  # whether a condition outside the pattern is about its properties

    @property
    def variable(self) -> Name:
        """Itself in the place of a relation."""
        return Name(self.name, "variable", self.token.position, len(self.token.text))

    @property
    def fact(self) -> Atom:
        """What attributes of it are of, until it is known which fact it is."""
        return Atom(self.variable, self.left, self.right)

    @property
    def open(self) -> bool:
        """Whether its relation is a variable."""
        return self.asked or not self.types or (len(self.types) > 1 and self.filtered)

    def facts(self) -> list[Atom]:
        """The facts it may be."""
        relations = [self.variable] if self.open else list(self.types)
        ends = {">": [(self.left, self.right)], "<": [(self.right, self.left)]}.get(self.direction)
        ends = ends or [(self.left, self.right), (self.right, self.left)]
        found = [Atom(relation, head, tail) for relation in relations for head, tail in ends]
        return found if len(found) == 1 else list(dict.fromkeys(found))

    def ends(self) -> tuple[str, str]:
        """The names of its nodes, in its direction."""
        return (self.right.name, self.left.name) if self.direction == "<" else (self.left.name, self.right.name)

    def state(self, fact: Atom) -> list[Formula]:
        """That it is this fact, with the properties in its brackets."""
        return [fact, *(Compare("=", Attribute(fact, name), value) for name, value in self.properties)]

    def resolve(self, fact: Atom) -> Atom:
        """The fact with its relation, where only one is possible."""
        return replace(fact, relation=self.types[0]) if len(self.types) == 1 else fact

    def state_type(self) -> list[Formula]:
        """What the relation is if it is a variable: one of its types, or a link between nodes."""
        relation = Constant(self.variable)
        if not self.open:
            return []
        return [Among(relation, self.types) if self.types else Different(relation, Constant(Name(TYPE)))]

    def may_be(self, other: Relationship) -> bool:
        """Whether both may be the same fact, by their types."""
        return not self.types or not other.types or any(one == two for one in self.types for two in other.types)


Part: TypeAlias = Formula | Relationship


def join(patterns: list[list[Part]]) -> Formula:
    """What the parts of all patterns say together: relationships are facts, in one pattern no two are the same one."""
    pairs: list[tuple[Relationship, Relationship]] = []
    relationships: list[Relationship] = []
    for parts in patterns:
        own = [part for part in parts if isinstance(part, Relationship)]
        pairs += [pair for pair in combinations(own, 2) if pair[0].may_be(pair[1])]
        relationships += own
    facts = {relationship.name: relationship.facts() for relationship in relationships}
    paired = {relationship.name for pair in pairs for relationship in pair}
    # a choice that others depend on is made once for all of them; any other one stays where it is
    chosen = {
        r.name: facts[r.name]
        for r in relationships
        if r.filtered or r.properties or r.name in paired or len(facts[r.name]) == 1
    }
    if (number := prod(len(found) for found in chosen.values())) > MAX_CLAUSES:
        raise BudgetExceeded(
            f"query too large: {number:,} ways to choose directions and types, at most {MAX_CLAUSES}", limit="clauses"
        )
    formulas = []
    for way in product(*chosen.values()):
        choice = dict(zip(chosen, way, strict=True))
        facts_of = {r.fact: choice[r.name] for r in relationships if r.filtered}
        said: list[Formula] = []
        for part in (part for parts in patterns for part in parts):
            if not isinstance(part, Relationship):
                said.append(rename(part, facts_of) if facts_of else part)
                continue
            said += part.state(choice[part.name]) if part.name in choice else [disjunction([*facts[part.name]])]
            said += part.state_type()
        same = [(one.resolve(choice[one.name]), other.resolve(choice[other.name])) for one, other in pairs]
        said.append(differ(same))
        formulas.append(in_order(conjunction(said)))
    return disjunction(formulas)


def in_order(formula: Formula) -> Formula:
    """A conjunction with its facts first, then choices between facts, types of relationships, and the rest."""
    if not isinstance(formula, And):
        return formula

    def place(part: Formula) -> tuple[int, str]:
        match part:
            case Atom():
                return 0, ""
            case Or(parts) if all(isinstance(each, Atom) for each in parts):
                return 1, ""
            case Different(Constant(Name(variable, "variable")), Constant(Name(text))) if text == TYPE:
                return 2, variable
            case Among(Constant(Name(variable, "variable"))):
                return 2, variable
            case _:
                return 3, ""

    return And(tuple(sorted(formula.parts, key=place)))


@dataclass(frozen=True)
class Case:
    """Some terms are equal and some are not: what was said, and what follows from it."""

    said: tuple[Formula, ...] = ()
    equal: Mapping[Term, Term] = field(default_factory=dict)  # a term to the one that stands for it
    unequal: frozenset[frozenset[Term]] = frozenset()

    def split(self, left: Term, right: Term) -> tuple[Case | None, Case | None]:
        """The cases in which two terms differ and in which they do not; None if that cannot be."""
        a, b = self.equal.get(left, left), self.equal.get(right, right)
        if a == b:
            return None, self
        kinds = {term.name.kind if isinstance(term, Constant) else "variable" for term in (a, b)}
        if frozenset((a, b)) in self.unequal or "variable" not in kinds:  # relations of different names
            return self, None
        if isinstance(b, Constant):  # what is known stands for what is not
            a, b = b, a
        equal = {**self.equal, **{term: a for term, of in self.equal.items() if of == b}, b: a}
        unequal = frozenset(frozenset(a if term == b else term for term in pair) for pair in self.unequal)
        differ = replace(self, said=(*self.said, Different(left, right)), unequal=self.unequal | {frozenset((a, b))})
        return differ, Case((*self.said, Same(left, right)), equal, unequal)


def differ(pairs: list[tuple[Atom, Atom]]) -> Formula:
    """That no two facts are the same one, as alternatives that exclude each other and as few as will do.

    >>> r, (x, y, z) = Name("r"), map(Exists, "xyz")
    >>> one, other, third = Atom(r, x, y), Atom(r, z, y), Atom(Name("s"), x, y)
    >>> differ([(one, other), (one, third)])
    Different(left=Exists(name='x'), right=Exists(name='z'))
    """
    cases = [Case()]
    for one, other in pairs:
        found: list[Case] = []
        for case in cases:
            rest: Case | None = case
            relations = sorted((one.relation, other.relation), key=lambda name: name.kind != "variable")
            sides = [(one.head, other.head), (one.tail, other.tail), (Constant(relations[0]), Constant(relations[1]))]
            if relations[0].kind != "variable":
                sides = [sides[2], *sides[:2]]  # else nodes first: most nodes differ, and that settles more
            for left, right in sides:
                if rest is not None:
                    differ, rest = rest.split(left, right)
                    found += [differ] if differ is not None else []
        cases = found
        if len(cases) > MAX_CLAUSES:
            raise BudgetExceeded(
                f"query too large: over {MAX_CLAUSES} ways in which its relationships are different facts; "
                "write some of them in a MATCH of their own",
                limit="clauses",
            )
    return disjunction([conjunction([*case.said]) for case in cases])


Parameters: TypeAlias = Mapping[str, Any]

CYPHER_WORDS = Lexicon.from_expressions(
    r"""
      (?P<word>[^\W\d]\w*)
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
    | (?P<label>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<parameter>\$(?:\w+|`(?:[^`]|``)+`))
    | (?P<unclosed>["'`].*|/\*.*)
    | (?P<sign><>|<=|>=|=~|\.\.|.)
    """,
    r"(?>(?:\s|//[^\n]*|/\*.*?\*/)*)",
)

# What Cypher has and this subset has not, with the way out where there is one.
UNSUPPORTED = {
    "CALL": "a query is one MATCH … RETURN",
    "CREATE": "queries only read",
    "DELETE": "queries only read",
    "DETACH": "queries only read",
    "FOREACH": "queries only read",
    "LOAD": "queries only read",
    "MERGE": "queries only read",
    "OPTIONAL": "every variable of an answer has a value; a property that is missing is returned empty",
    "REMOVE": "queries only read",
    "SET": "queries only read",
    "UNWIND": "list the values with IN",
    "USE": "a query reads one graph",
    "WITH": "write all patterns and conditions before one RETURN",
}
SUPPORTED = ("MATCH", "WHERE", "RETURN", "ORDER", "SKIP", "LIMIT", "UNION")
_FULL = {"OPTIONAL": "OPTIONAL MATCH", "LOAD": "LOAD CSV"}
_CLOSED_BY = {"/": "*/"}
_PLAIN = re.compile(r"\w+")
MAX_STEPS = 16  # of a path of fixed length
_NUMBER_TYPES = (bool, int, float, str, datetime.date)


SYNTAX = Syntax(
    either=("OR",),
    both=("AND",),
    negation=("NOT",),
    operators={
        **{"=": "=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="},
        **{test.cypher.split()[0]: operator for operator, test in TEXT_TESTS.items()},
    },
)


class PatternReader(ExpressionReader):
    """Reads names, values and parameters, and the patterns of MATCH."""

    lexicon, syntax = CYPHER_WORDS, SYNTAX

    def __init__(self, text: str, parameters: Parameters) -> None:
        super().__init__(text)
        self.parameters = parameters
        self.nodes: dict[str, bool] = {}  # every node, and whether a name was given to it
        self.matched: dict[str, Token] = {}  # the nodes of MATCH, and where they first stand
        self.relationships: dict[str, Relationship] = {}
        self.lists: set[str] = set()  # variables of paths of fixed length
        self.taken = {token.text for token in self.tokens if token.kind == "word"}
        self.renamed: dict[str, str] = {}  # variables with signs that other languages do not know
        self.fresh = 0

    # --- words --------------------------------------------------------------------------------------------------------

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        at = token or self.token
        if at.kind == "unclosed":
            close = _CLOSED_BY.get(at.text[0], at.text[0])
            super().fail(f"this {at.text[: len(close)]} is never closed with {close}", Token("sign", "", at.position))
        super().fail(message, token)

    def refuse(self, message: str, token: Token | None = None) -> NoReturn:
        if (token or self.token).kind == "unclosed":
            self.fail(message, token)
        super().refuse(message, token)

    def unexpected(self, expected: str, near: tuple[str, ...] = ()) -> NoReturn:
        """Refuse the next word: by name if Cypher knows it, with a suggestion if it is nearly a keyword."""
        token = self.token
        word = token.text.upper() if token.kind == "word" else ""
        if word in UNSUPPORTED:
            self.refuse(f"{_FULL.get(word, word)} is not supported; {UNSUPPORTED[word]}")
        advice = hint(word, near) if word and word not in near else ""
        self.fail(f"expected {expected}, found {self.next_word()}{advice}")

    # --- names and values ---------------------------------------------------------------------------------------------

    def identifier(self, what: str) -> Token:
        """Read a name; the token's text is the name itself."""
        token = self.token
        if token.kind == "quoted":
            self.index += 1
            return token._replace(text=token.text[1:-1].replace("``", "`"))
        if token.kind != "word":
            self.fail(f"expected {what}, found {self.next_word()}")
        self.index += 1
        return token

    def read_name(self, what: str) -> Name:
        """Read the name of something in the graph."""
        place = self.token
        token = self.identifier(what)
        return Name(token.text, "name", place.position, len(place.text))

    def value(self) -> Value | tuple[Value, ...] | None:
        """Read a value, a list of values, or null (`None`)."""
        token = self.token
        match token.kind:
            case "label":
                self.index += 1
                text = self._unescape(token) if "\\" in token.text else token.text[1:-1]
                return Value(text, "", token.position, len(token.text))
            case "number":
                self.index += 1
                return Value(self._number(token), "", token.position, len(token.text))
            case "parameter":
                self.index += 1
                return self._parameter(token)
        if self.accept("-", "+"):
            number = self.value() if self.token.kind in ("number", "parameter") else None
            if not isinstance(number, Value) or isinstance(number.value, bool | str | datetime.date):
                self.fail("expected a number after the sign", token)
            plain = -number.value if token.text == "-" else number.value
            return Value(plain, "", token.position, number.position + number.length - token.position)
        if self.accept("["):
            return self._list()
        if self.accept("TRUE"):
            return Value(True, "", token.position, 4)
        if self.accept("FALSE"):
            return Value(False, "", token.position, 5)
        if self.accept("NULL"):
            return None
        if self.at("DATE", "DATETIME", "LOCALDATETIME"):
            return self._time()
        if self.at("{"):
            self.refuse("maps are not supported; compare properties one by one")
        self.unexpected("a value")

    def starts_value(self) -> bool:
        """Whether a value comes next."""
        token = self.token
        if token.kind == "word":
            timed = token.text.upper() in ("DATE", "DATETIME", "LOCALDATETIME")
            opened = self.following().text == "("
            return token.text.upper() in ("TRUE", "FALSE", "NULL") or (timed and opened)
        return token.kind in ("label", "number", "parameter") or token.text in ("[", "-", "+", "{")

    def _number(self, token: Token) -> int | float:
        number = float(token.text)
        if token.text.isdigit():
            try:
                return whole_number(token.text)
            except ValueError as error:
                self.fail(str(error), token)
        if number in (float("inf"), float("-inf")):
            self.fail("this number is too large", token)
        return number

    def _list(self) -> tuple[Value, ...]:
        self.deeper()
        values: list[Value] = []
        while not self.accept("]"):
            if values:
                self.expect(",", "or ']' in a list")
            token = self.token
            value = self.value()
            if not isinstance(value, Value):
                self.refuse("a list holds numbers, texts, dates, true and false, nothing else", token)
            values.append(value)
        self.depth -= 1
        return tuple(values)

    def _time(self) -> Value:
        function = self.advance()
        self.expect("(", f"after {function.text}")
        token = self.token
        given = self.value()
        if not isinstance(given, Value) or not isinstance(given.value, str):
            self.fail(f"{function.text}() takes a text such as '2020-01-31'", token)
        closing = self.token
        self.expect(")", f"after the text of {function.text}")
        read = datetime.date if function.text.upper() == "DATE" else datetime.datetime
        try:
            value = read.fromisoformat(given.value)
        except ValueError:
            self.fail(f"{given.value!r} is no {function.text}; write it as 2020-01-31 or 2020-01-31T12:00:00", token)
        return Value(value, "", function.position, closing.position + 1 - function.position)

    def _parameter(self, token: Token) -> Value | tuple[Value, ...] | None:
        name = token.text[1:].strip("`")
        if name not in self.parameters:
            self.fail(f"the parameter ${name} has no value{hint(name, self.parameters, '${}'.format)}", token)
        given = self.parameters[name]
        if isinstance(given, list | tuple):
            if not all(isinstance(item, _NUMBER_TYPES) for item in given):
                self.fail(f"the list ${name} holds something that is no number, text or date", token)
            return tuple(Value(item, "", token.position, len(token.text)) for item in given)
        if given is None:
            return None
        if not isinstance(given, _NUMBER_TYPES):
            self.fail(f"the parameter ${name} is no number, text, date or list of them", token)
        return Value(given, "", token.position, len(token.text))

    # --- patterns -----------------------------------------------------------------------------------------------------

    def patterns(self) -> list[Part]:
        """`path, path …`"""
        parts: list[Part] = []
        while True:
            token = self.token
            if token.kind in ("word", "quoted") and self.following().text == "=":
                self.refuse("paths are no values here; leave out the name of the path and return its nodes")
            if token.kind == "word" and token.text.upper() in ("SHORTESTPATH", "ALLSHORTESTPATHS"):
                self.refuse(f"{token.text} is not supported; a path has a fixed length")
            self.path(parts, new=True)
            if not self.accept(","):
                return parts

    def path(self, parts: list[Part], new: bool) -> None:
        """A path into `parts`; `new` tells whether it may name new variables."""
        left = self.node(parts, new)
        while self.at("-") or (self.at("<") and self.following().text == "-"):
            left = self.relationship(left, parts, new)

    def node(self, parts: list[Part], new: bool) -> Exists:
        if not self.at("("):
            self.unexpected("'(' with a node", ("MATCH",))
        opening = self.advance()
        if self.token.kind in ("word", "quoted") and not self.at("WHERE"):
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
        if self.accept("WHERE"):
            parts.append(self.expression())
        self.expect(")", "after a node")
        return node

    def labels(self, node: Exists) -> Formula:
        """`:A:B`, `:A&B` or `:A|B`"""
        found: list[list[Formula]] = [[]]
        self.advance()
        while True:
            place = self.token
            label = self.read_name("a label")
            relation = Name(TYPE, "name", place.position, len(place.text))
            found[-1].append(Atom(relation, node, Constant(label)))
            if self.accept("|"):
                self.accept(":")
                found.append([])
            elif not self.accept(":", "&"):
                return disjunction([conjunction(group) for group in found])

    def relationship(self, left: Exists, parts: list[Part], new: bool) -> Exists:
        opening = token = self.token
        back = self.accept("<")
        self.expect("-", "in a relationship")
        name, steps = "", None
        types: tuple[Name, ...] = ()
        properties: list[tuple[Name, Value]] = []
        if self.accept("["):
            if self.token.kind in ("word", "quoted"):
                token, name = self.token, self.relationship_name(new)
                self.lists.add(name)  # no other node or relationship is called so
            if self.accept(":"):
                types = self.types()
            if self.at("*"):
                steps = self.steps()
            if self.token.kind == "parameter":
                self.fail("a parameter cannot stand for all properties; write {property: $parameter}")
            properties = self.properties()
            self.expect("]", "after a relationship")
        self.expect("-", "after a relationship")
        forward = self.accept(">")
        direction = "" if back == forward else (">" if forward else "<")
        after: list[Part] = []
        right = self.node(after, new)
        alone = steps is None and name  # one relationship, which has a name
        if steps == 0:
            parts.append(Same(left, right))
        count = 1 if steps is None else steps
        for step in range(1, count + 1):
            middle = right if step == count else self.between(opening, new)
            # one of a type is no variable, and needs a name only to be told apart
            own = alone or (f"-{opening.position}-{step}" if types else self.new_name())
            found = Relationship(token, own, types, left, middle, direction, tuple(properties))
            if alone:
                self.lists.discard(name)
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
        found = [self.read_name("a type")]
        while self.accept("|"):
            self.accept(":")
            found.append(self.read_name("a type"))
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
            self.fail(f"expected a whole number of relationships, found {self.next_word()}")
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
            key = self.read_name("a property")
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
            self.renamed[name] = new_name(re.sub(r"\W", "_", name), self.taken)
        return self.renamed.get(name, name)

    def new_name(self) -> str:
        """A name that is nowhere in the text."""
        self.fresh += 1
        return new_name("", self.taken, numbered=True)

    def no_null(self, token: Token) -> NoReturn:
        self.fail("nothing equals null; write IS NULL or IS NOT NULL", token)
