"""Size of the repository by room: lines, logical lines and files, and the difference to a revision.

    python tools/size.py               # beside the last commit
    python tools/size.py 5eeccf3       # beside another; folders of before the third edition count for today's rooms

A logical line is a statement that is no docstring (`ast`); JavaScript has none. All files count, generated ones too;
`make lint` prints the table as information.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tools", "benchmarks", "tests")
# Where the files of older revisions are now; the longest beginning counts.
MOVED = {
    "graph/readers": "read", "graph/bundled.py": "read", "graph/datasets.py": "read", "array_folder.py": "graph",
    "array_writer.py": "graph", "prefixes.py": "graph", "segments.py": "graph", "train_config.py": "predict",
    "cluster": "truth", "text_table.py": "query", "html_table.py": "query", "plots.py": "query", "listing.py": "query",
    "serve": "server", "mcp": "server", "tools": "server", "bench": "lab", "baselines": "lab",
    "lang/benchmark_forms.py": "lab",
}  # fmt: skip


def room(path: str) -> str:
    """The row a file belongs to: a room of src/tuplet, or a folder of the repository."""
    folder, _, rest = path.removeprefix("src/tuplet/").partition("/")
    if path.endswith(".js"):
        return "(JavaScript)"
    if not path.startswith("src/"):
        return f"({folder})"
    for old in (f"{folder}/{rest.partition('/')[0]}", folder):
        if old in MOVED:
            return MOVED[old]
    return folder if rest else "top level"


def count_statements(text: str) -> int:
    """Statements of a Python file, docstrings left out."""
    return sum(
        isinstance(node, ast.stmt)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and type(node.value.value) is str)
        for node in ast.walk(ast.parse(text))
    )


def measure(files: Iterator[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Sums by room and column of files given as path and text."""
    sums: Counter[tuple[str, str]] = Counter()
    for path, text in files:
        if path.startswith(FOLDERS) and path.endswith((".py", ".js")):
            logical = count_statements(text) if path.endswith(".py") else 0
            found = {"lines": text.count("\n"), "logical": logical, "files": 1}
            for row in (room(path), "src/ Python") if path.startswith("src/") and logical else (room(path),):
                sums.update({(row, column): number for column, number in found.items()})
    return sums


def read_tree() -> Iterator[tuple[str, str]]:
    """Files of the working tree that git does not ignore."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *FOLDERS], cwd=ROOT, stdout=-1, check=True)
    for path in sorted(set(listed.stdout.decode().splitlines())):
        if (ROOT / path).is_file() and path.endswith((".py", ".js")):
            yield path, (ROOT / path).read_text("utf-8")


def read_revision(revision: str) -> Iterator[tuple[str, str]]:
    """Files of a commit."""
    packed = subprocess.run(
        ["git", "archive", f"{revision}^{{commit}}", *FOLDERS], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name.endswith((".py", ".js")) else None
            if content is not None:
                yield member.name, content.read().decode("utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="?", help="compare with this one (default: the last commit)")
    given = parser.parse_args().revision
    now, revision = measure(read_tree()), given or "HEAD~1"
    try:
        before = measure(read_revision(revision))
    except subprocess.CalledProcessError:
        if given:
            sys.exit(f"size.py: this clone has no revision {given!r}")
        revision, before = f"{revision} (not here)", now  # a shallow clone has no other commit
    columns = ("lines", "logical", "files")
    print(f"{'difference to ' + revision:24}" + "".join(f"{column:>10}{'':9}" for column in columns).rstrip())
    # rooms first, then their sum, then what is in parentheses
    for row in sorted({row for row, _ in now | before}, key=lambda row: (row[0] == "(", row == "src/ Python", row)):
        line = f"{row:24}"
        for column in columns:
            change = now[row, column] - before[row, column]
            line += f"{now[row, column]:10,}" + (f"{change:+9,}" if change else " " * 9)
        print(line.rstrip())


if __name__ == "__main__":
    main()
