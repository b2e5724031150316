"""One door for all query languages: the text shows which one it is.

SELECT … / PREFIX … SELECT …        SPARQL
?x, ?y : …    ask ?x : …            logic text
MATCH … RETURN …                    a subset of openCypher
((r1(s1,f1))&(…)) with a grounding  EFOk-CQA
((3, (4,)), (5, (7, -2)))           BetaE
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from tuplet.errors import BadInput, BudgetExceeded, ParseError, nearest
from tuplet.lang.ast import Query
from tuplet.lang.cypher import parse_cypher
from tuplet.lang.cypher_patterns import Parameters
from tuplet.lang.logic import parse_logic
from tuplet.lang.reader import Token, is_number, tokenize
from tuplet.lang.rewrite import check_size
from tuplet.lang.sparql import SUPPORTED, UNSUPPORTED, parse_sparql
from tuplet.settings import load_class

Grounding: TypeAlias = Mapping[str, str | int]  # of an EFOk-CQA string: its symbols as names or ids

MAX_CHARACTERS = 100_000
_BEGINNINGS = {  # how most queries begin: known without splitting the text twice
    "logic": re.compile(r"\s*[?$]\w"),  # a variable
    "sparql": re.compile(
        r"\s*(?:(?:PREFIX\s+[\w.-]*:|BASE)\s*<[^>]*>\s*)*(?:SELECT\s*(?:DISTINCT\b|[?*(])|ASK\s*\{)", re.IGNORECASE
    ),
    "cypher": re.compile(  # after comments, a clause with which a query of Cypher may begin
        r"(?:\s|//[^\n]*(?![^\n])|/\*(?:[^*]|\*(?!/))*\*/)*(?:(?:(?:OPTIONAL\s+)?MATCH|CREATE|MERGE)\s*(?:\w+\s*=\s*\w*)?"
        r"\(|UNWIND\b|RETURN\b|WITH\b(?!\s*<)[^{]*\bAS\b)",
        re.IGNORECASE | re.DOTALL,
    ),
}
_SQL = re.compile(r"\s*(SELECT)\b[^?{}:<]*\bFROM\b\s+(?![<:])[^?{}]*$", re.IGNORECASE)
_DOTTED = re.compile(r"([?$]\w+)\.([^\W\d]\w*)")
EXAMPLE = "?x : treats(?x, asthma) or SELECT ?x WHERE { ?x :treats :asthma }"


def parse(
    text: str,
    grounding: Grounding | None = None,
    prefixes: Mapping[str, str] | None = None,
    parameters: Parameters | None = None,
    example: Callable[[], str] = lambda: EXAMPLE,
) -> Query:
    """Parse a query in any of the languages; a grounding belongs to EFOk-CQA strings, `parameters` to Cypher.

    `prefixes` are known without being declared, as those of the file a graph came from. `example` is shown to those who
    write something else.

    >>> parse("SELECT ?x { ?x :treats :asthma }") == parse("?x : treats(?x, asthma)")
    True
    >>> parse("MATCH (x)-[:treats]->(y) RETURN x") == parse("?x : exists ?y . treats(?x, ?y)")
    True
    """
    if len(text) > MAX_CHARACTERS:
        raise BudgetExceeded(
            f"query too large: {len(text):,} characters, at most {MAX_CHARACTERS:,}", limit="characters"
        )
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput("the query is not valid Unicode text")
    known = "efok" if grounding is not None else _from_beginning(text)
    if known != "efok" and (sql := _SQL.match(text)):
        message = f"this is SQL, which is not read here; write for example {example()}"
        raise ParseError(message, text, sql.start(1), len(sql[1]))
    if not known:
        tokens = tokenize(text)
        if _is_prose(tokens):
            message = f"this is not a query; write for example {example()}"
            raise ParseError(message, text, tokens[0].position, len(tokens[0].text))
        known = _from_tokens(tokens)
    match known:
        case "logic":
            query = parse_logic(text, prefixes)
        case "sparql":
            query = _parse_sparql(text, prefixes)
        case "cypher":
            query = parse_cypher(text, parameters)
        case _:  # the notation of a benchmark; its parser is registered by name
            query = load_class("languages", known)(text, *([] if grounding is None else [grounding]))
    if parameters and known != "cypher":
        raise BadInput("parameters are for Cypher, where $name stands for a value; this query is no Cypher text")
    check_size(query)
    return query


def language(text: str) -> str:
    """Which language a text is written in: `sparql`, `logic`, `cypher`, `efok` or `betae`.

    >>> [language(t) for t in ("select ?x {}", "?x : r(?x, a)", "(r1(s1,f))&(r2(e1,f))", "(3, (4,))")]
    ['sparql', 'logic', 'efok', 'betae']
    >>> language("MATCH (x) RETURN x")
    'cypher'
    """
    return _from_beginning(text) or _from_tokens(tokenize(text))


def _from_beginning(text: str) -> str:
    for name, pattern in _BEGINNINGS.items():
        if pattern.match(text):
            return name
    return ""


def _parse_sparql(text: str, prefixes: Mapping[str, str] | None) -> Query:
    """SPARQL; where it does not parse because of `?x.year`, that is said."""
    try:
        return parse_sparql(text, prefixes)
    except ParseError:
        for dotted in _DOTTED.finditer(text):
            whole, variable, word = dotted.group(), dotted[1], dotted[2]
            if word.upper() not in (*SUPPORTED, *UNSUPPORTED):
                message = (
                    f"{whole} is how logic text writes an attribute; in SPARQL it is a pattern, {variable} :{word} ?"
                )
                raise ParseError(f"{message}{word}", text, dotted.start(), len(whole)) from None
        raise


def _is_prose(tokens: list[Token]) -> bool:
    """Whether the text is words in a row: a question to a person, not a query."""
    first, second = tokens[0], tokens[min(1, len(tokens) - 1)]
    known = (*SUPPORTED, *UNSUPPORTED)
    if first.kind != "word" or second.text in ("(", ":") or any(token.text == "{" for token in tokens):
        return False
    if _is_form(tokens):
        return False
    return first.text.upper() not in known and not nearest(first.text.upper(), ("SELECT", "PREFIX"))


def _is_form(tokens: list[Token]) -> bool:
    """Whether logic text begins that asks whether or how many: `ask ?x : …`, `count ?x : …`."""
    second = tokens[min(1, len(tokens) - 1)]
    asked = second.kind == "variable" or second.text.startswith(":")
    return tokens[0].text.lower() in ("ask", "count") and asked


def _from_tokens(tokens: list[Token]) -> str:
    start = 0
    while (word := tokens[start].text.upper()) in ("PREFIX", "BASE") and start + 3 < len(tokens):
        start += 3 if word == "PREFIX" else 2  # PREFIX p: <…>, BASE <…>
    first = tokens[start]
    if first.kind == "variable":
        return "logic"
    if _is_form(tokens[start:]):
        return "logic"
    keyword = first.text.upper() in (*SUPPORTED, *UNSUPPORTED)
    if first.text == "{" or (first.kind == "word" and (keyword or tokens[start + 1].text != "(")):
        return "sparql"
    if any(token.kind == "variable" for token in tokens):
        return "logic"
    opened = next((token for token in tokens if token.text != "("), first)
    if first.text == "(" and (is_number(opened.text) or opened.text in ("-", ")")):
        after = tokens[tokens.index(opened) + 1].text
        return "efok" if after == "(" else "betae"
    return "efok" if first.kind == "word" or first.text in ("(", "!") else "logic"


LANGUAGE = """\
A query says which variables it asks for, then what has to hold:
  ?x, ?y : exists ?z . relation(?x, ?z) & other(?z, ?y)
Every variable is asked for (before the colon) or quantified (exists). & and, | or, !atom not, ?x != ?y different, \
?x in {a, b}, ?x.age > 30 an attribute, limit 5. A variable has to occur in an atom without !.
Names are exact: france, <New York> (any characters), "New York" (a label). Find them first; do not guess.
The same in SPARQL: SELECT ?x ?y WHERE { ?x :relation ?z . ?z :other ?y }"""
