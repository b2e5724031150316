"""The steps of `make paper`: counted, done once, and every one noted with where it comes from."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from paper_steps import Progress, Steps

PROGRAM = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2]); print('shown')"


def fill(folder: Steps, word: str = "a", inputs: Sequence[Path] = (), again: bool = False) -> None:
    """Two steps: one makes a file, the other one prints a page about it."""
    start, made = [sys.executable, "-c", PROGRAM], folder.root / "made.txt"
    folder.step("make", start, (made, word), made, inputs, again)
    folder.step("make", start, (folder.root / "copy.txt", "b"), folder.root / "page.md", [made], True)


def counted(root: Path, word: str = "a") -> Steps:
    folder = Steps(root, Progress())
    fill(folder, word)
    fill(folder, word)  # a table may need what another one has
    folder.counting = False
    return folder


def test_steps_are_counted_and_done_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = counted(tmp_path)
    assert len(folder.progress.planned) == 2
    assert not any(tmp_path.iterdir())
    fill(folder)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[1/2] make ")
    assert lines[2].startswith("[2/2, 0:00:0")
    assert "left] make" in lines[2]
    assert (tmp_path / "page.md").read_text() == "shown\n"
    origin = folder.origin(tmp_path / "made.txt")
    assert origin.keys() == {"command", "commit", "machine", "date", "seconds"}
    assert all(origin[key] for key in ("command", "commit", "machine", "date"))
    assert counted(tmp_path).progress.planned == []


def test_a_step_that_did_not_end_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "made.txt").write_text("half")
    folder = counted(tmp_path)
    fill(folder)
    assert (tmp_path / "made.txt").read_text() == "a"


def test_what_another_command_made_is_not_taken_for_it(tmp_path: Path) -> None:
    fill(counted(tmp_path))
    with pytest.raises(SystemExit, match="was made by another command"):
        counted(tmp_path, "c")


def test_a_page_is_made_again_if_what_it_is_about_is(tmp_path: Path) -> None:
    fill(counted(tmp_path))
    (tmp_path / "made.txt").unlink()
    assert len(counted(tmp_path).progress.planned) == 2
