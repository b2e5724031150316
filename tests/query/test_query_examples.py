"""Queries to start from: each can be asked and has answers."""

from __future__ import annotations

import random
from dataclasses import replace

import tuplet
from tuplet.cli.demo import bundled
from tuplet.query.contents import examples
from tuplet.query.source import Source
from tuplet.store import Store


def test_the_bundled_graph_has_examples_of_its_own() -> None:
    source = Source(bundled())
    found = examples(source)
    assert len(found) == 4
    assert all("only" not in example for example in found), "facts alone predict nothing"
    for example in found:
        assert len(Store(source).ask(example["query"])) > 0, example["title"]


def test_any_other_graph_gets_examples_from_its_facts() -> None:
    rng = random.Random(0)
    facts = [(f"n{rng.randrange(20)}", f"r {rng.randrange(3)}", f"n{rng.randrange(20)}") for _ in range(80)]
    source = Source(tuplet.read(facts))
    found = examples(source)
    assert len(found) == 4
    for example in found[:3]:
        assert len(Store(source).ask(example["query"])) > 0, example
    Store(source).ask(found[3]["query"])


def test_a_graph_in_which_no_two_facts_meet_has_none() -> None:
    source = Source(tuplet.read([("a", "r", "b"), ("c", "s", "d")]))
    assert examples(source) == []
    assert examples(replace(source, splits=("valid",))) == []
