"""An MCP client at work, as a transcript; and how long each tool takes.

    tuplet demo -o world.store
    python benchmarks/mcp_client.py world.store              # the transcript, over standard input and output
    python benchmarks/mcp_client.py world.store --times 200  # milliseconds of each tool, client and transport included
    python benchmarks/mcp_client.py world.store --http       # the same, or with --times, over streamable HTTP

The client is that of the official SDK. What it sends is written here, as a language model would have sent it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from mcp import Client, StdioServerParameters

QUERY = (
    "?country, ?organisation : exists ?neighbour . located_in(?country, western_africa) & borders(?country, ?neighbour)"
    " & member_of(?neighbour, ?organisation) & member_of(?country, ?organisation)"
)
MEMBERS = "?organisation : member_of(ghana, ?organisation)"


WIDTH, MOST = 116, 3  # of a line, and of what is shown of a list


def shown(value: Any, indent: int, before: int) -> str:
    """JSON on as few lines as fit; `before` is what stands before it on its first line."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or (len(flat) + before <= WIDTH and len(value) <= MOST + 5):
        return flat
    pad = "\n" + " " * indent
    if isinstance(value, dict):
        lines = [f"{json.dumps(k)}: {shown(one, indent + 1, indent + len(k) + 4)}" for k, one in value.items()]
        return "{" + f",{pad}".join(lines) + "}"
    lines = [shown(one, indent + 1, indent) for one in value[:MOST]]
    more = [f"… {len(value) - MOST} more"] if len(value) > MOST else []
    return "[" + f",{pad}".join(lines + more) + "]"


async def transcript(client: Client) -> None:
    """schema, find, ask, explain, and a wrong query fixed from its error."""

    async def call(name: str, why: str, **arguments: Any) -> Any:
        print(f"\n# {why}\n→ {name} {json.dumps(arguments, ensure_ascii=False)}")
        result = await client.call_tool(name, arguments)
        print(f"← {'error: ' if result.is_error else ''}", end="")
        print(result.content[0].text if result.is_error else shown(brief(result.structured_content), 3, 2))
        return result.structured_content

    print("tools:", ", ".join(tool.name for tool in (await client.list_tools()).tools))
    seen = await call("schema", "What is there?", k=3)
    assert seen["predicts"]
    found = await call("find", "How is Ghana called here?", text="ghana")
    name = found["found"][0]["write"]
    wrong = await call(
        "ask", "Which organisations is Ghana in? A guess at the words.", query=f"?o : memberof({name}, ?o)"
    )
    fixed = f"?o : {wrong['suggestions'][0]}({name}, ?o)"
    given = await call("ask", "Fixed from the error; only what nobody stated.", query=fixed, k=2, only="predicted")
    await call("explain", "Why should that be so?", query=fixed, values=given["answers"][0]["values"])
    await call(
        "score", "And what of two others?", query=fixed, tuples=[["organisation_of_islamic_cooperation"], ["nato"]]
    )


def brief(value: Any) -> Any:
    """The same without what is long and the same everywhere."""
    if isinstance(value, dict):
        return {
            key: brief(one)
            for key, one in value.items()
            if key not in ("language", "examples", "attributes", "elapsed_ms")
        }
    return [brief(one) for one in value] if isinstance(value, list) else value


async def times(client: Client, count: int) -> None:
    """Milliseconds of each tool: median, 99th of a hundred, longest, from the first call on."""
    first = (await client.call_tool("ask", {"query": QUERY, "k": 5, "only": "predicted"})).structured_content
    calls: dict[str, dict[str, Any]] = {
        "schema": {},
        "find": {"text": "burkina"},
        "ask": {"query": QUERY, "k": 10, "evidence": True},
        "explain": {"query": QUERY, "values": first["answers"][0]["values"]},
        "score": {"query": MEMBERS, "tuples": [["opec"], ["nato"], ["african_union"]]},
    }
    print("| tool | median ms | p99 | longest |\n|---|---|---|---|")
    for name, arguments in calls.items():
        took = []
        for _ in range(count):
            start = time.perf_counter()
            result = await client.call_tool(name, arguments)
            took.append(1000 * (time.perf_counter() - start))
            assert not result.is_error, result
        print(f"| `{name}` | {np.median(took):.1f} | {np.quantile(took, 0.99):.1f} | {max(took):.1f} |")


def over_pipes(server: list[str]) -> Client:
    """A client that starts its server."""
    return Client(StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ)))


@asynccontextmanager
async def over_http(server: list[str]) -> AsyncIterator[Client]:
    """A client of a server that listens on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(*server, "--http", str(port), stdout=asyncio.subprocess.DEVNULL)
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                assert process.returncode is None, "the server has ended"
                await asyncio.sleep(0.02)
                continue
            writer.close()
            break
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            yield client
    finally:
        process.terminate()
        await process.wait()


async def main() -> None:
    """Start a server, talk to it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", metavar="STORE")
    parser.add_argument("--times", type=int, metavar="N")
    parser.add_argument("--http", action="store_true", help="streamable HTTP instead of standard input and output")
    arguments = parser.parse_args()
    server = [sys.executable, "-m", "tuplet", "mcp", arguments.store]
    start = time.perf_counter()
    async with over_http(server) if arguments.http else over_pipes(server) as client:
        if arguments.times:
            print(f"started in {time.perf_counter() - start:.1f} s")
            await times(client, arguments.times)
        else:
            await transcript(client)


if __name__ == "__main__":
    asyncio.run(main())
