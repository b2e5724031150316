"""`Query` → text that reads back as the same query, in logic text and in SPARQL.

Names take the simplest form that reads back: bare (logic) or `:name`, else `<…>`, and if they contain `>` the escaped
form `:a\\>b`. Existential variables are quantified once, in front: their scope is the clause of the normal form anyway.
"""

from __future__ import annotations

import re

from tuplet.lang.ast import And, Atom, Constant, Different, Exists, Formula, Name, Not, Or, Query, Term, terms
from tuplet.lang.logic_text import RESERVED
from tuplet.lang.rules import disjunctive_normal_form, push_negation

_BARE = re.compile(r"/?\w(?:[\w./-]*\w)?")
_LOCAL = re.compile(r"\w(?:[\w-]|\.+(?=[\w-]))*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def to_logic(query: Query) -> str:
    """The query as logic text.

    >>> from tuplet.lang.sparql import parse_sparql
    >>> to_logic(parse_sparql('SELECT ?x { ?x :treats ?z . { ?z :causes :asthma } UNION { ?x :eases "hay fever" } }'))
    '?x : exists ?z . treats(?x, ?z) & (causes(?z, asthma) | eases(?x, "hay fever"))'
    """
    head = ", ".join(f"?{variable.name}" for variable in query.free)
    existential = dict.fromkeys(term.name for term in terms(query.body) if isinstance(term, Exists))
    quantifier = f"exists {', '.join(f'?{name}' for name in existential)} . " if existential else ""
    limit = "" if query.limit is None else f" limit {query.limit}"
    return f"{head} : {quantifier}{formula_to_logic(query.body)}{limit}"


def formula_to_logic(formula: Formula) -> str:
    """A formula as logic text, its variables taken as given."""
    match formula:
        case Atom(relation, head, tail):
            return f"{_bare(relation)}({_logic_term(head)}, {_logic_term(tail)})"
        case Different(left, right):
            return f"{_logic_term(left)} != {_logic_term(right)}"
        case Not(Atom() as atom):
            return f"!{formula_to_logic(atom)}"
        case Not(body):
            return f"!({formula_to_logic(body)})"
        case And(parts):
            return " & ".join(_bracketed(part, (And, Or)) for part in parts)
        case Or(parts):
            return " | ".join(_bracketed(part, (Or,)) for part in parts)
        case _:
            raise NotImplementedError(formula)


def _bracketed(formula: Formula, inside: tuple[type[And] | type[Or], ...]) -> str:
    text = formula_to_logic(formula)
    return f"({text})" if isinstance(formula, inside) else text


def to_sparql(query: Query) -> str:
    """The query as SPARQL; what SPARQL has no words for (say `!(a & b)`) is printed in disjunctive normal form.

    >>> from tuplet.lang.logic_text import parse_logic
    >>> print(to_sparql(parse_logic('?x, ?y : treats(?x, asthma) & !worsens(?x, ?y) & likes(?y, ?x) & ?x != ?y')))
    SELECT ?x ?y WHERE { ?x :treats :asthma . FILTER NOT EXISTS { ?x :worsens ?y } ?y :likes ?x . FILTER(?x != ?y) }
    """
    body = query.body
    if _bound(body) is None:
        body = disjunctive_normal_form(push_negation(query)).body
    head = " ".join(f"?{variable.name}" for variable in query.free)
    limit = "" if query.limit is None else f" LIMIT {query.limit}"
    return f"SELECT {head} WHERE {{ {_patterns(body)} }}{limit}"


def _patterns(formula: Formula) -> str:
    match formula:
        case Atom(relation, head, tail):
            return f"{_sparql_term(head)} {_prefixed(relation)} {_sparql_term(tail)} ."
        case Different(left, right):
            return f"FILTER({_sparql_term(left)} != {_sparql_term(right)})"
        case Not(body):
            return f"FILTER NOT EXISTS {{ {_patterns(body).removesuffix(' .')} }}"
        case And(parts):
            return " ".join(_patterns(part) for part in parts).removesuffix(" .")
        case Or(parts):
            return " UNION ".join(f"{{ {_patterns(part).removesuffix(' .')} }}" for part in parts)
        case _:
            raise NotImplementedError(formula)


def _bound(formula: Formula) -> frozenset[Term] | None:
    """The variables a SPARQL group of this formula binds for sure; None if its filters would not see theirs."""
    match formula:
        case Atom(_, head, tail):
            return frozenset(term for term in (head, tail) if not isinstance(term, Constant))
        case Or(parts):
            branches = [_bound(part) for part in parts]
            return frozenset.intersection(*(b for b in branches if b is not None)) if None not in branches else None
        case And(parts):
            bound: frozenset[Term] = frozenset()
            for part in parts:
                inner = _bound(part) if isinstance(part, Atom | Or) else frozenset()
                if inner is None:
                    return None
                bound |= inner
            filters = [part for part in parts if not isinstance(part, Atom | Or)]
            plain = all(isinstance(f, Different) or (isinstance(f, Not) and isinstance(f.body, Atom)) for f in filters)
            used = {term for f in filters for term in terms(f) if not isinstance(term, Constant)}
            return bound if plain and used <= bound else None
        case _:
            return None


# --- names -------------------------------------------------------------------------------------------------------


def written(name: str) -> str:
    """An exact name as logic text reads it: bare if that is enough.

    >>> written("asthma"), written("hay fever"), written("17")
    ('asthma', '<hay fever>', ':17')
    """
    return _bare(Name(name))


def _logic_term(term: Term) -> str:
    return _bare(term.name) if isinstance(term, Constant) else f"?{term.name}"


def _sparql_term(term: Term) -> str:
    return _prefixed(term.name) if isinstance(term, Constant) else f"?{term.name}"


def _bare(name: Name) -> str:
    plain = name.kind == "name" and _BARE.fullmatch(name.text) and not name.text.isdigit()
    return name.text if plain and name.text.lower() not in RESERVED else _prefixed(name)


def _prefixed(name: Name) -> str:
    """A name as both languages read it.

    >>> [_prefixed(Name(text)) for text in ("asthma", "hay fever", "a>b")], _prefixed(Name('a "b"', "label"))
    ([':asthma', '<hay fever>', ':a\\\\>b'], '"a \\\\"b\\\\""')
    """
    if name.kind == "id":
        return name.text
    if name.kind == "label":
        return '"' + "".join(_ESCAPES.get(c, c) for c in name.text) + '"'
    if _LOCAL.fullmatch(name.text):
        return f":{name.text}"
    if ">" not in name.text:
        return f"<{name.text}>"
    return ":" + re.sub(r"([^\w])", r"\\\1", name.text)
