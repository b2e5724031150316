"""Proofs of random answers are accepted; proofs that claim anything false are refused, however well they are sealed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from forgeries import FORGERIES
from proof_stores import ENTITIES, random_store
from tampering import TAMPERINGS, Tampering, tampered

import tuplet
from random_queries import random_query
from repeatable import SEED, count
from tuplet.graph.walks import Walker
from tuplet.lang.ast import Among, And, Name, Query
from tuplet.lang.print import to_logic
from tuplet.proof.checker import FalseClaim, check
from tuplet.query.logic import Logic

COUNT = count(70, 1000)
WAYS = TAMPERINGS | FORGERIES
EACH = math.ceil(COUNT / len(WAYS))  # so many refused of each kind
STORES = 12


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[tuplet.Store, Walker]]:
    made = [random_store(tmp_path_factory.mktemp("proof") / "random.store", seed) for seed in range(STORES)]
    return [(store, Walker(store.graph.adjacency)) for store in made]


def prove(number: int, stores: list[tuple[tuplet.Store, Walker]], file: Path) -> tuple[tuplet.Store, int]:
    """The proof of a random question, and how many answers it has."""
    store, walker = stores[number % STORES]
    rng = np.random.default_rng(number + SEED)
    asked = random_query(store.graph, rng, free=(1, 3), walker=walker)
    if rng.random() < 0.2:  # a list of names, or all but these
        names = tuple(Name(f"e{i}") for i in rng.permutation(ENTITIES)[: rng.integers(1, ENTITIES)])
        asked = Query(asked.free, And((asked.body, Among(asked.free[0], names, bool(rng.integers(2))))))
    query = to_logic(asked)
    k, offset, kind = int(rng.choice([0, 1, 3, 10, 40])), int(rng.choice([0, 0, 0, 2])), int(rng.integers(5))
    only = ("predicted", "observed", None, None, None)[kind]
    logic = str(rng.choice(["product", *Logic.names]))
    return store, len(store.prove(query, file, k=k, offset=offset, only=only, logic=logic, force=True))  # type: ignore[arg-type]


def test_random_answers_are_accepted(stores: list[tuple[tuplet.Store, Walker]], tmp_path: Path) -> None:
    file, answered = tmp_path / "a.proof", 0
    for number in range(COUNT):
        _, answers = prove(number, stores, file)
        proof = check(file)
        assert len(proof["answers"]) == answers
        answered += answers > 0
    assert answered > COUNT / 2


@pytest.mark.parametrize("kind", WAYS, ids=lambda kind: kind.__name__)
def test_false_claims_are_refused(kind: Tampering, stores: list[tuple[tuplet.Store, Walker]], tmp_path: Path) -> None:
    file, refused, place = tmp_path / "a.proof", 0, list(WAYS).index(kind)
    for number in range(place * 1_000_000, (place + 1) * 1_000_000):
        store, _ = prove(number, stores, file)
        if tampered(file, kind, np.random.default_rng(number + SEED), store):
            with pytest.raises(FalseClaim, match=WAYS[kind]) as refusal:
                check(file)
            assert "\n" not in str(refusal.value)
            refused += 1
            if refused == EACH:
                return
