"""How a graph is written: relation by relation, in memory or straight into a folder, to the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import LAYOUT, Adjacency
from tuplet.graph.array_folder import content_hash
from tuplet.graph.attribute_tables import AttributeTable, is_read_later, of_tables, opened_tables
from tuplet.graph.graph import DATED, KIND, LOOPS, NO_DATE, SPLITS, KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.graph.views import NO_VIEWS, ArraySink, ViewsWriter, relation_views


class GraphWriter:
    """Writes a graph into a sink, one relation after the other."""

    def __init__(self, sink: ArraySink, entities: Vocabulary, relations: Vocabulary) -> None:
        self._sink, self._views = sink, ViewsWriter(sink)
        self.entities, self.relations = entities, relations
        self._counts = np.zeros(len(SPLITS) + 1, np.int64)
        self._others = {LOOPS: 0}

    def relation(
        self, heads: NDArray[np.integer], tails: NDArray[np.integer], columns: Mapping[str, NDArray[Any]]
    ) -> None:
        """Add the distinct edges of the next relation, with their split and perhaps weight and date."""
        self._counts += np.bincount(columns["split"], minlength=len(self._counts))
        self._others[LOOPS] += int(np.count_nonzero(heads == tails))
        if "date" in columns:
            self._others[DATED] = self._others.get(DATED, 0) + int(np.count_nonzero(columns["date"] != NO_DATE))
        views = relation_views(heads, tails, len(self.entities)) if len(heads) else NO_VIEWS
        self._views.relation(views, {name: column[views.edge] for name, column in columns.items()})

    @property
    def counts(self) -> dict[str, int]:
        """How many edges each split has so far."""
        return dict(zip(SPLITS, self._counts[1:].tolist(), strict=True))

    def finish(self, notes: Mapping[str, Any], attributes: Iterable[AttributeTable] = ()) -> dict[str, Any]:
        """Add names, attributes, and where relations begin; what is returned is the meta of a folder."""
        if not len(self.relations):  # nodes alone
            nothing = {"row_entity": np.zeros(0, np.int32), "neighbour": np.zeros(0, np.int32)}
            self._sink.section({**nothing, "split": np.zeros(0, np.uint8)})
        self._views.finish()
        for vocabulary, prefix in ((self.entities, "entity_"), (self.relations, "relation_")):
            for name, array in vocabulary.arrays(prefix).items():
                self._sink.append(name, array)
        meta: dict[str, Any] = {"notes": dict(notes), "counts": self.counts | self._others}
        described = []
        for number, table in enumerate(attributes):  # one after another: none waits for the others in memory
            for name, array in table.arrays(number).items():
                self._sink.append(name, array, is_read_later(name))
            described.append(table.described())
        return meta | ({"attributes": described} if described else {})


def graph_of_arrays(
    arrays: Mapping[str, NDArray[Any]], entities: Vocabulary, relations: Vocabulary, meta: Mapping[str, Any]
) -> KnowledgeGraph:
    """The graph that was written into `GrowingArrays`."""
    adjacency = Adjacency(*(arrays[name] for name in LAYOUT))
    payload = (arrays["split"], arrays.get("weight"), content_hash(KIND, arrays, meta), meta["notes"])
    attributes = of_tables(opened_tables(arrays, meta.get("attributes", ())))
    date, counts = arrays.get("date"), meta["counts"]
    return KnowledgeGraph(entities, relations, adjacency, *payload, date=date, counts=counts, attributes=attributes)
