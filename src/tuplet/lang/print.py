r"""Queries as text: logic text, SPARQL and Cypher.

Logic text reads back as the same query, SPARQL and Cypher as a query of the same meaning. Names take the simplest form
that reads back: bare (logic) or `:name`, else `<…>`, and if they contain `>` the escaped form `:a\>b`. Logic text
quantifies existential variables once, in front: their scope is the clause of the normal form anyway. In SPARQL an
attribute in a condition becomes a pattern that binds its value, as other engines expect. In Cypher every fact gets a
MATCH of its own, so that reading adds no inequalities: those there are stand in WHERE. What a language has no words
for (say `!(a & b)`) is written in disjunctive normal form, or `Unsupported` and `Refused` say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from tuplet.errors import Unsupported
from tuplet.lang.ast import (
    TEXT_TESTS,
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
    attributes_of,
    terms,
)
from tuplet.lang.logic import RESERVED
from tuplet.lang.reader import UNQUOTED, is_ambiguous, is_number, quote_text, tokenize, write, write_sparql
from tuplet.lang.rewrite import disjunctive_normal_form, new_name, push_negation

_BARE = re.compile(r"/?\w(?:[\w./-]*\w)?")
_LOCAL = re.compile(r"\w(?:[\w-]|\.+(?=[\w-]))*")
_WORD = re.compile(r"\w+")


def to_logic(query: Query) -> str:
    """The query as logic text.

    >>> from tuplet.lang.sparql import parse_sparql
    >>> to_logic(parse_sparql('SELECT ?x { ?x :treats ?z . { ?z :causes :asthma } UNION { ?x :eases "hay fever" } }'))
    '?x : exists ?z . treats(?x, ?z) & (causes(?z, asthma) | eases(?x, "hay fever"))'
    """
    head, columns = split_columns(query)
    show = f" show {', '.join(map(column_to_logic, columns))}" if columns else ""
    form = "" if query.form == "select" else f"{query.form} "
    counted = f" as {write_title(query.counted)}" if query.counted else ""
    existential = [name for name in _existential(query.body) if name not in head]
    quantifier = f"exists {', '.join(f'?{name}' for name in existential)} . " if existential else ""
    order = f" order by {', '.join(map(order_to_logic, query.order))}" if query.order else ""
    limit = "" if query.limit is None else f" limit {query.limit}"
    offset = f" offset {query.offset}" if query.offset else ""
    asked = ", ".join(f"?{name}" for name in head)
    body = formula_to_logic(query.body)
    return f"{form}{asked}{counted}{' ' if asked else ''}: {quantifier}{body}{show}{order}{limit}{offset}"


def split_columns(query: Query) -> tuple[list[str], tuple[Column, ...]]:
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
    return what + " optional" * column.optional + (f" as {write_title(column.name)}" if column.name != default else "")


def order_to_logic(order: Order) -> str:
    """A key as `order by` has it."""
    by = _attribute(order.by) if isinstance(order.by, Attribute) else write_title(order.by)
    return by + " desc" * order.descending


def write_title(name: str) -> str:
    """The name of a column, in quotes where it is no word."""
    return name if _WORD.fullmatch(name) else quote_text(name)


def _existential(formula: Formula) -> list[str]:
    """The names of the variables that only have to exist, or stand for relations, in the order of appearance."""
    found: dict[str, None] = {}
    for atom in atoms(formula):
        if isinstance(atom, Atom) and atom.relation.kind == "variable":
            found.setdefault(atom.relation.text)
        found.update((term.name, None) for term in terms(atom) if isinstance(term, Exists))
    return list(found)


def formula_to_logic(formula: Formula) -> str:
    """A formula as logic text, its variables taken as given."""
    match formula:
        case Atom(relation, head, tail):
            return f"{_word(relation)}({_logic_term(head)}, {_logic_term(tail)})"
        case Different(left, right):
            return f"{_write_compared(left)} != {_write_compared(right)}"
        case Same(left, right):
            return f"{_write_compared(left)} = {_write_compared(right)}"
        case Compare(negated=True) | Has(negated=True):
            return f"!{_enclose(replace(formula, negated=False))}"
        case Compare(operator, left, right):
            return f"{_side(left, formula)} {operator} {_side(right, formula)}"
        case Among(_, choices, negated):
            listed = (write(c) if isinstance(c, Value) else _write_compared(Constant(c)) for c in choices)
            return f"{_item(formula)} {'not ' * negated}in {{{', '.join(listed)}}}"
        case Has(attribute, _, value):
            return f"has({_attribute(attribute)}{'' if value is None else f', {write(value)}'})"
        case Not(Atom() as atom):
            return f"!{formula_to_logic(atom)}"
        case Not(body):
            return f"!({formula_to_logic(body)})"
        case And(parts):
            return " & ".join(_bracket(part, (And, Or)) for part in parts)
        case Or(parts):
            return " | ".join(_bracket(part, (Or,)) for part in parts)


def _enclose(formula: Formula) -> str:
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
            return _write_compared(operand)
        case _:
            return f"str({_logic_term(operand)})" if equality and not clear else _logic_term(operand)


def _item(among: Among) -> str:
    if isinstance(among.item, Attribute):
        return _attribute(among.item)
    values = [choice for choice in among.choices if isinstance(choice, Value)]
    named = isinstance(among.item, Constant) and among.item.name.kind in ("label", "number")
    if values and (named or all(map(is_ambiguous, values))):
        return f"str({_logic_term(among.item)})"
    return _write_compared(among.item)


def _write_compared(term: Term) -> str:
    """A term in a comparison, where a bare `true` or `1990-01-01` would be a value."""
    text = _logic_term(term)
    return f":{text}" if UNQUOTED.fullmatch(text) and not text.isdigit() else text


def _attribute(attribute: Attribute) -> str:
    match attribute.of:
        case Atom() as fact:
            of = formula_to_logic(fact)
        case Constant(name):
            # a dot inside a word is part of it
            of = f"<{name.text}>" if _plain(name) else f"{write_word(name)} "
            of = quote_text(name.text) if name.kind == "label" else of
        case variable:
            of = _logic_term(variable)
    return f"{of}.{_word(attribute.name)}" + (f"[{attribute.variable}]" if attribute.variable else "")


def _bracket(formula: Formula, inside: tuple[type[And] | type[Or], ...]) -> str:
    text = formula_to_logic(formula)
    return f"({text})" if isinstance(formula, inside) else text


# --- names -------------------------------------------------------------------------------------------------------


def write_name(name: str) -> str:
    """An exact name as logic text reads it: bare if that is enough.

    >>> write_name("asthma"), write_name("hay fever"), write_name("007")
    ('asthma', '<hay fever>', '007')
    """
    return _word(Name(name))


def shorten_names(text: str, short: Callable[[str], str]) -> str:
    """Logic text or SPARQL in which names in angle brackets have their short form, if they have one.

    >>> shorten_names("<http://a.b/knows>(?x, <x y>)", lambda name: name.replace("http://a.b/", "ab:"))
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
    return write_word(term.name) if isinstance(term, Constant) else f"?{term.name}"


def _word(name: Name) -> str:
    """A name where no value can stand."""
    return name.text if name.kind == "name" and is_number(name.text) else write_word(name)


def write_word(name: Name) -> str:
    """A name as logic reads it, without signs around it where that will do."""
    plain = name.kind == "name" and _BARE.fullmatch(name.text) and not is_number(name.text)
    return name.text if plain and name.text.lower() not in RESERVED else prefix_name(name)


def prefix_name(name: Name) -> str:
    """A name as both languages read it.

    >>> [prefix_name(Name(text)) for text in ("asthma", "hay fever", "a>b")], prefix_name(Name('a "b"', "label"))
    ([':asthma', '<hay fever>', ':a\\\\>b'], '"a \\\\"b\\\\""')
    """
    if name.kind == "number":
        return name.text
    if name.kind == "id":
        return f"@{name.text}"
    if name.kind == "variable":
        return f"?{name.text}"
    if name.kind == "label":
        return quote_text(name.text)
    if _LOCAL.fullmatch(name.text):
        return f":{name.text}"
    if _plain(name):
        return f"<{name.text}>"
    return ":" + re.sub(r"([^\w])", r"\\\1", name.text)


def _plain(name: Name) -> bool:
    """Whether a name can stand in angle brackets."""
    return name.kind == "name" and ">" not in name.text and not re.match(r"[\s=]", name.text)


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
        self.taken = {*_existential(query.body), *(t.name for t in terms(query.body) if isinstance(t, Free))}
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
                name = column.name if _WORD.fullmatch(column.name) else "value"
                self.variables[column.what] = new_name(name, self.taken)
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
                return f"{_term(head)} {prefix_name(relation)} {_term(tail)} ."
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
                    f"GRAPH {prefix_name(graphs[part])} {{ {self.patterns(part).removesuffix(' .')} }}"
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
        return f"{_term(attribute.of)} {prefix_name(attribute.name)} {value or '?' + self.variable(attribute)}"

    def variable(self, attribute: Attribute) -> str:
        if attribute not in self.variables:
            local = re.sub(r"\W+", "_", re.split(r"[#/:]", attribute.name.text)[-1]).strip("_")
            self.variables[attribute] = new_name(attribute.variable or local or "value", self.taken)
        return self.variables[attribute]

    # --- filters -----------------------------------------------------------------------------------------------------

    def expression(self, condition: Formula) -> str:
        match condition:
            case And(parts):
                return " && ".join(map(self.enclose, parts))
            case Or(parts):
                return " || ".join(map(self.enclose, parts))
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

    def enclose(self, part: Formula) -> str:
        return f"({self.expression(part)})" if isinstance(part, Or) else self.expression(part)

    def comparison(self, compare: Compare) -> str:
        left, right = compare.left, compare.right
        if compare.operator == "language":
            return f"LANG({self.operand(left)}) = {self.operand(right)}"
        if compare.operator == "matches":
            flags = re.match(r"\(\?([ims]+)\)", str(right.value)) if isinstance(right, Value) else None
            if flags:
                assert isinstance(right, Value)
                pattern = quote_text(str(right.value)[flags.end() :])
                return f'regex({self.operand(left)}, {pattern}, "{flags.group(1)}")'
        if compare.operator in TEXT_TESTS:
            return f"{TEXT_TESTS[compare.operator].sparql}({self.operand(left)}, {self.operand(right)})"
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
    return prefix_name(term.name) if isinstance(term, Constant) else f"?{term.name}"


def _sparql_choice(choice: Name | Value) -> str:
    return write_sparql(choice) if isinstance(choice, Value) else prefix_name(choice)


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
    if isinstance(literal, Has) and (literal.negated or literal.value is not None):
        return []
    return list(attributes_of(literal))


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
