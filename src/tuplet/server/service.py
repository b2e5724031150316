"""What is done before the first request, so that nothing is imported or compiled while clients wait."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple, TypeVar

from tuplet import settings
from tuplet.engines.given import explain, judge
from tuplet.errors import BadInput, TupletError, unknown
from tuplet.graph.names import Finder
from tuplet.query import evidence
from tuplet.query.answers import Answers
from tuplet.query.ask import Question, ask, plan_text
from tuplet.query.contents import by_facts, examples
from tuplet.query.engine import Engine
from tuplet.query.limits import DEFAULT_K, Deadline, Limits
from tuplet.server import models
from tuplet.server.asking import QueryService, ask_all
from tuplet.server.control import Generations
from tuplet.server.drawing import draw, write
from tuplet.server.encoding import encode, to_json
from tuplet.server.entity_card import entity_card
from tuplet.server.http import Reply, Request
from tuplet.server.limits import OverLimit, Sending, ServerLimits, problem
from tuplet.server.logs import notes
from tuplet.server.metrics import ServerMetrics
from tuplet.server.scheduling import FirstTries, Places, Try, Unfinished
from tuplet.server.snapshots import ServedStores, per_store
from tuplet.server.sparql_results import NO_BASE, BaseIri
from tuplet.store import Store

T = TypeVar("T")
NOT_CHOSEN = ("model", "device")  # options that name files and devices: the server's, not the client's
_TOGETHER = 16  # queries of a batch that go through each step together: docs/contributing/tricks.md has the gain
_FEW, _BRIEF = 100, 2000  # answers, and characters, of a query that is tried in the event loop first
_TO_ENCODE = (0.1, 0.25)  # share of the time, at most so many seconds, that a search leaves for writing its answers


class PreparedQuery(NamedTuple):
    store: str
    question: Question
    engine: Engine[Any]
    limits: Limits
    seconds: float  # that it took so far

    @property
    def surely_short(self) -> bool:
        """Whether all that may take long looks at the clock often: a search that begins at a named entity."""
        question, limits = self.question, self.limits
        few = isinstance(limits.k, int) and limits.k + limits.offset <= _FEW and not limits.evidence
        if not few or not self.engine.looks_often or not question.plain or len(question.clauses) != 1:
            return False
        return any(edge.head < 0 or edge.tail < 0 for edge in question.clauses[0].edges)


class Service(QueryService):
    """Stores, limits and counters of one process."""

    def __init__(
        self, stores: Mapping[str, Store], limits: ServerLimits, metrics: ServerMetrics, base: BaseIri = NO_BASE
    ) -> None:
        self.served, self.limits, self.metrics = ServedStores(stores, self._warm), limits, metrics
        self.base = base
        self.engines, self.finder, self._described = (
            per_store(_engines),
            per_store(lambda store: Finder(store.graph.entities)),
            per_store(self._schema),
        )
        self.sending, self.arriving = Sending(limits.max_sending), Sending(limits.max_sending, "requests")
        room = limits.max_concurrent, limits.max_waiting
        self.places = Places(*room, metrics, limits.max_memory, unread=self.sending.unread)
        self.small = Places(1, limits.max_waiting, metrics, short=math.inf)
        self.tries = FirstTries(limits.max_waiting, metrics)

    @property
    def stores(self) -> Mapping[str, Store]:
        """The stores that the request at hand sees; outside of requests, all."""
        seen = notes().stores
        return self.served.current if seen is None else seen

    def warm(self) -> None:
        """Load what is compiled before the first request."""
        evidence.load()
        for name, store in self.stores.items():
            self._warm(name, store)
        self.served.on_switch = self._set_generations
        self._set_generations(self.served.generations())

    def load_all(self) -> None:
        """Ask every engine once, so that nothing is imported or compiled while others wait for their answers."""
        for store in self.stores.values():
            ask_all(store, self.engines(store).values(), self.limits.max_memory)

    def _set_generations(self, generations: Generations) -> None:
        for name, (number, *_) in generations.items():
            self.metrics.set_generation(name, number)

    def _warm(self, name: str, store: Store) -> None:
        self.engines(store)  # plug-ins are loaded here, never because a request names one
        self._described(store)
        ask_all(store, [store.engine()], None)

    # --- places ----------------------------------------------------------------------------------------------------

    async def run(
        self, request: Request, deadline: Deadline, work: Callable[[], Reply | bytes], short: bool = False
    ) -> Reply:
        """Search in a thread once the client has a place; the search ends if the client goes away. Work that may be
        `short` is tried in the event loop first.
        """
        packed = self._packed(request, work)
        if short and (tried := await self.tries.run(request.asker, deadline, packed)) is not None:
            return tried
        return await self.places.run(request.asker, deadline, packed, request.gone)

    async def aside(self, request: Request, work: Callable[[], Reply | bytes]) -> Reply:
        """Do something quick, one request after another, apart from searches and the event loop."""
        return await self.small.run(request.asker, self.limits.deadline(), self._packed(request, work), request.gone)

    def _packed(self, request: Request, work: Callable[[], Reply | bytes]) -> Callable[[], Reply]:
        """The same work for a thread, with the context of the request; its reply is compressed there."""

        def packed() -> Reply:
            found = work()
            return (Reply(found) if isinstance(found, bytes) else found).packed_for(request)

        return partial(copy_context().run, packed)

    def may_be_short(self, asked: models.AskRequest) -> bool:
        """Whether a request is read in a moment; `PreparedQuery.surely_short` looks at the query itself."""
        if asked.query is None or len(asked.query) > _BRIEF or asked.parameters or asked.format != "json":
            return False
        store = self.stores.get(asked.store or next(iter(self.stores), ""))
        engine = self.engines(store).get(asked.engine or store.default_engine) if store is not None else None
        return engine is not None and engine.looks_often

    # --- queries ---------------------------------------------------------------------------------------------------

    def engine(self, store: Store, name: str | None, deadline: Deadline) -> Engine[Any]:
        """The engine of a name, loaded; loading does not use up the time of the request."""
        served = self.engines(store)
        name = name or store.default_engine
        if name not in served:
            raise unknown("engine", name[:100], served)
        with deadline.paused():
            served[name].load(store.source)
        return served[name]

    def answer(self, asked: models.AskRequest, deadline: Deadline, default_k: int = DEFAULT_K) -> Answers:
        """The answers of one query, within the limits; `default_k` where neither the request nor the query has one."""
        return self.search(self.prepare(asked, deadline, default_k), deadline)

    def prepare(self, asked: models.AskRequest, deadline: Deadline, default_k: int = DEFAULT_K) -> PreparedQuery:
        start = deadline.clock()
        with self._counting_errors():
            limits = asked.limits()
            for key in limits.options:
                if key in NOT_CHOSEN:
                    raise BadInput(f"option {key!r} is not taken over HTTP; use the command line")
            name = self.named(asked.store)
            store = self.stores[name]
            engine = self.engine(store, asked.engine, deadline)
            question = self.question(store, asked.query or "", asked.grounding, asked.parameters)
            limits = self.settled(limits, question, deadline, default_k)
        return PreparedQuery(name, question, engine, limits, deadline.clock() - start)

    def search(self, query: PreparedQuery, deadline: Deadline) -> Answers:
        if isinstance(deadline.brake, Try) and not query.surely_short:
            raise Unfinished
        start, engine = deadline.clock(), query.engine.name
        with self._counting_errors():
            answers = ask(query.question, query.engine, judge, query.limits, deadline.before(*_TO_ENCODE))
        if isinstance(deadline.brake, Try) and deadline.brake.stopped:
            raise Unfinished
        took = deadline.clock() - start + query.seconds
        self.metrics.count_answers(query.store, engine, took, len(answers), answers.exact, answers.pruned)
        notes().asked(query.store, engine, query.question.text, answers.pruned)
        return answers

    @contextmanager
    def _counting_errors(self) -> Iterator[None]:
        try:
            yield
        except TupletError as error:
            self.metrics.count("tuplet_query_errors_total", problem(error)[1]["kind"])
            raise

    def batch(self, request: models.AskRequest, deadline: Deadline) -> bytes:
        """`POST /ask` with several queries: each has its answers or its error, all share the time of one request."""
        queries = request.queries or []
        if len(queries) > self.limits.max_batch:
            raise OverLimit(
                "batch", f"the batch has {len(queries)} queries, this server takes at most {self.limits.max_batch}"
            )
        results: list[bytes] = []
        most = room = self.limits.max_answer_bytes

        def prepare(query: str | models.BatchQuery) -> PreparedQuery:
            keys = {"query": query} if isinstance(query, str) else query.model_dump(exclude_none=True)
            return self.prepare(request.model_copy(update=keys), deadline)

        def search(query: PreparedQuery) -> Answers:
            if deadline.over():
                raise self._used_up("time", f"the {deadline.seconds:g} s of this request are used up")
            return self.search(query, deadline)

        def written(answers: Answers) -> bytes:
            if room < 0:
                raise self._used_up("bytes", f"the {most:,} bytes that this server sends to a request are used up")
            return to_json(answers, deadline, room)

        for start in range(0, len(queries), _TOGETHER):
            prepared = [_or_error(prepare, query) for query in queries[start : start + _TOGETHER]]
            found = [_or_error(search, query) for query in prepared]
            for answers in found:
                result = _or_error(written, answers)
                results.append(result if isinstance(result, bytes) else encode(problem(result)[1]))
                room -= len(results[-1])
        return b'{"results":[' + b",".join(results) + b"]}"

    def _used_up(self, limit: str, message: str) -> OverLimit:
        self.metrics.count("tuplet_query_errors_total", "limit")
        notes().pruned = "timeout"
        return OverLimit(limit, message)

    def explain(self, request: models.ExplainRequest, deadline: Deadline) -> bytes:
        """Truth and witness of a given tuple."""
        store = self.store(request.store)
        engine = self.engine(store, None, deadline)
        question = self.question(store, request.query, request.grounding, request.parameters)
        limits = Limits(logic=request.logic, timeout=request.timeout, evidence=request.evidence)
        [answer] = explain(question, [request.values], engine, limits, deadline)
        missing = [asdict(fact) for fact in answer.missing]
        return encode({"query": request.query, **answer.to_dict(), "missing": missing, "text": str(answer.explain())})

    def plan(self, request: models.PlanRequest, deadline: Deadline) -> bytes:
        """How a query would be answered."""
        store = self.store(request.store)
        engine = self.engine(store, request.engine, deadline)
        text = plan_text(self.question(store, request.query, request.grounding, request.parameters), engine)
        return encode({"query": request.query, "engine": engine.name, "plan": text})

    def parse(self, request: models.ParseRequest) -> bytes:
        """A query as a graph, in every language, or what is wrong with it."""
        return encode(draw(request.query, self.store(request.store).source, self.limits, self.base, request.parameters))

    def write(self, request: models.WriteRequest) -> bytes:
        """A drawn query as text."""
        return encode({"query": write(request, self.store(request.store).source, self.limits)})

    # --- what there is ---------------------------------------------------------------------------------------------

    def schema(self, asked: models.StoreParameters) -> bytes:
        """Stores, engines, relations with counts, attributes, examples, limits."""
        return encode(self.describe(self.named(asked.store)))

    def describe(self, name: str) -> dict[str, Any]:
        """A store as `/schema` describes it."""
        return {"stores": list(self.stores), "store": name, **self._described(self.stores[name])}

    def _schema(self, store: Store) -> dict[str, Any]:
        about, graph, counts = store.info(), store.graph, store.source.facts.relation_edges.tolist()
        name, label = graph.relations.name, graph.relations.label
        return {
            "entities": len(graph.entities),
            "facts": sum(counts),
            "predicted": store.source.truth is not None,
            "generation": about.get("generation"),
            "truth_age": about.get("truth_age"),
            "relations": [{"name": name(i), "label": label(i), "count": counts[i]} for i in by_facts(store.source)],
            "attributes": self._attributes(store),
            "prefixes": dict(graph.prefixes.known),
            "engines": list(self.engines(store)),
            "examples": examples(store.source),
            "limits": {name.removeprefix("max_"): value for name, value in asdict(self.limits).items()},
        }

    def _attributes(self, store: Store) -> list[dict[str, Any]]:
        """Attributes by the words that name them: kind and number of values."""
        words = store.source.attribute_words.short
        found: dict[tuple[str, str], int] = {}
        for column in store.graph.attributes.columns:
            key = (words[column.name], column.kind)
            found[key] = found.get(key, 0) + len(column)
        return [{"word": word, "kind": kind, "count": count} for (word, kind), count in found.items()]

    def find_entities(self, asked: models.SearchParameters) -> bytes:
        """Entities by name or label, for completion.

        First those that begin with the text, then those that contain it.
        """
        store = self.store(asked.store)
        entities, found = store.graph.entities, self.finder(store).find(asked.search, asked.limit)
        return encode({"entities": [{"name": entities.name(i), "label": entities.label(i)} for i in found]})

    def entity(self, asked: models.EntityParameters, deadline: Deadline) -> bytes:
        """All about an entity: types, attributes, stated and predicted neighbours by relation."""
        about = asked.model_dump(exclude={"store", "timeout"})
        card = entity_card(self.store(asked.store).source, deadline=deadline, **about)
        notes().pruned = card["pruned"]
        return encode(card)

    def labels(self, asked: models.LabelsRequest) -> bytes:
        """The labels of named entities."""
        entities = self.store(asked.store).graph.entities
        found = {name: entities.find(name) for name in asked.names}
        return encode({"labels": {name: entities.label(i) for name, i in found.items() if i >= 0}})


def _engines(store: Store) -> dict[str, Engine[Any]]:
    """The engines that answer over HTTP, the default one first."""
    found: dict[str, Engine[Any]] = {}
    for name in (store.default_engine, *settings.list_plugins("engines")):
        with suppress(TupletError):  # one that another package offers may not load
            found[name] = settings.find_plugin("engines", name)
    facts_only = store.source.truth is None
    return {name: e for name, e in found.items() if e.served and not (facts_only and e.needs_truth)}


def _or_error(step: Callable[[Any], T], given: Any) -> T | TupletError:
    try:
        return given if isinstance(given, TupletError) else step(given)
    except TupletError as error:
        return error
