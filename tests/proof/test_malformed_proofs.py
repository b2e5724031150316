"""A file that is no proof is refused in one line: types swapped, keys twice, numbers beyond all bounds, noise."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from proof_stores import random_store
from tampering import sealed

import tuplet
from repeatable import SEED, count
from tuplet.cli.checking import formula
from tuplet.cli.commands import main
from tuplet.proof.checker import FalseClaim, check
from tuplet.proof.plain_store import UnusableProof

CASES = count(200, 40_000)
# Two atoms, negation, inequality, a list of names and a union: every part of the format has something in it.
QUERY = "?x, ?y : exists ?z . (r0(?x, ?z) & r1(?z, ?y) & ?x != ?y) | (r0(?x, ?y) & !r1(?y, ?x) & !(?x in {e1, e2}))"
STRANGE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 10**400, -(10**400), 0.5, 1e308, float("inf"), float("nan"), "", "?", "?x", "<>",
    "<e1>", "e1", "(e1)", "<e1", "\ud800", "a\x00b", "a\nb", "x" * 10_000, [], [[]], {}, {"": 0}, ["?x"], [None],
    [["?x", "=", "?y"]], {"values": {}, "facts": []},
]  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuplet.Store:
    return random_store(tmp_path_factory.mktemp("malformed") / "a.store", 2)


@pytest.fixture(scope="module")
def file(store: tuplet.Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("proof") / "a.proof"
    store.prove(QUERY, path, k=4)
    return path


@pytest.fixture(scope="module")
def proof(file: Path) -> dict[str, Any]:
    return check(file)


def places(part: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a proof that something can be put into: its container and the key there."""
    for key in range(len(part)) if isinstance(part, list) else list(part) if isinstance(part, dict) else []:
        yield part, key
        yield from places(part[key])


def mutated(proof: dict[str, Any], rng: np.random.Generator) -> str:
    """The text of a proof with something else, something less or something more in a few places, sealed or not."""
    changed = copy.deepcopy(proof)
    for _ in range(int(rng.integers(1, 3))):
        spots = list(places(changed))
        if not spots:
            break
        where, key = spots[rng.integers(len(spots))]
        other, way = spots[rng.integers(len(spots))], rng.integers(5)
        if way == 0:
            where[key] = copy.deepcopy(STRANGE[rng.integers(len(STRANGE))])
        elif way == 1:
            where[key] = copy.deepcopy(other[0][other[1]])
        elif way == 2:
            del where[key]
        elif way == 3 and isinstance(where, list):
            where.insert(key, copy.deepcopy(other[0][other[1]]))
        elif isinstance(where, dict):
            where[str(rng.choice(["more", "seal", "?x", "\ud800"]))] = where[key]
    try:
        text = sealed(changed)
    except ValueError:  # a lone surrogate or a number of too many digits has no seal
        text = json.dumps(changed | {"seal": "0" * 64})
    kind = rng.integers(20)
    if kind == 0:
        return text[: rng.integers(len(text))]
    if kind == 1:
        return text.replace('"logic":', '"logic": "godel", "logic":', 1)
    if kind == 2:
        return json.dumps(changed, ensure_ascii=True)
    return text


def judged(file: Path) -> tuple[str, str]:
    """What the checker says."""
    try:
        check(file)
    except (FalseClaim, UnusableProof) as error:
        return type(error).__name__, str(error)
    return "accepted", ""


def test_whatever_is_changed_is_accepted_only_if_it_is_so(
    store: tuplet.Store, proof: dict[str, Any], tmp_path: Path
) -> None:
    """What is accepted all the same, such as an atom twice, is what the engine answers to the query in the file."""
    rng, changed, said = np.random.default_rng(SEED), tmp_path / "b.proof", {"accepted": 0}
    for _ in range(CASES):
        text = mutated(proof, rng)
        changed.write_bytes(text.encode("utf-8", "surrogatepass"))
        verdict, why = judged(changed)
        said[verdict] = said.get(verdict, 0) + 1
        assert "Error" not in why or "UnicodeEncodeError" in why or "zip()" in why, (
            f"{why}: no reason of its own\n{text}"
        )
        if verdict == "accepted":
            found = json.loads(text)
            right = store.ask(formula(found), k=len(found["answers"]), logic=found["logic"], only=found["only"])
            assert [list(answer.values.values()) for answer in right] == [one["tuple"] for one in found["answers"]], (
                text
            )
            assert [answer.truth for answer in right] == pytest.approx([one["truth"] for one in found["answers"]])
    assert min(said[kind] for kind in ("FalseClaim", "UnusableProof")) > CASES / 60, said


@pytest.mark.parametrize("length", [0, 1, 20, 3000])
def test_noise(length: int, tmp_path: Path) -> None:
    rng, file = np.random.default_rng([length, SEED]), tmp_path / "a.proof"
    for _ in range(CASES // 40):
        file.write_bytes(rng.bytes(length))
        assert judged(file)[0] == "UnusableProof"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "cannot be read as a proof"),
        ('{"format": "tuplet proof", "version": 1, "k": ' + "[" * 900 + "]" * 900 + "}", "not a tuplet proof"),
        ('{"format": "tuplet proof", "format": "tuplet proof"}', "a key stands twice"),
        ('{"version": ' + "9" * 5000 + "}", "cannot be read as a proof"),
        ("null", "cannot be read as a proof"),
        ("{}", "not a tuplet proof of version 1"),
        (
            '{"format": "tuplet proof", "version": true}',
            "not a tuplet proof of version 1: not as it must be are version",
        ),
    ],
)
def test_files_that_no_proof_looks_like(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.proof").write_text(text, "utf-8")
    with pytest.raises(SystemExit, match="2"):
        main(["check", str(tmp_path / "a.proof")])
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("field", ["truth", "bound"])
@pytest.mark.parametrize("number", [10**400, float("inf"), -1, 2])
def test_numbers_beyond_all_bounds(
    field: str, number: float, proof: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = copy.deepcopy(proof)
    (changed["answers"][0] if field == "truth" else changed)[field] = number
    text = sealed(changed).replace("Infinity", "1e400")
    (tmp_path / "a.proof").write_text(text, "utf-8")
    with pytest.raises(SystemExit):
        main(["check", str(tmp_path / "a.proof")])
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("sign", [0, 1, "", "true", None, [], 0.0])
def test_a_sign_is_true_or_false_and_nothing_else(sign: Any, proof: dict[str, Any], tmp_path: Path) -> None:
    """`!` before a list of names was switched off by a sign that is neither, and the list was whole without it."""
    for part in ("atoms", "among"):
        changed = copy.deepcopy(proof)
        changed["query"]["clauses"][1][part][-1][-1] = sign
        (tmp_path / "a.proof").write_text(sealed(changed), "utf-8")
        with pytest.raises(UnusableProof, match="not as it must be are query"):
            check(tmp_path / "a.proof")


def test_a_term_is_written_as_what_it_is(proof: dict[str, Any], tmp_path: Path) -> None:
    """What stands around a name is printed with it: `(e1)` or `"e1"` must not be read as <e1>."""
    for term in ("(e1)", "e1", "[e1>", "<e1", "!x", "?"):
        changed = copy.deepcopy(proof)
        changed["query"]["clauses"][1]["among"][0][1][0] = term
        (tmp_path / "a.proof").write_text(sealed(changed), "utf-8")
        with pytest.raises(UnusableProof, match="not as it must be are query"):
            check(tmp_path / "a.proof")


def test_a_variable_is_a_word(tmp_path: Path, file: Path) -> None:
    """A name such as this one made the query that was checked look like another one."""
    text = file.read_text("utf-8")
    forged = json.loads(text.replace('"?z"', '"?z . r0(?x, ?y) & r1(?z"').replace('"z"', '"z . r0(?x, ?y) & r1(?z"'))
    (tmp_path / "a.proof").write_text(sealed(forged), "utf-8")
    with pytest.raises(UnusableProof, match="not as it must be are query"):
        check(tmp_path / "a.proof")


def test_a_witness_has_no_values_beyond_its_variables(proof: dict[str, Any], tmp_path: Path) -> None:
    changed = copy.deepcopy(proof)
    witness = next(one for answer in changed["answers"] for one in answer["witness"] if one)
    witness["values"]["w"] = "e1"
    (tmp_path / "a.proof").write_text(sealed(changed), "utf-8")
    with pytest.raises(FalseClaim, match="rests on"):
        check(tmp_path / "a.proof")


def test_names_cannot_make_a_query_look_like_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The store is right and the proof too; the names in it are written so that each is seen to be one."""
    tail = "b> & r2(?x, <c"
    facts = [("a", "r0", tail, 0.9), ("d\ne", "r1(x, y) & r0", tail, 0.8), ("a\x1b[2J", "r0", "c", 0.7)]
    store = tuplet.build(facts, tmp_path / "names.store", progress=False)
    for number, query in enumerate((f":r0(?x, :{escaped(tail)})", f":{escaped(facts[1][1])}(?x, ?y)")):
        file = tmp_path / f"{number}.proof"
        store.prove(f"?x{', ?y' * number} : {query}", file)
        assert main(["check", str(file)]) == 0
        shown = capsys.readouterr().out
        assert shown.count("\n") == 3
        line = shown.splitlines()[1].removeprefix("query     ")
        assert store.ask(line).to_arrow() == store.ask(f"?x{', ?y' * number} : {query}").to_arrow()


def escaped(name: str) -> str:
    return "".join(letter if letter.isalnum() else f"\\{letter}" for letter in name)
