r"""Queries as text: logic text, SPARQL and Cypher.

Logic text reads back as the same query, SPARQL and Cypher as a query of the same meaning. Names take the simplest form
that reads back: bare (logic) or `:name`, else `<…>`, and if they contain `>` the escaped form `:a\>b`. Logic text
quantifies existential variables once, in front: their scope is the clause of the normal form anyway. In SPARQL an
attribute in a condition becomes a pattern that binds its value, as other engines expect. In Cypher every fact gets a
MATCH of its own, so that reading adds no inequalities: those there are stand in WHERE. What a language has no words
for (say `!(a & b)`) is written in disjunctive normal form, or `Unsupported` and `Refused` say so.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NoReturn

from tuplet.errors import Refused, Unsupported
from tuplet.lang.ast import (
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
    Order,
    Query,
    Same,
    Term,
    Value,
    atoms,
    terms,
)
from tuplet.lang.cypher import TRUTH
from tuplet.lang.logic import RESERVED
from tuplet.lang.rewrite import disjunctive_normal_form, push_negation
from tuplet.lang.tokens import MAX_DIGITS, UNQUOTED, is_ambiguous, is_number, quoted, tokenize, write, write_sparql

_BARE = re.compile(r"/?\w(?:[\w./-]*\w)?")
_LOCAL = re.compile(r"\w(?:[\w-]|\.+(?=[\w-]))*")
_WORD = re.compile(r"\w+")


def to_logic(query: Query) -> str:
    """The query as logic text.

    >>> from tuplet.lang.sparql import parse_sparql
    >>> to_logic(parse_sparql('SELECT ?x { ?x :treats ?z . { ?z :causes :asthma } UNION { ?x :eases "hay fever" } }'))
    '?x : exists ?z . treats(?x, ?z) & (causes(?z, asthma) | eases(?x, "hay fever"))'
    """
    head, columns = asked_and_shown(query)
    show = f" show {', '.join(map(column_to_logic, columns))}" if columns else ""
    form = "" if query.form == "select" else f"{query.form} "
    counted = f" as {title(query.counted)}" if query.counted else ""
    quantified = {term.name for term in terms(query.body) if isinstance(term, Exists)} | _relation_variables(query.body)
    existential = [name for name in _in_order(query.body) if name in quantified and name not in head]
    quantifier = f"exists {', '.join(f'?{name}' for name in existential)} . " if existential else ""
    order = f" order by {', '.join(map(order_to_logic, query.order))}" if query.order else ""
    limit = "" if query.limit is None else f" limit {query.limit}"
    offset = f" offset {query.offset}" if query.offset else ""
    asked = ", ".join(f"?{name}" for name in head)
    body = formula_to_logic(query.body)
    return f"{form}{asked}{counted}{' ' if asked else ''}: {quantifier}{body}{show}{order}{limit}{offset}"


def asked_and_shown(query: Query) -> tuple[list[str], tuple[Column, ...]]:
    """The names asked for, and the columns that are shown if the names do not say it."""
    free = [variable.name for variable in query.free]
    if not query.shown:
        return free, ()
    plain = all(
        column.name == getattr(column.what, "text", getattr(column.what, "name", None)) for column in query.shown
    )
    relations = [column.what.text for column in query.shown if isinstance(column.what, Name)]
    names = [column.name for column in query.shown if not isinstance(column.what, Attribute) and not column.optional]
    if plain and [name for name in names if name not in relations] == free and len(names) == len(query.shown):
        return names, ()
    return [*free, *dict.fromkeys(relations)], query.shown


def column_to_logic(column: Column) -> str:
    """A column as `show` has it."""
    match column.what:
        case Attribute():
            what = _attribute(column.what)
            default = what.removeprefix("?")
        case Free(name) | Name(name):
            what, default = f"?{name}", name
    return what + " optional" * column.optional + (f" as {title(column.name)}" if column.name != default else "")


def order_to_logic(order: Order) -> str:
    """A key as `order by` has it."""
    by = _attribute(order.by) if isinstance(order.by, Attribute) else title(order.by)
    return by + " desc" * order.descending


def title(name: str) -> str:
    """The name of a column, in quotes where it is no word."""
    return name if _WORD.fullmatch(name) else quoted(name)


def _relation_variables(formula: Formula) -> set[str]:
    return {
        atom.relation.text for atom in atoms(formula) if isinstance(atom, Atom) and atom.relation.kind == "variable"
    }


def _in_order(formula: Formula) -> list[str]:
    """The names of all variables, in the order of appearance."""
    found: dict[str, None] = {}
    for atom in atoms(formula):
        if isinstance(atom, Atom) and atom.relation.kind == "variable":
            found.setdefault(atom.relation.text)
        found.update((term.name, None) for term in terms(atom) if not isinstance(term, Constant))
    return list(found)


def formula_to_logic(formula: Formula) -> str:
    """A formula as logic text, its variables taken as given."""
    match formula:
        case Atom(relation, head, tail):
            return f"{_word(relation)}({_logic_term(head)}, {_logic_term(tail)})"
        case Different(left, right):
            return f"{_compared(left)} != {_compared(right)}"
        case Same(left, right):
            return f"{_compared(left)} = {_compared(right)}"
        case Compare(negated=True) | Has(negated=True):
            return f"!{_enclosed(replace(formula, negated=False))}"
        case Compare(operator, left, right):
            return f"{_side(left, formula)} {operator} {_side(right, formula)}"
        case Among(_, choices, negated):
            return f"{_item(formula)} {'not ' * negated}in {{{', '.join(map(_choice, choices))}}}"
        case Has(attribute, _, value):
            return f"has({_attribute(attribute)}{'' if value is None else f', {write(value)}'})"
        case Not(Atom() as atom):
            return f"!{formula_to_logic(atom)}"
        case Not(body):
            return f"!({formula_to_logic(body)})"
        case And(parts):
            return " & ".join(_bracketed(part, (And, Or)) for part in parts)
        case Or(parts):
            return " | ".join(_bracketed(part, (Or,)) for part in parts)


def _enclosed(formula: Formula) -> str:
    text = formula_to_logic(formula)
    return text if isinstance(formula, Has) else f"({text})"


def _side(operand: Operand, compare: Compare) -> str:
    """A side of a comparison of values, written so that it is not taken for an entity."""
    other = compare.right if operand is compare.left else compare.left
    equality = compare.operator in ("=", "!=")
    clear = isinstance(other, Attribute) or (isinstance(other, Value) and not is_ambiguous(other))
    match operand:
        case Attribute():
            return _attribute(operand)
        case Value():
            return write(operand, full=equality and operand is compare.left and isinstance(other, Value))
        case Constant(name) if name.kind in ("label", "number") or (equality and not clear):
            return f"str({_logic_term(operand)})"
        case Constant():
            return _compared(operand)
        case _:
            return f"str({_logic_term(operand)})" if equality and not clear else _logic_term(operand)


def _item(among: Among) -> str:
    if isinstance(among.item, Attribute):
        return _attribute(among.item)
    values = [choice for choice in among.choices if isinstance(choice, Value)]
    named = isinstance(among.item, Constant) and among.item.name.kind in ("label", "number")
    if values and (named or all(map(is_ambiguous, values))):
        return f"str({_logic_term(among.item)})"
    return _compared(among.item)


def _choice(choice: Name | Value) -> str:
    return write(choice) if isinstance(choice, Value) else _compared(Constant(choice))


def _compared(term: Term) -> str:
    """A term in a comparison, where a bare `true` or `1990-01-01` would be a value."""
    text = _logic_term(term)
    return f":{text}" if UNQUOTED.fullmatch(text) and not text.isdigit() else text


def _attribute(attribute: Attribute) -> str:
    match attribute.of:
        case Atom() as fact:
            of = formula_to_logic(fact)
        case Constant(name):
            # a dot inside a word is part of it
            of = quoted(name.text) if name.kind == "label" else f"<{name.text}>" if _plain(name) else f"{bare(name)} "
        case variable:
            of = _logic_term(variable)
    return f"{of}.{_word(attribute.name)}" + (f"[{attribute.variable}]" if attribute.variable else "")


def _bracketed(formula: Formula, inside: tuple[type[And] | type[Or], ...]) -> str:
    text = formula_to_logic(formula)
    return f"({text})" if isinstance(formula, inside) else text


# --- names -------------------------------------------------------------------------------------------------------


def written(name: str) -> str:
    """An exact name as logic text reads it: bare if that is enough.

    >>> written("asthma"), written("hay fever"), written("007")
    ('asthma', '<hay fever>', '007')
    """
    return _word(Name(name))


def with_short_names(text: str, short: Callable[[str], str]) -> str:
    """Logic text or SPARQL in which names in angle brackets have their short form, if they have one.

    >>> with_short_names("<http://a.b/knows>(?x, <x y>)", lambda name: name.replace("http://a.b/", "ab:"))
    'ab:knows(?x, <x y>)'
    """
    pieces, end = [], 0
    for token in tokenize(text):
        if token.kind == "exact":
            whole = token.text[1:-1]
            name = short(whole)
            pieces += [text[end : token.position], token.text if name == whole else name]
            end = token.position + len(token.text)
    return "".join([*pieces, text[end:]])


def _logic_term(term: Term) -> str:
    return bare(term.name) if isinstance(term, Constant) else f"?{term.name}"


def _word(name: Name) -> str:
    """A name where no value can stand."""
    return name.text if name.kind == "name" and is_number(name.text) else bare(name)


def bare(name: Name) -> str:
    """A name as logic reads it, without signs around it where that will do."""
    plain = name.kind == "name" and _BARE.fullmatch(name.text) and not is_number(name.text)
    return name.text if plain and name.text.lower() not in RESERVED else prefixed(name)


def prefixed(name: Name) -> str:
    """A name as both languages read it.

    >>> [prefixed(Name(text)) for text in ("asthma", "hay fever", "a>b")], prefixed(Name('a "b"', "label"))
    ([':asthma', '<hay fever>', ':a\\\\>b'], '"a \\\\"b\\\\""')
    """
    if name.kind == "number":
        return name.text
    if name.kind == "id":
        return f"@{name.text}"
    if name.kind == "variable":
        return f"?{name.text}"
    if name.kind == "label":
        return quoted(name.text)
    if _LOCAL.fullmatch(name.text):
        return f":{name.text}"
    if _plain(name):
        return f"<{name.text}>"
    return ":" + re.sub(r"([^\w])", r"\\\1", name.text)


def _plain(name: Name) -> bool:
    """Whether a name can stand in angle brackets."""
    return name.kind == "name" and ">" not in name.text and not re.match(r"[\s=]", name.text)


_FUNCTIONS = {"contains": "CONTAINS", "starts": "STRSTARTS", "ends": "STRENDS", "matches": "regex"}


def to_sparql(query: Query) -> str:
    """The query as SPARQL.

    >>> from tuplet.lang.logic import parse_logic
    >>> print(to_sparql(parse_logic('?x, ?y : treats(?x, asthma) & !worsens(?x, ?y) & likes(?y, ?x) & ?x != ?y')))
    SELECT ?x ?y WHERE { ?x :treats :asthma . FILTER NOT EXISTS { ?x :worsens ?y } ?y :likes ?x . FILTER(?x != ?y) }
    >>> print(to_sparql(parse_logic('?x : treats(?x, asthma) & ?x.phase > 2 order by ?x.phase desc limit 3')))
    SELECT ?x WHERE { ?x :treats :asthma . ?x :phase ?phase . FILTER(?phase > 2) } ORDER BY DESC(?phase) LIMIT 3
    """
    return _Printer(query).text()


class _Printer:
    """One query; it knows which variable holds the value of which attribute."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.taken = {term.name for term in terms(query.body) if not isinstance(term, Constant)}
        self.taken |= {
            a.relation.text for a in atoms(query.body) if isinstance(a, Atom) and a.relation.kind == "variable"
        }
        self.variables: dict[Attribute, str] = {}
        for atom in atoms(query.body):  # a value that a pattern binds anyway
            if isinstance(atom, Atom) and not isinstance(atom.tail, Constant):
                self.variables[Attribute(atom.head, atom.relation, atom.tail.name)] = atom.tail.name
        self.patterned = set(self.variables)

    def text(self) -> str:
        query, body = self.query, self.query.body
        _refuse_named_by_values(query)
        for column in query.shown:
            if isinstance(column.what, Attribute) and column.what not in self.variables:
                self.variables[column.what] = self.fresh(column.name if _WORD.fullmatch(column.name) else "")
        if _bound(body) is None:
            body = disjunctive_normal_form(push_negation(query)).body
            assert isinstance(body, Or)
            patterns = self.union(body.parts) if len(body.parts) > 1 else self.patterns(body.parts[0])
        else:
            patterns = self.patterns(body)
        patterns = patterns.removesuffix(" .")
        compared = {a for literal in atoms(body) for a in _attributes(literal)}
        bound = _always(body)
        for column in query.shown:
            if isinstance(column.what, Attribute):
                pattern = self.pattern(column.what)
                if not column.optional:
                    patterns += f" . {pattern}"
                elif column.what not in compared:
                    patterns += f" OPTIONAL {{ {pattern} }}"
                elif column.what not in bound:
                    raise Unsupported("SPARQL has no words for a value that some alternatives compare and all show")
        conditioned = compared | {c.what for c in query.shown} | self.patterned
        for key in query.order if query.form == "select" else ():
            if isinstance(key.by, Attribute) and key.by not in conditioned:
                patterns += f" OPTIONAL {{ {self.pattern(key.by)} }}"
        by = f" ORDER BY {' '.join(map(self.key, order))}" if (order := query.order) and query.form == "select" else ""
        limit = "" if query.limit is None else f" LIMIT {query.limit}"
        offset = f" OFFSET {query.offset}" if query.offset else ""
        return f"{self.head()} {{ {patterns} }}{by}{limit}{offset}"

    def head(self) -> str:
        query = self.query
        if query.form == "ask":
            return "ASK"
        if query.form == "count":
            counted = query.counted if _WORD.fullmatch(query.counted) else "count"
            if len(query.free) == 1:
                return f"SELECT (COUNT(DISTINCT ?{query.free[0].name}) AS ?{counted}) WHERE"
            if self.taken - {variable.name for variable in query.free}:
                raise Unsupported("SPARQL counts one variable or all of them, not some")
            return f"SELECT (COUNT(*) AS ?{counted}) WHERE"
        if not query.shown:
            return f"SELECT {' '.join(f'?{variable.name}' for variable in query.free)} WHERE"
        columns: dict[str, str] = {}  # by title
        for column in query.shown:
            match column.what:
                case Attribute() as attribute:
                    name = self.variables[attribute]
                case Free(name) | Name(name):
                    pass
            titled = column.name if _WORD.fullmatch(column.name) else name
            if titled in columns:
                raise Unsupported(f"SPARQL has no words for two columns of the name {titled}")
            columns[titled] = f"?{name}" if titled == name else f"(?{name} AS ?{titled})"
        return f"SELECT {' '.join(columns.values())} WHERE"

    def key(self, order: Order) -> str:
        if isinstance(order.by, Attribute):
            name = self.variable(order.by)
        elif _WORD.fullmatch(order.by):
            name = order.by
        else:
            raise Unsupported(f"SPARQL has no variable of the name {order.by!r}")
        return f"DESC(?{name})" if order.descending else f"?{name}"

    # --- patterns ----------------------------------------------------------------------------------------------------

    def patterns(self, formula: Formula) -> str:
        match formula:
            case Atom(relation, head, tail):
                return f"{_term(head)} {prefixed(relation)} {_term(tail)} ."
            case Among(Free() | Exists() as item, choices, False) if _is_list(formula):
                return f"VALUES {_term(item)} {{ {' '.join(map(_sparql_choice, choices))} }}"
            case _ if _is_filter(formula) and not isinstance(formula, And):
                return f"FILTER({self.expression(formula)})"
            case Not(body):
                return f"FILTER NOT EXISTS {{ {self.patterns(body).removesuffix(' .')} }}"
            case And(parts):
                graphs = {fact: name for fact, name in map(_in_graph, parts) if fact in parts}
                parts = tuple(part for part in parts if _in_graph(part)[0] not in graphs)
                bound = dict.fromkeys(a for p in parts if not isinstance(p, And | Or) for a in _attributes(p))
                facts = [
                    f"GRAPH {prefixed(graphs[part])} {{ {self.patterns(part).removesuffix(' .')} }}"
                    if part in graphs
                    else self.patterns(part)
                    for part in parts
                    if isinstance(part, Atom)
                ]
                if bound or graphs:  # values are bound after the entities they are values of
                    rest = [self.patterns(part) for part in parts if not isinstance(part, Atom)]
                    return " ".join([*facts, *(f"{self.pattern(a)} ." for a in bound), *filter(None, rest)])
                return " ".join(self.patterns(part) for part in parts)
            case Or(parts):
                return self.union(parts)
            case Has(attribute, negated, value) if value is not None:
                pattern = self.pattern(attribute, write_sparql(value))
                return f"FILTER NOT EXISTS {{ {pattern} }}" if negated else f"{pattern} ."
            case Has(attribute, negated):
                return f"FILTER NOT EXISTS {{ {self.pattern(attribute)} }}" if negated else ""
            case _:
                return f"FILTER({self.expression(formula)})"

    def union(self, parts: Sequence[Formula]) -> str:
        return " UNION ".join(f"{{ {self.patterns(part).removesuffix(' .')} }}" for part in parts)

    def pattern(self, attribute: Attribute, value: str = "") -> str:
        """The pattern that binds the value of an attribute, or says that it has a given one."""
        if isinstance(attribute.of, Atom):
            raise Unsupported("SPARQL has no words for attributes of facts; logic text has: treats(?x, ?y).since")
        return f"{_term(attribute.of)} {prefixed(attribute.name)} {value or '?' + self.variable(attribute)}"

    def variable(self, attribute: Attribute) -> str:
        if attribute not in self.variables:
            local = re.sub(r"\W+", "_", re.split(r"[#/:]", attribute.name.text)[-1]).strip("_")
            self.variables[attribute] = self.fresh(attribute.variable or local)
        return self.variables[attribute]

    def fresh(self, name: str) -> str:
        name = name or "value"
        found, count = name, 1
        while found in self.taken:
            count += 1
            found = f"{name}_{count}"
        self.taken.add(found)
        return found

    # --- filters -----------------------------------------------------------------------------------------------------

    def expression(self, condition: Formula) -> str:
        match condition:
            case And(parts):
                return " && ".join(self.enclosed(part, Or) for part in parts)
            case Or(parts):
                return " || ".join(self.enclosed(part, Or) for part in parts)
            case Different(left, right):
                return f"{_term(left)} != {_term(right)}"
            case Same(left, right):
                return f"{_term(left)} = {_term(right)}"
            case Among(item, choices, negated):
                listed = ", ".join(map(_sparql_choice, choices))
                return f"{self.operand(item, not _is_list(condition))} {'NOT ' * negated}IN ({listed})"
            case Compare(negated=True):
                return f"!({self.comparison(condition)})"
            case Compare():
                return self.comparison(condition)
            case _:
                raise AssertionError("no condition of a filter")

    def enclosed(self, part: Formula, kind: type[Or]) -> str:
        return f"({self.expression(part)})" if isinstance(part, kind) else self.expression(part)

    def comparison(self, compare: Compare) -> str:
        left, right = compare.left, compare.right
        if compare.operator == "language":
            return f"LANG({self.operand(left)}) = {self.operand(right)}"
        if compare.operator == "matches":
            flags = re.match(r"\(\?([ims]+)\)", str(right.value)) if isinstance(right, Value) else None
            if flags:
                assert isinstance(right, Value)
                pattern = quoted(str(right.value)[flags.end() :])
                return f'regex({self.operand(left)}, {pattern}, "{flags.group(1)}")'
        if compare.operator in _FUNCTIONS:
            return f"{_FUNCTIONS[compare.operator]}({self.operand(left)}, {self.operand(right)})"
        equality = compare.operator in ("=", "!=")
        clear = any(isinstance(o, Attribute) or (isinstance(o, Value) and not is_ambiguous(o)) for o in (left, right))
        text = equality and not clear
        if text and any(isinstance(o, Value) and isinstance(o.value, int) for o in (left, right)):
            shown = [write(o, full=True) if isinstance(o, Value) else self.operand(o) for o in (left, right)]
            return f"{shown[0]} {compare.operator} {shown[1]}"
        return f"{self.operand(left, text)} {compare.operator} {self.operand(right, text)}"

    def operand(self, operand: Operand, text: bool = False) -> str:
        match operand:
            case Attribute():
                return f"?{self.variable(operand)}"
            case Value():
                return write_sparql(operand)
            case Constant(name) if text or name.kind in ("label", "number"):
                return f"STR({_term(operand)})"
            case term:
                return f"STR({_term(term)})" if text else _term(term)


def _term(term: Term) -> str:
    return prefixed(term.name) if isinstance(term, Constant) else f"?{term.name}"


def _sparql_choice(choice: Name | Value) -> str:
    return write_sparql(choice) if isinstance(choice, Value) else prefixed(choice)


def _is_list(among: Among) -> bool:
    """Whether the choices, written plainly, read back as what they are: names, or values that are no entities."""
    values = [choice for choice in among.choices if isinstance(choice, Value)]
    return not values or not all(map(is_ambiguous, values))


def _refuse_named_by_values(query: Query) -> None:
    """Refuse a variable of which nothing but values, in the place of names, say what it may be: a FILTER binds none."""
    listed = [a for a in atoms(query.body) if isinstance(a, Among) and not a.negated and not _is_list(a)]
    if not any(isinstance(among.item, Free | Exists) for among in listed):
        return
    body = disjunctive_normal_form(push_negation(query)).body
    for clause in body.parts if isinstance(body, Or) else (body,):
        parts = clause.parts if isinstance(clause, And) else (clause,)
        binding = [p for p in parts if isinstance(p, Atom) or (isinstance(p, Among) and _is_list(p)) or _attributes(p)]
        bound = {term for part in binding for term in terms(part)}
        if any(part.item not in bound for part in parts if isinstance(part, Among) and part in listed):
            raise Unsupported("SPARQL has no words for a variable that is one of some labels and occurs nowhere else")


def _is_filter(formula: Formula) -> bool:
    """Whether a formula is made of conditions on terms alone: an expression of FILTER."""
    match formula:
        case And(parts) | Or(parts):
            return all(map(_is_filter, parts))
        case Different() | Same() | Compare() | Among():
            return not _attributes(formula)
        case _:
            return False


def _in_graph(literal: Formula) -> tuple[Formula | None, Name]:
    """The fact and the named graph that a condition says it is from."""
    match literal:
        case Compare("=", Attribute(Atom() as fact, Name("graph")), Value(str() as name), negated=False):
            return fact, Name(name)
        case _:
            return None, Name("")


def _attributes(literal: Formula) -> list[Attribute]:
    """The attributes whose values a literal needs."""
    match literal:
        case Compare(_, left, right):
            return [operand for operand in (left, right) if isinstance(operand, Attribute)]
        case Among(Attribute() as item):
            return [item]
        case Has(attribute, negated=False, value=None):
            return [attribute]
        case _:
            return []


def _always(formula: Formula) -> set[Attribute]:
    """The attributes whose values every alternative needs."""
    match formula:
        case And(parts):
            return {a for part in parts for a in _always(part)}
        case Or(parts):
            return set.intersection(*map(_always, parts)) if parts else set()
        case _:
            return set(_attributes(formula))


def _bound(formula: Formula) -> frozenset[Term] | None:
    """The variables a SPARQL group of this formula binds for sure; None if its filters would not see theirs."""
    match formula:
        case Among(Free() | Exists() as item, _, False) if _is_list(formula):
            return frozenset((item,))
        case Atom(relation, head, tail):
            own: set[Term] = {Free(relation.text)} if relation.kind == "variable" else set()
            return frozenset(term for term in (head, tail) if not isinstance(term, Constant)) | own
        case Or(parts):
            if _is_filter(formula):
                return None
            branches = [_bound(part) for part in parts]
            return frozenset.intersection(*(b for b in branches if b is not None)) if None not in branches else None
        case And(parts):
            bound: frozenset[Term] = frozenset()
            for part in parts:
                if isinstance(part, And):
                    return None
                binds = isinstance(part, Atom | Among) or (isinstance(part, Or) and not _is_filter(part))
                inner = _bound(part) if binds else frozenset()
                if isinstance(part, Among):
                    inner = inner or frozenset()
                if inner is None:
                    return None
                bound |= inner
            filters = [part for part in parts if not isinstance(part, Atom | Or) or _is_filter(part)]
            plain = all(not isinstance(f, Not) or isinstance(f.body, Atom) for f in filters)
            used = {term for f in filters for term in terms(f) if not isinstance(term, Constant)}
            return bound if plain and used <= bound else None
        case _:
            return None


CYPHER_RESERVED = frozenset(
    """ALL AND ANY AS ASC BY CALL CASE CONTAINS COUNT CREATE DATE DATETIME DELETE DESC DETACH DISTINCT ENDS EXISTS FALSE
    FOREACH IN IS LIMIT LOAD MATCH MERGE NONE NOT NULL OPTIONAL OR ORDER REDUCE REMOVE RETURN SET SINGLE SKIP STARTS
    TRUE UNION UNWIND USE WHERE WITH XOR""".split()  # noqa: SIM905 - a list of so many quotes is hard to read
)
_PLAIN = re.compile(r"[^\W\d]\w*")
_WHOLE = re.compile(r"(\(\?[a-zA-Z]+\))?\^\(\?:(.*)\)\$", re.DOTALL)
_SIGNS = {"!=": "<>", "contains": "CONTAINS", "starts": "STARTS WITH", "ends": "ENDS WITH", "matches": "=~"}
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


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
        self.waiting: list[Formula] = []
        self.known: set[Term] = set()
        self.tests: list[str] = []
        self.uses = Counter(term for part in self.parts for term in terms(part))
        facts = [atom for part in self.parts for atom in atoms(part) if isinstance(atom, Atom)]
        self.taken = {term.name for term in self.uses if not isinstance(term, Constant)} | {v.name for v in query.free}
        self.taken |= {fact.relation.text for fact in facts}
        self.constants: dict[Name, str] = {}
        columns = [column.what for column in query.shown]
        wanted = [*(what for what in columns if isinstance(what, Attribute)), *_keys(query)]
        used = [*_all_attributes(self.parts), *wanted]
        self.variables = Counter((a.of, a.name, a.variable) for a in _all_attributes(self.parts))
        self.written: set[Atom] = set()
        self.named: dict[Atom, str] = {}  # relationships that have a name, because something speaks of them
        for attribute in used:
            if isinstance(attribute.of, Atom):
                self.name_of(attribute.of)

    def text(self) -> str:
        for part in self.parts:
            if not self.pattern(part):
                self.waiting.append(part)
            self.release()
        if self.waiting or not self.clauses:
            _refuse("a condition on nodes that no pattern names")
        self.close()
        return f"{' '.join(self.clauses)} RETURN {self.returned()}{self.ending()}"

    # --- patterns -----------------------------------------------------------------------------------------------------

    def match(self, pattern: str, *nodes: Term) -> bool:
        self.close()
        self.clauses.append(f"MATCH {pattern}")
        self.known.update(nodes)
        return True

    def close(self) -> None:
        """Write the conditions that belong to the last MATCH."""
        if self.tests:
            self.clauses.append(f"WHERE {' AND '.join(self.tests)}")
            self.tests = []

    def release(self) -> None:
        """Conditions whose nodes are known by now."""
        if not self.clauses:
            return
        later = []
        for part in self.waiting:
            if all(isinstance(term, Constant) or term in self.known for term in terms(part)):
                self.tests.append(self.condition(part, inside=True))
            else:
                later.append(part)
        self.waiting = later

    def pattern(self, part: Formula) -> bool:
        """Write a part as a pattern, if it is one."""
        match part:
            case Atom(Name(text, "name"), head, Constant(Name(label, "name"))) if text == TYPE:
                if not isinstance(head, Constant):
                    return self.match(f"({_quoted(head.name)}:{_quoted(label)})", head)
            case Atom(Name(text, "name"), Free() | Exists() as head, Exists(hidden) as tail) if text == TYPE:
                alone = self.uses[tail] == 1 and hidden.startswith("_")
                if alone and not any(self.binds(other, head) for other in self.parts if other is not part):
                    return self.match(f"({_quoted(head.name)})", head)
        match part:
            case Atom():
                about = self.relation(part.relation)
                return self.match(self.path(part, about, "->"), *self.ends(part.head, part.tail))
            case Or(parts):
                return self.choice(parts)
            case Different(Constant(Name(_, "variable") as relation), Constant(Name(text))) if text == TYPE:
                return any(isinstance(a, Atom) and a.relation == relation for part in self.parts for a in atoms(part))
            case Among(Constant(Name(_, "variable") as relation), _, False):
                return self.listed(relation) is part
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
                shown = "|".join(_quoted(label.text) for label in labels)
                return self.match(f"({_quoted(first.head.name)}:{shown})", first.head)
        about = ":" + "|".join(_quoted(name.text) for name in relations)
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
        return f"({self.node(fact.head)})-[{_quoted(name) if name else ''}{about}]{arrow}({self.node(fact.tail)})"

    def relation(self, relation: Name) -> str:
        if relation.kind == "id":
            _refuse("numbers of relations")
        if relation.kind != "variable":
            return f":{_quoted(relation.text)}"
        if sum(relation in {a.relation for a in atoms(part) if isinstance(a, Atom)} for part in self.parts) > 1:
            _refuse("one variable for the relations of several facts")
        if types := self.listed(relation):
            shown = [_quoted(name.text) for name in types.choices if isinstance(name, Name)]
            return f"{_quoted(relation.text)}:{'|'.join(shown)}"
        link = Different(Constant(relation), Constant(Name(TYPE)))
        if link not in self.parts:
            _refuse("a variable that may stand for the type relation or for attributes")
        return _quoted(relation.text)

    def listed(self, relation: Name) -> Among | None:
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
            return _quoted(term.name)
        if term.name not in self.constants:
            self.constants[term.name] = self.fresh()
            self.waiting.append(Same(Exists(self.constants[term.name]), Constant(term.name)))
        self.known.add(Exists(self.constants[term.name]))
        return self.constants[term.name]

    def fresh(self) -> str:
        number = 1
        while f"_{number}" in self.taken:
            number += 1
        self.taken.add(f"_{number}")
        return f"_{number}"

    def name_of(self, fact: Atom) -> str:
        if fact.relation.kind == "variable":
            return fact.relation.text
        if fact not in self.named:
            if fact not in self.parts:
                _refuse("properties of a fact that is one of several")
            self.named[fact] = self.fresh()
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
                return f"{_quoted(head.name)}:{_quoted(label)}"
            case Atom(relation, head, tail):
                if isinstance(head, Constant) or isinstance(tail, Constant) or relation.kind != "name":
                    _refuse("named entities in an alternative or a negation")
                return self.path(part, f":{_quoted(relation.text)}", "->")
            case Same(left, right) | Different(left, right):
                return self.identity(left, right, "=" if isinstance(part, Same) else "<>")
            case Compare():
                return f"{'NOT ' if part.negated else ''}{self.comparison(part)}"
            case Among(item, choices, negated):
                listed = ", ".join(_entity(each) if isinstance(each, Name) else _value(each) for each in choices)
                return f"{'NOT ' if negated else ''}{self.side(item)} IN [{listed}]"
            case Has(attribute, negated):
                return f"{self.side(attribute)} IS {'' if negated else 'NOT '}NULL"

    def identity(self, left: Term, right: Term, sign: str) -> str:
        if isinstance(left, Constant) and left.name.kind != "variable":
            left, right = right, left
        if isinstance(right, Constant):
            other = f"type({_quoted(right.name.text)})" if right.name.kind == "variable" else _entity(right.name)
            return f"{self.side(left)} {sign} {other}"
        if isinstance(left, Constant):
            _refuse("an entity that is compared with a relation")
        return f"{_quoted(left.name)} {sign} {_quoted(right.name)}"

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
                return f"type({_quoted(text)})"
            case Constant():
                return _refuse("a named entity in a comparison")
            case _:
                return f"id({_quoted(operand.name)})"

    def attribute(self, attribute: Attribute) -> str:
        of, name = attribute.of, attribute.name
        if name.kind != "name":
            _refuse("labels of properties")
        if isinstance(of, Constant):
            _refuse("properties of named entities")
        return f"{_quoted(self.name_of(of) if isinstance(of, Atom) else of.name)}.{_quoted(name.text)}"

    # --- RETURN -------------------------------------------------------------------------------------------------------

    def returned(self) -> str:
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
            text = f"count(DISTINCT {_quoted(query.free[0].name)})" if alone else "count(*)"
            return text if query.counted == text else f"{text} AS {_quoted(query.counted or 'count')}"
        columns = query.shown or tuple(Column(variable.name, variable) for variable in query.free)
        return ", ".join(self.column(column) for column in columns)

    def column(self, column: Column) -> str:
        match column.what:
            case Free(name):
                text = _quoted(name)
            case Attribute() as attribute:
                text = self.side(attribute)
            case Name(name, "variable"):
                text = _quoted(name)
            case _:
                _refuse("a relation as a value")
        return text if column.name == text else f"{text} AS {_quoted(column.name)}"

    def ending(self) -> str:
        query = self.query
        columns = {column.name for column in query.shown} or {variable.name for variable in query.free}
        if any(isinstance(key.by, str) and key.by not in (TRUTH, *columns) for key in query.order):
            _refuse("an order by what is not returned")
        keys = [
            (_quoted(key.by) if isinstance(key.by, str) else self.side(key.by)) + (" DESC" if key.descending else "")
            for key in query.order
        ]
        text = f" ORDER BY {', '.join(keys)}" if keys else ""
        text += f" SKIP {query.offset}" if query.offset else ""
        return text + ("" if query.limit is None else f" LIMIT {query.limit}")


def _all_attributes(parts: Iterable[Formula]) -> list[Attribute]:
    found: list[object] = []
    for part in parts:
        for atom in atoms(part):
            match atom:
                case Compare(_, left, right):
                    found += [left, right]
                case Among(item):
                    found.append(item)
                case Has(attribute):
                    found.append(attribute)
    return [item for item in found if isinstance(item, Attribute)]


def _keys(query: Query) -> list[Attribute]:
    return [key.by for key in query.order if isinstance(key.by, Attribute)]


def _quoted(name: str) -> str:
    """A name as Cypher reads it.

    >>> _quoted("x"), _quoted("has part"), _quoted("in")
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
    return _text(name.text)


def _text(text: str) -> str:
    return "'" + "".join(_ESCAPES.get(c, c) for c in text) + "'"


def _value(value: Value) -> str:
    if value.language:
        _refuse("language tags")
    match value.value:
        case bool():
            return "true" if value.value else "false"
        case str():
            return _text(value.value)
        case datetime.datetime():
            return f"datetime('{value.value.isoformat()}')"
        case datetime.date():
            return f"date('{value.value.isoformat()}')"
        case _:
            return repr(value.value)


def _refuse(what: str) -> NoReturn:
    raise Refused(f"Cypher has no words for {what}")
