"""The protocol on standard input and output. What anything else prints goes to standard error."""

from __future__ import annotations

import anyio
from mcp.server.stdio import stdio_server

from tuplet.server.mcp.server import ToolServer
from tuplet.server.tools.toolbox import Toolbox


def run(tools: Toolbox) -> None:
    """Serve one client until it closes standard input."""

    async def serve() -> None:
        server = ToolServer(tools).server
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(serve)
