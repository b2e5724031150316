"""What users hold in their hands: a store that answers queries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tuplet import registry
from tuplet.engines.facts import judge
from tuplet.errors import BadInput, TupletError
from tuplet.files import open_directory, verify
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import Query
from tuplet.query import ask as asking
from tuplet.query.answers import Answers
from tuplet.query.ask import Question
from tuplet.query.engine import Engine
from tuplet.query.limits import Limits
from tuplet.query.many import answer_all
from tuplet.query.source import Source
from tuplet.truth.store_folder import StoreFiles, is_store
from tuplet.truth.table import known_splits

if TYPE_CHECKING:
    from tuplet.truth.edit import EditReport


class Store:
    """A knowledge graph, with truth values if it has any, that can be asked.

    `tuplet.open(path)` makes one from a directory, `Store(Source(graph))` from a graph in memory.
    """

    def __init__(self, source: Source, path: Path | None = None, meta: Mapping[str, Any] | None = None) -> None:
        self.source, self.path, self.meta = source, path, meta

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
        found: Engine[Any] = registry.find("engines", name or self.default_engine, modules=True)
        found.load()
        return found

    def question(self, query: str | Query, grounding: Mapping[str, Any] | None = None, text: str = "") -> Question:
        """A query, parsed and bound to the names of this store."""
        return Question.of(self.source, query, grounding, text)

    def ask(
        self,
        query: str | Query,
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Answers:
        """The ranked answers of a query. Further keywords are the fields of `Limits`: k, timeout, only, …"""
        runner = self.engine(engine)
        limits = Limits.of(limits, **fields)
        return asking.ask(self.question(query, grounding), runner, judge, limits)

    def ask_many(
        self,
        queries: Sequence[str | Query],
        engine: str | None = None,
        limits: Limits | None = None,
        errors: Literal["raise", "return"] = "raise",
        **fields: Any,
    ) -> list[Any]:
        """The answers of several queries, in their order, on all cores.

        The first error is raised; with `errors="return"` each query has its answers or its error.
        """
        if isinstance(queries, str):
            raise BadInput("ask_many takes a list of queries; ask takes one")
        runner = self.engine(engine)
        limits = Limits.of(limits, **fields)

        def answer(query: str | Query) -> Answers:
            return asking.ask(self.question(query), runner, judge, limits)

        tabulated = self.source.truth is None or self.source.truth.tabulated
        found = answer_all(answer, queries, runner.forks and tabulated)
        for result in found:
            if errors == "raise" and isinstance(result, TupletError):
                raise result
        return found

    def score(
        self,
        query: str | Query,
        tuples: Sequence[Sequence[str]],
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> NDArray[np.float64]:
        """The truth of given tuples of entity names, in the order of the free variables."""
        runner = self.engine(engine)
        return asking.score(self.question(query, grounding), tuples, runner, Limits.of(limits, **fields))

    def plan(
        self,
        query: str | Query,
        engine: str | None = None,
        limits: Limits | None = None,
        grounding: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """How a query would be answered: order, bounds, estimated cost."""
        return asking.plan_text(self.question(query, grounding), self.engine(engine), Limits.of(limits, **fields))

    def add(self, facts: Any, new_entities: bool = False) -> EditReport:
        """Make facts observed at once, without retraining: tuples, a data frame or a file, as `tuplet.read` takes."""
        from tuplet.truth.edit import add_facts

        report = add_facts(self._editable(), _facts(facts), new_entities)
        self._reopen()
        return report

    def remove(self, facts: Any) -> EditReport:
        """Stop observing facts: each shows its prediction again, if it has one."""
        from tuplet.truth.edit import remove_facts

        report = remove_facts(self._editable(), _facts(facts))
        self._reopen()
        return report

    def info(self) -> dict[str, Any]:
        """Sizes, splits, hashes; of a store also what made its truth values, and how reliable they are."""
        about = {**self.graph.info()}
        if self.meta is not None:
            about = {**about, "kind": "store", **{key: value for key, value in self.meta.items() if key != "graph"}}
        return about

    def _editable(self) -> Path:
        if self.path is None or self.meta is None:
            raise BadInput("facts are added to a store (tuplet index, tuplet build), not to a plain graph")
        return self.path

    def _reopen(self) -> None:
        assert self.path is not None
        fresh = open_store(self.path)
        self.source, self.meta = fresh.source, fresh.meta

    def __repr__(self) -> str:
        sizes = f"{len(self.graph.entities):,} entities, {len(self.graph.relations):,} relations"
        return f"<{'Graph' if self.meta is None else 'Store'}: {sizes}>"


def open_store(path: str | os.PathLike[str], observed: Sequence[str] | None = None) -> Store:
    """The store or graph in a directory; `observed` names the splits that count as facts, on a plain graph."""
    if not is_store(path):
        graph = KnowledgeGraph.open(path)
        splits = observed.split(",") if isinstance(observed, str) else observed
        return Store(Source(graph, known_splits(splits) if splits is not None else None), Path(path))
    if observed is not None:
        raise BadInput(f"{path} is a store: what is observed was decided when it was made (tuplet index --observed)")
    files = StoreFiles.open(path)
    truth = files.rows() if files.on_demand else files.table
    about = {key: files.meta[key] for key in ("threshold", "calibration")} | {"store": files.hash}
    model = files.meta.get("model")
    about["predictor"] = f"{model['kind']} {model['sha256'][:12]}" if model else None
    source = Source(files.graph, tuple(files.meta["observed"]), truth, about)
    return Store(source, Path(path), files.meta)


def info(path: str | os.PathLike[str], verify_all: bool = False) -> dict[str, Any]:
    """What the directory is: kind, sizes, splits, hashes, metrics."""
    root = Path(path)
    if (root / "model.json").exists() or (root / "log.jsonl").exists():  # the second: a run that has not finished
        from tuplet.predict.model_folder import describe

        return {"kind": "model", **{("model" if k == "kind" else k): v for k, v in describe(root).items()}}
    if is_store(root):
        if verify_all:
            for folder in StoreFiles.open(root).folders.values():
                if (root / folder / "manifest.json").exists():
                    verify(root / folder)
        return open_store(root).info()
    directory = open_directory(root)
    if verify_all:
        verify(root)
    if directory.kind == "graph":
        return open_store(root).info()
    return {"kind": directory.kind, "hash": directory.hash, "bytes": directory.bytes}


def _facts(facts: Any) -> KnowledgeGraph | Iterable[tuple[Any, ...]]:
    """Facts as the editor takes them."""
    if isinstance(facts, list | tuple | KnowledgeGraph):
        return facts
    from tuplet.graph.readers.read import read

    return read(facts)
