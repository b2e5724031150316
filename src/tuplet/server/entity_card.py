"""One entity as the page shows it: labels, types, attributes, and its neighbours relation by relation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tuplet.lang.ast import Name
from tuplet.query.bind import find_relation, relation_id
from tuplet.query.contents import entity_id, neighbours, values_of_entity
from tuplet.query.limits import Deadline
from tuplet.query.source import Source
from tuplet.truth.table import Row

# What graphs call the relation of an entity to its types, where the graph itself does not say which it is.
_TYPE_NAMES = ("type", "is_a", "instance_of", "isa", "instanceOf", "http://www.wikidata.org/prop/direct/P31")
_MOST_TYPES = 20


def entity_card(
    source: Source,
    name: str,
    deadline: Deadline,
    k: int = 5,
    offset: int = 0,
    least: float = 0.05,
    relation: str | None = None,
    inverse: bool = False,
) -> dict[str, Any]:
    """All about an entity: of each relation and direction `k` stated and `k` predicted neighbours after `offset`.

    Predictions of a truth below `least` are left out. With a `relation` it is that one alone, in one direction.
    """
    graph, entity = source.graph, entity_id(source, name)
    if relation is None:
        views = _views(source, entity)
    else:
        views = iter([(relation_id(Name(relation), graph), inverse)])
    groups, pruned = [], None
    for number, backwards in views:
        pruned = "timeout" if pruned or deadline.over() else None
        known = Source(graph, stated=source.facts) if pruned else source  # facts are there without being computed
        stated, predicted = neighbours(known, entity, number, backwards)
        likely = predicted.truth >= least
        predicted = Row(predicted.ids[likely], predicted.truth[likely], predicted.observed[likely])
        if len(stated.ids) or len(predicted.ids) or relation is not None:
            groups.append(
                {
                    "relation": graph.relations.name(number),
                    "label": graph.relations.label(number),
                    "inverse": backwards,
                    "observed": _part(source, stated, offset, k),
                    "predicted": _part(source, predicted, offset, k),
                }
            )
    groups.sort(key=_worth)
    return {
        "name": graph.entities.name(entity),
        "label": graph.entities.label(entity),
        "types": _types(source, entity),
        "attributes": values_of_entity(graph, entity).to_dicts(),
        "k": k,
        "offset": offset,
        "least": least,
        "pruned": pruned,
        "relations": groups,
    }


def _views(source: Source, entity: int) -> Iterator[tuple[int, bool]]:
    """Relations and directions: those with stated facts first, since rows on demand take time."""
    stated = [len(source.facts.row(entity, view)) for view in range(2 * len(source.graph.relations))]
    return ((int(view) // 2, bool(view % 2)) for view in np.argsort(-np.array(stated), kind="stable"))


def _worth(group: dict[str, Any]) -> tuple[bool, float, int]:
    """Sort key: stated before predicted, likelier before less likely, forward before inverse."""
    stated, predicted = group["observed"], group["predicted"]
    best = max((one["truth"] for one in predicted["shown"]), default=0.0)
    return not stated["count"], -best if not stated["count"] else 0.0, group["inverse"]


def _part(source: Source, row: Row, offset: int, k: int) -> dict[str, Any]:
    entities, part = source.graph.entities, slice(offset, offset + k)
    shown = [
        {"name": entities.name(other), "label": entities.label(other), "truth": float(truth)}
        for other, truth in zip(row.ids[part].tolist(), row.truth[part].tolist(), strict=True)
    ]
    return {"count": len(row.ids), "shown": shown}


def _types(source: Source, entity: int) -> list[dict[str, str]]:
    """The types of an entity, by stated facts."""
    graph = source.graph
    candidates = (graph.types, *(find_relation(Name(name), graph) for name in _TYPE_NAMES))
    relation = next((number for number in candidates if number >= 0), -1)
    if relation < 0:
        return []
    ids = source.facts.row(entity, 2 * relation)[:_MOST_TYPES].tolist()
    return [{"name": graph.entities.name(i), "label": graph.entities.label(i)} for i in ids]
