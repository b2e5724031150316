"""The HTTP server: the same answers as the command line, as JSON and as a web page."""

PLUGINS = {"commands": {"serve": "tuplet.server.commands:SERVE", "mcp": "tuplet.server.commands:MCP"}}
