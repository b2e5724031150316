"""What a language model has to know to write a query: the language in a few lines, with examples from the store."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tuplet.lang.brief_language import LANGUAGE
from tuplet.progress import aligned
from tuplet.query.examples import examples
from tuplet.store import Store

_GRAMMAR = Path(__file__).parent / "grammar.md"
_RELATIONS = 40  # that a prompt lists


def teaching(store: Store | None = None, most: int = 3) -> str:
    """The query language in a few lines, with queries that work on a store."""
    if store is None:
        return LANGUAGE
    shown = [f"  {' '.join(example['query'].split())}" for example in examples(store.source)[:most]]
    return "\n".join([LANGUAGE, *(["Queries that work here:", *shown] if shown else [])])


@cache
def grammar() -> str:
    """The whole grammar of logic text, and what it means."""
    return _GRAMMAR.read_text(encoding="utf-8")


def question_prompt(store: Store, question: str) -> str:
    """What to tell a language model that is to turn a question into a query on a store."""
    rows = store.relations()
    listed = [
        [f"  {row.relation}", f"{row.facts:,} facts", f"e.g. {row.head} → {row.tail}"] for row in rows[:_RELATIONS]
    ]
    more = [f"  and {len(rows) - _RELATIONS} more (schema, find)"] if len(rows) > _RELATIONS else []
    return "\n".join(
        [
            "Turn the question into a query on a knowledge graph, ask it, and answer from what comes back.",
            "",
            teaching(store),
            "",
            "Relations (head → tail):",
            *aligned(listed),
            *more,
            "",
            "1. Find the exact name of everything the question names (tool `find`).",
            "2. Write the query; what the question asks for are the variables in front. Ask it (tool `ask`).",
            "3. An error says where it is and what was perhaps meant: correct the query and ask again.",
            "4. Answer with the tuples. Say which are stated and which are predicted, and how likely those are. If the "
            "first has little truth, say that the graph does not know.",
            "",
            f"Question: {question}",
        ]
    )
