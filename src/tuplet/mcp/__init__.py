"""The tools of `tuplet.tools` over the Model Context Protocol."""
