"""Rules of the house that no linter knows. The layers are stated in `pyproject.toml`; `test_front_door.py` has what
`import tuplet` may bring in and that `dir(tuplet)` is `__all__`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import tuplet
from tuplet.settings import OURS

ROOT = Path(tuplet.__file__).parent
LONGEST = 800  # lines of a file


@cache
def files() -> dict[str, ast.Module]:
    """Every module of the package by its path."""
    found = {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}
    assert len(found) > 100
    return found


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Everything of some kinds, with the place where it is."""
    for name, tree in files().items():
        for node in ast.walk(tree):
            if isinstance(node, kinds):
                yield f"{name}:{node.lineno}", node  # type: ignore[attr-defined]


def called(node: ast.AST) -> str:
    """What a call calls, as it is written."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def test_every_class_name_occurs_once() -> None:
    places = defaultdict(list)
    for place, node in nodes(ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        places[node.name].append(place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def compares_engines(node: ast.AST) -> bool:
    """Whether it tells engines apart by their names: in a comparison, a `match` or by the beginning of the name."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.MatchValue):
        sides = [node.value]
    else:
        sides = node.args if isinstance(node, ast.Call) and called(node).endswith(("startswith", "endswith")) else []
    for side in sides:
        # a name of an engine, or several; the key of a subscript is none
        words = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
        if any(isinstance(word, ast.Constant) and word.value in OURS["engines"] for word in words):
            return True
    text = ast.unparse(node)
    return bool(sides) and ("engine.name" in text or "runner.name" in text)


def test_nobody_compares_names_of_engines() -> None:
    found = [
        f"{place} {ast.unparse(node)}"
        for place, node in nodes(ast.Compare, ast.MatchValue, ast.Call)
        # of tokens, too, "exact" is a kind: a name in angle brackets
        if compares_engines(node) and not place.startswith("lang/")
    ]
    assert found == []
    for line in ("name == 'ns3'", "x in ('fit', 'y')", "engine.name != other", "name.startswith('ns3')"):
        assert any(map(compares_engines, ast.walk(ast.parse(line)))), "and this is how one would look"


def test_only_files_renames() -> None:
    found = [
        f"{place} {called(node)}"
        for place, node in nodes(ast.Call)
        if called(node) in ("os.replace", "os.rename", "os.renames", "shutil.move")
        or (called(node).endswith(".rename") and not called(node).startswith("frame."))  # columns of a table
    ]
    assert {place.split(":")[0] for place in found} == {"files.py"}, found


def test_only_the_command_line_prints() -> None:
    found = [place for place, node in nodes(ast.Call) if called(node) in ("print", "sys.stdout.write")]
    assert found
    assert [place for place in found if not place.startswith(("cli/", "__main__.py"))] == []


def test_no_file_is_long() -> None:
    lines = {name: len((ROOT / name).read_text("utf-8").splitlines()) for name in files()}
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}


TESTS = Path(__file__).parent
DRAWN = """
import sys
sys.path.insert(0, sys.argv[1])
from hypothesis import given, strategies as st
from repeatable import load_profile
load_profile()
for module in sys.argv[2:]:
    __import__(module)
drawn = []

@given(st.integers(), st.floats(), st.text())
def look(whole, real, text):
    drawn.append((whole, real, text))

look()
print(drawn)
"""


def test_one_file_decides_on_clocks_and_seeds_of_random_tests() -> None:
    wrong = []
    for path in sorted({*TESTS.rglob("*.py")} - {TESTS / "repeatable.py"}):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "hypothesis":
                wrong += [f"{path.name}:{node.lineno} {name.name}" for name in node.names if name.name == "settings"]
            if called(node).endswith(("Random", "default_rng")) and ast.unparse(node).endswith("()"):
                wrong.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")  # type: ignore[attr-defined]
    assert wrong == []


def test_random_examples_do_not_depend_on_what_is_imported() -> None:
    """Hypothesis draws constants of the modules at hand, and which these are depends on the other tests."""
    drawn = [
        subprocess.run([sys.executable, "-c", DRAWN, str(TESTS), *modules], capture_output=True, text=True, check=True)
        for modules in ((), ("tuplet.store", "tuplet.lang.cypher"))
    ]
    assert len(drawn[0].stdout) > 1000
    assert drawn[0].stdout == drawn[1].stdout


TORCHLESS = """
import sys
from tuplet.cli.commands import main
for path in sys.argv[1:]:
    assert main(["ask", path, "?x : borders(?x, portugal)", "--only", "observed", "--timeout", "60"]) == 0
assert "torch" not in sys.modules
"""


def test_asking_brings_in_no_torch(tmp_path: Path, world_directory: Path) -> None:
    facts = [("spain", "borders", "portugal", 0.9), ("france", "borders", "spain", 0.8)]
    tuplet.build(facts, tmp_path / "store", progress=False)
    command = [sys.executable, "-c", TORCHLESS, str(tmp_path / "store"), str(world_directory)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.lower().count("spain") == 2


def test_the_map_for_contributors_names_every_room() -> None:
    guide = (ROOT.parents[1] / "CONTRIBUTING.md").read_text("utf-8")
    rows = [line for line in guide.splitlines() if line.startswith("| `")]
    named = {word.rstrip("/") for row in rows for word in row.split("|")[1].replace("`", " ").split()}
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("__")}
    modules = {path.name for path in ROOT.glob("*.py") if not path.name.startswith("_")}
    assert named == rooms | modules


def test_pages_for_contributors_name_files_that_exist() -> None:
    repository = ROOT.parents[1]
    for page in ("CONTRIBUTING.md", "docs/contributing/onboarding.md", "docs/explanation/how-it-works.md"):
        found = re.findall(r"`([\w/.]+(?:\.py|/))`", (repository / page).read_text("utf-8"))
        assert found
        missing = {path for path in found if not (ROOT / path).exists() and not (repository / path).exists()}
        assert missing == set(), page
    assert len((repository / "docs/contributing/onboarding.md").read_text("utf-8").splitlines()) <= 400
