"""Where the time of a question goes, and how far its search is from the least that memory allows.

    python benchmarks/limit.py STORE QUERIES --per-shape 20
    git worktree add ../before e8b631c && python benchmarks/limit.py STORE QUERIES --against ../before

Processor time of one thread, the least of `--rounds`. A lower bound for the search: whoever reports a tuple has read
the truth of each of its listed atoms, since a change of that value would change what is reported. An atom is an entry
of two arrays (who, how true), so the distinct cache lines of the reported witnesses come from memory, at the pace
measured for lines at random places; and the tuples are written. Beside it stand the rows of the query's constants,
which must be read, too, by whoever has no order by truth or largest value prepared: any entry may be the best one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from against import Version, turns

import tuplet
from tuplet.engines import exact
from tuplet.engines.effort import Effort
from tuplet.engines.given import judge
from tuplet.lab.bench.queries import read_any
from tuplet.lab.bench.run import refuse_other_graph
from tuplet.query.ask import Question, read_query, status
from tuplet.query.hints import hints
from tuplet.query.limits import Deadline, Limits
from tuplet.query.ranking import QueryGraph
from tuplet.query.witness import Witnesses

LINE = 64  # bytes of a cache line
STAGES = ("engine", "parse", "bind", "plan", "search", "witness", "status", "about")
now = time.thread_time


def sparql(clause: QueryGraph, graph: Any) -> str:
    """A clause as people would ask it."""

    def node(number: int) -> str:
        return f"?{clause.variables[number]}" if number >= 0 else f"<{graph.entities.name(~number)}>"

    parts = []
    for head, relation, tail, negated in clause.edges:
        triple = f"{node(head)} <{graph.relations.name(relation)}> {node(tail)}"
        parts.append(f"FILTER NOT EXISTS {{ {triple} }}" if negated else f"{triple} .")
    return f"SELECT {' '.join(node(v) for v in clause.free)} WHERE {{ {' '.join(parts)} }}"


def staged(store: tuplet.Store, text: str, k: int) -> list[float]:
    """Seconds of each stage of a question that was never asked, one after the other as `ask` takes them."""
    graph, at = store.graph, [now()]
    engine, limits = store.engine(), Limits.from_fields(None, k=k)
    at.append(now())
    tree = read_query(text, None, graph)
    at.append(now())
    question = Question.from_query(store.source, tree, text=text)
    at.append(now())
    plan = engine.planned(question.clauses, store.source, limits)
    at.append(now())
    deadline = Deadline(None)
    ranking = engine.run(plan, limits, deadline)
    at.append(now())
    witnesses = Witnesses.from_ranking(ranking, question.clauses, store.source)
    at.append(now())
    status(witnesses, ranking, question.clauses, store.source, engine, judge, None, deadline)
    at.append(now())
    hints(question.clauses, store.source)
    at.append(now())
    return np.diff(at).tolist()


def asked(store: tuplet.Store, text: str, k: int, number: int) -> list[float]:
    """Seconds of a question in a text that is new, of the same again, and of making an object of each answer."""
    new, at = text + " " * number, [now()]
    store.ask(new, k=k)
    at.append(now())
    answers = store.ask(new, k=k)
    at.append(now())
    list(answers)
    at.append(now())
    return np.diff(at).tolist()


def least(clauses: tuple[QueryGraph, ...], store: tuplet.Store, k: int) -> tuple[int, int, int, int]:
    """Cache lines of the reported witnesses, bytes written, bytes of the constants' rows, edges that we looked at."""
    table, effort = store.source.table(clauses), Effort()
    rank = store.graph.entities.sort_rank
    ranking = exact.run(exact.plan(clauses, table, rank), k, effort=effort)
    found = Witnesses.from_ranking(ranking, clauses, store.source)
    relations = np.tile(np.array([edge.relation for edge in found.edges], np.int32), len(found.heads))
    entries = table.adjacency.find_many(found.heads.ravel(), relations, found.tails.ravel())
    lines = sum(len(np.unique(entries[entries >= 0] * size // LINE)) for size in (4, table.truth.itemsize))
    constant = [(~h, 2 * r) if h < 0 else (~t, 2 * r + 1) for c in clauses for h, r, t, n in c.edges if min(h, t) < 0]
    spans = [table.adjacency.span(*row) for row in constant]
    rows = sum(stop - start for start, stop in spans) * (4 + table.truth.itemsize)
    return lines, ranking.tuples.nbytes + ranking.truth.nbytes, rows, effort.used


def memory_pace() -> tuple[float, float]:
    """Seconds for one cache line at a random place, and for one byte in order: the least of five, on 256 MB."""
    values = np.ones(32 << 20)
    places = np.random.default_rng(0).integers(0, len(values), 1 << 20)
    random, ordered = [], []
    for _ in range(5):
        start = now()
        values.take(places)
        middle = now()
        values.sum()
        random.append((middle - start) / len(places))
        ordered.append((now() - middle) / values.nbytes)
    return min(random), min(ordered)


WORKER = """
import sys, time, json
root, store, texts = sys.argv[1:4]
sys.path.insert(0, root + "/src")
import tuplet
opened, texts = tuplet.open(store), json.loads(open(texts).read())
read = {"new text": len, "asked again": len, "new text, every answer": list}
print(json.dumps([f"{shape}: {how}" for shape in texts for how in read]), flush=True)
for number, line in enumerate(sys.stdin, 1):
    shape, how = line.strip().split(": ")
    took = []
    for text in texts[shape]:
        text += " " * number * how.startswith("new")
        start = time.thread_time()
        read[how](opened.ask(text, k=100))
        took.append(1e3 * (time.thread_time() - start))
    print(json.dumps(took), flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("queries", help="of `tuplet bench sample`, on the graph of the store")
    parser.add_argument("--per-shape", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-k", type=int, default=100)
    parser.add_argument("--against", type=Path, help="the root of another checkout: alternate with its store")
    options = parser.parse_args()
    store, queries = tuplet.open(options.store), read_any(options.queries).first(options.per_shape)
    refuse_other_graph(queries, store.source)
    single = {name: group for name, group in queries.by_shape().items() if len(group[0].clauses()) == 1}
    texts = {name: [sparql(q.clauses()[0], store.graph) for q in group] for name, group in single.items()}
    if options.against:
        roots = options.against.resolve(), Path(__file__).resolve().parent.parent
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(json.dumps(texts))
            file.flush()
            arguments = [str(Path(options.store).resolve()), file.name]
            turns([Version(root, WORKER, *arguments) for root in roots], options.rounds)
        return
    line, byte = memory_pace()
    print(f"{1e9 * line:.1f} ns for a cache line at a random place, {1e-9 / byte:.1f} GB/s in order; µs below\n")
    print("| shape | " + " | ".join(STAGES) + " | new text | asked again | objects of 100 answers |")
    print("|" + "---|" * (len(STAGES) + 4))
    bounds, means = [], []
    for name, group in single.items():
        for text in texts[name]:
            store.ask(text, k=options.k)
        rounds = [
            [[*staged(store, text, options.k), *asked(store, text, options.k, 1 + i)] for text in texts[name]]
            for i in range(options.rounds)
        ]
        mean = 1e6 * np.min(rounds, axis=0).mean(0)
        means.append(mean)
        print(f"| {name} | " + " | ".join(f"{value:.0f}" for value in mean) + " |", flush=True)
        touched = np.mean([least(q.clauses(), store, options.k) for q in group], axis=0)
        bounds.append((name, *touched, 1e6 * (touched[0] * line + touched[1] * byte), mean[4], 1e6 * byte * touched[2]))
    print("| mean | " + " | ".join(f"{value:.0f}" for value in np.mean(means, axis=0)) + " |")
    print("\n| shape | lines | edges looked at | bound µs | constants' rows, µs | search µs | search / bound |")
    print("|---|---|---|---|---|---|---|")
    for name, lines, _, _, used, bound, search, rows in bounds:
        print(f"| {name} | {lines:.0f} | {used:.0f} | {bound:.1f} | {rows:.2f} | {search:.0f} | {search / bound:.0f} |")


if __name__ == "__main__":
    main()
