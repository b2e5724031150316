"""What users hold in their hands: a store that answers queries, and a graph that does so from its facts alone."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import lru_cache, partial
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Unpack, cast, overload

import numpy as np
from numpy.typing import NDArray

from tuplet import settings
from tuplet.engines import given as given_tuples
from tuplet.engines.given import judge
from tuplet.errors import BadInput, Option, TupletError, unknown
from tuplet.graph.arrays import open_directory
from tuplet.graph.arrays import verify as verify_directory
from tuplet.graph.graph import KnowledgeGraph, known_splits
from tuplet.lang.ast import Query
from tuplet.predict.config import PACKAGED
from tuplet.progress import Report, shown, sizes
from tuplet.query import ask as asking
from tuplet.query import contents, display
from tuplet.query.answers import Answer, Answers
from tuplet.query.ask import LONGEST_TEXT, MOST_TEXTS, Accept, Question
from tuplet.query.contents import AttributeRow, EntityFacts, FoundName, RelationRow, starting_queries
from tuplet.query.display import Listing, html_table, tag
from tuplet.query.engine import Engine
from tuplet.query.limits import Brake, Deadline, LimitFields, Limits, whole_number
from tuplet.query.schema import Origin
from tuplet.query.source import Source
from tuplet.settings import keywords
from tuplet.truth.guarantees import Guarantees
from tuplet.truth.new_entities import predict
from tuplet.truth.store_folder import PATIENCE, StoreFiles, generation, is_store, verify_model, verify_store
from tuplet.truth.store_meta import StoreMeta

if TYPE_CHECKING:
    import altair

    from tuplet.export.export import ExportReport
    from tuplet.truth.edit import EditReport
    from tuplet.truth.new_entities.predict import PredictionReport

PAGE = 100  # answers in the first page of a stream
RELATIONS = 12  # that are named in a notebook


class StoreState(NamedTuple):
    """One generation of a store: what it answers from, and what was prepared for it."""

    source: Source
    meta: StoreMeta | None
    files: StoreFiles | None
    questions: Callable[..., Question]  # bound questions with their plans, the last ones kept
    engines: dict[str | None, Engine[Any]]


class Store:
    """A knowledge graph, with truth values if it has any, that can be asked.

    `tuplet.open(path)` makes one from a directory, `tuplet.build(facts, path)` from facts. Any number of threads and
    processes may ask the same store at once, also while somebody adds facts: an answer comes from the state before or
    the state after, never from a mixture. Writers take turns. A store can be used in a `with` block and be pickled: it
    is opened again, by its path, where it arrives.
    """

    def __init__(
        self,
        source: Source,
        path: Path | None = None,
        meta: StoreMeta | None = None,
        files: StoreFiles | None = None,
    ) -> None:
        self.path = path
        self._compacting: Thread | None = None
        # One attribute, so that a thread sees the source and the meta of one generation.
        # The source does not hold the cache of questions: a cycle would keep an old generation in memory.
        questions = lru_cache(MOST_TEXTS)(partial(Question.from_query, source))
        self._state: StoreState | None = StoreState(source, meta, files, questions, {})
        self._turn = threading.Lock()

    @staticmethod
    def from_files(files: StoreFiles) -> Store:
        """The store of a folder that is open already."""
        truth, meta = files.rows() if files.on_demand else files.table, files.meta
        origin = Origin(
            meta.threshold,
            meta.calibration,
            files.hash,
            " + ".join(map(str, meta.models)) or None,
            meta.calibrated,
            files.generation,
            meta.why,
            meta.stale,
            len(meta.new.ids) or None,
            meta.report.rows_computed,
        )
        stated = None if files.facts is None else files.facts.adjacency
        promised = Guarantees.open(Path(files.path), files.folders)
        source = Source(files.graph, meta.observed, truth, origin, stated, promised, meta.borne_out)
        return Store(source, Path(files.path), meta, files)

    @property
    def source(self) -> Source:
        """What engines see: graph, observed facts and truth."""
        return self._opened().source

    @property
    def meta(self) -> StoreMeta | None:
        """What made the truth values; None for a plain graph."""
        return self._opened().meta

    @property
    def graph(self) -> KnowledgeGraph:
        """The graph with its names."""
        return self.source.graph

    @property
    def default_engine(self) -> str:
        """The best engine for what is here: facts alone are joined, truth values are searched."""
        return "crisp" if self.source.truth is None else "exact"

    def engine(self, name: str | None = None) -> Engine[Any]:
        """The engine of a name (or `module:Class`), loaded; the default one without a name."""
        state = self._opened()
        if name not in state.engines:
            found: Engine[Any] = settings.find_plugin("engines", name or self.default_engine, modules=True)
            found.load(state.source)
            state.engines[name] = found
        return state.engines[name]

    def question(
        self,
        query: str | Query,
        grounding: Mapping[str, Any] | None = None,
        text: str = "",
        parameters: Mapping[str, Any] | None = None,
        accept: Accept | None = None,
    ) -> Question:
        """A query, parsed and bound to the names of this store; the last texts are kept. `accept`: see `Question`."""
        state = self._opened()
        if isinstance(query, str) and grounding is None and parameters is None and len(query) <= LONGEST_TEXT:
            return state.questions(query, accept=accept)
        return Question.from_query(state.source, query, grounding, text, parameters, accept)

    @keywords(Limits)
    def ask(
        self,
        query: str | Query,
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **fields: Unpack[LimitFields],
    ) -> Answers:
        """The ranked answers of a query. Further keywords are the fields of `Limits`: k, timeout, only, …

        `parameters` are the values of `$name` in Cypher.
        """
        runner, question = self.engine(engine), self.question(query, grounding, parameters=parameters)
        return asking.ask(question, runner, judge, Limits.from_fields(limits, **fields))

    @keywords(Limits)
    def prove(
        self,
        query: str | Query,
        path: str | os.PathLike[str],
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        force: bool = False,
        **fields: Unpack[LimitFields],
    ) -> Answers:
        """The answers of a query, with a proof file that `tuplet check` verifies; it begins at the first answer."""
        from tuplet.proof.writer import refuse_unprovable, write_proof

        runner, question = self.engine(engine), self.question(query, grounding, parameters=parameters)
        limits, tree = Limits.from_fields(limits, **fields), question.tree
        files = refuse_unprovable(question, runner, limits, self._held())
        wanted = limits.from_the_first(tree.limit, tree.offset)
        question = replace(question, tree=replace(tree, limit=None, offset=0))
        answers = asking.ask(question, runner, judge, wanted)
        write_proof(path, question, answers, wanted, files, force)
        return answers

    @overload
    def ask_many(
        self,
        queries: Sequence[str | Query],
        engine: str | None = None,
        limits: Limits | None = None,
        errors: Literal["raise"] = "raise",
        **fields: Unpack[LimitFields],
    ) -> list[Answers]: ...
    @overload
    def ask_many(
        self,
        queries: Sequence[str | Query],
        engine: str | None = None,
        limits: Limits | None = None,
        *,
        errors: Literal["return"],
        **fields: Unpack[LimitFields],
    ) -> list[Answers | TupletError]: ...
    @keywords(Limits)
    def ask_many(
        self,
        queries: Sequence[str | Query],
        engine: str | None = None,
        limits: Limits | None = None,
        errors: Literal["raise", "return"] = "raise",
        **fields: Unpack[LimitFields],
    ) -> list[Any]:
        """The answers of several queries, in their order, on all cores.

        The first error is raised; with `errors="return"` each query has its answers or its error.
        """
        if isinstance(queries, str):
            raise BadInput("ask_many takes a list of queries; ask takes one")
        if errors not in ("raise", "return"):
            raise unknown("errors", errors, ("raise", "return"))
        runner = self.engine(engine)
        wanted = Limits.from_fields(limits, **fields)
        source = self.source

        def answer(query: str | Query) -> Answers:
            return asking.ask(self.question(query), runner, judge, wanted)

        tabulated = source.truth is None or source.truth.tabulated
        found = answer_all(answer, queries, runner.forks and tabulated)
        for number, result in enumerate(found, start=1):
            if errors == "raise" and isinstance(result, TupletError):
                result.add_note(f"in query {number} of {len(found)}")
                raise result
        return found

    @keywords(Limits)
    def stream(
        self,
        query: str | Query,
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        **fields: Unpack[LimitFields],
    ) -> Iterator[Answers]:
        """The answers page by page, best first: the first page comes before the rest is searched for.

        Without `k` it goes on until there are no more. Pages double in size, since each begins its search anew; the
        timeout is for all of them together, and the page that it cuts short (see `pruned`) is the last.
        """
        wanted = Limits.from_fields(limits, **fields)
        return self._pages(self.question(query, grounding), self.engine(engine), wanted)

    def _pages(
        self, question: Question, engine: Engine[Any], limits: Limits, brake: Brake | None = None
    ) -> Iterator[Answers]:
        deadline = Deadline(limits.timeout, brake=brake)
        asked = limits.k if limits.k is not None else question.tree.limit
        left = float("inf") if asked is None or asked == "all" else int(asked)
        offset, size = limits.offset, PAGE
        while left > 0:
            size = int(min(size, left))
            page = asking.ask(question, engine, judge, replace(limits, k=size, offset=offset), deadline)
            yield page
            if len(page) < size or page.pruned is not None:
                return
            offset, left, size = offset + size, left - size, 2 * size

    @keywords(Limits)
    def score(
        self,
        query: str | Query,
        tuples: Sequence[Sequence[str]],
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        **fields: Unpack[LimitFields],
    ) -> NDArray[np.float64]:
        """The truth of given tuples of entity names, in the order of the free variables."""
        runner = self.engine(engine)
        return asking.score(self.question(query, grounding), tuples, runner, Limits.from_fields(limits, **fields))

    @overload
    def explain(
        self, query: str | Query, values: Mapping[str, str] | Sequence[str], **fields: Unpack[LimitFields]
    ) -> Answer: ...
    @overload
    def explain(
        self, query: str | Query, values: Sequence[Mapping[str, str] | tuple[str, ...]], **fields: Unpack[LimitFields]
    ) -> list[Answer]: ...
    @keywords(Limits)
    def explain(self, query: str | Query, values: Any, **fields: Unpack[LimitFields]) -> Answer | list[Answer]:
        """The truth, status and witness of a given tuple, or of several.

        A tuple is a mapping from variables to names, `{"drug": "x", "gene": "y"}`, or the names in order.
        """
        several = isinstance(values, Iterable) and not isinstance(values, Mapping | str)
        one = not several or all(isinstance(value, str) for value in values)
        limits = Limits.from_fields(None, **fields)
        given = [values] if one else values
        found = given_tuples.explain(self.question(query), given, self.engine(), limits, Deadline(limits.timeout))
        return found[0] if one else found

    @keywords(Limits)
    def plan(
        self,
        query: str | Query,
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **fields: Unpack[LimitFields],
    ) -> str:
        """How a query would be answered: order, bounds, estimated cost."""
        question = self.question(query, grounding, parameters=parameters)
        return asking.plan_text(question, self.engine(engine), Limits.from_fields(limits, **fields))

    @keywords(Limits)
    async def ask_async(
        self,
        query: str | Query,
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **fields: Unpack[LimitFields],
    ) -> Answers:
        """What `ask` returns, without holding up the event loop; a task that is cancelled ends its search."""
        from asyncio import to_thread  # the command line asks without it, and starts faster

        wanted = Limits.from_fields(limits, **fields)
        with _brake() as brake:

            def answer() -> Answers:
                runner, question = self.engine(engine), self.question(query, grounding, parameters=parameters)
                return asking.ask(question, runner, judge, wanted, Deadline(wanted.timeout, brake=brake))

            return await to_thread(answer)

    @keywords(Limits)
    async def stream_async(
        self,
        query: str | Query,
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        **fields: Unpack[LimitFields],
    ) -> AsyncIterator[Answers]:
        """The pages of `stream`, each when it is found: `async for page in store.stream_async(query)`."""
        from asyncio import to_thread

        wanted = Limits.from_fields(limits, **fields)
        with _brake() as brake:

            def begun() -> Iterator[Answers]:
                return self._pages(self.question(query, grounding), self.engine(engine), wanted, brake)

            pages = await to_thread(begun)
            while (page := await to_thread(next, pages, None)) is not None:
                yield page

    def relations(self) -> Listing[RelationRow]:
        """The relations with their facts, predictions and one example each, most used first; prints as a table."""
        return contents.relations(self.source)

    def attributes(self) -> Listing[AttributeRow]:
        """The attributes of entities and facts with their kind, range and one example each; prints as a table."""
        return contents.attributes(self.source.graph)

    def export(
        self,
        path: str | os.PathLike[str],
        predicted: bool = False,
        threshold: float = 0.0,
        force: bool = False,
    ) -> ExportReport:
        """Write facts, labels and attributes to a file: .nt, .ttl, .parquet, .csv or .graphml.

        With `predicted` also what is predicted with a truth of `threshold` or more.
        """
        from tuplet.export.export import export

        return export(self.source, path, predicted, threshold, force)

    def find(self, text: str, k: int = 20, relations: bool = False) -> Listing[FoundName]:
        """Entities (or relations) whose name or label begins with `text` or contains it, best first."""
        whole_number("k", k, 0)
        if not isinstance(text, str):
            raise BadInput(f"what is searched for is text, not {text!r}")
        return contents.find(self.source, text, k, relations)

    def entity(self, name: str, k: int = 5) -> EntityFacts:
        """What is stated and predicted about one entity, by name or label: the `k` best of each relation."""
        whole_number("k", k, 0)
        if not isinstance(name, str):
            raise BadInput(f"an entity is named by text, not {name!r}")
        return contents.entity(self.source, name, k)

    def add(
        self,
        facts: Any = (),
        new_entities: bool = False,
        timeout: float = PATIENCE,
        seconds: float | None = None,
        progress: bool | Report = False,
        model: str | os.PathLike[str] = PACKAGED,
        attributes: Any = None,
        replace: bool = False,
        ray: str | None = None,
    ) -> EditReport:
        """Make facts observed at once, without retraining: tuples, a data frame or a file, as `tuplet.read` takes.

        With `new_entities` the facts may name entities that the store does not have. What can be predicted about these
        is computed then, for `seconds` at most (default 300), by the network that ships with the package or a `model`
        folder of kind any-graph, on the Ray cluster at `ray` if there is one; what is left waits for `update`. Writers
        take turns; who has waited `timeout` seconds in vain gets `StoreBusy`, and nothing has changed.

        `attributes` are values: (entity, attribute, value), a language tag behind a text if it has one; for the
        attribute of a fact (head, relation, tail) stands in place of the entity. Or a file of them, as `tuplet.read`
        takes for nodes. They are added to the values that are there; with `replace` they take their place.
        """
        from tuplet.truth.edit import add_facts

        predict.refuse_wrong(seconds, model, new_entities, ray)
        given = (_facts(facts), new_entities, timeout, self._held(), _values(attributes), replace)
        report, files = add_facts(self._editable(), *given)
        self._take_edit(files)
        if new_entities:
            with shown(progress) as told:
                work = predict.PredictionWork(files, seconds, told, timeout, model, ray)
                report = work.follow(report)
            self._take_edit(work.store)
        return report

    def remove(self, facts: Any = (), timeout: float = PATIENCE, attributes: Any = None) -> EditReport:
        """Stop observing facts: each shows its prediction again, if it has one. Waits its turn, as `add` does.

        `attributes` are values to be removed: (entity, attribute, value), or without a value all of the attribute. A
        removed fact loses its attributes.
        """
        from tuplet.truth.edit import remove_facts

        given = (_facts(facts), timeout, self._held(), _values(attributes))
        report, files = remove_facts(self._editable(), *given)
        self._take_edit(files)
        return report

    def update(
        self,
        seconds: float | None = None,
        timeout: float = PATIENCE,
        progress: bool | Report = False,
        model: str | os.PathLike[str] = PACKAGED,
        ray: str | None = None,
    ) -> PredictionReport:
        """Compute the predictions that new entities wait for, and bring the rows around these up to date.

        It takes `seconds` at most, if given; what is left then waits on. `model` and `ray` as in `add`.
        """
        with shown(progress) as told:
            files = StoreFiles.open(self._editable(), self._held())
            work = predict.PredictionWork(files, seconds, told, timeout, model, ray)
            report = work.update()
        self._take_edit(work.store)
        return report

    def compact(self, timeout: float = PATIENCE) -> bool:
        """Merge all changes into the folders of the store; False if there are none. Others may read and edit it."""
        from tuplet.truth.store_folder import compact

        done = compact(self._editable(), timeout)
        self.refresh()
        return done

    def refresh(self) -> bool:
        """Take the newest generation, which others may have made; says whether there was one."""
        files = self._opened().files
        return files is not None and self._take(files)

    def _take(self, files: StoreFiles) -> bool:
        """Be the newest generation from now on, read over one that is open; False if it is the one at hand."""
        with self._turn:  # or a thread that has read the folder before others would go back to what it saw then
            files = StoreFiles.open(files.path, files)
            held = self._opened().files
            if held is not None and (held.generation, held.hash) == (files.generation, files.hash):
                return False
            self._state = Store.from_files(files)._opened()
            return True

    def _take_edit(self, files: StoreFiles) -> None:
        """Be the generation after an edit; when much is changed it is merged in the background."""
        from tuplet.truth.store_folder import compact_behind, due

        self._take(files)
        if due(files) and (self._compacting is None or not self._compacting.is_alive()):
            self._compacting = compact_behind(files)

    @property
    def generation(self) -> int:
        """The number of the state at hand: every change of the folder is a new generation. 0 for a plain graph."""
        files = self._opened().files
        return 0 if files is None else files.generation

    @property
    def hash(self) -> str:
        """Of everything that answers depend on."""
        source, _, files, *_ = self._opened()
        return source.graph.hash if files is None else files.hash

    def newer(self) -> Store | None:
        """The newest generation as a store of its own, beside this one, which stays as it is; None if this is it."""
        source, _, files, *_ = self._opened()
        if files is not None:
            found = StoreFiles.open(files.path, files)
            return None if found is files else Store.from_files(found)
        fresh = None if self.path is None else open_store(self.path, source.splits)
        return None if fresh is None or fresh.hash == source.graph.hash else fresh

    def beside(self) -> Store:
        """A store of its own at the same generation: what is changed through it leaves this one as it is."""
        source, meta, files, *_ = self._opened()
        return Store(source, self.path, meta, files)

    def info(self) -> dict[str, Any]:
        """Sizes, splits, hashes; of a store also what made its truth values, and how reliable they are."""
        source, meta, files, *_ = self._opened()
        about = source.graph.info()
        if meta is not None and files is not None:
            about |= {"kind": "store", "generation": generation(files), **meta.info(), **source.promised(meta)}
            about |= predict.describe(files)
        if source.guarantees is not None:
            about["guarantees"] = {one.name: one.queries for one in source.guarantees.shapes.values()}
        if told := contents.summarize_attributes(source.graph):
            about["attributes"] = told
        about["relation_names"] = source.graph.relations.names(contents.by_facts(source))
        return about | {"try": starting_queries(source)}

    def plot_reliability(self) -> altair.LayerChart:
        """Mean truth against the share that are facts, as measured on held-out facts (extra `plots`)."""
        report = self.info().get("report") or {}
        if report.get("reliability") is None:
            raise BadInput("nothing was held out when this store was made: how reliable it is was not measured")
        tables = {"truth": report["reliability"], "before calibration": report.get("reliability_before")}
        return display.reliability({name: table for name, table in tables.items() if table is not None})

    def plot_query(self, query: str | Query) -> altair.HConcatChart:
        """The query as a graph of what is asked for, what may be anything, and what is given (extra `plots`)."""
        question = self.question(query)
        return display.query(question.clauses, question.source.graph, question.text)

    def _repr_html_(self) -> str:
        about = self.info()
        names, report = about["relation_names"], about.get("report")
        more = f" and {len(names) - RELATIONS:,} more" if len(names) > RELATIONS else ""
        rows = [
            ["entities", f"{about['entities']:,}"],
            ["relations", ", ".join(names[:RELATIONS]) + more],
            ["facts", f"{report['facts'] if report else sum(about['edges'].values()):,}"],
        ]
        if report:
            predicted = report["predicted"]
            rows.append(["predicted", "on demand" if predicted is None else f"{predicted:,}"])
            rows.append(["what it promises", about["promise"]["sentence"] if about.get("promise") else _why_not(about)])
        rows += [["try", tag("code", text)] for text in about["try"]]
        return html_table(["what", "is in it"], rows, repr(self).strip("<>"))

    def close(self) -> None:
        """Let go of the files; a closed store cannot be asked."""
        self._state = None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        source, meta, *_ = self._opened()
        if self.path is None:
            return Store, (Source(source.graph, source.splits, source.truth, source.origin), None, meta)
        return open_store, (os.path.abspath(self.path), source.splits if meta is None else None)

    def __repr__(self) -> str:
        if self._state is None:
            return f"<Store: {self.path or 'in memory'}, closed>"
        held = sizes(len(self.graph.entities), len(self.graph.relations))
        return f"<{'Graph' if self.meta is None else 'Store'}: {held}>"

    def _opened(self) -> StoreState:
        if self._state is None:
            raise BadInput(f"the store {self.path or ''} is closed".replace("  ", " "))
        return self._state

    def _held(self) -> StoreFiles | None:
        return self._opened().files

    def _editable(self) -> Path:
        if self.path is None or self.meta is None:
            raise BadInput("facts are added to a store (tuplet index, tuplet build), not to a plain graph")
        return self.path


@contextmanager
def _brake() -> Iterator[Brake]:
    """A brake that is pressed when the work is left early: a cancelled task, a loop over pages that was ended."""
    brake = Brake()
    try:
        yield brake
    finally:
        brake.stop()


def _why_not(about: dict[str, Any]) -> str:
    why = about.get("why")
    return f"truth values are not calibrated{f': {why}' if why else ''}"


def _facts(facts: Any) -> Any:
    """Facts as the editor takes them."""
    if isinstance(facts, list | tuple | KnowledgeGraph):
        return facts
    from tuplet.read.read import read

    return read(facts)


def _values(attributes: Any) -> Any:
    """Attributes as the editor takes them; those of a file are read."""
    if not isinstance(attributes, str | os.PathLike):
        return attributes
    from tuplet.read.text import read_values

    return read_values(Path(attributes))


# A fork costs some milliseconds: as much as this many queries.
WORTH_A_FORK = 64

Q = TypeVar("Q")
# What forked workers call; set before they are made, so that nothing but numbers travels to them.
_work: Callable[[int], Answers | TupletError] | None = None


def answer_all(answer: Callable[[Q], Answers], queries: Sequence[Q], forkable: bool) -> list[Answers | TupletError]:
    """The answer of each query in order, or the error that it met; `forkable` where the search needs no torch."""

    def one(number: int) -> Answers | TupletError:
        try:
            return answer(queries[number])
        except TupletError as error:
            return error

    workers = min(os.cpu_count() or 1, len(queries) // WORTH_A_FORK)
    # Forking is safe while this is the only thread.
    if workers > 1 and forkable and hasattr(os, "fork") and threading.active_count() == 1:
        return _answer_forked(one, len(queries), workers)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(one, range(len(queries))))


def _answer_forked(
    one: Callable[[int], Answers | TupletError], count: int, workers: int
) -> list[Answers | TupletError]:
    global _work
    _work = one
    parts = [range(start, count, workers) for start in range(workers)]
    found: list[Answers | TupletError | None] = [None] * count
    try:
        with ProcessPoolExecutor(workers - 1, mp_context=multiprocessing.get_context("fork")) as pool:
            others = [pool.submit(_part, part) for part in parts[1:]]
            found[0::workers] = [one(number) for number in parts[0]]
            graph = next((a.graph for a in found if isinstance(a, Answers)), None)
            for part, other in zip(parts[1:], others, strict=True):
                for number, answers in zip(part, other.result(), strict=True):
                    found[number] = replace(answers, graph=graph) if isinstance(answers, Answers) and graph else None
    except BrokenProcessPool:
        pass  # a worker died; what is missing is answered below
    finally:
        _work = None
    # What a worker could not answer is asked again here, so that its error is the error itself.
    return [one(number) if answers is None else answers for number, answers in enumerate(found)]


def _part(numbers: range) -> list[Answers | None]:
    """In a worker: the answers of some queries. The graph is there already; only what was found travels."""
    assert _work is not None
    found = [_work(number) for number in numbers]
    return [replace(a, graph=cast(Any, None)) if isinstance(a, Answers) else None for a in found]


def open_store(path: str | os.PathLike[str], observed: Sequence[str] | None = None) -> Store:
    """The store or graph directory at `path`, ready to be asked.

    On a plain graph `observed` names the splits that count as facts; all of them unless given.
    """
    if is_store(path):
        if observed is not None:
            made = f"{path} is a store: what is observed was decided when it was made ("
            raise BadInput(made, Option("observed", None), " of index)")
        return Store.from_files(StoreFiles.open(path))
    graph = KnowledgeGraph.open(path)
    splits = observed.split(",") if isinstance(observed, str) else observed
    return Store(Source(graph, known_splits(splits) if splits is not None else None), Path(path))


class Graph(KnowledgeGraph):
    """A knowledge graph that can be asked: what its facts say, and nothing else."""

    @staticmethod
    def from_graph(graph: KnowledgeGraph) -> Graph:
        """The same graph, ready to be asked."""
        return Graph(**{f.name: getattr(graph, f.name) for f in fields(graph)})

    def __repr__(self) -> str:
        return super().__repr__().replace("KnowledgeGraph", "Graph", 1)

    @keywords(Limits)
    def ask(
        self,
        query: str | Query,
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **fields: Unpack[LimitFields],
    ) -> Answers:
        """The answers that the facts imply. Further keywords are the fields of `Limits`: k, timeout, …"""
        return Store(Source(self)).ask(query, engine, limits, grounding, parameters, **fields)

    def export(self, path: str | os.PathLike[str], force: bool = False) -> ExportReport:
        """Write facts, labels and attributes to a file: .nt, .ttl, .parquet, .csv or .graphml."""
        return Store(Source(self)).export(path, force=force)

    def plot_query(self, query: str | Query) -> altair.HConcatChart:
        """The query as a graph of what is asked for, what may be anything, and what is given (extra `plots`)."""
        return Store(Source(self)).plot_query(query)

    def _repr_html_(self) -> str:
        return Store(Source(self))._repr_html_()


def info(path: str | os.PathLike[str], verify: bool = False) -> dict[str, Any]:
    """What the directory is: kind, sizes, splits, hashes, metrics."""
    root = Path(path)
    if any(os.path.exists(root / file) for file in ("model.json", "log.jsonl")):  # the second: an unfinished run
        from tuplet.predict.model_folder import describe

        if verify:
            verify_model(root)
        return {"kind": "model", **{("model" if k == "kind" else k): v for k, v in describe(root).items()}}
    if is_store(root):
        if verify:
            verify_store(root)
        return open_store(root).info()
    directory = open_directory(root)
    if verify:
        verify_directory(root)
    if directory.kind == "graph":
        return open_store(root).info()
    return {"kind": directory.kind, "hash": directory.hash, "bytes": directory.bytes}
