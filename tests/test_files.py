"""Files and directories: round trips, refusals, replacement, locks, full devices, and damage of every kind."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from repeatable import examples
from tuplet.errors import BadInput, CorruptStore, PathExists, StoreBusy
from tuplet.files import MANIFEST, locked, replacing, sealed, write_bytes
from tuplet.graph.arrays import (
    FORMAT,
    HEADER,
    FolderWriter,
    content_hash,
    open_directory,
    read_manifest,
    verify,
    write_directory,
)

SOME = {"a": np.arange(10, dtype=np.int32), "b": np.linspace(0, 1, 7), "empty": np.zeros((0, 3), np.int64)}


@given(
    data=st.sampled_from(["<i4", "<i8", "<u1", "<f4", "<f8", "|b1"]).flatmap(
        lambda dtype: arrays(np.dtype(dtype), array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))
    ),
    meta=st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=3),
)
@examples(25, allow=(HealthCheck.function_scoped_fixture,))
def test_arrays_come_back_bit_for_bit(tmp_path: Path, data: np.ndarray, meta: dict) -> None:
    digest = write_directory(tmp_path / "d", "thing", {"x": data}, meta, force=True)
    opened = open_directory(tmp_path / "d", "thing")
    assert opened.arrays["x"].dtype == data.dtype
    assert opened.arrays["x"].shape == data.shape
    assert opened.arrays["x"].tobytes() == data.tobytes()
    assert opened.meta == meta
    assert opened.hash == digest == verify(tmp_path / "d")


def test_arrays_are_read_only_and_plain_npy_files(tmp_path: Path) -> None:
    write_directory(tmp_path / "d", "thing", SOME, {})
    opened = open_directory(tmp_path / "d")
    with pytest.raises(ValueError, match="read-only"):
        opened.arrays["a"][0] = 1
    assert np.array_equal(np.load(tmp_path / "d" / "b.npy"), SOME["b"])


def test_hash_depends_on_content_but_not_on_notes(tmp_path: Path) -> None:
    def digest(arrays: dict, meta: dict, kind: str = "thing") -> str:
        return write_directory(tmp_path / kind, kind, arrays, meta, force=True)

    base = digest(SOME, {"k": 1})
    assert digest(SOME, {"k": 1, "notes": {"when": "today"}}) == base
    assert digest(dict(reversed(SOME.items())), {"k": 1}) == base
    assert digest(SOME, {"k": 2}) != base
    assert digest(SOME, {"k": 1}, kind="other") != base
    assert digest(SOME | {"a": SOME["a"].astype(np.int64)}, {"k": 1}) != base
    assert digest(SOME | {"a": SOME["a"].reshape(2, 5)}, {"k": 1}) != base


def test_parents_are_made_and_nothing_is_left_beside(tmp_path: Path) -> None:
    write_directory(tmp_path / "x" / "y" / "d", "thing", SOME, {})
    assert os.listdir(tmp_path / "x" / "y") == ["d"]


def test_existing_directory_needs_force(tmp_path: Path) -> None:
    target = tmp_path / "d"
    write_directory(target, "thing", SOME, {})
    with pytest.raises(BadInput, match="already exists; force=True replaces it"):
        write_directory(target, "thing", {"z": np.ones(1)}, {})
    assert list(open_directory(target).arrays) == sorted(SOME)
    write_directory(target, "thing", {"z": np.ones(1)}, {}, force=True)
    assert list(open_directory(target).arrays) == ["z"]
    assert os.listdir(tmp_path) == ["d"]


def test_force_never_deletes_what_is_not_ours(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "cat.jpg").write_text("cat")
    file = tmp_path / "letter.txt"
    file.write_text("dear")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / MANIFEST).write_text('{"format": "webpack"}')
    mixed = tmp_path / "mixed"
    write_directory(mixed, "thing", SOME, {})
    (mixed / "my-notes.txt").write_text("remember")
    other = tmp_path / "other"
    write_directory(other, "model", SOME, {})
    for path in (folder, file, foreign, mixed, other):
        with pytest.raises(BadInput, match="will not replace"):
            write_directory(path, "thing", SOME, {}, force=True)
    assert (folder / "cat.jpg").read_text() == "cat"
    assert file.read_text() == "dear"
    assert (mixed / "my-notes.txt").exists()
    assert open_directory(other).kind == "model"
    empty = tmp_path / "void"
    empty.mkdir()
    write_directory(empty, "thing", SOME, {}, force=True)
    assert open_directory(empty, "thing")


def test_a_writer_that_fails_leaves_the_old_state(tmp_path: Path) -> None:
    target = tmp_path / "d"
    write_directory(target, "thing", SOME, {})
    with pytest.raises(ValueError, match="cannot be stored"):
        write_directory(target, "thing", {"ok": np.ones(3), "bad": np.array(["text"])}, {}, force=True)
    assert list(open_directory(target).arrays) == sorted(SOME)
    assert os.listdir(tmp_path) == ["d"]


KILLED = """
import os, sys, signal
import numpy as np
from tuplet import files
from tuplet.graph import arrays
step = int(sys.argv[2])
calls = 0
def die(function):
    def wrapped(*arguments, **options):
        global calls
        calls += 1
        if calls == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return wrapped
for name in ("fsync", "rename"):
    setattr(os, name, die(getattr(os, name)))
files.shutil.rmtree = die(files.shutil.rmtree)
arrays.write_directory(sys.argv[1], "thing", {"z": np.arange(3), "y": np.ones(2)}, {}, force=True)
"""


@pytest.mark.parametrize("step", range(1, 9))
def test_a_killed_writer_leaves_old_or_new_and_the_next_one_cleans_up(tmp_path: Path, step: int) -> None:
    """Killed before each step: a sync of three files and their folder, two renames, a sync and the clean-up."""
    target = tmp_path / "d"
    write_directory(target, "thing", SOME, {})
    done = subprocess.run([sys.executable, "-c", KILLED, str(target), str(step)], check=False)
    assert done.returncode == -signal.SIGKILL
    # Between the two renames neither is there; the next writer puts the old one back.
    assert target.exists() == (step != 6)
    with pytest.raises(PathExists, match="already exists"):
        write_directory(target, "thing", SOME, {})
    assert list(open_directory(target).arrays) == (sorted(SOME) if step <= 6 else ["y", "z"])
    assert os.listdir(tmp_path) == ["d"]


def _hold(path: str, ready: multiprocessing.synchronize.Event, done: multiprocessing.synchronize.Event) -> None:
    with locked(path):
        ready.set()
        done.wait(30)


def test_second_writer_is_refused_while_the_first_writes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(str(tmp_path / "d"), ready, done))
    holder.start()
    assert ready.wait(30)
    try:
        with pytest.raises(StoreBusy, match="is being written by another thread or process"):
            write_directory(tmp_path / "d", "thing", SOME, {})
    finally:
        done.set()
        holder.join()
    write_directory(tmp_path / "d", "thing", SOME, {})
    assert os.listdir(tmp_path) == ["d"]


def test_errors_say_what_is_wrong(tmp_path: Path) -> None:
    write_directory(tmp_path / "my.graph", "graph", SOME, {})
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.json").write_text("{}")
    cases = [
        (tmp_path / "my.grph", BadInput, r"no such store: .*my\.grph; did you mean .*my\.graph\?"),
        (tmp_path / "no" / "where", BadInput, r"no such store: .*where \(the folder .*no does not exist\)"),
        (tmp_path / "my.graph", BadInput, r"my\.graph is a graph, not a store; tuplet index makes a store of it"),
        (tmp_path / "m", BadInput, r"m is a model, not a store; tuplet index makes a store of it"),
        (tmp_path, CorruptStore, r"is not a tuplet store: it has no manifest\.json"),
        (tmp_path / "my.graph" / "a.npy", BadInput, r"a\.npy is a file, not a tuplet store"),
    ]
    for path, kind, message in cases:
        with pytest.raises(kind, match=message):
            open_directory(path, "store")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: (d / "a.npy").unlink(), r"a\.npy is missing"),
        (lambda d: os.truncate(d / "a.npy", 20), r"a\.npy: 20 bytes where .* truncated or edited"),
        (lambda d: (d / "a.npy").write_bytes(b""), r"a\.npy: 0 bytes where"),
        (lambda d: (d / MANIFEST).write_text("{"), r"manifest\.json: not readable as JSON"),
        (lambda d: (d / MANIFEST).write_text("[1]"), r"does not say format 'tuplet'"),
        (lambda d: (d / MANIFEST).write_bytes(b"\xff\xfe"), r"manifest\.json: not readable as JSON"),
        (lambda d: _edit(d, version=99), r"manifest\.json: format version 99 is newer than this tuplet"),
        (lambda d: _edit(d, hash="0" * 64), r"manifest\.json: edited or damaged"),
    ],
)
def test_damage_names_the_file(tmp_path: Path, change, message: str) -> None:
    write_directory(tmp_path / "d", "thing", SOME, {})
    change(tmp_path / "d")
    with pytest.raises(CorruptStore, match=message):
        open_directory(tmp_path / "d", "thing")


def _edit(folder: Path, **values: object) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | values))


def test_swapped_words_and_files_are_found(tmp_path: Path) -> None:
    big = np.arange(3 << 20, dtype=np.int64)  # three chunks
    write_directory(tmp_path / "d", "thing", {"a": big, "b": big + 1}, {})
    raw = bytearray((tmp_path / "d" / "a.npy").read_bytes())
    raw[128:136], raw[20_000_000:20_000_008] = raw[20_000_000:20_000_008], raw[128:136]
    (tmp_path / "d" / "a.npy").write_bytes(raw)
    with pytest.raises(CorruptStore, match=r"a\.npy: checksum"):
        open_directory(tmp_path / "d")
    shutil.copy(tmp_path / "d" / "b.npy", tmp_path / "d" / "a.npy")
    with pytest.raises(CorruptStore, match=r"a\.npy: checksum"):
        open_directory(tmp_path / "d")


def test_manifest_alone_is_checked(tmp_path: Path) -> None:
    write_directory(tmp_path / "d", "thing", SOME, {"k": 1})
    assert read_manifest(tmp_path / "d")["meta"] == {"k": 1}


def test_needs_numpy_alone() -> None:
    code = "import sys, tuplet.files, tuplet.graph.graph; print(*{'pyarrow','numba','torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""


def test_a_second_thread_waits_its_turn(tmp_path: Path) -> None:
    order: list[str] = []
    held = threading.Event()

    def first() -> None:
        with locked(tmp_path / "d"):
            held.set()
            time.sleep(0.2)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    held.wait(30)
    with pytest.raises(StoreBusy) as busy, locked(tmp_path / "d", timeout=0.01):
        pass
    assert (busy.value.path, busy.value.waited) == (tmp_path / "d", 0.01)
    with locked(tmp_path / "d", timeout=30):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]
    assert os.listdir(tmp_path) == []


def fill(target: Path, meanwhile: Callable[[], object]) -> None:
    with replacing(target) as fresh:
        fresh.write_text("mine")
        meanwhile()


def fail() -> None:
    raise RuntimeError("halfway")


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "a" / "f.txt"
    with pytest.raises(RuntimeError, match="halfway"):
        fill(target, fail)
    assert os.listdir(tmp_path / "a") == []
    write_bytes(target, b"one")
    with pytest.raises(PathExists, match=r"f\.txt already exists; force=True replaces it") as error:
        write_bytes(target, b"two")
    assert error.value.path == target
    assert error.value.shell == f"{target} already exists; --force replaces it"
    write_bytes(target, b"two", force=True)
    assert target.read_bytes() == b"two"
    with pytest.raises(PathExists):
        fill(tmp_path / "late", lambda: (tmp_path / "late").write_text("somebody was faster"))
    assert (tmp_path / "late").read_text() == "somebody was faster"
    assert sorted(os.listdir(tmp_path)) == ["a", "late"]


def test_what_the_system_refuses_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    cases = [
        ("/dev/full", "cannot write /dev/full: No space left on device"),
        ("/proc/nowhere/f.txt", "cannot write /proc/nowhere/f.txt: No such file or directory"),
        (tmp_path / "file" / "f.txt", f"cannot write {tmp_path}/file/f.txt: Not a directory"),
        (tmp_path / "folder", f"cannot write {tmp_path}/folder: Is a directory"),
    ]
    for path, message in cases:
        with pytest.raises(BadInput) as error:
            write_bytes(path, b"x" * 100_000, force=True)
        assert str(error.value) == message
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    for path in ("/proc/nowhere/d", "/proc/d", tmp_path / "file" / "d"):
        with pytest.raises(BadInput, match="cannot write"):
            write_directory(path, "thing", SOME, {})
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


FULL = """
import resource, sys
import numpy as np
from tuplet.errors import BadInput
from tuplet.graph.arrays import write_directory
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_directory(sys.argv[1], "thing", {"z": np.zeros(1_000_000)}, {})
except BadInput as error:
    print(error)
"""


def test_an_array_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path / "d")], capture_output=True, text=True, check=True)
    assert done.stdout == f"cannot write {tmp_path}/d: File too large\n"
    assert os.listdir(tmp_path) == []


def test_standard_output_on_a_full_device_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "f.tsv").write_text("a\tr\tb\n")
    for command in (["import", str(tmp_path / "f.tsv"), "-o", str(tmp_path / "g")], ["info", str(tmp_path / "g")]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "tuplet", *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert (done.returncode, done.stderr) == (1, "error: cannot write the output: No space left on device\n")


# --- arrays that grow, and sections ------------------------------------------------------------------------------


@given(
    pieces=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6),
    tail=st.integers(0, 2),
    dtype=st.sampled_from(["<i4", "<i8", "|u1", "|b1", "<f8"]),
)
@examples(25, allow=(HealthCheck.function_scoped_fixture,))
def test_an_array_that_grows_is_the_whole_array(tmp_path: Path, pieces: list, tail: int, dtype: str) -> None:
    """Piece by piece, in sections or at once: the same bytes, the same hash; only the checksums lie elsewhere."""
    data = np.random.default_rng(len(pieces)).integers(0, 255, 200).astype(dtype)
    parts = [(data[:a], data[50 : 50 + b].reshape(-1, 1)) for a, b in pieces]
    whole = {"x": np.concatenate([x for x, _ in parts] + [data[:tail]]), "y": np.concatenate([y for _, y in parts])}
    for how in ("append", "section", "write"):
        shutil.rmtree(tmp_path / "d", ignore_errors=True)
        if how == "write":
            ends = {"x": np.cumsum([0] + [a for a, _ in pieces]), "y": np.cumsum([0] + [b for _, b in pieces])}
            digest = write_directory(tmp_path / "d", "thing", whole, {"k": 1}, divided=ends)
        else:
            with FolderWriter(tmp_path / "d", "thing") as writer:
                for x, y in parts:
                    if how == "section":
                        writer.section({"x": x, "y": y})
                    else:
                        writer.append("x", x)
                        writer.append("y", y)
                writer.append("x", data[:tail])
                digest = writer.finish({"k": 1})
        assert digest == content_hash("thing", whole, {"k": 1}) == verify(tmp_path / "d")
        opened = open_directory(tmp_path / "d")
        opened.touch(range(len(opened.sections) if opened.sections else 0))
        for name, array in whole.items():
            assert np.array_equal(opened.arrays[name], array)
            assert np.array_equal(np.load(tmp_path / "d" / f"{name}.npy"), array)
            assert (tmp_path / "d" / f"{name}.npy").stat().st_size == HEADER + array.nbytes
        write_directory(tmp_path / "d", "thing", SOME, {}, force=True)  # sums and bounds are ours, too


def flip(file: Path, at: int) -> None:
    with open(file, "r+b") as stream:
        stream.seek(at)
        byte = stream.read(1)[0]
        stream.seek(at)
        stream.write(bytes([byte ^ 1]))


def in_sections(folder: Path) -> None:
    arrays = {"rows": np.arange(7, dtype=np.int32), "ends": np.arange(8, dtype=np.int64), "names": np.ones(3)}
    bounds = np.array([0, 3, 3, 7])
    write_directory(folder, "thing", arrays, {}, force=True, divided={"rows": bounds, "ends": bounds})


def test_a_damaged_section_is_found_when_it_is_touched(tmp_path: Path) -> None:
    for file, at, section in (("rows", 0, 0), ("rows", 27, 2), ("ends", 23, 0), ("ends", 24, 2), ("ends", 55, 2)):
        in_sections(tmp_path / "d")
        flip(tmp_path / "d" / f"{file}.npy", HEADER + at)
        opened = open_directory(tmp_path / "d")
        for other in {0, 1, 2} - {section}:
            opened.touch([other])
        for _ in range(2):  # a damaged section is never taken for a verified one
            with pytest.raises(CorruptStore, match=rf"{file}\.npy: checksum does not match"):
                opened.touch([1, section])
        for everything in (opened.verify_all, lambda: verify(tmp_path / "d")):
            with pytest.raises(CorruptStore, match=rf"{file}\.npy: checksum does not match"):
                everything()


@pytest.mark.parametrize(
    ("file", "at"),
    [("names", HEADER), ("ends", HEADER + 56), ("rows", 20), ("sums", HEADER), ("bounds", HEADER), ("names", 10)],
)
def test_what_is_not_in_a_section_is_verified_at_opening(tmp_path: Path, file: str, at: int) -> None:
    in_sections(tmp_path / "d")
    flip(tmp_path / "d" / f"{file}.npy", at)
    with pytest.raises(CorruptStore, match=rf"{file}\.npy: checksum does not match"):
        open_directory(tmp_path / "d")


def test_a_section_is_looked_at_once_and_by_its_owner(tmp_path: Path) -> None:
    in_sections(tmp_path / "d")
    opened = open_directory(tmp_path / "d")
    seen: list[int] = []
    opened.checks.append(seen.append)
    threads = [threading.Thread(target=opened.touch, args=([2, 0, 2],)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [2, 0]
    opened.verify_all()
    assert seen == [2, 0, 1]

    def refuse(section: int) -> None:
        raise ValueError("rows do not ascend")

    opened = open_directory(tmp_path / "d")
    opened.checks.append(refuse)
    for _ in range(2):
        with pytest.raises(CorruptStore, match=r"d is not a whole thing: rows do not ascend"):
            opened.touch([0])


def test_pieces_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with FolderWriter(tmp_path / "d", "thing") as writer:
        writer.append("x", np.ones(2))
        with pytest.raises(ValueError, match="'x' has begun undivided"):
            writer.section({"x": np.ones(2)})
        writer.section({"y": np.ones(2)})
        with pytest.raises(ValueError, match=r"x\.npy: int64 \(2,\) after float64"):
            writer.append("x", np.arange(2))
        with pytest.raises(ValueError, match=r"sections of \['y'\] and then of \['y', 'z'\]"):
            writer.section({"y": np.ones(2), "z": np.ones(1)})
        with pytest.raises(ValueError, match="'sums' of dtype float64 cannot be stored"):
            writer.append("sums", np.ones(2))


def test_another_format_is_refused_in_one_line(tmp_path: Path) -> None:
    write_directory(tmp_path / "d", "graph", SOME, {})
    content = read_manifest(tmp_path / "d") | {"version": 1}
    (tmp_path / "d" / MANIFEST).write_bytes(sealed(FORMAT, 1, content))
    with pytest.raises(CorruptStore) as refused:
        open_directory(tmp_path / "d", "graph")
    assert "format version 1 is older than 2" in str(refused.value)
    assert str(refused.value).endswith("build the graph again (tuplet import)")
