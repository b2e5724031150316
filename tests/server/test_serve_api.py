"""The HTTP API on a real server: the same answers as the command line, in every form."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from tuplet.query.limits import Limits
from tuplet.server.models import AnswersBody

SHARED = (
    "?country, ?organisation : exists ?neighbour . located_in(?country, western_africa) & borders(?country, ?neighbour)"
    " & member_of(?neighbour, ?organisation) & member_of(?country, ?organisation)"
)


def ask(client: httpx.Client, **body: object) -> dict:  # type: ignore[type-arg]
    response = client.post("/ask", json=body)
    assert response.status_code == 200, response.text
    return response.json()  # type: ignore[no-any-return]


def test_ask_gives_what_the_command_line_gives(client: httpx.Client, store_path: Path) -> None:
    served = ask(client, query=SHARED, k=7)
    command = [sys.executable, "-m", "tuplet", "ask", str(store_path), SHARED, "-k", "7", "--json"]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert served.keys() == printed.keys()
    same = ("query", "variables", "engine", "k", "exact", "bound", "pruned", "answers")
    assert {key: served[key] for key in same} == {key: printed[key] for key in same}
    assert len(served["answers"]) == 7


def test_every_field_of_limits_is_described(client: httpx.Client) -> None:
    description = client.get("/openapi.json").json()["components"]["schemas"]["AskRequest"]["properties"]
    for field in fields(Limits):  # what they do: tests/test_parity.py
        assert description[field.name]["description"] == field.metadata["help"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"parameters": {"a": {"x": 1}}},
            "parameters.a: a parameter is text, a number, true, false or a list of these",
        ),
        ({"parameters": {"a": [[1]]}}, "parameters.a: a parameter is text, a number, true, false or a list of these"),
        ({"parameters": {"a": 1}}, "parameters are for Cypher, where $name stands for a value"),
        ({"memory": "2M"}, "memory must be a number of bytes, such as 2147483648 for 2G"),
    ],
)
def test_odd_values_get_one_line(client: httpx.Client, body: dict[str, object], message: str) -> None:
    response = client.post("/ask", json={"query": SHARED, **body})
    assert response.status_code in (400, 422)
    assert response.json()["error"].startswith(message)


def test_parameters_of_a_batch_belong_to_its_queries(client: httpx.Client) -> None:
    response = client.post("/ask", json={"queries": [SHARED], "parameters": {"a": 1}})
    assert (response.status_code, response.json()["kind"]) == (400, "input")


def test_only_served_engines_are_asked(client: httpx.Client) -> None:
    for engine in ("brute", "betae", "tuplet.engines.brute:Brute", "nothing:Here", "exat"):
        for path in ("/ask", "/plan"):
            response = client.post(path, json={"query": SHARED, "engine": engine})
            assert (response.status_code, response.json()["kind"]) == (400, "unknown"), engine
            assert "exact" in response.json()["suggestions"]
    facts = client.post("/ask", json={"query": SHARED, "engine": "exact", "store": "facts"})
    assert facts.json()["suggestions"] == ["crisp"]
    model = client.post("/ask", json={"query": SHARED, "engine": "cqd", "options": {"model": "/etc/passwd"}})
    assert (model.status_code, model.json()["kind"]) == (400, "input")


def test_an_answer_is_what_the_description_says(client: httpx.Client) -> None:
    for query in (SHARED, f"{SHARED} | located_in(?country, europe) & member_of(?country, ?organisation)"):
        served = ask(client, query=query, k=40)
        assert served.keys() == AnswersBody.model_fields.keys() - {"boolean", "count"}
        for answer, read in zip(served["answers"], AnswersBody(**served).answers, strict=True):
            assert read.model_dump() == answer
            assert all(fact["head_label"] for fact in answer["witness"])


def test_limit_of_the_query_counts_and_k_overrides_it(client: httpx.Client) -> None:
    query = "SELECT ?x WHERE { ?x :borders :france } LIMIT 3"
    assert len(ask(client, query=query)["answers"]) == 3
    assert len(ask(client, query=query, k=2)["answers"]) == 2


def test_several_stores_by_name(client: httpx.Client) -> None:
    assert ask(client, query="?x : borders(?x, france)", store="facts")["engine"] == "crisp"
    response = client.post("/ask", json={"query": "?x : borders(?x, france)", "store": "word"})
    assert (response.status_code, response.json()["kind"]) == (404, "store")
    assert "'world'" in response.json()["error"]


def test_a_batch_answers_each_query_or_says_why_not(client: httpx.Client) -> None:
    queries = ["?x : borders(?x, france)", "?x : borders(?x, frnce)", {"query": "?x : borders(?x, spain)", "k": 1}]
    first, second, third = ask(client, queries=queries, k=3)["results"]
    assert len(first["answers"]) == 3
    assert (second["kind"], second["position"], second["suggestions"][0]) == ("unknown", 17, "france")
    assert len(third["answers"]) == 1
    alone = ask(client, query=queries[0], k=3)
    assert alone["answers"] == first["answers"]


def test_a_stream_has_a_head_and_a_line_for_each_answer(client: httpx.Client) -> None:
    query = "?x, ?y : borders(?x, ?y)"
    with client.stream("POST", "/ask", json={"query": query, "k": 400, "format": "ndjson"}) as response:
        assert response.headers["content-type"].startswith("application/x-ndjson")
        head, *lines = [json.loads(line) for line in response.iter_lines()]
    whole = ask(client, query=query, k=400)
    assert lines == whole.pop("answers")
    assert {k: v for k, v in head.items() if k != "elapsed_ms"} == {k: v for k, v in whole.items() if k != "elapsed_ms"}


def test_csv_and_parquet(client: httpx.Client) -> None:
    body = {"query": SHARED, "k": 4}
    csv = client.post("/ask", json={**body, "format": "csv"})
    assert csv.headers["content-type"].startswith("text/csv")
    assert csv.headers["content-disposition"] == 'attachment; filename="answers.csv"'
    assert csv.text.splitlines()[0] == '"country","organisation","country_label","organisation_label","truth","status"'
    table = pq.read_table(io.BytesIO(client.post("/ask", json={**body, "format": "parquet"}).content))
    assert table.num_rows == 4
    assert "tuplet-pruned" not in csv.headers
    stopped = {**body, "k": 400, "work": 1}
    assert (
        client.post("/ask", json={**stopped, "format": "csv"}).headers["tuplet-pruned"]
        == ask(client, **stopped)["pruned"]
    )
    assert table.to_pylist()[0]["country"] == ask(client, **body)["answers"][0]["values"]["country"]


def test_explain_finds_the_witness_of_a_given_tuple(client: httpx.Client) -> None:
    for store in ("world", "facts"):
        answer = ask(client, query=SHARED, k=3, store=store)["answers"][2]
        told = client.post("/explain", json={"query": SHARED, "values": answer["values"], "store": store}).json()
        assert told["status"] == answer["status"]
        assert told["truth"] == pytest.approx(answer["truth"])
        assert [f["relation"] for f in told["witness"]] == [f["relation"] for f in answer["witness"]]
        assert told["text"].startswith("country = ")
    wrong = client.post("/explain", json={"query": SHARED, "values": {"country": "benin"}})
    assert (wrong.status_code, wrong.json()["kind"]) == (400, "input")


def test_plan(client: httpx.Client) -> None:
    told = client.post("/plan", json={"query": SHARED}).json()
    assert told["engine"] == "exact"
    assert "clauses 1 (cyclic)" in told["plan"]


def test_schema_lists_relations_engines_examples(client: httpx.Client) -> None:
    schema = client.get("/schema").json()
    assert schema["stores"] == ["world", "facts", "people"]
    assert schema["engines"][0] == "exact"
    assert "brute" not in schema["engines"]
    counts = {relation["name"]: relation["count"] for relation in schema["relations"]}
    assert counts["member_of"] == max(counts.values()) > 500
    assert sum(counts.values()) == schema["facts"]
    assert schema["generation"]["number"] == 1
    assert schema["truth_age"]["make_again"] is False
    for example in schema["examples"]:
        assert ask(client, query=example["query"], k=2)["answers"], example["title"]


def test_entities_by_prefix_label_and_part(client: httpx.Client) -> None:
    def found(text: str) -> list[str]:
        entities = client.get("/schema/entities", params={"search": text, "limit": 5}).json()["entities"]
        return [entity["name"] for entity in entities]

    assert found("fran")[0] == "france"
    assert "cote_d_ivoire" in found("Côte d")
    assert "united_kingdom" in found("kingdom")
    assert found("zzzzzz") == []
    labels = client.post("/schema/labels", json={"names": ["france", "nobody"]}).json()["labels"]
    assert labels == {"france": "France"}


def test_sparql_protocol_in_its_three_forms(client: httpx.Client) -> None:
    query = "SELECT ?x ?y WHERE { ?x :borders ?y . ?y :borders :portugal } LIMIT 5"
    forms = [
        client.get("/sparql", params={"query": query}),
        client.post("/sparql", data={"query": query}),
        client.post("/sparql", content=query, headers={"content-type": "application/sparql-query"}),
    ]
    for response in forms:
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/sparql-results+json"
    first = forms[0].json()
    assert all(form.json() == first for form in forms)
    assert first["head"]["vars"] == ["x", "y", "truth"]
    row = first["results"]["bindings"][0]
    assert row["y"] == {"type": "uri", "value": "spain"}
    assert float(row["truth"]["value"]) == 1.0
    taken = client.get("/sparql", params={"query": "SELECT ?truth WHERE { ?truth :borders :france }"}).json()
    assert taken["head"]["vars"] == ["truth", "truth_"]
    assert len(taken["results"]["bindings"]) >= 8, "all of them, without LIMIT"
    assert client.post("/sparql", content=b"x", headers={"content-type": "text/plain"}).status_code == 415
    assert client.post("/sparql", data={"q": query}).status_code == 400


def test_parse_draws_and_write_writes_back(client: httpx.Client) -> None:
    for query in (SHARED, "?x : borders(?x, france) & !borders(?x, spain) & ?x != italy | borders(?x, peru) limit 4"):
        drawn = client.post("/parse", json={"query": query}).json()
        assert drawn["problem"] is None
        graph = drawn["graph"]
        for language in ("logic", "sparql", "cypher"):
            body = {**graph, "language": language}
            text = client.post("/write", json=body).json()["query"]
            again = client.post("/parse", json={"query": text}).json()
            assert again["language"] == (language if drawn[language] else "logic")
            assert again["logic"] == drawn["logic"]


def test_parse_says_what_is_wrong_and_where(client: httpx.Client) -> None:
    def wrong(query: str) -> dict:  # type: ignore[type-arg]
        return client.post("/parse", json={"query": query}).json()["problem"]  # type: ignore[no-any-return]

    assert (wrong("?x : borders(?x, france")["kind"], wrong("?x : borders(?x, france")["position"]) == ("syntax", 23)
    assert wrong("?x : !borders(?x, france)")["kind"] == "unsafe"
    assert wrong("?x : !borders(?x, france)")["position"] == 0
    assert wrong("?x : bordrs(?x, france)")["suggestions"][0] == "borders"
    assert wrong("SELECT ?x { ?x :borders ?y OPTIONAL { } }")["kind"] == "unsupported"


def test_health_metrics_and_description(client: httpx.Client) -> None:
    assert client.get("/health").json()["status"] == "ok"
    ask(client, query="?x : borders(?x, france)")
    text = client.get("/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    asked, asked_all = (
        'engine="exact",store="world"',
        'tuplet_query_seconds_bucket{engine="exact",le="+Inf",store="world"}',
    )
    assert float(values[f"tuplet_queries_total{{{asked}}}"]) >= 1
    assert values[f"tuplet_query_seconds_count{{{asked}}}"] == values[asked_all]
    assert float(values[f"tuplet_query_seconds_sum{{{asked}}}"]) > 0
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/ask", "/explain", "/plan", "/schema", "/health", "/metrics", "/sparql"} <= paths.keys()


def test_sparql_results_in_the_form_that_the_client_prefers(client: httpx.Client) -> None:
    query = "SELECT ?x WHERE { ?x :borders :france } LIMIT 2"

    def get(accept: str) -> httpx.Response:
        return client.get("/sparql", params={"query": query}, headers={"accept": accept})

    names = [row["x"]["value"] for row in get("application/json").json()["results"]["bindings"]]
    assert len(names) == 2
    lines = get("text/csv").text.split("\r\n")
    assert [lines[0], *(line.split(",")[0] for line in lines[1:3])] == ["x,truth", *names]
    assert get("text/tab-separated-values;q=0.9, image/png").text.splitlines()[1].startswith(f"<{names[0]}>\t")
    xml = get("application/sparql-results+xml, application/json;q=0.5")
    assert xml.headers["content-type"].startswith("application/sparql-results+xml")
    assert f'<binding name="x"><uri>{names[0]}</uri></binding>' in xml.text
    assert get("image/png").status_code == 406
