"""The commands of the tutorial that need no training print what its page says."""

import re
from pathlib import Path

import pytest

from tuplet.cli.commands import main

FOLDER = Path(__file__).parents[1] / "docs" / "tutorial"
PAGE = (FOLDER / "index.md").read_text(encoding="utf-8")
COLUMNS = "head=place,relation=property,tail=value,date=checked"


@pytest.fixture(autouse=True)
def beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "europe.csv").write_bytes((FOLDER / "europe.csv").read_bytes())
    monkeypatch.chdir(tmp_path)


def test_a_header_of_other_names_is_refused_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "europe.csv", "-o", "europe.graph"]) == 1
    assert capsys.readouterr().err in PAGE


def test_the_import_and_the_first_question_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "europe.csv", "--columns", COLUMNS, "-o", "europe.graph"]) == 0
    assert capsys.readouterr().out in PAGE
    assert main(["ask", "europe.graph", "SELECT ?country WHERE { ?country :borders :Denmark }"]) == 0
    assert re.sub(r" · .* ms\n", "", capsys.readouterr().out) in PAGE
