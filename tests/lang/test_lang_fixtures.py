"""Input and expected output of the parser, the rewrite rules and the errors, as text files."""

from __future__ import annotations

import pytest

from text_fixtures import Case, cases
from tuplet.errors import TupletError
from tuplet.lang.ast import Query
from tuplet.lang.parse import parse
from tuplet.lang.print import to_logic
from tuplet.lang.rewrite import clauses, to_normal_form


def named(folder: str) -> list[object]:
    return [pytest.param(case, id=case.name) for case in cases(folder)]


@pytest.mark.parametrize("case", named("parse"))
def test_parses_to(case: Case) -> None:
    query = parse(case.text)
    assert to_logic(query) == case.expected
    assert parse(case.expected) == query


@pytest.mark.parametrize("case", named("rewrite"))
def test_rewrites_to(case: Case) -> None:
    query = parse(case.text)
    parts = to_normal_form(query).body.parts
    shown = "\n".join(to_logic(Query(query.free, part, query.limit)) for part in parts) or "no clause"
    assert shown == case.expected
    assert [clause.literals for clause in clauses(query)] == [part.parts for part in parts]


@pytest.mark.parametrize("case", named("errors"))
def test_is_refused_with(case: Case) -> None:
    with pytest.raises(TupletError) as caught:
        clauses(parse(case.text))
    shown = f"{type(caught.value).__name__}: {caught.value}"
    assert [line.rstrip() for line in shown.split("\n")] == [line.rstrip() for line in case.expected.split("\n")]
