"""What the server does: stores by name, queries in a bounded number of threads, answers as bytes.

The compiled searches release the interpreter lock, so one long query does not hold up the others of its process.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar, cast

from tuplet.engines.registry import BASELINES, ENGINES, engine_named
from tuplet.errors import BadInput, TupletError, nearest
from tuplet.lang.ast import Name
from tuplet.lang.parse import parse
from tuplet.query.answers import Answers
from tuplet.query.ask import ask, plan_text, prepare
from tuplet.query.bind import resolve
from tuplet.query.logic import Logic
from tuplet.query.witness import Stated, Witnesses, crisp_answers
from tuplet.serve import models
from tuplet.serve.drawing import draw, write
from tuplet.serve.examples import examples, relation_counts
from tuplet.serve.finding import Finder
from tuplet.serve.limits import Limits, OverLimit, TooBusy, UnknownStore, problem
from tuplet.serve.metrics import Metrics
from tuplet.store import Store

T = TypeVar("T")
# The oracle looks at all of E^k and knows no time limit; trained baselines need a model: both are for the command line.
SERVED_BASELINES = ("fit", "qto", "cqd")
NOT_SERVED = ("brute", *(name for name in BASELINES if name not in SERVED_BASELINES))
NOT_CHOSEN = ("model", "device")  # files and devices are the server's, not the client's
_LINES = 256  # answers of one piece of a stream
_LONG = 0.4  # seconds after which a query steps back behind the others
_STEP_BACK = 5  # steps of niceness: a third of the processor of the others; less would hold the lock for too long

# What one search may hold, so that a hostile query cannot take the machine.
MEMORY = 512 << 20


class Service:
    """Stores, limits and counters of one process."""

    def __init__(self, stores: Mapping[str, Store], limits: Limits, metrics: Metrics) -> None:
        self.stores, self.limits, self.metrics = dict(stores), limits, metrics
        self.finders = {name: Finder(store.graph.entities) for name, store in self.stores.items()}
        self._places = asyncio.Semaphore(limits.concurrent)
        self._waiting = 0

    def warm(self) -> None:
        """Load what is compiled before the first request."""
        for store in self.stores.values():
            engine_named(store.default_engine).load()
            with suppress(TupletError):
                for example in examples(store.source)[:2]:
                    store.ask(example["query"], k=3, timeout=1.0)

    # --- places ----------------------------------------------------------------------------------------

    async def run(self, work: Callable[[], T]) -> T:
        """Do work in a thread once there is a place; refuse if too many wait already, or for too long."""
        if self._waiting >= self.limits.waiting:
            raise TooBusy(f"{self._waiting} requests are waiting already; try again in a moment")
        self._waiting += 1
        self.metrics.add("requests_waiting")
        try:
            await asyncio.wait_for(self._places.acquire(), self.limits.time)
        except TimeoutError:
            raise TooBusy(f"no place for this query within {self.limits.time:g} s; try again in a moment") from None
        finally:
            self._waiting -= 1
            self.metrics.add("requests_waiting", -1)
        self.metrics.add("queries_running")
        return await asyncio.shield(self._thread(work))

    def _thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Work in a thread of its own; one that takes long goes on at lower priority, so that short queries stay short.

        A thread may lower its priority but not raise it again, so threads are not used twice.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def finish(result: T | None, error: BaseException | None) -> None:
            # A client that went away does not free the place: only the end of its query does.
            self._leave()
            timer.cancel()
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(cast(T, result))

        def target() -> None:
            result, failed = None, None
            try:
                result = work()
            except BaseException as error:
                failed = error
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(finish, result, failed)

        thread = threading.Thread(target=target, name="query")
        thread.start()
        timer = loop.call_later(_LONG, _lower, thread)
        return done

    def _leave(self) -> None:
        self._places.release()
        self.metrics.add("queries_running", -1)

    # --- queries ---------------------------------------------------------------------------------------------------

    def store(self, name: str | None) -> Store:
        """The store of a name; the first if none is given."""
        if name is None:
            return next(iter(self.stores.values()))
        if name not in self.stores:
            close = nearest(name, self.stores) or list(self.stores)[:3]
            raise UnknownStore(f"no store {name[:100]!r} is served; did you mean {' or '.join(map(repr, close))}?")
        return self.stores[name]

    def engines(self, store: Store) -> list[str]:
        """The engines that a store can be asked with."""
        if store.source.truth is None:
            return ["crisp"]
        return [store.default_engine, *(e for e in ENGINES if e not in (store.default_engine, *NOT_SERVED))]

    def answer(
        self,
        text: str,
        options: models.Options,
        grounding: Mapping[str, Any] | None = None,
        k: int | None = None,
        time_left: float | None = None,
    ) -> Answers:
        """The answers of one query, within the limits."""
        try:
            start = time.perf_counter()
            store = self.store(options.store)
            engine = options.engine or store.default_engine
            if engine not in self.engines(store):
                choices = self.engines(store)
                close = nearest(engine, choices) or choices
                raise BadInput(
                    f"engine {engine[:100]!r} is not served here; did you mean {' or '.join(map(repr, close))}?"
                )
            for key in options.options:
                if key in NOT_CHOSEN:
                    raise BadInput(f"option {key!r} is not taken over HTTP; use the command line")
            wanted = self.limits.check_k(k if k is not None else options.k)
            seconds = self.limits.check_time(options.timeout)
            if time_left is not None:
                seconds = min(seconds, time_left)
                if seconds <= 0:
                    raise OverLimit("time", f"the {self.limits.time:g} s of this request are used up")
            query = parse(text, grounding)
            self.limits.check_query(query)
            if wanted is None:
                self.limits.check_k(query.limit)
            answers = ask(
                store.source,
                query,
                k=wanted,
                engine=engine,
                logic=options.logic,
                timeout=seconds,
                memory=MEMORY,
                only=options.only,
                budget=options.budget,
                merge=options.merge,
                options=options.options,
                text=text,
            )
        except TupletError:
            self.metrics.refused()
            raise
        self.metrics.query(time.perf_counter() - start, len(answers), answers.exact)
        return answers

    def one(self, request: models.AskRequest) -> bytes:
        """`POST /ask` with one query, in the format asked for."""
        assert request.query is not None
        answers = self.answer(request.query, request, request.grounding)
        if request.format == "csv":
            return answers.to_csv().encode()
        if request.format == "parquet":
            import pyarrow.parquet

            sink = io.BytesIO()
            pyarrow.parquet.write_table(answers.to_arrow(), sink)
            return sink.getvalue()
        return encode(answers.to_dict())

    def batch(self, request: models.AskRequest) -> bytes:
        """`POST /ask` with several queries: each has its answers or its error, all share the time of one request."""
        queries = request.queries or []
        if len(queries) > self.limits.batch:
            raise OverLimit(
                "batch", f"the batch has {len(queries)} queries, this server takes at most {self.limits.batch}"
            )
        end = time.monotonic() + self.limits.time
        results: list[bytes] = []
        for given in queries:
            question = models.Question(query=given) if isinstance(given, str) else given
            left = end - time.monotonic()
            try:
                answers = self.answer(question.query, request, question.grounding, question.k, left)
                results.append(encode(answers.to_dict()))
            except TupletError as error:
                results.append(encode(problem(error, question.query)[1]))
        return b'{"results":[' + b",".join(results) + b"]}"

    async def stream(self, answers: Answers) -> AsyncIterator[bytes]:
        """Answers as lines of JSON: first what was asked and what is known of the rest, then tuple by tuple."""
        yield encode(answers.head()) + b"\n"
        for start in range(0, len(answers), _LINES):

            def lines(start: int = start) -> bytes:
                return b"".join(encode(row) + b"\n" for row in answers.rows(start, start + _LINES))

            yield await asyncio.to_thread(lines)

    def explain(self, request: models.ExplainRequest) -> bytes:
        """`POST /explain`: truth and witness of one given tuple."""
        store = self.store(request.store)
        source, graph = store.source, store.graph
        query = parse(request.query, request.grounding)
        self.limits.check_query(query)
        _, _, clauses = prepare(source, query, text=request.query)
        names = [variable.name for variable in query.free]
        if set(names) != set(request.values):
            raise BadInput(f"values has to name an entity for {', '.join(names)} and for nothing else")
        ids = [resolve(Name(request.values[name]), "entity", graph.entities) for name in names]
        if not clauses:
            raise BadInput("the query contradicts itself: it has no answers")
        from tuplet.query.point import explain_tuples

        ranking = explain_tuples(clauses, source, [ids], Logic.of(request.logic))
        edges = source.edges if source.truth is not None else Stated(source.facts)
        witnesses = Witnesses.of(ranking, clauses, edges)
        from tuplet.engines import crisp

        stated = crisp_answers(witnesses, ranking.tuples, lambda t: crisp.holds(clauses, source.facts, t))
        answers = Answers(request.query, tuple(names), "exact", 1, ranking, witnesses, graph, stated, 0.0, {})
        answer = answers[0]
        return encode({"query": request.query, **answer.to_dict(), "text": str(answer.explain())})

    def plan(self, request: models.PlanRequest) -> bytes:
        """`POST /plan`: how a query would be answered."""
        store = self.store(request.store)
        engine = request.engine or store.default_engine
        if engine not in self.engines(store):
            raise BadInput(f"engine {engine[:100]!r} is not served here; there are {', '.join(self.engines(store))}")
        query = parse(request.query, request.grounding)
        self.limits.check_query(query)
        text = plan_text(store.source, request.query, engine=engine, grounding=request.grounding)
        return encode({"query": request.query, "engine": engine, "plan": text})

    def drawing(self, request: models.ParseRequest) -> bytes:
        """`POST /parse`."""
        return encode(draw(request.query, self.store(request.store).graph, self.limits))

    def writing(self, request: models.WriteRequest) -> bytes:
        """`POST /write`."""
        return encode({"query": write(request, self.limits)})

    # --- what there is ---------------------------------------------------------------------------------------------

    def schema(self, name: str | None) -> bytes:
        """`GET /schema`: stores, engines, relations with counts, example queries, limits."""
        store = self.store(name)
        relations, graph = store.graph.relations, store.graph
        counts = relation_counts(store.source.facts).tolist()
        listed = [
            {"name": relations.name(i), "label": relations.label(i), "count": counts[i]} for i in range(len(relations))
        ]
        limits = self.limits
        return encode(
            {
                "stores": list(self.stores),
                "store": next(known for known, other in self.stores.items() if other is store),
                "entities": len(graph.entities),
                "facts": sum(counts),
                "predicted": store.source.truth is not None,
                "relations": sorted(listed, key=lambda r: (-int(str(r["count"])), str(r["name"]))),
                "engines": self.engines(store),
                "examples": examples(store.source),
                "limits": {"k": limits.k, "time": limits.time, "atoms": limits.atoms, "variables": limits.variables}
                | {"batch": limits.batch, "body": limits.body},
            }
        )

    def find(self, name: str | None, text: str, most: int) -> bytes:
        """`GET /schema/entities`: entities by the beginning of their name or label, then by what they contain."""
        store = self.store(name)
        known = next(known for known, other in self.stores.items() if other is store)
        return encode({"entities": self.finders[known].find(text, most)})

    def labels(self, name: str | None, names: list[str]) -> bytes:
        """`GET /schema/labels`: the labels of entities, where they have one."""
        entities = self.store(name).graph.entities
        found = {name: entities.find(name) for name in names}
        return encode({"labels": {name: entities.label(i) for name, i in found.items() if i >= 0}})


def _lower(thread: threading.Thread) -> None:
    """Give a thread that runs long less of the processor; where threads have no priority of their own, nothing."""
    if thread.is_alive() and thread.native_id is not None and sys.platform == "linux":
        with suppress(OSError):
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, thread.native_id, min(19, own + _STEP_BACK))


def encode(value: Any) -> bytes:
    """JSON as bytes, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
