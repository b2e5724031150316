"""Neural-symbolic search with one unknown on reduced domains; the unknown may be a hypernode of several variables.

The query graph is taken apart edge by edge. Every variable holds a fuzzy vector C on the rows of its domain:

    constants    C[t] *= P_r(s, t)
    self-loops   C[g] *= P_r(column i, column j)            row by row, for an edge between members of a hypernode
    leaves       C[v][b] *= max_a C[u][a] · Π P(a, b)       all edges between u and v together, 1 − P where negated
    cycles       clamp the best rows of one variable, search each, take the maximum

What remains is the fuzzy vector of the unknown. A batch of queries of one shape goes through the same steps together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from tuplet.engines.ns3.batch import ClauseBatch, DomainIndex, Domains, Links, LiteralBatch, NodeRows, Pairs, join_pairs
from tuplet.engines.ns3.tensors import (
    SAME,
    Tensor,
    TensorTable,
    best_of,
    blocks,
    counts,
    distinct,
    find,
    order_falling,
    ranks,
    starts,
)
from tuplet.predict.base import ranges
from tuplet.query.limits import NO_DEADLINE, Deadline
from tuplet.query.logic import Logic

HYPERNODE = -1


@dataclass(frozen=True)
class FuzzySearch:
    """How to search: on which truth values, in which logic, how many rows to try where a cycle is cut (None: all).

    Whatever takes long looks at the deadline between two blocks, and raises `OutOfTime` when it is over.
    """

    table: TensorTable
    logic: Logic
    enumerate: int | None = 10
    deadline: Deadline = NO_DEADLINE
    certain: bool = True  # on a cycle all rows of truth 1 are tried, beyond `enumerate`
    beam: int | None = None  # rows of a variable that a message is made of; None: all
    index: DomainIndex | None = None  # what reduces domains; None: messages

    def joint(self, a: Tensor, b: Tensor) -> Tensor:
        """The conjunction of truth values."""
        found: Tensor = self.logic.conjunction(a, b)
        return found

    def either(self, a: Tensor, b: Tensor) -> Tensor:
        """Their disjunction."""
        found: Tensor = self.logic.disjunction(a, b)
        return found

    def __call__(self, domains: Domains, target: NodeRows) -> tuple[Tensor, Tensor]:
        """Truth of the target's rows [n], and a bound on assignments inside the domains that were not tried [queries].

        The target is the one unknown: a variable, or several merged into a hypernode; all others are existential.
        """
        clause, free = domains.clause, target.members
        value = self.conjoin([lit for lit in clause.literals if set(lit.variables) <= set(free)], target)
        node = free[0] if len(free) == 1 else HYPERNODE
        alive = value.nonzero().view(-1)
        own = len(free) == 1 and target is domains.rows[node]
        rows = {v: r for v, r in domains.rows.items() if v not in free}
        values = {v: domains.value[v] for v in rows}
        rows[node] = target if own else target.take(alive)
        values[node] = value if own else value[alive]
        pairs = domains.pairs if own else {pair: p for pair, p in domains.pairs.items() if node not in pair}
        index = {v: domains.index[v] for v in rows if v != node}
        found, bound = self.eliminate(Domains(clause, rows, values, index, {}, {}, pairs), node)
        return found if own else torch.zeros_like(value).index_copy_(0, alive, found), bound

    def conjoin(self, literals: Sequence[LiteralBatch], rows: NodeRows) -> Tensor:
        """The conjunction of literals on the rows of a node that has all their variables. [n]"""
        parts = []
        for start in range(0, max(len(rows), 1), self.table.block):
            self.deadline.check()
            part = slice(start, start + self.table.block)
            value = torch.ones(len(rows.query[part]), dtype=torch.float64, device=self.table.device)
            for literal in literals:
                truth = literal.truth(self.table, rows.query[part], lambda v: rows.column(v)[part])  # noqa: B023
                value = self.joint(value, truth)
            parts.append(value)
        return torch.cat(parts)

    def eliminate(self, state: Domains, target: int) -> tuple[Tensor, Tensor]:
        """Removes one node after the other until the target is left; returns as `__call__`.

        The target may be a hypernode; it has no index.
        """
        queries, rows, value = state.clause.queries, dict(state.rows), dict(state.value)
        links = state.links(target)
        known = {v for lit in state.clause.literals if lit.positive and len(lit.variables) == 1 for v in lit.variables}
        while len(rows) > 1:
            self.deadline.check()
            near = {u: [w for w in rows if frozenset((u, w)) in links] for u in rows if u != target}
            removable = [u for u in near if len(near[u]) < 2]
            if not removable:
                return self.cut_cycle(replace(state, rows=rows, value=value), target, links)
            u = min(removable, key=lambda u: (len(near[u]), len(rows[u]), u))
            w = near[u][0] if near[u] else target
            if self.beam is not None and u in known:  # what no constant has reached has nothing to be cut by
                value[u] = torch.where(ranks(rows[u].query, queries, value[u]) < self.beam, value[u], 0)
                known.add(w)
            if near[u]:
                update = self.message(state.pairs, links[frozenset((u, w))], rows, value, u, w)
            else:  # a part of its own: only its best assignment matters
                update = best_of(rows[u].query, value[u], queries)[rows[w].query]
            value[w] = self.joint(value[w], update)
            del rows[u]
        return value[target], torch.zeros(queries, dtype=torch.float64, device=self.table.device)

    def message(
        self, known: dict[tuple[int, int], Pairs], bundle: list[LiteralBatch], rows: dict[int, NodeRows],
        value: dict[int, Tensor], u: int, w: int,
    ) -> Tensor:  # fmt: skip
        """max_a C[u][a] · Π P(a, b) for every row b of w."""
        if not any(literal.positive for literal in bundle):
            return self.message_apart(bundle, rows[u], value[u], rows[w], value[w])
        if HYPERNODE not in (u, w):
            if (w, u) in known:
                second, first, truth = known[w, u]
            else:
                if (u, w) not in known:
                    known[u, w] = join_pairs(list(self.pairs(bundle, rows[u], rows[w])), self.table)
                first, second, truth = known[u, w]
            return best_of(second, self.joint(value[u][first], truth), len(rows[w]))
        # The rows of a hypernode are many: only those that can still be true are joined, and block by block.
        from_u, from_w = value[u].nonzero().view(-1), value[w].nonzero().view(-1)
        best = torch.zeros_like(value[w])
        for first, second, truth in self.pairs(bundle, rows[u].take(from_u), rows[w].take(from_w)):
            best.scatter_reduce_(0, from_w[second], self.joint(value[u][from_u[first]], truth), "amax")
        return best

    def message_apart(self, bundle: list[LiteralBatch], u: NodeRows, of_u: Tensor, w: NodeRows, of_w: Tensor) -> Tensor:
        """The same where only negated edges and inequalities join u and w, so that almost all pairs are true.

        The rows of u are tried in falling order of C[u]; a row of w is done when no later one could do better.
        """
        queries = int(max(u.query.max() if len(u) else 0, w.query.max() if len(w) else 0)) + 1
        order = order_falling(u.query, of_u)
        length = counts(u.query, queries)
        start = starts(length)
        best = torch.zeros_like(of_w)
        left = (of_w > 0).nonzero().view(-1)
        done, width = 0, 4
        while len(left):
            self.deadline.check()
            width = max(1, min(2 * width, self.table.block // len(left)))
            query = w.query[left]
            source, at = ranges(start[query] + done, (length[query] - done).clamp(0, width))
            first, second = order[at], left[source]
            truth = self.truth_of(bundle, u, w, first, second, torch.ones_like(of_u[first]))
            best.scatter_reduce_(0, second, self.joint(of_u[first], truth), "amax")
            done += width
            more = length[query] > done
            following = of_u[order[torch.where(more, start[query] + done, 0)]] if len(order) else best[left]
            left = left[more & (best[left] < following)]
        return best

    def truth_of(
        self, bundle: Sequence[LiteralBatch], u: NodeRows, w: NodeRows, first: Tensor, second: Tensor, truth: Tensor
    ) -> Tensor:
        """`truth` joined with the literals of a bundle on pairs of rows."""
        query = u.query[first]

        def entity_of(variable: int) -> Tensor:
            return u.column(variable)[first] if variable in u.members else w.column(variable)[second]

        for literal in bundle:
            truth = self.joint(truth, literal.truth(self.table, query, entity_of))
        return truth

    def pairs(self, bundle: list[LiteralBatch], u: NodeRows, w: NodeRows) -> Iterator[Pairs]:
        """The pairs of rows of a variable u and a node w on which all literals of the bundle are true, in blocks.

        One positive literal is walked from the end that has fewer edges; the others are looked up.
        """
        table, (near,) = self.table, u.members
        options = []
        for literal in bundle:
            if literal.positive:
                (far,) = set(literal.variables) - {near}
                ends = _Column.from_node(w, far, table)
                ahead = table.spans(literal.view_from(near)[u.query], u.columns[0])
                back = table.spans(literal.view_from(far)[ends.rows.query], ends.rows.columns[0])
                options += [(literal, ends, ahead, False), (literal, ends, back, True)]
        driver, column, spans, backward = min(options, key=lambda option: int(option[2][1].sum()))
        rest = [literal for literal in bundle if literal is not driver]
        meetings = self._meet(u, column, spans, backward)
        if column.row_of is not None:
            meetings = self._spread(join_pairs(list(meetings), table), column.row_of)
        for first, second, truth in meetings:
            self.deadline.check()
            if rest:
                truth = self.truth_of(rest, u, w, first, second, truth)
                true = truth.nonzero().view(-1)
                first, second, truth = first[true], second[true], truth[true]
            yield Pairs(first, second, truth)

    def _meet(self, u: NodeRows, column: _Column, spans: tuple[Tensor, Tensor], backward: bool) -> Iterator[Pairs]:
        """Edges between rows of u and different entities of a column."""
        table = self.table
        keys, own = (u.key(u.members[0], table.entities), column.rows.query) if backward else (column.key, u.query)
        start, length = spans
        for part in blocks(length, table.block):
            self.deadline.check()
            source, at = ranges(start[part], length[part])
            source += part.start
            met, there = find(keys, own[source] * table.entities + table.neighbour[at])
            hit = there.nonzero().view(-1)
            one, other, truth = source[hit], met[hit], table.truth[at[hit]]
            yield Pairs(other, one, truth) if backward else Pairs(one, other, truth)

    def _spread(self, met: Pairs, row_of: Tensor) -> Iterator[Pairs]:
        """Edges to different entities become pairs with all rows that hold the entity."""
        order = torch.argsort(met.second, stable=True)
        length = torch.bincount(met.second, minlength=int(row_of.max()) + 1 if len(row_of) else 0)
        start = starts(length)[row_of]
        length = length[row_of]
        for part in blocks(length, self.table.block):
            source, at = ranges(start[part], length[part])
            at = order[at]
            yield Pairs(met.first[at], source + part.start, met.truth[at])

    def cut_cycle(self, state: Domains, target: int, links: Links) -> tuple[Tensor, Tensor]:
        """Cuts a cycle at its smallest variable. Queries may differ in which that is; those that agree go together."""
        rows, queries = state.rows, state.clause.queries
        degree = {u: sum(u in pair and pair <= rows.keys() for pair in links) for u in rows}
        variables = sorted((u for u in rows if u != target), key=lambda u: (degree[u], u))
        choice = torch.stack([counts(rows[u].query, queries) for u in variables]).argmin(0)  # the first of equals
        found = torch.zeros_like(state.value[target])
        bound = torch.zeros(queries, dtype=torch.float64, device=found.device)
        for number in torch.unique(choice).tolist():
            here = choice == number
            some, at = here.nonzero().view(-1), here[rows[target].query].nonzero().view(-1)
            part = state if len(some) == queries else replace(state, pairs={}).take(some)
            found[at], bound[some] = self._cut(part, variables[number], target, part.links(target))
        return found, bound

    def _cut(self, state: Domains, u: int, target: int, links: Links) -> tuple[Tensor, Tensor]:
        """Tries the best rows of one variable, each as a query of its own; keeps the best."""
        rows, value, queries = state.rows, state.value, state.clause.queries
        found = torch.zeros_like(value[target])
        bound = torch.zeros(queries, dtype=torch.float64, device=found.device)
        tried = value[u] > 0
        if self.enumerate is not None:
            # By the index, not by C alone: a variable that no constant touches has C = 1 everywhere.
            hope = state.index[u].minimum(value[u])
            within = ranks(rows[u].query, queries, hope, value[u]) < self.enumerate
            if self.certain:
                within |= hope >= 1
            left_out = (tried & ~within).nonzero().view(-1)
            bound = best_of(rows[u].query[left_out], hope[left_out], queries)
            tried &= within
        candidates = tried.nonzero().view(-1)
        for part in blocks(self._sizes(state, u, candidates, links), self.table.block):
            chosen = candidates[part]
            sub, back = self._clamp(state, u, chosen, target, links)
            truth, lost = self.eliminate(sub, target)
            own = value[u][chosen]
            found.scatter_reduce_(0, back, self.joint(truth, own[sub.rows[target].query]), "amax")
            bound.scatter_reduce_(0, rows[u].query[chosen], lost, "amax")
        return found, bound

    def _sizes(self, state: Domains, u: int, chosen: Tensor, links: Links) -> Tensor:
        """At most how many rows each chosen row of u leaves to the other nodes."""
        fixed = state.rows[u].take(chosen)
        size = torch.ones_like(chosen)
        for w in state.rows.keys() - {u}:
            most = counts(state.rows[w].query, state.clause.queries)[fixed.query]
            for literal in links.get(frozenset((u, w)), []):
                if literal.positive and w != HYPERNODE:
                    most = most.minimum(self.table.spans(literal.view_from(u)[fixed.query], fixed.columns[0])[1])
            size += most
        return size

    def _clamp(self, state: Domains, u: int, chosen: Tensor, target: int, links: Links) -> tuple[Domains, Tensor]:
        """One query for each chosen row of u; also the row of the target that each new row of it comes from."""
        fixed = state.rows[u].take(chosen)
        rows: dict[int, NodeRows] = {}
        value: dict[int, Tensor] = {}
        index: dict[int, Tensor] = {}
        back = chosen
        for w in state.rows.keys() - {u}:
            bundle = links.get(frozenset((u, w)), [])
            domain = state.rows[w]
            if any(literal.positive for literal in bundle):
                first, second, truth = join_pairs(list(self.pairs(bundle, fixed, domain)), self.table)
                order = torch.argsort(first, stable=True)
                first, second, truth = first[order], second[order], truth[order]
            else:
                length = counts(domain.query, state.clause.queries)
                start = starts(length)
                first, second = ranges(start[fixed.query], length[fixed.query])
                one = torch.ones(len(first), dtype=torch.float64, device=self.table.device)
                truth = self.truth_of(bundle, fixed, domain, first, second, one)
            truth = self.joint(truth, state.value[w][second])
            true = truth.nonzero().view(-1)
            first, second = first[true], second[true]
            rows[w] = replace(domain.take(second), query=first)
            value[w] = truth[true]
            if w == target:
                back = second
            else:
                index[w] = state.index[w][second]
        clause = state.clause.take(fixed.query).clamp(u, fixed.columns[0])
        return Domains(clause, rows, value, index, {}, {}), back


@dataclass(frozen=True)
class _Column:
    """The different entities in a column of a node, and for each row which of them it holds (None: the n-th)."""

    key: Tensor  # [m] query · entities + entity, ascending
    rows: NodeRows  # [m]
    row_of: Tensor | None  # [rows of the node]

    @staticmethod
    def from_node(rows: NodeRows, variable: int, table: TensorTable) -> _Column:
        key = rows.key(variable, table.entities)
        if len(rows.members) == 1:
            return _Column(key, rows, None)
        unique, row_of = torch.unique(key, return_inverse=True)
        return _Column(unique, NodeRows.from_keys(variable, unique, table.entities), row_of)


def reduce_domains(search: FuzzySearch, clause: ClauseBatch, most: int | None, floor: Tensor | None = None) -> Domains:
    """The `most` best entities of every variable by the index (None: all that can be true).

    `floor` [queries] drops entities whose index value is below it. Ties go by the local index, then by number. Another
    index may choose instead (`FuzzySearch.index`); what it drops is bounded by messages all the same.
    """
    domains = _messages(search, clause)
    keep, dropped = {}, {}
    for v, rows in domains.rows.items():
        search.deadline.check()
        estimate = domains.index[v]
        within = estimate > 0
        if most is not None and search.index is not None:
            within &= search.index(clause, v, most)[rows.query, rows.columns[0]]
        elif most is not None and len(rows) and int(counts(rows.query, clause.queries).max()) > most:
            within &= ranks(rows.query, clause.queries, estimate, domains.score[v]) < most
        if floor is not None:
            within &= estimate >= floor[rows.query]
        out = (~within).nonzero().view(-1)
        dropped[v] = best_of(rows.query[out], estimate[out], clause.queries)
        keep[v] = within
    return domains.restrict(keep, dropped)


def _messages(search: FuzzySearch, clause: ClauseBatch) -> Domains:
    """Everyone that a walk along the spanning tree reaches, with messages both ways."""
    links = clause.links(lambda v: v)
    tree = spanning_tree(clause)
    rows: dict[int, NodeRows] = {}
    value: dict[int, Tensor] = {}
    pairs: dict[tuple[int, int], Pairs] = {}
    for parent, child in tree:
        search.deadline.check()
        found = _from_constants(search, clause, child)
        if found is None and parent is not None:
            found = _reach(search, clause, links[frozenset((parent, child))], rows[parent], child)
        elif found is None:
            found = _members(search, clause, child)
        unary = search.conjoin([literal for literal in clause.literals if literal.variables == (child,)], found)
        true = unary.nonzero().view(-1)
        rows[child], value[child] = found.take(true), unary[true]
        if parent is not None:
            bundle = links[frozenset((parent, child))]
            pairs[parent, child] = join_pairs(list(search.pairs(bundle, rows[parent], rows[child])), search.table)
    incoming: dict[int, dict[int, Tensor]] = {v: {} for v in rows}

    def product(v: int, without: int | None = None) -> Tensor:
        total = value[v]
        for sender, message in incoming[v].items():
            total = total if sender == without else search.joint(total, message)
        return total

    for parent, child in reversed(tree):
        if parent is not None:
            search.deadline.check()
            first, second, truth = pairs[parent, child]
            incoming[parent][child] = best_of(first, search.joint(product(child)[second], truth), len(rows[parent]))
    for parent, child in tree:
        if parent is not None:
            search.deadline.check()
            first, second, truth = pairs[parent, child]
            incoming[child][parent] = best_of(
                second, search.joint(product(parent, without=child)[first], truth), len(rows[child])
            )
    score = {v: local_index(search, clause, r) for v, r in rows.items()}
    return Domains(clause, rows, value, {v: product(v) for v in rows}, score, {}, pairs)


def spanning_tree(clause: ClauseBatch) -> list[tuple[int | None, int]]:
    """A spanning forest over positive edges, each variable with its parent (None: a root).

    Roots are variables next to constants, doubled edges come first.
    """
    links = {
        pair: bundle
        for pair, bundle in clause.links(lambda v: v).items()
        if any(literal.positive for literal in bundle)
    }
    left = {v for literal in clause.literals for v in literal.variables}
    constants = {v: len(_constant_edges(clause, v)) for v in left}
    tree: list[tuple[int | None, int]] = []
    while left:
        edges = [(p, c) for pair in links for p in pair for c in pair - {p} if p not in left and c in left]
        if edges:
            p, c = min(edges, key=lambda edge: (-len(links[frozenset(edge)]), -constants[edge[1]], edge))
            tree.append((p, c))
        else:
            tree.append((None, min(left, key=lambda v: (-constants[v], v))))
        left.remove(tree[-1][1])
    return tree


def local_index(search: FuzzySearch, clause: ClauseBatch, rows: NodeRows) -> Tensor:
    """L(v): the conjunction, over the positive edges at v, of the best truth on v's side. [rows]"""
    (v,) = rows.members
    total = torch.ones(len(rows), dtype=torch.float64, device=search.table.device)
    for literal in clause.literals:
        if literal.positive and v in literal.variables:
            total = search.joint(total, search.table.best(literal.view_from(v)[rows.query], rows.columns[0]))
    return total


def _constant_edges(clause: ClauseBatch, v: int) -> list[tuple[Tensor, Tensor]]:
    """The positive edges between a variable and a constant: the view that leads from the constant, and the constant."""
    found = []
    for literal in clause.literals:
        constant = literal.head if isinstance(literal.head, Tensor) else literal.tail
        if literal.positive and literal.variables == (v,) and isinstance(constant, Tensor):
            found.append((literal.view_from(constant), constant))
    return found


def _from_constants(search: FuzzySearch, clause: ClauseBatch, v: int) -> NodeRows | None:
    """The neighbours of the constant with the fewest of them."""
    options = [search.table.spans(view, constant) for view, constant in _constant_edges(clause, v)]
    if not options:
        return None
    query, at = ranges(*min(options, key=lambda spans: int(spans[1].sum())))
    return NodeRows((v,), query, (search.table.neighbour[at].long(),))


def _members(search: FuzzySearch, clause: ClauseBatch, v: int) -> NodeRows:
    """Everyone on v's side of the rarest relation at v."""
    views = [lit.view_from(v) for lit in clause.literals if lit.positive and v in lit.variables]
    table = search.table
    view = min(views, key=lambda some: int((table.view_ptr[some + 1] - table.view_ptr[some]).sum()))
    query, entity = table.members(view)
    return NodeRows((v,), query, (entity,))


def _reach(search: FuzzySearch, clause: ClauseBatch, bundle: list[LiteralBatch], parents: NodeRows, v: int) -> NodeRows:
    """Everyone joined to a parent's row by the literal of the bundle that leads to fewest edges."""
    table, (parent,) = search.table, parents.members
    options = [
        table.spans(literal.view_from(parent)[parents.query], parents.columns[0])
        for literal in bundle
        if literal.positive
    ]
    start, length = min(options, key=lambda spans: int(spans[1].sum()))

    def keys() -> Iterator[Tensor]:
        for part in blocks(length, table.block):
            search.deadline.check()
            source, at = ranges(start[part], length[part])
            yield parents.query[part][source] * table.entities + table.neighbour[at]

    key = distinct(keys(), int(length.sum()), clause.queries * table.entities, table.device)
    return NodeRows.from_keys(v, key, table.entities)


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
    value = search.conjoin([literal for literal in known.literals if not literal.variables], NodeRows((), here, ()))
    if shape.existential:
        every = replace(search, enumerate=None)
        domains = reduce_domains(every, known, None)
        if within is not None:
            domains = _keep_inside(domains, within, query, search.table.entities)
        for variable in shape.existential:
            rows = domains.rows[variable]
            truth, _ = every(domains, rows)
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


def _keep_inside(domains: Domains, within: Domains, query: Tensor, entities: int) -> Domains:
    """The rows whose entity is also in the domain of the query that the tuple answers."""
    keep = {
        v: find(within.rows[v].key(v, entities), query[rows.query] * entities + rows.columns[0])[1]
        for v, rows in domains.rows.items()
    }
    return domains.restrict(keep, domains.dropped)
