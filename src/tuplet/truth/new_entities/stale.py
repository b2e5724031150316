"""Which predictions of a store do not know of its new entities yet."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.truth.edges import observed_facts
from tuplet.truth.scored import EdgeColumns
from tuplet.truth.store_folder import StoreFiles

FEWEST = 600  # facts to learn from, of which half can be hidden
LEAST = 0.02  # share of the facts of a row that must be about new entities, or it hardly says anything else than before


class StaleRows(NamedTuple):
    """Rows of older entities that got facts about new ones: entity and view (2r from head to tail, 2r + 1 back)."""

    entity: NDArray[np.int64]
    view: NDArray[np.int64]


def known_facts(store: StoreFiles) -> EdgeColumns:
    """The observed facts of a store."""
    return observed_facts(store.graph, store.meta.observed)[:3]


def facts_before(facts: EdgeColumns, first: int) -> EdgeColumns:
    """The facts without those about entities from an id on."""
    kept = (facts[0] < first) & (facts[2] < first)
    return facts[0][kept], facts[1][kept], facts[2][kept]


def facts_met(store: StoreFiles, facts: EdgeColumns) -> EdgeColumns:
    """The facts that the rows around new entities know of."""
    kept = ~_unmet(store, facts)
    return facts[0][kept], facts[1][kept], facts[2][kept]


def _unmet(store: StoreFiles, facts: EdgeColumns) -> NDArray[np.bool_]:
    """Which facts are about new entities, or came later, than what the rows around these know of."""
    entities, relations = len(store.graph.entities), len(store.graph.relations)
    later = np.array(store.meta.new.later, dtype=np.int64).reshape(-1, 3).T
    numbers = [(side[0] * relations + side[1]) * entities + side[2] for side in (later, np.asarray(facts, np.int64))]
    since = first_unmet(store)
    return (facts[0] >= since) | (facts[2] >= since) | np.isin(numbers[1], numbers[0])


def never(store: StoreFiles) -> str | None:
    """Why nothing can be predicted about new entities of a store, if so; one that is too small may grow."""
    facts = store.meta.report.facts
    few = None if facts >= FEWEST else f"{facts:,} facts are too few to learn from, {FEWEST} are needed"
    return store.meta.no_newcomers or few


def first_new(store: StoreFiles) -> int:
    """The id from which on entities came after the truth values were made."""
    return len(store.graph.entities) - store.meta.changes.new_entities


def first_unmet(store: StoreFiles) -> int:
    """The id from which on the rows around new entities do not know of them."""
    return first_new(store) + store.meta.new.met


def stale_rows(store: StoreFiles, facts: EdgeColumns | None = None) -> StaleRows:
    """The rows around new entities that do not know of them, in order of their entities."""
    none = np.zeros(0, dtype=np.int64)
    since, views = first_unmet(store), 2 * len(store.graph.relations)
    all_met = since >= len(store.graph.entities) and not store.meta.new.later
    if all_met or store.meta.no_newcomers is not None:
        return StaleRows(none, none)
    facts = facts or known_facts(store)
    heads, relation, tails = (np.asarray(side, dtype=np.int64) for side in facts)
    near = np.concatenate([heads, tails])
    code = near * views + np.concatenate([2 * relation, 2 * relation + 1])
    about_new = np.tile(_unmet(store, facts), 2) & (near < first_new(store))
    rows, new = np.unique(code[about_new], return_counts=True)
    all_of_them = np.isin(code, rows)
    total = np.bincount(np.searchsorted(rows, code[all_of_them]), minlength=len(rows))
    rows = rows[new >= LEAST * total]
    return StaleRows(rows // views, rows % views)


def told(store: StoreFiles) -> dict[str, Any]:
    """What `tuplet info` says of the new entities; nothing where there are none."""
    new, count = store.meta.new, store.meta.changes.new_entities
    if not count:
        return {}
    about: dict[str, Any] = {"count": count, "waiting": len(new.ids)}
    if (why := never(store) or new.why) is not None:
        return {"new_entities": about | {"why": why}}
    stale = stale_rows(store)
    about["stale"] = {"entities": len(np.unique(stale.entity)), "rows": len(stale.entity)}
    if new.calibration is not None:
        about["calibration"] = {"made": new.calibration["made"], "reliability": new.calibration["reliability"]}
    return {"new_entities": about}
