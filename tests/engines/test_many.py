"""Many queries at once: the same answers in the same order, whoever computes them."""

from __future__ import annotations

import os
import threading

import pytest

from tuplet.errors import UnknownName
from tuplet.graph.graph import KnowledgeGraph
from tuplet.query import many
from tuplet.store import Store

COUNTRIES = ("france", "spain", "germany", "italy", "poland")
QUERIES = [f"?x, ?y : borders(:{name}, ?x) & member_of(?x, ?y)" for name in COUNTRIES] * 40


def same(left: list[many.Answers], right: list[many.Answers]) -> bool:
    def plain(found: list[many.Answers]) -> list[object]:
        return [{k: v for k, v in a.to_dict().items() if k != "elapsed_ms"} for a in found]

    return plain(left) == plain(right)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_forked_workers_change_nothing(world_store: Store) -> None:
    options = {"engine": "crisp", "k": 5}
    single = [world_store.ask(query, **options) for query in QUERIES]
    for workers in (2, 3):
        assert same(many._forked(world_store.source, QUERIES, options, workers), single)
    assert same(world_store.ask_many(QUERIES, k=5), single)


def test_a_wrong_query_is_said_as_alone(world_store: Store, world: KnowledgeGraph) -> None:
    queries = [*QUERIES, "?x : borders(?x, frence)", *QUERIES]
    with pytest.raises(UnknownName, match="'frence'; did you mean"):
        world_store.ask_many(queries)
    with pytest.raises(UnknownName, match="'frence'; did you mean"):
        many._forked(world_store.source, queries, {"engine": "crisp"}, 2)


def test_no_fork_beside_other_threads(world_store: Store) -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        assert not many._forkable(world_store.source, {"engine": "crisp"})
        assert len(world_store.ask_many(QUERIES[:150], k=1)) == 150
    finally:
        done.set()
        other.join()
