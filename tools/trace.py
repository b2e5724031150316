"""Count the files and functions of tuplet that take part in a question, a request and a build.

    python tools/trace.py                    # every path
    python tools/trace.py ask again --list   # some of them, with the functions by file

A path is traced by `sys.setprofile` after three warm calls. Comprehensions, lambdas and generators count as functions.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tuplet
from tuplet.cli import demo
from tuplet.store import Store

ROOT = str(Path(tuplet.__file__).parent) + os.sep
QUESTION = (
    "?c, ?o : exists ?n . located_in(?c, {}) & borders(?c, ?n) & member_of(?n, ?o) & member_of(?c, ?o)"  # {}: a region
)
REGIONS = ("africa", "europe", "asia", "eastern_africa", "western_africa", "western_europe", "southern_europe")


def trace(action: Callable[[], object]) -> dict[str, set[tuple[str, int]]]:
    """The functions (name, first line) of tuplet that run during an action, by file."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    found = defaultdict(set)
    for code in codes:
        if code.co_filename.startswith(ROOT):
            found[code.co_filename.removeprefix(ROOT)].add((code.co_qualname, code.co_firstlineno))
    return found


def ask_paths(store: Store) -> Iterator[tuple[str, Callable[[], object]]]:
    """One `Store.ask` of a text that was not asked before, and of the same text again."""
    regions = iter(REGIONS)
    yield "ask", lambda: store.ask(QUESTION.format(next(regions)))
    yield "again", lambda: store.ask(QUESTION.format(REGIONS[0]))


def post_ask(store: Store) -> Callable[[], object]:
    """`POST /ask` of a fresh text, in process."""
    from tuplet.server.app import Application
    from tuplet.server.limits import ServerLimits
    from tuplet.server.metrics import ServerMetrics
    from tuplet.server.service import Service

    service = Service({"world": store}, ServerLimits(), ServerMetrics())
    app = Application(service)
    regions = iter(REGIONS)

    async def post() -> None:
        service.places._threads = ThreadPoolExecutor(1)  # only threads that start later are traced
        body = json.dumps({"query": QUESTION.format(next(regions))}).encode()
        length = (b"content-length", b"%d" % len(body))  # else no body is read
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), length]
        scope = {"type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "path": "/ask"}
        scope |= {"raw_path": b"/ask", "query_string": b"", "root_path": "", "headers": headers}
        scope |= {"client": ("127.0.0.1", 1), "server": ("localhost", 80), "state": {}}
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])
        sent: list[dict[str, Any]] = []
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            found = next(messages, None)
            if found is None:
                await gone.wait()
            return found or {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await app(scope, receive, send)
        assert sent[0]["status"] == 200, sent

    loop = asyncio.new_event_loop()
    return lambda: loop.run_until_complete(post())


def build(folder: str) -> Callable[[], object]:
    """`tuplet.build` of 900 facts with one predictor and one epoch."""
    entities = [f"e{i}" for i in range(60)]
    pairs = itertools.islice(itertools.product(range(60), range(15)), 900)
    facts = [(entities[i], f"r{(i + j) % 5}", entities[(i + 7 * j + 1) % 60]) for i, j in pairs]
    return lambda: tuplet.build(facts, Path(folder) / "built", epochs=1, predictors="complex", force=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("paths", nargs="*", help="ask, again, post, build; all of them without any")
    parser.add_argument("--list", action="store_true", help="name the functions")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths: dict[str, tuple[int, Callable[[], object]]] = {}
        if not args.paths or {"ask", "again", "post"} & set(args.paths):
            demo.run(lambda _: None, progress=False, keep=str(Path(folder) / "demo"))
            store = tuplet.open(Path(folder) / "demo")
            paths = {name: (3, action) for name, action in ask_paths(store)}
            if not args.paths or "post" in args.paths:
                paths["post"] = 3, post_ask(store)
        paths["build"] = 0, build(folder)
        for name, (warm, action) in paths.items():
            if args.paths and name not in args.paths:
                continue
            for _ in range(warm):
                action()
            found = trace(action)
            print(f"{name:<6} {len(found):>4} files {sum(map(len, found.values())):>6} functions", flush=True)
            if args.list:
                for file, functions in sorted(found.items()):
                    print(f"  {file}: {', '.join(f'{called}:{line}' for called, line in sorted(functions))}")


if __name__ == "__main__":
    main()
