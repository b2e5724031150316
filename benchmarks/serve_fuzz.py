"""Whatever is sent, the server answers, never with a fault of its own: requests that are nearly right, and not at all.

    python benchmarks/serve_fuzz.py world.store --requests 100000 --schemathesis 500

The store is copied first, as some of the requests change facts. Every answer has a status below 500, is of the type it
says, and an error is one line of JSON that does not echo what was sent. The same seed makes the same requests.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes, urlencode

from tuplet.server.keys import add_key

QUERIES = (
    "?x, ?y : exists ?z . borders(?x, ?z) & member_of(?z, ?y) & !borders(?x, ?y) & ?x != ?y",
    'SELECT ?x ?y WHERE { ?x :borders ?y . { ?y :located_in "Europe" } UNION { ?y :borders :spain } FILTER(?x != ?y) }',
    "SELECT ?p (COUNT(*) AS ?n) WHERE { :france ?p ?x } ORDER BY DESC(?n) LIMIT 3 OFFSET 1",
    "ASK { VALUES ?x { :france :spain } ?x :borders/:borders ?y FILTER EXISTS { ?y :member_of :nato } }",
    "MATCH (x)-[:borders]->(y) WHERE id(y) = 'france' AND x.age > 3 RETURN x LIMIT 4",
    "r1(s1,f1)&!r2(f1,f2)",
    "((3, (4,)), (5, (7, -2)))",
    "?x : borders(?x, france) | member_of(?x, nato)",
)
ODD = [
    "\x00",
    "\ud800",
    "🜍",
    "\uffff",
    "∃",
    "¬",
    "((((",
    "))))",
    "{",
    "}",
    "?",
    "<",
    ">",
    '"',
    "'",
    "\\",
    "&",
    "|",
    "!",
]
ODD += [
    " " * 50,
    "?x" * 400,
    "exists",
    "limit",
    "LIMIT 99999999999999999999",
    "-1",
    "1e999",
    "𝕏",
    "\r\n",
    "#",
    "a(b,c)",
]
ODD += ["/../", "%00", "%ff", "{{7*7}}", "=1+1", "<script>", "${x}", "\u202e", "é" * 3000, "x" * 90_000]
JSON_PATHS = ("/ask", "/explain", "/plan", "/parse", "/write", "/schema/labels", "/add", "/remove", "/reload")
PATHS = (
    *JSON_PATHS,
    "/sparql",
    "/schema",
    "/schema/entities",
    "/entity",
    "/health",
    "/ready",
    "/metrics",
    "/openapi.json",
)
PATHS += ("/", "/web/page.js", "/favicon.ico")
TYPES = (
    "text/plain",
    "application/sparql-query",
    "application/sparql-update",
    "x/y",
    "",
    "text/csv",
    "multipart/form-data",
)
FORM = "application/x-www-form-urlencoded"
ACCEPTS = (
    "*/*",
    "text/csv",
    "text/tab-separated-values;q=0.3",
    "application/sparql-results+xml",
    "text/turtle",
    "q=;;,,",
)
KEYS = ("query", "queries", "k", "store", "engine", "only", "logic", "grounding", "format", "budget", "limit", "offset")
KEYS += (
    "odd",
    "shown",
    "order",
    "form",
    "counted",
    "witness",
    "evidence",
    "timeout",
    "memory",
    "options",
    "parameters",
)
KEYS += ("facts", "new_entities", "values", "names", "free", "clauses", "merge", "work", "name", "relation", "least")


@dataclass(frozen=True)
class FuzzedRequest:
    """What is sent."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def broken_text(rng: random.Random) -> str:
    """A query with pieces taken out, doubled, exchanged, or put in."""
    text = rng.choice(QUERIES)
    for _ in range(rng.randint(0, 5)):
        i, j = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        j = min(j, i + 12)
        cut, doubled = text[:i] + text[j:], text[:i] + text[i:j] * 2 + text[j:]
        text = rng.choice((cut, doubled, text[:i] + rng.choice(ODD) + text[i:]))
    return text or "?"


def odd_value(rng: random.Random, depth: int = 0) -> Any:
    """Something that JSON can hold."""
    simple = [None, True, -1, 0, 3, 10**30, 1e308, float("nan"), float("inf"), "", "world", "exact", rng.choice(ODD)]
    kind = rng.random()
    if depth > 3 or kind < 0.6:
        return rng.choice([*simple, broken_text(rng)])
    if kind < 0.8:
        return [odd_value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return {rng.choice([*KEYS, "é", ""]): odd_value(rng, depth + 1) for _ in range(3)}


def json_body(rng: random.Random, path: str) -> bytes:
    """A body that is nearly right, or not at all."""
    if rng.random() < 0.1:
        return rng.choice((b"", b"{", b"[" * 3000, b"\xff\xfe\x00", b"null", b'"x"', rng.randbytes(200), b"9" * 5000))

    def term() -> dict[str, str]:
        return {"kind": rng.choice(["free", "exists", "constant"]), "name": rng.choice(["x", "y", broken_text(rng)])}

    def edge() -> dict[str, Any]:
        return {"head": term(), "relation": rng.choice(["borders", broken_text(rng)]), "tail": term()}

    def fact() -> list[str]:
        ends = ("france", "spain", "peru", "atlantis", rng.choice(ODD))
        return [rng.choice(ends), rng.choice(("borders", "borders", "x")), rng.choice(ends)]

    values: dict[str, dict[str, Any]] = {
        "/ask": {"query": broken_text(rng), "k": rng.choice([3, 0, -1, 10**9]), "timeout": 0.05},
        "/explain": {"query": rng.choice(QUERIES), "values": {"x": "france", "y": rng.choice(["spain", "?", ""])}},
        "/plan": {"query": broken_text(rng), "engine": rng.choice(["exact", "crisp", "ns3", "brute", "x"])},
        "/parse": {"query": broken_text(rng)},
        "/write": {
            "free": ["x"],
            "clauses": [{"edges": [edge(), edge()], "different": [], "conditions": [{"text": broken_text(rng)}]}],
            "language": rng.choice(["logic", "sparql", "cypher"]),
        },
        "/schema/labels": {"names": ["france", rng.choice(ODD)]},
        "/add": {"facts": [fact(), fact()], "new_entities": rng.random() < 0.1},
        "/remove": {"facts": [fact()]},
        "/reload": {},
    }
    value = values[path]
    for _ in range(rng.choice((0, 0, 1, 2))):
        value[rng.choice([*value, *KEYS])] = odd_value(rng)
    if path == "/ask" and rng.random() < 0.1:
        value = {"queries": [broken_text(rng) for _ in range(3)], "timeout": 0.05}
    return json.dumps(value).encode("utf-8", "surrogatepass")


def address(rng: random.Random) -> str:
    """What comes after the ?, well formed or not."""
    fields = []
    for _ in range(rng.randint(0, 3)):
        name = rng.choice([*KEYS, "search", "default-graph-uri", "named-graph-uri", "update", ""])
        text = rng.choice([broken_text(rng), rng.choice(ODD), "world", "france", "3", "observed"])[:5000]
        fields.append(f"{name}={quote_from_bytes(text.encode('utf-8', 'surrogatepass'))}")
    if rng.random() < 0.1:
        fields.append(rng.choice(("&&&", "=", "%", "%zz", "a=b=c", "+", "query")))
    return "?" + "&".join(fields) if fields else ""


def fuzzed(seed: int) -> Iterator[FuzzedRequest]:
    """Requests without end, the same for the same seed."""
    rng = random.Random(seed)
    while True:
        yield _fuzzed(rng)


def _fuzzed(rng: random.Random) -> FuzzedRequest:
    headers = {}
    if rng.random() < 0.3:
        headers["accept"] = rng.choice(ACCEPTS)
    for name in ("if-none-match", "x-request-id", "origin", "accept-encoding", "authorization", "range", "expect-ct"):
        if rng.random() < 0.04:
            headers[name] = rng.choice(("*", '"x"', "gzip", "null", "a" * 500, "Bearer x", "\xff\xfe", "bytes=0-1"))
    kind = rng.random()
    if kind < 0.55:
        path = rng.choice(JSON_PATHS[:6] * 16 + JSON_PATHS[6:])  # changes of the store are slow
        headers["content-type"] = rng.choice(["application/json"] * 60 + [*TYPES])
        return FuzzedRequest("POST", path, headers, json_body(rng, path))
    if kind < 0.7:
        text = broken_text(rng)
        headers["content-type"] = rng.choice([FORM] * 20 + ["application/sparql-query"] * 20 + [*TYPES])
        body = urlencode({"query": text}, errors="surrogatepass") if headers["content-type"] == FORM else text
        return FuzzedRequest("POST", "/sparql" + address(rng) * (rng.random() < 0.2), headers, _bytes(body))
    if kind < 0.92:
        return FuzzedRequest(rng.choice(["GET"] * 9 + ["HEAD"]), rng.choice(PATHS) + address(rng), headers)
    method = rng.choice(("OPTIONS", "PUT", "DELETE", "PATCH", "HEAD", "TRACE", "FOO", "GET", "POST"))
    path = rng.choice(
        (*PATHS, "/%00", "//ask", "/web/../../etc/passwd", "/web/%2e%2e/x", "/ask/", "/ASK", "/" + "a" * 3000)
    )
    if rng.random() < 0.1:
        headers["access-control-request-method"] = "POST"
    return FuzzedRequest(method, path + address(rng), headers, b"{}" if method in ("PUT", "POST", "PATCH") else b"")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def send(connection: http.client.HTTPConnection, request: FuzzedRequest) -> tuple[int, dict[str, str], bytes]:
    """Send one request; a connection that the server closed before is opened again, once."""
    for attempt in (0, 1):
        try:
            body = request.body or None
            connection.request(request.method, request.path, body, request.headers)
            response = connection.getresponse()
            content = response.read()
            headers = {name.lower(): value for name, value in response.getheaders()}
            packed = content and headers.get("content-encoding") == "gzip"
            return response.status, headers, gzip.decompress(content) if packed else content
        except (http.client.HTTPException, OSError):
            connection.close()
            if attempt:
                raise
    raise AssertionError


def judge(request: FuzzedRequest, status: int, headers: dict[str, str], content: bytes) -> str:
    """What is wrong with an answer; nothing if it is well."""
    if status >= 500 and status != 503:
        return f"status {status}"
    if headers.get("x-content-type-options") != "nosniff":
        return "without the headers that every answer has"
    if request.method == "HEAD" or status in (204, 303, 304):
        return "with a body" if content else ""
    media = headers.get("content-type", "").split(";")[0]
    if status >= 400 or media in ("application/json", "application/sparql-results+json"):
        try:
            read = json.loads(content)
        except ValueError:
            return "no JSON"
        if status >= 400:
            if not read.get("error") or not read.get("kind"):
                return "an error that says nothing"
            if len(content) > 6000:
                return f"an error of {len(content)} bytes"
            if status == 405 and not headers.get("allow"):
                return "405 without Allow"
    return ""


HEAD = b" HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
RAW = (
    b"",
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"\x00" * 2000,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /health HTTP/1.1\r\n\r\n",
    b"GET /health" + HEAD + b"Host: b\r\n\r\n",
    b"GET /health" + HEAD + b"Accept : x\r\n\r\n",
    b"GET /health" + HEAD + b"a: b\r\n" * 500 + b"\r\n",
    b"GET /\xff" + HEAD + b"\r\n",
    b"GET " + b"/" * 70_000,
    b"POST /ask" + HEAD + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    b"POST /ask" + HEAD + CHUNKED + b"\r\nzz\r\n",
    b"POST /ask" + HEAD + b"Content-Length: -1\r\n\r\n",
)


def raw(host: str, port: int) -> list[int]:
    """Bytes that are hardly HTTP; the statuses that came back (0: closed without a word)."""
    found = []
    for sent in RAW:
        with socket.create_connection((host, port), timeout=10) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            came = b""
            try:
                while piece := connection.recv(65536):
                    came += piece
            except OSError:
                pass
        words = came.split(b" ", 2)
        found.append(int(words[1]) if len(words) > 1 and words[1].isdigit() else 0)
    return found


def run(
    host: str, port: int, seed: int, count: int, key: str = "", say: Any = lambda text: None
) -> tuple[Counter[int], list[str]]:
    """Send `count` requests over one connection; how often each status came, and what was wrong."""
    codes: Counter[int] = Counter()
    wrong: list[str] = []
    connection = http.client.HTTPConnection(host, port, timeout=60)
    for number, request in zip(range(count), fuzzed(seed), strict=False):
        if key:
            request.headers.setdefault("authorization", f"Bearer {key}")
        status, headers, content = send(connection, request)
        codes[status] += 1
        fault = judge(request, status, headers, content)
        if fault:
            wrong.append(f"{fault}: seed {seed}, request {number}: {request} -> {content[:300]!r}"[:2000])
            say(wrong[-1])
        if number % 5000 == 4999:
            say(f"seed {seed}: {number + 1:,} sent, {len(wrong)} wrong")
    connection.close()
    return codes, wrong


CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", "4xx"]
[checks.negative_data_rejection]
expected-statuses = ["4xx"]
"""


def main() -> None:
    """Serve a copy of a store and send everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--schemathesis", type=int, default=0, metavar="N", help="examples of each operation, too")
    arguments = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(arguments.store, Path(folder) / "world.store")
        keys = Path(folder) / "keys"
        key = add_key(keys, "fuzz", ["scopes=admin"])
        words = [str(Path(folder) / "world.store"), "--port", str(port), "--workers", str(arguments.workers)]
        words += ["--api-key-file", str(keys)]
        log = Path(folder) / "log"
        with log.open("w") as stream:
            server = subprocess.Popen([sys.executable, "-m", "tuplet", "serve", *words], stdout=stream, stderr=stream)
        try:
            _wait(port)
            wrong = _send_all(arguments, port, key)
            if arguments.schemathesis:
                wrong += _schemathesis(Path(folder), port, arguments.schemathesis, arguments.seed, key)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            print("raw bytes:", dict(Counter(raw("127.0.0.1", port))))
            status, _, content = send(connection, FuzzedRequest("GET", "/health"))
            print("after all:", status, content.decode()[:300])
        finally:
            server.terminate()
            server.wait(60)
            told = log.read_text()
            print(f"the log has {len(told.splitlines()):,} lines, {told.count('Traceback')} tracebacks")
            if "Traceback" in told:
                wrong.append(told[told.index("Traceback") :][:2000])
    print("\n".join(wrong[:20]))
    sys.exit(bool(wrong))


def _send_all(arguments: argparse.Namespace, port: int, key: str) -> list[str]:
    codes: Counter[int] = Counter()
    wrong: list[str] = []

    def one(seed: int) -> None:
        share = arguments.requests // arguments.connections
        found, faults = run("127.0.0.1", port, seed, share, key, lambda text: print(text, flush=True))
        codes.update(found)
        wrong.extend(faults)

    start = time.perf_counter()
    seeds = range(arguments.seed, arguments.seed + arguments.connections)
    threads = [threading.Thread(target=one, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    print(f"{codes.total():,} requests in {seconds:.0f} s, {len(wrong)} wrong; statuses {dict(sorted(codes.items()))}")
    if codes.total() < arguments.requests // arguments.connections * arguments.connections:
        wrong.append("some requests had no answer")
    return wrong


def _schemathesis(folder: Path, port: int, examples: int, seed: int, key: str) -> list[str]:
    (folder / "schemathesis.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(folder / "schemathesis.toml"), "run"]
    command += ["--checks", "all", "--max-examples", str(examples), "--seed", str(seed), "--request-timeout", "60"]
    command += ["-H", f"Authorization: Bearer {key}", f"http://127.0.0.1:{port}/openapi.json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)  # it leaves a cache behind
    told = done.stdout[done.stdout.rfind("== SUMMARY") :]
    print("\n".join(line[:200] for line in told.splitlines()))
    return [] if done.returncode == 0 else [f"schemathesis: {done.stdout[:100_000][-2000:]}"]


def _wait(port: int) -> None:
    for _ in range(1200):
        try:
            send(http.client.HTTPConnection("127.0.0.1", port, timeout=5), FuzzedRequest("GET", "/health"))
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


if __name__ == "__main__":
    main()
