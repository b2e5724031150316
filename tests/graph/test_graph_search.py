"""Entities by name, label and part."""

from __future__ import annotations

import random

from tuplet.graph.names import Finder, Vocabulary


def test_beginnings_come_first_then_words_then_the_inside() -> None:
    words = Vocabulary.from_names(["e1", "e2", "e3", "e4"], labels=["Old York", "York", "Yorkshire", "Newyork"])
    assert Finder(words).find("york") == [1, 2, 0, 3]
    assert Finder(words).find("york", most=2) == [1, 2]
    assert Finder(words).find("E3") == [2]
    assert Finder(words).find("  ") == [0, 1, 2, 3]
    assert Finder(words).find("zzz") == Finder(words).find("\ud800") == []


def test_a_match_does_not_run_over_the_end_of_a_name() -> None:
    assert Finder(Vocabulary.from_names(["ab", "cd"])).find("bc") == []


def test_every_name_that_contains_the_text_is_found() -> None:
    rng = random.Random(0)
    names = sorted({"".join(rng.choices("abAB_", k=rng.randint(1, 6))) for _ in range(300)})
    finder = Finder(Vocabulary.from_names(names))
    for _ in range(200):
        text = "".join(rng.choices("ab_", k=rng.randint(1, 3)))
        found = finder.find(text, most=len(names))
        assert set(found) == {i for i, name in enumerate(names) if text in name.lower()}
        begins = [names[i].lower().startswith(text) for i in found]
        assert begins == sorted(begins, reverse=True)
