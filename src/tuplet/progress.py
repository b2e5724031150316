"""Progress of long work: how far, how fast, how long still.

Work that can take long has a parameter `progress` and calls it with four arguments:

    progress("train", 120, 5000, "loss 2.31")             # 120 of 5,000 steps of "train" are done
    progress("train", 0, 0, "14,505 entities, on the CPU")  # total 0: a sentence to show as it is

Call it as often as you like, the first time before the work begins; what is shown, and how often, is decided here.
Only these four arguments are promised, so that any function will do.

What users give is `progress=True`, `False` or a function; `shown` makes one of these a function:

    with shown(progress) as report:
        report("index", done, total, "relations")

`True` writes to standard error: one line in place on a terminal, a line now and then in a log, and a bar
in a notebook. Standard output is never touched.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import Any, TextIO, TypeAlias

Report: TypeAlias = Callable[[str, float, float, str], None]  # step, done, total, note
Clock: TypeAlias = Callable[[], float]


@contextmanager
def shown(progress: bool | Report = True) -> Iterator[Report]:
    """What long work calls, from what a user gave as `progress`.

    >>> with shown(lambda step, done, total, note: print(step, done, total, note)) as report:
    ...     report("index", 3, 24, "relations")
    index 3 24 relations
    """
    if not isinstance(progress, bool):
        yield progress
        return
    with Progress(quiet=not progress) as line:
        yield line


def silent(step: str, done: float, total: float, note: str) -> None:
    """Show nothing."""


class Progress:
    """Shows the progress of work with one or several steps; a context manager, so that a line in place is ended.

    >>> with Progress(sys.stdout) as progress:
    ...     progress("train", 0, 0, "135 entities, on the CPU")
    ...     progress("train", 50, 50, "epochs")
    135 entities, on the CPU
    train: 100 % (50/50)  epochs
    """

    def __init__(self, stream: TextIO | None = None, quiet: bool = False, clock: Clock = time.monotonic) -> None:
        self.quiet, self.clock = quiet, clock
        self.face = _face(stream)
        self.step = ""
        self.began = self.first = self.last = self.done = 0.0
        self.finished = False

    def __call__(self, step: str, done: float, total: float, note: str = "") -> None:
        """Show that `done` of `total` is finished; with total 0 the note is a sentence of its own."""
        if self.quiet:
            return
        if not total:
            self.face.say(note)
            return
        now = self.clock()
        again = step != self.step or done < self.done  # the same step of another thing: a second training
        self.done = done
        if again:
            self.face.end()
            # What was done before we came (a continued run) says nothing about speed.
            self.step, self.began, self.first, self.last, self.finished = step, now, done, -1.0, False
        elif self.finished if done >= total else now - self.last < self.face.pause(now - self.began):
            return
        self.last, self.finished = now, done >= total
        left = (now - self.began) / (done - self.first) * (total - done) if self.first < done < total else None
        eta = f", {duration(left)} left" if left is not None else ""
        line = f"{step}: {100 * done / total:3.0f} % ({done:,.0f}/{total:,.0f}){eta}{'  ' * bool(note)}{note}"
        self.face.show(line, done / total)

    def counting(self, step: str, note: str = "") -> Callable[[float, float], None]:
        """One step as a function of (done, total)."""
        return lambda done, total: self(step, done, total, note)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.face.end()


class _Log:
    """Shows progress as a new line every few seconds, later every minute: logs stay short."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.width = stream, 0

    def show(self, line: str, share: float) -> None:
        """Show a line in place of the last one, where that is possible; `share` of the work is done."""
        self.say(line)

    def say(self, line: str) -> None:
        """Show a line that stays."""
        self.end()
        self.stream.write(line + "\n")
        self.stream.flush()

    def end(self) -> None:
        """Leave the line as it is; what follows starts below it."""

    def pause(self, elapsed: float) -> float:
        """Seconds between two lines of a step that has taken so long."""
        return min(60.0, max(5.0, elapsed / 20))


class _Terminal(_Log):
    """One line, rewritten in place."""

    def show(self, line: str, share: float) -> None:
        self.stream.write("\r" + line.ljust(self.width))
        self.stream.flush()
        self.width = len(line)

    def end(self) -> None:
        if self.width:
            self.width = 0
            self.say("")

    def pause(self, elapsed: float) -> float:
        return 0.1


class _Notebook(_Log):
    """A bar in a cell's output that updates; each step has its own. Where there is no HTML, the text is shown."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self.display = display
        self.handle: Any = None

    def show(self, line: str, share: float) -> None:
        bar = f'<progress max="1" value="{share:.4f}" style="width:20em;max-width:50%"></progress> {escape(line)}'
        shown = {"text/plain": line, "text/html": bar}
        if self.handle is None:
            self.handle = self.display(shown, raw=True, display_id=True)
        else:
            self.handle.update(shown, raw=True)

    def say(self, line: str) -> None:
        self.end()
        self.display({"text/plain": line}, raw=True)

    def end(self) -> None:
        self.handle = None

    def pause(self, elapsed: float) -> float:
        return 0.5


def _face(stream: TextIO | None) -> _Log:
    if stream is None and _in_notebook():
        return _Notebook(import_module("IPython.display").display)
    stream = stream or sys.stderr
    return _Terminal(stream) if stream.isatty() else _Log(stream)


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this code; a terminal with IPython is a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def duration(seconds: float | None) -> str:
    """A span of time as people say it.

    >>> duration(75), duration(3.2), duration(7300), duration(570_000)
    ('1 min 15 s', '3 s', '2 h 01 min', '6 days 14 h')
    """
    if seconds is None:
        return "unknown time"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} days {whole % 86400 // 3600} h"


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines with columns two spaces apart; a name may hold line breaks and wide characters.

    >>> for line in align_columns([["#", "city"], ["1", "東京"], ["2", "New\\nYork"]]):
    ...     print(line)
    #  city
    1  東京
    2  New\\nYork
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    padded = ((cell + " " * (most - width(cell)) for cell, most in zip(row, widths, strict=True)) for row in cells)
    return ["  ".join(row).rstrip() for row in padded]


def printable(text: str) -> str:
    """The text on one line: what would move the cursor is written out.

    >>> printable("a\\tb\\x1b[0m")
    'a\\\\tb\\\\x1b[0m'
    """
    if text.isprintable():
        return text
    return "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\x{ord(c):02x}") for c in text)


def width(text: str) -> int:
    """How many columns of a terminal a text takes.

    >>> width("Tokyo"), width("東京"), width("e\\u0301")
    (5, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "relation"), counted(1200, "relation"), counted(1, "entity", "entities")
    ('1 relation', '1,200 relations', '1 entity')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def format_bytes(number: int) -> str:
    """A number of bytes as people say it.

    >>> format_bytes(512), format_bytes(7_400_000_000), format_bytes(36_000_000)
    ('512 B', '7.4 GB', '36 MB')
    """
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}" if number < 10 * size else f"{number / size:.0f} {unit}"
    return f"{number} B"


def sizes(entities: int, relations: int) -> str:
    """What a graph is made of.

    >>> sizes(241, 1)
    '241 entities, 1 relation'
    """
    return f"{counted(entities, 'entity', 'entities')}, {counted(relations, 'relation')}"


def shorten_rows(count: int, most: int, first: int, last: int) -> tuple[range, range]:
    """Which of `count` rows to show, from the start and from the end, if there are more than `most`.

    >>> shorten_rows(8, 60, 20, 5), shorten_rows(500, 60, 20, 5)
    ((range(0, 8), range(8, 8)), (range(0, 20), range(495, 500)))
    """
    return (range(count), range(count, count)) if count <= most else (range(first), range(count - last, count))


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a question the loop asks between steps; a second one stops at once.

    Outside the main thread Python delivers no signals, and the answer is always no.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def handle(_signal: int, _frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


ONCE = "compiling the search; this happens once after an install and takes up to a minute"


@contextmanager
def announce_compiling(say: Callable[[str], object]) -> Iterator[None]:
    """Call `say` before the first kernel that is compiled here; those that are ready on disk are loaded in silence."""
    from numba.core import event

    class FirstCompile(event.Listener):
        announced = False

        def on_start(self, event: object) -> None:
            if not self.announced:
                self.announced = True
                say(ONCE)

        def on_end(self, event: object) -> None:
            pass

    with event.install_listener("numba:compile", FirstCompile()):
        yield
