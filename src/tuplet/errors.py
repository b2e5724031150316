"""Every error a user can cause, each one clear line: what, where, and the nearest valid choice.

The command line prints `str(error)` and exits 1; nothing here ever needs a traceback to be understood.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TupletError(Exception):
    """Base of all errors that are about the user's input, data or limits."""


class BadInput(TupletError):
    """A file, folder or option that cannot be used as given."""


class ParseError(TupletError):
    """A query that does not parse; shows the line with a caret under the place.

    >>> print(ParseError("expected ')'", "r(?x, ?y", 8))
    expected ')' (line 1, column 9)
      r(?x, ?y
              ^
    """

    def __init__(self, message: str, text: str, position: int, length: int = 1) -> None:
        self.message, self.text, self.position, self.length = message, text, position, length
        super().__init__(f"{message} {_where(text, position)}\n{_excerpt(text, position, length)}")

    @property
    def line(self) -> int:
        """Line of the place, from 1."""
        return self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int:
        """Column of the place, from 1."""
        return self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1


class Unsupported(ParseError):
    """A construct that exists in the language but not here; named, with a caret under it."""


class Refused(Unsupported):
    """A query that is well formed but beyond one engine; one line, no place in the text.

    >>> print(Refused("engine 'qto' answers trees only"))
    engine 'qto' answers trees only
    """

    def __init__(self, message: str) -> None:
        self.message, self.text, self.position, self.length = message, "", 0, 1
        TupletError.__init__(self, message)


class UnsafeQuery(TupletError):
    """A variable that no positive atom binds; named, with the reason."""


class UnknownName(TupletError):
    """A name that the graph does not have, with the nearest ones it has.

    >>> print(UnknownName("relation", "boders", ["borders"]))
    unknown relation 'boders'; did you mean 'borders'?
    """

    def __init__(
        self,
        kind: str,
        name: str,
        suggestions: Iterable[str] = (),
        note: str = "",
        text: str = "",
        position: int = 0,
        length: int = 1,
        sure: bool = True,
    ) -> None:
        self.kind, self.name, self.suggestions = kind, name, tuple(suggestions)
        self.text, self.position, self.length = text, position, length
        message = f"unknown {kind} {name!r}" if not note else f"{kind} {name!r} {note}"
        if self.suggestions:
            # Labels and names that are no plain words come as they have to be written.
            shown = (s if s.startswith(('"', "<", ":")) else repr(s) for s in self.suggestions)
            message += f"; did you mean {' or '.join(shown)}?" if sure else f"; choose {_listed(list(shown))}"
        if text:
            message += f" {_where(text, position)}\n{_excerpt(text, position, length)}"
        super().__init__(message)


class BudgetExceeded(TupletError):
    """A limit on size, memory or work that the request would break."""


class CorruptStore(TupletError):
    """A directory of ours that is truncated, edited, of a newer version, or not ours at all; the file is named."""


def unknown(kind: str, name: object, choices: Iterable[str]) -> UnknownName:
    """The error for a name that is none of the choices: the nearest ones, or all of a few.

    >>> print(unknown("logic", "goedl", ["product", "godel"]))
    unknown logic 'goedl'; did you mean 'godel'?
    >>> print(unknown("logic", "x", ["product", "godel"]))
    unknown logic 'x'; choose 'product' or 'godel'
    """
    all_of_them = list(choices)
    close = nearest(str(name), all_of_them)
    return UnknownName(kind, str(name), close or all_of_them, sure=bool(close))


def nearest(word: str, choices: Iterable[str], most: int = 3) -> list[str]:
    """The choices most like `word`, best first.

    >>> nearest("trian", ["train", "valid", "test"])
    ['train']
    """
    return difflib.get_close_matches(word, list(choices), n=most, cutoff=0.6)


def _listed(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _where(text: str, position: int) -> str:
    line_start = text.rfind("\n", 0, position) + 1
    return f"(line {text.count(chr(10), 0, position) + 1}, column {position - line_start + 1})"


def _excerpt(text: str, position: int, length: int) -> str:
    line_start = text.rfind("\n", 0, position) + 1
    line_end = text.find("\n", position)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    column = position - line_start
    # A long line is cut around the caret, so that the caret stays under its word in any terminal.
    cut = max(0, column - 60)
    # a tab is one column to the caret, whatever the terminal makes of it
    shown = ("…" if cut else "") + line[cut : cut + 120].replace("\t", " ")
    caret = " " * (column - cut + (1 if cut else 0)) + "^" * max(1, min(length, 120))
    return f"  {shown}\n  {caret}"
