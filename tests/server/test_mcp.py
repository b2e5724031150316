"""`tuplet mcp` with the client of the official SDK: over standard input and output, and over HTTP with keys."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

import tuplet
from tuplet.server.keys import KeyFile, add_key
from tuplet.server.logs import LogSettings
from tuplet.server.mcp_server import guarded_tools
from tuplet.server.tools import DEFINITIONS, Toolbox

SOURCE = str(Path(tuplet.__file__).parents[1])


async def conversation(client: Client) -> None:
    """What an agent does: look around, find a name, ask, explain, and mend a query that was wrong."""
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == list(DEFINITIONS)
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)

    async def call(name: str, wrong: bool = False, **arguments: Any) -> Any:
        result = await client.call_tool(name, arguments)
        assert result.is_error is wrong, result
        assert result.content[0].type == "text"
        return result.structured_content

    seen = await call("schema")
    assert "borders" in [relation["name"] for relation in seen["relations"]]
    [found] = (await call("find", text="burkina"))["found"]
    wrong = await call("ask", wrong=True, query=f"?x : boders(?x, {found['write']})")
    assert (wrong["position"], wrong["length"]) == (5, 6)
    mended = f"?x : {wrong['suggestions'][0]}(?x, {found['write']})"
    answers = await call("ask", query=mended, k=3)
    assert len(answers["answers"]) == 3
    why = await call("explain", query=mended, values=answers["answers"][0]["values"])
    assert why["witness"][0]["relation"] == "borders"
    truth = await call("score", query=mended, tuples=[["mali"], ["japan"]])
    assert truth["truth"][0] == 1.0 > truth["truth"][1]
    assert (await call("nothing", wrong=True))["kind"] == "unknown"

    resources = (await client.list_resources()).resources
    assert [str(resource.uri) for resource in resources] == ["tuplet://grammar", "tuplet://schema/world"]
    for resource in resources:
        assert (await client.read_resource(resource.uri)).contents[0].text
    with pytest.raises(MCPError, match="no resource"):
        await client.read_resource("tuplet://nothing")
    [prompt] = (await client.list_prompts()).prompts
    told = await client.get_prompt(prompt.name, {"question": "Who borders Mali?"})
    assert "Question: Who borders Mali?" in told.messages[0].content.text
    assert "borders" in told.messages[0].content.text


def test_standard_input_and_output(store_path: Path) -> None:
    command = [sys.executable, "-m", "tuplet", "mcp", f"world={store_path}"]
    server = StdioServerParameters(command=command[0], args=command[1:], env={**os.environ, "PYTHONPATH": SOURCE})

    strange = []

    async def note(message: Any) -> None:
        strange.append(message)  # a line that is no message

    async def talk() -> None:
        async with Client(server, message_handler=note) as client:
            await conversation(client)

    asyncio.run(asyncio.wait_for(talk(), 300))
    assert strange == []


@pytest.fixture
def address(store_path: Path, people_path: Path, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A server with keys, and the keys."""
    fields = {"anna": ["stores=world"], "ben": ["scopes=write"], "cleo": ["expires=2020-01-01"]}
    keys = {name: add_key(tmp_path / "keys", name, words) for name, words in fields.items()}
    box = Toolbox({"world": tuplet.open(store_path), "people": tuplet.open(people_path)})
    logs = LogSettings(access_log=str(tmp_path / "access"), log_format="json")
    app: Any = guarded_tools(box, KeyFile(tmp_path / "keys"), logs)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        threading.Event().wait(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/mcp", keys
    server.should_exit = True
    thread.join(20)


def test_http_with_keys(address: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    url, keys = address

    async def talk() -> None:
        headers = {"authorization": f"Bearer {keys['anna']}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            await conversation(client)
            tools = (await client.list_tools()).tools
            assert "store" not in tools[0].input_schema["properties"], "this key opens one of the two stores"
            other = await client.call_tool("schema", {"store": "people"})
            assert other.is_error
            assert "people" not in other.content[0].text.replace("'people'", "", 1)

    asyncio.run(asyncio.wait_for(talk(), 300))
    for key, status in (("", 401), ("tup_wrong", 401), (keys["cleo"], 401), (keys["ben"], 403)):
        reply = httpx2.post(url, json={}, headers={"authorization": f"Bearer {key}"} if key else {})
        assert reply.status_code == status
        jsonschema.validate(reply.json(), {"required": ["error", "kind"]})
    logged = [json.loads(line) for line in (tmp_path / "access").read_text().splitlines()]
    assert {(line["key"], line["path"]) for line in logged if line["status"] == 200} == {("anna", "/mcp")}
    assert [line["status"] for line in logged][-4:] == [401, 401, 401, 403]
    assert all(line["bytes"] > 0 and line["seconds"] > 0 for line in logged if line["status"] == 200)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--http", "8001", "--host", "0.0.0.0"], "keys are needed"),
        (["--host", "127.0.0.1"], "for --http PORT"),
        (["--http", "70000"], "a port is a number up to 65535"),
    ],
)
def test_what_cannot_be_served_is_said(
    store_path: Path, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from tuplet.cli.commands import main

    assert main(["mcp", str(store_path), *flags]) == 1
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""
