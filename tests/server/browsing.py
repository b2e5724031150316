"""A real browser that tests look through, and what they measure on the page."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from running_server import Server

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
PATIENCE = 120_000  # ms: a busy machine is no mistake of the page
expect.set_options(timeout=PATIENCE)
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
SIZES = {"desk": (1280, 800), "phone": (390, 844), "narrow": (360, 640)}
needs_browser = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="chromium is not installed (make browser)")


class Visit:
    """A page in a fresh browser window, with everything it complained about."""

    def __init__(self, browser: Any, server: Server, size: str, scheme: str = "light") -> None:
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            accept_downloads=True,
            has_touch=size != "desk",
        )
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "request",
            lambda r: None if r.url.startswith((server.url, "blob:", "data:")) else self.elsewhere.append(r.url),
        )
        self.url = server.url

    def open(self, path: str = "/") -> Any:
        self.page.goto(self.url + path)
        self.page.wait_for_selector("html[data-ready=yes]")
        self.page.wait_for_selector("#graph canvas")  # the drawings come last
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.complaints == [], self.complaints
        assert self.elsewhere == [], f"nothing is loaded from elsewhere: {self.elsewhere}"


def until(page: Any, happened: Callable[[], Any]) -> None:
    """Waits for something that is told to the test, not shown on the page.

    `page.wait_for_function` polls with `eval`, which the page's content policy forbids: it fails whenever what it waits
    for has not happened by its first look.
    """
    for _ in range(PATIENCE // 20):
        if happened():
            return
        page.wait_for_timeout(20)
    raise AssertionError("it did not happen")


def run(page: Any, text: str) -> None:
    page.fill("#query", text)
    page.click("#ask")
    page.wait_for_selector("#ask:text-is('Ask')")


# Text against the nearest opaque ground behind it, by the formula of WCAG 2.
CONTRAST = """() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const linear = (v) => (v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c[3] > .9) return c;
    }
    return [255, 255, 255, 1];
  };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.closest(".skip, :disabled, select")) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) bad.push(`${e.tagName} ${e.className} ${e.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return bad;
}"""
NAMELESS = """() => [...document.querySelectorAll("button, input, select, textarea, [role=img], [role=listbox]")]
  .filter((e) => !e.getAttribute("aria-label") && !e.labels?.length && !e.textContent.trim())
  .map((e) => e.outerHTML)"""
