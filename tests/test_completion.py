"""What the shells offer: the scripts are run by the shells themselves, where these are installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tuplet.cli.commands import commands, parser
from tuplet.cli.completion import script

BASH = """
offers() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _tuplet; echo "${COMPREPLY[*]}"; }
offers tuplet in; offers tuplet ask s --format ''; offers tuplet bench r; offers tuplet build x -o ''
offers tuplet completion ''
"""
STUBS = 'compdef() { :; }; compadd() { shift; print -r -- "$@"; }; _files() { print files; }'
ZSH = """
offers() { words=("$@"); CURRENT=$#; PREFIX=$words[-1]; _tuplet; }
offers tuplet ask s --format ''; offers tuplet ask s -o ''
"""
FISH = 'complete -C "tuplet in"; complete -C "tuplet ask s --format "; complete -C "tuplet bench r"'


def said(shell: str, more: str, before: str = "") -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    text = f"{before}\n{script(shell, parser())}\n{more}"
    options = ["--norc"] if shell == "bash" else ["-f"] if shell == "zsh" else ["--no-config"]
    done = subprocess.run([shell, *options], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_bash() -> None:
    lines = said("bash", BASH)
    assert lines == ["info index", "table json csv parquet", "run report reliability", "", "bash zsh fish -h --help"]


def test_zsh() -> None:
    assert said("zsh", ZSH, before=STUBS) == ["table json csv parquet", "files", "files"]


def test_fish() -> None:
    words = [line.split("\t")[0] for line in said("fish", FISH)]
    assert words == ["index", "info", "csv", "json", "parquet", "table", "reliability", "report", "run"]


def test_every_command_is_on_the_page_of_help() -> None:
    text = parser().format_help()
    assert all(f"\n  {name} " in text for name in commands())
    assert len(text.splitlines()) < 60
