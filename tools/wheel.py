"""Build the wheel, install it into an empty virtual environment and use it from there, far from the sources.

`python tools/wheel.py` takes well under a minute. Only tuplet itself is installed: its dependencies (torch alone is
hundreds of megabytes) come from the environment that runs this script, by a `.pth` file. So this checks what is in the
wheel and that it works when installed; that the list of dependencies is complete, `make demo` shows. Kernels run
uncompiled, since the graphs are tiny.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = (
    "py.typed",
    "data/world/facts.tsv",
    "data/world/labels.tsv",
    "data/attack/facts.tsv.gz",
    "server/web/index.html",
)


def main() -> int:
    """Everything, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="tuplet-wheel-") as folder:
        work = Path(folder)
        python = installed(wheel_of(ROOT, work), work / "venv")
        print(f"{use(python, work)}: built, installed and used", file=sys.stderr)
    return 0


def wheel_of(source: Path, work: Path) -> Path:
    """The wheel, built from a copy."""
    copy = copy_of(source, work)
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(work), str(copy)])
    (wheel,) = work.glob("tuplet-*.whl")
    return wheel


def copy_of(source: Path, work: Path) -> Path:
    """A copy of what git knows: nothing that lies around gets into what is built from it."""
    copy = work / "source"
    listed = run(["git", "-C", str(source), "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    for name in filter(None, listed.split("\0")):
        if (source / name).is_file():  # a file that was removed is listed until that is committed
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((source / name).read_bytes())
    return copy


def installed(wheel: Path, folder: Path) -> Path:
    """The interpreter of an empty environment into which the wheel was installed."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)])
    (place,) = folder.glob("lib/python*/site-packages")
    (place / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return python


def use(python: Path, work: Path) -> str:
    """The version of what was installed, after a question to facts and a question to truth values."""
    home = work / "elsewhere"
    home.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TUPLET"))}
    environment |= {"NUMBA_DISABLE_JIT": "1"}

    def tuplet(*words: str) -> str:
        return run([str(python.with_name("tuplet")), *words], cwd=home, env=environment)

    place = Path(run([str(python), "-c", "import tuplet; print(tuplet.__file__)"], cwd=home, env=environment).strip())
    expect(work / "venv" in place.parents, f"tuplet was imported from {place}")
    for name in DATA:
        expect((place.parent / name).exists(), f"{name} is not in the wheel")

    (home / "facts.tsv").write_text("anna\tknows\tben\nben\tknows\tcleo\ncleo\tknows\tdora\n", encoding="utf-8")
    tuplet("import", "facts.tsv", "-o", "facts.graph")
    found = json.loads(tuplet("ask", "facts.graph", "?x, ?z : exists ?y . knows(?x, ?y) & knows(?y, ?z)", "--json"))
    pairs = [tuple(answer["values"].values()) for answer in found["answers"]]
    expect(pairs == [("anna", "cleo"), ("ben", "dora")] and found["engine"] == "crisp", f"crisp answered {found}")

    (home / "weighted.csv").write_text("anna,trusts,ben,0.9\nben,trusts,cleo,0.8\nanna,trusts,cleo,0.5\n")
    tuplet("build", "weighted.csv", "-o", "weighted.store", "--quiet")
    query = "SELECT ?x ?y ?z WHERE { ?x :trusts ?y . ?y :trusts ?z }"
    found = json.loads(tuplet("ask", "weighted.store", query, "--json"))
    best = [(*answer["values"].values(), round(answer["truth"], 12)) for answer in found["answers"]]
    expect(best == [("anna", "ben", "cleo", 0.72)] and found["exact"] is True, f"exact answered {found}")
    return tuplet("--version").strip()


def expect(held: bool, otherwise: str) -> None:
    """Stop with one line if something does not hold."""
    if not held:
        raise SystemExit(f"wheel: {otherwise}")


def run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """The output of a command; its own words if it fails."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    expect(done.returncode == 0, f"{' '.join(command)} failed\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
