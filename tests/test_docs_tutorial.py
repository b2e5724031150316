"""The commands of the tutorial that need no training print what its page says; the others can be followed."""

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet
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


def test_the_rest_can_be_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """On a store whose predictions are given, so that nothing is trained: same columns and errors, other figures."""
    graph = tuplet.read("europe.csv", columns=COLUMNS)
    members = ["Denmark", "Ireland", "Austria", "Switzerland"]
    guess = {"head": members, "relation": ["member_of"] * 4, "tail": ["NATO"] * 4, "truth": [0.35, 0.27, 0.21, 0.12]}
    pq.write_table(pa.table(guess), "guess.parquet")
    tuplet.index(graph, None, "europe.store", table="guess.parquet", progress=False).close()
    Path("neighbours.rq").write_text(re.findall(r"```sparql\n(.*?)```", PAGE, re.DOTALL)[0])
    Path("new.tsv").write_text("Denmark\tmember_of\tNATO\n")
    commands = re.findall(r"^\$ tuplet (\w+ europe\.store.*)\n((?:(?!\$ |```).*\n)*)", PAGE, re.MULTILINE)
    assert " ".join(command.split()[0] for command, _ in commands) == "relations find entity ask ask ask ask add serve"
    for command, shown in commands[:-1]:  # the server waits for requests; tests/server runs it
        code, (out, err) = main(shlex.split(command)), capsys.readouterr()
        if shown.startswith("error: "):
            assert (code, err) == (1, shown)
        else:
            assert (code, out.split("\n")[0].split()[:3]) == (0, shown.split("\n")[0].split()[:3]), command
    [(code_block, printed)] = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)
    exec(code_block, {})
    assert capsys.readouterr().out.splitlines()[1:5] == printed.splitlines()[1:5]
    assert Path("answers.csv").read_text().startswith('"country","neighbour"')
