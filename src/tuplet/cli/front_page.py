"""What `tuplet --help` shows: all commands by what one wants to do, on one screen."""

from __future__ import annotations

from collections.abc import Mapping

GROUPS = {
    "start": ("demo", "build", "ask"),
    "look inside": ("info", "relations", "find", "entity", "check", "export", "engines"),
    "build step by step": ("import", "train", "adopt", "index"),
    "keep up to date": ("add", "remove", "update", "compact", "upgrade"),
    "offer to others": ("serve", "mcp"),
    "measure": ("data", "bench", "guarantee"),
    "this machine": ("doctor", "completion"),
}
NEXT = """\
tuplet COMMAND --help tells more. With facts of your own:
  tuplet build facts.csv -o my.store
  tuplet ask my.store '?drug : treats(?drug, asthma)' --explain"""


def front_page(abouts: Mapping[str, str]) -> str:
    """The commands in groups, each with what it does."""
    wide = max(map(len, abouts)) + 2
    groups = [
        "\n".join([f"{title}:", *(f"  {name:{wide}}{abouts[name]}" for name in names if name in abouts)])
        for title, names in GROUPS.items()
    ]
    return "\n\n".join([*groups, NEXT])
