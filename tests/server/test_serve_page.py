"""The page in a real browser: a new user's way through it, on a desk and on a phone, without an error."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import CONTRAST, NAMELESS, SIZES, Visit, expect, needs_browser, run, until
from running_server import Server

IMAGES = Path(__file__).parents[2] / "docs" / "images"

pytestmark = needs_browser


@pytest.fixture(params=["desk", "phone"])
def visit(request: pytest.FixtureRequest, browser: Any, server: Server) -> Iterator[Visit]:
    visit = Visit(browser, server, request.param)
    yield visit
    visit.close()


@pytest.fixture
def desk(browser: Any, server: Server) -> Iterator[Visit]:
    visit = Visit(browser, server, "desk")
    yield visit
    visit.close()


def test_the_way_of_a_new_user(visit: Visit) -> None:
    page = visit.open()
    assert page.is_visible("#empty")

    # an example
    page.select_option("#examples", "0")
    page.wait_for_selector("tbody tr")
    assert "exists ?neighbour" in page.input_value("#query")
    assert page.inner_text(".badge") == "exact"
    assert "?neighbour" in page.get_attribute("#graph", "aria-label")
    assert page.locator(".status.observed").count() == 0, "the example asks for predictions only"

    # why: the witness
    page.locator("tbody td.truth").first.click()
    page.wait_for_selector("#why:visible")
    assert page.locator("#why-facts > li").count() == 4
    assert page.locator("#why-facts .predicted").count() >= 1
    assert page.get_attribute("#why-graph", "aria-label").startswith("Witness: ")
    page.wait_for_selector("#why-facts .evidence li")
    assert page.locator("#why-facts .evidence").count() == page.locator("#why-facts > li > .predicted").count()
    page.click("#why-close")
    assert page.locator("#why-facts:visible").count() == 0

    # an own query, typed
    page.select_option("#only", "")
    page.fill("#query", "")
    page.locator("#query").press_sequentially("?x : borders(?x, france) & !member_of(?x, nato)")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("th:has-text('?x')")
    assert page.locator("tbody tr").count() >= 1
    expect(page.locator("#graph")).to_have_attribute("aria-label", re.compile("not member_of"))

    # a mistake, shown in its place
    page.fill("#query", "?x : borders(?x france)")
    page.wait_for_selector("#mirror mark")
    assert page.inner_text("#message").startswith("line 1, column 17: expected ','")
    assert page.locator("#mirror mark").inner_text() == "france"
    page.fill("#query", "?x : bordrs(?x, france)")
    page.wait_for_selector("#message:has-text('borders')")

    # taken away
    run(page, "?x, ?y : borders(?x, ?y) & borders(?y, portugal)")
    page.wait_for_selector("th:has-text('?y')")
    with page.expect_download() as waiting:
        page.click("[data-download=csv]")
    rows = list(csv.DictReader(Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()))
    assert {row["y"] for row in rows} == {"spain"}
    assert waiting.value.suggested_filename == "answers.csv"
    for form, first in (("json", b"{"), ("parquet", b"PAR1")):
        with page.expect_download() as waiting:
            page.click(f"[data-download={form}]")
        assert Path(waiting.value.path()).read_bytes().startswith(first)


def test_what_is_typed_while_the_server_reads_is_not_asked_and_not_lost(visit: Visit) -> None:
    page = visit.open()
    run(page, "?x : borders(?x, france)")
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.post_data_json["query"]) if r.url.endswith("/ask") else None)

    held: list[Any] = []  # what the server is to read waits here
    page.route("**/parse", lambda route: held.append(route))
    page.select_option("#only", "predicted")  # asks again, once the text is read
    page.fill("#query", "?x : bor")
    until(page, lambda: held)
    held[0].continue_()
    until(page, lambda: asked)
    page.wait_for_selector("#ask:text-is('Ask')")
    assert asked == ["?x : borders(?x, france)"]

    held.clear()
    page.click("#as-sparql")
    until(page, lambda: held)
    page.fill("#query", "?x : borders(?x, spain)")
    held[0].continue_()
    page.wait_for_timeout(300)
    assert page.input_value("#query") == "?x : borders(?x, spain)"


def test_a_query_is_drawn_and_the_text_follows(visit: Visit) -> None:
    page = visit.open()
    if not page.is_visible("#edge-form"):
        page.click("#draw-tools summary")
    box = page.locator("#graph").bounding_box()
    page.locator("#graph").click(position={"x": box["width"] / 2, "y": box["height"] / 2})  # a new unknown
    page.fill("#node-entity", "france")
    page.click("button:text('Add entity')")
    expect(page.locator("#edge-tail option")).to_have_count(2)
    page.select_option("#edge-head", label="?x")
    page.select_option("#edge-tail", label="France")
    page.fill("#edge-relation", "borders")
    page.click("button:text('Add edge')")
    expect(page.locator("#query")).to_have_value("?x : borders(?x, france)")
    page.click("#add-exists")
    page.select_option("#edge-head", label="?x")
    page.select_option("#edge-tail", label="?z")
    page.fill("#edge-relation", "has_coast_on")
    page.check("#edge-negated")
    page.click("button:text('Add edge')")
    expect(page.locator("#query")).to_have_value(re.compile(r"!has_coast_on\(\?x, \?z\)"))
    page.wait_for_selector("#message:has-text('?z')")  # ¬∃ is refused, and the text says why
    page.click("#as-sparql")
    expect(page.locator("#query")).to_have_value(re.compile(r"^SELECT \?x WHERE"))
    # back: the text is changed, the drawing follows
    page.fill("#query", "?x, ?y : borders(?x, ?y) & located_in(?y, europe)")
    expect(page.locator("#graph")).to_have_attribute("aria-label", re.compile("to Europe"))
    page.click("#ask")
    page.wait_for_selector("tbody tr")


def test_edges_are_negated_and_removed_by_clicking(desk: Visit) -> None:
    page = desk.open()
    page.fill("#query", "?x : borders(?x, france) & borders(?x, spain)")
    expect(page.locator("#graph")).to_have_attribute("aria-label", re.compile("Spain"))
    middle = page.evaluate(
        "() => { const cy = document.getElementById('graph')._cyreg.cy; const e = cy.getElementById('edge/0/1');"
        " return e.renderedMidpoint(); }"
    )
    page.locator("#graph").click(position=middle)
    page.click("#negate")
    expect(page.locator("#query")).to_have_value("?x : borders(?x, france) & !borders(?x, spain)")
    page.click("#remove")
    expect(page.locator("#query")).to_have_value("?x : borders(?x, france)")


def test_two_engines_side_by_side_and_a_link_that_brings_it_back(desk: Visit) -> None:
    page = desk.open()
    run(page, "?a, ?b : borders(?a, ?b) & member_of(?a, nato) & member_of(?b, nato)")
    page.select_option("#versus", "ns3")
    page.wait_for_selector("#panels.two")
    assert page.locator(".panel").count() == 2
    assert page.is_visible("#budget")
    expect(page.locator("#told")).to_contain_text("in common")
    until(page, lambda: "versus=ns3" in page.url)
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("#panels.two")
    assert page.input_value("#query").startswith("?a, ?b : borders")


def test_filters_pages_and_keys(desk: Visit) -> None:
    page = desk.open()
    run(page, "?a, ?b : borders(?a, ?b)")
    page.wait_for_selector("tbody tr")
    assert page.inner_text(".pages .quiet") == "1–20 of 50"
    page.click(".pages button:text('Next')")
    assert page.inner_text(".pages .quiet") == "21–40 of 50"
    page.select_option("#only", "predicted")
    page.wait_for_selector(".status.predicted")
    expect(page.locator(".status.observed")).to_have_count(0)
    page.locator("tbody tr").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("#why:visible")
    assert page.get_attribute("tbody tr:nth-child(2)", "aria-current") == "true"


def test_what_was_not_finished_is_shown_as_not_known(desk: Visit) -> None:
    """The server's own answer, changed to one that ran out of time."""
    changes: dict[str, Any] = {"pruned": "timeout", "calibrated": False, "stale": 0.12}

    def change(route: Any) -> None:
        body = route.fetch().json()
        body["answers"] = [{**answer, "status": None} for answer in body["answers"]]
        route.fulfill(json={**body, **changes})

    desk.page.route("**/ask", change)
    page = desk.open()
    run(page, "?x : borders(?x, france)")
    page.wait_for_selector("tbody tr")
    assert page.locator("tbody .status").first.inner_text() == "?"
    assert page.inner_text(".badge") == "exact: timeout"
    not_calibrated = "truth values are not calibrated (the truth values were given and taken as they are): they rank"
    assert not_calibrated in page.inner_text(".panel .bar")
    assert "12 % of the facts changed since" in page.inner_text(".panel .bar")
    changes.update(answers=[], exact=False, bound=1.0, calibrated=None, about={"not_calibrated": "0 valid edges"})
    run(page, "?x : borders(?x, spain)")
    page.wait_for_selector(".panel p")
    assert "none is ruled out" in page.inner_text(".panel p")
    assert "nothing is predicted: 0 valid edges" in page.inner_text(".panel .bar")


def test_completion_offers_relations_entities_and_variables(desk: Visit) -> None:
    page = desk.open()
    area = page.locator("#query")
    area.press_sequentially("?country : bord")
    page.wait_for_selector("#completion li")
    assert "borders" in page.inner_text("#completion li:first-child")
    page.keyboard.press("Tab")
    area.press_sequentially("(?c")
    page.wait_for_selector("#completion li:has-text('?country')")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    area.press_sequentially(", Côte d")
    area.press("Backspace")
    area.press("Backspace")
    page.wait_for_selector("#completion li:has-text('Côte')")
    page.keyboard.press("Tab")
    area.press_sequentially(")")
    assert page.input_value("#query") == "?country : borders(?country, cote_d_ivoire)"


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_wider_than_the_screen(browser: Any, server: Server, size: str) -> None:
    visit = Visit(browser, server, size)
    page = visit.open()
    page.select_option("#examples", "1")
    page.wait_for_selector("tbody tr")
    page.locator("tbody td.truth").first.click()
    page.wait_for_selector("#why:visible")
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
    visit.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_and_names(browser: Any, server: Server, scheme: str) -> None:
    visit = Visit(browser, server, "desk", scheme)
    page = visit.open()
    page.select_option("#examples", "0")
    page.wait_for_selector("tbody tr")
    page.locator("tbody td.truth").first.click()
    page.wait_for_selector("#why:visible")
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []
    assert page.locator("h1").count() == 1
    assert page.get_attribute("html", "lang") == "en"
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "the focus can be seen"
    visit.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The accessibility checker, fetched for the test only: its licence is not ours."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, so axe-core cannot be had")
    folder = tmp_path_factory.mktemp("axe")
    words = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), "axe-core@4"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    source = folder / "node_modules" / "axe-core" / "axe.min.js"
    if ended.returncode or not source.exists():
        pytest.skip("axe-core cannot be had from npm here")
    return source.read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, server: Server, axe: str, scheme: str) -> None:
    visit = Visit(browser, server, "desk", scheme)
    page = visit.open()
    page.select_option("#examples", "0")
    page.wait_for_selector("tbody tr")
    page.locator("tbody td.truth").first.click()
    page.wait_for_selector("#why:visible")
    page.evaluate(axe)
    violations = "axe.run().then((r) => r.violations.map((v) => [v.impact, v.id, v.nodes[0].html]))"
    assert page.evaluate(violations) == []
    within = "(where) => " + violations.replace("run()", "run(where)")
    page.locator("#why-facts .entity").first.click()  # a relation, then an entity, then what there is, and a graph
    page.locator("#drawer .neighbours .entity").first.click()
    page.wait_for_selector("#drawer .group")
    assert page.evaluate(within, "#drawer") == []
    page.click("#browse")
    page.wait_for_selector("#drawer .schema li")
    assert page.evaluate(within, "#drawer") == []
    page.click("#drawer-close")
    page.click("[data-view=graph]")
    page.wait_for_selector(".answer-graph .canvas-tools")
    assert page.evaluate(within, ".both") == []
    page.fill("#query", "# a comment\n?x : borders(?x ")  # answers of another query, a mistake, completions, a sheet
    page.wait_for_selector("#mirror mark")
    expect(page.locator("#stale")).to_be_visible()
    assert page.evaluate(violations) == []
    page.click("#queries-open")
    assert page.evaluate(violations) == []
    visit.close()


@pytest.mark.skipif(not os.environ.get("TUPLET_SCREENSHOTS"), reason="TUPLET_SCREENSHOTS does not name a store")
def test_screenshots(browser: Any, server: Server) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, size, scheme in (("light", "desk", "light"), ("dark", "desk", "dark"), ("phone", "phone", "light")):
        visit = Visit(browser, server, size, scheme)
        page = visit.open()
        page.select_option("#examples", "0")
        page.wait_for_selector("tbody tr")
        page.locator("tbody td.truth").nth(1).click()
        page.wait_for_selector("#why:visible")
        page.wait_for_timeout(300)
        page.evaluate("scrollTo(0, 0)") if size == "desk" else page.locator("#results").scroll_into_view_if_needed()
        if size == "phone":
            page.evaluate("document.querySelector('#results').scrollIntoView()")
        page.screenshot(path=IMAGES / f"page-{name}.png")
        if scheme == "dark":
            page.click("[data-view=graph]")
            page.wait_for_selector(".answer-graph .canvas-tools")
        else:
            page.locator("#why-facts .entity").nth(1).click()
            page.wait_for_selector("#drawer .group")
            page.locator("#drawer button:text-is('why?')").first.click()
            page.wait_for_selector("#drawer .evidence")
        page.wait_for_timeout(600)
        page.screenshot(path=IMAGES / f"explore-{name}.png")
        for kind in ("page", "explore"):
            assert (IMAGES / f"{kind}-{name}.png").stat().st_size < 250_000
        visit.close()
    assert len(list(IMAGES.glob("*.png"))) == 6
