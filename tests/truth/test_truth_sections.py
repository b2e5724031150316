"""A store is verified by relation: damage is found when its relation is asked for, by whatever way, and not before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tuplet
from tuplet.errors import CorruptStore
from tuplet.graph.arrays import HEADER, open_directory, write_directory
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.graph.versions import EdgeStates
from tuplet.truth.store_folder import StoreContent, StoreFiles
from tuplet.truth.store_meta import StoreMeta
from tuplet.truth.table import TruthTable

ENTITIES = 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of three relations r0, r1, r2 with facts and predictions."""
    keys = np.arange(0, 3 * ENTITIES**2, 7)
    heads, relation, tails = keys // ENTITIES % ENTITIES, keys // ENTITIES**2, keys % ENTITIES
    fact = keys % 2 == 0
    entities, relations = (Vocabulary.from_names([f"{x}{i}" for i in range(n)]) for x, n in (("e", ENTITIES), ("r", 3)))
    graph = KnowledgeGraph.from_edges(entities, relations, heads[fact], relation[fact], tails[fact])
    truth = np.where(fact, 1.0, 0.5)
    table = TruthTable.build(ENTITIES, 3, heads, relation, tails, truth, fact)
    StoreFiles.create(tmp_path / "a.store", StoreContent(graph, table, StoreMeta(graph.hash, ("train",), 0.0)))
    return tmp_path / "a.store"


def damage(folder: Path, part: str, name: str, relation: int) -> None:
    """Change one byte of an array in the section of a relation."""
    place = next(folder.glob(f"{part}-*"))
    opened = open_directory(place)
    low, high = opened.bounds[name][relation : relation + 2]
    at = HEADER + (low + high) // 2 * opened.arrays[name].itemsize
    raw = bytearray((place / f"{name}.npy").read_bytes())
    raw[at] ^= 1
    (place / f"{name}.npy").write_bytes(raw)


TABLE = ["row_entity", "row_ptr", "row_best", "neighbour", "truth", "observed", "by_truth", "fact_source"]
GRAPH = ["row_entity", "row_ptr", "neighbour", "split"]


@pytest.mark.parametrize(("part", "name"), [("table", n) for n in TABLE] + [("graph", n) for n in GRAPH])
def test_a_damaged_relation_is_found_when_it_is_asked(folder: Path, part: str, name: str) -> None:
    engine = "exact" if part == "table" else "crisp"
    before = tuplet.open(folder).ask("?x, ?y : r2(?x, ?y)", engine=engine).to_csv()
    damage(folder, part, name, 1)
    store = tuplet.open(folder)
    assert store.ask("?x, ?y : r2(?x, ?y)", engine=engine).to_csv() == before
    store.ask("?x : r0(?x, e0)", engine=engine)
    for _ in range(2):
        with pytest.raises(CorruptStore, match=rf"{part}-.*/{name}\.npy: checksum does not match"):
            store.ask("?x : exists ?y . r0(?x, ?y) & r1(?y, e0)", engine=engine)
    with pytest.raises(CorruptStore, match=rf"{name}\.npy: checksum does not match"):
        tuplet.info(folder, verify=True)


READERS: list[Callable[[StoreFiles], object]] = [
    lambda store: store.table.row(0, 1, False),
    lambda store: store.table.value(0, 1, 0),
    lambda store: store.table.observed_edge(0, 1, 0),
    lambda store: store.table.lookup(*np.array([[0], [1], [0]], dtype=np.int32)),
    lambda store: store.table.facts(),
    lambda store: store.table.predictions(),
    lambda store: store.table.adjacency.view(3),
    lambda store: store.table.table([1]),
]


@pytest.mark.parametrize("read", READERS)
def test_no_way_to_read_a_relation_passes_by_its_checksum(folder: Path, read: Callable[[StoreFiles], object]) -> None:
    damage(folder, "table", "truth", 1)
    store = StoreFiles.open(folder)
    assert store.table.value(0, 0, 0) == 1
    assert store.table.adjacency.view_entries.tolist() == [58, 58, 57, 57, 57, 57]
    with pytest.raises(CorruptStore, match=r"truth\.npy: checksum does not match"):
        read(store)


@pytest.mark.parametrize(
    "read",
    [
        lambda graph: graph.edges("train"),
        lambda graph: graph.observed(["valid"]),
        lambda graph: graph.adjacency.find(0, 1, 0),
    ],
)
def test_nor_in_a_graph(folder: Path, read: Callable[[KnowledgeGraph], object]) -> None:
    damage(folder, "graph", "split", 1)
    graph = StoreFiles.open(folder).graph
    assert graph.adjacency.relation_edges.tolist() == [29, 29, 28]
    with pytest.raises(CorruptStore, match=r"split\.npy: checksum does not match"):
        read(graph)


def test_counts_of_an_opened_graph_follow_its_edits(folder: Path) -> None:
    graph = StoreFiles.open(folder).graph
    assert list(graph.split_edges.items()) == [("train", 86), ("valid", 0), ("test", 0)]
    heads, relation, tails, _ = (column[:3] for column in graph.adjacency.triples())
    unused = {"truth": 1, "observed": 1, "prediction": 0, "source": 1, "weight": 1, "date": 0}
    states = EdgeStates.from_columns(
        relation=relation,
        heads=heads,
        tails=tails,
        split=np.array([0, 2, 3]),
        **{name: np.full(3, value) for name, value in unused.items()},
    )
    edited = graph.edit(states)
    assert edited.split_edges == {"train": 83, "valid": 1, "test": 1}
    assert edited.observed(["train", "valid"]).edges == 84
    assert edited.observed(["train", "valid", "test"]) is edited.adjacency


@pytest.mark.parametrize("name", ["row_ptr", "row_entity", "neighbour"])
def test_impossible_numbers_are_found_when_their_relation_is_touched(folder: Path, tmp_path: Path, name: str) -> None:
    """Valid checksums over numbers that compiled code must not trust, as only a program can write them."""
    written = open_directory(next(folder.glob("table-*")))
    arrays = {array: np.array(values) for array, values in written.arrays.items()}
    arrays[name][written.bounds[name][2] - 1] = {"row_ptr": 10**9, "row_entity": 0, "neighbour": ENTITIES}[name]
    write_directory(tmp_path / "t", "table", arrays, written.meta, divided=written.bounds)
    opened = TruthTable.open(tmp_path / "t")
    opened.table([0, 2])
    with pytest.raises(CorruptStore, match=f"t is not a whole table: {name} does not fit"):
        opened.table([1])
