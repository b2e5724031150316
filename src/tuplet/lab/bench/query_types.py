"""Which shapes there are: all EFO_k query types within limits, each once, in canonical form; and what `--shapes` names.

A type is a connected graph of free (`f`) and existential (`e`) variables with constants (`s`) hanging on them by one
edge each. Directions carry no information, since a relation may be walked both ways: an edge is written from the term
with the smaller key (s before e before f, then by number). A type is kept if

1. every node is at most `distance` edges from a free variable;
2. without the free variables, in every part that has no constant each existential variable touches a free one: nothing
   dangles deeper than that;
3. without its negated edges every variable still has an edge and a constant still reaches a free variable.

Two profiles share these rules. `complete` gives every type once: 1,907 with the default limits. `published741` gives
the list that the EFOk-CQA benchmark was made from, gaps and repetitions included:

- variable graphs are built from partitions: the edges (apart from the one between two free variables, which is there
  or not) are dealt out to e1, e2, … in non-increasing numbers, and each takes the *first* ones of its possible
  partners (later existential variables, then free ones); no other choice is tried;
- of the placements of the negation only the first is kept, edges in order of e1, e2, …, f1, …, and at each of them
  partners e, f, s;
- graphs that are equal up to names are merged only if they come from the same partition.

So it has 741 entries, of which 552 differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, combinations_with_replacement, permutations, product
from typing import Any, TypeAlias

from tuplet.errors import BadInput, UnknownName, unknown
from tuplet.lab.bench.shapes import BETAE, JOINT, KINDS, QueryShape, numbered_edges, shape

Node: TypeAlias = tuple[int, int]  # kind and number: nodes ascend in the order of the keys
Pair: TypeAlias = tuple[Node, Node]
Signed: TypeAlias = tuple[Node, Node, bool]  # head, tail, negated
PROFILES = ("complete", "published741")
_LETTERS = "sef"  # of the kinds
_CONSTANT, _EXISTS, _FREE = range(3)


@dataclass(frozen=True)
class TypeLimits:
    """How large types may be; the defaults are those of EFOk-CQA."""

    free: int = 2
    exists: int = 2
    constants: int = 3
    surplus: int = 1  # edges between variables beyond a tree: cycles and doubled edges
    variable_edges: int = 4
    edges: int = 6
    nodes: int = 6
    distance: int = 3
    negations: int = 1


def types(profile: str = "complete", **limits: int) -> tuple[QueryShape, ...]:
    """All types of a profile; the limits are the fields of `TypeLimits`.

    >>> [t.formula for t in types(free=1, exists=1, constants=1, surplus=0)]
    ['r1(s1,f1)', '(r1(s1,e1))&(r2(e1,f1))', '(r1(s1,f1))&(r2(e1,f1))']
    >>> len(types()), len(types("published741"))
    (1907, 741)
    """
    if profile not in PROFILES:
        raise unknown("profile", profile, PROFILES)
    for key in limits:
        if key not in TypeLimits.__dataclass_fields__:
            raise unknown("limit", key, TypeLimits.__dataclass_fields__)
    return _types(profile, TypeLimits(**limits))


@cache
def _types(profile: str, limits: TypeLimits) -> tuple[QueryShape, ...]:
    if profile == "complete":
        # The same graph may be reached in several ways; a dictionary keeps the first.
        found = dict.fromkeys(form for size in _sizes(limits) for form in _list_complete(*size, limits))
        forms: Iterable[tuple[Signed, ...]] = sorted(found, key=_order)
    else:
        forms = [form for size in _sizes(limits) for form in _list_published(*size, limits)]
    written = ([(f"{_LETTERS[a[0]]}{a[1]}", f"{_LETTERS[b[0]]}{b[1]}", no) for a, b, no in form] for form in forms)
    return tuple(QueryShape(f"type{n:04d}", (numbered_edges(edges),)) for n, edges in enumerate(written))


def canonical(edges: Iterable[Signed]) -> tuple[Signed, ...]:
    """The smallest of all sorted edge lists that differ only in the numbers within s, e and f.

    >>> s1, e1, f1, f2 = (0, 1), (1, 1), (2, 1), (2, 2)
    >>> canonical([(f2, e1, False), (s1, f2, False), (e1, f1, True)])
    (((0, 1), (2, 1), False), ((1, 1), (2, 1), False), ((1, 1), (2, 2), True))
    """
    listed = list(edges)
    nodes = {node for edge in listed for node in edge[:2]}
    best: list[Signed] | None = None
    for orders in product(permutations(sorted(_pick(nodes, _EXISTS))), permutations(sorted(_pick(nodes, _FREE)))):
        named = {n: (n[0], i) for order in orders for i, n in enumerate(order, start=1)}
        # A constant has one edge, so the best order of constants is that of their sorted edges.
        ends = (sorted(named.get(n, (_CONSTANT, 0)) for n in edge[:2]) for edge in listed)
        written = sorted((low, high, edge[2]) for (low, high), edge in zip(ends, listed, strict=True))
        if best is None or written < best:
            best = written
    assert best is not None
    # Edges of constants come first.
    return tuple(
        ((_CONSTANT, i) if low[0] == _CONSTANT else low, high, no) for i, (low, high, no) in enumerate(best, 1)
    )


def _pick(nodes: Iterable[Node], kind: int) -> list[Node]:
    return [node for node in nodes if node[0] == kind]


def _sizes(limits: TypeLimits) -> Iterator[tuple[int, int, int, int]]:
    """Numbers of free variables, existential variables, constants, and surplus edges."""
    sizes = product(
        range(1, limits.free + 1),
        range(limits.exists + 1),
        range(1, limits.constants + 1),
        range(limits.surplus + 1),
    )
    for f, e, c, surplus in sizes:
        between = surplus + e + f - 1
        if between <= limits.variable_edges and between + c <= limits.edges and e + f + c <= limits.nodes:
            yield f, e, c, surplus


def _variables(f: int, e: int) -> list[Node]:
    return [(kind, number) for kind, size in ((_EXISTS, e), (_FREE, f)) for number in range(1, size + 1)]


def _list_complete(f: int, e: int, c: int, surplus: int, limits: TypeLimits) -> Iterator[tuple[Signed, ...]]:
    variables = _variables(f, e)
    for doubled in range(surplus + 1):
        for simple in combinations(list(combinations(variables, 2)), surplus - doubled + e + f - 1):
            if _connected(variables, simple):
                for edges in _add_edges(variables, simple, doubled, c, limits):
                    for signs in _negations(variables, edges, limits.negations):
                        yield canonical((a, b, i in signs) for i, (a, b) in enumerate(edges))


def _list_published(f: int, e: int, c: int, surplus: int, limits: TypeLimits) -> Iterator[tuple[Signed, ...]]:
    variables = _variables(f, e)
    for doubled in range(surplus + 1):
        for simple in _deal_edges(f, e, surplus - doubled + e + f - 1):
            if not _connected(variables, simple):
                continue
            met = set()
            for edges in _add_edges(variables, simple, doubled, c, limits):
                form = canonical((a, b, False) for a, b in edges)
                if form in met:
                    continue
                met.add(form)
                yield form
                ordered = sorted(edges, key=_by_variable)
                signs = [s for s in _negations(variables, ordered, min(1, limits.negations)) if s]
                if signs:
                    yield canonical((a, b, i in signs[0]) for i, (a, b) in enumerate(ordered))


def _by_variable(edge: Pair) -> Pair:
    """Edges of e1, e2, …, f1, …; at each of them its partners e, f, s."""
    a, b = edge[::-1] if edge[0][0] == _CONSTANT else edge
    return a, (3, 0) if b[0] == _CONSTANT else b


def _deal_edges(f: int, e: int, count: int) -> Iterator[list[Pair]]:
    """Variable graphs of `count` edges from partitions, first choices only."""
    variables = _variables(f, e)
    free_edges: list[list[Pair]] = [[]] if f < 2 else [[], [((_FREE, 1), (_FREE, 2))]]
    for joined in free_edges:
        for shares in combinations_with_replacement(range(count, -1, -1), e):
            fits = all(share < len(variables) - i for i, share in enumerate(shares))
            if fits and sum(shares) == count - len(joined):
                dealt = [(variables[i], b) for i, share in enumerate(shares) for b in variables[i + 1 : i + 1 + share]]
                yield dealt + joined


def _add_edges(
    variables: list[Node], simple: Iterable[Pair], doubled: int, constants: int, limits: TypeLimits
) -> Iterator[list[Pair]]:
    """The graph with some edges doubled and constants attached, if rules 1 and 2 hold."""
    simple = list(simple)
    for twice in combinations(simple, doubled):
        for ends in combinations_with_replacement(variables, constants):
            attached = [((_CONSTANT, i), end) for i, end in enumerate(ends, start=1)]
            edges = [*simple, *twice, *attached]
            if _near(edges, limits.distance) and not _dangling(edges):
                yield edges


def _negations(variables: list[Node], edges: list[Pair], most: int) -> Iterator[frozenset[int]]:
    """Sets of edges that may be negated, the empty one first (rule 3)."""
    for number in range(most + 1):
        for chosen in combinations(range(len(edges)), number):
            rest = [edge for i, edge in enumerate(edges) if i not in chosen]
            held = {n for edge in rest for n in edge}
            if all(v in held for v in variables) and _pick(_reach(rest, _pick(held, _CONSTANT)), _FREE):
                yield frozenset(chosen)


def _neighbours(edges: Iterable[Pair]) -> dict[Node, set[Node]]:
    near: dict[Node, set[Node]] = {}
    for a, b in edges:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    return near


def _reach(edges: Iterable[Pair], start: Iterable[Node], steps: int = 1 << 30) -> set[Node]:
    near = _neighbours(edges)
    seen, front = set(start), set(start)
    while front and steps:
        front = {b for a in front for b in near.get(a, ())} - seen
        seen |= front
        steps -= 1
    return seen


def _connected(variables: list[Node], edges: Iterable[Pair]) -> bool:
    return len(_reach(edges, variables[:1])) == len(variables)


def _near(edges: list[Pair], distance: int) -> bool:
    nodes = {n for edge in edges for n in edge}
    return nodes == _reach(edges, _pick(nodes, _FREE), distance)


def _dangling(edges: list[Pair]) -> bool:
    near = _neighbours(edges)
    bound = [edge for edge in edges if not _pick(edge, _FREE)]
    with_constant = _reach(bound, _pick(near, _CONSTANT))
    loose = [n for n in _pick(near, _EXISTS) if n not in with_constant]
    return any(all(other[0] == _EXISTS for other in near[n]) for n in loose)


def _order(form: tuple[Signed, ...]) -> tuple[Any, ...]:
    """Small types first, positive before negated."""
    nodes = {n for edge in form for n in edge[:2]}
    sizes = [len(_pick(nodes, role)) for role in (_FREE, _EXISTS, _CONSTANT)]
    return *sizes, len(form), any(negated for *_, negated in form), form


# --- what `--shapes` means ----------------------------------------------------------------------------------------

SETS: Mapping[str, Sequence[str]] = {
    "paper14": JOINT,
    "betae14": BETAE,
    "tuple-h": (*BETAE, *JOINT, *(f"{k}f{kind}" for k in (4, 5) for kind in KINDS)),
}
_OF: Mapping[str, Callable[[QueryShape], str]] = {
    "k": lambda t: str(len(t.free)),
    "e": lambda t: str(len(t.exists)),
    "c": lambda t: str(len(t.constants)),
    "n": lambda t: str(t.negations),
    "t": lambda t: t.topology,
}


def select(text: str) -> list[QueryShape]:
    """The shapes that a list such as `--shapes` names, in its order.

    A list is separated by commas. An item is

    - a name (`2fp`, `1p`), or a family `joint:k=4`: the seven kinds of `shapes.KINDS` with that many free variables;
    - a set: `paper14`, `betae14`, or `tuple-h`, which is both and the families with four and five free variables;
    - an enumeration, `published741` or `complete`. Conditions follow a colon, and further ones a comma:
      `published741:k=2,c=2` are its types with two free variables and two constants. They are k (free variables), e
      (existential variables), c (constants), n (negated atoms), t (topology: S tree, M with a doubled edge, C cyclic).

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
        for key in conditions:
            if key not in _OF:
                raise unknown("condition", key, _OF)
        kept = [t for t in types(name) if all(_OF[key](t) == value for key, value in conditions.items())]
        if not kept:
            shown = ",".join(f"{key}={value}" for key, value in conditions.items())
            raise BadInput(f"no type of {name} has {shown}")
        return kept
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
