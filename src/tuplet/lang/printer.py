"""`Query` → logic text that reads back as the same query.

Names take the simplest form that reads back: bare (logic) or `:name`, else `<…>`, and if they contain `>` the escaped
form `:a\\>b`. Existential variables are quantified once, in front: their scope is the clause of the normal form anyway.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tuplet.lang.ast import (
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
from tuplet.lang.logic_formula import RESERVED
from tuplet.lang.tokens import is_number, tokenize
from tuplet.lang.values import UNQUOTED, is_ambiguous, quoted, write

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
