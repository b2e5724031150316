"""Names and labels: lookup equals a dictionary, suggestions are what a person would mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuplet.errors import BadInput
from tuplet.graph.names import Vocabulary

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.lists(st.tuples(names, st.text(st.sampled_from("ab é"), max_size=2)), unique_by=lambda pair: pair[0]), names)
def test_lookup_equals_a_dictionary(pairs: list[tuple[str, str]], other: str) -> None:
    listed, labels = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    made = Vocabulary.from_names(listed, labels)
    vocabulary = Vocabulary.from_arrays(made.arrays("x_"), "x_")
    assert len(vocabulary) == len(listed)
    assert vocabulary.names(range(len(listed))) == listed
    for i, (name, label) in enumerate(pairs):
        assert vocabulary.find(name) == i
        assert vocabulary.name(i) == name
        assert vocabulary.label(i) == label
        expected = [j for j, text in enumerate(labels) if text == label] if label else []
        assert vocabulary.find_label(label) == expected
    assert vocabulary.find(other) == (listed.index(other) if other in listed else -1)
    assert [listed[i] for i in np.argsort(vocabulary.sort_rank)] == sorted(listed)
    assert vocabulary.labelled == sum(map(bool, labels))


def test_without_labels() -> None:
    vocabulary = Vocabulary.from_names(["a"])
    assert vocabulary.label(0) == ""
    assert vocabulary.find_label("a") == []
    assert vocabulary.find_label("") == []
    assert vocabulary.find("") == -1
    assert vocabulary.find("\ud800") == -1


@pytest.mark.parametrize(
    ("listed", "labels", "message"),
    [
        (["a", "b", "a"], None, "the name 'a' is listed twice"),
        (["a", ""], None, "name number 2 is empty"),
        (["a", "b"], ["x"], "1 labels for 2 names"),
        (["\udcff"], None, "cannot be written as UTF-8"),
    ],
)
def test_bad_lists_are_refused(listed: list[str], labels: list[str] | None, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Vocabulary.from_names(listed, labels)


@pytest.mark.parametrize("padding", [0, 20_000])
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Asthma", "asthma"),
        ("ashtma", "asthma"),
        ("asthmaa", "asthma"),
        ("genre", "/film/film/genre"),
        ("gener", "/film/film/genre"),
        ("new_yrok", "concept_city_new_york"),
        ("/film/film/gnere", "/film/film/genre"),
        ("albert einstien", "Albert Einstein"),
        ("ÉCOLE", "école"),
    ],
)
def test_suggestions(text: str, meant: str, padding: int) -> None:
    """The same in a small vocabulary, where all names are compared, and in a large one, where pieces choose."""
    listed = ["asthma", "/film/film/genre", "concept_city_new_york", "Q937", "école"]
    labels = ["", "", "", "Albert Einstein", ""]
    filler = [f"/m/{i:06x}" for i in range(padding)]
    vocabulary = Vocabulary.from_names([*listed, *filler], [*labels, *(f"Person {i}" for i in range(padding))])
    assert vocabulary.suggest(text)[0] == meant


def test_nothing_near() -> None:
    assert Vocabulary.from_names(["asthma", "calcium"]).suggest("zzzz") == []
    assert Vocabulary.from_names([]).suggest("zzzz") == []
    assert Vocabulary.from_names(["a"]).suggest("") == []
    assert Vocabulary.from_names([f"name{i}" for i in range(5000)]).suggest("") == []
    assert Vocabulary.from_names([f"name{i}" for i in range(5000)]).suggest("\ud800") == []
