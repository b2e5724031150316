"""The requests that pages show for `curl` are sent as they stand, but for the port; what is shown comes back."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from running_server import Start

from tuplet.server.keys import add_key

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(?:bash|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CURL = re.compile(r"^curl (?:.*\\\n)*.*$", re.MULTILINE)

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")


def requests(page: str) -> list[str]:
    """The commands of a page that send something."""
    found = [command for block in BLOCK.findall((DOCS / page).read_text("utf-8")) for command in CURL.findall(block)]
    return [command for command in found if "…" not in command]


def sent(command: str, url: str, folder: Path, **variables: str) -> str:
    said = command.replace("localhost:8000", url.removeprefix("http://")).replace("curl ", "curl --fail-with-body ", 1)
    done = subprocess.run(
        ["sh", "-c", said], cwd=folder, capture_output=True, text=True, env={**os.environ, **variables}
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_queries(start: Start, tmp_path: Path) -> None:
    url = start("--base-iri", "http://example.org/kg/").url
    asked = requests("how-to/serve.md")[:1] + requests("reference/http.md")
    assert len(asked) == 2
    for command in asked:
        assert len(json.loads(sent(command, url, tmp_path))["answers"]) == 5
    page = "how-to/sparql-clients.md"
    [command] = requests(page)
    lines = sent(command, url, tmp_path).splitlines()
    assert "\n".join(["```", *lines, "```"]) in (DOCS / page).read_text("utf-8")
    error = re.search(r"^```json\n(.*?)^```", (DOCS / "reference/http.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert error is not None
    wrong = ["curl", "-s", f"{url}/ask", "-H", "content-type: application/json", "-d", '{"query": "?x : r(?x,, a)"}']
    said = json.loads(subprocess.run(wrong, capture_output=True, text=True, check=True).stdout)
    assert json.loads(error[1]).keys() == said.keys()


def test_changes(start: Start, store_path: Path, tmp_path: Path) -> None:
    shutil.copytree(store_path, tmp_path / "world.store")
    key = add_key(tmp_path / "keys", "robot", ["scopes=read,write", "stores=world"])
    url = start("--api-key-file", str(tmp_path / "keys"), stores=(str(tmp_path / "world.store"),)).url
    (tmp_path / "facts.csv").write_text("head,relation,tail\natlantis,borders,spain\n")
    one, many = requests("how-to/serve.md")[1:]
    for command, expected in ((one, {"already": 1}), (many, {"added": 1})):
        assert expected.items() <= json.loads(sent(command, url, tmp_path, KEY=key)).items()
