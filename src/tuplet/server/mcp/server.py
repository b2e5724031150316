"""A server of the Model Context Protocol: tools, the grammar and the schemas as resources, and a prompt."""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from anyio import CapacityLimiter, to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from tuplet._version import __version__
from tuplet.errors import TupletError
from tuplet.server.requests.limits import TooBusy
from tuplet.server.tools import functions
from tuplet.server.tools.teaching import grammar, question_prompt, teaching
from tuplet.server.tools.toolbox import Toolbox

GRAMMAR = "tuplet://grammar"
SCHEMA = "tuplet://schema/"
PROMPT = "question"

INSTRUCTIONS = """\
A knowledge graph that answers queries about what is stated and about what is likely though nobody stated it. Call \
`schema` first, `find` for exact names, then `ask`; `explain` says why, `score` judges given tuples. Every answer has \
a truth between 0 and 1: 1 is stated, less is predicted. Tell people which it is."""


Context = ServerRequestContext[Any, Any]


class ToolServer:
    """Answers requests of clients with a toolbox; `seen` says what part of it a request may use."""

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
        """Compile while the client says hello: a call that comes first waits for what it needs, not for everything."""
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
        """All tools, described for the stores that the client may see."""
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
        """What a tool gives, as data and as text; of a mistake what is wrong, so that the client can mend it."""
        tools = self.seen(context)
        try:
            found = await self._in_thread(tools, asked)
        except TupletError as error:
            found = tools.told(error)
        wrong = "error" in found
        text = _complaint(found) if wrong else json.dumps(found, ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=found, is_error=wrong)

    async def _in_thread(self, tools: Toolbox, asked: types.CallToolRequestParams) -> dict[str, Any]:
        """The call in a thread, at most so many at once; it ends when the client goes away or cancels it."""
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
        """One of them as text."""
        uri = str(asked.uri)
        if uri == GRAMMAR:
            text, kind = grammar(), "text/markdown"
        elif uri.startswith(SCHEMA):
            store = self._store(context, uri.removeprefix(SCHEMA))
            text = json.dumps(await to_thread.run_sync(functions.schema, store), ensure_ascii=False)
            kind = "application/json"
        else:
            raise MCPError(types.INVALID_PARAMS, f"no resource {uri[:200]}; there are {GRAMMAR} and {SCHEMA}STORE")
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=text, mime_type=kind)])

    async def list_prompts(self, context: Context, _: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        """The one prompt there is."""
        arguments = [types.PromptArgument(name="question", description="in your own words", required=True)]
        names = list(self.seen(context).stores)
        if len(names) > 1:
            arguments.append(types.PromptArgument(name="store", description=f"one of {', '.join(names)}"))
        about = "Turn a question into a query, ask it, and answer from what comes back"
        return types.ListPromptsResult(
            prompts=[types.Prompt(name=PROMPT, title="Question to query", description=about, arguments=arguments)]
        )

    async def get_prompt(self, context: Context, asked: types.GetPromptRequestParams) -> types.GetPromptResult:
        """The prompt for a question."""
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
