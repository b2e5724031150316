"""What the exact engine shows: the truth of every tuple whatever the limit, ties by name, lists that nest."""

from __future__ import annotations

import numpy as np
import pytest

import tuplet
from tuplet.query.source import Source
from tuplet.truth.table import TruthTable

Facts = list[tuple[str, str, str, float]]


def store_of(facts: Facts) -> tuplet.Store:
    graph = tuplet.read([fact[:3] for fact in facts])
    table = _table(graph, facts)
    return tuplet.Store(Source(graph, None, table))


def _table(graph, facts: Facts, open_: Facts | None = None) -> TruthTable:  # type: ignore[no-untyped-def]
    everything = [*facts, *(open_ or [])]
    heads, relations, tails = (
        np.array([vocabulary.find(fact[i]) for fact in everything])
        for i, vocabulary in enumerate((graph.entities, graph.relations, graph.entities))
    )
    truth = np.array([fact[3] for fact in everything])
    observed = np.arange(len(everything)) < len(facts)
    return TruthTable.build(len(graph.entities), len(graph.relations), heads, relations, tails, truth, observed)


@pytest.mark.parametrize(
    "limit", [{"work": 40}, {"work": 200}, {"work": 1000}, {"timeout": 1e-6}, {"timeout": 0.02}, {"memory": 1}]
)
def test_a_union_shows_true_values_under_every_limit(limit: dict[str, float]) -> None:
    """One clause has a part joined to nothing: where a limit keeps its value from being known, nothing is shown."""
    count = 400
    facts = [(f"p{i}", "knows", f"p{i + 1}", 0.6) for i in range(count)]
    facts += [(f"p{i}", "rare", f"p{(11 * i + 3) % count}", 0.9) for i in range(count)]
    store = store_of(facts)
    query = "?x, ?y : knows(?x, ?y) | exists ?u, ?v, ?w . knows(?x, ?y) & rare(?u, ?v) & rare(?v, ?w)"
    answers = store.ask(query, k=3, **limit)  # type: ignore[arg-type]
    tuples = [tuple(answer.values.values()) for answer in answers]
    assert [answer.truth for answer in answers] == pytest.approx(store.score(query, tuples).tolist())
    assert answers.exact or answers.pruned in ("work", "timeout", "memory")


def test_shorter_lists_are_the_beginning_of_longer_ones() -> None:
    names = [f"e{(37 * i) % 101:03}" for i in range(101)]  # read in another order than that of the names
    facts = [
        (a, "r", b, 1.0) for i, a in enumerate(names) for b in (names[(i * 7 + 3) % 101], names[(i * 5 + 1) % 101])
    ]
    store = store_of(list(dict.fromkeys(facts)))
    queries = (
        "?x, ?y : r(?x, ?y)",
        "?y, ?x : r(?x, ?y)",
        "?x, ?z : exists ?y . r(?x, ?y) & r(?y, ?z)",
        "?x, ?y : r(?x, e003) & r(?y, ?x) | r(?x, ?y) & r(?y, e005)",
        "?x, ?y, ?z : r(?x, ?y) & r(?z, e004)",
    )
    for query in queries:
        whole = [tuple(answer.values.values()) for answer in store.ask(query, k="all")]
        assert whole == sorted(whole)
        assert len(whole) > 3
        for k in (1, 2, 3, 7, len(whole) - 1, len(whole), len(whole) + 1):
            part = store.ask(query, k=k)
            assert [tuple(answer.values.values()) for answer in part] == whole[:k]
            assert part.exact
            assert part.bound == (0 if k >= len(whole) else 1)
            later = store.ask(query, k=k, offset=2)
            assert [tuple(answer.values.values()) for answer in later] == whole[2 : 2 + k]


def test_what_is_missing_at_a_hub_is_found_without_listing_the_facts() -> None:
    """A hub with thousands of facts and few predictions: the work follows the predictions."""
    facts = [(f"f{i:05}", "r", "hub", 1.0) for i in range(5000)]
    open_ = [(f"p{i}", "r", "hub", 0.5) for i in range(5)]
    graph = tuplet.read([*(fact[:3] for fact in facts), *((name, "s", name) for name, *_ in open_)])
    store = tuplet.Store(Source(graph, None, _table(graph, facts, open_)))
    answers = store.ask("?x, ?y : r(?x, hub) & r(?y, hub)", k=10, only="predicted", work=200_000)
    assert answers.exact
    # one predicted spoke and the first fact by name, either way round
    assert [tuple(answer.values.values()) for answer in answers] == [("f00000", f"p{i}") for i in range(5)] + [
        ("f00001", f"p{i}") for i in range(5)
    ]
    assert {answer.status for answer in answers} == {"mixed"}
