"""What `import tuplet` offers: names, signatures, and stores that are read and written by many."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import pydoc
import subprocess
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import tuplet
from tuplet.engines.exact import Exact
from tuplet.errors import BadInput, StoreBusy, TupletError
from tuplet.files import locked
from tuplet.predict.config import TrainConfig
from tuplet.query.limits import LimitFields, Limits
from tuplet.settings import types

PAIRS = "?x, ?y : r(?x, ?y)"


@pytest.fixture
def store(tmp_path: Path) -> tuplet.Store:
    """A weighted graph, which needs no training: truth falls from 0.99 in steps."""
    facts = [(f"a{i:03}", "r", f"b{i:03}", (990 - i) / 1000) for i in range(250)]
    return tuplet.build(facts, tmp_path / "s", progress=False)


def test_dir_and_all_are_the_public_names() -> None:
    assert dir(tuplet) == sorted(tuplet.__all__)
    for name in tuplet.__all__:
        assert getattr(tuplet, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'biuld'"):
        tuplet.biuld  # type: ignore[attr-defined]


def test_help_shows_what_is_loaded_late() -> None:
    text = pydoc.plain(pydoc.render_doc(tuplet))
    for name in ("class Store(", "class Answers(", "class Answer(", "ask_many(", "stream(", "build(", "train("):
        assert name in text


def test_import_brings_in_nothing_heavy() -> None:
    code = "import sys, tuplet; print([m for m in ('numpy', 'torch', 'pyarrow', 'numba') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_keywords_of_ask_are_the_fields_of_limits() -> None:
    assert get_type_hints(LimitFields) == {**types(Limits), "memory": int | str | None}  # "2G" is kept as a number
    for method in (tuplet.Store.ask, tuplet.Store.ask_many, tuplet.Store.stream, tuplet.Store.score, tuplet.Graph.ask):
        assert {f.name for f in fields(Limits)} <= set(inspect.signature(method).parameters)
    for function in (tuplet.build, tuplet.train):
        assert {f.name for f in fields(TrainConfig)} <= set(inspect.signature(function).parameters)


def test_engines_are_listed_and_the_package_is_still_a_package() -> None:
    from tuplet.engines import crisp

    assert crisp.__name__ == "tuplet.engines.crisp"
    rows = {row.engine: row for row in tuplet.engines()}
    assert rows["exact"].exact
    assert not rows["crisp"].needs_truth
    assert str(tuplet.engines()).splitlines()[0].split()[:2] == ["engine", "summary"]


def test_a_graph_can_be_asked() -> None:
    graph = tuplet.read([("paris", "in", "france"), ("lyon", "in", "france")])
    assert repr(graph) == "<Graph: 3 entities, 1 relation, 2 edges>"
    assert [tuple(answer) for answer in graph.ask("?x : in(?x, france)", k=5)] == [("lyon",), ("paris",)]
    with pytest.raises(TupletError, match="unknown limit 'tiemout'; did you mean 'timeout'"):
        graph.ask("?x : in(?x, france)", tiemout=1)  # type: ignore[call-arg]


def test_train_and_index_are_the_parts_of_build(tmp_path: Path) -> None:
    graph = tuplet.read([(f"e{i}", "r", f"e{(i * 7) % 30}") for i in range(30)])
    model = tuplet.train(graph, tmp_path / "m", epochs=1, rank=4, progress=False)
    store = tuplet.index(graph, model, tmp_path / "s", progress=False)
    assert len(store.ask(PAIRS, k=3)) == 3
    with pytest.raises(BadInput) as error:
        tuplet.index(graph, model, tmp_path / "s", progress=False)
    assert str(error.value).endswith("already exists; force=True replaces it")
    assert error.value.shell.endswith("already exists; --force replaces it")


def test_a_stream_is_the_list_in_pages(store: tuplet.Store) -> None:
    pages = list(store.stream(PAIRS))
    assert [len(page) for page in pages] == [100, 150]
    whole = [answer.to_dict() for answer in store.ask(PAIRS, k="all")]
    assert [answer.to_dict() for page in pages for answer in page] == whole
    assert [tuple(a) for page in store.stream(PAIRS, k=3, offset=2) for a in page] == [
        tuple(row["values"].values()) for row in whole[2:5]
    ]


def test_an_event_loop_asks_and_streams(store: tuplet.Store) -> None:
    async def both() -> tuple[list[dict[str, Any]], list[int]]:
        answers, other = await asyncio.gather(store.ask_async(PAIRS, k=5), store.ask_async(PAIRS, k=5))
        assert list(answers.rows()) == list(other.rows())
        with pytest.raises(tuplet.TupletError, match="unknown relation"):
            await store.ask_async("?x : nothing(?x, ?x)")
        return list(answers.rows()), [len(page) async for page in store.stream_async(PAIRS)]

    assert asyncio.run(both()) == (list(store.ask(PAIRS, k=5).rows()), [100, 150])


class Endless(Exact):
    """Searches until its deadline says that nobody waits."""

    name = "endless"
    ended = threading.Event()
    began = threading.Event()

    def run(self, plan: Any, limits: Any, deadline: Any) -> Any:
        self.began.set()
        while not deadline.over():
            time.sleep(0.001)
        self.ended.set()
        return super().run(plan, limits, deadline)


def test_a_cancelled_task_ends_its_search(store: tuplet.Store) -> None:
    async def leave() -> None:
        task = asyncio.create_task(store.ask_async(PAIRS, engine=f"{__name__}:Endless"))
        await asyncio.to_thread(Endless.began.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    assert Endless.ended.wait(60)


def test_given_tuples_are_explained_in_their_order(store: tuplet.Store) -> None:
    first = store.explain(PAIRS, {"y": "b010", "x": "a010"})
    assert (first.truth, first.status, first.witness[0].head) == (pytest.approx(0.98), "observed", "a010")
    several = store.explain(PAIRS, [("a020", "b020"), ("a010", "b010"), ("a010", "b020")])
    assert [answer.x for answer in several] == ["a020", "a010", "a010"]
    assert several[2].truth == 0
    assert "truth 0: no facts" in str(several[2].explain())
    with pytest.raises(BadInput, match="an entity for x, y and for nothing else"):
        store.explain(PAIRS, {"x": "a010"})
    assert tuplet.Store(tuplet.Source(store.graph)).explain(PAIRS, ("a010", "b010")).truth == 1


def test_what_is_in_a_store(store: tuplet.Store, world_store: tuplet.Store) -> None:
    relations = world_store.relations()
    assert (relations[0].relation, relations[0].facts, relations[0].predicted) == ("member_of", 1033, None)
    assert sum(row.facts for row in relations) == 5036
    assert relations.to_pandas()["relation"].tolist() == [row.relation for row in relations]
    assert [row.name for row in world_store.find("New York")] == ["new_york_city"]
    assert [row.name for row in world_store.find("border", relations=True)] == ["borders"]
    about = world_store.entity("France", k=3)
    assert ("france", "has_capital", "paris") in {(fact.head, fact.relation, fact.tail) for fact in about}
    assert str(about).startswith("France: ")
    assert [fact.truth for fact in store.entity("a010")] == [pytest.approx(0.98)]
    with pytest.raises(TupletError, match="did you mean 'france'"):
        world_store.entity("frnce")
    info = world_store.info()
    assert info["relation_names"][0] == "member_of"
    for query in info["try"]:
        world_store.ask(query)


def test_one_bad_query_of_many(store: tuplet.Store) -> None:
    queries = [PAIRS, "?x : nothing(?x, b000)", PAIRS]
    with pytest.raises(TupletError) as error:
        store.ask_many(queries)
    assert error.value.__notes__ == ["in query 2 of 3"]
    assert error.value._render_traceback_()[-1] == "in query 2 of 3", "a notebook says it too"
    first, second, third = store.ask_many(queries, errors="return", k=2)
    assert isinstance(second, TupletError)
    assert [len(found) for found in (first, third) if not isinstance(found, TupletError)] == [2, 2]


def test_a_store_travels_by_its_path(store: tuplet.Store, world_directory: Path) -> None:
    back = pickle.loads(pickle.dumps(store))
    assert back.ask(PAIRS, k=5).to_dict()["answers"] == store.ask(PAIRS, k=5).to_dict()["answers"]
    graph = pickle.loads(pickle.dumps(tuplet.open(world_directory, observed="train")))
    assert graph.source.splits == ("train",)
    memory = pickle.loads(pickle.dumps(tuplet.Store(tuplet.Source(tuplet.read([("a", "r", "b")])))))
    assert len(memory.ask(PAIRS)) == 1


def test_a_closed_store_says_so(store: tuplet.Store) -> None:
    assert store.path is not None
    with tuplet.open(store.path) as opened:
        assert len(opened.ask(PAIRS, k=1)) == 1
    assert repr(opened).endswith("closed>")
    with pytest.raises(BadInput, match="is closed"):
        opened.ask(PAIRS)


def test_a_change_is_seen_after_refresh(store: tuplet.Store) -> None:
    assert store.path is not None
    other = tuplet.open(store.path)
    assert not other.refresh()
    store.add([("a000", "r", "b001", 0.5)])
    assert len(other.ask("?y : r(a000, ?y)")) == 1
    assert other.refresh()
    assert len(other.ask("?y : r(a000, ?y)")) == 2


def test_many_threads_ask_while_one_adds(store: tuplet.Store) -> None:
    """Every answer comes from one state: with n added facts there are 1 + n answers, and n never falls."""
    wrong: list[object] = []
    done = threading.Event()

    def ask() -> None:
        seen = 0
        while not done.is_set():
            try:
                answers = store.ask("?y : r(a000, ?y)", k="all")
                names = {answer.y for answer in answers}
                if len(names) < seen or names != {f"b{i:03}" for i in range(len(names))}:
                    wrong.append(names)
                seen = len(names)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        for i in range(1, 6):
            store.add([("a000", "r", f"b{i:03}", 0.5)])
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(store.ask("?y : r(a000, ?y)", k="all")) == 6


def test_writers_take_turns(store: tuplet.Store) -> None:
    assert store.path is not None
    failed: list[BaseException] = []

    def add(number: int) -> None:
        try:
            tuplet.open(store.path).add([(f"a{number:03}", "r", "b200", 0.5)])  # type: ignore[arg-type]
        except TupletError as error:
            failed.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert store.refresh()
    assert len(store.ask("?x : r(?x, b200)")) == 5
    with locked(store.path), pytest.raises(StoreBusy, match="is being written"):
        store.add([("a000", "r", "b009", 0.5)], timeout=0.01)
