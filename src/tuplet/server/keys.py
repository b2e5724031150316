"""API keys: made here, shown once, kept as hashes; each says what it opens and how long.

A key is 256 random bits, so one round of SHA-256 protects it at rest: there is no dictionary to try. The key file has
one line per key; lines that begin with # are comments:

    name:hash scopes=read,write stores=world,people expires=2027-01-01
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from time import monotonic
from typing import Literal, TypeAlias, cast, get_args

from tuplet.errors import BadInput, TupletError, unknown

KeyScope: TypeAlias = Literal["read", "write", "admin"]
SCOPES: tuple[KeyScope, ...] = get_args(KeyScope)
LOOK = 1.0  # seconds between two looks at the key file
log = logging.getLogger("tuplet.server")


class KeyRefused(TupletError):
    """A key without the scope or store that it was used for."""


@dataclass(frozen=True)
class KeyOwner:
    """Whose a key is, and what it opens: asking is `read`, changing facts `write`, looking after the server `admin`.

    >>> anna = KeyOwner("anna", frozenset({"read"}), frozenset({"world"}), date(2027, 1, 1))
    >>> anna.may("read"), anna.may("write"), anna.sees("world"), anna.sees("people")
    (True, False, True, False)
    >>> anna.expired(date(2026, 12, 31)), anna.expired(date(2027, 1, 1))
    (False, True)
    """

    name: str
    scopes: frozenset[KeyScope] = frozenset({"read"})
    stores: frozenset[str] | None = None  # None: all
    expires: date | None = None  # from this day on, in UTC, the key opens nothing

    def may(self, *scopes: KeyScope) -> bool:
        return not self.scopes.isdisjoint(scopes)

    def sees(self, store: str) -> bool:
        return self.stores is None or store in self.stores

    def expired(self, today: date | None = None) -> bool:
        return self.expires is not None and (today or datetime.now(UTC).date()) >= self.expires

    @staticmethod
    def from_words(name: str, fields: Iterable[str]) -> KeyOwner:
        """From a name and words such as `stores=world,people`.

        >>> KeyOwner.from_words("anna", ["expires=2027-01-01"]).expires
        datetime.date(2027, 1, 1)
        >>> KeyOwner.from_words("anna", ["scopes=raed"])
        Traceback (most recent call last):
        tuplet.errors.UnknownName: unknown scope 'raed'; did you mean 'read'?
        """
        scopes: Iterable[str] = ("read",)
        stores: frozenset[str] | None = None
        expires: date | None = None
        for field in fields:
            word, _, value = field.partition("=")
            values = [part for part in value.split(",") if part]
            if not values:
                raise BadInput(f"{field!r} of key {name!r} has no value")
            if word == "scopes":
                scopes = values
            elif word == "stores":
                stores = frozenset(values)
            elif word == "expires":
                try:
                    expires = date.fromisoformat(value)
                except ValueError:
                    raise BadInput(f"a key expires on a day such as 2027-01-01, not {value!r}") from None
            else:
                raise unknown("field of a key", word, ("scopes", "stores", "expires"))
        for scope in scopes:
            if scope not in SCOPES:
                raise unknown("scope", scope, SCOPES)
        return KeyOwner(name, frozenset(cast(Iterable[KeyScope], scopes)), stores, expires)

    def words(self) -> str:
        """The inverse of `from_words`; defaults are left out."""
        words = []
        if self.scopes != {"read"}:
            words.append(f"scopes={','.join(scope for scope in SCOPES if scope in self.scopes)}")
        if self.stores is not None:
            words.append(f"stores={','.join(sorted(self.stores))}")
        if self.expires is not None:
            words.append(f"expires={self.expires}")
        return "".join(f" {word}" for word in words)


class KeyFile:
    """The keys of a file as it is now: it is looked at again when somebody asks, at most once a second.

    A hash is looked up, not compared with each: how long that takes may tell something of the hash of a guess, which is
    of no use to whoever does not know a key that has this hash.
    """

    def __init__(self, path: str | os.PathLike[str], strict: bool = False) -> None:
        """`strict`, for the start of a server: a line that is wrong is an error, and so is a file without keys."""
        self.path = Path(path)
        self.owners: Mapping[str, KeyOwner] = {}  # by hash
        self._seen: tuple[int, ...] | None = ()
        if strict:
            self.owners, wrong = _read(path)
            if wrong:
                raise BadInput(wrong[0])
            if not self.owners:
                raise BadInput(
                    f"the key file {path} has no key; `tuplet serve --new-key NAME --api-key-file {path}` adds one"
                )
        self.refresh()

    def owner(self, key: str) -> KeyOwner | None:
        """The owner of a key, perhaps expired; None of an unknown one."""
        if monotonic() >= self._next:
            self.refresh()
        return self.owners.get(hash_of(key))

    def refresh(self) -> None:
        """Read the file again if it has changed.

        A line that is wrong opens nothing and is logged, so that a key that was withdrawn beside it is withdrawn. A
        file that cannot be read leaves everything as it was.
        """
        self._next = monotonic() + LOOK
        state = stamp_file(self.path)
        if state == self._seen:
            return
        first, self._seen = self._seen == (), state
        try:
            self.owners, wrong = _read(self.path)
        except BadInput as error:
            log.warning("%s; the keys stay as they were", error)
            return
        for line in wrong:
            log.warning("%s; the line is left out", line)
        if not first:
            log.info("%s was read again: %d keys", self.path, len(self.owners))

    def warning(self) -> str | None:
        """What is wrong with who may read the file.

        The hashes give no key away, but whoever may write the file can let anybody in.
        """
        if os.name != "posix":
            return None
        mode = self.path.stat().st_mode & 0o777
        return f"others may open the key file {self.path} (mode {mode:04o}): chmod 600" if mode & 0o077 else None


def stamp_file(path: Path) -> tuple[int, ...] | None:
    """A value that changes when a file does; None of a file that is not there."""
    with suppress(OSError):
        found = path.stat()
        return found.st_mtime_ns, found.st_ino, found.st_size
    return None


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, KeyOwner], list[str]]:
    """The keys of a file, and errors of its lines."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the key file {path}: {getattr(error, 'strerror', None) or error}") from None
    owners: dict[str, KeyOwner] = {}
    wrong: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        first, *fields = line.split()
        name, _, digest = first.rpartition(":")
        if not name or not re.fullmatch(r"[0-9a-f]{64}", digest):
            wrong.append(f"{path}:{number}: expected name:hash, as `tuplet serve --new-key` writes it")
            continue
        try:
            owners[digest] = KeyOwner.from_words(name, fields)
        except BadInput as error:
            wrong.append(f"{path}:{number}: {error}")
    return owners, wrong


def hash_of(key: str) -> str:
    """The hash that is stored instead of a key."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def add_key(path: str | os.PathLike[str], name: str, fields: Iterable[str] = ()) -> str:
    """Make a key, append its hash to the file (readable by its owner only) and return the key."""
    if not re.fullmatch(r"[\w.@-]{1,64}", name):
        raise BadInput(f"a key is named with letters, digits and . @ _ -, not {name!r}")
    owner = KeyOwner.from_words(name, fields)
    target = Path(path)
    known = target.read_text(encoding="utf-8") if target.exists() else ""
    if any(line.startswith(f"{name}:") for line in known.splitlines()):
        raise BadInput(f"{path} has a key named {name!r} already; remove its line to replace it")
    key = f"tup_{secrets.token_urlsafe(32)}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="utf-8") as file:
            before = "\n" if known and not known.endswith("\n") else ""
            file.write(f"{before}{name}:{hash_of(key)}{owner.words()}\n")
    except OSError as error:
        raise BadInput(f"cannot write the key file {path}: {error.strerror}") from None
    return key
