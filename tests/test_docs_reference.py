"""The reference pages are those that the code makes."""

import os
import subprocess
import sys
from pathlib import Path

import tuplet

ROOT = Path(__file__).parents[1]


def test_the_reference_pages_are_current() -> None:
    # in a process of its own: what other tests register does not belong on the page
    environment = {**os.environ, "PYTHONPATH": str(Path(tuplet.__file__).parents[1])}
    command = [sys.executable, str(ROOT / "tools" / "reference.py"), "--check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}: run `make reference`"


def test_the_page_on_python_has_every_public_name() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    missing = [name for name in tuplet.__all__ if name != "__version__" and name not in page]
    assert not missing


def test_the_citation_is_of_this_version() -> None:
    assert f"\nversion: {tuplet.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
