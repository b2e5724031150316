"""How long parsing and rewriting a query of six atoms takes, in SPARQL, in logic text and in Cypher."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from tuplet.lang.parse import parse
from tuplet.lang.rewrite import clauses

QUERIES = {
    "sparql": """PREFIX ex: <http://example.org/>
        SELECT ?x ?y WHERE {
          ?x :treats ?z . ?z :causes "asthma" . ?x :interacts ?y . ?y ex:targets ?w . ?w :part_of <some gene> .
          FILTER NOT EXISTS { ?x :worsens ?y } FILTER(?x != ?y)
        } LIMIT 10""",
    "logic": """?x, ?y : exists ?z, ?w . treats(?x, ?z) & causes(?z, "asthma") & interacts(?x, ?y) & targets(?y, ?w)
        & part_of(?w, <some gene>) & !worsens(?x, ?y) & ?x != ?y limit 10""",
    "cypher": """MATCH (x)-[:treats]->(z)-[:causes]->({name: "asthma"}), (x)-[:interacts]->(y)-[:targets]->(w)
        -[:part_of]->({name: "some gene"}) WHERE NOT (x)-[:worsens]->(y) AND x <> y RETURN x, y LIMIT 10""",
    "logic, two clauses": """?x, ?y : exists ?z, ?w . treats(?x, ?z) & (causes(?z, "asthma") | causes(?z, flu))
        & interacts(?x, ?y) & targets(?y, ?w) & !worsens(?x, ?y)""",
}


def median_ms(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000)
    repeats = parser.parse_args().repeats
    print(f"median of {repeats} repeats, milliseconds\n{'query':<20} {'parse':>8} {'parse + rules':>15}")
    for name, text in QUERIES.items():
        only = median_ms(lambda text=text: parse(text), repeats)
        both = median_ms(lambda text=text: clauses(parse(text)), repeats)
        print(f"{name:<20} {only:8.3f} {both:15.3f}")


if __name__ == "__main__":
    main()
