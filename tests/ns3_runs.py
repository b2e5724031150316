"""NS3 asked for one query on a truth table."""

from __future__ import annotations

from typing import Any

from tuplet.engines.ns3.algorithm import BoxBudget
from tuplet.engines.ns3.run import run_many
from tuplet.engines.ns3.search import FuzzySearch
from tuplet.engines.ns3.tensors import TensorTable
from tuplet.query.logic import Logic
from tuplet.query.ranking import Clauses, Ranking
from tuplet.truth.table import TruthTable


def run(
    clauses: Clauses,
    table: TruthTable,
    k: int | None,
    budget: BoxBudget | None = None,
    logic: Logic | str = "product",
    rank: Any = None,
) -> Ranking:
    """The `k` best tuples of the budgeted box (None: all of them), with witnesses."""
    relations = {edge.relation for clause in clauses for edge in clause.edges}
    search = FuzzySearch(TensorTable.from_table(table, relations), Logic.from_name(logic))
    return run_many([clauses], search, k, budget, rank=rank)[0]
