"""Fixtures are text files: cases separated by a line of `=`, the input and the expected output by a line of `-`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "fixtures"


class Case(NamedTuple):
    name: str
    text: str
    expected: str


def cases(folder: str) -> list[Case]:
    found = []
    for path in sorted((FOLDER / folder).glob("*.txt")):
        for number, block in enumerate(re.split(r"^={4,}\n", path.read_text(), flags=re.MULTILINE), 1):
            text, expected = re.split(r"^-{4,}\n", block, flags=re.MULTILINE)
            found.append(Case(f"{path.stem}-{number}", text.removesuffix("\n"), expected.rstrip("\n")))
    assert found, f"no fixtures in {folder}"
    return found
