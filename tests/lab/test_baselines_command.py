"""`tuplet ask --engine fit` on the bundled graph, over the command line and over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tuplet
from tuplet.build import build
from tuplet.cli.commands import main
from tuplet.cli.demo import hide_facts
from tuplet.predict.config import TrainConfig
from tuplet.read.datasets import bundled

QUERY = "SELECT ?x ?y WHERE { ?x :borders ?y . ?y :borders :france }"
TRIANGLE = "?x, ?y, ?z : borders(?x, ?y) & borders(?y, ?z) & borders(?z, ?x)"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the demonstration, with a predictor that was trained for a moment."""
    root = tmp_path_factory.mktemp("world")
    quick = TrainConfig(rank=8, epochs=1, batch=500, evaluate_every=0)
    made, model = root / "store", root / "model"
    build(hide_facts(bundled()), made, config=quick, keep_model=model, calibration="softmax-count")
    return root


@pytest.mark.parametrize("engine", ["fit", "qto", "cqd"])
def test_a_baseline_answers_and_says_what_its_truth_is(
    made: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ask", str(made / "store"), QUERY, "--engine", engine, "-k", "4"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 6
    assert out[-1].startswith("4 answers, order not proven: truth is the product of marginals (truth values")
    assert f"this is not an exact engine (engine {engine})" in out[-1]


def test_options_on_the_command_line(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["ask", str(made / "store"), TRIANGLE, "--engine", "fit", "--json"]
    assert main([*ask, "--option", "most=1", "--option", "mode=paper"]) == 0
    assert json.loads(capsys.readouterr().out)["about"]["options"] == {"most": 1, "mode": "paper"}
    gradient = [
        "--engine",
        "cqd",
        "--option",
        "method=co",
        "--option",
        f"model={made / 'model'}",
        "--option",
        "steps=5",
    ]
    assert main(["ask", str(made / "store"), QUERY, *gradient]) == 0
    assert "with a model, sigmoids of its scores" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engine", "fit", "--option", "mots=3"], "engine 'fit' has no option 'mots'; did you mean 'most'?"),
        (["--engine", "fit", "--option", "most"], "--option takes KEY=VALUE, such as most=10, not 'most'"),
        (["--engine", "fit", "--option", "most=1", "--option", "most=2"], "--option most is given twice"),
        (["--option", "most=1"], "engine 'exact' takes no options (given: most)"),
        (["--engine", "cqd", "--option", "method=co"], "engine 'cqd' needs a trained link predictor here"),
        (["--engine", "qto"], "engine 'qto' answers trees only; the query has the cycle ?x – ?y – ?z – ?x"),
    ],
)
def test_refusals_are_one_clear_line(
    made: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ask", str(made / "store"), TRIANGLE, *arguments]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: {said}")
    assert err.count("\n") == 1


def test_training_for_no_time_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundled().save(tmp_path / "graph")
    for flag in ("--steps", "--minutes"):
        arguments = ["train", str(tmp_path / "graph"), "--model", "betae", flag, "0", "-o", str(tmp_path / "m")]
        assert main(arguments) == 1
        assert capsys.readouterr().err == f"error: {flag} is 0; it must be more\n"
    assert not (tmp_path / "m").exists()


def test_over_http(made: Path) -> None:
    pytest.importorskip("uvicorn", reason="the server is an extra")
    from tuplet.query.limits import NO_DEADLINE
    from tuplet.server.limits import ServerLimits, problem
    from tuplet.server.metrics import ServerMetrics
    from tuplet.server.models import AskRequest
    from tuplet.server.service import Service

    store = tuplet.open(made / "store")
    service = Service({"world": store}, ServerLimits(), ServerMetrics())
    assert {"fit", "qto", "cqd"} <= set(service.engines(store))
    assert not {"lmpnn", "betae", "logice", "cone"} & set(service.engines(store))
    answers = service.answer(AskRequest(query=QUERY, engine="fit", options={"most": 3}), NO_DEADLINE)
    assert answers.about["options"] == {"most": 3}
    with pytest.raises(tuplet.TupletError, match="option 'model' is not taken over HTTP"):
        service.answer(AskRequest(query=QUERY, engine="cqd", options={"model": "/etc/passwd"}), NO_DEADLINE)
    with pytest.raises(tuplet.TupletError) as refused:
        service.answer(AskRequest(query=TRIANGLE, engine="qto"), NO_DEADLINE)
    status, body = problem(refused.value)
    assert (status, body["kind"]) == (400, "unsupported")
    assert "position" not in body
