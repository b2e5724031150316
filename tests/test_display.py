"""What notebooks show: tables as HTML, charts of answers, queries and reliability."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet
from tuplet.errors import BadInput

BORDERS = "?x, ?y : borders(?x, ?y)"
HOSTILE = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuplet.Store:
    """A store that knows how reliable it is: every other fact of a small graph is held out."""
    stated = [(f"p{i}", "knows", f"p{(i + 1) % 12}") for i in range(12)]
    graph = tuplet.read(stated, test=[(f"p{i}", "knows", f"p{(i + 2) % 12}") for i in range(0, 12, 2)])
    table = tmp_path_factory.mktemp("display") / "t.parquet"
    names = [f"p{i}" for i in range(12)]
    tails = [f"p{(i + 2) % 12}" for i in range(12)]
    columns = {"head": names, "relation": ["knows"] * 12, "tail": tails, "truth": [0.5] * 12}
    pq.write_table(pa.table(columns), table)
    return tuplet.index(graph, None, table.with_suffix(".store"), table=table, progress=False)


class Elements(HTMLParser):
    """The elements of a page, and whether each that was opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.seen.append(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_nothing_that_is_shown_is_html_of_others() -> None:
    graph = tuplet.read([(HOSTILE, f"r{HOSTILE}", "b"), ("b", "r2", HOSTILE)])
    store = tuplet.Store(tuplet.Source(graph))
    answers = store.ask("?x, ?y : r2(?x, ?y)")
    shown = [store, graph, answers, answers[0], answers[0].explain(), store.relations(), store.entity("b")]
    for one in shown:
        text = one._repr_html_()
        assert "script" in text
        assert "script" not in Elements(text).seen


def test_tables_have_headers_and_no_colours_of_their_own(measured: tuplet.Store) -> None:
    text = measured.ask("?x, ?y : knows(?x, ?y)", k=20, only="predicted")._repr_html_()
    assert text.count('<th scope="col">') == 4
    assert "#8885 50.0%" in text, "the truth is drawn behind the number"
    assert not re.search(r"(?<!-)color:", text)
    assert "no other predicted tuple has any truth" in text


def test_a_store_says_what_is_in_it(measured: tuplet.Store, world: tuplet.Graph) -> None:
    text = measured._repr_html_()
    assert "<td>12</td>" in text
    assert "truth values are not calibrated" in text
    assert "<code>" in text
    plain = tuplet.Store(tuplet.Source(world))._repr_html_()
    assert "and 4 more" in plain
    assert "promises" not in plain


def test_a_count_is_two_numbers(world_store: tuplet.Store) -> None:
    answers = world_store.ask("count ?x : exists ?y . borders(?x, ?y) & located_in(?x, western_europe)")
    assert "<td>9</td><td>9</td>" in answers._repr_html_()


def test_bars_and_ranks(measured: tuplet.Store) -> None:
    answers = measured.ask("?x, ?y : knows(?x, ?y)", k=15, offset=2)
    chart = answers.plot(most=12).to_dict()
    rows = chart["data"]["values"]
    assert [row["answer"] for row in rows[:2]] == ["3  p10 · p11", "4  p11 · p0"]
    assert {row["status"] for row in rows} == {"observed", "predicted"}
    assert len(rows) == 12
    layers = answers.plot_ranks().to_dict()["layer"]
    assert layers[0]["data"]["values"][-1] == {"rank": 17, "truth": 0.5, "status": "predicted"}
    assert layers[1]["data"]["values"][0]["bound"] == answers.bound == 0.5


def test_reliability_has_a_point_for_every_bin(measured: tuplet.Store, world_store: tuplet.Store) -> None:
    layers = measured.plot_reliability().to_dict()["layer"]
    assert [{key: row[key] for key in ("truth", "share", "edges", "facts")} for row in layers[2]["data"]["values"]] == [
        {"truth": 0.5, "share": 0.5, "edges": 12, "facts": 6}
    ]
    with pytest.raises(BadInput, match="nothing was held out"):
        world_store.plot_reliability()


def test_a_query_is_drawn_clause_by_clause(world_store: tuplet.Store) -> None:
    query = (
        "?x, ?y : exists ?z . borders(?x, ?z) & !borders(?z, ?y) & borders(?y, france) & ?x != ?y & borders(?y, ?y)"
        " | borders(?x, ?y) & located_in(?x, europe)"
    )
    one, other = world_store.plot_query(query).to_dict()["hconcat"]
    edges, arrows, _, _, dots, *_ = (layer["data"]["values"] for layer in one["layer"])
    assert [(edge["label"], edge["kind"]) for edge in edges] == [
        ("borders", "holds"),
        ("not borders", "does not hold"),
        ("borders", "holds"),
        ("borders ↺", "holds"),
        ("≠", "different"),
    ]
    assert len(arrows) == 3, "an inequality has no direction"
    assert [(dot["label"], dot["kind"]) for dot in dots] == [
        ("?x", "asked for"),
        ("?y", "asked for"),
        ("?z", "any"),
        ("France", "given"),
    ]
    assert len({(dot["x"], dot["y"]) for dot in dots}) == 4
    assert [edge["label"] for edge in other["layer"][0]["data"]["values"]] == ["borders", "located_in"]
    with pytest.raises(tuplet.TupletError, match="unknown relation"):
        world_store.plot_query("?x : boders(?x, france)")


def test_a_chart_is_saved_without_a_browser_or_a_network(world_store: tuplet.Store, tmp_path: Path) -> None:
    world_store.plot_query(BORDERS).save(tmp_path / "query.svg")
    assert "borders" in (tmp_path / "query.svg").read_text("utf-8")


def test_one_line_where_altair_is_missing(world_store: tuplet.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    for plot in (world_store.ask(BORDERS).plot, lambda: world_store.plot_query(BORDERS)):
        with pytest.raises(BadInput, match=r"^altair is not installed; pip install 'tuplet\[plots\]'$"):
            plot()
