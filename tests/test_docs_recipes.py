"""The gallery and the page on troubleshooting print what they show; the recipes of the cookbook can be followed."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet
from repeatable import SOAK
from tuplet.cli.commands import main
from tuplet.cli.demo import hide_facts
from tuplet.read.datasets import bundled

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "how-to"
FILES = re.compile(r"^`(\S+)`\n\n```\n(.*?)```", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^\$ tuplet (.*)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def page(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


def printed(command: str) -> tuple[int, str]:
    """The exit code of a command and all it prints, but for the time it took."""
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.redirect_stderr(text):
        try:
            code = main(shlex.split(command))
        except SystemExit as wrong:
            code = int(str(wrong.code))
    return code, re.sub(r" · [\d.,]+ m?s(?= · |$)", "", text.getvalue(), flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["gallery.md", "troubleshooting.md"])
def test_every_command_prints_what_is_shown(name: str) -> None:
    text = page(name)
    for file, content in FILES.findall(text):
        Path(file).write_text(content, encoding="utf-8")
    commands = COMMANDS.findall(text)
    assert len(commands) > 10
    for command, shown in commands:
        code, said = printed(command)
        assert said == shown, command
        assert code == (1 if "error: " in shown else 2 if shown.startswith("tuplet") else 0), command


def test_the_recipes_can_be_followed() -> None:
    """On a store of the same graph whose truth is given, so that nothing is trained: same columns, other figures."""
    graph = hide_facts(bundled())
    heads, relation, tails = graph.edges("test")
    names = graph.entities.names(heads), graph.relations.names(relation), graph.entities.names(tails)
    guesses = dict(zip(("head", "relation", "tail"), names, strict=True))
    pq.write_table(pa.table({**guesses, "truth": np.linspace(0.2, 0.9, len(heads))}), "guesses.parquet")
    store = tuplet.index(graph, None, "world.store", table="guesses.parquet", progress=False)
    text = page("cookbook.md")
    commands = COMMANDS.findall(text)
    assert len(commands) == 5
    for command, shown in commands:
        code, said = printed(command)
        assert code == 0, said
        assert said.split("\n")[0].split() == shown.split("\n")[0].split(), command
        assert said.split("\n")[1].startswith("1 "), "there is an answer"
    for code_block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        with contextlib.redirect_stdout(io.StringIO()) as text_out:
            exec(code_block, {"store": store})
    assert len(text_out.getvalue().splitlines()) == 4
    fragments = re.findall(r"^\| .* \| `(& .*)` \|$", text, re.MULTILINE)
    assert len(fragments) == 6
    for fragment in fragments:
        if "population" not in fragment:  # an attribute, which this graph has not
            free = "?a, ?b" if "?a" in fragment else "?country"
            positive = "borders(?a, ?b)" if "?a" in fragment else "is_a(?country, republic)"
            store.ask(f"{free} : {positive} {fragment}".replace("\\|", "|"))
    assert store.explain("?x : member_of(?x, nato)", ["switzerland"]).values == {"x": "switzerland"}


def without_times(text: str) -> str:
    return re.sub(r" · [\d.,]+ m?s(?= · |\"|$)", "", text, flags=re.MULTILINE)


@pytest.mark.timeout(1800)
@pytest.mark.skipif(not SOAK, reason="a minute; make soak runs it")
def test_pages_show_what_the_demonstration_gives() -> None:
    """README, the front page, the cookbook and the transcript of a client are all about one store."""
    code, told = printed("demo -o world.store --quiet")
    assert code == 0
    readme = re.search(r"^\$ tuplet demo\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    front = re.search(
        r"^```\n(#   country.*?)```", (ROOT / "docs/index.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert readme is not None
    assert front is not None
    for shown in (*without_times(readme[1]).split("…\n"), *front[1].split("…\n")[1:]):
        assert " ".join(shown.split()) in " ".join(told.split())
    for command, shown in COMMANDS.findall(page("cookbook.md")):
        assert printed(command)[1].splitlines() == shown.splitlines(), command
    client = [sys.executable, str(ROOT / "benchmarks" / "mcp_client.py"), "world.store"]
    said = subprocess.run(client, capture_output=True, text=True, check=True).stdout
    assert without_times(said) in without_times(page("agents.md"))
