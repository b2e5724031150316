"""A server of the Model Context Protocol: tools, the grammar and the schemas as resources, and a prompt."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from anyio import CapacityLimiter, to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette

from tuplet._version import __version__
from tuplet.errors import TupletError
from tuplet.server.command import bind_socket, check_keys
from tuplet.server.guard import Guard, RequestLog
from tuplet.server.http import REQUEST
from tuplet.server.keys import KeyFile, KeyOwner
from tuplet.server.limits import TooBusy
from tuplet.server.logs import AccessLog, LogSettings
from tuplet.server.tools import toolbox
from tuplet.server.tools.toolbox import Toolbox, grammar, question_prompt, teaching

GRAMMAR = "tuplet://grammar"
SCHEMA = "tuplet://schema/"
PROMPT = "question"

INSTRUCTIONS = """\
A knowledge graph that answers queries about what is stated and about what is likely though nobody stated it. Call \
`schema` first, `find` for exact names, then `ask`; `explain` says why, `score` judges given tuples. Every answer has \
a truth between 0 and 1: 1 is stated, less is predicted. Tell people which it is."""


Context = ServerRequestContext[Any, Any]


class ToolServer:
    """Answers clients with a toolbox; `seen` chooses the part of it that a request may use."""

    def __init__(self, tools: Toolbox, seen: Callable[[Context], Toolbox] | None = None) -> None:
        self.tools, self.seen = tools, seen or (lambda context: tools)
        self.places = CapacityLimiter(tools.limits.max_concurrent)
        self.server: Server[None] = Server(
            "tuplet",
            version=__version__,
            title="Knowledge graph with predictions",
            instructions=f"{INSTRUCTIONS}\n\n{teaching(next(iter(tools.stores.values()), None))}",
            lifespan=self._lifespan,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_read_resource=self.read_resource,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
        )

    @asynccontextmanager
    async def _lifespan(self, server: Server[None]) -> AsyncIterator[None]:
        """Compile while the client connects: an early call waits for what it needs, not for everything."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(to_thread.run_sync, self._warm, abandon_on_cancel=True))
            yield
            tasks.cancel_scope.cancel()

    def _warm(self) -> None:
        self.tools.warm()
        # What is here stays: the collector need not look at it again, which takes a tenth of a second.
        gc.collect()
        gc.freeze()

    # --- tools -----------------------------------------------------------------------------------------------------

    async def list_tools(self, context: Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        reads = types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
        tools = [
            types.Tool(
                name=tool["name"],
                title=tool["title"],
                description=tool["description"],
                input_schema=tool["parameters"],
                output_schema=tool["returns"],
                annotations=reads,
            )
            for tool in self.seen(context).definitions()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, context: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        """The result of a tool as data and text; of a mistake the error, so that the client can fix it."""
        tools = self.seen(context)
        try:
            found = await self._in_thread(tools, asked)
        except TupletError as error:
            found = tools.describe_error(error)
        wrong = "error" in found
        text = _complaint(found) if wrong else json.dumps(found, ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=found, is_error=wrong)

    async def _in_thread(self, tools: Toolbox, asked: types.CallToolRequestParams) -> dict[str, Any]:
        """Run a call in a thread; it ends when the client goes away or cancels it."""
        if self.places.statistics().tasks_waiting >= self.tools.limits.max_waiting:
            raise TooBusy("too many calls at once; try again")
        deadline = tools.deadline(asked.arguments)
        work = partial(tools.run, asked.name, asked.arguments, deadline)
        try:
            return await to_thread.run_sync(work, limiter=self.places, abandon_on_cancel=True)
        finally:
            deadline.brake.stop()  # of a thread that nobody waits for any more

    # --- resources and prompts -------------------------------------------------------------------------------------

    async def list_resources(
        self, context: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """The grammar, and the schema of each store."""
        named = [(GRAMMAR, "grammar", "How queries are written, as a grammar", "text/markdown")]
        for name in self.seen(context).stores:
            about = f"Relations, attributes and examples of {name}"
            named.append((f"{SCHEMA}{name}", f"schema of {name}", about, "application/json"))
        resources = [
            types.Resource(uri=uri, name=name, description=about, mime_type=kind) for uri, name, about, kind in named
        ]
        return types.ListResourcesResult(resources=resources)

    async def read_resource(self, context: Context, asked: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(asked.uri)
        if uri == GRAMMAR:
            text, kind = grammar(), "text/markdown"
        elif uri.startswith(SCHEMA):
            store = self._store(context, uri.removeprefix(SCHEMA))
            text = json.dumps(await to_thread.run_sync(toolbox.schema, store), ensure_ascii=False)
            kind = "application/json"
        else:
            raise MCPError(types.INVALID_PARAMS, f"no resource {uri[:200]}; there are {GRAMMAR} and {SCHEMA}STORE")
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=text, mime_type=kind)])

    async def list_prompts(self, context: Context, _: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        arguments = [types.PromptArgument(name="question", description="in your own words", required=True)]
        names = list(self.seen(context).stores)
        if len(names) > 1:
            arguments.append(types.PromptArgument(name="store", description=f"one of {', '.join(names)}"))
        about = "Turn a question into a query, ask it, and answer from what comes back"
        return types.ListPromptsResult(
            prompts=[types.Prompt(name=PROMPT, title="Question to query", description=about, arguments=arguments)]
        )

    async def get_prompt(self, context: Context, asked: types.GetPromptRequestParams) -> types.GetPromptResult:
        given = asked.arguments or {}
        if asked.name != PROMPT or "question" not in given:
            raise MCPError(types.INVALID_PARAMS, f"the prompt is {PROMPT!r}, and its argument 'question'")
        text = question_prompt(self._store(context, given.get("store")), given["question"])
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(description="Question to query", messages=[message])

    def _store(self, context: Context, name: str | None) -> Any:
        try:
            return self.seen(context).store(name)
        except TupletError as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from None


def _complaint(problem: dict[str, Any]) -> str:
    """An error as a language model reads it best: the sentence, the place, how to go on."""
    where = f" (line {problem['line']}, column {problem['column']})" if "line" in problem else ""
    parts = [problem["error"] + where, problem.get("excerpt", ""), problem.get("hint", "")]
    return "\n".join(filter(None, parts))


def run(tools: Toolbox) -> None:
    """Serve one client until it closes standard input."""

    async def serve() -> None:
        server = ToolServer(tools).server
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(serve)


PATH = "/mcp"


def guarded_tools(tools: Toolbox, keys: KeyFile | None, logs: LogSettings | None = None) -> Starlette:
    """An ASGI application: a request with a key that may read, or from this machine where there are no keys."""

    def seen(context: Context) -> Toolbox:
        key: KeyOwner | None = context.request.scope[REQUEST].key if context.request is not None else None
        return tools.limited_to(None if key is None else key.stores)

    # Nothing is kept between two requests: any of them may come over a connection, or to a process, of its own.
    app = ToolServer(tools, seen).server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=tools.limits.max_body,
        # the guard has looked at hosts and origins already
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    app.add_middleware(Guard, keys, scopes=("read", "admin"))
    app.add_middleware(RequestLog, AccessLog(logs or LogSettings()))
    return app


def listen(
    tools: Toolbox, host: str, port: int, key_file: str | None, logs: LogSettings, say: Callable[[str], None]
) -> None:
    keys = check_keys(key_file, host)
    with bind_socket(host, port) as listening:
        listening.listen(128)
        address = f"[{host}]" if ":" in host else host
        app = guarded_tools(tools, keys, logs)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, ws="none"))
        say(f"http://{address}:{listening.getsockname()[1]}{PATH}")
        asyncio.run(server.serve(sockets=[listening]))
