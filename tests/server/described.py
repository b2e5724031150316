"""Answers against the description of the server, with nothing left over."""

from __future__ import annotations

from typing import Any

import jsonschema


def operations(description: dict[str, Any]) -> dict[str, tuple[str, str, dict[str, Any]]]:
    found = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            assert operation["operationId"] not in found, "each name once"
            found[operation["operationId"]] = (method, path, operation)
    return found


def closed(schema: Any) -> Any:
    """A schema in which every object has the keys it names and no other."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(part) for key, part in schema.items()}
    if isinstance(made.get("properties"), dict) and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return made


def check(value: Any, schema: dict[str, Any], description: dict[str, Any]) -> None:
    whole = {**closed(schema), "components": closed(description["components"])}
    jsonschema.Draft202012Validator(whole).validate(value)
