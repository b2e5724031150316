"""One door for all query languages: the text shows which one it is.

SELECT … / PREFIX … SELECT …        SPARQL
?x, ?y : …                          logic text
((r1(s1,f1))&(…)) with a grounding  EFOk-CQA
((3, (4,)), (5, (7, -2)))           BetaE
"""

from __future__ import annotations

import re

from tuplet.errors import BadInput, BudgetExceeded
from tuplet.lang.ast import Query
from tuplet.lang.benchmark_forms import Grounding, parse_betae, parse_efok
from tuplet.lang.logic_text import parse_logic
from tuplet.lang.rules import check_size
from tuplet.lang.sparql import SUPPORTED, UNSUPPORTED, parse_sparql
from tuplet.lang.tokens import Token, is_number, tokenize

MAX_CHARACTERS = 100_000
_LOGIC = re.compile(r"\s*[?$]\w")  # a variable comes first


def parse(text: str, grounding: Grounding | None = None) -> Query:
    """Parse a query in any of the languages; a grounding belongs to EFOk-CQA strings.

    >>> parse("SELECT ?x { ?x :treats :asthma }") == parse("?x : treats(?x, asthma)")
    True
    """
    if len(text) > MAX_CHARACTERS:
        raise BudgetExceeded(
            f"query too large: {len(text):,} characters, at most {MAX_CHARACTERS:,}", limit="characters"
        )
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput("the query is not valid Unicode text")
    query = _parse(text, grounding)
    check_size(query)
    return query


def language(text: str) -> str:
    """Which language a text is written in: `sparql`, `logic`, `efok` or `betae`.

    >>> [language(t) for t in ("select ?x {}", "?x : r(?x, a)", "(r1(s1,f))&(r2(e1,f))", "(3, (4,))")]
    ['sparql', 'logic', 'efok', 'betae']
    """
    return _language(tokenize(text))


def _parse(text: str, grounding: Grounding | None) -> Query:
    if grounding is not None:
        return parse_efok(text, grounding)
    if _LOGIC.match(text):  # most queries: told without splitting the text twice
        return parse_logic(text)
    match language(text):
        case "sparql":
            return parse_sparql(text)
        case "efok":
            return parse_efok(text)
        case "betae":
            return parse_betae(text)
        case _:
            return parse_logic(text)


def _language(tokens: list[Token]) -> str:
    start = 0
    while tokens[start].text.upper() == "PREFIX" and start + 3 < len(tokens):  # PREFIX p: <…>
        start += 3
    first = tokens[start]
    if first.kind == "variable":
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
