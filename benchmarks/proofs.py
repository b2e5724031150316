"""What proofs cost: size and time to check, beside the time to answer, for each shape of a query set.

python benchmarks/proofs.py STORE QUERIES [PER_SHAPE] [K]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tuplet
from tuplet.lab.bench.queries import BenchQuery, read
from tuplet.lang.ast import And, Atom, Constant, Exists, Free, Name, Not, Or, Query, Term
from tuplet.proof.checker import check
from tuplet.proof.plain_store import PlainStore


def query_of(given: BenchQuery, store: tuplet.Store) -> Query:
    """A benchmark query with the names of a store."""
    entities, relations = store.graph.entities, store.graph.relations
    clauses = []
    for clause in given.clauses():

        def term(node: int, clause: object = clause) -> Term:
            if node < 0:
                return Constant(Name(entities.name(~node)))
            name = clause.variables[node]  # type: ignore[attr-defined]
            return Free(name) if node in clause.free else Exists(name)  # type: ignore[attr-defined]

        atoms = [(Atom(Name(relations.name(e.relation)), term(e.head), term(e.tail)), e.negated) for e in clause.edges]
        clauses.append(And(tuple(Not(atom) if negated else atom for atom, negated in atoms)))
        free = tuple(Free(clause.variables[node]) for node in clause.free)
    return Query(free, clauses[0] if len(clauses) == 1 else Or(tuple(clauses)))


def took(work: Callable[[], object]) -> float:
    """Milliseconds of CPU time, which other programs on the machine disturb less than the clock."""
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)


def main(path: str, queries: str, per_shape: int = 20, k: int = 10) -> None:
    """Prints a table."""
    store, folder = tuplet.open(path), Path(tempfile.mkdtemp())
    read_ms = np.median([took(lambda: PlainStore(Path(path))) for _ in range(5)])
    print(f"milliseconds of CPU time; reading and hashing the store, {read_ms:.0f} ms, is a part of each check\n")
    print("| shape | queries | answer | check, median | slowest check | proof, kB |\n|---|---|---|---|---|---|")
    for shape, group in read(queries).first(per_shape).by_shape().items():
        asked, checked, sizes = [], [], []
        for number, given in enumerate(group):
            query, file = query_of(given, store), folder / f"{shape}-{number}.json"
            store.prove(query, file, k=k)
            asked.append(took(lambda query=query: store.ask(query, k=k)))  # type: ignore[misc]
            checked.append(took(lambda file=file: check(file)))  # type: ignore[misc]
            sizes.append(file.stat().st_size / 1000)
        ms = f"{np.median(asked):.1f} | {np.median(checked):.0f} | {max(checked):.0f} | {np.median(sizes):.0f}"
        print(f"| {shape} | {len(group)} | {ms} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
