"""A query as SQL: what the databases of the shoot-out are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Clause = dict[str, Any]  # "free", "variables", "edges": see `shootout_engines`


class CannotExpress(Exception):
    """The engine has no words for the query; the message says why."""


def sql(clauses: Sequence[Clause], k: int, least: float | None = None, mark: str = "?") -> tuple[str, list[float]]:
    """A query as SQL over edge(r, h, t, p), and its parameters, numbered after `mark`.

    A join with the product of the truths, the maximum over existentials by GROUP BY, a negation by LEFT JOIN. `least`
    is a hint: no atom is less true than the last tuple of the list, which prunes the join from the inside.
    """
    values: list[float] = []

    def parameter(value: float) -> str:
        values.append(value)
        return f"{mark}{len(values)}"

    def select(clause: Clause) -> str:
        at: dict[int, str] = {}
        joins, product, aside = [], [], []
        for i, (head, relation, tail, negated) in enumerate(sorted(clause["edges"], key=lambda edge: edge[3])):
            on = [f"a{i}.r = {parameter(relation)}"]
            for node, column in ((head, f"a{i}.h"), (tail, f"a{i}.t")):
                if node < 0:
                    on.append(f"{column} = {parameter(~node)}")
                elif at.setdefault(node, column) != column:
                    on.append(f"{column} = {at[node]}")
            if negated:
                aside.append(f" left join edge a{i} on {' and '.join(on)}")
                product.append(f"(1 - coalesce(a{i}.p, 0))")
            else:
                joins.append((f"edge a{i}", on + ([f"a{i}.p >= {parameter(least)}"] if least is not None else [])))
                product.append(f"a{i}.p")
        (source, where), *others = joins
        source += "".join(f" join {table} on {' and '.join(on)}" for table, on in others) + "".join(aside)
        truth, free = " * ".join(product), [at[v] for v in range(clause["free"])]
        columns, grouped = ", ".join(f"{column} as v{v}" for v, column in enumerate(free)), ""
        if clause["variables"] > len(free):
            truth, grouped = f"max({truth})", f" group by {', '.join(free)}"
        return f"select {columns}, {truth} as truth from {source} where {' and '.join(where)}{grouped}"

    if len(clauses) > 2:
        raise CannotExpress("more than two clauses: SQL has no aggregate for products")
    inner, names = " union all ".join(map(select, clauses)), ", ".join(f"v{v}" for v in range(clauses[0]["free"]))
    if len(clauses) == 2:
        either = "case count(*) when 1 then max(truth) else max(truth) + min(truth) - max(truth) * min(truth) end"
        inner = f"select {names}, {either} as truth from ({inner}) u group by {names}"
    enough = "truth > 0" if least is None else f"truth >= {parameter(least)}"
    return f"select {names}, truth from ({inner}) q where {enough} order by truth desc limit {k}", values
