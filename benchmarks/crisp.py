"""Crisp answers against DuckDB: the first 1,000 answers by name for the 14 joint shapes on FB15k-237.

Both sides run in this process, on the same queries, in turn. Times are planning and running: statements are parsed
before (DuckDB's by `extract_statements`), and both sides end with the answers in numpy arrays, not in Python tuples.
DuckDB's table is sorted by relation, head and tail; its numbers are places in the order of names, so that it sorts
integers. Both must give the same rows in the same order; with `--any` any 1,000 answers will do.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from tuplet.engines.crisp import Crisp, CrispPlan, collect, plan, run
from tuplet.engines.exact import Exact
from tuplet.graph.walks import Walker
from tuplet.lab.bench.shapes import BETAE, JOINT, shape
from tuplet.query.ranking import QueryGraph
from tuplet.query.source import Source
from tuplet.read.read import read

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from random_queries import ground


def statement(clauses: tuple[QueryGraph, ...], limit: int, rank: NDArray[np.int32], ordered: bool) -> str:
    """The clauses as one SQL statement; `rank` is the number of each entity in the table."""
    selects = []
    for clause in clauses:
        column: dict[int, str] = {}
        tables, where = [], []
        for i, edge in enumerate(e for e in clause.edges if not e.negated):
            tables.append(f"facts a{i}")
            where.append(f"a{i}.r = {edge.relation}")
            for end, node in (("h", edge.head), ("t", edge.tail)):
                if node < 0:
                    where.append(f"a{i}.{end} = {rank[~node]}")
                elif node in column:
                    where.append(f"a{i}.{end} = {column[node]}")
                else:
                    column[node] = f"a{i}.{end}"
        for edge in (e for e in clause.edges if e.negated):
            head, tail = (column[node] if node >= 0 else rank[~node] for node in (edge.head, edge.tail))
            inner = f"n.r = {edge.relation} and n.h = {head} and n.t = {tail}"
            where.append(f"not exists (select 1 from facts n where {inner})")
        free = ", ".join(f"{column[v]} as f{i}" for i, v in enumerate(clause.free))
        selects.append(f"select {free} from {', '.join(tables)} where {' and '.join(where)}")
    order = " order by " + ", ".join(f"f{i}" for i in range(len(clauses[0].free))) if ordered else ""
    return f"select distinct * from ({' union all '.join(selects)}){order} limit {limit}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of benchmark graphs (default: $TUPLET_DATA)")
    parser.add_argument("--graph", default="fb15k-237")
    parser.add_argument("--per-shape", type=int, default=50)
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2, help="of DuckDB")
    parser.add_argument("--most", type=float, default=10.0, help="seconds that DuckDB may take (default: 10)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--turn", type=int, default=10, help="queries that each engine answers in a row (default: 10)")
    parser.add_argument("--any", action="store_true", help="any answers, in no particular order")
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
    source, rank = Source(graph), graph.entities.sort_rank
    table.register("edges", {"h": rank[heads], "r": relations, "t": rank[tails]})
    table.execute("create table facts as select h, r, t from edges order by r, h, t")
    print(f"{options.graph}: {adjacency.edges:,} facts; {options.per_shape} queries a shape, at most {options.limit} ")
    print(f"answers; seed {options.seed}; DuckDB {duckdb.__version__} with {options.threads} threads; median ms;")
    print(f"turns of {options.turn} queries; {'any answers' if options.any else 'first by name'}")
    print(f"{'shape':8}{'answers':>9}{'plan':>9}{'tuplet':>9}{'p95':>9}{'DuckDB':>9}{'p95':>9}{'ratio':>8}")

    def answer(made: CrispPlan) -> NDArray[np.int32]:
        if options.any:
            return collect(made, adjacency, options.limit).tuples
        return run(made, source, options.limit).tuples

    Crisp().load(source)
    Exact().load(source)
    walker = Walker(adjacency)
    rng = np.random.default_rng(options.seed)
    ratios, all_ours, all_theirs = [], [], []
    stopped = 0
    for name in (*JOINT, *(BETAE if options.efo1 else ())):
        queries = [ground(shape(name), walker, rng) for _ in range(options.per_shape)]
        texts = [statement(clauses, options.limit, rank, not options.any) for clauses in queries]
        planning, ours, theirs, found = [], [], [], []
        answer(plan(queries[0], adjacency))
        table.execute(texts[0]).fetchnumpy()
        for first in range(0, len(queries), options.turn):
            for clauses in queries[first : first + options.turn]:
                start = time.perf_counter()
                made = plan(clauses, adjacency)
                planned = time.perf_counter()
                found.append(answer(made))
                ours.append(time.perf_counter() - start)
                planning.append(planned - start)
            for text, tuples in zip(texts[first : first + options.turn], found[first:], strict=True):
                (parsed,) = duckdb.extract_statements(text)
                timer = threading.Timer(options.most, table.interrupt)
                timer.start()
                start = time.perf_counter()
                try:
                    columns = table.execute(parsed).fetchnumpy()
                except duckdb.InterruptException:
                    columns = None
                theirs.append(time.perf_counter() - start)
                timer.cancel()
                if columns is None:
                    stopped += 1
                    continue
                rows = np.stack(list(columns.values()), axis=1)
                if len(rows) != len(tuples) or not (options.any or (rows == rank[tuples]).all()):
                    print(f"{name}: {len(tuples)} answers, DuckDB has {len(rows)} or others: {text}", file=sys.stderr)
                    return 1
        middle = [1e3 * float(np.median(times)) for times in (planning, ours, theirs)]
        high = [1e3 * float(np.percentile(times, 95)) for times in (ours, theirs)]
        ratios.append(float(np.median(np.array(theirs) / np.array(ours))))
        all_ours += ours
        all_theirs += theirs
        size = np.median([len(tuples) for tuples in found])
        print(
            f"{name:8}{size:9.0f}{middle[0]:9.3f}{middle[1]:9.3f}{high[0]:9.3f}"
            f"{middle[2]:9.2f}{high[1]:9.2f}{ratios[-1]:7.1f}×"
        )
    print(f"median of the shapes' ratios: {np.median(ratios):.1f}×, smallest {min(ratios):.1f}×")
    print(f"DuckDB was stopped after {options.most:g} s in {stopped} of {len(all_ours)} queries")
    print(f"all queries: {1e3 * np.median(all_ours):.3f} ms against {1e3 * np.median(all_theirs):.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
