"""Exploring in a real browser: cards of entities and relations, answers as a graph, sorting, filtering, paging."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import CONTRAST, NAMELESS, Visit, expect, needs_browser, run, until
from running_server import Server

pytestmark = needs_browser
BORDERS = "?a, ?b : borders(?a, ?b)"


@pytest.fixture(scope="module")
def visit(browser: Any, server: Server) -> Iterator[Visit]:
    visit = Visit(browser, server, "desk")
    visit.open()
    yield visit
    visit.close()


@pytest.fixture
def page(visit: Visit) -> Any:
    """One page for all: what was open is closed again."""
    if visit.page.is_visible("#drawer-close"):
        visit.page.click("#drawer-close")
    if visit.page.is_visible("button[data-view=table][aria-pressed=false]"):
        visit.page.click("button[data-view=table]")
    return visit.page


def answered(page: Any, text: str) -> None:
    run(page, text)
    page.wait_for_selector("tbody tr")


def test_an_entity_is_looked_at_expanded_and_asked_about(page: Any) -> None:
    answered(page, "?x : borders(?x, france) & member_of(?x, nato)")
    first = page.locator("tbody .entity").first
    name = first.inner_text()
    first.click()
    page.wait_for_selector("#drawer .group")
    assert page.inner_text("#drawer-title") == name
    assert page.locator("tr.why").count() == 0, "the row is another thing to click"
    assert page.locator("#drawer .chip").count() >= 1
    assert "stated facts" in page.inner_text("#drawer .card")
    page.locator("#drawer button:text-is('France')").first.click()
    expect(page.locator("#drawer-title")).to_have_text("France")

    # of each relation more, and why a prediction is believed
    group = page.locator("#drawer .group", has=page.locator("h3:has-text('borders')")).first
    before = group.locator("li").count()
    group.locator("button:text-is('More')").click()
    expect(group.locator("button:text-is('More')")).to_be_hidden()
    assert group.locator("li").count() > before
    page.locator("#drawer button:text-is('why?')").first.click()
    page.wait_for_selector("#drawer .evidence li")
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []

    # back, and on: a query about it
    page.click("#drawer-back")
    expect(page.locator("#drawer-title")).to_have_text(name)
    page.click("#drawer button:text-is('Ask about it')")
    page.wait_for_selector("th:has-text('?relation')")
    page.locator("tbody td:nth-child(2) .entity").first.click()  # a relation can be looked at too
    page.wait_for_selector("#drawer h3:has-text('Stated, for example')")
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_be_hidden()
    until(page, lambda: page.evaluate("document.activeElement.className") == "entity")  # the focus is back


def test_attributes_are_on_the_card(page: Any) -> None:
    page.select_option("#store", "people")
    page.wait_for_selector("#facts:has-text('4 entities')")
    answered(page, "?x : knows(?x, bob)")
    page.locator("tbody .entity").first.click()
    page.wait_for_selector("#drawer dl")
    assert page.locator("#drawer dt").all_inner_texts() == ["age", "born", "nick"]
    page.click("#browse")
    page.click("[aria-label='Show age as a column']")
    expect(page.locator("#query")).to_have_value("?x : knows(?x, bob) show ?x, ?x.age")
    page.click("#drawer-back")
    assert "predicti" not in page.inner_text("#drawer .card")
    page.fill("#query", "")
    page.select_option("#store", "world")
    page.wait_for_selector("#facts:has-text('predictions')")
    page.select_option("#engine", "exact")


def test_what_there_is_can_be_browsed_and_put_into_the_query(page: Any) -> None:
    page.fill("#query", "?x : borders(?x, france)")
    expect(page.locator("#graph")).to_have_attribute("aria-label", re.compile("France"))
    page.click("#browse")
    page.wait_for_selector("#drawer .schema li")
    counts = page.locator("#drawer .schema").first.locator(".quiet").all_inner_texts()
    numbers = [int(count.replace(",", "")) for count in counts]
    assert numbers == sorted(numbers, reverse=True)
    page.fill("#drawer input[type=search]", "capit")
    expect(page.locator("#drawer .schema").first.locator("li")).to_have_count(1)
    page.click("[aria-label='Add has capital to the query']")
    expect(page.locator("#query")).to_have_value("?x, ?y : borders(?x, france) & has_capital(?x, ?y)")
    page.locator("#drawer .schema .entity").first.click()
    page.wait_for_selector("#drawer h3:has-text('not stated')")
    assert page.locator("#drawer .neighbours").first.locator("li").count() == 5
    page.click("#drawer button:text-is('Ask for all')")
    page.wait_for_selector("th:has-text('?y')")
    page.click("#browse")
    page.fill("#drawer input[type=search]", "france")
    page.locator("#drawer .schema button:text-is('France')").click()
    page.wait_for_selector("#drawer .group")


def test_answers_are_sorted_filtered_and_paged(page: Any) -> None:
    answered(page, BORDERS)
    column = page.locator("tbody td:nth-child(2)")
    page.click("th button:text-is('?a')")
    page.click("th button:text-is('?a')")
    assert page.get_attribute("th:nth-child(2)", "aria-sort") == "descending"
    names = [name.splitlines()[0] for name in column.all_inner_texts()]
    assert names == sorted(names, key=str.lower, reverse=True)
    page.click("th button:text-is('?a')")
    assert page.locator("th[aria-sort]").count() == 0
    assert page.locator("tbody td.rank").first.inner_text() == "1"

    page.fill(".filter", "china")
    expect(page.locator(".pages .quiet")).to_contain_text("of 50 fetched so far")
    rows = page.locator("tbody tr").all_inner_texts()
    assert rows
    assert all("china" in row.lower() for row in rows)
    page.fill(".filter", "no such thing")
    expect(page.locator("tbody")).to_contain_text("None of the answers")
    page.fill(".filter", "")

    # more than the first list: asked for from where it ended
    page.click(".pages button:text-is('More answers')")
    expect(page.locator(".pages .quiet")).to_have_text("41–60 of 100")
    assert page.locator("tbody td.rank").first.inner_text() == "41"
    assert page.inner_text(".panel .quiet").startswith("100 answers")
    ranked = page.evaluate(
        """() => fetch("ask", { method: "POST", headers: { "Content-Type": "application/json" },
          body: JSON.stringify({ query: "?a, ?b : borders(?a, ?b)", k: 100 }) }).then((r) => r.json())"""
    )["answers"]
    page.click(".pages button:text-is('Next')")
    page.click(".pages button:text-is('Next')")
    last = page.locator("tbody tr").last.locator("td")
    assert [last.nth(i).inner_text() for i in (0, 1, 2)] == ["100", *ranked[-1]["labels"].values()]


def test_only_a_proof_says_that_there_is_nothing(page: Any) -> None:
    changes: dict[str, Any] = {"answers": [], "exact": False, "bound": 1.0, "pruned": "the timeout of 10 s"}
    page.route("**/ask", lambda route: route.fulfill(json={**route.fetch().json(), **changes}))
    said = {}
    for name, exact, bound in (("late", False, 1.0), ("bounded", False, 0.2), ("proven", True, 0.0)):
        changes |= {"exact": exact, "bound": bound, "pruned": None if exact else "the timeout of 10 s"}
        run(page, f"?{name} : borders(?{name}, france)")
        page.wait_for_selector(".nothing")
        said[name] = page.inner_text(".panel")
    page.unroute("**/ask")
    for name in ("late", "bounded"):
        assert "none is ruled out" in said[name]
        assert "makes this query true" not in said[name]
        assert "no other" not in said[name]
    assert "nothing is ruled out" in said["late"]
    assert "no tuple above 0.2" in said["bounded"]
    assert "No tuple makes this query true." in said["proven"]
    run(page, "?x : borders(?x, france) offset 5000")
    page.wait_for_selector(".nothing:has-text('after the 5,000 that were skipped')")


def test_answers_as_a_graph_that_grows_and_is_saved(page: Any) -> None:
    answered(page, "?x : borders(?x, portugal)")
    page.click(".views button:text-is('Graph')")
    drawing = page.locator(".answer-graph .canvas")
    expect(drawing).to_have_attribute("aria-label", re.compile(r"^Graph of \d+ entities and \d+ facts$"))
    cy = "document.querySelector('.answer-graph .canvas')._cyreg.cy"
    drawn = f"document.querySelector('.answer-graph .canvas')._cyreg ? {cy}.nodes().length : 0"
    until(page, lambda: page.evaluate(drawn) > 1)
    before = page.evaluate(f"{cy}.nodes().length")
    page.select_option(".answer-graph select", "spain")
    page.click(".answer-graph button:text-is('Expand')")
    page.wait_for_selector(".answer-graph [role=status]:has-text('more facts')")
    until(page, lambda: page.evaluate(drawn) > before)
    titles = page.evaluate(f"{cy}.edges().map((e) => e.data('title'))")
    assert any("member of" in title for title in titles)
    assert page.evaluate(f"{cy}.edges('.observed').length") > 0
    page.evaluate(f"void {cy}.edges('.predicted')[0].emit('tap')")
    page.wait_for_selector(".answer-graph .fact .evidence li")
    page.click(".answer-graph button:text-is('Card')")
    expect(page.locator("#drawer-title")).to_have_text("Spain")
    page.click("#drawer button:text-is('Draw it')")
    expect(page.locator("#drawer .canvas")).to_have_attribute("aria-label", re.compile("Graph of"))
    page.click("#drawer-close")

    for kind, start in (("SVG", b"<svg "), ("PNG", b"\x89PNG")):
        with page.expect_download() as waiting:
            page.click(f".view [aria-label='Save as {kind}']")
        saved = Path(waiting.value.path()).read_bytes()
        assert saved.startswith(start)
        assert kind == "PNG" or b"Portugal" in saved
    size = page.evaluate(f"{cy}.zoom()")
    page.click(".view [aria-label='Larger']")
    until(page, lambda: page.evaluate(f"{cy}.zoom()") > size)
    page.click(".views button:text-is('Table')")


def test_long_names_are_told_apart_and_told_whole(page: Any) -> None:
    named = {"/a/film/genre": "film · genre", "/b/book/genre": "book · genre", "/c/person/born": "born", "is_a": "is a"}
    pairs = [[name, "b book genre" if "book" in name else ""] for name in named] + [["q", "Label"]]
    titles = page.evaluate(
        """async (pairs) => {
          const { titlesOf } = await import(new URL("web/elements.js", document.baseURI));
          return Object.fromEntries(titlesOf(pairs));
        }""",
        pairs,
    )
    assert titles == {**named, "q": "Label"}
    page.fill("#query", "?x : official_language(?x, french)")
    expect(page.locator("#graph")).to_have_attribute("aria-label", re.compile("French"))
    page.evaluate("void document.getElementById('graph')._cyreg.cy.getElementById('0/c/french').emit('mouseover')")
    expect(page.locator(".drawing:has(#graph) .tip")).to_have_text("French (french)")
    page.evaluate("void document.getElementById('graph')._cyreg.cy.getElementById('0/c/french').emit('mouseout')")


def test_two_engines_in_one_table_that_fits(page: Any) -> None:
    page.select_option("#versus", "crisp")
    answered(page, "?x : exists ?y . borders(?x, ?y) & member_of(?y, oecd)")
    page.wait_for_selector(".compared tbody tr")
    assert page.locator("thead th").all_inner_texts() == ["#", "?x", "truth: exact", "truth: crisp", "status"]
    assert page.evaluate("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('.scroll'))")
    page.locator("tbody td.truth").first.click()
    page.wait_for_selector("#why:visible")
    page.select_option("#only", "predicted")  # of which there are none on facts alone
    page.wait_for_selector(".only-here:has-text('not among its 0 answers')")
    assert page.locator("thead th").all_inner_texts() == ["#", "?x", "truth: exact", "truth: crisp", "status"]
    page.select_option("#only", "")
    page.select_option("#versus", "")
    page.wait_for_selector(".listed")


def test_the_drawer_fills_a_phone(browser: Any, server: Server) -> None:
    visit = Visit(browser, server, "phone")
    page = visit.open()
    answered(page, BORDERS)
    page.locator("tbody .entity").first.click()
    page.wait_for_selector("#drawer .group")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.getElementById('drawer').scrollWidth") <= 390
    page.locator("#drawer button:text-is('why?')").first.click()  # the button goes, and the focus with it
    page.wait_for_selector("#drawer .evidence li")
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_be_hidden()
    page.locator("tbody .entity").first.click()
    page.click("#drawer button:text-is('Ask about it')")
    page.wait_for_selector("th:has-text('?relation')")
    assert page.is_hidden("#drawer"), "it makes room for the answers"
    visit.close()


def test_a_name_without_end_is_cut_and_broken(browser: Any, server: Server) -> None:
    visit = Visit(browser, server, "phone")
    page = visit.open()
    fits = page.evaluate(
        """async (name) => {
          const { table } = await import(new URL("web/table.js", document.baseURI));
          const answer = { values: { x: name, y: "a" }, labels: { x: "", y: "A" }, truth: 1, status: "observed",
                           witness: [{ head: name, relation: "r", tail: "a" }] };
          const list = table([{ variables: ["x", "y"], answers: [answer], engine: "exact", k: 1 }], {});
          document.getElementById("panels").replaceChildren(list.element);
          const scroll = list.element.querySelector(".scroll");
          return [scroll.scrollWidth <= scroll.clientWidth, list.element.querySelector(".entity").textContent.length];
        }""",
        "x" * 3000,
    )
    assert fits == [True, 200]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    visit.close()
