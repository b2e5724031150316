"""A store that is changed: what info and answers say of it, merging what waits, and whether every byte is whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tuplet
from tuplet.build import choose_recipe, make
from tuplet.cli.commands import main
from tuplet.errors import BadInput, CorruptStore, UnknownName
from tuplet.files import locked
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.config import TrainConfig
from tuplet.read.read import read
from tuplet.truth.edit import add_facts
from tuplet.truth.on_demand import TruthOnDemand
from tuplet.truth.store_folder import ENOUGH, Delta, StoreFiles, compact, compact_behind

QUICK = TrainConfig(rank=8, epochs=3, batch=50, evaluate_every=0)
PEOPLE = [f"p{i:02}" for i in range(24)]
FACTS = [(PEOPLE[i], "knows", PEOPLE[(i + step) % 24]) for i in range(24) for step in (1, 2, 3)]
NEW = [(name, "knows", name) for name in PEOPLE]

Shown = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores: a plain one, with rows on demand, with a hidden split, of given truth; and facts for the last."""
    root = tmp_path_factory.mktemp("changes")
    built = tuplet.build(FACTS, root / "a.store", config=QUICK, keep_model=root / "a.model", progress=False)
    make(built.graph, choose_recipe(root / "a.model", on_demand=True), root / "rows.store")
    make(built.graph, choose_recipe(root / "a.model", observed=("train",)), root / "hidden.store")
    tuplet.build([("a", "r", "b", 0.5), ("b", "r", "c", 0.5)], root / "many.store", progress=False)
    many = "".join(f"a\tr\tn{i}\t0.5\n" for i in range(ENOUGH + 1))
    (root / "many.tsv").write_text(many)
    (root / "one.tsv").write_text("c\tr\ta\t0.5\n")
    return root


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(made / name, tmp_path / name))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Shown:
    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def damage(folder: Path, pattern: str) -> Path:
    """Change the last byte of a file."""
    [file] = folder.glob(pattern)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("name", ["a.store", "rows.store"])
def test_a_store_tells_its_generation_and_how_old_its_truth_is(copy: Callable[[str], Path], name: str) -> None:
    store = tuplet.open(copy(name))
    first = store.info()
    assert first["generation"]["number"] == 1
    assert first["truth_age"] == {"edits": 0, "changed": 0.0, "again_after": 7, "make_again": False}
    store.add(NEW[:5])
    store.remove(NEW[:2])
    now = store.info()
    assert now["generation"]["number"] == store.generation == 3
    assert now["generation"]["hash"] != first["generation"]["hash"]
    assert now["generation"]["waiting"] == {"layer": 0, "delta": 5}
    assert now["truth_age"] == {"edits": 7, "changed": 7 / 72, "again_after": 7, "make_again": False}
    answers = store.ask("?x : knows(?x, p00)")
    assert answers.stale is answers.to_dict()["stale"] is None
    assert "facts changed" not in answers.summary()
    store.add(NEW[:1])
    assert store.info()["truth_age"]["make_again"]
    answers = store.ask("?x : knows(?x, p00)")
    assert answers.stale == answers.to_dict()["stale"] == 8 / 72
    told = "the truth values were made before 11 % of the facts changed; build again (tuplet build, tuplet index)"
    assert str(answers).splitlines()[-1].endswith(told)
    assert told in answers._repr_html_()
    assert store.ask("?x : knows(?x, p00)", engine="crisp").stale is None, "facts do not age"
    assert store.compact()
    merged = store.info()
    assert (merged["generation"]["number"], merged["generation"]["waiting"]) == (5, {"layer": 0, "delta": 0})
    assert merged["truth_age"]["edits"] == 8, "merging makes no truth values"


def test_given_truth_does_not_age(made: Path) -> None:
    store = tuplet.open(made / "many.store")
    assert store.info()["generation"]["number"] == 1
    assert "truth_age" not in store.info()


def test_changes_wait_until_they_are_merged(copy: Callable[[str], Path], made: Path, run: Shown) -> None:
    store = copy("many.store")
    assert run("compact", store) == (0, f"{store}: nothing to merge; generation 1\n", "")
    few = run("add", store, made / "one.tsv")
    assert few == (0, "added  1\n", "")
    code, out, err = run("add", store, made / "many.tsv", "--new-entities")
    assert (code, out.splitlines()[0]) == (0, f"added         {ENOUGH + 1:,}")
    assert err == f"{ENOUGH + 2:,} changes wait; tuplet compact {store} merges them\n"
    told = json.loads(run("remove", store, made / "one.tsv", "--json")[1])
    assert (told["removed"], told["generation"]["waiting"]) == (1, {"layer": ENOUGH + 2, "delta": 1})
    assert "  layer  20,002\n    delta  1\n" in run("info", store)[1]
    assert json.loads(run("info", "--verify", store, "--json")[1])["generation"]["number"] == 4
    before = tuplet.open(store).ask("?x : r(a, ?x)", k="all").to_dict()["answers"]
    code, out, err = run("compact", store)
    assert (code, out) == (0, f"{store}: merged 20,003 changes; generation 5\n")
    assert "table: 100 % (20,003/20,003)  edges" in err
    assert {part.name.split("-")[0] for part in store.iterdir()} == {"store.json", "graph", "table"}
    assert tuplet.open(store).ask("?x : r(a, ?x)", k="all").to_dict()["answers"] == before
    code, out, err = run("compact", store, "--json", "--quiet")
    assert (code, json.loads(out)["merged"], json.loads(out)["generation"]["number"], err) == (0, 0, 5, "")


def test_one_line_where_a_store_cannot_be_merged(copy: Callable[[str], Path], tmp_path: Path, run: Shown) -> None:
    store = copy("a.store")
    read(FACTS).save(tmp_path / "a.graph")
    graph = f"error: {tmp_path}/a.graph is a graph, not a store; tuplet index makes a store of it\n"
    assert run("compact", tmp_path / "a.graph") == (1, "", graph)
    assert run("compact", tmp_path / "b.store") == (
        1,
        "",
        f"error: no such store: {tmp_path}/b.store\n",
    )
    (tmp_path / "new.tsv").write_text("p00\tknows\tp00\n")
    assert run("add", store, tmp_path / "new.tsv")[0] == 0
    busy = f"error: {store} is being written by another thread or process"
    with locked(store / "compact"):
        assert run("compact", store, "--quiet", "--timeout", 0) == (1, "", f"{busy}\n")
    with locked(store):
        assert run("compact", store, "--quiet", "--timeout", 0.1) == (1, "", f"{busy} (waited 0.1 s)\n")
    for wrong in ("nan", "-1"):
        refused = f"error: timeout must be a number of seconds from 0, not {float(wrong)!r}\n"
        assert run("add", store, tmp_path / "new.tsv", "--timeout", wrong) == (1, "", refused)
        assert run("compact", store, "--timeout", wrong, "--quiet") == (1, "", refused)
    assert run("compact", store, "--quiet")[0] == 0


@pytest.mark.parametrize("step", ["graph", "table"])
def test_a_merge_that_is_stopped_changes_nothing(copy: Callable[[str], Path], step: str) -> None:
    path = copy("a.store")
    store = tuplet.open(path)
    store.add(NEW[:5])
    there = sorted(path.rglob("*"))

    def stop(now: str, done: float, total: float, note: str) -> None:
        if now == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact(path, progress=stop)
    assert sorted(path.rglob("*")) == there
    assert not store.refresh()
    assert store.compact()


def test_what_goes_wrong_in_the_background_is_one_warning(copy: Callable[[str], Path]) -> None:
    path = copy("a.store")
    tuplet.open(path).add(NEW[:5])
    damage(path, "graph-*/neighbour.npy")
    with pytest.warns(RuntimeWarning, match=r"could not be merged: .*neighbour\.npy: checksum does not match"):
        compact_behind(StoreFiles.open(path)).join()
    assert not list(path.glob(".compact*"))


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("a.store", "graph-*/neighbour.npy"),
        ("a.store", "table-*/truth.npy"),
        ("hidden.store", "facts-*/neighbour.npy"),
        ("a.store", "delta-*.npz"),
        ("a.store", "store.json"),
        ("rows.store", "rows-*/heads.npy"),
        ("rows.store", "model-*/model.safetensors"),
        ("many.store", "layer-*/graph_neighbour.npy"),
    ],
)
def test_every_byte_is_verified(copy: Callable[[str], Path], made: Path, run: Shown, name: str, pattern: str) -> None:
    path = copy(name)
    if name == "many.store":
        run("add", path, made / "many.tsv", "--new-entities")
    else:
        tuplet.open(path).add(NEW[:1])
    assert run("info", path, "--verify")[0] == 0
    file = damage(path, pattern)
    code, out, err = run("info", path, "--verify")
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {file}: ")
    assert err.count("\n") == 1


def test_a_part_that_is_whole_but_another_one_is_noticed(copy: Callable[[str], Path], made: Path) -> None:
    path = copy("rows.store")
    assert tuplet.info(path, verify=True)["kind"] == "store"
    [model] = path.glob("model-*")
    shutil.rmtree(model)
    graph = read([("a", "r", "b"), ("b", "r", "a")] * 4)
    tuplet.train(graph, model, config=QUICK, progress=False)
    with pytest.raises(CorruptStore, match=r"model-\w+: not the model that"):
        tuplet.info(path, verify=True)


def test_info_reads_no_facts(tmp_path: Path) -> None:
    """Loops and dates are counted when a graph is written and edited, so a large one need not be read."""
    dated = [{"h": f"e{i}", "r": "r", "t": f"e{i % 3}", "d": "2020-01-01" if i % 2 else ""} for i in range(6)]
    (tmp_path / "f.csv").write_text("h,r,t,d\n" + "".join(",".join(row.values()) + "\n" for row in dated))
    graph = read(tmp_path / "f.csv", columns="head=h,relation=r,tail=t,date=d")
    graph.save(tmp_path / "g")
    opened = KnowledgeGraph.open(tmp_path / "g")
    assert (opened.info()["self_loops"], opened.info()["dated"]) == (3, 3)
    assert graph.info() == opened.info()
    damage(tmp_path, "g/neighbour.npy")
    damaged = KnowledgeGraph.open(tmp_path / "g")
    assert damaged.info() == opened.info()
    with pytest.raises(CorruptStore):
        damaged.edges()


def test_counts_follow_edits(tmp_path: Path) -> None:
    store = tuplet.build([("a", "r", "b", 0.5), ("b", "r", "b", 0.5)], tmp_path / "s", progress=False)
    rng = np.random.default_rng(0)
    for _ in range(12):
        facts = [(*rng.choice(["a", "b", "c"], 1), "r", *rng.choice(["a", "b", "c"], 1)) for _ in range(3)]
        if rng.random() < 0.5:
            store.add([(*map(str, fact), 0.5) for fact in facts], new_entities=True)
        else:
            store.remove([fact for fact in facts if "c" not in fact or store.graph.entities.find("c") >= 0])
        heads, _, tails = store.graph.edges()
        assert store.info()["self_loops"] == int((heads == tails).sum())
    assert store.compact()
    assert store.info()["self_loops"] == int((heads == tails).sum())


@pytest.mark.parametrize("name", ["by_truth", "row_ptr", "neighbour", "truth", "row_entity"])
def test_damage_under_a_delta_is_named(tmp_path: Path, name: str) -> None:
    """The rows that a delta touches are copied unread when a store is opened; whatever is in them."""
    store = tmp_path / "a.store"
    facts = [(a, "r", b, 0.5) for a in PEOPLE[:6] for b in PEOPLE[:6]]
    tuplet.build(facts, store, progress=False).add([(a, "r", PEOPLE[6], 0.25) for a in PEOPLE[:6]], new_entities=True)
    (file,) = store.glob(f"table-*/{name}.npy")
    whole = file.read_bytes()
    for at in range(128, len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        with pytest.raises(CorruptStore, match=f"{name}.npy"):
            tuplet.open(store).source.truth.table([0])
        file.write_bytes(whole)


@pytest.mark.parametrize("fact", ["arb", 5, ("a", "r"), ("a", "r", "b", "x"), ("a", "r", "b", None), {"a", "r", "b"}])
def test_what_is_no_fact_is_refused_in_one_line(tmp_path: Path, fact: object) -> None:
    store = tuplet.build([("a", "r", "b", 0.5)], tmp_path / "a.store", progress=False)
    with pytest.raises(BadInput, match="fact 1: expected"):
        store.add([fact])
    assert store.add([np.array(["b", "r", "a"]), ["a", "r", "b", np.float32(0.25)]]).added == 1


def test_who_removes_is_not_told_how_to_add(tmp_path: Path) -> None:
    store = tuplet.build([("one", "r", "two", 0.5)], tmp_path / "a.store", progress=False)
    with pytest.raises(UnknownName, match=r"^entity 'onne' is not in the store; did you mean 'one'\?$"):
        store.remove([("onne", "r", "two")])


@pytest.mark.parametrize(
    ("name", "value"), [("tails", 9), ("heads", -5), ("relation", 9), ("truth", np.nan), ("truth", 1.5), ("split", 4)]
)
def test_a_delta_that_does_not_fit_never_reaches_compiled_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    path = tmp_path / "a.store"
    tuplet.build([("a", "r", "b", 0.5)], path, progress=False)
    encoded = Delta.encode

    def other(delta: Delta) -> bytes:
        column = getattr(delta.states, name)
        return encoded(replace(delta, states=delta.states._replace(**{name: np.full_like(column, value)})))

    with monkeypatch.context() as patch:
        patch.setattr(Delta, "encode", other)
        add_facts(path, [("b", "r", "a", 0.5)])
    with pytest.raises(CorruptStore, match=rf"delta-\w+\.npz does not belong to its store: {name} does not fit"):
        StoreFiles.open(path)


def test_what_is_known_of_an_entity_comes_by_name_also_after_new_names(copy: Callable[[str], Path]) -> None:
    store = tuplet.open(copy("a.store"))
    store.add([("p00", "knows", "a new name")], new_entities=True)
    [first, *_] = [fact.tail for fact in store.entity("p00", k=1) if fact.head == "p00" and fact.status == "observed"]
    assert first == "a new name"


def test_a_change_does_not_load_the_model_of_a_store_on_demand_again(copy: Callable[[str], Path], made: Path) -> None:
    store = tuplet.open(copy("rows.store"))
    before = store.source.truth
    store.add(NEW[:1])
    after = store.source.truth
    assert isinstance(before, TruthOnDemand)
    assert isinstance(after, TruthOnDemand)
    assert after is not before
    assert after.predictor is before.predictor
    assert store.ask("?x : knows(?x, p00)", k=1)[0]["x"] == "p00"
    other = tuplet.open(made / "rows.store").source.truth
    assert isinstance(other, TruthOnDemand)
    assert other.predictor is not after.predictor


def test_how_many_removed_facts_are_predicted_is_not_claimed_where_it_is_computed_on_demand(
    copy: Callable[[str], Path],
) -> None:
    assert tuplet.open(copy("rows.store")).remove(FACTS[:2]).shown_as_predicted is None
    assert tuplet.open(copy("a.store")).remove(FACTS[:2]).shown_as_predicted is not None
