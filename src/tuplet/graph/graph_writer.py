"""How a graph is written: relation by relation, in memory or straight into a folder, to the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.array_folder import content_hash
from tuplet.graph.adjacency import LAYOUT, Adjacency
from tuplet.graph.graph import KIND, SPLITS, KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.graph.views import NO_VIEWS, ArraySink, GrowingArrays, ViewsWriter, relation_views


class GraphWriter:
    """Writes a graph into a sink, one relation after the other."""

    def __init__(self, sink: ArraySink, entities: Vocabulary, relations: Vocabulary) -> None:
        self._sink, self._views = sink, ViewsWriter(sink)
        self._entities, self._relations = entities, relations
        self._counts = np.zeros(len(SPLITS) + 1, np.int64)

    def relation(
        self, heads: NDArray[np.integer], tails: NDArray[np.integer], columns: Mapping[str, NDArray[Any]]
    ) -> None:
        """Add the distinct edges of the next relation, with their split and perhaps weight and date."""
        self._counts += np.bincount(columns["split"], minlength=len(self._counts))
        views = relation_views(heads, tails, len(self._entities)) if len(heads) else NO_VIEWS
        self._views.relation(views, {name: column[views.edge] for name, column in columns.items()})

    def finish(self, notes: Mapping[str, Any]) -> dict[str, Any]:
        """Add names, and where relations begin; what is returned is the meta of a folder."""
        self._views.finish()
        for vocabulary, prefix in ((self._entities, "entity_"), (self._relations, "relation_")):
            for name, array in vocabulary.arrays(prefix).items():
                self._sink.append(name, array)
        return {"notes": dict(notes), "counts": dict(zip(SPLITS, self._counts[1:].tolist(), strict=True))}


def graph_in_memory(write: Callable[[ArraySink], dict[str, Any]], old: KnowledgeGraph) -> KnowledgeGraph:
    """The graph that `write` writes, with the names of another."""
    sink = GrowingArrays()
    meta = write(sink)
    arrays = sink.arrays()
    adjacency = Adjacency(*(arrays[name] for name in LAYOUT))
    payload = (arrays["split"], arrays.get("weight"), content_hash(KIND, arrays, {}), meta["notes"], arrays.get("date"))
    return KnowledgeGraph(old.entities, old.relations, adjacency, *payload)
