"""The best existential values of given tuples: what an answer of the budgeted search rests on."""

from __future__ import annotations

from dataclasses import replace

import torch

from tuplet.engines.ns3.batch import Clause, Domains
from tuplet.engines.ns3.domains import reduce_domains
from tuplet.engines.ns3.search import Search
from tuplet.engines.ns3.sparse import Tensor, best_of, find

_AT_ONCE = 1024
_SAME = 1 - 1e-12  # equal up to rounding: factors are multiplied in different orders


def witnesses(search: Search, clause: Clause, tuples: Tensor, within: Domains | None = None) -> tuple[Tensor, Tensor]:
    """For each tuple of one query the entity of every variable [n, variables] and the clause's truth there [n].

    Existentials take the values of largest truth (in their domains of `within`, if given), the lowest number among
    equals; all are -1 where the clause gives the tuple no truth. Every tuple becomes a query of its own in which its
    members are constants.
    """
    if len(tuples) > _AT_ONCE:
        parts = [witnesses(search, clause, some, within) for some in torch.split(tuples, _AT_ONCE)]
        return torch.cat([found for found, _ in parts]), torch.cat([value for _, value in parts])
    n, shape = len(tuples), clause.shape
    here = torch.arange(n, device=tuples.device)
    found = torch.full((n, len(shape.variables)), -1, dtype=torch.int64, device=tuples.device)
    known = clause.take(torch.zeros_like(here))
    for place, variable in enumerate(shape.free):
        known = known.clamp(variable, tuples[:, place])
        found[:, variable] = tuples[:, place]
    value = torch.ones(n, dtype=search.table.dtype, device=tuples.device)
    for literal in known.literals:
        if not literal.variables:
            value = search.joint(value, literal.truth(search.table, here, lambda _: here))
    if shape.existential:
        every = replace(search, enumerate=None, normalise=False)
        domains = reduce_domains(every, known, None)
        if within is not None:
            domains = _inside(domains, within)
        for variable in shape.existential:
            rows = domains.rows[variable]
            asked = replace(known, shape=replace(shape, free=(variable,), groups=()))
            truth, _ = every(domains, asked, rows)
            value = best_of(rows.query, truth, n)
            best = ((truth >= value[rows.query] * _SAME) & (truth > 0)).nonzero().view(-1)
            # The first of a query's best rows: rows stand in order of query and entity.
            query = rows.query[best]
            first = torch.ones_like(query, dtype=torch.bool)
            first[1:] = query[1:] != query[:-1]
            chosen = torch.zeros(len(rows), dtype=torch.bool, device=tuples.device)
            chosen[best[first]] = True
            found[rows.query[chosen], variable] = rows.columns[0][chosen]
            keep = {v: torch.ones(len(r), dtype=torch.bool, device=tuples.device) for v, r in domains.rows.items()}
            domains = domains.restrict(keep | {variable: chosen}, domains.dropped)
    found[value <= 0] = -1
    return found, value


def _inside(domains: Domains, within: Domains) -> Domains:
    """The rows whose entity is also in the domain of the one query that all come from."""
    keep = {v: find(within.rows[v].columns[0], rows.columns[0])[1] for v, rows in domains.rows.items()}
    return domains.restrict(keep, domains.dropped)
