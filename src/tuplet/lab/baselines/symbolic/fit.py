"""FIT: fuzzy inference with truth values on the query graph (Yin et al. 2024), as max-marginals of each free variable.

The fair version is the search of NS3 with an unlimited budget: constants and leaves are absorbed one after the other,
C[v][b] *= max_a C[u][a] · P(a, b); where only cycles are left, the best rows of one variable are tried one by one.
The mode `paper` is FIT as published comparisons with several free variables ran it, see docs/explanation/baselines.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.ns3.algorithm import BoxBudget
from tuplet.engines.ns3.run import marginal_vectors, search_of
from tuplet.lab.baselines.base import Baseline, entity_conditions
from tuplet.lab.baselines.options import FitOptions
from tuplet.query.limits import Deadline, Limits
from tuplet.query.ranking import Clauses, QueryGraph
from tuplet.query.source import Source

EVERYTHING = BoxBudget.all()


class Fit(Baseline[FitOptions]):
    """Max-marginals on the truth table, for any clause."""

    name = "fit"
    steps = (
        "absorb constants, then leaves: C[v][b] *= max_a C[u][a] · P(a, b), 1 − P where negated",
        "cut a cycle at its smallest variable: try the best candidates, keep the maximum",
    )
    settings = FitOptions

    def marginals_batch(
        self, queries: Sequence[Clauses], source: Source, limits: Limits, deadline: Deadline
    ) -> list[NDArray[np.float64]]:
        options = self.options(limits)
        search = search_of(queries, source, limits.rules, deadline)
        if options.mode == "fair":
            return marginal_vectors(queries, replace(search, enumerate=options.most), EVERYTHING)
        narrow = replace(search, enumerate=options.most, certain=False)
        places = []
        for place in range(len(queries[0][0].free)):
            asked = [[one_way(clause, place) for clause in clauses] for clauses in queries]
            places.append(marginal_vectors(asked, narrow, EVERYTHING))
        return [np.concatenate(parts) for parts in zip(*places, strict=True)]


def one_way(clause: QueryGraph, place: int) -> QueryGraph:
    """The clause that asks for one free variable only, without the free variables that hang on it as leaves.

    FIT for several free variables takes a free leaf off before its neighbour is solved, and nothing flows back: what is
    asked of the leaf does not constrain the others. A leaf stays where its neighbour would be left without an atom.

    >>> from tuplet.query.ranking import Edge
    >>> chain = QueryGraph(("x", "y"), (0, 1), (Edge(~7, 0, 0), Edge(0, 1, 1)))
    >>> one_way(chain, 0).edges, len(one_way(chain, 1).edges)
    ((Edge(head=-8, relation=0, tail=0, negated=False),), 2)
    """
    asked = clause.free[place]
    edges, different, gone = list(clause.edges), list(clause.different), set[int]()
    while True:
        leaf = next((v for v in clause.free if v not in gone | {asked} and _hangs(v, edges, different)), None)
        if leaf is None:
            break
        gone.add(leaf)
        edges = [e for e in edges if leaf not in (e.head, e.tail)]
        different = [pair for pair in different if leaf not in pair]
    number = {v: i for i, v in enumerate(v for v in range(len(clause.variables)) if v not in gone)}

    def renumber(node: int) -> int:
        return number[node] if node >= 0 else node

    return QueryGraph(
        tuple(clause.variables[v] for v in number),
        (number[asked],),
        tuple(e._replace(head=renumber(e.head), tail=renumber(e.tail)) for e in edges),
        tuple((renumber(a), renumber(b)) for a, b in different),
        tuple(replace(c, variable=number[c.variable]) for c in entity_conditions(clause) if c.variable in number),
    )


def _hangs(v: int, edges: Sequence[tuple[int, int, int, bool]], different: Sequence[tuple[int, int]]) -> bool:
    """Whether a variable has one neighbour (constants count), which has other positive atoms."""
    joined = [{head, tail} for head, _, tail, _ in edges] + [set(pair) for pair in different]
    near = {w for pair in joined if v in pair for w in pair if w != v}
    if len(near) != 1:
        return False
    (w,) = near
    return any(not negated and w in (head, tail) and v not in (head, tail) for head, _, tail, negated in edges)


BASELINE = Fit()
