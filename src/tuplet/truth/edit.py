"""Facts added to and removed from a store: at once, without retraining; predictions stay as they are, for now."""

from __future__ import annotations

import datetime
import math
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, Option, UnknownName, nearest
from tuplet.graph.attributes import FACTS, Plain
from tuplet.graph.graph import NO_DATE, KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.graph.versions import AttributeStates, EdgeStates, StoredValue, Subject, unite_values, values_now
from tuplet.truth.edges import ADDED, TRAIN, Floats
from tuplet.truth.store_folder import PATIENCE, StoreFiles, writing
from tuplet.truth.store_meta import StoreChanges, StoreMeta

Fact = tuple[str, str, str]
Ints = NDArray[np.int32]


@dataclass(frozen=True)
class NamedValue:
    """A value of an attribute of an entity, or of a fact, by name; without a value all of them are meant."""

    subject: str | Fact
    attribute: str
    value: Plain | None
    tag: str = ""  # language


def named_values(given: Any, removing: bool = False) -> list[NamedValue]:
    """What a user gave: tuples (entity, attribute, value), or a graph that has attributes.

    In place of the entity a fact (head, relation, tail) may stand, and a language tag may follow a text. To remove,
    the value may be left out.
    """
    if given is None:
        return []
    if isinstance(given, KnowledgeGraph):
        return list(_read_graph_values(given))
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise BadInput(f"attributes are a list of (entity, attribute, value), not {given!r}")
    return [_name_value(number, row, removing) for number, row in enumerate(given, start=1)]


def _name_value(number: int, row: Any, removing: bool) -> NamedValue:
    wanted = "(entity, attribute) or (entity, attribute, value)" if removing else "(entity, attribute, value)"
    fits = isinstance(row, tuple | list) and (2 if removing else 3) <= len(row) <= 4
    if not fits or not isinstance(row[1], str) or not row[1]:
        raise BadInput(f"attribute {number}: expected {wanted}, not {row!r}")
    subject = tuple(row[0]) if isinstance(row[0], tuple | list) else row[0]
    names = (subject,) if isinstance(subject, str) else subject
    if not isinstance(names, tuple) or len(names) not in (1, 3) or not all(isinstance(name, str) for name in names):
        raise BadInput(f"attribute {number}: {row[0]!r} is no entity, and no fact (head, relation, tail)")
    tag = row[3] if len(row) == 4 else ""
    value = _plain(row[2]) if len(row) > 2 else None
    if len(row) > 2 and value is None:
        raise BadInput(f"attribute {number}: {row[2]!r} is no number, text, date, true or false")
    if not isinstance(tag, str) or (tag and not isinstance(value, str)):
        raise BadInput(f"attribute {number}: only a text has a language tag, not {row[2:]!r}")
    return NamedValue(subject, row[1], value, tag)


def _plain(value: Any) -> Plain | None:
    """A value as it is kept; None if it cannot be."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return None
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return None
    return value if isinstance(value, bool | int | float | str | datetime.date) else None


def _read_graph_values(graph: KnowledgeGraph) -> Iterator[NamedValue]:
    name = graph.entities.name
    for column in graph.attributes.columns:
        keys, rank = column.ranked.keys.tolist(), column.ranked.rank.tolist()
        for row, key in enumerate(keys):
            subject: str | Fact = name(key)
            if column.relation >= 0:
                head, tail = divmod(key, FACTS)
                subject = (name(head), graph.relations.name(column.relation), name(tail))
            yield NamedValue(subject, column.name, column.value(rank[row]), column.tag(row))


def entity_names(values: Iterable[NamedValue]) -> Iterator[str]:
    """The entities that values speak of."""
    for value in values:
        if isinstance(value.subject, str):
            yield value.subject
        else:
            yield from (value.subject[0], value.subject[2])


def _find_subject(
    value: NamedValue, graph: KnowledgeGraph, ids: Mapping[str, int], more: EdgeStates | None = None
) -> Subject:
    """The subject of a value; a fact must be stated, or be among `more` that are being added."""
    if isinstance(value.subject, str):
        return Subject(value.attribute, -1, ids[value.subject])
    head, name, tail = value.subject
    relation = graph.relations.find(name)
    if relation < 0:
        raise UnknownName("relation", name, graph.relations.suggest(name))
    edge = [np.array([i], np.int32) for i in (relation, ids[head], ids[tail])]
    given = more is not None and more.find(*edge)[0] >= 0
    if not given and graph.adjacency.find_many(edge[1], edge[0], edge[2])[0] < 0:
        raise BadInput(f"{name}({head}, {tail}) is not stated: only stated facts have attributes")
    return Subject(value.attribute, relation, ids[head] * FACTS + ids[tail])


class _ValueChanges(NamedTuple):
    """The attributes that change, and in how many values."""

    states: AttributeStates
    added: int = 0
    removed: int = 0
    not_found: int = 0


def _add_values(graph: KnowledgeGraph, asked: _Change, more: EdgeStates, instead: bool) -> _ValueChanges:
    """Add values to those that are there; `instead` of those that are there if so asked."""
    given: dict[Subject, list[StoredValue]] = {}
    for value in asked.values:
        assert value.value is not None
        given.setdefault(_find_subject(value, graph, asked.ids, more), []).append(
            StoredValue.from_plain(value.value, value.tag)
        )
    states, added, removed = {}, 0, 0
    for subject, new in given.items():
        old = values_now(graph.attributes, subject)
        now = unite_values(new if instead else (*old, *new))
        before, after = {value.same for value in old}, {value.same for value in now}
        if before != after:
            states[subject] = now
            added, removed = added + len(after - before), removed + len(before - after)
    return _ValueChanges(AttributeStates(states), added, removed)


def _remove_values(graph: KnowledgeGraph, asked: _Change) -> _ValueChanges:
    """Remove single values, or all of an attribute."""
    states: dict[Subject, tuple[StoredValue, ...]] = {}
    removed = not_found = 0
    for value in asked.values:
        if value.attribute not in graph.attributes.names:
            raise UnknownName("attribute", value.attribute, nearest(value.attribute, graph.attributes.names))
        subject = _find_subject(value, graph, asked.ids)
        old = states.get(subject, values_now(graph.attributes, subject))
        if value.value is None:
            now: tuple[StoredValue, ...] = ()
        else:
            gone = StoredValue.from_plain(value.value, value.tag)
            # without a tag the text is meant in any language
            now = tuple(v for v in old if v.same[:2] != gone.same[:2] or (gone.tag and v.tag != gone.tag))
        removed, not_found = removed + len(old) - len(now), not_found + (len(old) == len(now))
        if len(now) < len(old):
            states[subject] = now
    return _ValueChanges(AttributeStates(states), 0, removed, not_found)


def _drop_values(graph: KnowledgeGraph, gone: EdgeStates) -> AttributeStates:
    """A fact that is gone has no attributes any more."""
    states: dict[Subject, tuple[StoredValue, ...]] = {}
    relations = set(np.unique(gone.relation).tolist())
    for column in graph.attributes.columns:
        if column.relation in relations:
            keys: NDArray[np.int64] = gone.key[gone.relation == column.relation]
            for key in keys[np.isin(keys, column.ranked.keys)].tolist():
                states[Subject(column.name, column.relation, key)] = ()
    return AttributeStates(states)


# So many names are looked up in a table of all, which takes a while to be made; fewer are searched for one by one.
MANY, MANY_SHARE = 5_000, 0.01

Triples = KnowledgeGraph | Iterable[tuple[Any, ...]]


@dataclass(frozen=True)
class EditReport:
    """What a change did, in facts."""

    added: int = 0
    already: Annotated[int, "were stated before"] = 0
    updated: Annotated[int, "were stated with another truth"] = 0
    removed: int = 0
    # how many the predictor still holds for true above the threshold; None: computed when asked
    shown_as_predicted: Annotated[int | None, "of the removed: are predicted now"] = 0
    not_found: Annotated[int, "were not stated"] = 0
    duplicates: Annotated[int, "were given more than once"] = 0
    new_entities: tuple[str, ...] = ()
    predicted: Annotated[int, "facts that are predicted about new entities now"] = 0
    values_added: Annotated[int, "of attributes"] = 0
    values_removed: int = 0
    waiting: Annotated[int, "new entities whose predictions, or some of them, `tuplet update` has to compute"] = 0
    why: Annotated[str | None, "nothing is predicted about them"] = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def add_facts(
    path: str | os.PathLike[str],
    facts: Triples,
    new_entities: bool = False,
    timeout: float = PATIENCE,
    held: StoreFiles | None = None,
    attributes: Any = None,
    replace_values: bool = False,
) -> tuple[EditReport, StoreFiles]:
    """Make facts observed: those of a graph (such as `read` gives), or tuples (head, relation, tail[, truth]) of names.

    An entity the store does not have is refused with the nearest names, or with `new_entities` added: it waits for
    predictions then (`new_entities.predict`). A relation it does not have is always refused. Changes wait their turn:
    after `timeout` seconds it is `StoreBusy`, and nothing has changed. `held` is the store as the caller has it open;
    what is returned beside the report is the store after the change.

    `attributes` are values to be added too (see `named_values`), beside those of the graph that is given; with
    `replace_values` they replace the values that an entity or a fact has of the same attribute.
    """
    with writing(path, timeout, held) as store:
        graph = store.graph
        values = named_values(facts if isinstance(facts, KnowledgeGraph) else None) + named_values(attributes)
        given = _resolve(graph, facts, values, new_entities)
        if not graph.weighted and (given.truth < 1).any():
            raise BadInput(
                f"{store.path} is not weighted: a fact there is true, it has no truth of {given.truth.min():g}"
            )
        now = states_of(store, *given.edges)
        updated = now.observed & (now.truth != given.truth)
        changed = ~now.observed | updated
        more = _add_values(graph, given, now, replace_values)
        report = EditReport(
            added=int((~now.observed).sum()),
            already=int((~changed).sum()),
            updated=int(updated.sum()),
            duplicates=given.duplicates,
            new_entities=tuple(given.fresh),
            values_added=more.added,
            values_removed=more.removed,
        )
        if not changed.any() and not more.states:
            return report, store
        states = now._replace(
            truth=given.truth,
            observed=np.ones_like(now.observed),
            source=np.where(now.observed, now.source, ADDED).astype(np.uint8),
            # an edge that another split had moves to train
            split=np.full_like(now.split, TRAIN),
            weight=given.truth,
        ).take(changed)
        listed = int((now.truth[changed] > 0).sum())
        meta = _count_changes(store, report, states.edges - listed, states)
        if not store.table.double and (states.truth != states.truth.astype(np.float32)).any():
            return report, _changed_in_double(store, states, given.fresh, meta, more.states)
        return report, store.apply_changes(states, given.fresh, meta, more.states)


def remove_facts(
    path: str | os.PathLike[str],
    facts: Triples,
    timeout: float = PATIENCE,
    held: StoreFiles | None = None,
    attributes: Any = None,
) -> tuple[EditReport, StoreFiles]:
    """Stop observing facts: each shows its prediction again, or is gone where that lies below the threshold.

    A fact that is gone loses its attributes. `attributes` says which values are removed beside that.
    """
    with writing(path, timeout, held) as store:
        given = _resolve(store.graph, facts, named_values(attributes, removing=True), None)
        now = states_of(store, *given.edges)
        gone = now.take(now.observed)
        states = gone._replace(
            truth=gone.prediction.astype(np.float64),
            observed=np.zeros_like(gone.observed),
            source=np.zeros_like(gone.source),
            split=np.zeros_like(gone.split),
        )
        shown = int((states.truth > 0).sum())
        less = _remove_values(store.graph, given)
        attribute_states = less.states.then(_drop_values(store.graph, gone))
        report = EditReport(
            removed=states.edges,
            shown_as_predicted=None if store.on_demand else shown,
            not_found=int((~now.observed).sum()) + less.not_found,
            duplicates=given.duplicates,
            values_removed=less.removed,
        )
        if not states.edges and not attribute_states:
            return report, store
        meta = _count_changes(store, report, shown - states.edges, states)
        return report, store.apply_changes(states, (), meta, attribute_states)


def states_of(store: StoreFiles, relation: Ints, heads: Ints, tails: Ints) -> EdgeStates:
    """What distinct edges are now; they come in order."""
    graph, table = store.graph, store.table
    truth, observed = table.lookup(heads, relation, tails)
    prediction, source = table.fact_values(heads, relation, tails)
    entry = graph.adjacency.find_many(heads, relation, tails)
    there = entry >= 0

    def known(column: NDArray[Any] | None, otherwise: float) -> NDArray[Any]:
        if column is None or not there.any():
            return np.full(len(entry), otherwise)
        return np.where(there, column[entry], otherwise)

    return EdgeStates.from_columns(
        relation=relation,
        heads=heads,
        tails=tails,
        truth=truth,
        observed=observed,
        prediction=np.where(observed, prediction, truth),
        source=source,
        split=known(graph.split, 0) * there,
        weight=known(graph.weight, 1.0),
        date=known(graph.date, NO_DATE),
    )


class NewEntity(UnknownName):
    """An entity that the store does not have and was not allowed to add.

    >>> print(NewEntity("asprin", ["aspirin"]))
    entity 'asprin' is not in the store; did you mean 'aspirin'? (new_entities=True adds it)
    """

    def __init__(self, name: str, suggestions: Iterable[str]) -> None:
        super().__init__("entity", name, suggestions, "is not in the store")
        self.parts = (*self.parts, " (", Option("new_entities"), " adds it)")
        self.args = (self.message,)


class _NamedFacts(NamedTuple):
    """Facts by name, each distinct name once."""

    entities: list[str]
    relations: list[str]
    edges: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # numbers into the two lists
    truth: Floats

    @staticmethod
    def from_facts(facts: Triples) -> _NamedFacts:
        if isinstance(facts, KnowledgeGraph):
            heads, relation, tails, entry = facts.adjacency.triples()
            truth = np.ones(len(entry), np.float32) if facts.weight is None else facts.weight[entry]
            entity_names, relation_names = (v.names(range(len(v))) for v in (facts.entities, facts.relations))
            edges = (heads.astype(np.int64), relation.astype(np.int64), tails.astype(np.int64))
            return _NamedFacts(entity_names, relation_names, edges, truth)
        entities: dict[str, int] = {}
        relations: dict[str, int] = {}
        rows, weights = array("q"), array("d")
        for number, fact in enumerate(facts, start=1):
            if not isinstance(fact, tuple | list | np.ndarray) or len(fact) not in (3, 4):
                raise _not_a_fact(number, fact)
            head, name, tail = fact[:3]
            if not (isinstance(head, str) and isinstance(name, str) and isinstance(tail, str)):
                raise _not_a_fact(number, fact)
            try:
                weight = float(fact[3]) if len(fact) == 4 else 1.0
            except (TypeError, ValueError):
                raise _not_a_fact(number, fact) from None
            if not 0 < weight <= 1:
                raise BadInput(f"fact {number}: its truth {weight:g} is not above 0 and at most 1")
            rows.append(entities.setdefault(head, len(entities)))
            rows.append(relations.setdefault(name, len(relations)))
            rows.append(entities.setdefault(tail, len(entities)))
            weights.append(weight)
        table = np.array(rows, dtype=np.int64).reshape(-1, 3)
        columns = (table[:, 0], table[:, 1], table[:, 2])
        return _NamedFacts(list(entities), list(relations), columns, np.array(weights, dtype=np.float64))


def _not_a_fact(number: int, fact: object) -> BadInput:
    return BadInput(f"fact {number}: expected (head, relation, tail), perhaps with a truth, not {fact!r}")


def _entities(vocabulary: Vocabulary, names: list[str], grow: bool | None) -> tuple[NDArray[np.int64], list[str]]:
    """Ids of the entity names, and the names that got a new id; None: nothing would let them have one."""
    ids = _find_ids(vocabulary, names)
    fresh: list[str] = []
    for place in np.flatnonzero(ids < 0).tolist():
        name = names[place]
        if grow is None:
            raise UnknownName("entity", name, vocabulary.suggest(name), "is not in the store")
        if not grow:
            raise NewEntity(name, vocabulary.suggest(name))
        if not name:
            raise BadInput("an entity without a name cannot be added")
        ids[place] = len(vocabulary) + len(fresh)
        fresh.append(name)
    return ids, fresh


def _find_ids(vocabulary: Vocabulary, names: list[str]) -> NDArray[np.int64]:
    """The ids of names, -1 where there is none. [names]"""
    if len(names) > max(MANY, MANY_SHARE * len(vocabulary)):
        import pyarrow as pa

        from tuplet.graph.name_table import NameTable

        try:
            wanted = pa.array(names)
        except UnicodeEncodeError:
            pass  # one of them is no name at all; who it is comes out one by one
        else:
            ids = NameTable.from_strings(vocabulary.strings).find(wanted).astype(np.int64)
            if vocabulary.more is not None:
                later = NameTable.from_strings(vocabulary.more.strings).find(wanted)
                ids = np.where((ids < 0) & (later >= 0), len(vocabulary.strings) + later, ids)
            return ids
    return np.array([vocabulary.find(name) for name in names], dtype=np.int64)


class _Change(NamedTuple):
    """A change as it was asked for, by id."""

    edges: tuple[Ints, Ints, Ints]  # relation, heads and tails of distinct facts, in this order
    truth: NDArray[np.float64]
    duplicates: int  # facts that were given again; the last truth counts
    values: list[NamedValue]
    ids: Mapping[str, int]  # of the entities
    fresh: list[str]  # entities that are new


def _resolve(graph: KnowledgeGraph, facts: Triples, values: list[NamedValue], grow: bool | None) -> _Change:
    """Facts and values by id; `grow` as in `_entities`."""
    given = _NamedFacts.from_facts(facts)
    names = list(dict.fromkeys([*given.entities, *entity_names(values)]))
    entity_ids, fresh = _entities(graph.entities, names, grow)
    relation_ids = np.zeros(len(given.relations), dtype=np.int32)
    for i, name in enumerate(given.relations):
        relation_ids[i] = graph.relations.find(name)
        if relation_ids[i] < 0:
            raise UnknownName("relation", name, graph.relations.suggest(name))
    ids = entity_ids.astype(np.int32)
    relation, heads, tails = relation_ids[given.edges[1]], ids[given.edges[0]], ids[given.edges[2]]
    order = np.lexsort((tails, heads, relation))
    columns = [column[order] for column in (relation, heads, tails)]
    last = np.ones(len(order), dtype=bool)
    last[:-1] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    relation, heads, tails = (column[last] for column in columns)
    truth = given.truth[order[last]].astype(np.float64)
    known = dict(zip(names, entity_ids.tolist(), strict=True))
    return _Change((relation, heads, tails), truth, len(order) - len(truth), values, known, fresh)


def _changed_in_double(
    store: StoreFiles, states: EdgeStates, names: Sequence[str], meta: StoreMeta, attributes: AttributeStates
) -> StoreFiles:
    """`StoreFiles.apply_changes`, with all truth in double precision from now on: a given truth is kept as it is."""
    table, entities = store.table.flat, store.graph.entities.extend_names(names)
    wide = replace(table, truth=table.truth.astype(np.float64), row_best=table.row_best.astype(np.float64))
    graph = replace(store.graph.edit(states, entities), attributes=attributes.apply_to(store.graph.attributes))
    return store.replace_tables(graph, wide.edit(states, len(entities)), meta)


def _count_changes(store: StoreFiles, report: EditReport, listed: int, states: EdgeStates) -> StoreMeta:
    """The meta of the store with its sizes now and the change noted; its reliability is that of before.

    New entities whose facts changed wait for predictions; the rows around those that these know of do not know all.
    """
    before, sizes, new = store.meta.changes, store.meta.report, store.meta.new
    changes = StoreChanges(
        before.added + report.added, before.removed + report.removed, before.new_entities + len(report.new_entities)
    )
    edges, facts = sizes.edges + listed, sizes.facts + report.added - report.removed
    predicted = None if sizes.predicted is None else edges - facts
    if store.meta.no_newcomers is None:
        first = len(store.graph.entities) - before.new_entities
        ends = np.unique(np.concatenate([states.heads, states.tails]))
        new = new.expecting(ends[ends >= first].tolist())
        newer, older = np.maximum(states.heads, states.tails), np.minimum(states.heads, states.tails)
        later = states.observed & (newer >= first) & (newer < first + new.met) & (older < first)
        facts_since = zip(
            *(side[later].tolist() for side in (states.heads, states.relation, states.tails)), strict=True
        )
        new = replace(new, later=tuple(dict.fromkeys([*new.later, *facts_since])))
    sizes = replace(sizes, edges=edges, facts=facts, predicted=predicted)
    return replace(store.meta, changes=changes, report=sizes, new=new)
