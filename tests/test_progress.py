"""Progress on a terminal, in a log and in a notebook; the clock is driven by hand."""

from __future__ import annotations

import io
from typing import Any

import tuplet.progress
from tuplet.progress import Progress, shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_terminal_has_one_line_in_place_for_each_step() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(stream, clock=clock) as progress:
        progress("train", 0, 100, "steps")
        clock.now = 10.0
        progress("train", 10, 100, "steps")
        progress("train", 11, 100, "steps")  # too soon after the last one
        progress("index", 24, 24, "relations")
    assert stream.getvalue() == (
        "\rtrain:   0 % (0/100)  steps\rtrain:  10 % (10/100), 1 min 30 s left  steps\n"
        "\rindex: 100 % (24/24)  relations\n"
    )


def test_a_sentence_stays_and_the_line_goes_on_below_it() -> None:
    stream = Terminal()
    with Progress(stream, clock=Clock()) as progress:
        progress("train", 0, 0, "135 entities")
        progress("train", 1, 2, "")
        progress("train", 0, 0, "about 3 h on this CPU")
        progress("train", 2, 2, "")
    assert stream.getvalue() == "135 entities\n\rtrain:  50 % (1/2)\nabout 3 h on this CPU\n\rtrain: 100 % (2/2)\n"


def test_a_log_has_a_line_now_and_then_and_the_end_once() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(stream, clock=clock) as progress:
        for second in range(3601):
            clock.now = float(second)
            progress("train", second, 3600, "")
        progress("train", 3600, 3600, "")
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["train:   0 % (0/3,600)", "train:   0 % (5/3,600), 59 min 55 s left"]
    assert lines[-1] == "train: 100 % (3,600/3,600)"
    assert lines.count(lines[-1]) == 1
    assert len(lines) < 120


def test_a_second_training_has_a_time_of_its_own() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock=clock)
    for now, done, total in ((0.0, 0, 100), (100.0, 100, 100), (100.0, 0, 50), (110.0, 10, 50)):
        clock.now = now
        progress("train", done, total, "")
    assert stream.getvalue().splitlines()[2:] == ["train:   0 % (0/50)", "train:  20 % (10/50), 40 s left"]


def test_what_was_done_before_says_nothing_about_speed() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock=clock)
    progress("train", 900, 1000, "")
    clock.now = 10.0
    progress("train", 910, 1000, "")
    assert stream.getvalue().endswith("train:  91 % (910/1,000), 1 min 30 s left\n")


class Kernel:
    """What a Jupyter kernel offers of `IPython`: outputs that can be updated."""

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.bars: list[str] = []
        self.kernel = self

    def get_ipython(self) -> Kernel:
        return self

    def display(self, data: dict[str, str], raw: bool, display_id: bool = False) -> Any:
        self.cells.append(data["text/plain"])
        kernel, place = self, len(self.cells) - 1

        class Handle:
            def update(self, data: dict[str, str], raw: bool) -> None:
                kernel.cells[place] = data["text/plain"]
                kernel.bars.append(data["text/html"])

        return Handle() if display_id else None


def test_a_notebook_updates_its_bar(monkeypatch: Any) -> None:
    kernel, clock = Kernel(), Clock()
    monkeypatch.setitem(tuplet.progress.sys.modules, "IPython", kernel)
    monkeypatch.setitem(tuplet.progress.sys.modules, "IPython.display", kernel)
    with Progress(clock=clock) as progress:
        progress("train", 0, 0, "135 entities")
        for second in range(11):
            clock.now = float(second)
            progress("train", second, 10, "")
        progress("index", 1, 2, "<relations>")
        clock.now += 1
        progress("index", 2, 2, "<relations>")
    assert kernel.cells == ["135 entities", "train: 100 % (10/10)", "index: 100 % (2/2)  <relations>"]
    assert 'value="0.1000"' in kernel.bars[0]
    assert kernel.bars[-1].endswith("</progress> index: 100 % (2/2)  &lt;relations&gt;")


def test_true_false_or_a_function(capsys: Any) -> None:
    for progress, lines in ((True, 1), (False, 0)):
        with shown(progress) as report:
            report("train", 1, 2, "")
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", lines)
    calls: list[tuple[Any, ...]] = []
    with shown(lambda *call: calls.append(call)) as report:
        report("train", 1, 2, "note")
    assert calls == [("train", 1, 2, "note")]
