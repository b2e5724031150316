"""The example of the page on evidence prints what the page says."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def test_the_example_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "europe.csv").write_bytes((DOCS / "tutorial" / "europe.csv").read_bytes())
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "how-to" / "evidence.md").read_text(encoding="utf-8")
    code, shown = re.findall(r"## An example.*?```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)[0]
    exec(code, {})
    assert capsys.readouterr().out == shown
