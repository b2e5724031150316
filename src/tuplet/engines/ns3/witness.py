"""The best existential values of given tuples: what an answer of the budgeted search rests on."""

from __future__ import annotations

from dataclasses import replace

import torch

from tuplet.engines.ns3.batch import ClauseBatch, Domains
from tuplet.engines.ns3.domains import reduce_domains
from tuplet.engines.ns3.search import FuzzySearch
from tuplet.engines.ns3.sparse import SAME, Tensor, best_of, find

_AT_ONCE = 1024  # tuples


def witnesses(
    search: FuzzySearch, clause: ClauseBatch, query: Tensor, tuples: Tensor, within: Domains | None = None
) -> tuple[Tensor, Tensor]:
    """For each tuple of a query the entity of every variable [n, variables] and the clause's truth there [n].

    Existentials take the values of largest truth (in their domains of `within`, if given), the lowest number among
    equals; all are -1 where the clause gives the tuple no truth. Every tuple becomes a query of its own in which its
    members are constants.
    """
    search.deadline.check()
    if len(tuples) > _AT_ONCE:
        some = zip(torch.split(query, _AT_ONCE), torch.split(tuples, _AT_ONCE), strict=True)
        parts = [witnesses(search, clause, *part, within) for part in some]
        return torch.cat([found for found, _ in parts]), torch.cat([value for _, value in parts])
    n, shape = len(tuples), clause.shape
    here = torch.arange(n, device=tuples.device)
    found = torch.full((n, len(shape.variables)), -1, dtype=torch.int64, device=tuples.device)
    known = clause.take(query)
    for place, variable in enumerate(shape.free):
        known = known.clamp(variable, tuples[:, place])
        found[:, variable] = tuples[:, place]
    value = torch.ones(n, dtype=search.table.dtype, device=tuples.device)
    for literal in known.literals:
        if not literal.variables:
            value = search.joint(value, literal.truth(search.table, here, lambda _: here))
    if shape.existential:
        every = replace(search, enumerate=None)
        domains = reduce_domains(every, known, None)
        if within is not None:
            domains = _inside(domains, within, query, search.table.entities)
        for variable in shape.existential:
            rows = domains.rows[variable]
            asked = replace(known, shape=replace(shape, free=(variable,), groups=()))
            truth, _ = every(domains, asked, rows)
            value = best_of(rows.query, truth, n)
            best = ((truth >= value[rows.query] * SAME) & (truth > 0)).nonzero().view(-1)
            # The first of a query's best rows: rows stand in order of query and entity.
            owner = rows.query[best]
            first = torch.ones_like(owner, dtype=torch.bool)
            first[1:] = owner[1:] != owner[:-1]
            chosen = torch.zeros(len(rows), dtype=torch.bool, device=tuples.device)
            chosen[best[first]] = True
            found[rows.query[chosen], variable] = rows.columns[0][chosen]
            keep = {v: torch.ones(len(r), dtype=torch.bool, device=tuples.device) for v, r in domains.rows.items()}
            domains = domains.restrict(keep | {variable: chosen}, domains.dropped)
    found[value <= 0] = -1
    return found, value


def _inside(domains: Domains, within: Domains, query: Tensor, entities: int) -> Domains:
    """The rows whose entity is also in the domain of the query that the tuple answers."""
    keep = {
        v: find(within.rows[v].key(v, entities), query[rows.query] * entities + rows.columns[0])[1]
        for v, rows in domains.rows.items()
    }
    return domains.restrict(keep, domains.dropped)
