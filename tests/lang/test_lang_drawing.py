"""Any query survives being drawn: what cannot be drawn goes with the drawing as text."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, example, given
from lang_trees import all_queries

import tuplet
from repeatable import examples
from tuplet.lang.ast import Query
from tuplet.lang.parse import parse
from tuplet.lang.print import to_logic
from tuplet.query.source import Source
from tuplet.server import models
from tuplet.server.drawing import draw, write
from tuplet.server.limits import ServerLimits

SOURCE = Source(tuplet.read([("a", "r", "b")]))
LIMITS = ServerLimits(max_atoms=256, max_variables=64)


@examples(60)
@given(all_queries())
@example(parse("?x : exists ?z . !(?x != ?x | ?z != @0)"))  # an equality that a negation hides
@example(parse("?x : exists ?z, ?w . r(?x, ?w) & ?z = a & ?w = ?z"))  # one name makes the next plain
@example(parse("?x : exists ?z . r(?x, ?z) & r(?x, a) & ?z = a"))  # a fact that is then stated twice
def test_what_is_drawn_is_written_back_whole(query: Query) -> None:
    drawn = _drawn(to_logic(query))
    asked = {term["name"] for clause in drawn["clauses"] for term in _terms(clause) if term["kind"] == "free"}
    relations = {edge["relation"] for clause in drawn["clauses"] for edge in clause["edges"]}
    assume(drawn["free"] and asked | relations >= set(drawn["free"]))  # what contradicts itself is not drawn
    written = write(models.WriteRequest(**drawn), SOURCE, LIMITS)
    assert _drawn(written) == drawn


def _drawn(text: str) -> dict[str, Any]:
    graph: dict[str, Any] | None = draw(text, SOURCE, LIMITS)["graph"]
    assume(graph is not None)  # too large, or no query
    assert graph is not None
    for clause in graph["clauses"]:
        for edge in clause["edges"]:
            del edge["position"], edge["length"]
    return graph


def _terms(clause: dict[str, Any]) -> list[dict[str, Any]]:
    ends = [edge[end] for edge in clause["edges"] for end in ("head", "tail")]
    return [
        *ends,
        *(term for pair in clause["different"] for term in pair),
        *(term for c in clause["conditions"] for term in c["terms"]),
    ]
