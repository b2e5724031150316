"""Build what is released, twice, and try it as users get it: `make release-check`.

Wheel and source distribution are built from a copy of what git knows, and must have the same bytes twice; `twine` reads
their metadata. Both are then installed, with their dependencies, into an empty environment of every Python at hand, and
used there (`tools/wheel.py`). Printed: sizes, packages, and how long it takes from `pip install` to a first answer.

    python tools/release_check.py -o dist [--pythons 3.11,3.13] [--no-install]
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from wheel import ROOT, copy_of, expect, run, use

sys.path.insert(0, str(ROOT / "src"))
SUPPORTED = ("3.11", "3.12", "3.13")


def main() -> int:
    """All of it, in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist", help="where the files go (default dist)")
    parser.add_argument("--pythons", default=",".join(SUPPORTED), help="versions to try, those that are at hand")
    parser.add_argument("--no-install", action="store_true", help="build and check metadata, install nothing")
    arguments = parser.parse_args()
    _said_everywhere()
    with tempfile.TemporaryDirectory(prefix="tuplet-release-") as folder:
        work = Path(folder)
        files = built(work / "one")
        again = built(work / "two")
        for one, two in zip(files, again, strict=True):
            expect(_digest(one) == _digest(two), f"{one.name} has other bytes when it is built again")
            print(f"{one.name}  {one.stat().st_size / 1e6:.2f} MB  sha256 {_digest(one)}  the same twice")
        run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)])
        print("twine check: passed")
        arguments.output.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(file, arguments.output)
        if not arguments.no_install:
            for version in arguments.pythons.split(","):
                python = at_hand(version)
                print(tried(python, files, work) if python else f"Python {version}: not at hand", flush=True)
    return 0


def _said_everywhere() -> None:
    """The version is the same wherever it is said, and the changelog has a date for it."""
    from tuplet._version import __version__

    expect("dev" not in __version__, f"{__version__} is no version to release")
    said = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    expect(f"\nversion: {__version__}\n" in said, "CITATION.cff has another version")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    expect(f"\n## [{__version__}] - 20" in changes, f"CHANGELOG.md has no dated heading for {__version__}")


def built(folder: Path) -> list[Path]:
    """The wheel and the source distribution, with the time of the last commit in them."""
    source = copy_of(ROOT, folder)
    epoch = run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]).strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    run([sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(source)], env=environment)
    (wheel,) = (folder / "dist").glob("*.whl")
    (archive,) = (folder / "dist").glob("*.tar.gz")
    archive.write_bytes(plain(archive.read_bytes(), int(epoch)))
    return [wheel, archive]


def plain(packed: bytes, epoch: int) -> bytes:
    """A .tar.gz in order of names, without owners and other times: setuptools leaves these as it finds them."""
    target = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(packed)) as given,
        gzip.GzipFile(fileobj=target, mode="wb", filename="", mtime=epoch) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for member in sorted(given.getmembers(), key=lambda member: member.name):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime, member.pax_headers = epoch, {}
            archive.addfile(member, given.extractfile(member) if member.isfile() else None)
    return target.getvalue()


def at_hand(version: str) -> str | None:
    """The interpreter of a version, in the path or among pyenv's."""
    found = shutil.which(f"python{version}")
    places = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in [str(places[-1])] if places else [found] if found else []:
        if _version(python).startswith(f"{version}."):
            return python
    return None


def tried(python: str, files: list[Path], work: Path) -> str:
    """What an empty environment has and takes, from `pip install` of the wheel to an answer.

    The source distribution is then installed in its place: what both need is installed once.
    """
    wheel, archive = files
    place = work / "venv"
    shutil.rmtree(place, ignore_errors=True)
    run([python, "-m", "venv", str(place)])
    inner, tuplet = place / "bin" / "python", str(place / "bin" / "tuplet")
    pip = [str(inner), "-m", "pip", "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-compile"]
    installed = _spent([*install, str(wheel)], work)
    packages = run([*pip, "list", "--format=freeze"]).splitlines()
    # first of all, as for a new user: nothing is compiled yet, neither kernels nor Python
    graph, query = "world.graph", "?x, ?y : borders(?x, ?y) & official_language(?y, french)"
    read = _spent([tuplet, "data", "fetch", "world", "-o", graph], work)
    cold, warm = (_spent([tuplet, "ask", graph, query, "-k", "3"], work) for _ in range(2))
    shutil.rmtree(work / graph)
    tries = [_spent([str(inner), "-c", "import tuplet"], work) for _ in range(3)]
    imported = min(tries, key=lambda spent: spent.processor)
    version = _used(inner, work)
    run([*pip, "uninstall", "--quiet", "--yes", "tuplet"])
    run([*install, "--no-deps", str(archive)])
    run([*pip, "check"])
    expect(_used(inner, work) == version, f"{archive.name} has another version")
    return (
        f"Python {_version(inner)}: {version} from wheel and source used, {len(packages)} packages; "
        f"installed in {installed}, the world read in {read}, first answer {cold}, next {warm}; import {imported}"
    )


def _used(python: Path, work: Path) -> str:
    shutil.rmtree(work / "elsewhere", ignore_errors=True)
    return use(python, work)


def _version(python: str | Path) -> str:
    return run([str(python), "-c", "import platform; print(platform.python_version())"]).strip()


class Spent(NamedTuple):
    """Seconds that a command took; those of the processor are the same on a busy machine."""

    wall: float
    processor: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.processor:.2f} of processor)"


def _spent(command: list[str], folder: Path) -> Spent:
    start, before = time.perf_counter(), os.times()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=_outside())
    expect(done.returncode == 0, f"{' '.join(command)} failed\n{done.stderr}")
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return Spent(time.perf_counter() - start, processor)


def _outside() -> dict[str, str]:
    """The environment without what would lead back to the sources."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TUPLET"))}


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
