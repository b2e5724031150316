"""Check the links of the documentation: every relative target exists, every anchor is a heading. No network is used.

`python tools/links.py` prints one line for each dead link, and exits with 1 if there is one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
CODE = re.compile(r"^(```|~~~).*?^\1[^\n]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:")  # https:, mailto:


def pages(root: Path) -> list[Path]:
    """All Markdown that readers meet."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "src").rglob("*.md")])


def anchors(text: str) -> set[str]:
    """The anchors of a page, as MkDocs makes them from its headings."""
    found: set[str] = set()
    for heading in HEADING.findall(_without_blocks(text)):
        base = slug(heading)
        name, number = base, 1
        while name in found:
            name, number = f"{base}_{number}", number + 1
        found.add(name)
    return found


def slug(heading: str) -> str:
    """The anchor of a heading.

    >>> slug("Sampling rules, version 1"), slug("`tuplet ask`"), slug("A [link](x.md) to NS3")
    ('sampling-rules-version-1', 'tuplet-ask', 'a-link-to-ns3')
    """
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    kept = re.sub(r"[^\w\s-]", "", text.encode("ascii", "ignore").decode()).strip().lower()
    return re.sub(r"[-\s]+", "-", kept)


def dead_links(root: Path) -> list[str]:
    """One line for each link that leads nowhere."""
    dead = []
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        for match in LINK.finditer(CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)):
            why = _wrong(page, match[1], root)
            if why:
                line = text.count("\n", 0, match.start()) + 1
                dead.append(f"{page.relative_to(root)}:{line}: {match[1]}: {why}")
    return dead


def _wrong(page: Path, target: str, root: Path) -> str | None:
    if ELSEWHERE.match(target):
        return None
    path, _, anchor = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    docs = root / "docs"
    if not found.exists():
        return "no such file"
    if docs in page.parents and docs not in found.parents:
        return "outside docs/, so it is not on the site"
    if anchor and found.suffix == ".md" and anchor not in anchors(found.read_text(encoding="utf-8")):
        return "no such heading"
    return None


def _without_blocks(text: str) -> str:
    return re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL)


def main() -> int:
    """Print what is dead."""
    root = Path(__file__).resolve().parents[1]
    dead = dead_links(root)
    for line in dead:
        print(line)
    print(f"{len(pages(root))} pages, {len(dead)} dead links", file=sys.stderr)
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
