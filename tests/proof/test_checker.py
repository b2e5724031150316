"""The checker: how small and how alone it is, what it says of damage, and what cannot be proved."""

from __future__ import annotations

import ast
import copy
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from proof_stores import random_store
from tampering import sealed

import tuplet
from tuplet.cli.commands import main
from tuplet.files import render
from tuplet.proof.checker import FalseClaim, check
from tuplet.proof.plain_store import UnusableProof
from tuplet.truth.guarantees import Guarantees, ShapeScores
from tuplet.truth.store_folder import writing

PARTS = ("checker", "clause_search", "plain_store")
FOLDER = Path(tuplet.__file__).parent / "proof"
QUERY = "?x, ?y : exists ?z . r0(?x, ?z) & r1(?z, ?y)"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuplet.Store:
    return random_store(tmp_path_factory.mktemp("checker") / "a.store", 2)


@pytest.fixture
def proof(store: tuplet.Store, tmp_path: Path) -> Path:
    store.prove(QUERY, tmp_path / "a.proof", k=5)
    return tmp_path / "a.proof"


def test_the_checker_has_fewer_than_550_lines() -> None:
    assert sum(len((FOLDER / f"{part}.py").read_text("utf-8").splitlines()) for part in PARTS) < 550


def test_the_checker_imports_numpy_and_itself() -> None:
    for part in PARTS:
        for node in ast.walk(ast.parse((FOLDER / f"{part}.py").read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                own = name.removeprefix("tuplet.proof.") in PARTS
                assert own or name.split(".")[0] in {"numpy", *sys.stdlib_module_names}, f"{part} imports {name}"


def test_checking_loads_no_engine(proof: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tuplet.proof.checker import check; check(Path(sys.argv[1])); "
        "print(*sorted(name for name in sys.modules if name.startswith(('tuplet.', 'numba'))))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(proof)], capture_output=True, text=True, check=True)
    own = {f"tuplet.proof.{part}" for part in PARTS} | {"tuplet.proof"}
    assert set(done.stdout.split()) <= own | {"tuplet._version", "tuplet.errors"}, done.stdout


def test_exit_codes(proof: Path, store: tuplet.Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(proof)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("accepted: 5 answers")
    assert "\nrows" not in said, "none is missing"
    assert "query     ?x, ?y : exists ?z . r0(?x, ?z) & r1(?z, ?y)\nstore" in said
    store.prove("?x, ?y : r0(?x, ?y)", tmp_path / "least.proof", k=2, logic="godel")
    assert main(["check", str(tmp_path / "least.proof")]) == 0
    assert "\nlogic     godel\n" in capsys.readouterr().out, "another logic has other truths"
    content = json.loads(proof.read_text("utf-8"))
    content["answers"][0]["truth"] = 0.123
    proof.write_text(sealed(content), "utf-8")
    with pytest.raises(SystemExit, match="1"):
        main(["check", str(proof), str(store.path)])
    assert capsys.readouterr().err.startswith("refused: (")
    proof.write_text("{}", "utf-8")
    with pytest.raises(SystemExit, match="2"):
        main(["check", "--json", str(proof)])
    assert json.loads(capsys.readouterr().out)["verdict"] == "unusable"


def test_ask_writes_a_proof(store: tuplet.Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "b.proof"
    command = ["ask", str(store.path), QUERY, "-k", "3", "--offset", "2", "--json", "--proof", str(file)]
    assert main(command) == 0
    shown = json.loads(capsys.readouterr().out)["answers"]
    assert [list(answer["values"].values()) for answer in shown] == [a["tuple"] for a in check(file)["answers"][2:]]
    assert main(command) == 1
    assert "already exists" in capsys.readouterr().err


def test_a_query_with_limit_and_offset_of_its_own(store: tuplet.Store, tmp_path: Path) -> None:
    store.prove("SELECT ?x WHERE { ?x :r0 ?y } LIMIT 2 OFFSET 3", tmp_path / "a.proof")
    assert check(tmp_path / "a.proof")["k"] == 5


def test_lists_of_names_and_equal_variables(store: tuplet.Store, tmp_path: Path) -> None:
    for number, query in enumerate(
        (
            "?x, ?y : r0(?x, ?y) & ?x in {e1, e2, e3, e4}",
            "?x, ?y : r0(?x, ?y) & !(?x in {e1, e2, e3, e4})",
            "SELECT ?x ?y ?z WHERE { ?x :r0 ?y . ?x :r1 ?z FILTER(?y = ?z) }",
            "?x, ?y : r0(?x, ?y) & ?x != e5 & ?x != ?y",
        )
    ):
        file = tmp_path / f"{number}.proof"
        assert len(store.prove(query, file, k="all")) > 2
        content = check(file)
        content["query"]["clauses"][0] |= {"compared": [], "among": []}  # another query, with more answers
        file.write_text(sealed(content), "utf-8")
        with pytest.raises(FalseClaim, match="is not listed"):
            check(file)


def test_comparisons_that_say_nothing_of_a_variable(store: tuplet.Store, tmp_path: Path) -> None:
    """Nobody writes these, but a file may have them: they must not be overlooked, nor taken for others."""
    store.prove("?x : r0(?x, e1) | r0(e1, ?x)", tmp_path / "a.proof", k="all")
    content = check(tmp_path / "a.proof")
    for never in (["?x", "!=", "?x"], ["<e1>", "=", "<e2>"]):
        for clause in content["query"]["clauses"]:
            clause["compared"] = [never]
        (tmp_path / "a.proof").write_text(sealed(content), "utf-8")
        with pytest.raises(FalseClaim, match="truth"):
            check(tmp_path / "a.proof")


def test_damage_is_not_a_false_claim(proof: Path, tmp_path: Path) -> None:
    text = proof.read_text("utf-8")
    for damaged in (
        text[:-20],
        text.replace('"mixed"', '"observed"').replace("e1", "e2"),
        "[]",
        text.replace("5", "NaN", 1),
    ):
        proof.write_text(damaged, "utf-8")
        with pytest.raises(UnusableProof):
            check(proof)
    with pytest.raises(UnusableProof, match="cannot be read"):
        check(tmp_path / "nothing.proof")


@pytest.mark.parametrize("part", ["table", "graph", "layer", "delta", "store.json"])
def test_a_store_that_was_changed_by_hand(part: str, proof: Path, store: tuplet.Store, tmp_path: Path) -> None:
    assert store.path is not None
    copied = tmp_path / "copy.store"
    shutil.copytree(store.path, copied)
    check(proof, copied)
    found = next(copied.glob(f"{part}*"))
    if part in ("table", "graph", "layer"):
        array = {"table": "truth", "graph": "entity_name_blob", "layer": "truth"}[part]
        file = found / f"{array}.npy"
        changed = np.load(file)
        changed[0] = changed[-1] = 3
        np.save(file, changed)
    elif part == "delta":
        found.write_bytes(found.read_bytes()[:-1] + b"x")
    else:
        found.write_text(found.read_text("utf-8").replace('"delta-', '"delta_', 1), "utf-8")
    with pytest.raises(UnusableProof, match=r"damaged|cannot|not well formed"):
        check(proof, copied)


def hidden(part: str, about: dict[str, Any]) -> None:
    """What was changed since is left out, and the hash stays: it is of a list in which nothing has a key."""
    folders, meta = about["folders"], about["meta"]
    if part == "layer among the folders":
        folders["calibration"] = folders.pop("layer")
    elif part == "layer as a model":
        meta["models"], meta["model"] = meta["model"], folders.pop("layer")
    else:
        meta["models"], meta["calibration"] = meta["calibration"], meta["threshold"]
        meta["threshold"] = about.pop("delta")


@pytest.mark.parametrize("part", ["layer among the folders", "layer as a model", "delta as a threshold"])
def test_a_part_of_the_store_that_is_called_another(
    part: str, proof: Path, store: tuplet.Store, tmp_path: Path
) -> None:
    assert store.path is not None
    copied = tmp_path / "copy.store"
    shutil.copytree(store.path, copied)
    about = json.loads((copied / "store.json").read_bytes())
    del about["seal"]
    hidden(part, about)
    (copied / "store.json").write_bytes(render(about | {"seal": hashlib.sha256(render(about)).hexdigest()}))
    with pytest.raises(UnusableProof, match="damaged: it is "):
        check(proof, copied)


def test_numbers_that_are_read_as_others(proof: Path, store: tuplet.Store, tmp_path: Path) -> None:
    """The same bytes, said to be of another type: their hash is right."""
    assert store.path is not None
    copied = tmp_path / "copy.store"
    shutil.copytree(store.path, copied)
    file = next(copied.glob("table-*")) / "truth.npy"
    truth = np.load(file)
    np.save(file, truth.view(truth.dtype.newbyteorder(">")))
    with pytest.raises(UnusableProof, match=r"truth\.npy is damaged"):
        check(proof, copied)


def test_a_store_json_without_its_seal(proof: Path, store: tuplet.Store, tmp_path: Path) -> None:
    assert store.path is not None
    copied = tmp_path / "copy.store"
    shutil.copytree(store.path, copied)
    text = (copied / "store.json").read_text("utf-8")
    (copied / "store.json").write_text(text.replace('"generation": ', '"generation": 1'), "utf-8")
    with pytest.raises(UnusableProof, match=r"store\.json is damaged"):
        check(proof, copied)


def test_what_counts_once_in_a_query_counts_once(
    store: tuplet.Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is right about itself, but the query that is printed means another truth."""
    file = tmp_path / "a.proof"
    store.prove("?x : exists ?y . r0(?x, ?y) & r2(?y, e1)", file, k="all")
    right = check(file)
    assert any(answer["truth"] < 1 for answer in right["answers"])
    clause, atom = copy.deepcopy(right), copy.deepcopy(right)
    clause["query"]["clauses"] *= 2
    for answer in clause["answers"]:
        answer |= {"witness": 2 * answer["witness"], "truth": answer["truth"] * (2 - answer["truth"])}
    atoms = atom["query"]["clauses"][0]["atoms"]
    atoms.append(atoms[0])
    for answer in atom["answers"]:
        facts = answer["witness"][0]["facts"]
        facts.append(facts[0])
        answer["truth"] *= facts[0]["truth"]
    atom["answers"].sort(key=lambda answer: -answer["truth"])
    for doubled in (clause, atom):
        file.write_text(sealed(doubled), "utf-8")
        check(file)
        with pytest.raises(SystemExit, match="2"):
            main(["check", str(file)])
        assert "counts once in a query" in capsys.readouterr().err


def test_a_store_with_what_was_held_out(store: tuplet.Store, tmp_path: Path) -> None:
    """`tuplet guarantee` adds a part to the store, of which its hash speaks; its proofs can be checked all the same."""
    assert store.path is not None
    promising = tmp_path / "promising.store"
    shutil.copytree(store.path, promising)
    held = ShapeScores("a shape", "a family", "1p", 9, np.arange(1, 10) / 10, np.ones(9))
    with writing(promising) as files:
        files.note(files.meta, guarantees=Guarantees.from_shapes([held], {"queries": "none"}).save)
    assert list(promising.glob("guarantees-*"))
    tuplet.open(promising).prove(QUERY, tmp_path / "a.proof", k=5)
    assert len(check(tmp_path / "a.proof")["answers"]) == 5


def test_a_store_that_went_on(proof: Path, store: tuplet.Store, tmp_path: Path) -> None:
    assert store.path is not None
    shutil.copytree(store.path, tmp_path / "copy.store")
    tuplet.open(tmp_path / "copy.store").add([("e5", "r0", "e6")])
    with pytest.raises(FalseClaim, match="about another store"):
        check(proof, tmp_path / "copy.store")


def test_what_cannot_be_proved_is_refused_in_one_line(store: tuplet.Store, tmp_path: Path) -> None:
    file = tmp_path / "a.proof"
    weighted = [("spain", "borders", "portugal", 0.9), ("france", "borders", "spain", 0.8)]
    small = tuplet.build(weighted, tmp_path / "s.store", progress=False)
    for asked, query, fields, said in (
        (store, QUERY, {"engine": "crisp"}, "no truth values"),
        (store, "SELECT (COUNT(*) AS ?n) WHERE { ?x :r0 ?y }", {}, "counts"),
        (store, "ASK { ?x :r0 ?y }", {}, "ASK"),
        (store, "SELECT ?x ?p WHERE { ?x ?p ?y }", {}, "values"),
        (store, QUERY, {"work": 1}, "not proven"),
        (store, QUERY, {"max_false": 0.1}, "ranked list"),
        (small, "SELECT ?x WHERE { ?x :borders ?y FILTER(CONTAINS(STR(?x), 'a')) }", {}, "attributes"),
        (tuplet.Store(small.source), "?x, ?y : borders(?x, ?y)", {}, "store on disk"),
    ):
        with pytest.raises(tuplet.TupletError, match=said) as error:
            asked.prove(query, file, **fields)
        assert "\n" not in str(error.value)
        assert not file.exists()


def test_a_union_may_be_truer_than_each_of_its_clauses(tmp_path: Path) -> None:
    facts = [("a", "r0", "x", 0.5), ("a", "r1", "x", 0.5), ("a", "r0", "y", 0.7), ("a", "r1", "z", 0.6)]
    store = tuplet.build(facts, tmp_path / "union.store", progress=False)
    store.prove("?v : r0(a, ?v) | r1(a, ?v)", tmp_path / "a.proof", k=2)
    content = check(tmp_path / "a.proof")
    assert [answer["tuple"] for answer in content["answers"]] == [["x"], ["y"]]
    assert content["bound"] == pytest.approx(0.6)
    del content["answers"][0]  # each clause gives it less than the bound
    (tmp_path / "a.proof").write_text(sealed(content | {"k": 1}), "utf-8")
    with pytest.raises(FalseClaim, match=r"\(x\) is not listed, has truth 0.75"):
        check(tmp_path / "a.proof")
