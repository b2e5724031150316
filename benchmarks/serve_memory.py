"""What a server process keeps of the memory that large answers needed, with what `allocator` does and without it.

    python benchmarks/serve_memory.py --store fb15k-237.store
    python benchmarks/serve_memory.py --store fb15k-237.store --without

Six clients ask four times for 10,000 tuples each, in process; three seconds later the anonymous memory is read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import tuplet
from tuplet.server import allocator
from tuplet.server.app import Application
from tuplet.server.limits import ServerLimits
from tuplet.server.metrics import ServerMetrics
from tuplet.server.service import Service

RELATION = "</award/award_nominee/award_nominations./award/award_nomination/award_nominee>"
CHAIN = " & ".join(f"{RELATION}(?{a}, ?{b})" for a, b in ("ab", "bc", "cd"))


def anonymous() -> int:
    """Megabytes of this process that are not mapped files."""
    found = re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) >> 10 if found else 0


async def ask(app: Application, client: str) -> None:
    body = json.dumps({"query": f"?a, ?b, ?c, ?d : {CHAIN}", "k": 10_000, "timeout": 4}).encode()
    length = (b"content-length", b"%d" % len(body))
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), length]
    scope = {"type": "http", "method": "POST", "path": "/ask", "query_string": b"", "root_path": ""}
    messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.Future()

    async def send(_: Any) -> None:
        pass

    await app({**scope, "headers": headers, "client": (client, 1)}, receive, send)


async def load(app: Application) -> None:
    for _ in range(4):
        await asyncio.gather(*(ask(app, f"10.0.0.{i}") for i in range(6)))
    await asyncio.sleep(3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True, help="a store of FB15k-237")
    parser.add_argument("--without", action="store_true", help="leave the C library as it is")
    arguments = parser.parse_args()
    if arguments.without:
        allocator.give_back = lambda: None
    else:
        allocator.settle()
    service = Service({"store": tuplet.open(arguments.store)}, ServerLimits(), ServerMetrics())
    service.warm()
    before = anonymous()
    asyncio.run(load(Application(service)))
    print(f"{before} MB before, {anonymous()} MB after", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
