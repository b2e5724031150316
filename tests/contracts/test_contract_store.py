"""Stores on disk against the oracle: random graphs and queries, filters, limits, pages, unions, edits in between.

`make soak` asks 100,000 queries; `make test` some hundred.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet
from random_queries import random_query
from repeatable import SOAK, seeds
from tuplet.build import make
from tuplet.graph.names import Vocabulary
from tuplet.lang.ast import Query
from tuplet.query.logic import Logic
from tuplet.truth.recipes import Given

BLOCKS = seeds(4, 200)
GRAPHS, QUERIES = (10, 50) if SOAK else (3, 25)


def random_store(rng: np.random.Generator, path: Path) -> tuplet.Store:
    """A small store with facts and predictions, perhaps weighted, perhaps with many ties; names in random order."""
    count, relations = int(rng.integers(4, 8)), int(rng.integers(1, 4))
    names = [f"n{i}" for i in rng.permutation(count)]
    heads, relation, tails = np.nonzero(rng.random((count, relations, count)) < rng.choice([0.2, 0.4]))
    observed = rng.random(len(heads)) < 0.6
    observed[0] = True
    coarse = rng.random() < 0.6
    truth = rng.integers(1, 8, len(heads)) / 8 if coarse else rng.uniform(0.01, 0.99, len(heads))
    certain = np.ones(len(heads), bool) if rng.random() < 0.7 else rng.random(len(heads)) < 0.5
    given = np.where(observed & certain, 1.0, truth)
    triples = [(names[h], f"r{r}", names[t]) for h, r, t in zip(heads, relation, tails, strict=True)]
    weighted = not certain.all()
    facts = [(*triples[i], float(given[i])) if weighted else triples[i] for i in np.flatnonzero(observed)]
    graph = tuplet.read(facts)
    known = set(names_of(graph.entities))
    listed = [i for i in range(len(triples)) if triples[i][0] in known and triples[i][2] in known]
    listed = [i for i in listed if triples[i][1] in set(names_of(graph.relations))]
    columns = {name: [triples[i][j] for i in listed] for j, name in enumerate(("head", "relation", "tail"))}
    table = pa.table(columns | {"truth": given[listed], "source": observed[listed].astype(np.uint8)})
    pq.write_table(table, path / "truth.parquet")
    make(graph, Given(path / "truth.parquet", ("train",), 0.001, "given"), path / "some.store", force=True)
    return tuplet.open(path / "some.store")


def names_of(words: Vocabulary) -> list[str]:
    return words.names(range(len(words)))


def edit(store: tuplet.Store, rng: np.random.Generator) -> None:
    """A fact more or a fact less, or all changes so far merged."""
    if rng.random() < 0.2:
        store.compact()
        return
    entities, relations = names_of(store.graph.entities), names_of(store.graph.relations)
    fact = (str(rng.choice([*entities, "new"])), str(rng.choice(relations)), str(rng.choice(entities)))
    if rng.random() < 0.5:
        store.add([fact], new_entities=True)
    else:
        stated = [f for f in ([h, r, t] for h in entities for r in relations for t in entities) if _stated(store, f)]
        if len(stated) > 1:
            store.remove([tuple(stated[int(rng.integers(len(stated)))])])


def _stated(store: tuplet.Store, fact: list[str]) -> bool:
    graph = store.graph
    ids = graph.entities.find(fact[0]), graph.relations.find(fact[1]), graph.entities.find(fact[2])
    return bool(store.source.facts.find(*ids) >= 0)


def check(store: tuplet.Store, query: Query, rng: np.random.Generator) -> bool:
    """One query under random limits; returns whether it has answers."""
    only = (None, None, "predicted", "observed")[int(rng.integers(4))]
    logic = Logic.names[int(rng.integers(3))]
    k, offset = int(rng.choice([1, 2, 5, 20, 1000])), int(rng.choice([0, 0, 1, 3]))
    caps: list[dict[str, float]] = [{}, {}, {"work": int(rng.choice([1, 20, 100]))}, {"timeout": 1e-5}]
    cap = caps[int(rng.integers(4))]
    whole = store.ask(query, engine="brute", k="all", only=only, logic=logic)  # type: ignore[arg-type]
    values = [tuple(answer.values.values()) for answer in whole]
    truth = {value: answer.truth for value, answer in zip(values, whole, strict=True)}
    status = {value: answer.status for value, answer in zip(values, whole, strict=True)}
    asked = store.ask(query, k=k, offset=offset, only=only, logic=logic, **cap)  # type: ignore[arg-type]
    shown = [tuple(answer.values.values()) for answer in asked]
    assert len(set(shown)) == len(shown)
    for value, answer in zip(shown, asked, strict=True):
        assert answer.truth == pytest.approx(truth[value], rel=1e-9)
        # among equal witnesses one may rest on a fact and another not; whether the facts give the tuple is certain
        assert answer.status is None or (answer.status == "observed") == (status[value] == "observed")
        assert answer.status is not None or asked.pruned == "timeout"
    if asked.exact:
        assert shown == values[offset : offset + k]
    else:
        assert cap
        assert asked.pruned in cap
    rest = [t for value, t in truth.items() if value not in set(shown) | set(values[:offset])]
    if not asked.exact and offset:
        rest = []  # which tuples were skipped is not known
    assert max(rest, default=0.0) <= asked.bound * (1 + 1e-9)
    if not cap and offset + k >= len(values):
        assert asked.bound == 0
    crisp = store.ask(query, engine="crisp", k=k, offset=offset)
    facts = [v for v, s in status.items() if s == "observed"]
    if only is None and logic == "product":
        assert [tuple(a.values.values()) for a in crisp] == sorted(facts)[offset : offset + k]
    return bool(values)


@pytest.mark.parametrize("block", BLOCKS)
def test_stores_answer_as_the_oracle_does(block: int, tmp_path: Path) -> None:
    answered = 0
    for number in range(GRAPHS):
        rng = np.random.default_rng([block, number])
        store = random_store(rng, tmp_path)
        for place in range(QUERIES):
            if place % 10 == 9:
                edit(store, rng)
            answered += check(store, random_query(store.graph, rng, free=(1, 3)), rng)
    assert answered > GRAPHS * QUERIES / 4
