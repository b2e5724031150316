"""How a store is shown in a notebook: what is in it, how reliable its truth is, and queries as pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from tuplet.errors import BadInput
from tuplet.query import display
from tuplet.query.display import html_table, tag
from tuplet.query.query_graph import QueryGraph

if TYPE_CHECKING:
    import altair

    from tuplet.graph.graph import KnowledgeGraph
    from tuplet.lang.ast import Query
    from tuplet.query.question import Question

RELATIONS = 12  # that are named


class StoreDisplay(ABC):
    """The part of a store that people look at."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """Sizes, what made the truth values, how reliable they are."""

    @abstractmethod
    def question(self, query: str | Query) -> Question:
        """A query, parsed and bound to the names of this store."""

    def plot_reliability(self) -> altair.LayerChart:
        """Mean truth against the share that are facts, as measured on held-out facts (extra `plots`)."""
        report = self.info().get("report") or {}
        if report.get("reliability") is None:
            raise BadInput("nothing was held out when this store was made: how reliable it is was not measured")
        tables = {"truth": report["reliability"], "before calibration": report.get("reliability_before")}
        return display.reliability({name: table for name, table in tables.items() if table is not None})

    def plot_query(self, query: str | Query) -> altair.HConcatChart:
        """The query as a graph of what is asked for, what may be anything, and what is given (extra `plots`)."""
        question = self.question(query)
        graph = question.source.graph
        return display.query([_drawn(clause, graph) for clause in question.clauses], question.text)

    def _repr_html_(self) -> str:
        about = self.info()
        names, report = about["relation_names"], about.get("report")
        more = f" and {len(names) - RELATIONS:,} more" if len(names) > RELATIONS else ""
        rows = [
            ["entities", f"{about['entities']:,}"],
            ["relations", ", ".join(names[:RELATIONS]) + more],
            ["facts", f"{report['facts'] if report else sum(about['edges'].values()):,}"],
        ]
        if report:
            predicted = report["predicted"]
            rows.append(["predicted", "on demand" if predicted is None else f"{predicted:,}"])
            rows.append(["what it promises", about["promise"]["sentence"] if about.get("promise") else _why_not(about)])
        rows += [["try", tag("code", text)] for text in about["try"]]
        return html_table(["what", "is in it"], rows, repr(self).strip("<>"))


def _why_not(about: dict[str, Any]) -> str:
    why = about.get("why")
    return f"truth values are not calibrated{f': {why}' if why else ''}"


def _drawn(clause: QueryGraph, graph: KnowledgeGraph) -> display.Drawn:
    entities, relations, short = graph.entities, graph.relations, graph.prefixes.short
    nodes = [(f"?{name}", "asked for" if v in clause.free else "any") for v, name in enumerate(clause.variables)]
    # a constant is drawn once for each edge: it is a value there, and joins nothing
    edges = []

    def place(node: int) -> int:
        if node >= 0:
            return node
        nodes.append((short(entities.label(~node) or entities.name(~node)), "given"))
        return len(nodes) - 1

    for edge in clause.edges:
        label = short(relations.label(edge.relation) or relations.name(edge.relation))
        kind = "does not hold" if edge.negated else "holds"
        edges.append((place(edge.head), place(edge.tail), f"not {label}" if edge.negated else label, kind))
    edges += [(place(one), place(other), "≠", "different") for one, other in clause.different]
    return display.Drawn(nodes, edges, clause.described())
