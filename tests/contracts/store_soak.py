"""Stores whose writers are killed, and stores that are read while they are written: by hand at any length.

python tests/contracts/store_soak.py kills --count 1000
python tests/contracts/store_soak.py readers --seconds 60
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

import numpy as np
from store_model import Change, StoreModel, files_of, leftovers

import tuplet
from tuplet.errors import StoreBusy
from tuplet.truth import store_folder
from tuplet.truth.store_folder import StoreFiles
from tuplet.truth.store_meta import StoreChanges

# A kill leaves to the system what was written, so nothing is lost in memory either; and syncing costs nothing there.
PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
# What Python reports before it does it: a writer that dies at one of these has done all before it, and nothing after.
STEPS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.listdir", "shutil.rmtree")


def forked(work: Callable[[], None]) -> int:
    """A process that does some work and nothing else; what it raises is printed, and its status is 1."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException as error:  # whatever it is, the fork must not go on as its parent
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
    finally:
        os._exit(status)


def die_at(step: int, folder: Path) -> None:
    """Be killed before the given step from now on with a file or a folder in there."""
    left = [step]

    def count(event: str, arguments: tuple[object, ...]) -> None:
        if event in STEPS and str(arguments[0]).startswith(str(folder)):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


# --- kills --------------------------------------------------------------------------------------------------------


def write_until_killed(path: Path, model: StoreModel, seed: int, log: Path, step: int | None) -> NoReturn:
    """Change a store again and again, logging each change before and after; die at the given step, if there is one."""
    rng = np.random.default_rng(seed)
    lines = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    store = tuplet.open(path)
    if step is not None:
        die_at(step, path.parent)
    while True:
        change = model.random_change(rng)
        _note(lines, asdict(change))
        if rng.random() < 0.2:
            store = tuplet.open(path)
        wanted = model.apply(change)
        if model.do(store, change) != wanted:
            _note(lines, {"wrong": repr(wanted)})
        _note(lines, "done")


def _note(lines: int, content: object) -> None:
    os.write(lines, json.dumps(content).encode() + b"\n")
    os.fsync(lines)


class Killing:
    """A store whose writers are killed, and the model of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.path = folder / "some.store"
        self.log = folder.parent / f"{folder.name}.log"
        self.rng = np.random.default_rng(seed)
        self.model = StoreModel.random(self.rng)
        self.model.make(self.path)
        self.seen: Counter[str] = Counter()

    def kill(self) -> None:
        """One writer more: it is killed at a random moment or at a random step, and the store is what the log says."""
        self.log.unlink(missing_ok=True)
        seed = int(self.rng.integers(2**31))
        step = int(self.rng.integers(1, 400)) if self.rng.random() < 0.7 else None
        # so few changes are a layer that it comes to that
        store_folder.RECENT = int(self.rng.choice([2, 6, 10_000]))
        model = self.model.copy()
        child = forked(lambda: write_until_killed(self.path, model, seed, self.log, step))
        if step is None:
            time.sleep(self.rng.uniform(0, 0.25))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the writer failed"
        self.seen["at a step" if step else "at a moment"] += 1
        self.judge()
        self.write_on()

    def judge(self) -> None:
        """The store is whole, and all that was done is in it, once; what was being done is in it or is not."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        assert not any("wrong" in line for line in lines), lines
        under_way = None
        for line in lines:
            if line == "done":
                assert under_way is not None
                self.seen["changes"] += 1
                self.model.apply(under_way)
                under_way = None
            else:
                under_way = Change(line["kind"], tuple(tuple(fact) for fact in line["facts"]))
        tuplet.info(self.path, verify=True)
        files = StoreFiles.open(self.path)
        wrong = self.model.differences(files)
        if under_way is not None:
            after = self.model.copy()
            after.apply(under_way)
            done = after.differences(files) == []
            assert done or not wrong, (under_way, wrong, after.differences(files))
            self.seen[f"during {under_way.kind}"] += 1
            self.seen["found done"] += done and bool(wrong)
            self.model = after if done else self.model
        else:
            assert not wrong, wrong
        self.model.check(files)

    def write_on(self) -> None:
        """The next writer goes on from there and leaves nothing behind that is not the store's."""
        generation = StoreFiles.open(self.path).generation
        store = tuplet.open(self.path)
        fact = (*(str(self.rng.choice(self.model.entities)) for _ in range(2)),)
        known = self.model.edges.get((fact[0], self.model.relations[0], fact[1]))
        kind = "add" if known is None or known.given is None else "remove"
        change = Change(kind, ((fact[0], self.model.relations[0], fact[1]),))
        assert self.model.apply(change) == self.model.do(store, change)
        assert store.generation == generation + 1
        self.model.check(files_of(store))
        assert leftovers(self.path) == set()
        assert [entry.name for entry in self.path.parent.iterdir()] == [self.path.name]


def kills(count: int, seed: int, per_store: int = 25) -> Counter[str]:
    """Kill so many writers, of a new store now and then."""
    seen: Counter[str] = Counter()
    for first in range(0, count, per_store):
        with tempfile.TemporaryDirectory(dir=PLACE) as folder:
            place = Path(folder, "stores")
            place.mkdir()
            killing = Killing(place, seed + first)
            for _ in range(min(per_store, count - first)):
                killing.kill()
            seen += killing.seen
    return seen


# --- readers ------------------------------------------------------------------------------------------------------

PAIRS = 6


def pair(number: int) -> list[tuple[str, str, str]]:
    """Two facts that come and go together."""
    return [(f"a{number}", "left", f"b{number}"), (f"a{number}", "right", f"b{number}")]


def look(store: tuplet.Store) -> None:
    """Ask for pairs in several ways: each is there as a whole, or is not there at all."""
    generation = store.generation
    files = files_of(store)
    for engine in ("exact", "crisp"):
        left, right, both = (
            {(answer["x"], answer["y"]) for answer in tuplet.Store.from_files(files).ask(query, engine=engine, k="all")}
            for query in (
                "?x, ?y : left(?x, ?y)",
                "?x, ?y : right(?x, ?y)",
                "?x, ?y : left(?x, ?y) & right(?x, ?y)",
            )
        )
        assert left == right == both, f"generation {generation}: {left ^ right}"
    stated = files.graph.edges("train")
    assert len(stated[0]) == 2 * len(left) == files.meta.report.facts, f"generation {generation}"
    edits = files.meta.changes
    assert edits.added - edits.removed == 2 * len(left) - 2, f"generation {generation}"


def read(path: Path, until: float, opening: bool) -> None:
    """Look at the newest generation again and again; its number never falls."""
    store, last, seen = tuplet.open(path), 0, set()
    while time.monotonic() < until:
        if opening:
            store = tuplet.open(path)
        else:
            store.refresh()
        assert store.generation >= last, f"{store.generation} after {last}"
        last = store.generation
        seen.add(last)
        look(store)
    assert len(seen) > 2, seen


def edit(path: Path, until: float, seed: int) -> None:
    """Let pairs come and go."""
    rng, store = np.random.default_rng(seed), tuplet.open(path)
    store_folder.RECENT = 3
    while time.monotonic() < until:
        facts = pair(1 + int(rng.integers(PAIRS - 1)))
        if rng.random() < 0.5:
            store.add(facts, new_entities=True)
        else:
            store.remove([fact for fact in facts if store.graph.entities.find(fact[0]) >= 0])
        time.sleep(rng.uniform(0, 0.01))


def compact(path: Path, until: float) -> None:
    """Compact all the time."""
    store = tuplet.open(path)
    while time.monotonic() < until:
        with suppress(StoreBusy):
            store.compact()
        time.sleep(0.02)


def readers(seconds: float, seed: int) -> dict[str, int]:
    """Processes that read, two that edit and one that compacts, of which now and then one is killed and begins anew."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        path = Path(folder, "some.store")
        model = StoreModel(False, False, ["a0", "b0"], ["left", "right"])
        model.apply(Change("add", tuple(pair(0))))
        model.changes = StoreChanges()
        model.make(path)
        look(tuplet.open(path))  # compiled code is loaded once, before the forks
        until = time.monotonic() + seconds
        writing: list[Callable[[], None]] = [
            lambda: edit(path, until, int(rng.integers(2**31))),
            lambda: edit(path, until, int(rng.integers(2**31))),
            lambda: compact(path, until),
        ]
        reading = [forked(lambda: read(path, until, False)), forked(lambda: read(path, until, True))]
        children, killed = [forked(job) for job in writing], 0
        while time.monotonic() < until - 0.5:
            time.sleep(rng.uniform(0, 0.5))
            victim = int(rng.integers(len(children)))
            os.kill(children[victim], signal.SIGKILL)
            _, status = os.waitpid(children[victim], 0)
            assert os.WIFSIGNALED(status), f"writer {victim} failed"
            rng.random()  # each fork has its own future
            children[victim], killed = forked(writing[victim]), killed + 1
        failed = [child for child in (*reading, *children) if os.waitpid(child, 0)[1] != 0]
        assert not failed, f"of the readers {reading} and writers {children} failed {failed}"
        look(tuplet.open(path))
        return {"generations": tuplet.open(path).generation, "killed": killed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kills", "readers"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.what == "kills":
        report = dict(kills(arguments.count, arguments.seed))
    else:
        report = readers(arguments.seconds, arguments.seed)
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
