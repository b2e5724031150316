"""Reads the query files of BetaE, which are pickles, without trusting them: only plain containers are let in."""

from __future__ import annotations

import os
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from tuplet.errors import BadInput
from tuplet.lab.bench.queries import BenchQuery, QuerySet, efok_text
from tuplet.lab.bench.shapes import Role, Symbol, shape

# Where each symbol of a shape stands in the nested tuple; "n" is -2 (negation), "u" is -1 (union).
_MARKS = ("n", "u")
_WRITTEN = {Role.CONSTANT: "e", Role.RELATION: "r"}  # what BetaE writes in the structure
_TEMPLATES: dict[str, Any] = {
    "1p": ("s1", ("r1",)),
    "2p": ("s1", ("r1", "r2")),
    "3p": ("s1", ("r1", "r2", "r3")),
    "2i": (("s1", ("r1",)), ("s2", ("r2",))),
    "3i": (("s1", ("r1",)), ("s2", ("r2",)), ("s3", ("r3",))),
    "ip": ((("s1", ("r1",)), ("s2", ("r2",))), ("r3",)),
    "pi": (("s1", ("r1", "r2")), ("s2", ("r3",))),
    "2u": (("s1", ("r1",)), ("s2", ("r2",)), ("u",)),
    "up": ((("s1", ("r1",)), ("s2", ("r2",)), ("u",)), ("r3",)),
    "2in": (("s1", ("r1",)), ("s2", ("r2", "n"))),
    "3in": (("s1", ("r1",)), ("s2", ("r2",)), ("s3", ("r3", "n"))),
    "inp": ((("s1", ("r1",)), ("s2", ("r2", "n"))), ("r3",)),
    "pin": (("s1", ("r1", "r2")), ("s2", ("r3", "n"))),
    "pni": (("s1", ("r1", "r2", "n")), ("s2", ("r3",))),
}


class _PlainUnpickler(pickle.Unpickler):
    """Loads tuples, numbers, strings, lists, dicts and sets; anything else is refused before it can run."""

    def find_class(self, module: str, name: str) -> Any:
        allowed: dict[tuple[str, str], Any] = {
            ("builtins", "set"): set,
            ("builtins", "frozenset"): frozenset,
            ("__builtin__", "set"): set,
            ("collections", "defaultdict"): defaultdict,
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"it holds {module}.{name}, which is not data")
        return allowed[module, name]


def read_betae(folder: str | os.PathLike[str], split: str = "test", most: int | None = None) -> QuerySet:
    """Read `<split>-queries.pkl` and its easy and hard answers; at most `most` queries of a type, in sorted order."""
    base = Path(folder)
    queries = _load(base / f"{split}-queries.pkl")
    easy, hard = (_load(base / f"{split}-{kind}-answers.pkl") for kind in ("easy", "hard"))
    by_type: dict[str, list[Any]] = {}
    unknown = []
    for structure, members in queries.items():
        name = next((n for n, template in _TEMPLATES.items() if _structure(template) == structure), None)
        if name is None:
            unknown.append(repr(structure))
            continue
        by_type[name] = sorted(members)[:most]
    found = []
    for name in (n for n in _TEMPLATES if n in by_type):
        named = shape(name)
        formula = efok_text(named.clauses)
        for index, query in enumerate(by_type[name]):
            grounding: dict[str, int] = {}
            _match(_TEMPLATES[name], query, grounding)
            known, new = (np.array(sorted(part.get(query, ())), dtype=np.int32)[:, None] for part in (easy, hard))
            found.append(BenchQuery(name, formula, grounding, known, new, index))
    return QuerySet(tuple(found), {"source": f"BetaE {base.name} {split}", "types_not_read": sorted(unknown)})


def _load(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file).load()
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except (pickle.UnpicklingError, EOFError, ValueError, AttributeError, IndexError, KeyError, TypeError) as error:
        raise BadInput(f"{path} is not a BetaE file: {error}") from None


def _structure(template: Any) -> Any:
    """The structure BetaE writes for a template: ('e', ('r',)) and so on."""
    if isinstance(template, tuple):
        return tuple(_structure(part) for part in template)
    return template if template in _MARKS else _WRITTEN[Symbol(template).role]


def _match(template: Any, query: Any, grounding: dict[str, int]) -> None:
    if isinstance(template, tuple):
        if not isinstance(query, tuple) or len(query) != len(template):
            raise BadInput(f"the BetaE query {query!r} does not fit its structure")
        for part, value in zip(template, query, strict=True):
            _match(part, value, grounding)
    elif template not in _MARKS:
        grounding[template] = int(query)
