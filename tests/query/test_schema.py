"""The JSON of answers is what query/schema.py declares, whoever asks and whatever is asked."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet
from tuplet.query.schema import AnswersDict, json_schema

QUERIES: dict[str, dict[str, Any]] = {
    "?x, ?y : borders(?x, ?y)": {"evidence": True, "timeout": 60},
    "?x : exists ?y . borders(?x, ?y) & !borders(?y, france)": {"only": "predicted", "offset": 1},
    "SELECT ?x ?n WHERE { ?x :borders :france . OPTIONAL { ?x :population ?n } }": {},
    "ASK { ?x :borders :france }": {"ask_threshold": 0.5},
    "SELECT (COUNT(*) AS ?n) WHERE { ?x :borders ?y }": {},
    "?x : borders(?x, iceland)": {"witness": False},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuplet.Store:
    folder = tmp_path_factory.mktemp("schema")
    facts = [("france", "borders", "spain"), ("spain", "borders", "portugal"), ("italy", "borders", "france")]
    guesses = [("spain", "borders", "france", 0.7), ("portugal", "borders", "iceland", 0.2)]
    columns = dict(zip(("head", "relation", "tail", "truth"), map(list, zip(*guesses, strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "guesses.parquet")
    (folder / "nodes.csv").write_text("id,population\nfrance,68\nitaly,59\niceland,0.4\n")
    graph = tuplet.read([*facts, ("iceland", "likes", "spain")], nodes=folder / "nodes.csv")
    return tuplet.index(graph, None, folder / "s", table=folder / "guesses.parquet", progress=False)


def strict(schema: Any) -> Any:
    """The schema with no key that it does not name."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(part) for key, part in schema.items()}
    return found | {"additionalProperties": False} if "properties" in schema and "required" in schema else found


@pytest.mark.parametrize("query", QUERIES)
def test_answers_have_the_declared_fields_and_no_other(query: str, store: tuplet.Store) -> None:
    schema = strict(json_schema(AnswersDict))
    for engine in ("exact", "crisp"):
        found = json.loads(store.ask(query, engine, **QUERIES[query]).to_json())
        jsonschema.validate(found, schema)
        assert found["about"]["version"] == tuplet.__version__
        assert ("threshold" in found["about"]) == (engine == "exact")


def test_a_field_that_is_not_declared_is_noticed(store: tuplet.Store) -> None:
    found = json.loads(store.ask("?x : borders(?x, france)").to_json())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found | {"more": 1}, strict(json_schema(AnswersDict)))
    del found["bound"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, strict(json_schema(AnswersDict)))
