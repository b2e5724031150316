"""The tools of `tuplet.server.tools` over the Model Context Protocol."""
