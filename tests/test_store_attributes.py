"""Attributes of a store that is changed: added, replaced, removed, merged; generations and crashes as for facts."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tuplet
from repeatable import examples
from tuplet.cli.commands import main
from tuplet.errors import BadInput, CorruptStore, UnknownName
from tuplet.graph.arrays import verify
from tuplet.graph.attributes import FAMILIES, Attributes, Plain, kind_of
from tuplet.graph.versions import AttributeStates, StoredValue, Subject, unite_values, values_now
from tuplet.read.facts import AttributeBatch, FactColumns
from tuplet.read.read import read
from tuplet.truth import store_folder
from tuplet.truth.store_folder import StoreFiles, compact, verify_store, write_graph

BORN = datetime.date(1990, 5, 1)


def names(*words: str) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(words, pa.large_string())])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of given truth with attributes of entities and facts."""
    facts = FactColumns(
        names("ann", "bob", "cid"),
        names("knows", "knows", "likes"),
        names("bob", "cid", "ann"),
        values=(
            AttributeBatch("age", pa.array([31, 40]), pa.array(["ann", "bob"])),
            AttributeBatch("since", pa.array([2001, 2002, None])),
            AttributeBatch("label", pa.array(["Anna", "Ann"]), pa.array(["ann", "ann"]), pa.array(["de", "en"])),
        ),
    )
    root = tmp_path_factory.mktemp("attributes")
    truth = [1.0, 0.5, 1.0]
    weighted = FactColumns(facts.head, facts.relation, facts.tail, pa.array(truth).to_numpy(), values=facts.values)
    tuplet.build(read(weighted), root / "a.store", progress=False)
    return root / "a.store"


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "a.store"))


def values(store: Any, name: str, subject: str | tuple[str, str, str]) -> list[Any]:
    graph = store.graph
    if isinstance(subject, str):
        found = graph.attributes.values_of(name, graph.entities.find(subject))
    else:
        head, relation, tail = subject
        key = graph.entities.find(head) * (1 << 32) + graph.entities.find(tail)
        found = graph.attributes.values_of(name, key, graph.relations.find(relation))
    return [(value, tag) if tag else value for value, tag in found]


def everywhere(path: Path, store: tuplet.Store, check: Callable[[Any], None]) -> None:
    """It holds in the store at hand, in a fresh one, and after all is merged."""
    check(store)
    check(tuplet.open(path))
    verify_store(path)
    compact(path)
    check(tuplet.open(path))
    verify_store(path)
    assert store.refresh()
    check(store)


def test_values_are_added_beside_others_or_in_their_place(path: Path) -> None:
    store = tuplet.open(path)
    report = store.add(attributes=[("ann", "age", 32), ("cid", "age", 7.5), ("cid", "born", BORN), ("ann", "age", 31)])
    assert (report.values_added, report.values_removed, report.added) == (3, 0, 0)
    assert store.add(attributes=[("bob", "age", 41)], replace=True).values_removed == 1

    def check(store: Any) -> None:
        assert values(store, "age", "ann") == [31.0, 32.0]
        assert values(store, "age", "bob") == [41.0]
        assert values(store, "age", "cid") == [7.5]
        assert values(store, "born", "cid") == [BORN]
        assert values(store, "label", "ann") == [("Ann", "en"), ("Anna", "de")]

    everywhere(path, store, check)
    generation = store.generation
    assert store.add(attributes=[("bob", "age", 41)]).values_added == 0
    assert store.generation == generation, "nothing changed"


def test_values_are_removed(path: Path) -> None:
    store = tuplet.open(path)
    store.add(attributes=[("ann", "age", 32), ("ann", "label", "Anna", "nl")])
    report = store.remove(attributes=[("ann", "age", 31), ("ann", "age", 99), ("bob", "age"), ("ann", "label", "Anna")])
    assert (report.values_removed, report.not_found) == (4, 1)

    def check(store: Any) -> None:
        assert values(store, "age", "ann") == [32]
        assert values(store, "age", "bob") == []
        assert values(store, "label", "ann") == [("Ann", "en")]

    everywhere(path, store, check)


def test_facts_have_attributes_too_and_lose_them_when_they_are_removed(path: Path) -> None:
    store = tuplet.open(path)
    fact = ("ann", "likes", "cid")
    store.add([(*fact, 0.75)], attributes=[(fact, "since", 1999), (("ann", "knows", "bob"), "note", "old")])
    assert values(store, "since", fact) == [1999]
    store.remove([("ann", "knows", "bob")])

    def check(store: Any) -> None:
        assert values(store, "since", ("ann", "knows", "bob")) == []
        assert values(store, "note", ("ann", "knows", "bob")) == []
        assert values(store, "since", ("bob", "knows", "cid")) == [2002]
        assert values(store, "since", fact) == [1999]

    everywhere(path, store, check)
    store.add([("ann", "knows", "bob")])
    assert values(store, "since", ("ann", "knows", "bob")) == [], "added again, it begins anew"


def test_a_graph_is_added_with_its_attributes(path: Path) -> None:
    more = FactColumns(
        names("ann"), names("likes"), names("dan"), values=(AttributeBatch("age", pa.array([5]), pa.array(["dan"])),)
    )
    store = tuplet.open(path)
    store.add(read(more), new_entities=True, seconds=0)
    everywhere(path, store, lambda store: _equal(values(store, "age", "dan"), [5]))


def _equal(one: object, other: object) -> None:
    assert one == other


def test_new_entities_may_have_attributes_alone(path: Path) -> None:
    store = tuplet.open(path)
    with pytest.raises(UnknownName, match=r"entity 'eve' is not in the store.*new_entities=True"):
        store.add(attributes=[("eve", "age", 1)])
    report = store.add(attributes=[("eve", "age", 1)], new_entities=True, seconds=0)
    assert report.new_entities == ("eve",)
    everywhere(path, store, lambda store: _equal(values(store, "age", "eve"), [1]))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("ann", "age"), r"attribute 1: expected \(entity, attribute, value\), not"),
        (("ann", "age", None), "attribute 1: None is no number"),
        (("ann", "age", float("nan")), "attribute 1: nan is no number"),
        (("ann", "age", 1 << 70), "attribute 1: .* is no number"),
        (("ann", "age", "\ud800"), "attribute 1: .* is no number"),
        (("ann", "age", 3, "en"), "only a text has a language tag"),
        ((("ann", "knows"), "since", 3), "is no entity, and no fact"),
        ((("ann", "likes", "bob"), "since", 3), r"likes\(ann, bob\) is not stated"),
        ((("ann", "lkes", "bob"), "since", 3), "unknown relation 'lkes'; did you mean 'likes'"),
        ("ann", "attribute 1: expected"),
    ],
)
def test_what_is_refused(path: Path, row: Any, said: str) -> None:
    store = tuplet.open(path)
    with pytest.raises(BadInput, match=said):
        store.add(attributes=[row])
    assert store.generation == tuplet.open(path).generation == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ann,age,31\n", "no values, only a header line"),
        ("id,age,age\nann,1,2\n", "two columns are called 'age'"),
        ("head,relation,tail,since\nann,knows,bob,1999\n", "the header is that of facts"),
    ],
)
def test_files_of_values_that_are_refused(path: Path, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "values.csv"
    file.write_text(text)
    with pytest.raises(BadInput, match=said):
        tuplet.open(path).add(attributes=file)


def test_an_unknown_attribute_is_not_removed(path: Path) -> None:
    with pytest.raises(UnknownName, match="unknown attribute 'agee'; did you mean 'age'"):
        tuplet.open(path).remove(attributes=[("ann", "agee")])


def test_many_changes_become_a_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_folder, "RECENT", 3)
    store = tuplet.open(path)
    for age in range(10):
        store.add(attributes=[(name, f"a{age % 4}", age) for name in ("ann", "bob")])
    assert list(path.glob("attributes-*"))

    def check(store: Any) -> None:
        assert values(store, "a1", "ann") == values(store, "a1", "bob") == [1, 5, 9]
        assert values(store, "age", "ann") == [31]

    everywhere(path, store, check)
    assert not list(path.glob("attributes-*")), "compaction brings them into the graph"


def test_facts_and_values_that_change_together(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_folder, "RECENT", 3)
    store = tuplet.open(path)
    for i in range(6):
        fact = ("ann", "likes", f"n{i}")
        store.add([fact], attributes=[(fact, "since", i), (f"n{i}", "n", i)], new_entities=True, seconds=0)

    def check(store: Any) -> None:
        assert [values(store, "since", ("ann", "likes", f"n{i}")) for i in range(6)] == [[i] for i in range(6)]
        assert [values(store, "n", f"n{i}") for i in range(6)] == [[i] for i in range(6)]

    everywhere(path, store, check)


def test_a_change_that_is_killed_leaves_the_state_before(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_folder, "RECENT", 0)
    store = tuplet.open(path)
    real = store_folder.write_bytes

    def killed(file: Path, data: bytes, force: bool) -> None:
        if file.name == store_folder.MANIFEST:
            raise KeyboardInterrupt
        real(file, data, force=force)

    monkeypatch.setattr(store_folder, "write_bytes", killed)
    with pytest.raises(KeyboardInterrupt):
        store.add(attributes=[("ann", "age", 99)])
    monkeypatch.setattr(store_folder, "write_bytes", real)
    assert values(tuplet.open(path), "age", "ann") == [31]
    tuplet.open(path).add(attributes=[("ann", "age", 98)])
    assert values(tuplet.open(path), "age", "ann") == [31, 98]
    assert len(list(path.glob("attributes-*"))) == 1, "what the killed one left is gone"


def test_a_compaction_during_which_values_change(path: Path) -> None:
    store = tuplet.open(path)
    store.add(attributes=[("ann", "age", 32)])
    older = StoreFiles.open(path)
    store.add(attributes=[("ann", "age", 33), ("bob", "age", 34)])
    work = path.parent / "work"
    work.mkdir()
    hashes = {"graph": write_graph(work / "graph", older.graph), "table": older.table.save(work / "table")}
    with store_folder.writing(path) as now:
        assert now.switch_to_merged(work, hashes, older)
    assert verify(path / StoreFiles.open(path).folders["graph"])
    assert values(tuplet.open(path), "age", "ann") == [31, 32, 33]
    assert values(tuplet.open(path), "age", "bob") == [34, 40]


def test_damage_is_named(path: Path) -> None:
    tuplet.open(path).add(attributes=[("ann", "age", 99)])
    (delta,) = path.glob("delta-*")
    data = bytearray(delta.read_bytes())
    data[len(data) // 2] ^= 1
    delta.write_bytes(data)
    with pytest.raises(CorruptStore, match=delta.name):
        tuplet.open(path)


def test_states_that_do_not_fit_are_refused() -> None:
    for subject in (Subject("a", -1, 9), Subject("a", 5, 0), Subject("a", 0, 9 << 32)):
        with pytest.raises(ValueError, match="attributes"):
            AttributeStates({subject: ()}).check(entities=3, relations=2)


def test_the_command_line(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long, wide, gone = (tmp_path / name for name in ("long.csv", "wide.tsv", "gone.csv"))
    long.write_text("entity,attribute,value\nann,age,32\nbob,nick,Bobby\ncid,born,1990-05-01\n")
    wide.write_text("name\tage\tvegan\nann\t50\ttrue\nbob\t\tfalse\n")
    gone.write_text("entity,attribute\nbob,nick\n")
    assert main(["add", str(path), "--attributes", str(long)]) == 0
    assert "values_added  3" in capsys.readouterr().out
    assert values(tuplet.open(path), "born", "cid") == [BORN]
    assert main(["add", str(path), "--attributes", str(wide), "--replace"]) == 0
    store = tuplet.open(path)
    assert (values(store, "age", "ann"), values(store, "age", "bob")) == ([50], [40])
    assert (values(store, "vegan", "ann"), values(store, "vegan", "bob")) == ([True], [False])
    assert main(["remove", str(path), "--attributes", str(gone)]) == 0
    assert values(tuplet.open(path), "nick", "bob") == []
    assert main(["add", str(path)]) == 1
    assert "nothing to do" in capsys.readouterr().err
    (tmp_path / "bad.csv").write_text("entity,attribute,value\nann,age\n")
    assert main(["add", str(path), "--attributes", str(tmp_path / "bad.csv")]) == 1
    assert "bad.csv:2: 2 columns where the header has 3" in capsys.readouterr().err


def test_what_there_is_can_be_seen(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tuplet.open(path)
    store.add(attributes=[("bob", "born", BORN), ("ann", "vegan", True), ("ann", "note", "word " * 30)])
    rows = {(row.attribute, row.of): row for row in store.attributes()}
    age = rows["age", "entities"]
    shown = (age.kind, age.values, age.distinct, age.low, age.high, age.example)
    assert shown == ("integer", 2, 2, "31", "40", "ann = 31")
    assert (rows["since", "knows"].example, rows["born", "entities"].low) == ("ann, bob = 2001", "1990-05-01")
    assert store.attributes().to_pandas().shape == (6, 8)
    assert store.relations().attributes is not None
    assert store.info()["attributes"]["age"] == "integer, 2 of entities"
    assert main(["relations", str(path)]) == 0
    said = capsys.readouterr().out
    assert "knows" in said
    assert "attribute  of        kind" in said
    assert main(["relations", str(path), "--json"]) == 0
    assert {row.get("attribute") for row in json.loads(capsys.readouterr().out)} >= {None, "age", "since"}
    assert main(["entity", str(path), "ann"]) == 0
    said = capsys.readouterr().out
    assert "age        31\n" in said
    assert "label      Anna @de\n" in said
    assert "word word word word word word word word…" in said
    found = store.entity("ann").attributes
    assert found is not None
    assert (found[0].attribute, found[0].value) == ("age", 31)
    assert set(found.to_arrow()["value"].to_pylist()) >= {"31", "Anna"}
    assert main(["info", str(path)]) == 0
    assert "integer, 2 of entities" in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(3))
def test_any_changes_of_a_store(path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_folder, "RECENT", 4)
    rng = np.random.default_rng(seed)
    people, relations = ["ann", "bob", "cid"], ["knows", "likes"]
    store, reader = tuplet.open(path), tuplet.open(path)
    facts = {("ann", "knows", "bob"), ("bob", "knows", "cid"), ("cid", "likes", "ann")}
    model: dict[Any, set[Any]] = {}  # of (subject, attribute), those of a name of ours

    def pick(choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    def check(store: Any, model: dict[Any, set[Any]]) -> None:
        for (subject, name), expected in model.items():
            assert set(values(store, name, subject)) == expected

    older: list[tuple[Any, dict[Any, set[Any]]]] = []
    for _ in range(25):
        subject = pick(people) if rng.random() < 0.5 else pick(sorted(facts)) if facts else "ann"
        name, value = pick(["x", "y"]), pick([1, 2.5, "a", "b", BORN])
        match pick(["add", "add", "replace", "remove", "remove all", "add fact", "remove fact", "compact"]):
            case "add":
                store.add(attributes=[(subject, name, value)])
                model.setdefault((subject, name), set()).add(value)
            case "replace":
                store.add(attributes=[(subject, name, value)], replace=True)
                model[subject, name] = {value}
            case "remove" if name in store.graph.attributes.names:
                store.remove(attributes=[(subject, name, value)])
                model.setdefault((subject, name), set()).discard(value)
            case "remove all" if name in store.graph.attributes.names:
                store.remove(attributes=[(subject, name)])
                model[subject, name] = set()
            case "add fact":
                fact = (pick(people), pick(relations), pick(people))
                store.add([fact], attributes=[(fact, name, value)])
                facts.add(fact)
                model.setdefault((fact, name), set()).add(value)
            case "remove fact" if facts:
                fact = pick(sorted(facts))
                store.remove([fact])
                facts.discard(fact)
                model |= {key: set() for key in model if key[0] == fact}
            case "compact":
                store.compact()
        check(store, model)
        reader.refresh()
        check(reader, model)
        if rng.random() < 0.2:
            older.append((tuplet.open(path), {key: set(some) for key, some in model.items()}))
    for held, then in older:
        check(held, then)
    check(tuplet.open(path), model)


VALUE = st.one_of(st.integers(-2, 2), st.floats(-1, 1), st.booleans(), st.sampled_from(["", "a", "b", "é"]), st.dates())
STATES = st.dictionaries(
    st.tuples(st.sampled_from("xy"), st.sampled_from([-1, 0]), st.integers(0, 3)), st.lists(VALUE, max_size=3)
)


@examples(150)
@given(st.lists(STATES, max_size=4))
def test_columns_after_any_changes(edits: list[dict[tuple[str, int, int], list[Plain]]]) -> None:
    attributes, model, base = Attributes(), {}, AttributeStates()
    for number, change in enumerate(edits):
        states = AttributeStates(
            {Subject(*key): unite_values(map(StoredValue.from_plain, some)) for key, some in change.items()}
        )
        states = AttributeStates.from_array(states.array())
        model |= change
        if number % 2:
            attributes = states.apply_to(base.apply_to(attributes))
            base = AttributeStates()
        else:
            base = base.then(states)
    attributes = base.apply_to(attributes)
    for key, expected in model.items():
        found = {value.same for value in values_now(attributes, Subject(*key))}
        assert found == {StoredValue.from_plain(value).same for value in expected}
    for column in attributes.columns:
        assert {FAMILIES[kind_of(column.value(rank))] for rank in range(column.distinct)} <= {column.family}
        keys, rank = column.ranked.keys.astype(int), column.ranked.rank
        assert ((keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (rank[1:] > rank[:-1]))).all()
