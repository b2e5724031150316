"""`import`, `build` and `add` read alike: columns, headers, nodes, several files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tuplet
from tuplet.cli.commands import main


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("who,does,whom,sure,since\nanna,knows,bob,0.9,1999\n")
    Path("two.csv").write_text("who;does;whom;sure;since\nbob;knows;carl;0.5;2010\n")
    Path("nodes.csv").write_text("id,name,age\nanna,Anna,31\nbob,Bob,28\ncarl,Carl,45\n")


READING = ["--columns", "head=who,relation=does,tail=whom,truth=sure,attribute=since", "--nodes", "nodes.csv"]


def asked(capsys: pytest.CaptureFixture[str], store: str, query: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["ask", store, query, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["answers"]
    return [answer["values"] for answer in found]


def test_import_build_and_add_read_alike(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "one.csv", "two.csv", *READING, "-o", "g"]) == 0
    assert "two.csv: the columns are separated by semicolons" in capsys.readouterr().out
    assert main(["build", "*.csv", "--quiet", *READING[:2], "-o", "wrong"]) == 1  # nodes.csv has other columns
    assert "column 'who' is not in the first line of nodes.csv" in capsys.readouterr().err
    assert main(["build", "one.csv", "two.csv", "--quiet", *READING, "-o", "s"]) == 0
    query = "?x, ?y : knows(?x, ?y) & ?y.age > 30 & knows(?x, ?y).since > 2005"
    assert asked(capsys, "g", query) == asked(capsys, "s", query)
    assert asked(capsys, "s", query) == [{"x": "bob", "y": "carl"}]
    Path("more.tsv").write_text("carl\tknows\tanna\t0.7\t2020\n")
    columns = "head=1,relation=2,tail=3,truth=4"
    assert main(["add", "s", "more.tsv", "--columns", columns]) == 0
    assert len(asked(capsys, "s", "?x, ?y : knows(?x, ?y)")) == 3
    assert main(["remove", "s", "more.tsv", "--columns", columns]) == 0
    assert len(asked(capsys, "s", "?x, ?y : knows(?x, ?y)")) == 2


def test_build_and_add_say_what_import_says(capsys: pytest.CaptureFixture[str]) -> None:
    said = "two.csv: the columns are separated by semicolons"
    assert main(["build", "one.csv", "two.csv", *READING, "-o", "s"]) == 0
    assert said in capsys.readouterr().err
    assert main(["add", "s", "two.csv", *READING[:2]]) == 0
    assert said in capsys.readouterr().err


def test_python_reads_with_the_same_words() -> None:
    graph = tuplet.read(["one.csv", "two.csv"], columns=READING[1], nodes="nodes.csv")
    assert len(graph.ask("?x : exists ?y . knows(?x, ?y) & ?x.age > 30")) == 1
    store = tuplet.build(["one.csv", "two.csv"], "p", columns=READING[1], nodes=["nodes.csv"], progress=False)
    assert len(store.ask("?x : exists ?y . knows(?x, ?y) & ?x.age > 30")) == 1
    Path("bare.csv").write_text("a,r,b\nc,r,d\n")
    assert len(tuplet.read("bare.csv", header=True).ask("?x, ?y : r(?x, ?y)")) == 1


@pytest.mark.parametrize("command", [["import"], ["build"], ["add", "s"]])
def test_columns_are_given_once(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The second list would silently replace the first."""
    with pytest.raises(SystemExit, match="2"):
        main([*command, "one.csv", *READING[:2], "--columns", "id=who"])
    error = capsys.readouterr().err
    assert "--columns is given twice" in error
    assert error.count("\n") == 1
