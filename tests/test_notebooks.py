"""Every notebook runs as it stands, in an empty folder and without a network, and shows what is stored in it."""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stored(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def kernel(tool: ModuleType) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for proxy in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            patch.setenv(proxy, "http://127.0.0.1:9")  # nobody answers there
        with tool.running_kernel() as kernel:
            yield kernel


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_stored(path: Path, tool: ModuleType, kernel: Any) -> None:
    assert tool.differences(stored(path), tool.execute(path, kernel)) == []


def test_a_difference_is_noticed(tool: ModuleType) -> None:
    old = stored(NOTEBOOKS[0])
    assert tool.differences(old, copy.deepcopy(old)) == []
    new = copy.deepcopy(old)
    [cell] = [cell for cell in new["cells"] if "graph.ask(query" in "".join(cell["source"])]
    cell["outputs"][0]["data"]["text/html"] = ["<p>Albania"]
    [told] = tool.differences(old, new)
    assert "Albania" in told
    cell["outputs"] = []
    assert len(tool.differences(old, new)) == 1


def test_a_page_has_the_code_and_what_it_shows(tool: ModuleType) -> None:
    text = tool.page(stored(NOTEBOOKS[0]), NOTEBOOKS[0].name)
    assert text.splitlines()[2] == "# Five minutes with your own table"
    assert "```python\ngraph.ask(query, k=5)\n```" in text
    assert '<div style="overflow-x:auto"><svg' in text
    assert "<td>Kosovo</td>" in text
    assert "<pre>UnknownName: unknown relation &#x27;boders&#x27;; did you mean" in text
