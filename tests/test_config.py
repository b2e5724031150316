"""Settings: one place for every knob, and a clear word for every wrong one."""

from __future__ import annotations

import argparse
from typing import get_type_hints

import pytest

from tuplet.errors import BadInput, TupletError
from tuplet.predict.config import PRESETS, TrainConfig, TrainFields, preset
from tuplet.settings import changed, flags, from_mapping, given, load, to_mapping, types


def test_round_trip() -> None:
    for settings in PRESETS.values():
        assert from_mapping(TrainConfig, to_mapping(settings)) == settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epoch": 3}, "unknown key 'epoch'; did you mean 'epochs'"),
        ({"xyzzy": 3}, "unknown key 'xyzzy'; choose one of model, rank"),
        ({"rank": "8"}, "rank must be a whole number, not '8'"),
        ({"rank": True}, "rank must be a whole number, not True"),
        ({"rank": 0}, "rank is 0; it must be at least 1"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"learning_rate": float("inf")}, "learning_rate is inf; that is too large"),
        ({"optimizer": "sgd"}, "optimizer is 'sgd'; choose one of adagrad, adam"),
    ],
)
def test_wrong_settings(values, message) -> None:
    with pytest.raises(BadInput, match=message):
        from_mapping(TrainConfig, values)


def test_changed_keeps_what_is_not_given() -> None:
    assert (
        changed(PRESETS["wn18rr"], {"rank": 7, "epochs": None, "learning_rate": 1}).epochs == PRESETS["wn18rr"].epochs
    )
    assert changed(TrainConfig(), {"learning_rate": 1}).learning_rate == 1.0


def test_files(tmp_path) -> None:
    (tmp_path / "a.toml").write_text("rank = 8\nmodel = 'transe'\n")
    (tmp_path / "a.json").write_text('{"rank": 8, "model": "transe"}')
    assert load(TrainConfig, tmp_path / "a.toml") == load(TrainConfig, tmp_path / "a.json")
    (tmp_path / "b.toml").write_text("rank = \n")
    with pytest.raises(BadInput, match=r"b\.toml: cannot read settings"):
        load(TrainConfig, tmp_path / "b.toml")
    (tmp_path / "c.json").write_text('{"rnak": 8}')
    with pytest.raises(BadInput, match=r"c\.json: unknown key 'rnak'; did you mean 'rank'"):
        load(TrainConfig, tmp_path / "c.json")


def test_unknown_preset() -> None:
    with pytest.raises(TupletError, match="did you mean 'fb15k-237'"):
        preset("fb15k237")


def test_one_declaration_makes_flags() -> None:
    from tuplet.query.limits import Limits

    parser = argparse.ArgumentParser()
    flags(parser, Limits)
    typed = [
        "-k",
        "all",
        "--timeout",
        "2",
        "--memory",
        "2G",
        "--offset",
        "3",
        "--only",
        "predicted",
        "--option",
        "most=3",
        "--option",
        "mode=paper",
    ]
    assert given(parser.parse_args(typed), Limits) == {
        "k": "all",
        "timeout": 2.0,
        "memory": 2**31,
        "offset": 3,
        "only": "predicted",
        "options": {"most": "3", "mode": "paper"},
    }
    assert given(parser.parse_args([]), Limits) == {}, "what is not given keeps its default"
    for wrong, message in (
        (["--timeout", "soon"], "--timeout must be a number, not 'soon'"),
        (["--memory", "much"], "--memory takes bytes, such as 512M or 2G, not 'much'"),
        (["-k", "2.5"], "-k must be a whole number or 'all', not '2.5'"),
        (["--option", "most"], "--option takes KEY=VALUE"),
        (["--option", "a=1", "--option", "a=2"], "--option a is given twice"),
    ):
        with pytest.raises(BadInput, match=message):
            given(parser.parse_args(wrong), Limits)


@pytest.mark.parametrize("kind", [(TrainConfig, TrainFields)])
def test_keywords_are_the_knobs(kind) -> None:
    settings, keywords = kind
    assert get_type_hints(keywords) == types(settings)
