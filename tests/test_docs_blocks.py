"""Every block of code in README and docs is run, or a stated reason says why not; every command's flags exist.

What learns for long, waits for requests or needs another machine is read by the parser of the command line instead of
being run; which commands these are, `LATER` says. What learns is run on small settings. The commands of results take
hours on the benchmark's graphs: their files and flags are looked up.
"""

from __future__ import annotations

import contextlib
import doctest
import functools
import io
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet
from docs_blocks import ROOT, Block, all_commands, blocks, commands, pages
from tuplet.cli.commands import main, parser
from tuplet.predict.config import TrainConfig

# Commands that are not run here, by their first words.
LATER = {
    "serve": "waits for requests; tests/server runs it",
    "mcp": "waits for requests; tests/server/test_mcp.py runs it",
    "demo": "takes a minute or more; tests/test_cli.py and `make demo` run it",
    "update": "needs a store with a predictor; tests/truth/test_truth_new_entities.py runs it",
    "guarantee": "needs held-out queries; tests/lab/test_bench_guarantee.py runs it",
    "ask STORE QUERY --confidence 0.9": "needs them too",
    "bench": "takes long; tests/lab runs it on small graphs",
    "data": "needs the data; tests/graph runs it",
    "adopt": "needs a predictor of another package; tests/predict/test_predict_adopt.py runs it",
    "completion": "is for shells; tests/test_completion.py runs it in them",
    "doctor": "tells of the machine; tests/test_cli.py runs it",
    "import facts.arrows": "needs the package of the page; tests/plugins installs one",
    "index my.graph my_package:Popular": "has facts enough only for a real graph; tests/plugins runs it",
    "index my.graph popular": "needs the package of the page; tests/plugins installs one",
    "ask my.store QUERY --engine careful": "needs the package of the page; tests/plugins installs one",
}
NEEDS_MORE = {
    "--ray": "needs a cluster; tests/cluster runs it on one",
    "learned": "a learned calibration needs 300 valid edges; tests/truth runs it",
    "newest": "needs hundreds of facts with dates; tests/truth/test_truth_times.py runs it",
}
NO_COMMANDS = dict.fromkeys(("store", "proof"), "the name of a format")
LONG = {"packaged", "--from", "paths"}  # take a quarter of a minute; tests/predict and tests/test_no_train.py run them
# Settings with which `build` and `train` take a second, instead of those of the page.
SMALL = {"--epochs": "1", "--rank": "4"}
OURS = ("--minutes", "--device", "--preset", "--negatives")
# Pages whose blocks have a test of their own, or are made from code that is tested where it stands.
ELSEWHERE = {
    "docs/how-to/attack.md": "tests/test_demo_attack.py",
    "docs/how-to/cookbook.md": "tests/test_docs_recipes.py",
    "docs/how-to/gallery.md": "tests/test_docs_recipes.py",
    "docs/how-to/troubleshooting.md": "tests/test_docs_recipes.py",
    "docs/how-to/your-data.md": "tests/test_docs_your_data.py",
    "docs/how-to/from-pandas.md": "tests/test_docs_your_data.py",
    "docs/tutorial/index.md": "tests/test_docs_tutorial.py",
    "docs/reference/cli.md": "tools/reference.py",
    "docs/reference/python.md": "tools/reference.py",
}
# Blocks of Python that are only compiled, by a line in them.
COMPILED = {
    "TriplesFactory": "needs PyKEEN",
    "SPARQLStore": "needs a server; tests/server/test_sparql_clients.py runs the same",
    'device="cuda"': "needs a GPU, and learns for an hour",
    "train=False": "takes a quarter of a minute; tests/test_no_train.py runs it",
    "tuplet.train(": "learns for long; tests/predict runs it on small graphs",
    "store.update()": "needs a store with a predictor; tests/truth/test_truth_new_entities.py runs it",
}
QUERY = "?x : borders(?x, spain)"

FACTS = """
paris capital_of france|lyon in france|spain borders france|france borders spain|france borders germany
germany borders france|monaco borders france|aspirin treats headache|aspirin treats flu|ann knows bob|bob knows ann
D1 targets G1|D2 targets G1|D2 targets G2|G1 associated_with asthma|G2 associated_with asthma|D1 treats asthma
spain located_in southern_europe|italy located_in southern_europe|italy borders france
burkina_faso borders mali|mali member_of african_union
"""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small files of all names that pages use."""
    folder = tmp_path_factory.mktemp("workshop")
    facts = [tuple(fact.split()) for line in FACTS.strip().splitlines() for fact in line.split("|")]
    lines = "".join("\t".join(fact) + "\n" for fact in facts)
    for name in ("facts.tsv", "train.tsv", "known.tsv", "some/dataset/train.tsv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(lines)
    for name in ("valid.tsv", "test.tsv", "held-out-facts.tsv", "some/dataset/valid.tsv", "some/dataset/test.tsv"):
        (folder / name).write_text("spain\tborders\titaly\n")
    (folder / "train.csv").write_text(lines.replace("\t", ","))
    (folder / "valid.csv").write_text("spain,borders,italy\n")
    (folder / "test.csv").write_text("monaco,borders,italy\n")
    (folder / "names.tsv").write_text("france\tFrance\n")
    (folder / "facts.csv").write_text("drug,does,gene\nD1,targets,G1\n")
    (folder / "orders.csv").write_text("customer,product,price,date\n" + "".join(_orders()))
    (folder / "facts.arrows").write_text("D1 -> targets -> G1\n")
    (folder / "new.tsv").write_text("spain\tborders\titaly\n")
    (folder / "wrong.tsv").write_text("spain\tborders\titaly\n")
    (folder / "today.tsv").write_text("atlantis\tborders\tspain\n")
    (folder / "values.csv").write_text("entity,attribute,value\nann,age,31\n")
    (folder / "wrong.csv").write_text("entity,attribute,value\nann,age,31\n")
    (folder / "drugs.csv").write_text(":ID,name,phase:int,:LABEL\nD1,Oloo,3,Drug\nD2,Prozu,2,Drug\n")
    (folder / "genes.csv").write_text(":ID,:LABEL\nG1,Gene\nG2,Gene\n")
    (folder / "targets.csv").write_text(":START_ID,:END_ID,:TYPE\nD1,G1,TARGETS\nD2,G1,TARGETS\nD2,G2,TARGETS\n")
    shutil.copy(ROOT / "docs" / "tutorial" / "europe.csv", folder)
    (folder / "query.rq").write_text("SELECT ?x WHERE { ?x :borders :france }")
    graph = tuplet.read(folder / "facts.tsv")
    for name in ("my.graph", "GRAPH"):
        graph.save(folder / name)
    tuplet.train(graph, folder / "MODEL", rank=4, epochs=1, progress=False)
    guess = {
        "head": ["italy", "burkina_faso"],
        "relation": ["borders", "member_of"],
        "tail": ["spain", "african_union"],
    }
    table = pa.table({**guess, "truth": [0.4, 0.7]})
    for name in ("truth.parquet", "F.parquet"):
        pq.write_table(table, folder / name)
    store = tuplet.index(graph, None, folder / "my.store", table=folder / "truth.parquet", progress=False)
    store.close()
    for name in ("STORE", "world.store"):
        shutil.copytree(folder / "my.store", folder / name)
    return folder


def _orders() -> Iterator[str]:
    for i in range(1040, 1050):
        yield from (f"{i},p{i % n},{n}.5,2024-01-{i % 28 + 1:02}\n" for n in (2, 3, 4))


@pytest.fixture
def here(workshop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the workshop for one page."""
    shutil.copytree(workshop, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


RUN = [page for page in pages() if page not in ELSEWHERE and not page.startswith(("docs/results", "docs/benchmark"))]


@pytest.mark.parametrize("page", [page for page in RUN if blocks(page)])
def test_the_blocks_of_a_page_run(page: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuplet, "build", _small_build(tuplet.build))
    monkeypatch.setitem(sys.modules, "my_package", type(sys)("my_package"))
    names = sys.modules["my_package"].__dict__
    names |= {"tuplet": tuplet, "graph": tuplet.read("facts.tsv"), "query": QUERY}
    for block in blocks(page):
        names.setdefault("store", None)
        if names["store"] is None or not Path("my.store").exists():
            names["store"] = tuplet.open("my.store")
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                run(block, names, page)
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{page}:{block.line}: {error}") from error


def run(block: Block, names: dict[str, Any], page: str) -> None:
    """Run a block of Python or the commands of a shell; anything else is no code."""
    if block.language == "python":
        if ">>>" in block.text:
            examples = doctest.DocTestParser().get_doctest(block.text, names, page, None, block.line)
            runner = doctest.DocTestRunner(verbose=False)
            runner.run(examples, clear_globs=False)
            names |= examples.globs
            assert runner.failures == 0, "an example prints something else"
        else:
            compile(block.text, page, "exec")
            if not any(line in block.text for line in COMPILED):
                for written in re.findall(r"\.(?:save|export|write)\(\"([^\"]+)\"", block.text):
                    _remove(Path(written))
                exec(_needed(block.text) + block.text, names)
        return
    if block.language in ("", "sh", "bash"):
        for words in commands(block.text):
            if words[0] == "tuplet":
                _ask(words[1:])


def _needed(code: str) -> str:
    """What the prose around a block imports or makes."""
    lines = ""
    if "EmbeddingModel" in code:
        lines += "from tuplet.predict.embeddings import EmbeddingModel\n"
    if "tuplet.read(frame" in code:
        lines += "import pandas\nframe = pandas.read_csv('facts.csv')\n"
    return lines


def _ask(words: list[str]) -> None:
    line = " ".join(words)
    if "…" in line or (LONG | NEEDS_MORE.keys()) & set(words) or any(line.startswith(start) for start in LATER):
        return
    words = [QUERY if word == "QUERY" else word for word in words]
    if words[0] in ("build", "train"):
        words = _smaller(words)
    if "-o" in words:
        at = words.index("-o")
        if words[at + 1] not in words[:at]:
            _remove(Path(words[at + 1]))
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(words)
    assert code == 0, f"tuplet {' '.join(words)}: {said.getvalue()}"


def _smaller(words: list[str]) -> list[str]:
    kept = list(words)
    for flag in (*OURS, *SMALL):
        if flag in kept:
            del kept[kept.index(flag) : kept.index(flag) + 2]
    return (
        [*kept, "--quiet"] if "--no-train" in kept else [*kept, "--quiet", *(w for pair in SMALL.items() for w in pair)]
    )


def _remove(path: Path) -> None:
    """Pages show several ways to make the same file."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _small_build(build: Any) -> Any:
    @functools.wraps(build)
    def small(source: Any, path: Any, **settings: Any) -> Any:
        shutil.rmtree(path, ignore_errors=True)
        return build(source, path, **{**settings, "epochs": 1, "rank": 4, "progress": False})

    return small


# All but troubleshooting, whose mistakes are meant and printed.
@pytest.mark.parametrize("page", [page for page in pages() if page != "docs/how-to/troubleshooting.md"])
def test_commands_have_words_and_flags_that_exist(page: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for words in all_commands(page):
        said = f"{page}: {' '.join(words)}"
        if words[0] == "tuplet":
            _known(words[1:], said)
        elif words[0] == "python" and words[1].endswith(".py"):
            source = ROOT / words[1]
            assert source.is_file(), said
            text = source.read_text(encoding="utf-8")
            known = (
                {f"--{field.name.replace('_', '-')}" for field in fields(TrainConfig)} if "TrainConfig" in text else ()
            )
            for flag in [word.split("=")[0] for word in words[2:] if word.startswith("--")]:
                assert f'"{flag}"' in text or flag in known, f"{said}: no flag {flag}"
        elif words[0] == "pip":
            for extra in re.findall(r"tuplet\[([\w,]+)\]", " ".join(words)):
                assert set(extra.split(",")) <= set(extras), said
        elif words[0] == "make":
            assert {word for word in words[1:2] if word.isidentifier()} <= targets, said


def _known(words: list[str], said: str) -> None:
    """The command exists, and so does each of its flags: a page may name a part of a command."""
    command, rest = parser(), list(words)
    while True:
        command.fill_flags()
        inner = {name: sub for action in command._actions for name, sub in _inner(action)}
        if not inner or not rest or rest[0].startswith("-"):
            break
        if not rest[0].islower() or rest[0] in NO_COMMANDS:  # COMMAND, NAME
            return
        assert rest[0] in inner, f"{said}: no command {rest[0]!r}"
        command = inner[rest.pop(0)]
    flags = {flag for action in command._actions for flag in action.option_strings}
    for word in rest:
        if re.fullmatch(r"--[a-z][\w-]*(=.*)?", word):
            assert word.split("=")[0] in flags, f"{said}: no flag {word}"


def _inner(action: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(action.choices, dict):
        yield from action.choices.items()


def test_paths_in_blocks_exist() -> None:
    for page in pages():
        for block in blocks(page):
            for path in re.findall(r"(?:^|[\s=])((?:packaging|benchmarks|tools)/[\w./-]+\.\w+)", block.text):
                assert (ROOT / path).exists(), f"{page}:{block.line}: {path}"


def test_pages_with_tests_of_their_own_have_them() -> None:
    for page, test in ELSEWHERE.items():
        assert (ROOT / test).is_file(), page
        assert os.path.basename(page) in (ROOT / test).read_text(encoding="utf-8") or "tutorial" in page, page
