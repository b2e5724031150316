"""What is in a store: its relations, entities by what was typed, all about one entity, and queries to start from."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tuplet.graph.adjacency import Adjacency, consecutive
from tuplet.graph.attributes import FACTS, AttributeColumn, Plain, comparable, widest
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Finder
from tuplet.lang.ast import And, Atom, Constant, Different, Exists, Formula, Free, Name, Not, Query, Term, atoms, terms
from tuplet.lang.parse import parse
from tuplet.lang.print import to_logic, to_sparql, write_name
from tuplet.progress import counted
from tuplet.query.answers import json_value, show_entity
from tuplet.query.bind import resolve
from tuplet.query.display import Listing
from tuplet.query.source import Source
from tuplet.read.datasets import example_files
from tuplet.truth.table import Row

LONGEST = 40  # characters of a text that are shown
_TRIED = 20  # relations, and facts of each, that are looked at for an example


@dataclass(frozen=True)
class AttributeRow:
    """An attribute: of what, how many values it has, from where to where they reach, and one of them."""

    attribute: str
    of: str  # entities, or a relation whose facts have it
    kind: str
    values: int
    distinct: int
    low: str
    high: str
    example: str


@dataclass(frozen=True)
class EntityValue:
    """A value of an entity."""

    attribute: str
    value: bool | int | float | str  # dates and times as text
    kind: str
    language: str = ""


class EntityValues(Listing[EntityValue]):
    """All values of an entity; numbers are shown as they are, since a year is no amount."""

    def _shown(self) -> list[list[str]]:
        rows = [
            [row.attribute, format_value(row.value) + (f" @{row.language}" if row.language else "")] for row in self
        ]
        return [["attribute", "value"], *rows]


def attributes(graph: KnowledgeGraph) -> Listing[AttributeRow]:
    """All attributes of a graph, those of entities before those of facts; prints as a table."""
    groups: dict[tuple[bool, str, str], list[AttributeColumn]] = {}
    for column in graph.attributes.columns:
        if len(column):
            groups.setdefault((column.relation >= 0, column.name, column.family), []).append(column)
    rows = [_row(graph, columns) for _, columns in sorted(groups.items(), key=lambda group: group[0])]
    return Listing(rows, AttributeRow, prefixes=graph.prefixes)


def _row(graph: KnowledgeGraph, columns: Sequence[AttributeColumn]) -> AttributeRow:
    first = columns[0]
    of = "entities" if first.relation < 0 else graph.relations.name(first.relation)
    if len(columns) > 1:
        of = f"{len(columns):,} relations"
    ranges = [found for column in columns if (found := column.range()) is not None]
    low, high = min((low for low, _ in ranges), key=comparable), max((high for _, high in ranges), key=comparable)
    value, key = first.value(int(first.ranked.rank[0])), int(first.ranked.keys[0])
    ends = divmod(key, FACTS) if first.relation >= 0 else (key,)
    subject = ", ".join(graph.entities.name(end) for end in ends)
    return AttributeRow(
        first.name,
        of,
        widest([column.kind for column in columns]),
        sum(map(len, columns)),
        max(column.distinct for column in columns),
        format_value(low),
        format_value(high),
        f"{subject} = {format_value(value)}",
    )


def summarize_attributes(graph: KnowledgeGraph) -> dict[str, str]:
    """Each attribute in a few words."""
    found: dict[str, list[str]] = {}
    for row in attributes(graph):
        found.setdefault(row.attribute, []).append(f"{row.kind}, {row.values:,} of {row.of}")
    return {name: "; ".join(words) for name, words in sorted(found.items())}


def values_of_entity(graph: KnowledgeGraph, entity: int) -> EntityValues:
    """All values of an entity, by attribute."""
    rows = [
        EntityValue(column.name, json_value(value), column.kind, tag)
        for column in graph.attributes.columns
        if column.relation < 0
        for value, tag in column.tagged_values_of(entity)
    ]
    return EntityValues(sorted(rows, key=lambda row: row.attribute), EntityValue, prefixes=graph.prefixes)


def format_value(value: Plain) -> str:
    """A value for people; a long text is cut.

    >>> format_value(True), format_value(0.1), format_value(2001), format_value("word " * 20)
    ('true', '0.1', '2001', 'word word word word word word word word…')
    """
    if isinstance(value, bool):
        return str(value).lower()
    text = f"{value:.6g}" if isinstance(value, float) else str(json_value(value))
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"


@dataclass(frozen=True)
class RelationRow:
    """A relation: how many facts it has, how many are predicted, and one of its facts."""

    relation: str
    label: str
    facts: int
    predicted: int | None  # None: nothing is, or rows are computed on demand
    head: str
    tail: str
    base_rate: float | None = None  # the chance that a head and a tail of it are a missing fact; None: not calibrated
    lift: int | None = None  # how many times that truth 0.3 is


@dataclass(frozen=True)
class FoundName:
    """An entity or a relation that was searched for."""

    name: str
    label: str


@dataclass(frozen=True)
class EntityFact:
    """A fact about one entity, stated or predicted."""

    head: str
    relation: str
    tail: str
    truth: float
    status: Literal["observed", "predicted"]
    head_label: str = ""
    tail_label: str = ""


class EntityFacts(Listing[EntityFact]):
    """All about one entity; shown by labels."""

    def _shown(self) -> list[list[str]]:
        rows = []
        for f in self:
            head, tail = show_entity(f.head, f.head_label), show_entity(f.tail, f.tail_label)
            rows.append([head, f.relation, tail, f"{f.truth:.4g}", f.status])
        return [["head", "relation", "tail", "truth", "status"], *rows]


def by_facts(source: Source) -> list[int]:
    """The relations, those with most facts first."""
    stated, name = source.facts.relation_edges, source.graph.relations.name
    return sorted(range(len(stated)), key=lambda r: (-stated[r], name(r)))


def relations(source: Source) -> Listing[RelationRow]:
    """The relations of a source, those with most facts first."""
    graph, facts, words, listed = source.graph, source.facts, source.graph.entities, None
    stated = facts.relation_edges
    if source.truth is not None and source.truth.tabulated:
        listed = source.truth.table(()).adjacency.relation_edges - stated  # to count edges is not to read them
    rows = []
    for r in by_facts(source):
        ends = facts.first_entity(2 * r), -1
        if ends[0] >= 0:
            ends = ends[0], int(facts.row(ends[0], 2 * r)[0])
        head, tail = (show_entity(words.name(i), words.label(i)) if i >= 0 else "" for i in ends)
        predicted = None if listed is None else int(listed[r])
        rate = source.base_rates[r] if source.base_rates else None
        lift = round(0.3 / rate) if rate else None
        name, label = graph.relations.name(r), graph.relations.label(r)
        rows.append(RelationRow(name, label, int(stated[r]), predicted, head, tail, rate, lift))
    return Listing(rows, RelationRow, prefixes=graph.prefixes, attributes=attributes(graph))


def find(source: Source, text: str, k: int, relations: bool) -> Listing[FoundName]:
    """The entities (or relations) whose name or label begins with a text or contains it, best first."""
    words = source.graph.relations if relations else source.graph.entities
    found = Finder(words).find(text, k)
    return Listing([FoundName(words.name(i), words.label(i)) for i in found], FoundName, prefixes=source.graph.prefixes)


def entity_id(source: Source, name: str) -> int:
    """The entity of a name, with or without a prefix, or of a label that no other has."""
    entities = source.graph.entities
    name = name if entities.find(name) >= 0 else source.graph.prefixes.whole(name)
    labelled = entities.find_label(name)
    return labelled[0] if entities.find(name) < 0 and len(labelled) == 1 else resolve(Name(name), "entity", entities)


def neighbours(source: Source, entity: int, relation: int, inverse: bool) -> tuple[Row, Row]:
    """The stated and the predicted neighbours of an entity, best first; equals come in order of their names."""
    rank = source.graph.entities.sort_rank
    if source.truth is None:
        ids = source.facts.row(entity, 2 * relation + inverse)
        row = Row(ids, np.ones(len(ids)), np.ones(len(ids), dtype=bool))
    else:
        row = source.truth.row(entity, relation, inverse)
    order = np.lexsort((rank[row.ids], -row.truth))
    parts = order[row.observed[order]], order[~row.observed[order]]
    stated, predicted = (Row(row.ids[places], row.truth[places], row.observed[places]) for places in parts)
    return stated, predicted


def entity(source: Source, name: str, k: int) -> EntityFacts:
    """What is stated and predicted about an entity: of each relation and direction the `k` best of both."""
    entities, words = source.graph.entities, source.graph.relations
    known = entity_id(source, name)
    found: dict[tuple[int, int, int], EntityFact] = {}
    total = {True: 0, False: 0}  # stated, and predicted
    for relation in range(len(words)):
        for inverse in (False, True):
            for row in neighbours(source, known, relation, inverse):
                again = inverse and bool((row.ids == known).any())  # a loop is seen from both ends
                total[bool(len(row.ids) and row.observed[0])] += len(row.ids) - again
                for other, truth, observed in zip(*(column[:k].tolist() for column in row), strict=True):
                    head, tail = (other, known) if inverse else (known, other)
                    found[head, relation, tail] = EntityFact(
                        entities.name(head),
                        words.name(relation),
                        entities.name(tail),
                        float(truth),
                        "observed" if observed else "predicted",
                        entities.label(head),
                        entities.label(tail),
                    )
    shown = show_entity(entities.name(known), entities.label(known))
    title = f"{shown}: {counted(total[True], 'fact')}, {counted(total[False], 'prediction')}"
    if len(found) < sum(total.values()):
        title += f" (shown are {k} of each at most, for each relation and direction)"
    values = values_of_entity(source.graph, known)
    return EntityFacts(list(found.values()), EntityFact, title, source.graph.prefixes, values)


# --- queries to start from: written for the bundled graphs, made from the facts of any other ----------------------


def examples(source: Source) -> list[dict[str, str]]:
    """A few queries that this source can answer: `title`, `query`, and `only` where predictions are asked for."""
    written = [one for file in example_files() for one in tomllib.loads(file.read_text(encoding="utf-8"))["example"]]
    known = []
    for example in written:
        body = parse(example["query"]).body
        names = [(source.graph.relations, atom.relation.text) for atom in atoms(body) if isinstance(atom, Atom)]
        names += [(source.graph.entities, term.name.text) for term in terms(body) if isinstance(term, Constant)]
        if all(words.find(name) >= 0 for words, name in names):
            known.append(example)
    if source.truth is None:
        known = [{key: value for key, value in example.items() if key != "only"} for example in known]
    return known or _from_facts(source)


def starting_queries(source: Source) -> list[str]:
    """One or two of them on a line each."""
    found = [" ".join(example["query"].split()) for example in examples(source)[:2]]
    often = source.graph.adjacency.relation_edges
    names = [source.graph.relations.name(int(often.argmax()))] if len(often) else []
    return found or [f"?x, ?y : {write_name(name)}(?x, ?y)" for name in names]


def _from_facts(source: Source) -> list[dict[str, str]]:
    """Queries along two real facts, so that each has an answer: one unknown, two, a shared one, a negation."""
    found = _two_facts(source.facts)
    if found is None:
        return []
    first, middle, second, end = found
    graph, (x, y, z) = source.graph, (Free("x"), Free("y"), Exists("z"))

    def atom(relation: int, head: Term, tail: Term | int) -> Formula:
        if isinstance(tail, int):
            tail = Constant(Name(graph.entities.name(tail)))
        return Atom(Name(graph.relations.name(relation)), head, tail)

    chain = (atom(first, x, y), atom(second, y, end))
    shared = (atom(first, x, z), atom(first, y, z), atom(second, z, end), Different(x, y))
    return [
        {"title": "One unknown", "query": to_sparql(Query((x,), atom(first, x, middle)))},
        {"title": "Two unknowns in a chain", "query": to_logic(Query((x, y), And(chain)))},
        {"title": "Two unknowns that share something", "query": to_logic(Query((x, y), And(shared)))},
        {
            "title": "Two unknowns, and something that must not hold",
            "query": to_sparql(Query((x, y), And((*chain, Not(atom(first, y, x)))))),
        },
    ]


def _two_facts(facts: Adjacency) -> tuple[int, int, int, int] | None:
    """Two facts in a row over relations that are used often: first(_, middle), second(middle, end)."""
    rng = np.random.default_rng(0)
    often = np.argsort(-facts.relation_edges, kind="stable")[:_TRIED].tolist()
    for first in often:
        for middle in _ends(facts, 2 * first, rng):
            for second in often:
                ends = facts.row(middle, 2 * second)
                if second != first and len(ends):
                    return first, middle, second, int(ends[0])
    return None


def _ends(facts: Adjacency, view: int, rng: np.random.Generator) -> list[int]:
    """The ends of some facts of a view."""
    count = int(facts.view_entries[view])
    if not count:
        return []
    own, chosen = facts.view(view), rng.integers(0, count, _TRIED)
    entries = own.starts[0] + chosen if isinstance(own.rows, slice) else consecutive(own.starts, own.lengths)[chosen]
    ends: list[int] = facts.neighbour[entries].tolist()
    return ends
