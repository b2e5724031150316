"""Query forms of the public benchmarks → `Query`: EFOk-CQA strings and BetaE nested tuples.

EFOk-CQA strings: `((r1(s1,f1))&(r2(f1,f2)))&(!(r3(f1,f2)))`. A term's first letter says its kind: `s` constant, `e`
existential, `f` free. A grounding maps `r…` and `s…` to names (strings) or ids (numbers); digits in the string itself
are ids. Without brackets `&` and `|` are read from the left, between bracketed operands from the right, as the public
parser does; both signs on one level, with some operands bracketed and some not, are refused.

BetaE tuples: `(e, (r, …))` is a path from an entity, `(query, (r, …))` a path from the answers of a query, `(q1, q2,
…)` an intersection, `(q1, q2, (-1,))` a union; -2 after a relation negates. In `(e, (r1, r2, -2))` (type pni) the
negation stands above the last atom only, `∃z: r1(e,z) ∧ ¬r2(z,f)`, which is how the EFO1 literature writes the type.

Relation ids count directions, in both: 2k is relation k, 2k + 1 is relation k walked backwards.
"""

from __future__ import annotations

import re
from operator import index
from typing import NoReturn, TypeAlias

from tuplet.errors import BadInput, ParseError, Unsupported
from tuplet.lang.ast import (
    Atom,
    Constant,
    Exists,
    Formula,
    Free,
    Name,
    NameKind,
    Not,
    Query,
    Term,
    Variable,
    terms,
)
from tuplet.lang.parse import Grounding
from tuplet.lang.reader import MAX_DIGITS, Reader, Token, is_number
from tuplet.lang.rewrite import conjunction, disjunction, negation, rename

UNION, NEGATION = -1, -2


# --- EFOk-CQA ----------------------------------------------------------------------------------------------------


def parse_efok(text: str, grounding: Grounding | None = None) -> Query:
    """Parse an EFOk-CQA string; its free variables are asked for in the order of their numbers.

    >>> query = parse_efok("(r1(s1,f1))&(!(r2(f1,f2)))", {"r1": 4, "s1": 17, "r2": "likes"})
    >>> query.free, query.body.parts[0].relation
    ((Free(name='f1'), Free(name='f2')), Name(text='2', kind='id'))
    """
    return _Efok(text, grounding or {}).query()


class _Efok(Reader):
    def __init__(self, text: str, grounding: Grounding) -> None:
        super().__init__(text)
        self.grounding = grounding
        self.free: set[Free] = set()

    def query(self) -> Query:
        body, _ = self.formula()
        if self.token.kind != "end":
            self.fail(f"expected '&', '|' or the end of the query, found {self.next_word()}")
        if not self.free:
            self.fail("the query has no free variable (f, or f1, f2, …)", self.tokens[0])
        return Query(tuple(sorted(self.free, key=lambda v: (int(v.name[1:] or 0), v.name))), body)

    def formula(self) -> tuple[Formula, bool]:
        """A formula, and whether it is one operand in brackets."""
        self.deeper()
        first = self.operand()
        operands, signs, tokens = [first], [], []
        while self.token.text in ("&", "|"):
            tokens.append(self.advance())
            signs.append(tokens[-1].text)
            operands.append(self.operand())
        self.depth -= 1
        if not signs:
            return first
        bracketed = {inside for _, inside in operands}
        formulas = [formula for formula, _ in operands]
        if len(set(signs)) == 1:
            return (conjunction if signs[0] == "&" else disjunction)(formulas), False
        if len(bracketed) == 2:
            at = next(t for t in tokens if t.text != signs[0])
            self.fail("& and | on one level, some operands in brackets and some not: add brackets", at)
        return _fold(formulas, signs, from_left=not bracketed.pop()), False

    def operand(self) -> tuple[Formula, bool]:
        if self.accept("!"):
            self.deeper()
            body, inside = self.operand()
            self.depth -= 1
            return negation(body), inside
        if self.accept("("):
            body, _ = self.formula()
            self.expect(")", "after the formula in brackets")
            return body, True
        return self.atom(), False

    def atom(self) -> Formula:
        token = self.token
        if token.kind != "word":
            self.fail(f"expected an atom such as r1(s1,f1), found {self.next_word()}")
        self.advance()
        self.expect("(", f"after {token.text!r}")
        head = self.term()
        self.expect(",", "between the two terms of an atom")
        tail = self.term()
        self.expect(")", "after the two terms of an atom")
        if not is_number(token.text) and not re.fullmatch(r"r\d*", token.text, re.ASCII):
            self.fail(f"expected a relation such as r1 or a number, found {token.text!r}", token)
        value = self.value(token)
        if isinstance(value, str):
            return Atom(Name(value, "name", token.position, len(token.text)), head, tail)
        relation = Name(str(value // 2), "id", token.position, len(token.text))
        return Atom(relation, tail, head) if value % 2 else Atom(relation, head, tail)

    def term(self) -> Term:
        token = self.token
        if token.kind != "word" or not re.fullmatch(r"[sefu]?\d{0,18}", token.text, re.ASCII):
            self.fail(f"expected a term such as s1, e1, f1 or a number, found {self.next_word()}")
        self.advance()
        match token.text[0]:
            case "f":
                variable = Free(token.text)
                self.free.add(variable)
                return variable
            case "e":
                return Exists(token.text)
            case "u":
                self.refuse("universal variables (u) are not supported", token)
            case _:
                value = self.value(token)
                kind: NameKind = "name" if isinstance(value, str) else "id"
                return Constant(Name(str(value), kind, token.position, len(token.text)))

    def value(self, token: Token) -> str | int:
        """The name or id that grounds a symbol."""
        if is_number(token.text):
            if len(token.text) > MAX_DIGITS:
                self.fail(f"an id has at most {MAX_DIGITS} digits", token)
            return int(token.text)
        if token.text not in self.grounding:
            self.fail(f'{token.text} has no grounding; give one such as {{"{token.text}": "name or id"}}', token)
        value = self.grounding[token.text]
        if isinstance(value, str) and value:
            return value
        try:
            number = -1 if isinstance(value, bool | str) else index(value)
        except TypeError:
            number = -1
        if number < 0 or number >= 10**MAX_DIGITS:
            raise BadInput(f"the grounding of {token.text} is {value!r}; it has to be a name or an id from 0")
        return number


def _fold(formulas: list[Formula], signs: list[str], from_left: bool) -> Formula:
    """Join operands one by one, without precedence."""
    join = {"&": conjunction, "|": disjunction}
    order = 1 if from_left else -1
    result, *others = formulas[::order]
    for sign, formula in zip(signs[::order], others, strict=True):
        result = join[sign]([result, formula][::order])
    return result


# --- BetaE -------------------------------------------------------------------------------------------------------


def parse_betae(text: str) -> Query:
    """Parse a BetaE query written as a Python tuple of numbers.

    >>> parse_betae("((3, (4,)), (5, (7, -2)))").body.parts[1].body.head  # relation 3, backwards
    Free(name='f')
    """
    return _Betae(text).query()


Node: TypeAlias = "tuple[int | list[Node], Token]"


class _Betae(Reader):
    def query(self) -> Query:
        tree = self.node()
        if self.token.kind != "end":
            self.fail(f"expected the end of the query, found {self.next_word()}")
        self.count = 0
        answer = Free("f")
        body = self.meaning(tree, answer)
        met = dict.fromkeys(term for term in terms(body) if isinstance(term, Exists))  # number from the anchors on
        return Query((answer,), rename(body, {term: Exists(f"e{i}") for i, term in enumerate(met, 1)}))

    def node(self) -> Node:
        start = self.token
        if self.accept("("):
            self.deeper()
            items: list[Node] = []
            while not self.accept(")"):
                items.append(self.node())
                if not self.accept(",") and self.token.text != ")":
                    self.fail(f"expected ',' or ')', found {self.next_word()}")
            self.depth -= 1
            return items, start
        sign = -1 if self.accept("-") else 1
        return sign * self.number("or a tuple"), start

    def meaning(self, node: Node, answer: Variable) -> Formula:
        """That `answer` is among the answers of a node."""
        items, start = node
        if isinstance(items, int) or len(items) < 2:
            self.malformed(start)
        last, at = items[-1]
        if isinstance(last, list) and all(isinstance(step, int) for step, _ in last):
            steps = [step for step, _ in last if isinstance(step, int)]
            if steps == [UNION]:
                if len(items) < 3:
                    self.malformed(at)
                return disjunction([self.meaning(item, answer) for item in items[:-1]])
            if len(items) == 2 and steps and all(step >= NEGATION and step != UNION for step in steps):
                return self.path(items[0], steps, at, answer)
            if len(items) != 2 or not isinstance(items[0][0], int):
                self.malformed(at)
        return conjunction([self.meaning(item, answer) for item in items])

    def path(self, source: Node, steps: list[int], at: Token, answer: Variable) -> Formula:
        """Walk `steps` backwards from `answer` to `source`."""
        if not steps:
            if isinstance(source[0], int):
                self.malformed(at)
            return self.meaning(source, answer)
        step = steps[-1]
        if step == NEGATION:
            if len(steps) > 1 and steps[-2] != NEGATION:
                return self.hop(source, steps[:-1], at, answer, negated=True)
            body = self.path(source, steps[:-1], at, answer)
            if any(isinstance(term, Exists) and term != answer for term in terms(body)):
                message = "the negation (-2) of a query with inner variables (¬∃) is not supported"
                raise Unsupported(message, self.text, at.position, 1)
            return negation(body)
        return self.hop(source, steps, at, answer, negated=False)

    def hop(self, source: Node, steps: list[int], at: Token, answer: Variable, negated: bool) -> Formula:
        relation = Name(str(steps[-1] // 2), "id", at.position, 1)
        before: Term
        inner: list[Formula] = []
        if len(steps) == 1 and isinstance(source[0], int):
            if source[0] < 0:
                self.malformed(source[1])
            before = Constant(Name(str(source[0]), "id", source[1].position, len(source[1].text)))
        else:
            self.count += 1
            before = Exists(f"e{self.count}")
            inner = [self.path(source, steps[:-1], at, before)]
        atom = Atom(relation, answer, before) if steps[-1] % 2 else Atom(relation, before, answer)
        return conjunction([*inner, Not(atom) if negated else atom])

    def malformed(self, token: Token) -> NoReturn:
        raise ParseError(
            "expected a BetaE query: (entity, (relation, …)), (query, (relation, …)), (query, query, …) or "
            "(query, query, (-1,))",
            self.text,
            token.position,
        )
