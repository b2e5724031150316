"""The page with attributes: conditions beside the drawing, values in the table, counts, yes or no, three languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import CONTRAST, NAMELESS, Visit, expect, needs_browser, run
from running_server import Server

pytestmark = needs_browser

OLD = "?x : knows(?x, bob) & ?x.age > 20 show ?x, ?x.age, ?x.born order by ?x.age desc"


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    visit = Visit(browser, server, "desk")
    page = visit.open()
    page.select_option("#store", "people")
    page.wait_for_selector("#facts:has-text('4 entities')")
    page.visit = visit
    yield page
    visit.close()


def part(page: Any, kind: str) -> Any:
    return page.locator(f"#parts input[aria-label='{kind}']")


def test_nothing_of_a_text_is_lost_when_it_is_drawn(page: Any) -> None:
    page.fill("#query", OLD + " limit 5 offset 0")
    expect(part(page, "where")).to_have_value("?x.age > 20")
    expect(part(page, "show")).to_have_count(3)
    expect(page.locator("#graph")).to_have_attribute("aria-label", re.compile(r"knows from \?x to bob; \?x\.age > 20"))

    page.click("#add-free")  # another node and an edge to it
    page.select_option("#edge-head", label="?x")
    page.select_option("#edge-tail", label="?y")
    page.fill("#edge-relation", "knows")
    page.click("button:text('Add edge')")
    grown = "?x, ?y : knows(?x, bob) & knows(?x, ?y) & ?x.age > 20 show ?x, ?x.age, ?x.born, ?y order by ?x.age desc"
    grown += " limit 5"
    expect(page.locator("#query")).to_have_value(grown)
    # the list of conditions is made anew when the server has read the text
    expect(page.locator("#graph")).to_have_attribute("aria-label", re.compile(r"knows from \?x to \?y"))

    # conditions are changed, taken away and added
    part(page, "where").fill("?x.age > 25")
    part(page, "where").press("Enter")
    expect(page.locator("#query")).to_have_value(grown.replace("20", "25"))
    page.click("[aria-label='Remove limit 5']")
    expect(page.locator("#query")).to_have_value(grown.replace("20", "25").removesuffix(" limit 5"))
    page.fill("#part-text", "?y.nick contains")
    page.click("#part-form button")
    expect(page.locator("#message")).to_have_text(
        re.compile(r"^\?y\.nick contains: expected a variable, a name or a value")
    )
    assert len(page.visit.complaints) == 1, "the server refused what was not finished"
    page.visit.complaints.clear()
    part(page, "where").nth(1).fill('?y.nick contains "ob"')
    part(page, "where").nth(1).press("Enter")
    expect(page.locator("#query")).to_have_value(re.compile(r'& \?y\.nick contains "ob" show'))
    page.click("#ask")
    page.wait_for_selector("tbody tr")
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []

    # with a node, all that is said about it goes
    page.evaluate("void document.getElementById('graph')._cyreg.cy.getElementById('0/v/y').emit('tap')")
    page.click("#remove")
    expect(page.locator("#query")).to_have_value(OLD.replace("20", "25"))


def test_values_are_shown_as_what_they_are(page: Any) -> None:
    run(page, OLD.replace("?x.born", "?x.born optional"))
    page.wait_for_selector("tbody tr")
    assert page.locator("thead th").all_inner_texts() == ["#", "?x", "x.age", "x.born", "truth", "status"]
    assert page.locator("tbody tr").first.locator("td").all_inner_texts()[1:4] == ["ann", "30", "1990-05-01"]
    assert page.locator("tbody td.number").count() == 1
    assert page.locator("th.number").inner_text() == "x.age"
    page.locator("tbody td.truth").first.click()
    page.wait_for_selector("#why:visible")
    assert page.inner_text("#why-title").startswith("Why ann, 30, 1990-05-01? Truth 1")

    run(page, "?x, ?p : ?p(?x, ann)")
    page.wait_for_selector("th:has-text('?p')")
    assert page.locator("tbody tr").first.locator("td").all_inner_texts()[1:3] == ["cid", "likes"]

    page.click("#plan summary")
    expect(page.locator("#plan-text")).to_have_text(re.compile(r"meaning 1 of 2: \?p = "))


def test_counts_yes_and_no_and_hints(page: Any) -> None:
    run(page, "count ?x as people : exists ?y . knows(?x, ?y)")
    page.wait_for_selector(".verdict")
    assert page.inner_text(".verdict") == "3 people; 3 of them expected to be true"
    run(page, "ask ?x : knows(?x, bob) & ?x.age > 20")
    page.wait_for_selector(".verdict strong:text-is('yes')")
    run(page, "ask : knows(bob, ann)")
    page.wait_for_selector(".verdict strong:text-is('no')")
    run(page, "?x : knows(cid, ?x)")
    page.wait_for_selector(".hints li")
    assert page.inner_text(".hints") == "as head of knows, cid was never seen; did you mean the other direction?"


def test_attributes_are_completed(page: Any) -> None:
    page.locator("#query").press_sequentially("?x : knows(?x, bob) & ?x.n")
    page.wait_for_selector("#completion li:has-text('nick')")
    page.keyboard.press("Tab")
    assert page.input_value("#query") == "?x : knows(?x, bob) & ?x.nick"


def test_a_query_in_three_languages(page: Any) -> None:
    logic = "?x : exists ?y . knows(?x, ?y) & likes(?y, ?x)"
    page.fill("#query", logic)
    for language, start in (("sparql", "SELECT ?x WHERE {\n"), ("cypher", "MATCH (x)-[:knows]->(y)\n")):
        page.click(f"#as-{language}")
        expect(page.locator("#query")).to_have_value(re.compile("^" + re.escape(start)))
        expect(page.locator(f"#as-{language}")).to_have_attribute("aria-pressed", "true")
        page.click("#as-logic")
        expect(page.locator("#query")).to_have_value(logic)
    page.fill("#query", "?x : knows(?x, bob) & knows(?x, bob).since > 1990")
    page.click("#as-sparql")
    expect(page.locator("#message")).to_have_text(re.compile("SPARQL has no words for attributes of facts"))
    assert page.locator("#mirror mark").count() == 0


def test_parameters_have_fields_and_go_with_the_link(page: Any) -> None:
    fields = page.locator("#parameters")
    expect(fields).to_be_hidden()
    page.fill("#query", "MATCH (x)-[:knows]->(y) WHERE y.name = $who AND x.age > $least RETURN x // not $this")
    expect(fields.locator("label")).to_have_text(["$who", "$least"])
    expect(page.locator("#message")).to_have_text(re.compile(r"the parameter \$who has no value"))
    page.get_by_label("$who").fill("bob")
    page.get_by_label("$least").fill("20")
    page.get_by_label("$least").press("Tab")
    expect(page.locator("#message")).to_have_text("")
    page.click("#ask")
    rows = page.locator("#panels tbody tr")
    expect(rows.first).to_be_visible()
    link = "JSON.parse(new URLSearchParams(location.hash.slice(1)).get('parameters'))"
    assert page.evaluate(link) == {"who": "bob", "least": 20}
    page.get_by_label("$least").fill("1000")
    page.get_by_label("$least").press("Tab")  # asks again
    expect(rows).to_have_count(0)
    assert page.evaluate(link) == {"who": "bob", "least": 1000}
    page.fill("#query", "?x : knows(?x, bob)")
    expect(fields).to_be_hidden()
