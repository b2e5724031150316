"""Delete the rooms that may be deleted from a copy of the tree: the rest must import, type-check and pass its tests.

    python tools/without_rooms.py          # contract tests; in `make test`
    python tools/without_rooms.py --all    # all tests that are left; in `make soak`

A test is deleted with a room if it names the room, or imports a helper that does. Tests of the whole distribution (its
docs, its wheel, its list of commands) are left out too.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from tuplet.settings import ROOMS  # noqa: E402

WHOLE = r"test_(docs_\w+|front_door|house|notebooks|completion|parity|packaging)\.py"
IMPORT_ALL = """
import importlib, pkgutil, tuplet
written_for_a_gpu = {"tuplet.predict.paths.triton_kernels", "tuplet.truth.candidates.product_kernels"}
names = [module.name for module in pkgutil.walk_packages(tuplet.__path__, "tuplet.")]
for name in {*names} - written_for_a_gpu - {"tuplet.__main__"}:
    importlib.import_module(name)
print(len(names), "modules are imported")
"""


def copy_tree(target: Path) -> None:
    """Sources without the rooms, tests and settings, with what was compiled and checked before."""
    folders = [room.replace(".", "/") for room in ROOMS]

    def ignore(folder: str, names: list[str]) -> set[str]:
        inside = Path(folder).relative_to(ROOT / "src").as_posix()
        return {name for name in names if f"{inside}/{name}" in folders}

    shutil.copytree(ROOT / "src", target / "src", ignore=ignore)
    shutil.copytree(ROOT / "tests", target / "tests")
    shutil.copy2(ROOT / "pyproject.toml", target)
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", target / ".mypy_cache")
    for room in ROOMS:
        shutil.rmtree(target / "tests" / room.rpartition(".")[2])


def delete_tests_of_rooms(tests: Path) -> None:
    """Delete every file that names a room, then those that import a deleted one, until nothing changes."""
    gone = "|".join(map(re.escape, ROOMS))
    while True:
        named = re.compile(rf"\b({gone})\b")
        found = [file for file in tests.rglob("*.py") if named.search(file.read_text(encoding="utf-8"))]
        found += [file for file in tests.rglob("test_*.py") if re.fullmatch(WHOLE, file.name)]
        if not found:
            return
        for file in set(found):
            file.unlink()
            gone += rf"|import {file.stem}|from {file.stem} import"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all tests that are left, not the contract tests alone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copy_tree(copy)
        delete_tests_of_rooms(copy / "tests")
        environment = os.environ | {"PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        pytest = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        tests = ["tests", "src"] if arguments.all else ["tests/contracts"]
        commands = [["-c", IMPORT_ALL], ["-m", "mypy"], [*pytest, *tests]]
        for command in commands:
            if subprocess.run([sys.executable, *command], cwd=copy, env=environment).returncode:
                sys.exit(f"without {' and '.join(ROOMS)} this fails: python {' '.join(command)[:60]}")


if __name__ == "__main__":
    main()
