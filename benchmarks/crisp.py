"""Crisp answers against DuckDB: at most 1,000 answers for the 14 joint shapes on FB15k-237.

Both sides run in this process, on the same queries, in turn. Times are planning and running: statements are parsed
before (DuckDB's by `extract_statements`), and both sides end with the answers in numpy arrays, not in Python tuples.
DuckDB's table is sorted by relation, head and tail.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import duckdb
import numpy as np

from tuplet.bench.shapes import BETAE, JOINT, shape
from tuplet.bench.walks import Walker, ground
from tuplet.engines.crisp import collect, plan
from tuplet.graph.readers.read import read
from tuplet.query.query_graph import QueryGraph


def statement(clauses: tuple[QueryGraph, ...], limit: int) -> str:
    """The clauses as one SQL statement."""
    selects = []
    for clause in clauses:
        column: dict[int, str] = {}
        tables, where = [], []
        for i, edge in enumerate(e for e in clause.edges if not e.negated):
            tables.append(f"facts a{i}")
            where.append(f"a{i}.r = {edge.relation}")
            for end, node in (("h", edge.head), ("t", edge.tail)):
                if node < 0:
                    where.append(f"a{i}.{end} = {~node}")
                elif node in column:
                    where.append(f"a{i}.{end} = {column[node]}")
                else:
                    column[node] = f"a{i}.{end}"
        for edge in (e for e in clause.edges if e.negated):
            head, tail = (column[node] if node >= 0 else ~node for node in (edge.head, edge.tail))
            inner = f"n.r = {edge.relation} and n.h = {head} and n.t = {tail}"
            where.append(f"not exists (select 1 from facts n where {inner})")
        free = ", ".join(f"{column[v]} as f{i}" for i, v in enumerate(clause.free))
        selects.append(f"select {free} from {', '.join(tables)} where {' and '.join(where)}")
    return f"select distinct * from ({' union all '.join(selects)}) limit {limit}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of benchmark graphs (default: $TUPLET_DATA)")
    parser.add_argument("--graph", default="fb15k-237")
    parser.add_argument("--per-shape", type=int, default=50)
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2, help="of DuckDB")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--turn", type=int, default=10, help="queries that each engine answers in a row (default: 10)")
    parser.add_argument("--efo1", action="store_true", help="also the 14 types with one unknown")
    options = parser.parse_args()
    folder = options.data or os.environ.get("TUPLET_DATA")
    if not folder:
        print("name the folder of benchmark graphs with --data or TUPLET_DATA", file=sys.stderr)
        return 1

    graph = read(Path(folder) / options.graph)
    adjacency = graph.adjacency
    heads, relations, tails = graph.edges()
    table = duckdb.connect(config={"threads": options.threads})
    table.register("edges", {"h": heads, "r": relations, "t": tails})
    table.execute("create table facts as select h, r, t from edges order by r, h, t")
    print(f"{options.graph}: {adjacency.edges:,} facts; {options.per_shape} queries a shape, at most {options.limit} ")
    print(f"answers; seed {options.seed}; DuckDB {duckdb.__version__} with {options.threads} threads; median ms;")
    print(f"turns of {options.turn} queries")
    print(f"{'shape':8}{'answers':>9}{'plan':>9}{'tuplet':>9}{'p95':>9}{'DuckDB':>9}{'p95':>9}{'ratio':>8}")

    walker = Walker(adjacency)
    rng = np.random.default_rng(options.seed)
    ratios, all_ours, all_theirs = [], [], []
    for name in (*JOINT, *(BETAE if options.efo1 else ())):
        queries = [ground(shape(name), walker, rng) for _ in range(options.per_shape)]
        planning, ours, theirs, sizes = [], [], [], []
        collect(plan(queries[0], adjacency), adjacency, options.limit)
        table.execute(statement(queries[0], options.limit)).fetchnumpy()
        for first in range(0, len(queries), options.turn):
            turn = queries[first : first + options.turn]
            for clauses in turn:
                start = time.perf_counter()
                made = plan(clauses, adjacency)
                planned = time.perf_counter()
                found = collect(made, adjacency, options.limit)
                ours.append(time.perf_counter() - start)
                planning.append(planned - start)
                sizes.append(len(found.tuples))
            for clauses, size in zip(turn, sizes[first:], strict=True):
                (parsed,) = duckdb.extract_statements(statement(clauses, options.limit))
                start = time.perf_counter()
                columns = table.execute(parsed).fetchnumpy()
                theirs.append(time.perf_counter() - start)
                if len(columns["f0"]) != size:
                    print(f"{name}: {size} answers, DuckDB has {len(columns['f0'])}: {clauses}", file=sys.stderr)
                    return 1
        middle = [1e3 * float(np.median(times)) for times in (planning, ours, theirs)]
        high = [1e3 * float(np.percentile(times, 95)) for times in (ours, theirs)]
        ratios.append(float(np.median(np.array(theirs) / np.array(ours))))
        all_ours += ours
        all_theirs += theirs
        print(
            f"{name:8}{np.median(sizes):9.0f}{middle[0]:9.3f}{middle[1]:9.3f}{high[0]:9.3f}"
            f"{middle[2]:9.2f}{high[1]:9.2f}{ratios[-1]:7.1f}×"
        )
    print(f"median of the shapes' ratios: {np.median(ratios):.1f}×, smallest {min(ratios):.1f}×")
    print(f"all queries: {1e3 * np.median(all_ours):.3f} ms against {1e3 * np.median(all_theirs):.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
