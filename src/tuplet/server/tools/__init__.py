"""Questions to a store as tools for agents: plain functions with JSON schemas, and facts for generation.

`tools.ask(store, query)` and its sisters `schema`, `find`, `explain` and `score` take and give what JSON can say. A
`Toolbox` holds stores and limits: `definitions()` is what a language model is shown, `call(name, arguments)` does what
it asks for, and answers mistakes with what is wrong, where, and what was perhaps meant. `tuplet mcp` offers the same
over the Model Context Protocol. `Retriever` finds facts, stated and predicted, that a text speaks of.
"""

from tuplet.server.tools.retriever import RetrievedFact, Retriever
from tuplet.server.tools.toolbox import (
    DEFINITIONS,
    Toolbox,
    ToolDefinition,
    ask,
    explain,
    find,
    grammar,
    question_prompt,
    schema,
    score,
    teaching,
)

__all__ = [
    "DEFINITIONS",
    "RetrievedFact",
    "Retriever",
    "ToolDefinition",
    "Toolbox",
    "ask",
    "explain",
    "find",
    "grammar",
    "question_prompt",
    "schema",
    "score",
    "teaching",
]
