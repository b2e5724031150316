"""How heavy the page is, and when it can be used on a slow line: `python benchmarks/page_load.py http://127.0.0.1:8000`.

Chromium with a line of 1.6 Mbit/s and 150 ms (slow 4G, as Lighthouse has it), nothing kept from before. Usable: a query
can be typed and asked; drawn: the drawing library is there too. Bytes are those on the wire, headers included.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from typing import Any

from playwright.sync_api import sync_playwright

LINES = {"slow 4G": (1.6e6, 150), "slow 3G": (0.4e6, 400)}  # bits a second, milliseconds


def visit(browser: Any, url: str, bits: float, latency: float) -> dict[str, float]:
    """One visit in a fresh window."""
    page = browser.new_context().new_page()
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": latency, "downloadThroughput": bits / 8, "uploadThroughput": bits / 16},
    )
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    start = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    usable, before = time.perf_counter() - start, sum(sizes)
    page.wait_for_selector("#graph canvas", state="attached")
    drawn = time.perf_counter() - start
    page.wait_for_timeout(200)
    page.context.close()
    return {"usable": usable, "drawn": drawn, "KB first": before / 1e3, "KB": sum(sizes) / 1e3, "requests": len(sizes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--visits", type=int, default=5)
    args = parser.parse_args()
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        for name, (bits, latency) in LINES.items():
            seen = [visit(browser, args.url, bits, latency) for _ in range(args.visits)]
            middle = {key: statistics.median(one[key] for one in seen) for key in seen[0]}
            print(name, " ".join(f"{key} {value:.2f}" for key, value in middle.items()))
        browser.close()


if __name__ == "__main__":
    main()
