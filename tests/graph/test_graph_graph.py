"""The knowledge graph: splits, statistics, saving, and damaged directories."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.errors import BadInput, CorruptStore, UnknownName
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.arrays import write_directory
from tuplet.graph.graph import KIND, KnowledgeGraph
from tuplet.graph.names import Vocabulary


def small() -> KnowledgeGraph:
    return KnowledgeGraph.from_edges(
        Vocabulary.from_names(["a", "b", "c"], ["Aaa", "", "Ccc"]),
        Vocabulary.from_names(["r", "s"]),
        heads=[0, 0, 1, 2],
        relation=[0, 1, 0, 0],
        tails=[1, 2, 2, 2],
        split=[1, 1, 2, 3],
    )


def triples(edges: tuple) -> set[tuple[int, int, int]]:
    return set(zip(*(part.tolist() for part in edges), strict=True))


def test_edges_of_splits() -> None:
    graph = small()
    assert triples(graph.edges()) == {(0, 0, 1), (0, 1, 2), (1, 0, 2), (2, 0, 2)}
    assert triples(graph.edges("train")) == {(0, 0, 1), (0, 1, 2)}
    assert triples(graph.edges("valid", "test")) == {(1, 0, 2), (2, 0, 2)}


def test_observed_is_the_union_of_the_named_splits() -> None:
    graph = small()
    assert graph.observed() is graph.adjacency
    known = graph.observed(["train", "valid"])
    assert known.edges == 3
    assert known.row(2, 1).tolist() == [1]  # who has relation r to c: not c itself, that edge is test
    assert graph.observed(["test", "train", "valid"]).edges == 4
    assert graph.observed([]).edges == 0


def test_unknown_split_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown split 'trian'; did you mean 'train'"):
        small().observed(["trian"])
    with pytest.raises(UnknownName, match="unknown split 'xyz'; choose 'train', 'valid' or 'test'"):
        small().edges("xyz")


def test_info_and_relation_statistics() -> None:
    graph = small()
    info = graph.info()
    assert info["edges"] == {"train": 2, "valid": 1, "test": 1}
    assert (info["entities"], info["relations"], info["self_loops"]) == (3, 2, 1)
    assert (info["labelled_entities"], info["labelled_relations"], info["weighted"]) == (2, 0, False)
    assert graph.adjacency.relation_edges.tolist() == [3, 1]


@given(
    edges=st.dictionaries(
        st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)),
        st.tuples(st.integers(1, 3), st.floats(0.125, 1, width=32)),
    ),
    weighted=st.booleans(),
)
@examples(25, allow=(HealthCheck.function_scoped_fixture,))
def test_saved_graph_opens_with_the_same_bits(tmp_path: Path, edges: dict, weighted: bool) -> None:
    columns = np.array(list(edges), dtype=np.int64).reshape(-1, 3).T
    graph = KnowledgeGraph.from_edges(
        Vocabulary.from_names(list("abcdef")),
        Vocabulary.from_names(list("xyz")),
        *columns,
        split=[split for split, _ in edges.values()],
        weight=[weight for _, weight in edges.values()] if weighted else None,
    )
    graph.save(tmp_path / "g", force=True)
    opened = KnowledgeGraph.open(tmp_path / "g")
    assert opened.hash == graph.hash
    before, after = graph._arrays(), opened._arrays()
    assert before.keys() == after.keys()
    for name in before:
        assert before[name].dtype == after[name].dtype
        assert np.array_equal(before[name], after[name])
    for (head, relation, tail), (split, weight) in edges.items():
        entry = opened.adjacency.find(head, relation, tail)
        assert opened.split[entry] == split
        assert opened.weight is None or opened.weight[entry] == np.float32(weight)


@given(
    edges=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 6))),
    far=st.sampled_from([0, 1 << 30]),
    seed=st.integers(0, 9),
)
def test_adjacency_has_every_edge_in_both_directions(edges: set, far: int, seed: int) -> None:
    """Ids up to 2^30 with relations do not fit 64 bits, so both ways of sorting are compared with plain Python."""
    facts = sorted((head + far, relation, tail + far) for head, relation, tail in edges)
    random.Random(seed).shuffle(facts)
    heads, relation, tails = np.array(facts, dtype=np.int64).reshape(-1, 3).T
    adjacency, edge = Adjacency.build(heads, relation, tails, relations=32 if far else 4)
    assert adjacency.edges == len(facts)
    view, entity = adjacency.entry_rows()
    for i, number in enumerate(edge):
        ends = facts[number][0], facts[number][2]
        near, other = ends if view[i] % 2 == 0 else ends[::-1]
        assert (view[i] // 2, entity[i], adjacency.neighbour[i]) == (facts[number][1], near, other)
    entries = list(zip(view.tolist(), entity.tolist(), adjacency.neighbour.tolist(), strict=True))
    assert entries == sorted(set(entries))
    assert len(entries) == 2 * len(facts)


def test_arrays_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    """A directory with valid checksums but impossible ids, as only a program can write it."""
    graph = small()
    arrays, meta = graph._arrays(), {"counts": graph.counts}
    wrong = {
        "neighbour": arrays["neighbour"] + 3,
        "row_entity": arrays["row_entity"] - 1,
        "row_ptr": arrays["row_ptr"][::-1].copy(),
        "view_ptr": arrays["view_ptr"][:-1],
        "split": arrays["split"][:-1],
        "entity_name_offsets": arrays["entity_name_offsets"] * 2,
        "relation_name_order": arrays["relation_name_order"] + 1,
    }
    for name, array in wrong.items():
        write_directory(tmp_path / "g", KIND, arrays | {name: array}, meta, force=True)
        with pytest.raises(CorruptStore, match=f"is not a whole graph: {name} does not fit"):
            KnowledgeGraph.open(tmp_path / "g")
    for name in arrays:
        rest = {other: array for other, array in arrays.items() if other != name}
        write_directory(tmp_path / "g", KIND, rest, meta, force=True)
        with pytest.raises(CorruptStore, match=f"is not a whole graph: '{name}'"):
            KnowledgeGraph.open(tmp_path / "g")


def test_any_damage_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """Random edits, truncations, additions and deletions of any file of a saved graph."""
    small().save(tmp_path / "whole")
    files = sorted(path.name for path in (tmp_path / "whole").iterdir())
    chance = random.Random(0)
    for attempt in range(300):
        damaged = tmp_path / "damaged"
        shutil.copytree(tmp_path / "whole", damaged)
        file = damaged / files[attempt % len(files)]
        raw = bytearray(file.read_bytes())
        action = chance.choice(["flip", "set", "truncate", "extend", "delete", "insert"])
        place = chance.randrange(len(raw))
        if action == "flip":
            raw[place] ^= 1 << chance.randrange(8)
        elif action == "set":
            raw[place] = (raw[place] + chance.randrange(1, 256)) % 256
        elif action == "truncate":
            del raw[place:]
        elif action == "extend":
            raw += b"\n"
        elif action == "insert":
            raw.insert(place, raw[place])
        file.unlink()
        if action != "delete":
            file.write_bytes(raw)
        with pytest.raises((CorruptStore, BadInput)) as caught:
            KnowledgeGraph.open(damaged).adjacency.touch()
        message = str(caught.value)
        assert file.name in message or "is not a tuplet graph" in message, (action, file.name, message)
        assert "\n" not in message
        shutil.rmtree(damaged)
