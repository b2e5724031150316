"""All EFO_k query types within limits, each once, in canonical form.

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
  or not) are dealt out to e1, e2, … in non-increasing numbers, and each takes the *first* so many of its possible
  partners (later existential variables, then free ones); no other choice is tried;
- of the placements of the negation only the first is kept, edges in order of e1, e2, …, f1, …, and at each of them
  partners e, f, s;
- graphs that are equal up to names are merged only if they come from the same partition.

So it has 741 entries, of which 552 differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, combinations_with_replacement, permutations, product
from typing import Any, TypeAlias

from tuplet.bench.shapes import AbstractEdge, Shape
from tuplet.errors import BadInput, nearest

Pair: TypeAlias = tuple[str, str]
Signed: TypeAlias = tuple[str, str, bool]  # head, tail, negated
PROFILES = ("complete", "published741")


@dataclass(frozen=True)
class Limits:
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


@dataclass(frozen=True)
class QueryType:
    """A query type; `formula` is written as in EFOk-CQA."""

    name: str
    formula: str
    f_num: int
    e_num: int
    c_num: int
    edges: tuple[AbstractEdge, ...]
    cyclic: bool  # the joined pairs of nodes do not form a tree
    multi: bool  # a pair is joined twice

    @property
    def negations(self) -> int:
        return sum(edge.negated for edge in self.edges)

    @property
    def topology(self) -> str:
        """`C` cyclic, `M` with a doubled edge, `S` neither."""
        return "C" if self.cyclic else "M" if self.multi else "S"

    @property
    def shape(self) -> Shape:
        return Shape(self.name, "&".join(map(str, self.edges)), (self.edges,))


def types(profile: str = "complete", **limits: int) -> tuple[QueryType, ...]:
    """All types of a profile; the limits are the fields of `Limits`.

    >>> [t.formula for t in types(free=1, exists=1, constants=1, surplus=0)]
    ['r1(s1,f1)', '(r1(s1,e1))&(r2(e1,f1))', '(r1(s1,f1))&(r2(e1,f1))']
    >>> len(types()), len(types("published741"))
    (1907, 741)
    """
    if profile not in PROFILES:
        close = nearest(profile, PROFILES, 1) or PROFILES
        raise BadInput(f"unknown profile {profile!r}; did you mean {' or '.join(map(repr, close))}?")
    unknown = [key for key in limits if key not in Limits.__dataclass_fields__]
    if unknown:
        close = nearest(unknown[0], Limits.__dataclass_fields__, 1)
        raise BadInput(f"unknown limit {unknown[0]!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
    return _types(profile, Limits(**limits))


@cache
def _types(profile: str, limits: Limits) -> tuple[QueryType, ...]:
    if profile == "complete":
        # The same graph may be reached in several ways; a dictionary keeps the first.
        found = dict.fromkeys(form for size in _sizes(limits) for form in _complete(*size, limits))
        forms: Iterable[tuple[Signed, ...]] = sorted(found, key=_order)
    else:
        forms = [form for size in _sizes(limits) for form in _published(*size, limits)]
    return tuple(_named(number, form) for number, form in enumerate(forms))


def canonical(edges: Iterable[Signed]) -> tuple[Signed, ...]:
    """The smallest of all sorted edge lists that differ only in the names within s, e and f.

    >>> canonical([("f2", "e1", False), ("s1", "f2", False), ("e1", "f1", True)])
    (('s1', 'f1', False), ('e1', 'f1', False), ('e1', 'f2', True))
    """
    listed = list(edges)
    kinds = [sorted({n for edge in listed for n in edge[:2] if n[0] == kind}, key=_key) for kind in "efs"]
    *variables, constants = kinds
    best: list[tuple[tuple[int, int], tuple[int, int], bool]] | None = None
    for orders in product(*(permutations(names) for names in variables)):
        number = {n: i for order in orders for i, n in enumerate(order, start=1)}
        # A constant has one edge, so the best order of constants is that of their sorted edges.
        rank = {n: (_RANK[n[0]], number.get(n, 0)) for n in (*variables[0], *variables[1], *constants)}
        written = []
        for a, b, negated in listed:
            low, high = sorted((rank[a], rank[b]))
            written.append((low, high, negated))
        written.sort()
        if best is None or written < best:
            best = written
    assert best is not None
    result, constant = [], 0
    for low, high, negated in best:
        if low[0] == 0:
            constant += 1
            low = (0, constant)
        result.append((f"{'sef'[low[0]]}{low[1]}", f"{'sef'[high[0]]}{high[1]}", negated))
    return tuple(result)


_RANK = {"s": 0, "e": 1, "f": 2}


def _key(name: str) -> tuple[int, int]:
    return _RANK[name[0]], int(name[1:])


def _sizes(limits: Limits) -> Iterator[tuple[int, int, int, int]]:
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


def _variables(f: int, e: int) -> list[str]:
    return [*(f"e{i}" for i in range(1, e + 1)), *(f"f{i}" for i in range(1, f + 1))]


def _complete(f: int, e: int, c: int, surplus: int, limits: Limits) -> Iterator[tuple[Signed, ...]]:
    variables = _variables(f, e)
    for doubled in range(surplus + 1):
        for simple in combinations(list(combinations(variables, 2)), surplus - doubled + e + f - 1):
            if _connected(variables, simple):
                for edges in _dressed(variables, simple, doubled, c, limits):
                    for signs in _negations(variables, edges, limits.negations):
                        yield canonical((a, b, i in signs) for i, (a, b) in enumerate(edges))


def _published(f: int, e: int, c: int, surplus: int, limits: Limits) -> Iterator[tuple[Signed, ...]]:
    variables = _variables(f, e)
    for doubled in range(surplus + 1):
        for simple in _dealt(f, e, surplus - doubled + e + f - 1):
            if not _connected(variables, simple):
                continue
            met = set()
            for edges in _dressed(variables, simple, doubled, c, limits):
                form = canonical((a, b, False) for a, b in edges)
                if form in met:
                    continue
                met.add(form)
                yield form
                ordered = sorted(edges, key=_by_variable)
                signs = [s for s in _negations(variables, ordered, min(1, limits.negations)) if s]
                if signs:
                    yield canonical((a, b, i in signs[0]) for i, (a, b) in enumerate(ordered))


def _by_variable(edge: Pair) -> tuple[tuple[int, int], tuple[int, int]]:
    """Edges of e1, e2, …, f1, …; at each of them its partners e, f, s."""
    a, b = (edge[1], edge[0]) if edge[0][0] == "s" else edge
    return _key(a), (3, 0) if b[0] == "s" else _key(b)


def _dealt(f: int, e: int, count: int) -> Iterator[list[Pair]]:
    """Variable graphs of `count` edges from partitions, first choices only."""
    variables = _variables(f, e)
    free_edges: list[list[Pair]] = [[]] if f < 2 else [[], [("f1", "f2")]]
    for joined in free_edges:
        for shares in _partitions(count - len(joined), e, count):
            if all(share < len(variables) - i for i, share in enumerate(shares)):
                dealt = [(variables[i], b) for i, share in enumerate(shares) for b in variables[i + 1 : i + 1 + share]]
                yield dealt + joined


def _partitions(total: int, parts: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Ways to write `total` as `parts` non-increasing numbers from 0.

    >>> list(_partitions(3, 2, 3))
    [(3, 0), (2, 1)]
    """
    if not parts:
        if not total:
            yield ()
        return
    for first in range(min(total, largest), -1, -1):
        for rest in _partitions(total - first, parts - 1, first):
            yield first, *rest


def _dressed(
    variables: list[str], simple: Iterable[Pair], doubled: int, constants: int, limits: Limits
) -> Iterator[list[Pair]]:
    """The graph with some edges doubled and constants attached, if rules 1 and 2 hold."""
    simple = list(simple)
    for twice in combinations(simple, doubled):
        for ends in combinations_with_replacement(variables, constants):
            edges = [*simple, *twice, *((f"s{i}", end) for i, end in enumerate(ends, start=1))]
            if _near(edges, limits.distance) and not _dangling(edges):
                yield edges


def _negations(variables: list[str], edges: list[Pair], most: int) -> Iterator[frozenset[int]]:
    """Sets of edges that may be negated, the empty one first (rule 3)."""
    for number in range(most + 1):
        for chosen in combinations(range(len(edges)), number):
            rest = [edge for i, edge in enumerate(edges) if i not in chosen]
            held = {n for edge in rest for n in edge}
            if all(v in held for v in variables) and any(
                n[0] == "f" for n in _reach(rest, [n for n in held if n[0] == "s"])
            ):
                yield frozenset(chosen)


def _neighbours(edges: Iterable[Pair]) -> dict[str, set[str]]:
    near: dict[str, set[str]] = {}
    for a, b in edges:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    return near


def _reach(edges: Iterable[Pair], start: Iterable[str], steps: int = 1 << 30) -> set[str]:
    near = _neighbours(edges)
    seen, front = set(start), set(start)
    while front and steps:
        front = {b for a in front for b in near.get(a, ())} - seen
        seen |= front
        steps -= 1
    return seen


def _connected(variables: list[str], edges: Iterable[Pair]) -> bool:
    return len(_reach(edges, variables[:1])) == len(variables)


def _near(edges: list[Pair], distance: int) -> bool:
    nodes = {n for edge in edges for n in edge}
    return nodes == _reach(edges, [n for n in nodes if n[0] == "f"], distance)


def _dangling(edges: list[Pair]) -> bool:
    near = _neighbours(edges)
    bound = [edge for edge in edges if "f" not in (edge[0][0], edge[1][0])]
    with_constant = _reach(bound, [n for n in near if n[0] == "s"])
    loose = [n for n in near if n[0] == "e" and n not in with_constant]
    return any(all(other[0] == "e" for other in near[n]) for n in loose)


def _order(form: tuple[Signed, ...]) -> tuple[Any, ...]:
    """Small types first, positive before negated."""
    count = _count(form)
    return count["f"], count["e"], count["s"], len(form), any(negated for *_, negated in form), form


def _count(form: tuple[Signed, ...]) -> dict[str, int]:
    nodes = {n for edge in form for n in edge[:2]}
    return {kind: sum(n[0] == kind for n in nodes) for kind in "fes"}


def _named(number: int, form: tuple[Signed, ...]) -> QueryType:
    edges = tuple(AbstractEdge(f"r{i}", *edge) for i, edge in enumerate(form, start=1))
    count = _count(form)
    pairs = {edge[:2] for edge in form}
    return QueryType(
        name=f"type{number:04d}",
        formula=efok_formula(edges),
        f_num=count["f"],
        e_num=count["e"],
        c_num=count["s"],
        edges=edges,
        cyclic=len(pairs) != sum(count.values()) - 1,
        multi=len(pairs) < len(form),
    )


def efok_formula(edges: Iterable[AbstractEdge]) -> str:
    """A conjunction as EFOk-CQA writes it: left-nested, every operand in brackets.

    >>> efok_formula([AbstractEdge("r1", "s1", "f1"), AbstractEdge("r2", "f1", "f2", True)])
    '(r1(s1,f1))&(!(r2(f1,f2)))'
    """
    written = [f"!({edge._replace(negated=False)})" if edge.negated else str(edge) for edge in edges]
    formula = written[0]
    for atom in written[1:]:
        formula = f"({formula})&({atom})"
    return formula
