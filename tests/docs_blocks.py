"""The code blocks and commands of README and docs, as their pages write them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:tuplet|python (?:benchmarks|tools)/\S+\.py|make|pip install) ?[^`]*)`")
STARTS = ("tuplet", "python", "pip", "make")
BEFORE = re.compile(r"^(?:\$ |sudo |do |[A-Z_]+=\S* )+|^\S*/bin/(?=tuplet|pip)")


class Block(NamedTuple):
    """What stands between two fences."""

    line: int
    language: str
    text: str


def pages() -> list[str]:
    """README, and every page of the site."""
    return ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """All blocks of a page."""
    text = text_of(page)
    return [Block(text.count("\n", 0, m.start()) + 1, m[2], m[3]) for m in FENCE.finditer(text)]


def commands(text: str) -> list[list[str]]:
    """The commands in lines of a shell, as words; a comment, a prompt and what is printed are left out.

    >>> commands('$ tuplet ask s "?x : r(?x, a)"  # why\\n#  x\\n1  b\\nsudo pip install x && A=1 tuplet info s')
    [['tuplet', 'ask', 's', '?x : r(?x, a)'], ['pip', 'install', 'x'], ['tuplet', 'info', 's']]
    """
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r" (?:&&|\|) (?![^']*'$)", line.strip()):
            command = BEFORE.sub("", BEFORE.sub("", part))
            if command.split(" ")[0] in STARTS:
                try:
                    found.append(shlex.split(command, comments=True))
                except ValueError as error:
                    raise AssertionError(f"{command}: {error}") from None
    return found


def all_commands(page: str) -> list[list[str]]:
    """The commands of blocks and of the running text."""
    found = [words for block in blocks(page) if block.language in ("", "sh", "bash") for words in commands(block.text)]
    prose = FENCE.sub("", text_of(page))
    return found + [words for match in INLINE.findall(prose) for words in commands(" ".join(match.split()))]
