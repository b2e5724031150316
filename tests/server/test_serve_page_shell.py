"""The page around the answers: the text of the query, its undo and history, links, stopping, code, keys, a folder."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import CONTRAST, NAMELESS, Visit, expect, needs_browser, run, until
from running_server import Server, Start

from tuplet.server.keys import add_key

pytestmark = needs_browser

SPARQL = "# what borders France\nSELECT ?x WHERE {\n  ?x :borders :france # directly\n}"


@pytest.fixture
def visit(browser: Any, server: Server) -> Iterator[Visit]:
    visit = Visit(browser, server, "desk")
    yield visit
    visit.close()


@pytest.fixture
def page(visit: Visit) -> Any:
    return visit.open()


SPANS = """() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(
  [...document.querySelectorAll("#mirror span")].map((e) => [e.className, e.textContent])))))"""


def words(page: Any) -> dict[str, list[str]]:
    """The coloured words of the text by what they are, once they are painted."""
    found: dict[str, list[str]] = {}
    for name, text in page.evaluate(SPANS):
        found.setdefault(name.removeprefix("t-"), []).append(text)
    return found


def test_text_is_coloured_in_three_languages_and_brackets_match(page: Any) -> None:
    page.fill("#query", SPARQL)
    found = words(page)
    assert found["comment"] == ["# what borders France", "# directly"]
    assert (found["variable"], found["relation"], found["entity"]) == (["?x", "?x"], [":borders"], [":france"])
    assert found["bracket pair"] == ["{", "}"], "the caret is behind the last one"
    page.fill("#query", '?x : exists ?y . knows(?x, ?y) & ?y.age > 30 & likes(?x, "a (b") limit 5')
    found = words(page)
    assert (found["keyword"], found["number"]) == (["exists", "limit"], ["30", "5"])
    assert (found["relation"], found["attribute"], found["text"]) == (["knows", "likes"], ["age"], ['"a (b"'])
    page.fill("#query", 'MATCH (x)-[r:knows|likes]->(y:Person) WHERE y.name = "bob" RETURN x // all')
    found = words(page)
    assert (found["relation"], found["entity"], found["attribute"]) == (["knows", "likes"], ["Person"], ["name"])
    assert found["keyword"] == ["MATCH", "WHERE", "RETURN"]
    # what is seen is what is there, and a mistake in it is still marked
    page.fill("#query", "?x : borders(?x france)")
    page.wait_for_selector("#mirror mark")
    assert page.evaluate("document.getElementById('mirror').textContent").rstrip("\u200b") == "?x : borders(?x france)"
    assert page.evaluate(CONTRAST) == []


def test_the_editor_grows_with_its_text(page: Any) -> None:
    height = page.locator("#query").bounding_box()["height"]
    page.fill("#query", "?x : borders(?x, france)" + "\n  & borders(?x, ?x)" * 12)
    grown = page.locator("#query").bounding_box()["height"]
    assert grown > 1.5 * height
    assert page.evaluate(
        "(({scrollHeight, clientHeight}) => scrollHeight <= clientHeight)(document.getElementById('query'))"
    )
    page.fill("#query", "\n".join(f"# {i}" for i in range(200)))
    assert page.locator("#query").bounding_box()["height"] <= 0.61 * 800
    page.locator("#query").evaluate("(area) => { area.scrollTop = 900; }")
    until(page, lambda: page.evaluate("document.getElementById('mirror').scrollTop") == 900)


def test_every_change_of_the_text_can_be_undone(page: Any) -> None:
    area = page.locator("#query")
    assert page.is_disabled("#undo")
    area.press_sequentially("?x : bord")
    page.wait_for_selector("#completion li")
    page.keyboard.press("Tab")
    area.press_sequentially("(?x, france)")
    mine = "?x : borders(?x, france)"
    page.click("#as-sparql")
    expect(area).to_have_value(re.compile("^SELECT"))
    page.click("#clear")
    expect(area).to_have_value("")
    page.click("#example-cards button")
    page.wait_for_selector("tbody tr")
    area.focus()
    for text in (re.compile("^$"), re.compile("^SELECT"), re.compile(f"^{re.escape(mine)}$")):
        page.keyboard.press("Control+z")
        expect(area).to_have_value(text)
    while page.is_enabled("#undo"):
        page.click("#undo")
    assert page.input_value("#query") == ""
    for _ in range(20):
        page.keyboard.press("Control+Shift+z")
    expect(area).to_have_value(re.compile("exists \\?neighbour"))
    assert page.is_disabled("#redo")
    # a new line begins where the one before did, and an example can be undone from a button
    page.fill("#query", "a\n  b")
    area.press("Enter")
    assert page.input_value("#query") == "a\n  b\n  "


def test_each_language_keeps_its_text(page: Any) -> None:
    area = page.locator("#query")
    page.fill("#query", SPARQL)
    page.click("#as-logic")
    expect(area).to_have_value("?x : borders(?x, france)")
    expect(page.locator("#message")).to_contain_text("Comments are not translated")
    page.click("#as-cypher")
    expect(area).to_have_value(re.compile("^MATCH"))
    page.click("#as-sparql")
    expect(area).to_have_value(SPARQL)
    page.click("#as-logic")
    expect(area).to_have_value("?x : borders(?x, france)")  # it has come before the next text is typed
    page.fill("#query", "?x : borders(?x, spain)")
    page.click("#as-sparql")
    expect(area).to_have_value("SELECT ?x WHERE {\n  ?x :borders :spain\n}")


def test_a_text_is_laid_out_and_its_names_are_told(page: Any) -> None:
    area = page.locator("#query")
    page.fill(
        "#query",
        "?x, ?y : borders(?x, ?y) & (member_of(?x, nato) | member_of(?y, nato)) & located_in(?x, africa) limit 3",
    )
    page.click("#format")
    lines = ["?x, ?y :", "borders(?x, ?y)", "& (member_of(?x, nato) | member_of(?y, nato))", "& located_in(?x, africa)"]
    expect(area).to_have_value("\n  ".join(lines) + "\nlimit 3")
    page.wait_for_selector("#message:empty")
    for word, told in (("africa", "Africa (africa): entity"), ("located_in", "located_in: relation, ")):
        box = page.locator(f"#mirror span:text-is('{word}')").bounding_box()
        page.mouse.move(box["x"] + 4, box["y"] + 4)
        expect(area).to_have_attribute("title", re.compile("^" + re.escape(told)))
    page.fill("#query", SPARQL)
    page.click("#format")
    expect(page.locator("#message")).to_have_text("A text with comments is left as it is.")
    assert page.input_value("#query") == SPARQL


def test_completion_fits_the_place_and_goes_over_blanks(page: Any) -> None:
    area = page.locator("#query")
    for text, first, taken in (
        ("?x : borders(?x, South Af", "South Africa", "?x : borders(?x, south_africa"),
        ("?x : located i", "located_in", "?x : located_in"),
        ("?x : borders(?x, loc", "", ""),  # no relation where an entity stands
        ("SELECT ?x { ?x bor", "borders", "SELECT ?x { ?x :borders"),
        ("SELECT ?x { ?x :borders South Af", "South Africa", "SELECT ?x { ?x :borders :south_africa"),
        ("SELECT ?x { ?x :borders ?y ; member", "member_of", "SELECT ?x { ?x :borders ?y ; :member_of"),
        ("MATCH (x)-[:bor", "borders", "MATCH (x)-[:borders"),
    ):
        page.fill("#query", text[:-1])
        area.press_sequentially(text[-1])
        if not first:
            expect(page.locator("#completion li", has_text="located_in")).to_have_count(0)
            continue
        page.wait_for_selector(f"#completion li:first-child span:text-is('{first}')")
        assert re.match(r"\d suggestions?, the first is ", page.inner_text("#choices"))
        page.keyboard.press("Tab")
        assert page.input_value("#query") == taken


def test_back_history_and_saved_queries(visit: Visit, page: Any) -> None:
    run(page, "?x : borders(?x, france)")
    run(page, "?x : borders(?x, spain)")
    expect(page).to_have_title("?x : borders(?x, spain) · tuplet")
    page.go_back()
    expect(page.locator("#query")).to_have_value("?x : borders(?x, france)")
    page.wait_for_selector("#ask:text-is('Ask')")
    page.go_back()
    page.wait_for_selector("#empty")
    expect(page.locator("#query")).to_have_value("")
    expect(page.locator("tbody tr")).to_have_count(0)
    page.go_forward()
    page.wait_for_selector("tbody tr")
    # a saved one, with the budget of its engine
    page.select_option("#engine", "ns3")
    page.fill("#budget", "17")
    run(page, "?x : borders(?x, germany)")
    until(page, lambda: "budget=17" in page.url)
    page.click("#queries-open")
    asked = page.locator("#asked-list a").evaluate_all("(links) => links.map((link) => link.title)")
    assert [asked[0], *sorted(set(asked[1:]))] == [f"?x : borders(?x, {c})" for c in ("germany", "france", "spain")]
    page.fill("#save-name", "neighbours")
    page.keyboard.press("Enter")
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []
    visit.open("/")
    page.click("#queries-open")
    page.click("#saved-list a:has-text('neighbours')")
    expect(page.locator("#query")).to_have_value("?x : borders(?x, germany)")
    page.wait_for_selector("tbody tr")
    assert (page.input_value("#engine"), page.input_value("#budget")) == ("ns3", "17")
    page.click("#queries-open")
    page.click("#forget-asked")
    page.click("#saved-list button")
    assert page.locator(".queries li").count() == 0
    assert page.is_visible("#saved-none")


def test_answers_of_another_query_are_greyed(page: Any) -> None:
    run(page, "?x : borders(?x, france)")
    page.wait_for_selector("tbody tr")
    assert not page.is_visible("#stale")
    page.click("#as-sparql")  # the same query
    expect(page.locator("#query")).to_have_value(re.compile("^SELECT"))
    expect(page.locator("#stale")).to_be_hidden()
    page.fill("#query", "?x : borders(?x, spain)")
    expect(page.locator("#stale")).to_be_visible()
    assert page.evaluate(CONTRAST) == []
    page.click("#stale-back")
    expect(page.locator("#query")).to_have_value("?x : borders(?x, france)")
    expect(page.locator("#stale")).to_be_hidden()
    page.select_option("#store", "people")  # does not know what is asked
    expect(page.locator("#query")).to_have_value("")
    expect(page.locator("#message")).to_have_text(re.compile("Undo brings it back"))
    expect(page.locator("#stale")).to_be_visible()
    page.click("#stale-back")
    expect(page.locator("#store")).to_have_value("world")
    expect(page.locator("#stale")).to_be_hidden()


def test_a_search_is_stopped_and_asked_again(page: Any) -> None:
    held: list[Any] = []
    given_up: list[str] = []
    page.on("requestfailed", lambda request: given_up.append(request.post_data_json["query"]))
    page.route("**/ask", lambda route: held.append(route) if len(held) < 2 else route.continue_())
    page.fill("#query", "?x : borders(?x, france)")
    page.click("#ask")
    page.wait_for_selector("#stop:visible")
    expect(page.locator("#elapsed")).to_have_text(re.compile(r"^(?!0\.0)\d+\.\d s$"))
    assert page.get_attribute("#results", "aria-busy") == "true"
    page.click("#stop")
    expect(page.locator("#message")).to_have_text(re.compile(r"^Stopped after \d+\.\d s\.$"))
    expect(page.locator("#stop")).to_be_hidden()
    page.fill("#query", "?x : borders(?x, spain)")
    page.click("#ask")
    expect(page.locator("#ask")).to_have_text("Asking…")
    until(page, lambda: len(held) == 2)
    page.fill("#query", "?x : borders(?x, italy)")
    page.click("#ask")  # while it runs: that one is stopped, this one asked
    page.wait_for_selector("tbody tr")
    expect(page.locator("#ask")).to_have_text("Ask")
    until(page, lambda: len(given_up) == 2)
    assert given_up == ["?x : borders(?x, france)", "?x : borders(?x, spain)"]
    # what the query says about how many is what is asked
    run(page, "?x, ?y : borders(?x, ?y) limit 3")
    assert page.locator("tbody tr").count() == 3
    assert page.is_disabled("#k")


def test_code_that_asks_the_same(page: Any) -> None:
    run(page, '# it\'s "France"\n?x : borders(?x, france)')
    page.wait_for_selector("tbody tr")
    count = page.locator("tbody tr").count()
    page.click("#code")
    curl = page.inner_text("#code-text")
    page.click("#code-python")
    python = page.inner_text("#code-text")
    page.click("#code-command")
    assert page.inner_text("#code-text").startswith("tuplet ask 'world.store' '# it'\\''s \"France\"")
    assert page.evaluate(CONTRAST) == []
    if shutil.which("curl"):
        answered = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, timeout=60, check=True)
        assert len(json.loads(answered.stdout)["answers"]) == count
    answered = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, timeout=60, check=True)
    assert len(answered.stdout.splitlines()) == count


def test_a_key_is_asked_for_and_explained(browser: Any, start: Start, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "anna")
    visit = Visit(browser, start("--api-key-file", str(tmp_path / "keys")), "desk")
    page = visit.page
    page.goto(visit.url)
    page.wait_for_selector("#key-dialog[open]")
    assert "tuplet serve --new-key" in page.inner_text("#key-dialog")
    page.keyboard.press("Escape")
    page.wait_for_selector("html[data-ready=yes]")
    expect(page.locator("#message")).to_have_text(re.compile("needs a key; “Key” at the top takes one"))
    page.fill("#query", "?x : borders(?x, france)")  # nothing pesters while one types
    page.wait_for_timeout(400)
    assert page.locator("#key-dialog[open]").count() == 0
    page.click("#ask")
    page.wait_for_selector("#key-dialog[open]")
    assert not page.is_visible("#key-wrong")
    page.fill("#key", "tuplet_wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("#key-wrong:visible")
    assert page.evaluate("sessionStorage.getItem('tuplet-key')") is None
    assert page.evaluate(CONTRAST) == []
    page.fill("#key", key)
    page.keyboard.press("Enter")
    page.wait_for_selector("tbody tr")
    assert "entities" in page.inner_text("#facts")
    page.click("#code")
    assert "$TUPLET_KEY" in page.inner_text("#code-text")
    assert key not in page.content()
    page.keyboard.press("Escape")
    page.click("#key-open")
    page.click("#key-cancel")
    run(page, "?x : borders(?x, spain)")
    assert page.locator("#key-dialog[open]").count() == 0, "the key that was there is still there"
    assert [complaint for complaint in visit.complaints if "401" not in complaint] == []
    visit.complaints.clear()
    visit.close()


def test_the_page_works_in_a_folder(visit: Visit, server: Server) -> None:
    """A proxy that puts the server below /kg/: every address the page asks for has to be there."""

    def forward(route: Any) -> None:
        path = route.request.url.removeprefix("http://localhost:9/kg")
        # What the browser adds later, such as the site, is not in these headers; so the origin is not either.
        headers = {name: value for name, value in route.request.headers.items() if name != "origin"}
        route.fulfill(response=route.fetch(url=server.url + path, headers=headers))

    visit.page.route("http://localhost:9/kg/**", forward)
    visit.url = "http://localhost:9/kg"
    page = visit.open("/")
    page.click("#example-cards button")
    page.wait_for_selector("tbody tr")
    page.locator("tbody tr").first.click()
    page.wait_for_selector("#why:visible canvas")
    page.click("#code")
    assert "http://localhost:9/kg/ask" in page.inner_text("#code-text")
    assert {url for url in visit.elsewhere if not url.startswith("http://localhost:9/kg/")} == set()
    visit.elsewhere.clear()
