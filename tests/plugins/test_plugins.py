"""A package of somebody else, installed by pip: its engine, its predictor and its reader are used like ours."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

import tuplet
from tuplet import settings
from tuplet.cli.commands import main
from tuplet.errors import BadInput
from tuplet.lab.bench.queries import read_any
from tuplet.lab.bench.results import read_rows
from tuplet.lab.bench.run import run
from tuplet.server.app import Application
from tuplet.server.limits import ServerLimits
from tuplet.server.metrics import ServerMetrics
from tuplet.server.service import Service

PACKAGE = Path(__file__).parent / "tuplet-example"
CHESS = "?x, ?y : knows(?x, ?y) & joins(?y, chess)"


class Done(NamedTuple):
    """What a command printed."""

    stdout: str
    stderr: str


Shell = Callable[..., Done]


@contextmanager
def beside(*places: Path) -> Iterator[None]:
    """Packages in these places are found, as in a new process: what was found before is forgotten, and so is this."""
    with pytest.MonkeyPatch.context() as patch:
        for place in places:
            patch.syspath_prepend(place)
        _forget()
        yield
    _forget()


def _forget() -> None:
    sys.modules.pop("tuplet_example", None)
    for found in (settings._list_installed, settings._make):
        found.cache_clear()


def shell_in(folder: Path, *places: Path) -> Shell:
    """Runs `tuplet` in a folder, beside the packages in some places; a process for each would take three seconds."""

    def run(*words: str, code: int = 0) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with beside(*places), chdir(folder), redirect_stdout(out), redirect_stderr(err):
            assert main(words) == code, err.getvalue()
        return Done(out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the package was installed."""
    work = tmp_path_factory.mktemp("package")
    shutil.copytree(PACKAGE, work / "source")  # a build leaves files beside the source
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    target = work / "site"
    subprocess.run([*pip, "--no-build-isolation", "--target", str(target), str(work / "source")], check=True)
    return target


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Facts as arrows: people who live in cities, join clubs and know each other."""
    folder, rng = tmp_path_factory.mktemp("arrows"), random.Random(0)
    people = [f"p{i:02}" for i in range(20)]
    facts = {f"{person} -lives in-> {rng.choice(['rome', 'oslo', 'lima'])}" for person in people}
    facts |= {f"{p} -joins-> {club}" for p in people for club in ("chess", "choir", "hiking") if rng.random() < 0.4}
    facts |= {f"{p} -knows-> {q}" for p in people for q in rng.sample(people, 3)}
    lines = sorted(facts)
    rng.shuffle(lines)
    for split, part in (("valid", lines[:10]), ("test", lines[10:25]), ("train", lines[25:])):
        (folder / f"{split}.arrows").write_text("\n".join(part) + "\n")
    return folder


@pytest.fixture(scope="module")
def installed(site: Path, folder: Path) -> Shell:
    """The command line beside the package, in a folder with a graph and a store that were made with it."""
    shell = shell_in(folder, site)
    shell("import", "train.arrows", "--valid", "valid.arrows", "--test", "test.arrows", "-o", "my.graph")
    shell("index", "my.graph", "popularity", "-o", "my.store", "--quiet")
    return shell


def test_a_reader_by_its_suffix(installed: Shell, folder: Path) -> None:
    about = json.loads(installed("info", "my.graph", "--json").stdout)
    lines = {split: len((folder / f"{split}.arrows").read_text().splitlines()) for split in ("train", "valid", "test")}
    assert about["edges"] == lines
    assert about["relations"] == 3
    (folder / "bad.arrows").write_text("p01 -knows-> p02\np01 knows p02\n")
    refused = installed("import", "bad.arrows", "-o", "bad.graph", code=1)
    assert refused.stderr == "error: bad.arrows, line 2: expected head -relation-> tail, found 'p01 knows p02'\n"


def test_a_predictor_by_its_name(installed: Shell, folder: Path) -> None:
    assert json.loads(installed("info", "my.store", "--json").stdout)["model"]["kind"] == "popularity"
    store = tuplet.open(folder / "my.store")
    facts = (folder / "train.arrows").read_text()
    popular = {club: facts.count(f"-joins-> {club}") for club in ("chess", "choir", "hiking")}
    assert len(set(popular.values())) == 3
    for person in ("p00", "p01", "p02", "p03"):
        guesses = store.ask(f"?x : joins({person}, ?x)", only="predicted")
        clubs = [answer["x"] for answer in guesses if answer["x"] in popular]
        assert sorted(clubs, key=popular.get, reverse=True) == clubs


def test_an_engine_by_its_name(installed: Shell) -> None:
    listed = {row["engine"]: row for row in json.loads(installed("engines", "--json").stdout)}
    assert listed["loops"]["options"] == {"most": 1_000_000}
    found = json.loads(installed("ask", "my.store", CHESS, "--engine", "loops", "-k", "30", "--json").stdout)
    ours = json.loads(installed("ask", "my.store", CHESS, "-k", "30", "--json").stdout)
    assert (found.pop("engine"), ours.pop("engine")) == ("loops", "exact")
    same = ("variables", "k", "exact", "bound", "pruned", "calibrated", "answers")
    assert {key: found[key] for key in same} == {key: ours[key] for key in same}
    assert "loop over joins, knows" in installed("ask", "my.store", CHESS, "--engine", "loops", "--plan").stdout
    few = installed("ask", "my.store", CHESS, "--engine", "loops", "--option", "most=5", code=1)
    assert few.stderr == "error: the loops follow more than 5 edges (option 'most')\n"
    assert "did you mean 'loops'" in installed("ask", "my.store", CHESS, "--engine", "lops", code=1).stderr


def test_an_engine_in_the_benchmark(installed: Shell, folder: Path) -> None:
    installed(
        "bench",
        "sample",
        "my.graph",
        "--shapes",
        "2fp,2fpn",
        "--per-shape",
        "2",
        "--workers",
        "1",
        "-o",
        "queries",
        "--quiet",
    )
    words = ("--workers", "2", "--quiet", "-o", str(folder / "theirs"))
    installed("bench", "run", "my.store", "queries", "--engine", "loops", *words)
    run(folder / "my.store", read_any(folder / "queries"), folder / "ours")
    theirs, ours = (
        [(row.shape, row.index, row.answered, row.mrr, row.hit10) for row in read_rows(folder / name)]
        for name in ("theirs", "ours")
    )
    assert len(ours) == 4
    assert theirs == ours
    assert all(answered for _, _, answered, _, _ in ours)


def test_in_a_process_of_its_own(installed: Shell, site: Path, folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "tuplet", "ask", "my.store", CHESS, "--engine", "loops", "--json"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert json.loads(done.stdout)["engine"] == "loops", done.stderr


def test_over_http_by_its_name_and_not_by_its_module(installed: Shell, site: Path, folder: Path) -> None:
    service = Service({"my": tuplet.open(folder / "my.store")}, ServerLimits(), ServerMetrics())

    async def codes() -> list[int]:
        transport = httpx.ASGITransport(Application(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert "loops" in (await client.get("/schema")).json()["engines"]
            asked = [{"query": "?x : joins(?x, chess)", "engine": name} for name in ("loops", "tuplet_example:Loops")]
            return [(await client.post("/ask", json=one)).status_code for one in asked]

    with beside(site):
        assert asyncio.run(codes()) == [200, 400]


def test_by_module_and_class_without_an_installation(installed: Shell, folder: Path) -> None:
    bare, near = shell_in(folder), shell_in(folder, PACKAGE)
    assert "file type '.arrows' of train.arrows" in bare("import", "train.arrows", "-o", "no", code=1).stderr
    assert "unknown engine 'loops'" in near("ask", "my.store", CHESS, "--engine", "loops", code=1).stderr
    words = ("ask", "my.store", CHESS, "--engine", "tuplet_example:Loops", "--json")
    assert json.loads(near(*words).stdout)["engine"] == "loops"
    near("index", "my.graph", "tuplet_example:Popularity", "-o", "by-module.store", "--quiet")
    first, second = (tuplet.open(folder / name).source.values() for name in ("my.store", "by-module.store"))
    assert first.table(range(3)).truth.tolist() == second.table(range(3)).truth.tolist()


def test_what_is_no_engine_is_refused_in_one_line(
    installed: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tuplet.open(folder / "my.store")
    monkeypatch.syspath_prepend(PACKAGE)
    for engine, message in (
        ("tuplet_example:Popularity", "cannot make tuplet_example:Popularity: .* missing 3 required"),
        ("tuplet_example:read_arrows", "tuplet_example:read_arrows is no engine: it has no 'name'"),
        ("tuplet_example:Lops", "cannot load tuplet_example:Lops: .* has no attribute 'Lops'"),
        ("tuplet.query.engine:Engine", "cannot make tuplet.query.engine:Engine: .* abstract"),
    ):
        with pytest.raises(BadInput, match=message):
            store.ask(CHESS, engine)


def test_an_engine_that_does_not_load_is_listed_with_the_reason(tmp_path: Path) -> None:
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tuplet.engines]\nbroken = broken:Engine\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    rows = json.loads(shell_in(tmp_path, tmp_path)("engines", "--json").stdout)
    assert (rows[0]["engine"], rows[-1]["engine"]) == ("exact", "broken")
    assert rows[-1]["summary"] == "cannot load broken:Engine: division by zero"


QUERIES = (
    CHESS,
    "?x, ?y : exists ?z . knows(?x, ?z) & knows(?z, ?y) & !knows(?x, ?y) & ?x != ?y",
    "?x : joins(?x, chess) | joins(?x, choir) & <lives in>(?x, rome)",
    "?x : knows(?x, ?x)",
)


@pytest.mark.parametrize(
    "limits",
    [{}, {"only": "predicted"}, {"only": "observed"}, {"offset": 3}, {"logic": "godel"}, {"k": "all"}, {"k": 0}],
    ids=str,
)
def test_the_example_is_right(
    installed: Shell, folder: Path, limits: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(PACKAGE)
    store = tuplet.open(folder / "my.store")
    for query in QUERIES:
        theirs, ours = (store.ask(query, engine, **limits) for engine in ("tuplet_example:Loops", "exact"))  # type: ignore[arg-type]
        assert [(tuple(a), a.status) for a in theirs] == [(tuple(a), a.status) for a in ours], query
        assert [a.truth for a in theirs] == pytest.approx([a.truth for a in ours])
        assert (theirs.exact, theirs.bound) == (ours.exact, pytest.approx(ours.bound))
        some = [tuple(answer) for answer in ours][:5]
        given = {key: value for key, value in limits.items() if key == "logic"}
        scores = [store.score(query, some, engine, **given) for engine in ("tuplet_example:Loops", "exact")]  # type: ignore[arg-type]
        assert scores[0] == pytest.approx(scores[1])
