"""The openCypher TCK: of its scenarios about reading patterns, those that use no refused construct pass."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from cypher_tck import REASONS, SetUp, expected_value, run, scenarios

DATA = Path(os.environ.get("TUPLET_DATA", "")) / "opencypher-tck"
# What is left out for another reason than a construct that is refused.
OTHER_REASONS = {
    "a name that the graph does not have is an error (attribute)": 1,
    "a name that the graph does not have is an error (entity)": 1,
    "every entity has a name": 1,  # where no entity has a property `name`, it is the name of the entity
    "too many clauses": 1,
    "lists as values": 2,
}


@pytest.mark.skipif("TUPLET_DATA" not in os.environ or not DATA.is_dir(), reason="TUPLET_DATA has no opencypher-tck")
def test_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    passed: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for scenario in scenarios(DATA):
        reason = run(scenario)
        if reason:
            left_out[reason] += 1
        else:
            passed["errors" if scenario.said("should be raised") else "rows"] += 1
    with capsys.disabled():
        told = [f"{passed['rows']} scenarios give their rows, {passed['errors']} their errors; left out:"]
        told += [f"{number:5} {reason}" for reason, number in left_out.most_common()]
        sys.stdout.write("\n" + "\n".join(told) + "\n")
    assert passed["rows"] >= 90
    assert passed["errors"] >= 90
    assert {reason: number for reason, number in left_out.items() if reason not in REASONS} == OTHER_REASONS


def test_the_set_up_reads_create() -> None:
    setup = SetUp()
    setup.run("CREATE (a:A:B {num: 1})<-[:T {x: 'y'}]-(b), (b)-[:U]->(a)")
    setup.run("UNWIND range(1, 2) AS i CREATE ({nr: i})")
    assert setup.labels == [["A", "B"], [], [], []]
    assert setup.relationships == {(1, "T", 0): {"x": "y"}, (1, "U", 0): {}}
    assert setup.shown(0) == expected_value("(:B:A {num: 1})")
    assert setup.shown(3) == expected_value("({nr: 2})")
    graph = setup.graph()
    assert [answer["n"] for answer in graph.ask("MATCH (n) WHERE n.nr > 1 RETURN n", k="all")] == ["n003"]
