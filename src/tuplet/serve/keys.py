"""API keys: made here, shown once, kept as hashes, compared in constant time.

A key is 256 random bits, so one round of SHA-256 protects it at rest: there is no dictionary to try. The key file has
one line per key, `name:hash`; lines that begin with # are comments.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from tuplet.errors import BadInput

PREFIX = "tup_"


@dataclass(frozen=True)
class Keys:
    """The keys that open a server.

    >>> key = new_key()
    >>> keys = Keys({"anna": hash_of(key)})
    >>> keys.owner(key), keys.owner("tup_wrong"), keys.owner("")
    ('anna', None, None)
    """

    hashes: dict[str, str]

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Keys:
        """The keys of a file."""
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot read the key file {path}: {getattr(error, 'strerror', None) or error}") from None
        hashes: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, _, digest = line.strip().rpartition(":")
            if not name or not re.fullmatch(r"[0-9a-f]{64}", digest):
                raise BadInput(f"{path}:{number}: expected name:hash, as `tuplet serve --new-key` writes it")
            hashes[name] = digest
        if not hashes:
            raise BadInput(
                f"the key file {path} has no key; `tuplet serve --new-key NAME --api-key-file {path}` adds one"
            )
        return Keys(hashes)

    def owner(self, key: str) -> str | None:
        """Whose key it is; every key is compared, so the time does not tell how near a guess was."""
        given = hash_of(key)
        found = None
        for name, digest in self.hashes.items():
            if hmac.compare_digest(given, digest):
                found = name
        return found


def new_key() -> str:
    """A fresh random key."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_of(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def add_key(path: str | os.PathLike[str], name: str) -> str:
    """Make a key, append its hash to the file (readable by its owner only) and return the key."""
    if not re.fullmatch(r"[\w.@-]{1,64}", name):
        raise BadInput(f"a key is named with letters, digits and . @ _ -, not {name!r}")
    target = Path(path)
    if target.exists() and any(line.startswith(f"{name}:") for line in target.read_text(encoding="utf-8").splitlines()):
        raise BadInput(f"{path} has a key named {name!r} already; remove its line to replace it")
    key = new_key()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="utf-8") as file:
            file.write(f"{name}:{hash_of(key)}\n")
    except OSError as error:
        raise BadInput(f"cannot write the key file {path}: {error.strerror}") from None
    return key
