"""Mixed load on a server for a long time: does its memory stay flat, and is every request answered?

    python benchmarks/serve_soak.py --minutes 60
    python benchmarks/serve_soak.py --minutes 60 --store my.store --rate 40

Queries in all formats, with and without compression, batches, mistakes, completion, cards of entities, SPARQL in all
forms, searches that run into their time, clients that go away, changes of the store and reloads. The server has two
workers and serves a copy. What each process holds (RSS without the file pages that processes share) is printed as it
goes, and a request that no answer came to (the server replaces a worker that does not answer for 10 s). Flat means that
the last quarter holds no more than a tenth and 16 MB more than the second.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import tuplet
from tuplet.read.datasets import bundled

PAIR = "?x, ?y : borders(?x, ?y)"
LONG = "?a, ?b, ?c, ?d, ?e, ?f : " + " & ".join(f"borders(?{a}, ?{b})" for a, b in ("ab", "bc", "cd", "de", "ef"))
JSON = {"content-type": "application/json"}


def requests(rng: random.Random, country: str) -> tuple[str, str, str, str, dict[str, str]]:
    """A kind of request: its name, method, path, body and headers."""
    accept = rng.choice(["application/sparql-results+json", "application/sparql-results+xml", "text/csv"])
    select = quote(f"SELECT ?x ?y WHERE {{ ?x :borders ?y . ?y :borders :{country} }} LIMIT {rng.randint(1, 50)}")
    near = f"?x, ?y : borders(?x, ?y) & borders(?y, {country})"

    def ask(**more: object) -> str:
        return json.dumps({"query": near, "k": rng.randint(1, 200), **more})

    kinds = [
        ("ask", "POST", "/ask", ask(), JSON),
        ("ask, gzip", "POST", "/ask", ask(), {**JSON, "accept-encoding": "gzip"}),
        ("ask, evidence", "POST", "/ask", ask(evidence=True, k=5), JSON),
        ("csv", "POST", "/ask", ask(format="csv"), JSON),
        ("parquet", "POST", "/ask", ask(format="parquet"), JSON),
        ("lines", "POST", "/ask", ask(format="ndjson"), JSON),
        ("batch", "POST", "/ask", json.dumps({"queries": [near, PAIR, f"?x : bordrs(?x, {country})"]}), JSON),
        ("mistake", "POST", "/ask", json.dumps({"query": near[: rng.randint(1, len(near))]}), JSON),
        ("not JSON", "POST", "/ask", "{", JSON),
        ("long", "POST", "/ask", json.dumps({"query": LONG, "k": 1000, "only": "predicted", "timeout": 0.1}), JSON),
        ("parse", "POST", "/parse", json.dumps({"query": near}), JSON),
        ("plan", "POST", "/plan", json.dumps({"query": near}), JSON),
        ("schema", "GET", "/schema", "", {}),
        ("find", "GET", f"/schema/entities?search={country[:3]}", "", {}),
        ("entity", "GET", f"/entity?name={country}", "", {}),
        ("sparql", "GET", f"/sparql?query={select}", "", {"accept": accept}),
        ("metrics", "GET", "/metrics", "", {}),
        ("page", "GET", "/", "", {}),
        ("nothing", "GET", "/nothing", "", {}),
    ]
    if rng.random() < 0.01:  # at 30 requests a second, one change in three seconds
        fact = {"facts": [[country, "borders", rng.choice(["japan", "cuba", "iceland"])]]}
        change = rng.choice([("add", json.dumps(fact)), ("remove", json.dumps(fact)), ("reload", "{}")])
        return change[0], "POST", f"/{change[0]}", change[1], JSON
    return rng.choice(kinds)


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in found]


def held(process: int) -> float:
    """Megabytes that a process holds for itself."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1000


def go_away(port: int, body: str, key: str) -> None:
    """Ask, and leave before the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        head = ["POST /ask HTTP/1.1", "host: localhost", "content-type: application/json"]
        head += [f"authorization: Bearer {key}", f"content-length: {len(body)}", "", body]
        connection.sendall("\r\n".join(head).encode())
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--store", type=Path, help="a store of the bundled graph (default: made here)")
    parser.add_argument("--rate", type=float, default=30, help="requests a second")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as name:
        store = Path(name) / "world.store"
        if given.store is None:
            tuplet.build(bundled(), store, epochs=5, progress=False)
        else:
            shutil.copytree(given.store, store)
        countries = [answer.values["x"] for answer in tuplet.open(store).ask(PAIR, k=300)]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        keys = str(Path(name) / "keys")
        serve = [sys.executable, "-m", "tuplet", "serve"]
        new = [*serve, "--new-key", "soak", "--scope", "admin", "--api-key-file", keys]
        key = subprocess.run(new, capture_output=True, text=True, check=True).stdout.strip()
        allowed = {"authorization": f"Bearer {key}"}
        words = [*serve, str(store), "--port", str(port), "--workers", "2", "--api-key-file", keys]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        print(server.stdout.readline().strip(), flush=True)
        codes: Counter[str] = Counter()
        samples: list[list[float]] = []
        began, count, kept = time.monotonic(), 0, http.client.HTTPConnection("localhost", port, timeout=60)
        try:
            while (now := time.monotonic() - began) < 60 * given.minutes:
                kind, method, path, body, headers = requests(rng, rng.choice(countries))
                if rng.random() < 0.02:
                    go_away(port, json.dumps({"query": LONG, "timeout": 5}), key)
                if rng.random() < 0.05:
                    kept.close()
                try:
                    kept.request(method, path, body or None, {**headers, **allowed})
                    answer = kept.getresponse()
                    answer.read()
                except (http.client.HTTPException, OSError) as error:  # its worker was replaced
                    print(f"{now / 60:6.1f} min  {kind} was lost: {error!r}", flush=True)
                    codes["lost"] += 1
                    kept.close()
                    continue
                codes[f"{kind} {answer.status}"] += 1
                assert answer.status < 500, (kind, answer.status, body)
                count += 1
                if now >= 20 * len(samples):
                    workers = children(server.pid)
                    samples.append([held(process) for process in (server.pid, *workers)])
                    shown = "  ".join(f"{value:7.1f}" for value in samples[-1])
                    print(f"{now / 60:6.1f} min  {count:8,} requests  MB {shown}", flush=True)
                time.sleep(max(0.0, count / given.rate - (time.monotonic() - began)))
        finally:
            server.terminate()
            server.wait(30)
    for kind, number in sorted(codes.items()):
        print(f"{kind:24} {number:8,}")
    quarter = len(samples) // 4
    second = [max(column) for column in zip(*samples[quarter : 2 * quarter], strict=False)]
    last = [max(column) for column in zip(*samples[-quarter:], strict=False)]
    flat = all(after <= 1.1 * before + 16 for before, after in zip(second, last, strict=False))
    print(f"most MB held: second quarter {second}, last quarter {last}: {'flat' if flat else 'NOT FLAT'}")


if __name__ == "__main__":
    main()
