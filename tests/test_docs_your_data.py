"""The commands of the page on one's own data print what the page says; so does the code of the page on pandas."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tuplet.cli.commands import main

PAGES = Path(__file__).parents[1] / "docs" / "how-to"
FILES = re.compile(r"^`(\S+)`\n\n```\n(.*?)```", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^\$ tuplet (.*)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)


def test_files_become_answers_in_two_commands_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (PAGES / "your-data.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.findall(page):
        Path(name).write_text(text, encoding="utf-8")
    commands = COMMANDS.findall(page)
    assert [command.split()[0] for command, _ in commands] == ["import", "ask"] * 3
    for command, shown in commands:
        assert main(shlex.split(command)) == 0
        assert re.sub(r" · [\d.,]+ m?s$", "", capsys.readouterr().out, flags=re.MULTILINE) == shown


def test_the_page_on_pandas_prints_what_is_shown_and_its_queries_are_queries(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (PAGES / "from-pandas.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for code, shown in re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL):
        exec(code, names)
        assert capsys.readouterr().out == shown
    queries = re.findall(r"`((?:\?x|& |order |show |count )[^`]*)`", page.split("## Operations")[1])
    assert len(queries) > 10
    for query in queries:
        names["graph"].ask(query if ":" in query else f"?x : treats(?x, asthma) {query}")
