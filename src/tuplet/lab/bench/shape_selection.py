"""What `--shapes` means: names, and selections of families and enumerated types.

A list is separated by commas. An item is a name (`2fp`, `1p`), a set (`paper14`, `betae14`, or `tuple-h`, which is both
and the families with four and five free variables), a family `joint:k=4` (the
seven kinds p, pm, pn, d, dm, c, cn with that many free variables), or an enumeration `published741` or `complete`.
Conditions follow a colon, and further ones a comma: `published741:k=2,c=2` are its types with two free variables and
two constants. They are k (free variables), e (existential variables), c (constants), n (negated atoms), t (topology:
S tree, M with a doubled edge, C cyclic).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tuplet.errors import BadInput, UnknownName, unknown
from tuplet.lab.bench.query_types import PROFILES, QueryType, types
from tuplet.lab.bench.shapes import BETAE, JOINT, KINDS, QueryShape, shape

SETS: Mapping[str, Sequence[str]] = {
    "paper14": JOINT,
    "betae14": BETAE,
    "tuple-h": (*BETAE, *JOINT, *(f"{k}f{kind}" for k in (4, 5) for kind in KINDS)),
}
_OF: Mapping[str, Callable[[QueryType], str]] = {
    "k": lambda t: str(t.f_num),
    "e": lambda t: str(t.e_num),
    "c": lambda t: str(t.c_num),
    "n": lambda t: str(t.negations),
    "t": lambda t: t.topology,
}


def select(text: str) -> list[QueryShape]:
    """The shapes that a list names, in its order.

    >>> [s.name for s in select("2fp,joint:k=4")]
    ['2fp', '4fpn', '4fp', '4fpm', '4fd', '4fdm', '4fcn', '4fc']
    >>> len(select("published741:k=2,c=2")), len(select("paper14,betae14"))
    (282, 28)
    """
    items: list[tuple[str, dict[str, str]]] = []
    for part in text.split(","):
        name, _, condition = part.strip().partition(":")
        if "=" in name and items and items[-1][1]:
            name, condition = "", name  # a further condition of the item before
        if name:
            items.append((name, {}))
        if condition:
            key, sign, value = condition.partition("=")
            if not sign or not value:
                raise BadInput(f"a condition is written key=value, not {condition!r} (in --shapes {text})")
            items[-1][1][key.strip()] = value.strip()
        elif not name or part.strip().endswith(":"):
            raise BadInput(f"--shapes {text!r} has an empty item")
    return [found for name, conditions in items for found in _item(name, conditions)]


def _item(name: str, conditions: Mapping[str, str]) -> list[QueryShape]:
    if name in PROFILES:
        return _enumerated(name, conditions)
    if name == "joint":
        k = conditions.get("k", "")
        if set(conditions) != {"k"} or not k.isdecimal():
            raise BadInput("the family is written joint:k=4, for any k from 2 on")
        return [shape(f"{int(k)}f{kind}") for kind in KINDS]
    if conditions:
        raise unknown("shape", name, ("joint", *PROFILES), note="takes no conditions")
    if name in SETS:
        return [shape(member) for member in SETS[name]]
    try:
        return [shape(name)]
    except UnknownName:
        raise unknown("shape", name, (*SETS, *PROFILES, *JOINT, *BETAE)) from None


def _enumerated(profile: str, conditions: Mapping[str, str]) -> list[QueryShape]:
    for key in conditions:
        if key not in _OF:
            raise unknown("condition", key, _OF)
    kept = [t for t in types(profile) if all(_OF[key](t) == value for key, value in conditions.items())]
    if not kept:
        shown = ",".join(f"{key}={value}" for key, value in conditions.items())
        raise BadInput(f"no type of {profile} has {shown}")
    return [t.shape for t in kept]
