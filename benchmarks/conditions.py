"""What a condition on an attribute costs: the same queries with and without it, in turn, on a large random graph.

    python benchmarks/conditions.py                        # a million entities, all of which have an age
    python benchmarks/conditions.py --entities 100000

CPU times are of whole questions, from text to answers, and of the engine alone (planning and running).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tuplet.engines.crisp import Crisp
from tuplet.engines.exact import Exact
from tuplet.engines.given import judge
from tuplet.graph.attributes import AttributeColumn, Attributes
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.ask import Question, ask
from tuplet.query.engine import Engine
from tuplet.query.limits import NO_DEADLINE, Limits
from tuplet.query.source import Source
from tuplet.truth.table import TruthTable

# name: the query, and what is asked on top; {} is an entity, a different one each time
QUERIES = {
    "grounded": ("?x : a(?x, {})", "?x.age > 30"),
    "grounded, a text": ("?x : a(?x, {})", '?x.city starts "c1"'),
    "grounded, a set": ("?x : a(?x, {})", "?x in {{{}, e5, e7}}"),
    "chain": ("?x, ?y : a(?x, {}) & b(?x, ?y)", "?y.age > 30"),
    "chain, two attributes": ("?x, ?y : a(?x, {}) & b(?x, ?y)", "?x.age < ?y.age"),
    "existential": ("?y : exists ?x . a(?x, {}) & b(?x, ?y)", "?x.age > 30"),
    "no constant, rare": ("?x, ?y : a(?x, ?y)", "?x.age = 99999"),
    "no constant, a set": ("?x, ?y : a(?x, ?y)", "?y in {{{}, e5, e7}}"),
    "no constant, often": ("?x, ?y : a(?x, ?y)", "?x.age > 30"),
}


def made(entities: int, degree: int) -> Source:
    """Two relations with `degree` stated and as many predicted edges of each entity; every entity has an age."""
    rng = np.random.default_rng(0)
    n = 4 * entities * degree
    relation, heads, tails = (rng.integers(0, most, n) for most in (2, entities, entities))
    code = np.unique((relation * entities + heads) * entities + tails)
    relation, heads, tails = code // entities**2, code // entities % entities, code % entities
    observed = rng.random(len(code)) < 0.5
    truth = np.where(observed, 1, rng.uniform(0.01, 0.99, len(code))).astype(np.float32)
    table = TruthTable.build(entities, 2, heads, relation, tails, truth, observed)
    columns = (
        AttributeColumn.from_values("age", np.arange(entities), rng.integers(0, 100_000, entities).tolist()),
        AttributeColumn.from_values(
            "city", np.arange(entities), [f"c{i}" for i in rng.integers(0, 1000, entities).tolist()]
        ),
    )
    graph = KnowledgeGraph.from_edges(
        Vocabulary.from_names([f"e{i}" for i in range(entities)]),
        Vocabulary.from_names(["a", "b"]),
        heads[observed],
        relation[observed],
        tails[observed],
        attributes=Attributes(columns),
    )
    return Source(graph, truth=table)


def in_turn(works: list[Callable[[int], object]], repeats: int) -> list[float]:
    """The median of each in milliseconds."""
    times: list[list[float]] = [[] for _ in works]
    for i in range(repeats):
        for work, own in zip(works, times, strict=True):
            start = time.process_time()
            work(i)
            own.append(time.process_time() - start)
    return [1000 * statistics.median(own[len(own) // 10 :]) for own in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--degree", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=100)
    options = parser.parse_args()
    source = made(options.entities, options.degree)
    engines: list[Engine[Any]] = [Exact(), Crisp()]
    limits = Limits(k=10)
    print(f"{options.entities:,} entities, median CPU ms of {options.repeats}; whole question, then the engine alone")
    print(
        f"{'query':<24} {'engine':<7} {'without':>9} {'with':>9} {'added':>9} | {'without':>9} {'with':>9} {'added':>9}"
    )
    entities = np.random.default_rng(1).integers(0, options.entities, options.repeats)
    for engine in engines:
        engine.load(source)
        for name, (query, condition) in QUERIES.items():

            def text(i: int, more: str = "", query: str = query) -> str:
                entity = f"e{entities[i]}"
                return query.format(entity) + (f" & {more.format(entity)}" if more else "")

            def whole(i: int, more: str = "", text: Callable[..., str] = text, engine: Engine[Any] = engine) -> object:
                return ask(Question.from_query(source, text(i, more)), engine, judge, limits)

            def alone(clauses: Any, engine: Engine[Any] = engine) -> object:
                return engine.run(engine.planned(clauses, source, limits), limits, NO_DEADLINE)

            plain, kept = (
                [Question.from_query(source, text(i, more)).readings[0].clauses for i in range(options.repeats)]
                for more in ("", condition)
            )
            times = in_turn([whole, lambda i, w=whole, c=condition: w(i, c)], options.repeats)  # type: ignore[misc]
            times += in_turn([lambda i, a=alone, c=c: a(c[i]) for c in (plain, kept)], options.repeats)  # type: ignore[misc]
            shown = [times[0], times[1], times[1] - times[0], times[2], times[3], times[3] - times[2]]
            cells = [f"{value:>9.3f}" for value in shown]
            print(f"{name:<24} {engine.name:<7} {' '.join(cells[:3])} | {' '.join(cells[3:])}", flush=True)


if __name__ == "__main__":
    main()
