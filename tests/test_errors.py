"""Errors carry fields; the sentences, for Python and for the command line, are made from them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import tuplet
from tuplet.errors import (
    BadInput,
    BudgetExceeded,
    CorruptStore,
    Option,
    ParseError,
    PathExists,
    Refused,
    StoreBusy,
    TupletError,
    UnknownName,
    UnsafeQuery,
    Unsupported,
)
from tuplet.lang.parse import parse
from tuplet.lang.rewrite import clauses

EVERY = [
    TupletError("plain"),
    BadInput("take ", Option("force"), " or ", Option("new_entities")),
    PathExists("a/b"),
    PathExists("a/b", "it is a letter"),
    StoreBusy("s", 1.5),
    ParseError("expected x", "a\nbcd", 3, 2),
    Unsupported("no y", "abc", 1),
    Refused("not by this engine"),
    UnsafeQuery("y", "nothing binds it"),
    UnknownName("entity", "x", ["y"], "is not in the graph", "r(x)", 2),
    BudgetExceeded("too many", limit="atoms"),
    CorruptStore("f.npy: damaged"),
]


@pytest.mark.parametrize("error", EVERY, ids=lambda error: type(error).__name__)
def test_an_error_crosses_processes_with_all_its_fields(error: TupletError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.shell == error.shell
    assert vars(again) == vars(error)


def test_options_are_written_as_the_reader_has_to_write_them() -> None:
    error = EVERY[1]
    assert str(error) == error.message == "take force=True or new_entities=True"
    assert error.shell == "take --force or --new-entities"


def test_a_notebook_shows_one_sentence_and_no_traceback() -> None:
    assert EVERY[1]._render_traceback_() == [f"{type(EVERY[1]).__name__}: take force=True or new_entities=True"]


def test_the_place_is_shown_but_not_part_of_the_message() -> None:
    error = ParseError("expected x", "a\nbcd", 3, 2)
    assert (error.message, error.line, error.column, error.length) == ("expected x", 2, 2, 2)
    assert str(error) == error.shell == "expected x (line 2, column 2)\n  bcd\n   ^^"
    named = UnknownName("relation", "treat", ["treats"], text="treat(?x, a)", position=0, length=5)
    assert (named.kind, named.name, named.suggestions) == ("relation", "treat", ("treats",))
    assert named.message == "unknown relation 'treat'; did you mean 'treats'?"
    assert str(named).startswith(f"{named.message} (line 1, column 1)\n")


def test_a_query_error_names_the_variable_and_the_limit() -> None:
    with pytest.raises(UnsafeQuery) as unsafe:
        clauses(parse("?x, ?y : r(?x, a) & !s(?x, ?y)"))
    assert unsafe.value.variable == "y"
    with pytest.raises(BudgetExceeded) as large:
        clauses(parse("?x : " + " & ".join(f"(r(?x, a{i}) | r(?x, b{i}))" for i in range(7))))
    assert large.value.limit == "clauses"


def test_what_is_about_new_entities_is_refused_without_them(tmp_path: Path) -> None:
    store = tuplet.index(tuplet.read([("a", "r", "b", 0.5)]), None, tmp_path / "s", progress=False)
    with pytest.raises(BadInput, match=r"seconds is about new entities; it needs new_entities=True"):
        store.add([("a", "r", "c")], seconds=5)


def test_a_model_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="no such model: pakaged; did you mean packaged"):
        tuplet.index(tuplet.read([("a", "r", "b")]), "pakaged", "never", progress=False)
