"""Answers in words, tables, pickles and Arrow."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest

import tuplet
from tuplet.query.answers import Answers
from tuplet.query.schema import Origin

PAIRS = "?x, ?y : borders(?x, ?y)"


@pytest.fixture(scope="module")
def answers(world_store: tuplet.Store) -> Answers:
    return world_store.ask(PAIRS, k=100)


def test_long_answers_print_like_a_data_frame(answers: Answers) -> None:
    lines = str(answers).splitlines()
    assert len(lines) == 1 + 20 + 1 + 5 + 1
    assert lines[21] == "… 75 more …"
    assert lines[26].split()[0] == "100"
    assert len(answers.table(most=None).splitlines()) == 102
    assert answers._repr_html_().count("<tr>") == 1 + 26
    assert "… 75 more …" in answers._repr_html_()


def test_numbers_go_on_after_an_offset(world_store: tuplet.Store) -> None:
    page = str(world_store.ask(PAIRS, k=2, offset=3)).splitlines()
    assert [line.split()[0] for line in page[1:3]] == ["4", "5"]
    assert page[1].split()[1:3] == str(world_store.ask(PAIRS, k=5)).splitlines()[4].split()[1:3]


def test_names_cannot_break_the_table() -> None:
    facts = [("a\nb", "r", "東京"), ("plain", "r", "x"), ("\x1b[31m", "r", "e\u0301")]
    lines = str(tuplet.Store(tuplet.Source(tuplet.read(facts))).ask("?a, ?b : r(?a, ?b)")).splitlines()
    assert len(lines) == 5
    assert "a\\nb" in lines[2]
    assert "\\x1b" in lines[1]
    wide, plain = (next(line for line in lines if word in line) for word in ("東京", "plain"))
    assert wide.index("observed") == plain.index("observed") - 2, "two characters take four columns"


def test_the_last_line_is_in_words(answers: Answers, world_store: tuplet.Store) -> None:
    def summary(**changes: object) -> str:
        made = replace(answers, elapsed_ms=0.8, ranking=replace(answers.ranking, **changes))
        return made.summary()

    proven = "100 answers, order proven (engine crisp); "
    assert summary(bound=0.5) == f"{proven}every other tuple ≤ 0.5000 · 0.8 ms"
    assert summary(bound=1.0) == f"{proven}more tuples may share truth 1 · 0.8 ms"
    assert summary(bound=0.0) == f"{proven}no other tuple has any truth · 0.8 ms"
    assert summary(exact=False, pruned="timeout").startswith("100 answers, best found so far: timeout (engine")
    assert summary(exact=False, pruned="made up").startswith("100 answers, order not proven: made up (engine")
    assert "not every status is known: timeout" in summary(pruned="timeout")
    assert world_store.ask("?x : borders(?x, iceland)").summary().startswith("no answers: no tuple has any truth")
    far = world_store.ask("?x : borders(?x, germany)", offset=500).summary()
    assert far.startswith("no answers after the first 500: no later tuple has any truth")
    for limit, claim in (({"only": "predicted"}, "other predicted"), ({"offset": 2}, "later")):
        whole = replace(answers.ranking, bound=0.0)
        limits = replace(answers.provenance.limits, **limit)
        limited = replace(answers, ranking=whole, provenance=replace(answers.provenance, limits=limits))
        assert f"no {claim} tuple has any truth" in limited.summary()
    origin = Origin(0.1, None, "1f3a", None, calibrated=False, not_calibrated="3 valid edges")
    told = replace(answers, provenance=replace(answers.provenance, origin=origin)).summary()
    assert told.endswith(" · truth values are not calibrated: 3 valid edges")


def test_one_answer_is_a_tuple_with_names(answers: Answers) -> None:
    first = answers[0]
    assert (first["x"], first.x, first[0]) == ("afghanistan",) * 3
    assert tuple(first) == ("afghanistan", "china")
    assert len(first) == 2
    assert repr(first) == "<Answer: x = Afghanistan, y = China; truth 1, observed>"
    with pytest.raises(AttributeError, match="no 'z'"):
        first.z
    assert str(first.explain()).splitlines()[1].split() == ["observed", "borders(Afghanistan,", "China)", "1"]
    fact = first.to_dict()["witness"][0]
    assert (fact["head"], fact["head_label"], fact["tail_label"]) == ("afghanistan", "Afghanistan", "China")


def test_rows_and_answers_are_the_same(answers: Answers) -> None:
    assert list(answers.rows()) == [answer.to_dict() for answer in answers]
    assert list(answers.rows(3, 5)) == [answer.to_dict() for answer in answers[3:5]]


def test_answers_travel(answers: Answers, world_store: tuplet.Store) -> None:
    sent = pickle.dumps(answers)
    assert len(sent) < 20_000, "the names that occur, not the graph"
    back = pickle.loads(sent)
    assert back.to_dict() == answers.to_dict()
    assert pickle.loads(pickle.dumps(back)).to_dict() == answers.to_dict()
    assert pickle.loads(pickle.dumps(answers[0])) == answers[0]
    query = "?x : exists ?y . borders(?x, ?y) & !member_of(?x, nato) | located_in(?x, europe)"
    several = world_store.ask(query, k=50)
    assert pickle.loads(pickle.dumps(several)).to_dict() == several.to_dict()


def test_answers_are_arrow_data(answers: Answers) -> None:
    assert pa.table(answers).equals(answers.to_arrow())
