"""The steps of `paper.py`: commands that are counted first, then run with the time that is left, and never twice."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

HERE = Path(__file__).resolve().parent


class Progress:
    """The steps that are left, and how long they take by what steps took so far."""

    def __init__(self) -> None:
        self.planned: list[str] = []  # what kind each step is of
        self.done = 0
        self.took: dict[str, list[float]] = {}

    def ended(self, kind: str, seconds: float) -> None:
        for name in (kind, _family(kind), ""):
            self.took.setdefault(name, []).append(seconds)

    def said(self) -> str:
        """Which step begins, and how long it takes from here to the end."""
        place = f"[{self.done + 1}/{len(self.planned)}"
        if not self.took:
            return f"{place}]"
        known = (next(filter(None, map(self.took.get, (k, _family(k), "")))) for k in self.planned[self.done :])
        return f"{place}, {timedelta(seconds=round(sum(map(fmean, known))))} left]"


def _family(kind: str) -> str:
    """Steps that are like each other where nothing closer is known."""
    return " ".join(kind.split()[:3])


class Steps:
    """The steps that fill a folder: at first they are only counted, then they are done."""

    def __init__(self, root: Path, progress: Progress) -> None:
        self.root, self.progress, self.counting = root, progress, True
        self.changed: set[Path] = set()  # what is made again
        for noted in self.noted().values():
            progress.ended(noted["kind"], noted["seconds"])

    def tuplet(self, *words: object, makes: Path, inputs: Sequence[Path] = (), again: bool = False) -> None:
        self.step("tuplet", [sys.executable, "-m", "tuplet"], words, makes, inputs, again)

    def program(self, script: str, *words: object, makes: Path, inputs: Sequence[Path] = ()) -> None:
        """A program of this folder; if it makes a .md file, that is what it prints."""
        self.step(f"python benchmarks/{script}", [sys.executable, str(HERE / script)], words, makes, inputs, True)

    def step(
        self, said: str, start: list[str], words: Sequence[object], makes: Path, inputs: Sequence[Path], again: bool
    ) -> None:
        """Run a command, unless it was run to its end; one with `again` is run again if it or its inputs are others."""
        command = f"{said} {shlex.join(map(str, words))}"
        kind = " ".join([said, *(_kind(word) for word in words)])
        before = self.noted().get(str(makes.relative_to(self.root)))
        if before and makes.exists() and not self.changed.intersection(inputs):
            if _without_workers(before["command"]) == _without_workers(command):
                return
            if not again:
                raise SystemExit(f"{makes} was made by another command; name another folder: {before['command']}")
        if self.counting:
            self.progress.planned += [kind] * (makes not in self.changed)
            self.changed.add(makes)
            return
        print(self.progress.said(), command, flush=True)
        begin = time.monotonic()
        output = subprocess.run([*start, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True).stdout
        seconds = round(time.monotonic() - begin, 1)
        print(f"  {seconds} s", flush=True)
        if makes.suffix == ".md":
            makes.write_text(output, encoding="utf-8")
        self.progress.done += 1
        self.progress.ended(kind, seconds)
        noted = {"command": command, **circumstances(), "seconds": seconds, "kind": kind}
        fresh = self.root / ".commands.json"
        everything = self.noted() | {str(makes.relative_to(self.root)): noted}
        fresh.write_text(json.dumps(everything, indent=1), encoding="utf-8")
        fresh.replace(self.root / "commands.json")

    def noted(self) -> dict[str, dict[str, Any]]:
        """What made each file here."""
        path = self.root / "commands.json"
        found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found

    def origin(self, made: Path) -> dict[str, Any]:
        """The command that made something, with its circumstances."""
        noted = self.noted()[str(made.relative_to(self.root))]
        return {key: value for key, value in noted.items() if key != "kind"}


def _kind(word: object) -> str:
    """A word of a command that tells steps apart on every graph: of files only the query sets."""
    return str(word) if not isinstance(word, Path) else word.stem if word.suffix == ".parquet" else ""


def _without_workers(command: str) -> str:
    return re.sub(r" --workers \d+", "", command)


def circumstances() -> dict[str, str]:
    """On which commit and machine something was measured, and when."""
    found = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True)
    about = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.*)", about.read_text(encoding="utf-8")) if about.exists() else []
    cores = f"{os.cpu_count()} × {models[0] if models else platform.machine()}"
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
    machine = f"{platform.system()}, {cores}, Python {platform.python_version()}"
    return {"commit": found.stdout.strip() or "unknown", "machine": machine, "date": date}
