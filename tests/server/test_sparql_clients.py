"""SPARQL clients that people have, as they come: SPARQLWrapper, rdflib's store, Oxigraph, pages of other origins."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pandas
import pyoxigraph
import pytest
import rdflib
from browsing import needs_browser
from rdflib.plugins.stores.sparqlstore import SPARQLStore
from running_server import Server, Start
from SPARQLWrapper import CSV, GET, JSON, POST, POSTDIRECTLY, TSV, URLENCODED, XML, SPARQLWrapper
from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

import tuplet
from tuplet.query.answers import csv_text
from tuplet.query.ask import read_query
from tuplet.query.limits import Deadline
from tuplet.server.sparql_results import BaseIri, results

BASE = "http://example.org/kg/"
ORIGIN = "https://yasgui.example"
FRANCE, BORDERS, SPAIN = (rdflib.URIRef(BASE + name) for name in ("france", "borders", "spain"))
ASKED = "SELECT ?x WHERE { ?x :borders :france } LIMIT 3"
QUERY = f"PREFIX kg: <{BASE}> SELECT ?x WHERE {{ ?x kg:borders kg:france }} LIMIT 3"


# As YASGUI sends them: a form or an address, with its Accept header; then what needs a question before (a preflight).
FETCHES = """async ([endpoint, query]) => {
  const accept = {accept: "application/sparql-results+json,*/*;q=0.9"};
  const form = new URLSearchParams({query});
  const ask = new URLSearchParams({query: "ASK { :spain :borders :france }"});
  const made = [
    [endpoint + "/sparql", {method: "POST", body: form, headers: accept}],
    [endpoint + "/sparql?" + form, {headers: accept}],
    [endpoint + "/sparql", {method: "POST", body: query, headers: {"content-type": "application/sparql-query"}}],
    [endpoint + "/sparql?" + ask, {headers: accept}],
    [endpoint + "/ask", {method: "POST", body: JSON.stringify({query}), headers: {"content-type": "application/json"}}],
    [endpoint + "/sparql", {headers: {accept: "text/turtle"}}],
  ];
  const found = [];
  for (const [address, options] of made) {
    try {
      const answer = await fetch(address, options);
      found.push([answer.status, answer.headers.get("tuplet-bound"), await answer.text()]);
    } catch (error) { found.push([0, null, String(error)]); }
  }
  return found;
}"""


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Another</title>")

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture(scope="module")
def pages() -> Iterator[int]:
    """The port of another site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving.server_port
        serving.shutdown()


@pytest.fixture(scope="module")
def based(start: Start, pages: int, store_path: Path, world_directory: Path, people_path: Path) -> Server:
    """A server whose names are IRIs, and which another origin may ask."""
    stores = (f"facts={world_directory}", f"world={store_path}", f"people={people_path}")
    origins = ("--cors-origin", ORIGIN, "--cors-origin", f"http://127.0.0.1:{pages}")
    return start("--base-iri", BASE, *origins, stores=stores)


@pytest.fixture(scope="module")
def endpoint(based: Server) -> str:
    return f"{based.url}/sparql"


@pytest.fixture(scope="module")
def facts(world_directory: Path) -> set[tuple[str, str, str]]:
    graph = tuplet.open(world_directory).graph
    found = set()
    for split in ("train", "valid"):
        heads, relations, tails = graph.edges(split)
        names = (graph.entities.names(heads), graph.relations.names(relations), graph.entities.names(tails))
        found |= set(zip(*names, strict=True))
    return found


@pytest.mark.parametrize("form", [JSON, XML, CSV, TSV])
def test_sparqlwrapper_in_every_form_and_method(endpoint: str, form: str) -> None:
    found = []
    for method, way in ((GET, URLENCODED), (POST, URLENCODED), (POST, POSTDIRECTLY)):
        wrapper = SPARQLWrapper(endpoint)
        wrapper.setQuery(QUERY)
        wrapper.setMethod(method)
        wrapper.setRequestMethod(way)
        wrapper.setReturnFormat(form)
        made = wrapper.queryAndConvert()
        if form == JSON:
            names = [row["x"]["value"] for row in made["results"]["bindings"]]
        elif form == XML:
            names = [uri.firstChild.data for uri in made.getElementsByTagName("uri")]
        else:
            rows = made.decode().splitlines()[1:]
            names = [row.replace("\t", ",").split(",")[0].strip("<>") for row in rows]
        found.append(names)
    assert found[0] == found[1] == found[2] == [f"{BASE}andorra", f"{BASE}belgium", f"{BASE}germany"]


def test_sparqlwrapper_asks_and_is_told_what_is_refused(endpoint: str) -> None:
    wrapper = SPARQLWrapper(endpoint)
    wrapper.setReturnFormat(JSON)
    wrapper.setQuery(f"ASK {{ <{SPAIN}> <{BORDERS}> <{FRANCE}> }}")
    assert wrapper.queryAndConvert() == {"head": {}, "boolean": True}
    wrapper.setQuery("CONSTRUCT { ?x ?p ?y } WHERE { ?x ?p ?y }")
    with pytest.raises(QueryBadFormed, match="CONSTRUCT is not supported"):
        wrapper.query()
    wrapper.setQuery("INSERT DATA { <a> <b> <c> }")
    wrapper.setMethod(POST)
    with pytest.raises(QueryBadFormed, match="no updates"):
        wrapper.query()


@pytest.mark.parametrize("form", ["xml", "json", "csv", "tsv"])
def test_rdflib_reads_the_endpoint_as_a_graph(endpoint: str, form: str, facts: set[tuple[str, str, str]]) -> None:
    graph = rdflib.Graph(SPARQLStore(endpoint, returnFormat=form))
    wanted = (FRANCE, BORDERS, SPAIN)
    for mask in range(1, 8):
        pattern = tuple(term if mask >> i & 1 else None for i, term in enumerate(wanted))
        found = {tuple(map(str, triple)) for triple in graph.triples(pattern)}  # type: ignore[arg-type]
        right = {
            tuple(BASE + name for name in fact)
            for fact in facts
            if all(term is None or str(term) == BASE + name for term, name in zip(pattern, fact, strict=True))
        }
        assert found == right if len(right) <= 1000 else len(found) == 1000, pattern
    assert wanted in graph
    assert (SPAIN, BORDERS, SPAIN) not in graph
    assert len(graph) == len(facts)
    bound = graph.query(f"SELECT ?x ?y WHERE {{ ?x <{BORDERS}> ?y }}", initBindings={"y": FRANCE})
    assert {str(row[0]) for row in bound} == {BASE + h for h, r, t in facts if (r, t) == ("borders", "france")}
    assert graph.query(f"ASK {{ ?x <{BORDERS}> <{FRANCE}> }}").askAnswer is True


def test_rdflib_pages_and_chooses_a_store(endpoint: str) -> None:
    seen: list[str] = []
    for offset in (0, 3, 6):
        graph: Any = rdflib.Graph(SPARQLStore(endpoint))
        graph.LIMIT, graph.OFFSET = 3, offset
        seen += [str(tail) for _, _, tail in graph.triples((FRANCE, BORDERS, None))]
    assert len(seen) == len(set(seen)) > 6
    people = rdflib.Graph(SPARQLStore(endpoint), identifier=rdflib.URIRef(f"{BASE}people"))
    assert len(people) == 4 + 3 * 3, "facts and values; the store is named as default graph"
    world = rdflib.Graph(SPARQLStore(endpoint), identifier=rdflib.URIRef(f"{BASE}world"))
    only = rdflib.Graph(SPARQLStore(endpoint, params={"store": "world", "only": "observed"}))
    assert 0 < len(list(only.triples((FRANCE, None, None)))) < len(list(world.triples((FRANCE, None, None))))


def test_other_engines_ask_by_service(endpoint: str) -> None:
    query = f"SELECT ?x WHERE {{ SERVICE <{endpoint}> {{ ?x <{BORDERS}> <{FRANCE}> }} }}"
    by_rdflib = sorted(str(row[0]) for row in rdflib.Graph().query(query))  # type: ignore[index]
    solutions: Any = pyoxigraph.Store().query(query)
    assert by_rdflib == sorted(solution["x"].value for solution in solutions)
    assert len(by_rdflib) >= 8


@pytest.fixture
def client(based: Server) -> Iterator[httpx.Client]:
    with based.client() as client:
        yield client


SD = rdflib.Namespace("http://www.w3.org/ns/sparql-service-description#")
VOID = rdflib.Namespace("http://rdfs.org/ns/void#")


def test_the_endpoint_describes_itself(client: httpx.Client, facts: set[tuple[str, str, str]]) -> None:
    forms = {"text/turtle": "turtle", "application/n-triples": "nt", "application/ld+json": "json-ld"}
    forms["application/rdf+xml"] = "xml"
    told = []
    for accept, form in forms.items():
        response = client.get("/sparql", headers={"accept": f"{accept}, text/*;q=0.1"})
        assert response.headers["content-type"] == accept
        told.append(rdflib.Graph().parse(data=response.text, format=form, publicID=str(response.url)))
    for graph in told:
        assert len(graph) == len(told[0])
        endpoint = rdflib.URIRef(f"{client.base_url}/sparql".replace("//sparql", "/sparql"))
        assert graph.value(endpoint, SD.endpoint) == endpoint
        default = graph.value(graph.value(endpoint, SD.defaultDataset), SD.defaultGraph)
        assert graph.value(default, VOID.triples).toPython() == len(facts)  # type: ignore[union-attr]
        named = {str(name) for name in graph.objects(None, SD.name)}
        assert named == {f"{BASE}facts", f"{BASE}world", f"{BASE}people"}
        assert (None, VOID.property, BORDERS) in graph
    page = client.get("/sparql", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.headers["location"]) == (303, "./"), "a person gets the page"
    assert client.get("/sparql", headers={"accept": "image/png"}).status_code == 406


def test_what_the_protocol_refuses(client: httpx.Client) -> None:
    def get(*fields: tuple[str, str]) -> httpx.Response:
        return client.get("/sparql", params=[("query", QUERY), *fields])  # type: ignore[arg-type]

    assert get(("format", "json"), ("output", "json")).status_code == 200, "what other servers know is passed over"
    assert get(("default-graph-uri", f"{BASE}world")).status_code == 200
    assert get(("default-graph-uri", "world")).status_code == 200
    assert get(("default-graph-uri", f"{BASE}wrld")).json()["kind"] == "store"
    assert get(("named-graph-uri", f"{BASE}world")).status_code == 400
    assert get(("query", "ASK { ?x ?p ?y }")).status_code == 400, "one query"
    assert get(("only", "stated")).status_code == 422
    assert client.post("/sparql", data={"update": "INSERT DATA { <a> <b> <c> }"}).status_code == 400
    update = {"content-type": "application/sparql-update"}
    assert client.post("/sparql", content="INSERT DATA { <a> <b> <c> }", headers=update).status_code == 400
    assert client.post("/sparql", data={"store": "world"}).status_code == 400
    assert client.delete("/sparql").headers["allow"] == "GET, HEAD, OPTIONS, POST"
    wrong = client.get("/sparql", params={"query": f"SELECT ?x {{ ?x <{BORDERS}> <{BASE}frnce> }}"}).json()
    assert wrong["suggestions"][0] == "france"


def test_a_query_with_iris_is_drawn_and_asked_everywhere(client: httpx.Client) -> None:
    drawn = client.post("/parse", json={"query": QUERY}).json()
    assert (drawn["problem"], drawn["logic"]) == (None, "?x : borders(?x, france) limit 3")
    assert len(client.post("/ask", json={"query": QUERY}).json()["answers"]) == 3


def test_values_and_relations_are_terms_of_their_kind(client: httpx.Client) -> None:
    query = f"SELECT ?p ?o WHERE {{ <{BASE}ann> ?p ?o }}"
    rows = client.get("/sparql", params={"query": query, "store": "people"}).json()["results"]["bindings"]
    found = {(row["p"]["value"].removeprefix(BASE), row["o"]["type"], row["o"]["value"]) for row in rows}
    assert ("knows", "uri", f"{BASE}bob") in found
    old = client.get(
        "/sparql", params={"query": f"SELECT ?x ?a {{ ?x <{BASE}age> ?a FILTER(?a > 35) }}", "store": "people"}
    )
    [row] = old.json()["results"]["bindings"]
    assert (row["x"]["value"], row["a"]["value"]) == (f"{BASE}bob", "41")
    assert row["a"]["datatype"].endswith("#integer")


def test_pages_of_the_given_origin_may_ask_others_not(client: httpx.Client) -> None:
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    before = client.options("/ask", headers={"origin": ORIGIN, "sec-fetch-site": "cross-site", **asked})
    assert before.status_code == 204
    assert before.headers["access-control-allow-origin"] == ORIGIN
    assert before.headers["access-control-allow-methods"] == "OPTIONS, POST"
    assert "content-type" in before.headers["access-control-allow-headers"]
    for site, origin, status in (
        ("cross-site", ORIGIN, 200),
        ("cross-site", "https://evil.example", 403),
        ("same-site", "http://localhost:9999", 403),
        ("same-origin", "", 200),
        ("none", "", 200),
    ):
        headers = {"sec-fetch-site": site, **({"origin": origin} if origin else {})}
        response = client.get("/sparql", params={"query": QUERY}, headers=headers)
        assert response.status_code == status, (site, origin)
        allowed = response.headers.get("access-control-allow-origin")
        assert allowed == (ORIGIN if origin == ORIGIN else None)
        assert "origin" in response.headers["vary"]
    refused = client.options("/ask", headers={"origin": "https://evil.example", **asked})
    assert "access-control-allow-origin" not in refused.headers
    assert (
        client.get(
            "/sparql", headers={"host": client.base_url.netloc.decode().replace("127.0.0.1", "LOCALHOST")}
        ).status_code
        == 200
    )
    assert client.head("/").status_code == client.head("/health").status_code == 200
    assert json.loads(client.get("/openapi.json").text)


@needs_browser
def test_a_named_origin_asks_and_reads(browser: Any, based: Server, pages: int) -> None:
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{pages}/")
    form, get, direct, yes, ask, told = page.evaluate(FETCHES, [based.url, ASKED])
    for status, bound, text in (form, get, direct):
        assert (status, 'andorra"' in text) == (200, True), text
        assert float(bound) <= 1, "a header that the page may read"
    assert '"boolean":true' in yes[2]
    assert (ask[0], '"answers"' in ask[2]) == (200, True)
    assert "sd:Service" in told[2]
    # The same page under another name is another origin, which nobody named.
    page.goto(f"http://localhost:{pages}/")
    assert all(status == 0 for status, _, _ in page.evaluate(FETCHES, [based.url, ASKED]))
    page.close()


ODD_NAMES = [
    "a b",
    "x>y",
    "tab\tz",
    '"q"',
    "50%",
    "é#?",
    "back\\slash",
    "new\nline",
    "http://e.org/x",
    "[a]",
    "a/b:c",
    "=1+1",
]


def test_odd_names_come_back_whole_in_every_form(tmp_path: Path) -> None:
    rows = [{"head": name, "relation": "is", "tail": "thing"} for name in ODD_NAMES]
    graph = tuplet.read(pandas.DataFrame(rows))
    answers, base = graph.ask("SELECT ?x WHERE { ?x :is :thing }", k=20), BaseIri(BASE)
    assert len(answers) == len(ODD_NAMES)
    read = pyoxigraph.QueryResultsFormat
    for form, known in {"json": read.JSON, "xml": read.XML, "tsv": read.TSV}.items():
        found: Any = pyoxigraph.parse_query_results(results(answers, Deadline(), form, base).body, format=known)
        assert {base.name(row["x"].value) for row in found} == set(ODD_NAMES), form
    table = list(csv.reader(io.StringIO(results(answers, Deadline(), "csv", base).body.decode(), newline="")))
    assert {base.name(row[0]) for row in table[1:]} == set(ODD_NAMES)
    for name in ODD_NAMES:
        asked = read_query(f"ASK {{ <{base.iri(name)}> <{BASE}is> ?y }}", None, answers.graph)
        assert graph.ask(base.query(asked, answers.graph)).holds, name
    safe = csv_text(answers.to_arrow(), safe=True)
    assert '"\'=1+1"' in safe
    assert '"=1' not in safe
