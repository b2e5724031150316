"""What `tuplet info` and the reports of other commands look like: a nested dictionary as aligned lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_MOST = 20  # of a list; more would fill the screen, and --json has them all


def echo(value: Any, as_json: bool = False) -> None:
    """Print what a command returns: text as it is, a mapping as lines, a report or a table as its text; or JSON."""
    if as_json and not isinstance(value, str | None):
        convert = getattr(value, "to_dicts", None) or getattr(value, "as_dict", None)
        print(json.dumps(convert() if convert else value, ensure_ascii=False, indent=1))
    elif value is not None:
        print(lines(value) if isinstance(value, Mapping) else value)


def lines(about: Mapping[str, Any], indent: str = "") -> str:
    """One line per key, what belongs together indented; a reliability table becomes its diagram.

    >>> print(lines({"entities": 1234, "observed": ["train", "valid"], "model": None, "edges": {"train": 10}}))
    entities  1,234
    observed  train, valid
    model     none
    edges
      train  10
    >>> print(lines({"models": [{"kind": "complex"}, {"kind": "paths"}]}))
    models
      1
        kind  complex
      2
        kind  paths
    >>> print(lines({"names": list("abcdefghijklmnopqrstuvwxyz")}))
    names  a, b, c, … (26)
    """
    width = max((len(str(key)) for key in about), default=0)
    shown = []
    for key, value in about.items():
        text = _diagram(value) if key.startswith("reliability") and isinstance(value, Mapping) else value
        if isinstance(text, list) and text and all(isinstance(one, Mapping) for one in text):
            text = {str(number): one for number, one in enumerate(text, 1)}
        if isinstance(text, Mapping) and text:
            shown.append(f"{indent}{key}\n{lines(text, indent + '  ')}")
        elif isinstance(text, str) and "\n" in text:
            shown.append(f"{indent}{key}\n" + "\n".join(f"{indent}  {line}" for line in text.splitlines()))
        else:
            shown.append(f"{indent}{str(key).ljust(width)}  {_word(text)}".rstrip())
    return "\n".join(shown)


def _word(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple) and len(value) > _MOST:
        return f"{', '.join(map(_word, value[:3]))}, … ({len(value)})"
    if isinstance(value, list | tuple):
        return ", ".join(map(_word, value)) or "none"
    return str(value)


def _diagram(reliability: Mapping[str, Any]) -> str:
    from tuplet.truth.calibration.reliability import Reliability

    return str(Reliability.from_dict(dict(reliability)))
