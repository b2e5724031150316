"""Many queries at once: the same answers in the same order, whoever computes them."""

from __future__ import annotations

import os
import threading

import pytest

from tuplet import store as many
from tuplet.errors import TupletError, UnknownName
from tuplet.query.answers import Answers
from tuplet.store import Store

COUNTRIES = ("france", "spain", "germany", "italy", "poland")
QUERIES = [f"?x, ?y : borders(:{name}, ?x) & member_of(?x, ?y)" for name in COUNTRIES] * 40
WRONG = "?x : borders(?x, frence)"


def plain(found: list[Answers | TupletError]) -> list[object]:
    return [
        {key: value for key, value in answers.to_dict().items() if key != "elapsed_ms"}
        if isinstance(answers, Answers)
        else str(answers)
        for answers in found
    ]


def one_by_one(store: Store, queries: list[str]) -> list[Answers | TupletError]:
    def answer(number: int) -> Answers | TupletError:
        try:
            return store.ask(queries[number], k=5)
        except TupletError as error:
            return error

    return [answer(number) for number in range(len(queries))]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("workers", [2, 3])
def test_forked_workers_change_nothing(world_store: Store, workers: int) -> None:
    queries = [*QUERIES[:100], WRONG, *QUERIES]
    single = one_by_one(world_store, queries)
    assert plain(many._answer_forked(lambda number: single[number], len(queries), workers)) == plain(single)
    forked = many._answer_forked(lambda number: one_by_one(world_store, [queries[number]])[0], len(queries), workers)
    assert plain(forked) == plain(single)


def test_asking_many_is_asking_one_after_another(world_store: Store) -> None:
    assert plain(list(world_store.ask_many(QUERIES, k=5))) == plain(one_by_one(world_store, QUERIES))


def test_a_wrong_query_is_said_as_alone(world_store: Store) -> None:
    queries = [*QUERIES, WRONG, *QUERIES]
    with pytest.raises(UnknownName, match="'frence'; did you mean"):
        world_store.ask_many(queries)


def test_threads_serve_where_no_fork_is_safe(world_store: Store) -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        assert plain(list(world_store.ask_many(QUERIES, k=5))) == plain(one_by_one(world_store, QUERIES))
    finally:
        done.set()
        other.join()
