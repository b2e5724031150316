"""The description of the server (OpenAPI 3.1), made from the table of operations and their models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from tuplet._version import __version__
from tuplet.lang.parse import LANGUAGE
from tuplet.server.http import JSON, TABLES, TAGGED, Operation
from tuplet.server.models import ErrorBody

REFERENCE = "#/components/schemas/{model}"
ERRORS: Mapping[int, str] = {
    400: "The query or the input is wrong; says where.",
    401: "An API key is needed.",
    403: "Not from this host, or not with this key.",
    404: "No such store.",
    408: "The request did not arrive in time.",
    413: "The request is too large.",
    415: "The type of the body is another one.",
    422: "A key or a limit of the request.",
    429: "Too many queries at once; try again.",
    431: "The head of the request is too large.",
}


def describe(operations: Iterable[Operation]) -> dict[str, Any]:
    shown = [operation for operation in operations if operation.described]
    schemas, models = _make_schemas(shown)
    paths: dict[str, dict[str, Any]] = {}
    for operation in shown:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tuplet",
            "version": __version__,
            "description": "Ask incomplete knowledge graphs for tuples, jointly ranked, with reasons.",
        },
        "paths": paths,
        "components": {
            "schemas": models,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "An API key."}},
        },
    }


def _describe(operation: Operation, schemas: Mapping[str, Any]) -> dict[str, Any]:
    given = {
        media.split(";")[0]: {"schema": kind if isinstance(kind, Mapping) else schemas[repr(kind)]}
        for media, kind in operation.gives.items()
    }
    answers: dict[str, Any] = {"200": {"description": "The answer.", "content": given}}
    error = {JSON: {"schema": schemas[repr(ErrorBody)]}}
    unchanged = (304,) if operation.path in TAGGED else ()
    for status in sorted({*ERRORS, *operation.statuses, *unchanged}):
        answers[str(status)] = {"description": ERRORS.get(status, HTTPStatus(status).phrase)}
        if status >= 400:
            answers[str(status)]["content"] = error
    described: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary, "responses": answers}
    if operation.takes is not None and "query" in operation.takes.model_fields:
        described["description"] = f"{operation.summary}. Queries are logic text, SPARQL or Cypher.\n\n{LANGUAGE}"
    if operation.access != "open":
        described["security"] = [{"key": []}, {}]  # without keys the server answers its own machine
    if operation.takes is not None and operation.method == "GET":
        described["parameters"] = _parameters(operation.takes)
    elif operation.takes is not None:
        content: dict[str, Any] = {JSON: {"schema": schemas[repr(operation.takes)]}}
        if operation.tables is not None:
            content |= {media: {"schema": {"type": "string"}} for media in TABLES}
            described["parameters"] = _parameters(operation.tables)
        described["requestBody"] = {"required": True, "content": content}
    return described | dict(operation.extra)


def _parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    schema = model.model_json_schema()
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": kind}
        for name, kind in schema.get("properties", {}).items()
    ]


def _make_schemas(operations: Iterable[Operation]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of each kind by its `repr`, and those of all models by name."""
    kinds: list[tuple[Any, JsonSchemaMode]] = [(ErrorBody, "serialization")]
    for operation in operations:
        kinds += [(kind, "serialization") for kind in operation.gives.values() if not isinstance(kind, Mapping)]
        if operation.takes is not None and operation.method != "GET":
            kinds.append((operation.takes, "validation"))
    inputs = [(repr(kind), mode, TypeAdapter(kind)) for kind, mode in dict.fromkeys(kinds)]
    made, together = TypeAdapter.json_schemas(inputs, ref_template=REFERENCE)
    return {name: schema for (name, _), schema in made.items()}, together["$defs"]
