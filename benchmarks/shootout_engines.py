"""The engines of the shoot-out: how each is given the edges, and how it is asked.

A query is a list of clauses {"free": k, "variables": n, "edges": [[head, relation, tail, negated], …]}: variables are
0, 1, …, the free ones first, constants are ~entity. An answer is the K best tuples with their truth: product over the
atoms, 1 - x under a negation, maximum over the existentials, 1 - ∏(1 - x) over clauses.

Nothing of tuplet is imported for the other engines, so that their memory is theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from shootout_sql import CannotExpress, Clause, sql

Answer = list[tuple[tuple[int, ...], float]]
MOST = 1_000_000  # tuples of a crisp answer
STEPS = 10_000_000  # of -ln p in clingo, which has integers of 32 bits


@dataclass(frozen=True)
class Edges:
    """The truth table as arrays: truth in double precision, observed facts marked."""

    relation: Any
    head: Any
    tail: Any
    truth: Any
    observed: Any

    @staticmethod
    def read(folder: Path) -> Edges:
        return Edges(*(np.load(folder / f"{column.name}.npy") for column in fields(Edges)))

    @staticmethod
    def of(table: Any, share: float = 1.0) -> Edges:
        """Those of a `TruthTable`; of a share, a random one that keeps its order."""
        head, relation, tail, entry = table.adjacency.triples()
        keep = np.random.default_rng(0).random(len(head)) < share
        truth, observed = np.asarray(table.truth)[entry].astype(np.float64), np.asarray(table.observed)[entry]
        return Edges(relation[keep], head[keep], tail[keep], truth[keep], observed[keep])

    def write(self, folder: Path) -> None:
        """As files that `read` takes."""
        folder.mkdir(parents=True, exist_ok=True)
        for column in fields(Edges):
            np.save(folder / f"{column.name}.npy", getattr(self, column.name))

    def rows(self) -> Iterable[tuple[int, int, int, float, bool]]:
        """One edge after another, as Python numbers."""
        for low in range(0, len(self.head), 1 << 16):
            yield from zip(*(getattr(self, f.name)[low : low + (1 << 16)].tolist() for f in fields(self)), strict=True)


class DuckDB:
    """A table sorted by relation, head and tail with two indexes; prepared statements."""

    def __init__(self, edges: Edges, memory: int, threads: int = 1) -> None:
        import duckdb
        import pyarrow as pa

        self.prepared: dict[str, str] = {}
        self.connection = duckdb.connect(config={"threads": threads, "memory_limit": f"{memory >> 20}MiB"})
        self.connection.execute("set temp_directory = ''")
        columns = {"r": edges.relation, "h": edges.head, "t": edges.tail, "p": edges.truth}
        self.connection.register("given", pa.table(columns))
        self.connection.execute("create table edge as select * from given order by r, h, t")
        self.connection.unregister("given")
        self.connection.execute("create index by_head on edge (r, h)")
        self.connection.execute("create index by_tail on edge (r, t)")

    def ask(self, clauses: Sequence[Clause], k: int, least: float | None) -> Answer:
        text, values = sql(clauses, k, least, "$")
        if text not in self.prepared:
            self.prepared[text] = f"q{len(self.prepared)}"
            self.connection.execute(f"prepare {self.prepared[text]} as {text}")
        rows = self.connection.execute(f"execute {self.prepared[text]}({', '.join(map(repr, values))})").fetchall()
        return [(row[:-1], row[-1]) for row in rows]

    def interrupt(self) -> None:
        self.connection.interrupt()


class SQLite:
    """A table in memory clustered by (r, h, t), and a covering index the other way round; ANALYZE has run."""

    def __init__(self, edges: Edges, memory: int) -> None:
        import sqlite3

        self.connection = sqlite3.connect(":memory:", check_same_thread=False, cached_statements=1000)
        for text in ("pragma temp_store = memory", f"pragma hard_heap_limit = {memory}"):
            self.connection.execute(text)
        self.connection.execute("create table edge(r, h, t, p, primary key (r, h, t)) without rowid")
        rows = ((relation, head, tail, truth) for relation, head, tail, truth, _ in edges.rows())
        self.connection.executemany("insert into edge values (?, ?, ?, ?)", rows)
        self.connection.execute("create index by_tail on edge (r, t, h, p)")
        self.connection.execute("analyze")

    def ask(self, clauses: Sequence[Clause], k: int, least: float | None) -> Answer:
        text, values = sql(clauses, k, least)
        return [(row[:-1], row[-1]) for row in self.connection.execute(text, values)]

    def interrupt(self) -> None:
        self.connection.interrupt()


# --- graphs and logic ------------------------------------------------------------------------------------------------


class Ladybug:
    """A table of nodes by number, a table of relationships for each relation; Cypher with parameters."""

    def __init__(self, edges: Edges, memory: int) -> None:
        import ladybug
        import pyarrow as pa

        self.database = ladybug.Database(":memory:", buffer_pool_size=memory, max_num_threads=1)
        self.connection = ladybug.Connection(self.database, num_threads=1)
        self.connection.execute("CREATE NODE TABLE E(id INT64 PRIMARY KEY)")
        nodes = pa.table({"id": np.unique(np.concatenate([edges.head, edges.tail])).astype(np.int64)})
        self.connection.execute("COPY E FROM $given", {"given": nodes})
        for relation in np.unique(edges.relation).tolist():
            mine = edges.relation == relation
            ends = {"h": edges.head[mine].astype(np.int64), "t": edges.tail[mine].astype(np.int64)}
            self.connection.execute(f"CREATE REL TABLE R{relation}(FROM E TO E, p DOUBLE)")
            self.connection.execute(
                f"COPY R{relation} FROM $given", {"given": pa.table(ends | {"p": edges.truth[mine]})}
            )
        self.known = set(np.unique(edges.relation).tolist())

    def ask(self, clauses: Sequence[Clause], k: int, least: float | None) -> Answer:
        if len(clauses) > 1:
            raise CannotExpress("no aggregate over a UNION: Cypher's CALL { … } is not there")
        [clause] = clauses
        if any(relation not in self.known for _, relation, _, negated in clause["edges"]):
            return []
        constants: dict[str, int] = {}
        seen: set[str] = set()

        def node(number: int) -> str:
            name = f"v{number}" if number >= 0 else f"c{~number}"
            again, about = name in seen, ""
            seen.add(name)
            if number < 0 and not again:
                constants[name], about = ~number, f" {{id: ${name}}}"
            return f"({name})" if again else f"({name}:E{about})"

        given, aside, product = [], [], []
        for i, (head, relation, tail, negated) in enumerate(sorted(clause["edges"], key=lambda edge: edge[3])):
            (aside if negated else given).append(f"{node(head)}-[a{i}:R{relation}]->{node(tail)}")
            product.append(f"(1.0 - coalesce(a{i}.p, 0.0))" if negated else f"a{i}.p")
        truth = " * ".join(product)
        columns = ", ".join(f"v{v}.id AS f{v}" for v in range(clause["free"]))
        if clause["variables"] > clause["free"]:
            truth = f"max({truth})"
        text = f"MATCH {', '.join(given)}" + "".join(f" OPTIONAL MATCH {pattern}" for pattern in aside)
        text += f" WITH {columns}, {truth} AS truth WHERE truth > 0.0"
        text += f" RETURN {', '.join(f'f{v}' for v in range(clause['free']))}, truth ORDER BY truth DESC LIMIT {k}"
        rows = self.connection.execute(text, constants).get_all()
        return [(tuple(row[:-1]), row[-1]) for row in rows]

    def interrupt(self) -> None:
        self.connection.interrupt()


class Clingo:
    """Facts grounded once; a query is one more rule, which the grounder joins. The best are picked afterwards.

    Truth is the sum of -ln p in whole steps: clingo has no fractions. A #minimize over a choice of one tuple would
    ground the same rule first, and give one tuple at a time.
    """

    def __init__(self, edges: Edges, memory: int) -> None:
        import clingo

        self.control, self.count = clingo.Control(["--warn=none"]), 0
        lines = []
        for relation, head, tail, truth, _ in edges.rows():
            lines.append(f"r{relation}({head},{tail},{cost(truth)}). x{relation}({head},{tail}).")
            if truth < 1:
                lines.append(f"n{relation}({head},{tail},{cost(1 - truth)}).")
        self.control.add("base", [], "\n".join(lines))
        self.control.ground([("base", [])])

    def ask(self, clauses: Sequence[Clause], k: int, least: float | None) -> Answer:
        if len(clauses) > 1:
            raise CannotExpress("a union's 1 - ∏(1 - x) is no sum of integers")
        [clause], self.count = clauses, self.count + 1
        node = lambda number: f"V{number}" if number >= 0 else str(~number)  # noqa: E731
        bodies: list[tuple[list[str], list[str]]] = [([], [])]
        for i, (head, relation, tail, negated) in enumerate(sorted(clause["edges"], key=lambda edge: edge[3])):
            ends = f"{node(head)},{node(tail)}"
            listed = f"{'n' if negated else 'r'}{relation}({ends},C{i})"
            found = [([*body, listed], [*costs, f"C{i}"]) for body, costs in bodies]
            absent = [([*body, f"not x{relation}({ends})"], costs) for body, costs in bodies] if negated else []
            bodies = found + absent
        free, name = clause["free"], f"q{self.count}"
        shown = ",".join(f"V{v}" for v in range(free))
        rules = [f"{name}({shown},{'+'.join(costs)}) :- {', '.join(body)}." for body, costs in bodies]
        self.control.add(name, [], "\n".join(rules))
        self.control.ground([(name, [])])
        best: dict[tuple[int, ...], int] = {}
        for atom in self.control.symbolic_atoms.by_signature(name, free + 1):
            *values, total = (argument.number for argument in atom.symbol.arguments)
            best[tuple(values)] = min(total, best.get(tuple(values), total))
        first = sorted(best.items(), key=lambda item: item[1])[:k]
        return [(values, math.exp(-total / STEPS)) for values, total in first]


def cost(truth: float) -> int:
    """Truth in steps of its negative logarithm."""
    return round(-math.log(truth) * STEPS)


class ProbLog:
    """Probabilistic facts, grounded and compiled for each query: the probability of every tuple, then the best."""

    def __init__(self, edges: Edges, memory: int) -> None:
        from problog.engine import DefaultEngine
        from problog.program import PrologString

        lines = [f"{truth!r}::r{relation}({head},{tail})." for relation, head, tail, truth, _ in edges.rows()]
        self.engine = DefaultEngine()
        self.facts = self.engine.prepare(PrologString("\n".join(lines)))

    def ask(self, clauses: Sequence[Clause], k: int, least: float | None) -> Answer:
        from problog import get_evaluatable
        from problog.program import PrologString

        if any(clause["variables"] > clause["free"] for clause in clauses):
            raise CannotExpress("sums over the witnesses of an existential, where the best one is asked for")
        node = lambda number: f"V{number}" if number >= 0 else str(~number)  # noqa: E731
        head = f"q({', '.join(f'V{v}' for v in range(clauses[0]['free']))})"
        rules = [f"query({head.replace('V', '_V')})."]
        for clause in clauses:
            atoms = sorted(clause["edges"], key=lambda edge: edge[3])
            body = [("\\+ " if negated else "") + f"r{r}({node(h)}, {node(t)})" for h, r, t, negated in atoms]
            rules.append(f"{head} :- {', '.join(body)}.")
        program = self.facts.extend()
        for statement in PrologString("\n".join(rules)):
            program += statement
        found = get_evaluatable().create_from(self.engine.ground_all(program)).evaluate()
        rows = [(tuple(int(value) for value in atom.args), float(truth)) for atom, truth in found.items() if truth > 0]
        return sorted(rows, key=lambda row: -row[1])[:k]


class Oxigraph:
    """The stated facts as triples; SPARQL. It has no truth values: all tuples, each of truth 1."""

    def __init__(self, edges: Edges, memory: int) -> None:
        import pyoxigraph

        self.store = pyoxigraph.Store()
        given = "\n".join(f"<e:{h}> <r:{r}> <e:{t}> ." for r, h, t, _, stated in edges.rows() if stated)
        self.store.bulk_load(given.encode(), pyoxigraph.RdfFormat.N_TRIPLES)

    def ask(self, clauses: Sequence[Clause], k: int, least: float | None) -> Answer:
        node = lambda number: f"?v{number}" if number >= 0 else f"<e:{~number}>"  # noqa: E731
        groups = []
        for clause in clauses:
            parts = []
            for head, relation, tail, negated in sorted(clause["edges"], key=lambda edge: edge[3]):
                triple = f"{node(head)} <r:{relation}> {node(tail)}"
                parts.append(f"FILTER NOT EXISTS {{ {triple} }}" if negated else f"{triple} .")
            groups.append(f"{{ {' '.join(parts)} }}")
        names = " ".join(f"?v{v}" for v in range(clauses[0]["free"]))
        found = self.store.query(f"SELECT DISTINCT {names} WHERE {{ {' UNION '.join(groups)} }}")
        rows = [tuple(int(value.value[2:]) for value in row) for row in islice(found, MOST + 1)]
        return [(row, 1.0) for row in comparable(rows)]


# --- ours ------------------------------------------------------------------------------------------------------------


class Tuplet:
    """The exact engine from the bound query to ranked tuples with witnesses, planning included."""

    def __init__(self, edges: Edges, memory: int) -> None:
        from tuplet.engines import exact
        from tuplet.truth.table import TruthTable

        columns = (edges.head, edges.relation, edges.tail, edges.truth.astype(np.float32), edges.observed)
        entities = 1 + int(max(edges.head.max(), edges.tail.max()))
        self.table = TruthTable.build(entities, 1 + int(edges.relation.max()), *columns)
        exact.warm()

    def ask(self, clauses: Sequence[Clause], k: int, least: float | None) -> Answer:
        from tuplet.engines import exact

        ranking = exact.run(exact.plan([graph_of(clause) for clause in clauses], self.table), k)
        assert ranking.exact
        return list(zip(map(tuple, ranking.tuples.tolist()), ranking.truth.tolist(), strict=True))


class TupletCrisp:
    """The crisp engine on the stated facts: all tuples."""

    def __init__(self, edges: Edges, memory: int) -> None:
        from tuplet.engines.crisp import collect, plan
        from tuplet.graph.adjacency import Adjacency

        self.collect, self.plan, stated = collect, plan, edges.observed
        ends = (edges.head[stated], edges.relation[stated], edges.tail[stated])
        self.facts = Adjacency.build(*ends, 1 + int(edges.relation.max()))[0]

    def ask(self, clauses: Sequence[Clause], k: int, least: float | None) -> Answer:
        found = self.collect(self.plan([graph_of(clause) for clause in clauses], self.facts), self.facts, MOST + 1)
        return [(tuple(row), 1.0) for row in comparable(found.tuples.tolist())]


def comparable(rows: list[Any]) -> list[Any]:
    """Sets of tuples are compared up to a size."""
    if len(rows) > MOST:
        raise CannotExpress(f"more than {MOST:,} tuples, which are not compared")
    return rows


def graph_of(clause: Clause) -> Any:
    """A clause as tuplet's engines take it."""
    from tuplet.query.ranking import Edge, QueryGraph

    names = tuple(f"v{v}" for v in range(clause["variables"]))
    return QueryGraph(names, tuple(range(clause["free"])), tuple(Edge(*edge) for edge in clause["edges"]))


def clauses_of(clauses: Sequence[Any]) -> list[Clause]:
    """Query graphs as clauses: the free variables are 0, 1, … in the order asked for."""
    found = []
    for clause in clauses:
        order = {v: i for i, v in enumerate([*clause.free, *clause.existential])}
        edges = [[order.get(h, h), r, order.get(t, t), negated] for h, r, t, negated in clause.edges]
        found.append({"free": len(clause.free), "variables": len(clause.variables), "edges": edges})
    return found


ENGINES = {
    "tuplet": Tuplet,
    "duckdb": DuckDB,
    "sqlite": SQLite,
    "ladybug": Ladybug,
    "clingo": Clingo,
    "problog": ProbLog,
    "oxigraph": Oxigraph,
    "tuplet-crisp": TupletCrisp,
}
