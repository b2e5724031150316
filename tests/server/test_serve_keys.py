"""Keys in their file: what they open, how long, and what happens when the file changes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tuplet.cli import main
from tuplet.errors import BadInput
from tuplet.server import keys
from tuplet.server.keys import KeyFile, KeyOwner, add_key, hash_of


def test_a_new_key_says_what_it_opens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "serve --scope read,write --stores world,people --expires 2999-01-01 --new-key anna --api-key-file"
    assert main([*words.split(), str(tmp_path / "keys")]) == 0
    key = capsys.readouterr().out.strip()
    anna = KeyFile(tmp_path / "keys", strict=True).owner(key)
    assert anna == KeyOwner.from_words("anna", ["scopes=write,read", "stores=people,world", "expires=2999-01-01"])
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    assert key not in (tmp_path / "keys").read_text()
    for wrong in ("--scope raed", "--expires 01.01.2999", "--expires 2020-02-29", "--stores ,"):
        assert main(["serve", *wrong.split(), "--new-key", "bob", "--api-key-file", str(tmp_path / "keys")]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert len((tmp_path / "keys").read_text().splitlines()) == 1


def test_a_line_as_it_was_before_reads_all_stores_for_ever(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"# ours\n\nold:{hash_of('tup_old')}")  # no end of line
    new = add_key(tmp_path / "keys", "new", ["scopes=admin"])
    found = KeyFile(tmp_path / "keys", strict=True)
    old = found.owner("tup_old")
    assert old is not None
    assert (old.may("read"), old.may("write", "admin"), old.sees("any"), old.expired()) == (True, False, True, False)
    assert found.owner(new) == KeyOwner("new", frozenset({"admin"}))


def test_a_wrong_line_is_an_error_at_the_start(tmp_path: Path) -> None:
    for line, said in (
        ("anna", "expected name:hash"),
        (f"anna:{'0' * 64} scope=read", "did you mean 'scopes'"),
        (f"anna:{'0' * 64} expires=soon", "expires on a day such as"),
    ):
        (tmp_path / "keys").write_text(line)
        with pytest.raises(BadInput, match=f"keys:1: .*{said}"):
            KeyFile(tmp_path / "keys", strict=True)


def test_a_changed_file_is_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "LOOK", 0.0)
    path = tmp_path / "keys"
    anna = add_key(path, "anna")
    file = KeyFile(path)
    assert file.warning() is None
    bob = add_key(path, "bob", ["scopes=write"])
    assert [owner and owner.name for owner in map(file.owner, (anna, bob))] == ["anna", "bob"]
    # a wrong line does not keep a key alive that was taken out beside it
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "bob" in line) + "eve:oops\n")
    assert [owner and owner.name for owner in map(file.owner, (anna, bob))] == [None, "bob"]
    assert "keys:2: expected name:hash" in caplog.text
    assert [owner and owner.name for owner in map(KeyFile(path).owner, (anna, bob))] == [None, "bob"]  # a new worker
    path.unlink()
    assert file.owner(bob) is not None
    assert caplog.records[-1].levelno == logging.WARNING
    path.write_text("")
    assert file.owner(bob) is None
    path.chmod(0o644)
    assert "mode 0644" in str(file.warning())
