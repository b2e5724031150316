"""A model kept beside a store: plain dictionaries that say what it must hold, and random changes of both."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import tuplet
from tuplet.graph.graph import NO_DATE, SPLIT_CODE, KnowledgeGraph, hides
from tuplet.graph.names import Vocabulary
from tuplet.truth.edges import ADDED
from tuplet.truth.edit import EditReport, states_of
from tuplet.truth.store_folder import COMPACTING, MANIFEST, StoreContent, StoreFiles, read_store
from tuplet.truth.store_meta import StoreChanges, StoreMeta, StoreReport
from tuplet.truth.table import TruthTable

Edge = tuple[str, str, str]
Fact = tuple[str, str, str] | tuple[str, str, str, float]
OBSERVED = ("train", "valid")
ENGINES = ("exact", "crisp", "ns3", "brute")


@dataclass(frozen=True)
class EdgeModel:
    """What is known of one edge."""

    given: float | None = None  # the truth of an observed fact; None: it is none
    prediction: float = 0.0  # as if it were unknown, computed when the store was made; 0: none
    source: int = 0
    split: int = 0  # 0: the graph does not have it
    weight: float = 1.0
    date: int = NO_DATE

    @property
    def truth(self) -> float:
        """What the store shows; 0: nothing."""
        return self.prediction if self.given is None else self.given


@dataclass(frozen=True)
class Change:
    """One operation on a store."""

    kind: str  # add, remove, compact
    facts: tuple[Fact, ...] = ()


@dataclass
class StoreModel:
    """All that a store must hold."""

    weighted: bool
    dated: bool
    entities: list[str]
    relations: list[str]
    edges: dict[Edge, EdgeModel] = field(default_factory=dict)
    changes: StoreChanges = field(default_factory=StoreChanges)

    @staticmethod
    def random(rng: np.random.Generator) -> StoreModel:
        """Some facts of all splits, some predictions, also of facts; perhaps weights (or all are 1), perhaps dates."""
        entities, relations = int(rng.integers(4, 8)), int(rng.integers(1, 4))
        model = StoreModel(
            weighted=bool(rng.random() < 0.4),
            dated=bool(rng.random() < 0.4),
            entities=[f"n{i}" for i in rng.permutation(entities)],
            relations=[f"r{i}" for i in range(relations)],
        )
        certain = rng.random() < 0.4
        for edge in model.all_edges():
            stated, predicted = rng.random(2) < (0.25, 0.3)
            state = EdgeModel(prediction=int(rng.integers(1, 16)) / 16 if predicted else 0.0)
            if stated:
                split = int(rng.choice([1, 1, 1, 2, 3]))
                weight = int(rng.integers(1, 9)) / 8 if model.weighted and not certain else 1.0
                date = int(rng.integers(0, 5)) if model.dated and rng.random() < 0.7 else NO_DATE
                state = replace(state, split=split, weight=weight, date=date)
                if split < SPLIT_CODE["test"]:
                    state = replace(state, given=weight, source=split)
            if stated or predicted:
                model.edges[edge] = state
        return model

    def copy(self) -> StoreModel:
        """The same, to be changed on its own."""
        return replace(self, entities=list(self.entities), edges=dict(self.edges))

    def all_edges(self) -> list[Edge]:
        """Every edge that could be, in the order of ids."""
        return [(h, r, t) for r in self.relations for h in self.entities for t in self.entities]

    def random_change(self, rng: np.random.Generator, compact: bool = True) -> Change:
        """Something that a user might do: known and new facts and entities, and the same ones again."""
        if compact and rng.random() < 0.15:
            return Change("compact")
        chosen: list[Fact] = []
        adding = bool(rng.random() < 0.6)
        known = list(self.edges)
        for _ in range(int(rng.choice([1, 1, 2, 5]))):
            if known and rng.random() < 0.5:
                edge = known[int(rng.integers(len(known)))]
            else:
                head, tail = (str(rng.choice(self.entities)) for _ in range(2))
                if adding and rng.random() < 0.15:
                    head = f"new{int(rng.integers(50))}"
                edge = (head, str(rng.choice(self.relations)), tail)
            if adding and self.weighted and rng.random() < 0.7:
                chosen.append((*edge, float(rng.choice([0.125, 0.25, 0.5, 0.625, 0.75, 1.0, 0.3]))))
            else:
                chosen.append(edge)
        return Change("add" if adding else "remove", tuple(chosen))

    def apply(self, change: Change) -> EditReport | None:
        """Change the model; returns what the store should report."""
        if change.kind == "compact":
            return None
        last = {(fact[0], fact[1], fact[2]): fact[3] if len(fact) == 4 else 1.0 for fact in change.facts}
        duplicates = len(change.facts) - len(last)
        report = self._add(last) if change.kind == "add" else self._remove(last)
        self.changes = StoreChanges(
            self.changes.added + report.added,
            self.changes.removed + report.removed,
            self.changes.new_entities + len(report.new_entities),
        )
        return replace(report, duplicates=duplicates)

    def _add(self, facts: dict[Edge, float]) -> EditReport:
        names = dict.fromkeys(name for edge in facts for name in (edge[0], edge[2]))
        fresh = [name for name in names if name not in self.entities]
        self.entities += fresh
        added = already = updated = 0
        for edge, truth in facts.items():
            old = self.edges.get(edge, EdgeModel())
            if old.given == truth:
                already += 1
                continue
            added, updated = added + (old.given is None), updated + (old.given is not None)
            source = ADDED if old.given is None else old.source
            self.edges[edge] = replace(old, given=truth, weight=truth, source=source, split=SPLIT_CODE["train"])
        return EditReport(added=added, already=already, updated=updated, new_entities=tuple(fresh))

    def _remove(self, facts: dict[Edge, float]) -> EditReport:
        gone = [edge for edge in facts if edge in self.edges and self.edges[edge].given is not None]
        for edge in gone:
            self.edges[edge] = EdgeModel(prediction=self.edges[edge].prediction)
        shown = sum(self.edges[edge].prediction > 0 for edge in gone)
        return EditReport(removed=len(gone), shown_as_predicted=shown, not_found=len(facts) - len(gone))

    def makes_a_generation(self, change: Change, files: StoreFiles) -> bool:
        """Whether a change of the store has anything to write."""
        report = self.copy().apply(change)
        if report is None:
            return not (files.layer.empty and files.delta.empty)
        return bool(report.added + report.updated + report.removed)

    @property
    def sizes(self) -> dict[str, int]:
        """How many edges the table lists."""
        listed = [state for state in self.edges.values() if state.truth > 0]
        facts = sum(state.given is not None for state in listed)
        return {"edges": len(listed), "facts": facts, "predicted": len(listed) - facts}

    # --- the store of the model ---------------------------------------------------------------------------------------

    def graph(self) -> KnowledgeGraph:
        """The graph, made anew."""
        stated = {edge: state for edge, state in self.edges.items() if state.split}
        h, r, t = self._ids(list(stated))
        weight = [state.weight for state in stated.values()] if self.weighted else None
        date = [state.date for state in stated.values()] if self.dated else None
        names = Vocabulary.from_names(self.entities), Vocabulary.from_names(self.relations)
        split = [state.split for state in stated.values()]
        return KnowledgeGraph.from_edges(*names, h, r, t, split, weight, date=date)

    def table(self, double: bool) -> TruthTable:
        """The truth table, made anew."""
        listed = {edge: state for edge, state in self.edges.items() if state.truth > 0}
        h, r, t = self._ids(list(listed))
        columns = [(s.truth, s.given is not None, s.prediction, s.source) for s in listed.values()]
        truth, observed, prediction, source = np.array(columns, dtype=np.float64).reshape(-1, 4).T
        known = observed > 0
        table = TruthTable.build(
            len(self.entities),
            len(self.relations),
            h,
            r,
            t,
            truth,
            known,
            prediction=prediction,
            source=source.astype(np.uint8),
        )
        return table if table.double or not double else _widened(table)

    def make(self, path: Path) -> StoreFiles:
        """A new store that holds what the model says."""
        graph, table = self.graph(), self.table(double=False)
        meta = StoreMeta(graph.hash, OBSERVED, 0.0, {"name": "given"}, report=StoreReport(**self.sizes))
        return StoreFiles.create(path, StoreContent(graph, table, meta), force=True)

    def do(self, store: tuplet.Store, change: Change) -> EditReport | None:
        """Let a store make a change."""
        if change.kind == "compact":
            store.compact()  # type: ignore[attr-defined]
            return None
        facts = list(change.facts)
        if change.kind != "add":
            return store.remove(facts)
        return replace(store.add(facts, new_entities=True), why=None)  # nothing is predicted, for its truth is given

    # --- comparing ----------------------------------------------------------------------------------------------------

    def differences(self, files: StoreFiles) -> list[str]:
        """Where an opened store is not what the model says."""
        names = files.graph.entities.names(range(len(files.graph.entities)))
        if names != self.entities:
            return [f"entities are {names}, not {self.entities}"]
        edges = self.all_edges()
        h, r, t = self._ids(edges)
        found = states_of(files, r, h, t)
        wrong = []
        for i, edge in enumerate(edges):
            wanted = self.edges.get(edge, EdgeModel())
            shown: dict[str, Any] = {"truth": wanted.truth, "observed": wanted.given is not None, "split": wanted.split}
            shown |= {"prediction": wanted.prediction, "source": wanted.source}
            if self.weighted and wanted.split:
                shown["weight"] = wanted.weight
            if self.dated and wanted.split:
                shown["date"] = wanted.date
            for name, value in shown.items():
                if getattr(found, name)[i] != value:
                    wrong.append(f"{name} of {edge} is {getattr(found, name)[i]}, not {value}")
        report = files.meta.report.as_dict()
        wrong += [f"{key} is {report[key]}, not {size}" for key, size in self.sizes.items() if report[key] != size]
        if files.meta.changes != self.changes:
            wrong.append(f"changes are {files.meta.changes}, not {self.changes}")
        return wrong

    def check(self, files: StoreFiles) -> None:
        """Every edge, every row and every number of an opened store is what the model says."""
        assert self.differences(files) == []
        graph, table = self.graph(), self.table(files.table.double)
        flat = files.table.flat
        for name, array in table.arrays().items():
            assert np.array_equal(flat.arrays()[name], array), name
        assert files.table.sizes() == self.sizes
        for view in range(2 * len(self.relations)):
            for entity in range(len(self.entities)):
                mine, theirs = (x.row(entity, view // 2, view % 2 == 1) for x in (files.table, table))
                assert [column.tolist() for column in mine] == [column.tolist() for column in theirs]
        ours = files.graph.flat
        for name, column in graph._arrays().items():
            assert np.array_equal(ours._arrays()[name], column), name
        assert files.graph.split_edges == graph.split_edges
        if files.facts is None:
            assert not hides(graph, OBSERVED)
        else:
            stated, wanted = files.facts.adjacency, graph.observed(OBSERVED)
            assert stated.edges == wanted.edges == self.sizes["facts"]
            assert all(map(np.array_equal, stated.flatten()[0].arrays, wanted.arrays))
        if files.layer.empty and files.delta.empty:
            assert files.graph.info() == graph.info()
            assert files.graph.adjacency.newer is files.table.adjacency.newer is None
        else:
            assert files.graph.info() | {"hash": ""} == graph.info() | {"hash": ""}
            assert files.graph.hash not in ("", graph.hash)

    def _ids(self, edges: list[Edge]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Heads, relations, tails."""
        entity = {name: i for i, name in enumerate(self.entities)}
        relation = {name: i for i, name in enumerate(self.relations)}
        ids = [(entity[h], relation[r], entity[t]) for h, r, t in edges]
        h, r, t = np.ascontiguousarray(np.array(ids, dtype=np.int32).reshape(-1, 3).T)
        return h, r, t


def _widened(table: TruthTable) -> TruthTable:
    """The same table in double precision, as that of a store that is weighted."""
    return replace(table, truth=table.truth.astype(np.float64), row_best=table.row_best.astype(np.float64))


def files_of(store: tuplet.Store) -> StoreFiles:
    """The generation that a store holds."""
    files = store._opened()[2]
    assert files is not None
    return files


def leftovers(path: Path) -> set[str | None]:
    """What lies in the folder of a store and is not part of it, or the other way round."""
    manifest = read_store(path)
    named = {MANIFEST, *manifest["folders"].values(), manifest.get("delta")} - {None}
    found = {entry.name for entry in path.iterdir()} - {f".{COMPACTING}.lock"}  # of a killed compaction, for the next
    return named ^ found


def answers(store: tuplet.Store, query: Any, engine: str, **limits: Any) -> list[tuple[Any, ...]]:
    """What an engine says, in order."""
    found = store.ask(query, engine=engine, k="all", **limits)
    return [(*answer.values.values(), round(answer.truth, 9), answer.status) for answer in found]
