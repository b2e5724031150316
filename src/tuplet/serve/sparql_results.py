"""The SPARQL protocol: requests in its three forms, answers as SPARQL 1.1 JSON results with a truth variable."""

from __future__ import annotations

from typing import Any

from tuplet.query.answers import Answers

MEDIA_TYPE = "application/sparql-results+json"
_DOUBLE = "http://www.w3.org/2001/XMLSchema#double"


def results(answers: Answers) -> dict[str, Any]:
    """Answers as SPARQL results; entities are `uri` terms whose value is their exact name, as `<name>` is written."""
    truth = free_name("truth", answers.variables)
    bindings = []
    names = answers.graph.entities.names(answers.ranking.tuples.ravel())
    width = len(answers.variables)
    for i, value in enumerate(answers.ranking.truth.tolist()):
        row: dict[str, dict[str, str]] = {
            variable: {"type": "uri", "value": names[i * width + j]} for j, variable in enumerate(answers.variables)
        }
        row[truth] = {"type": "literal", "datatype": _DOUBLE, "value": repr(value)}
        bindings.append(row)
    return {
        "head": {"vars": [*answers.variables, truth]},
        "results": {"bindings": bindings},
        "tuplet": {"exact": answers.exact, "bound": answers.bound, "pruned": answers.pruned},
    }


def free_name(name: str, taken: tuple[str, ...]) -> str:
    """A variable that the query does not use.

    >>> free_name("truth", ("x", "truth"))
    'truth_'
    """
    while name in taken:
        name += "_"
    return name
