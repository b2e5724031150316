"""Answers as SPARQL 1.1 JSON results with a truth variable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tuplet.query.answers import Answers
from tuplet.query.limits import Deadline
from tuplet.serve.encoding import encode, in_time

MEDIA_TYPE = "application/sparql-results+json"
_DOUBLE = "http://www.w3.org/2001/XMLSchema#double"


def results(answers: Answers, deadline: Deadline) -> bytes:
    """Answers as SPARQL results; entities are `uri` terms whose value is their exact name, as `<name>` is written."""
    variables, truth = answers.variables, free_name("truth", answers.variables)

    def bindings(start: int, stop: int) -> Iterator[dict[str, Any]]:
        tuples, values = answers.ranking.tuples[start:stop], answers.ranking.truth[start:stop]
        names = iter(answers.graph.entities.names(tuples.ravel()))
        for value in values.tolist():
            row = {variable: {"type": "uri", "value": next(names)} for variable in variables}
            row[truth] = {"type": "literal", "datatype": _DOUBLE, "value": repr(value)}
            yield row

    slices, head = in_time(answers, bindings, b",", deadline)
    variables_text = encode({"vars": [*variables, truth]})
    known = encode({key: head[key] for key in ("exact", "bound", "pruned")})
    return b'{"head":%b,"results":{"bindings":[%b]},"tuplet":%b}' % (variables_text, b",".join(slices), known)


def free_name(name: str, taken: tuple[str, ...]) -> str:
    """A variable that the query does not use.

    >>> free_name("truth", ("x", "truth"))
    'truth_'
    """
    while name in taken:
        name += "_"
    return name
