"""Logic text → `Query`.

    query       := prologue variable (',' variable)* ':' disjunction [limit number]
    disjunction := conjunction ('|' conjunction)*
    conjunction := literal ('&' literal)*
    literal     := '!' literal
                 | exists variable ([','] variable)* '.' disjunction
                 | '(' disjunction ')'
                 | relation '(' term ',' term ')'
                 | term '!=' term
    relation    := word | name
    term        := variable | word | name

`∧` and `&&`, `∨` and `||`, `¬`, `∃`, `≠` mean `&`, `|`, `!`, `exists`, `!=`. `!` binds tightest, then `&`, then `|`;
`exists` reaches as far to the right as it can. A word is a name written bare: letters, digits, `_`, and inside it `-`,
`.` and `/` (a leading `/` too); digits alone are a number of the dataset. A quantified variable that has the name of
another one is renamed, so each variable of the tree has one meaning. Names and the prologue (PREFIX) are as in
`tokens`.
"""

from __future__ import annotations

from typing import NoReturn

from tuplet.errors import hint
from tuplet.lang.ast import Atom, Constant, Different, Exists, Formula, Free, Name, Query, Term, Variable
from tuplet.lang.tokens import Reader, Token, conjunction, disjunction, is_number, negation, tokenize

AND, OR, NOT, EXISTS, DIFFERENT = ("&", "∧", "&&"), ("|", "∨", "||"), ("!", "¬"), ("exists", "∃"), ("!=", "≠")
RESERVED = ("exists", "limit")
_SIGN_FOR = {"and": "&", "or": "|", "not": "!"}


def parse_logic(text: str) -> Query:
    """Parse logic text.

    >>> query = parse_logic('?x, ?y : exists ?z . treats(?x, ?z) & causes(?z, "asthma") & interacts(?x, ?y)')
    >>> query.free, len(query.body.parts)
    ((Free(name='x'), Free(name='y')), 3)
    """
    return LogicParser(text).query()


class LogicParser(Reader):
    """One query, from its first token to its last."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.scope: dict[str, Variable] = {}
        self.taken: set[str] = set()  # names that are used up, also by variables out of scope
        self.used: set[str] = set()
        self.negative = False  # whether an odd number of negations stands above

    def query(self) -> Query:
        self.prologue()
        free = self.head()
        body = self.disjunction()
        limit = None
        if self.token.kind == "word" and self.token.text.lower() == "limit":
            self.advance()
            limit = self.number("after limit")
        if self.token.kind != "end":
            self.unexpected("'&', '|' or the end of the query" if limit is None else "the end of the query")
        for variable, token in free:
            if variable.name not in self.used:
                self.fail(f"{token.text} is asked for, but the formula does not contain it", token)
        return Query(tuple(variable for variable, _ in free), body, limit)

    def head(self) -> list[tuple[Free, Token]]:
        free: list[tuple[Free, Token]] = []
        while True:
            token = self.token
            if token.kind != "variable":
                where = "after ','" if free else "at the start: a query is written ?x, ?y : formula"
                self.fail(f"expected a variable such as ?x {where}, found {self.found()}")
            self.advance()
            variable = Free(token.text[1:])
            if variable.name in self.scope:
                self.fail(f"{token.text} is asked for twice", token)
            free.append((variable, token))
            self.scope[variable.name] = variable
            if not self.accept(","):
                break
        token = self.token
        if token.kind == "prefixed" and token.text.startswith(":"):
            if token.text != ":":  # `?x :r(…)`: the colon ends the head
                self.tokens[self.index :] = [token, *tokenize(self.text, token.position + 1)]
            self.advance()
        else:
            self.unexpected("':' after the variables asked for")
        self.taken = set(self.scope)
        return free

    # --- formulas --------------------------------------------------------------------------------------------------

    def disjunction(self) -> Formula:
        self.deeper()
        parts = [self.conjunction()]
        while self.accept(*OR):
            parts.append(self.conjunction())
        self.depth -= 1
        return disjunction(parts)

    def conjunction(self) -> Formula:
        parts = [self.literal()]
        while self.accept(*AND):
            parts.append(self.literal())
        return conjunction(parts)

    def literal(self) -> Formula:
        token = self.token
        if self.accept(*NOT):
            return self.negated()
        if self.starts_exists():
            return self.exists()
        if self.accept("("):
            formula = self.disjunction()
            if not self.accept(")"):
                self.unexpected("'&', '|' or ')'")
            return formula
        if token.kind == "variable":
            return self.inequality(self.variable(self.advance()))
        name = self.named()
        if name is None:
            self.unexpected("an atom such as relation(?x, ?y)")
        self.advance()
        if self.accept("("):
            return self.atom(name)
        if self.token.text in DIFFERENT or self.token.text == "=":
            return self.inequality(Constant(name))
        self.unexpected(f"'(' after the relation {token.text!r}", token)

    def negated(self) -> Formula:
        self.deeper()
        self.negative = not self.negative
        body = negation(self.literal())
        self.negative = not self.negative
        self.depth -= 1
        return body

    def starts_exists(self) -> bool:
        token = self.token
        if token.text == "∃":
            return True
        # `exists(…)` is an atom of a relation that is called so.
        return token.kind == "word" and token.text.lower() == "exists" and self.tokens[self.index + 1].text != "("

    def exists(self) -> Formula:
        start = self.advance()
        if self.negative:
            self.refuse(
                "exists under a negation (¬∃) is not supported: it asks about every entity at once; "
                "only single atoms can be negated",
                start,
            )
        declared: list[Token] = []
        while self.token.kind == "variable":
            declared.append(self.advance())
            self.accept(",")
        if not declared:
            self.fail(f"expected a variable such as ?z after {start.text}, found {self.found()}")
        self.expect(".", f"after {start.text} {', '.join(token.text for token in declared)}")
        outer = self.scope
        self.scope = dict(outer)
        fresh = [self.fresh(token.text[1:]) for token in declared]
        for token, variable in zip(declared, fresh, strict=True):
            self.scope[token.text[1:]] = variable
        formula = self.disjunction()
        self.scope = outer
        for token, variable in zip(declared, fresh, strict=True):
            if variable.name not in self.used:
                self.fail(f"{token.text} is quantified, but the formula does not contain it", token)
        return formula

    def fresh(self, name: str) -> Exists:
        candidate, count = name, 1
        while candidate in self.taken:
            count += 1
            candidate = f"{name}_{count}"
        self.taken.add(candidate)
        return Exists(candidate)

    # --- atoms and terms -------------------------------------------------------------------------------------------

    def atom(self, relation: Name) -> Atom:
        head = self.term()
        self.expect(",", "between the two terms of an atom")
        tail = self.term()
        if self.accept(","):
            self.refuse("atoms have two terms; relations are binary", self.tokens[self.index - 1])
        self.expect(")", "after the two terms of an atom")
        return Atom(relation, head, tail)

    def inequality(self, left: Term) -> Different:
        token = self.token
        if token.text == "=":
            self.refuse("equality is not supported; use one variable for both")
        if not self.accept(*DIFFERENT):
            self.unexpected("'!=' after a term")
        if self.negative:
            self.refuse("a negated inequality is an equality, which is not supported", token)
        return Different(left, self.term())

    def term(self) -> Term:
        token = self.token
        if token.kind == "variable":
            return self.variable(self.advance())
        name = self.named()
        if name is None:
            self.unexpected("a variable or a name")
        self.advance()
        return Constant(name)

    def variable(self, token: Token) -> Variable:
        variable = self.scope.get(token.text[1:])
        if variable is None:
            advice = hint(token.text[1:], self.scope, "?{}".format) or f"; write exists {token.text} . before its part"
            self.fail(f"{token.text} is neither asked for nor quantified{advice}", token)
        self.used.add(variable.name)
        return variable

    def named(self) -> Name | None:
        token = self.token
        if token.kind == "word" and not is_number(token.text):
            return Name(token.text, "name", token.position, len(token.text))
        return self.name(token)

    def unexpected(self, expected: str, misspelt: Token | None = None) -> NoReturn:
        word = (misspelt or self.token).text.lower()
        if word in _SIGN_FOR:
            advice = f"; did you mean {_SIGN_FOR[word]!r}?"
        else:
            advice = hint(word, RESERVED, repr) if word not in RESERVED else ""
        self.fail(f"expected {expected}, found {self.found()}{advice}")
