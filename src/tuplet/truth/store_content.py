"""What a new store is made of, and the writer of its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tuplet.graph.arrays import FolderWriter
from tuplet.graph.graph import KnowledgeGraph
from tuplet.truth.assemble import given_truth, graph_facts, overlaid, write_table
from tuplet.truth.edges import Floats, Predictions
from tuplet.truth.store_folder import FolderMaker, MetaMaker, RowSource
from tuplet.truth.table import KIND as TABLE


@dataclass(frozen=True)
class StoreContent:
    """All that a new store is made of."""

    graph: KnowledgeGraph | FolderMaker
    table: FolderMaker
    meta: MetaMaker
    rows: RowSource | None = None  # on demand: the model and the edges that the calibration counts
    calibration: Mapping[str, NDArray[Any]] | None = None  # the arrays of a learned one


def table_writer(
    graph: KnowledgeGraph,
    observed: Sequence[str],
    predicted: Predictions | None,
    threshold: float,
    may_miss: Floats | None = None,
) -> FolderMaker:
    """What writes the table of the observed facts of a graph over predicted edges, relation by relation.

    `may_miss` [relations]: an edge that is not listed may have this truth; by default it is below the threshold.
    """
    if predicted is not None and graph.unpredicted >= 0:
        predicted = predicted.where(predicted.relation != graph.unpredicted)

    def write(folder: Path) -> str:
        entities, relations = graph_sizes(graph)
        facts = (graph_facts(graph, relation, observed) for relation in range(relations))
        with FolderWriter(folder, TABLE) as writer:
            edges = overlaid(facts, predicted, entities, relations)
            write_table(writer, entities, edges, given_truth(graph, observed), may_miss)
            return writer.finish({"entities": entities, "threshold": threshold})

    return write


def graph_sizes(graph: KnowledgeGraph) -> tuple[int, int]:
    """How many entities and relations it has."""
    return len(graph.entities), len(graph.relations)
