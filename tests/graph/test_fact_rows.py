"""Observed facts of a store that hides a split: rows of their own, shared by all who map them."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuplet
from tuplet.build import make
from tuplet.errors import CorruptStore
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.truth import store_folder
from tuplet.truth.recipes import Facts
from tuplet.truth.store_folder import StoreFiles

ENTITIES = 3000
OBSERVED = ("train", "valid")


def graph_of(hidden: bool) -> KnowledgeGraph:
    keys = np.arange(0, 2 * ENTITIES * 10, 2)
    heads, relation, tails = keys // 10 % ENTITIES, keys // (ENTITIES * 10), keys % 10
    split = np.where(keys % 14 == 0, 3 if hidden else 2, 1).astype(np.uint8)
    names = (Vocabulary.from_names([f"{x}{i}" for i in range(n)]) for x, n in (("e", ENTITIES), ("r", 2)))
    return KnowledgeGraph.from_edges(*names, heads, relation, tails, split)


def part(path: Path, name: str) -> list[Path]:
    return list(path.glob(f"{name}-*"))


def owner(array: np.ndarray) -> Any:
    """Who holds the memory of an array."""
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base


def are_mapped(facts: Adjacency) -> bool:
    return all(isinstance(owner(array), mmap.mmap) for array in (facts.row_entity, facts.row_ptr, facts.neighbour))


def test_facts_are_mapped_and_not_filtered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    make(graph_of(hidden=True), Facts(OBSERVED), path)
    one, other = tuplet.open(path), tuplet.open(path)
    assert are_mapped(one.source.facts)
    assert are_mapped(other.source.facts)
    assert one.source.facts.arrays.neighbour.ctypes.data == one.source.facts.neighbour.ctypes.data
    assert one.source.facts.edges < one.graph.adjacency.edges
    monkeypatch.setattr(store_folder, "RECENT", 2)
    wanted = one.source.facts.edges
    for number, size in enumerate((1, 5, 1)):  # a delta, a layer, a delta over it
        facts = [(f"e{i}", "r1", f"e{100 + number}") for i in range(size)]
        one.add(facts)
        wanted += size
        assert [bool(part(path, name)) for name in ("delta", "layer")] == [number != 1, number > 0]
        for store in (one, tuplet.open(path)):
            assert are_mapped(store.source.facts)
            assert store.source.facts.edges == wanted
    assert one.compact()
    assert are_mapped(one.source.facts)
    assert one.source.facts.newer is None
    assert one.source.facts.edges == wanted


def test_a_store_that_hides_nothing_has_no_facts_beside_its_graph(tmp_path: Path) -> None:
    make(graph_of(hidden=False), Facts(OBSERVED), tmp_path / "s")
    store = tuplet.open(tmp_path / "s")
    assert part(tmp_path / "s", "facts") == []
    assert store.source.facts is store.graph.adjacency


def test_what_was_hidden_and_is_added_needs_no_rows_of_its_own(tmp_path: Path) -> None:
    graph = graph_of(hidden=True)
    make(graph, Facts(OBSERVED), tmp_path / "s")
    store = tuplet.open(tmp_path / "s")
    heads, relation, tails = graph.edges("test")
    vocabularies = (graph.entities, graph.relations, graph.entities)
    hidden = zip(*(v.names(ids) for v, ids in zip(vocabularies, (heads, relation, tails), strict=True)), strict=True)
    store.add(hidden)
    assert store.source.facts.edges == graph.adjacency.edges
    assert len(part(tmp_path / "s", "facts")) == 1
    assert store.compact()
    assert part(tmp_path / "s", "facts") == []
    assert StoreFiles.open(tmp_path / "s").facts is None
    assert store.source.facts.edges == graph.adjacency.edges


def test_a_store_without_them_is_read_as_before_and_gets_them_when_it_is_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_folder, "hides", lambda graph, splits: False)
    make(graph_of(hidden=True), Facts(OBSERVED), tmp_path / "s")
    monkeypatch.undo()
    store = tuplet.open(tmp_path / "s")
    assert part(tmp_path / "s", "facts") == []
    store.add([("e7", "r0", "e2000")])
    answers = store.ask("?x : r0(?x, e2)", engine="crisp", k="all").to_csv()
    assert store.source.facts.edges < store.graph.adjacency.edges
    store.compact()
    assert len(part(tmp_path / "s", "facts")) == 1
    assert store.ask("?x : r0(?x, e2)", engine="crisp", k="all").to_csv() == answers


def test_damaged_facts_are_found_when_their_relation_is_asked(tmp_path: Path) -> None:
    make(graph_of(hidden=True), Facts(OBSERVED), tmp_path / "s")
    file = part(tmp_path / "s", "facts")[0] / "neighbour.npy"
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    store = tuplet.open(tmp_path / "s")
    assert len(store.ask("?x : r0(?x, e2)", engine="crisp"))
    with pytest.raises(CorruptStore, match=r"neighbour\.npy"):
        store.ask("?x : r1(?x, e2)", engine="crisp")
