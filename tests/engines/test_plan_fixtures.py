"""Printed plans, pinned as text files: what `--plan` shows of the engines that plan.

To write the files anew after a plan has changed: `TUPLET_WRITE_FIXTURES=1 pytest tests/engines/test_plan_fixtures.py`.
"""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest

from text_fixtures import FOLDER, Case, cases
from tuplet import settings
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.ask import Question, plan_text
from tuplet.query.source import Source
from tuplet.truth.table import TruthTable

PLANS = FOLDER / "plan"


@cache
def source() -> Source:
    """The graph of `facts.tsv`: what has truth 1 is a fact, the rest is predicted."""
    rows = [line.split("\t") for line in (PLANS / "facts.tsv").read_text().splitlines()]
    words = [Vocabulary.from_names(sorted({row[i] for row in rows for i in columns})) for columns in ((0, 2), (1,))]
    edges = np.array([[words[i == 1].find(row[i]) for i in range(3)] for row in rows])
    truth = np.array([float(row[3]) for row in rows])
    facts = edges[truth == 1]
    table = TruthTable.build(len(words[0]), len(words[1]), *edges.T, truth=truth, observed=truth == 1)
    return Source(KnowledgeGraph.from_edges(*words, facts[:, 0], facts[:, 1], facts[:, 2]), truth=table)


def planned(text: str, engine: str) -> str:
    return plan_text(Question.from_query(source(), text), settings.find_plugin("engines", engine))


@pytest.mark.skipif("TUPLET_WRITE_FIXTURES" not in os.environ, reason="fixtures are written only on demand")
@pytest.mark.parametrize("engine", ["crisp", "exact"])
def test_write(engine: str) -> None:
    texts = [case.text for case in cases("plan") if case.name.startswith(engine)]
    written = "====\n".join(f"{text}\n----\n{planned(text, engine)}\n" for text in texts)
    (PLANS / f"{engine}.txt").write_text(written)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases("plan")])
def test_is_planned_as(case: Case) -> None:
    assert planned(case.text, case.name.split("-")[0]) == case.expected
