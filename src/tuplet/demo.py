"""The main job on the bundled graph of countries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tuplet.graph.graph import KnowledgeGraph

WORLD = Path(__file__).parent / "data" / "world"


def bundled() -> KnowledgeGraph:
    """The graph that ships with the package: countries, borders, languages, currencies, organisations."""
    from tuplet.graph.readers import read

    return read(WORLD / "facts.tsv", labels=[WORLD / "labels.tsv"])


def run(say: Callable[[str], None], quiet: bool = False) -> None:
    """Ask the bundled graph and say what it answers."""
    from tuplet.engine.engines import Source
    from tuplet.store import Store

    store = Store(Source(bundled()))
    say(f"{store}\n")
    for query in (
        "?x, ?y : borders(?x, ?y) & member_of(?x, nato) & member_of(?y, nato) & !member_of(?x, european_union)",
    ):
        say(query)
        say(f"{store.ask(query, k=5)}\n")
