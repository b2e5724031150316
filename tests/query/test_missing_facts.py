"""What is said of a given tuple that nothing makes true."""

from __future__ import annotations

from typing import Any

import pytest

import tuplet
from tuplet.query.source import Source
from tuplet.read.read import read
from tuplet.store import Store

FACTS = [("ann", "knows", "bob"), ("bob", "likes", "tea"), ("cid", "likes", "wine"), ("ann", "knows", "dan")]
CASES = [
    ("?x : knows(?x, bob)", ["cid"], ["knows(cid, bob)"]),
    ("?x : knows(?x, bob) & likes(?x, wine)", ["ann"], ["likes(ann, wine)"]),
    ("?x : knows(?x, bob) & !knows(?x, dan)", ["ann"], ["!knows(ann, dan)"]),
    ("?x : exists ?y . knows(?x, ?y) & likes(?y, tea)", ["cid"], ["knows(cid, ?y)"]),
    ("?x : exists ?y . knows(?x, ?y) & likes(?y, wine)", ["ann"], ["knows(ann, ?y)", "likes(?y, wine)"]),
    ("?x : likes(?x, tea) | likes(?x, wine)", ["ann"], ["likes(ann, tea)", "likes(ann, wine)"]),
    ("?x, ?y : knows(?x, ?y) & likes(?y, tea)", ["ann", "dan"], ["likes(dan, tea)"]),
]


@pytest.fixture(scope="module", params=["facts", "truth"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    if request.param == "facts":
        return Store(Source(read(FACTS)))
    weighted = [(*fact, 1.0) for fact in FACTS]
    return tuplet.build(weighted, tmp_path_factory.mktemp("missing") / "s", progress=False)


@pytest.mark.parametrize(("query", "given", "missing"), CASES)
def test_what_is_missing_is_named(store: Store, query: str, given: list[str], missing: list[str]) -> None:
    answer: Any = store.explain(query, given)
    assert (answer.truth, answer.status, answer.witness) == (0.0, "none", ())
    assert [str(fact) for fact in answer.missing] == missing
    shown = str(answer.explain())
    assert all(f"missing     {fact}" in shown for fact in missing)
    assert "missing" in answer.explain()._repr_html_()


def test_nothing_is_missing_from_an_answer(store: Store) -> None:
    answer: Any = store.explain("?x : knows(?x, bob)", ["ann"])
    assert (answer.truth, answer.missing, answer.status) == (1.0, (), "observed")
