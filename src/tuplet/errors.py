"""Every error a user can cause: fields that say what, where and what else there is; the sentence is made from them.

`str(error)` speaks Python (`force=True`), `error.shell` speaks the command line (`--force`), which prints it and exits
with 1. `error.message` is the sentence without the place in the query. No error here needs a traceback.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Option(NamedTuple):
    """An argument inside an error: `force=True` in Python, `--force` on the command line.

    >>> print(Option("new_entities"), Option("new_entities").flag, Option("columns", None), Option("k", 5).flag)
    new_entities=True --new-entities columns= -k 5
    """

    name: str
    value: Any = True  # None: the name alone

    def __str__(self) -> str:
        return f"{self.name}={'' if self.value is None else repr(self.value)}"

    @property
    def flag(self) -> str:
        """As it is written on the command line."""
        flag = ("--" if len(self.name) > 1 else "-") + self.name.replace("_", "-")
        if self.value is None or self.value is True:
            return flag
        return f"{flag} {shlex.quote(str(self.value))}"  # as a shell takes it


class Argument(Option):
    """An argument that a sentence is about: `timeout` in Python, `--timeout` on the command line.

    >>> print(Argument("timeout"), Argument("timeout").flag, Argument("k").flag)
    timeout --timeout -k
    """

    __slots__ = ()

    def __str__(self) -> str:
        return self.name


class TupletError(Exception):
    """Base of all errors that are about the user's input, data or limits.

    >>> error = TupletError("my.graph already exists; ", Option("force"), " replaces it")
    >>> print(error, error.shell, sep="\\n")
    my.graph already exists; force=True replaces it
    my.graph already exists; --force replaces it
    """

    def __init__(self, *parts: str | Option) -> None:
        self.parts = parts
        super().__init__("".join(map(str, parts)))

    @property
    def message(self) -> str:
        """The sentence alone, as Python users read it."""
        return "".join(map(str, self.parts))

    @property
    def shell(self) -> str:
        """What the command line prints: arguments are flags there."""
        shown = "".join(part.flag if isinstance(part, Option) else part for part in self.parts)
        return shown + str(self).removeprefix(self.message)

    def _render_traceback_(self) -> list[str]:
        # A notebook shows the sentence alone: the mistake is in the cell, not in our code.
        return [f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ())]

    def __reduce__(self) -> tuple[Any, ...]:
        # An error crosses process boundaries with its fields, whatever its constructor takes.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[TupletError], args: tuple[Any, ...], fields: dict[str, Any]) -> TupletError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class BadInput(TupletError):
    """A file, folder or option that cannot be used as given."""


class PathExists(BadInput):
    """Something is at `path` already; `reason` says why even `force` does not replace it.

    >>> print(PathExists("a.graph").shell)
    a.graph already exists; --force replaces it
    >>> print(PathExists("photos", "it is not a graph"))
    will not replace photos: it is not a graph; remove it yourself
    """

    def __init__(self, path: str | os.PathLike[str], reason: str | None = None) -> None:
        self.path, self.reason = _path(path), reason
        if reason is None:
            super().__init__(f"{path} already exists; ", Option("force"), " replaces it")
        else:
            super().__init__(f"will not replace {path}: {reason}; remove it yourself")


class StoreBusy(BadInput):
    """Somebody else is writing `path`, and went on for longer than the caller would wait.

    >>> print(StoreBusy("my.store", 2.0))
    my.store is being written by another thread or process (waited 2 s)
    """

    def __init__(self, path: str | os.PathLike[str], waited: float = 0.0) -> None:
        self.path, self.waited = _path(path), waited
        note = f" (waited {waited:g} s)" if waited else ""
        super().__init__(f"{path} is being written by another thread or process{note}")


class PlacedError(TupletError):
    """An error with a place in a query: `text[position : position + length]`; no text, no place."""

    def __init__(self, message: str, text: str = "", position: int = 0, length: int = 1) -> None:
        super().__init__(message)
        self.text, self.position, self.length = text, position, length
        if text:
            self.args = (f"{message} (line {self.line}, column {self.column})\n{_excerpt(text, position, length)}",)

    @property
    def line(self) -> int:
        """Line of the place, from 1."""
        return self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int:
        """Column of the place, from 1."""
        return self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1


class ParseError(PlacedError):
    """A query that does not parse; shows the line with a caret under the place.

    >>> print(ParseError("expected ')'", "r(?x, ?y", 8))
    expected ')' (line 1, column 9)
      r(?x, ?y
              ^
    """


class WrongKind(ParseError):
    """A query that compares what does not compare, such as an age with a text."""


class Unsupported(ParseError):
    """A construct that exists in the language but not here; named, with a caret under it."""


class Refused(Unsupported):
    """A query that is well formed but beyond one engine; one line, no place in the text.

    >>> print(Refused("engine 'qto' answers trees only"))
    engine 'qto' answers trees only
    """


class UnsafeQuery(PlacedError):
    """A variable that no positive atom binds; named, with the reason.

    >>> error = UnsafeQuery("y", "it occurs in negated atoms only")
    >>> print(error.variable, "|", error)
    y | unsafe variable ?y: it occurs in negated atoms only
    """

    def __init__(self, variable: str, reason: str, text: str = "", position: int = 0, length: int = 1) -> None:
        self.variable, self.reason = variable, reason
        super().__init__(f"unsafe variable ?{variable}: {reason}", text, position, length)


class UnknownName(PlacedError, BadInput):
    """A name that is none of those there are, with the nearest ones.

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
        self.kind, self.name, self.suggestions, self.note, self.sure = kind, name, tuple(suggestions), note, sure
        message = f"unknown {kind} {name!r}" if not note else f"{kind} {name!r} {note}"
        super().__init__(message + _advice(self.suggestions, sure), text, position, length)

    def shorten(self, short: Callable[[str], str]) -> UnknownName:
        """The same error with names in their short form."""
        shown = [
            choice if (brief := short(choice.strip("<>"))) == choice.strip("<>") else brief
            for choice in self.suggestions
        ]
        place = self.text, self.position, self.length
        return UnknownName(self.kind, short(self.name), shown, self.note, *place, self.sure)


class BudgetExceeded(TupletError):
    """A limit on size, memory or work that the request would break; `limit` is its name, where it has one.

    >>> error = BudgetExceeded("the query has 70 clauses, at most 64", limit="clauses")
    >>> print(error.limit, "|", error)
    clauses | the query has 70 clauses, at most 64
    """

    def __init__(self, *parts: str | Option, limit: str = "size") -> None:
        self.limit = limit
        super().__init__(*parts)


class CorruptStore(TupletError):
    """A directory of ours that is truncated, edited, of a newer version, or not ours at all; the file is named."""


def unknown(kind: str, name: object, choices: Iterable[str], note: str = "") -> UnknownName:
    """The error for a name that is none of the choices: the nearest ones, or all of a few.

    >>> print(unknown("logic", "goedl", ["product", "godel"]))
    unknown logic 'goedl'; did you mean 'godel'?
    >>> print(unknown("logic", "x", ["product", "godel"]))
    unknown logic 'x'; choose 'product' or 'godel'
    >>> print(unknown("column", "drgu", ["drug", "gene"], note="is not in the first line of f.csv"))
    column 'drgu' is not in the first line of f.csv; did you mean 'drug'?
    """
    all_of_them = list(choices)
    close = nearest(str(name), all_of_them)
    return UnknownName(kind, str(name), close or all_of_them, note, sure=bool(close))


def nearest(word: str, choices: Iterable[str], most: int = 3) -> list[str]:
    """The choices most like `word`, best first.

    >>> nearest("trian", ["train", "valid", "test"])
    ['train']
    """
    return difflib.get_close_matches(word, list(choices), n=most, cutoff=0.6)


def hint(word: str, choices: Iterable[str], show: Callable[[str], str] = str) -> str:
    """The choice most like `word`, as the end of a sentence about something else; nothing if none is like it.

    >>> hint("SELCT", ["SELECT", "WHERE"]), hint("drg", ["drug"], "?{}".format), hint("x", ["drug"])
    ('; did you mean SELECT?', '; did you mean ?drug?', '')
    """
    close = nearest(word, choices, most=1)
    return f"; did you mean {show(close[0])}?" if close else ""


def _path(path: str | os.PathLike[str]) -> Path:
    from pathlib import Path  # not needed before something goes wrong

    return Path(path)


def _advice(suggestions: tuple[str, ...], sure: bool) -> str:
    if not suggestions:
        return ""
    # Labels and names that are no plain words come as they have to be written.
    shown = [s if s.startswith(('"', "<", ":", "?")) else repr(s) for s in suggestions]
    return f"; did you mean {' or '.join(shown)}?" if sure else f"; choose {_list_words(shown)}"


def _list_words(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


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
