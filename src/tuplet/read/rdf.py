"""Facts from RDF: IRIs are names, literals are attributes by property, annotations of a truth make a weighted fact.

Labels (rdfs:label, skos:prefLabel) are attributes too: there may be several, in several languages. Named graphs are an
attribute of facts. Statements about a property, such as its comment, are not kept, but its label is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyoxigraph as ox

from tuplet.errors import BadInput, Option
from tuplet.graph.attributes import Kind
from tuplet.graph.names import NAMES
from tuplet.lang.reader import INTEGERS, XSD
from tuplet.read.cells import cast_words
from tuplet.read.facts import AttributeBatch, FactColumns
from tuplet.read.mapping import Choice
from tuplet.read.text import load, stem_and_type


def plain_name(name: str) -> str:
    """The name in an IRI of ours; any other is itself.

    >>> plain_name("urn:tuplet:name:New%20York"), plain_name("http://example.org/a")
    ('New York', 'http://example.org/a')
    """
    return unquote(name[len(NAMES) :]) if name.startswith(NAMES) else name


def with_plain_names(part: FactColumns) -> FactColumns:
    """The same facts, labels and values, of things by their plain names."""
    notes: dict[str, Any] = dict(part.notes)
    if "label_attributes" in notes:
        notes["label_attributes"] = [plain_name(name) for name in notes["label_attributes"]]
    if "type_relation" in notes:
        notes["type_relation"] = plain_name(notes["type_relation"])
    part = part.with_names(plain_name)
    return replace(
        part, notes=notes, values=tuple(replace(batch, name=plain_name(batch.name)) for batch in part.values)
    )


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
TYPE, REIFIES = RDF + "type", RDF + "reifies"
TRUTH = "truth"  # the last part of the IRI of the property that says how true an annotated fact is
GRAPH = "graph"  # the attribute of facts in a named graph

# Properties that say what a thing is called: its label is the first of these that it has; all of them find it.
LABELS = (RDFS + "label", SKOS + "prefLabel")
ALIASES = (*LABELS, SKOS + "altLabel")

_QUADS = ox.RdfFormat.N_QUADS
Statement: TypeAlias = tuple[Any, Any, Any, Any]  # subject, predicate, object, graph: terms of pyoxigraph

_KINDS: dict[str, Kind] = {
    **{XSD + name: "integer" for name in INTEGERS},
    **{XSD + name: "number" for name in ("decimal", "double", "float")},
    XSD + "boolean": "boolean",
    XSD + "date": "date",
    XSD + "dateTime": "time",
    XSD + "dateTimeStamp": "time",
}


def kind_of_datatype(datatype: str) -> Kind:
    """What kind of values a datatype has: a text unless it is known.

    >>> kind_of_datatype(XSD + "int"), kind_of_datatype("http://www.opengis.net/ont/geosparql#wktLiteral")
    ('integer', 'text')
    """
    return _KINDS.get(datatype, "text")


def last_part(iri: str) -> str:
    """What follows the last `#`, `/` or `:`.

    >>> last_part("http://x/ns#truth"), last_part("urn:x:truth"), last_part("truth")
    ('truth', 'truth', 'truth')
    """
    return iri.rsplit("#", 1)[-1].rsplit("/", 1)[-1].rsplit(":", 1)[-1]


def namespace(iri: str) -> str:
    """What precedes the last part."""
    return iri[: len(iri) - len(last_part(iri))]


def from_rdflib(graph: Any) -> Iterator[Statement]:
    """The statements of an rdflib graph or dataset."""
    import rdflib

    form = "nquads" if isinstance(graph, rdflib.Dataset | rdflib.ConjunctiveGraph) else "nt"
    default = ox.DefaultGraph()
    try:
        for subject, predicate, value, name in ox.parse(graph.serialize(format=form, encoding="utf-8"), _QUADS):
            named = isinstance(name, ox.NamedNode) and name.value != "urn:x-rdflib:default"
            yield subject, predicate, value, name if named else default
    except (SyntaxError, ValueError) as error:
        raise BadInput(f"the rdflib graph has a term that is not RDF: {error}") from None


Triple: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True)
class Annotations:
    """Statements about facts: how true they are, and values by property; and the nodes that stand for the facts."""

    truth: dict[Triple, float] = field(default_factory=dict)
    values: dict[tuple[str, Kind], dict[Triple, list[str]]] = field(default_factory=dict)
    reifiers: frozenset[Any] = frozenset()

    def add(self, fact: Triple, name: str, value: Any) -> None:
        """Take a statement about a fact."""
        if isinstance(value, ox.Literal) and last_part(name) == TRUTH:
            truth = float(value.value)
            if not 0 <= truth <= 1:
                raise ValueError(f"the truth {value.value} is outside [0, 1]")
            self.truth[fact] = max(truth, self.truth.get(fact, 0.0))
        elif isinstance(value, ox.NamedNode | ox.Literal):
            kind = kind_of_datatype(value.datatype.value) if isinstance(value, ox.Literal) else "text"
            self.values.setdefault((name, kind), {}).setdefault(fact, []).append(value.value)

    def batches(self, facts: Sequence[Triple]) -> Iterator[AttributeBatch]:
        """The attributes of facts."""
        for (name, kind), known in self.values.items():
            several = pa.array([known.get(fact) for fact in facts], pa.list_(pa.large_string()))
            values, _ = cast_words(several.values, kind)
            yield AttributeBatch(name, pa.ListArray.from_arrays(several.offsets, values))


def may_have_annotations(text: bytes) -> bool:
    """Whether a file may say something about statements: then all of it is kept in memory while it is read."""
    return any(mark in text for mark in (b"<<", b"{|", b"reifies", b"annotation", b"rdf:triple"))


def collect_annotations(statements: Iterable[Any], name: Callable[[Any], str | None]) -> Annotations:
    """What statements say about others; `name` gives the names of nodes."""
    reified: dict[Any, list[Triple]] = {}
    for subject, predicate, value, _ in statements:
        if isinstance(value, ox.Triple) and predicate.value == REIFIES:
            head, tail = name(value.subject), name(value.object)
            several = reified.setdefault(subject, [])
            if head is not None and tail is not None:
                several.append((head, value.predicate.value, tail))
    found = Annotations(reifiers=frozenset(reified))
    for subject, predicate, value, _ in statements if any(reified.values()) else ():
        for fact in reified.get(subject, ()):
            found.add(fact, predicate.value, value)
    return found


_BATCH = 1 << 18


def read_rdf(path: Path, columns: Choice | None = None, form: ox.RdfFormat | None = None) -> Iterator[FactColumns]:
    """The contents of an RDF file, some at a time; its suffix names the format if `form` does not."""
    if columns:
        raise BadInput(f"{path} is RDF: its subject, predicate and object need no ", Option("columns", None))
    suffix = stem_and_type(path.name)[1]
    form = form or (ox.RdfFormat.RDF_XML if suffix == ".owl" else None)
    form = form or ox.RdfFormat.from_extension(suffix[1:])
    text = bytes(load(path))
    try:
        parser = ox.parse(text, format=form)
        gathered = _Statements(str(path))
        ours = with_plain_names if NAMES.encode() in text else lambda part: part
        yield from map(ours, gathered.parts(list(parser) if may_have_annotations(text) else parser))
        yield ours(gathered.rest(dict(parser.prefixes)))
    except SyntaxError as error:
        raise BadInput(f"{path}:{error.lineno or 1}: {_one_line(error.msg)}") from None
    except ValueError as error:
        raise BadInput(f"{path}: {_one_line(str(error))}") from None


def from_rdf_graph(graph: Any) -> Iterator[FactColumns]:
    """What a graph of rdflib, or a store or dataset of pyoxigraph, says."""
    ours = type(graph).__module__.split(".")[0] == "pyoxigraph"
    gathered = _Statements("the RDF graph", namespaces=set())
    yield from gathered.parts(list(graph if ours else from_rdflib(graph)))
    # rdflib knows many prefixes that nobody has bound
    known, used = {} if ours else {prefix: str(iri) for prefix, iri in graph.namespaces()}, gathered.list_namespaces()
    yield gathered.rest({prefix: iri for prefix, iri in known.items() if iri in used})


def _one_line(message: str) -> str:
    """The parser quotes what it stumbled over, which may be a line end."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in message)


@dataclass
class _Literals:
    """Values of one property and datatype."""

    subjects: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    languages: list[str | None] = field(default_factory=list)


class _Statements:
    """Statements as they come; facts are given out in batches, all else at the end."""

    def __init__(self, where: str, namespaces: set[str] | None = None) -> None:
        self._where, self._noted = where, Annotations()
        self._namespaces = namespaces  # of the nodes and properties, if they are asked for
        self._blank: dict[str, str] = {}  # in order of appearance, so that the same file always gives the same graph
        self._facts: list[tuple[str, str, str]] = []
        self._graphs: dict[int, str] = {}  # of facts, by their place
        self._relations: set[str] = set()
        self._literals: dict[tuple[str, str], _Literals] = {}
        self._labels: dict[str, tuple[int, int, str]] = {}
        self._dropped: Counter[str] = Counter()
        self._annotated: set[tuple[str, str, str]] = set()

    def parts(self, statements: Iterable[Any]) -> Iterator[FactColumns]:
        """The facts among the statements."""
        facts, named, relations = self._facts, ox.NamedNode, self._relations
        if isinstance(statements, list):
            self._noted = collect_annotations(statements, self._name)
        reifiers = self._noted.reifiers
        for subject, predicate, value, graph in statements:
            name = predicate.value
            if reifiers and subject in reifiers:
                continue
            if type(subject) is named and type(value) is named:
                ends = subject.value, value.value  # nearly all are of this kind
            elif isinstance(value, ox.Literal):
                self._literal(subject, name, value)
                continue
            else:
                head, tail = self._name(subject), self._name(value)
                if head is None or tail is None:
                    self._dropped["statements about statements"] += 1
                    continue
                ends = head, tail
            if not isinstance(graph, ox.DefaultGraph):
                self._graphs[len(facts)] = self._name(graph) or ""
            facts.append((ends[0], name, ends[1]))
            relations.add(name)
            if len(facts) >= _BATCH:
                yield self._flush()
        if facts:
            yield self._flush()
        facts.extend(fact for fact in self._noted.truth if fact not in self._annotated)
        if facts:
            relations.update(relation for _, relation, _ in facts)
            yield self._flush()

    def _name(self, node: object) -> str | None:
        if isinstance(node, ox.NamedNode):
            return node.value
        if isinstance(node, ox.BlankNode):
            return self._blank.setdefault(node.value, f"_:b{len(self._blank)}")
        return None

    def _literal(self, subject: object, predicate: str, value: ox.Literal) -> None:
        name = self._name(subject)
        if name is None:
            self._dropped["statements about statements"] += 1
            return
        if predicate in LABELS:
            self._keep_label(name, predicate, value)
        found = self._literals.setdefault((predicate, value.datatype.value), _Literals())
        found.subjects.append(name)
        found.texts.append(value.value)
        found.languages.append(value.language)

    def _keep_label(self, name: str, predicate: str, value: ox.Literal) -> None:
        """Prefer a label without a language, then English, then any; the first one of its kind."""
        language = value.language
        rank = 0 if language is None else 1 if language.lower().split("-")[0] == "en" else 2
        known = self._labels.get(name)
        order = LABELS.index(predicate), rank
        if value.value and (known is None or order < known[:2]):
            self._labels[name] = (*order, value.value)

    def _flush(self) -> FactColumns:
        """The facts so far, as columns."""
        if self._namespaces is not None:
            self._namespaces.update(map(namespace, {name for fact in self._facts for name in fact}))
        values: list[AttributeBatch] = []
        if self._graphs:
            graphs = pa.array([self._graphs.get(i) for i in range(len(self._facts))], pa.large_string())
            values.append(AttributeBatch(GRAPH, graphs))
        values += self._noted.batches(self._facts)
        truth = None
        if known := self._noted.truth:
            self._annotated |= known.keys() & set(self._facts)
            truth = np.array([known.get(fact, 1.0) for fact in self._facts])
        part = FactColumns.from_triples(self._facts, truth=truth, values=tuple(values), blank_nodes=len(self._blank))
        self._facts.clear()
        self._graphs.clear()
        return part

    def list_namespaces(self) -> set[str]:
        """The namespaces of nodes and properties, where they were asked for."""
        return (self._namespaces or set()) | {namespace(name) for name, _ in self._literals}

    def rest(self, prefixes: dict[str, str]) -> FactColumns:
        """All but the facts, which are given out."""
        relations = pa.array(sorted(self._relations), pa.large_string())
        values: list[AttributeBatch] = []
        about = Counter[str]()
        for (predicate, datatype), found in self._literals.items():
            subjects = pa.array(found.subjects, pa.large_string()).dictionary_encode()
            keep = pc.invert(pc.is_in(subjects.dictionary, relations)).take(subjects.indices)
            about[predicate] += len(keep) - (pc.sum(keep).as_py() or 0)
            values += _type_literals(predicate, datatype, found, subjects, keep)
        for name in LABELS:
            about.pop(name, None)  # kept as the label of the relation
        remarks = [f"{self._where}: {count:,} {what} not read" for what, count in self._dropped.items() if count]
        if any(about.values()):
            named = ", ".join(f"{count:,} {name}" for name, count in about.items() if count)
            remarks.append(f"{self._where}: values of relations not kept: {named}")
        notes: dict[str, Any] = {}
        if prefixes:
            notes["prefixes"] = prefixes
        if TYPE in self._relations:
            notes["type_relation"] = TYPE
        if called := [name for name in ALIASES if any(name == predicate for predicate, _ in self._literals)]:
            notes["label_attributes"] = called
        return FactColumns(
            labels={name: label for name, (_, _, label) in self._labels.items()},
            blank_nodes=len(self._blank),
            values=tuple(values),
            remarks=tuple(remarks),
            notes=notes,
        )


def _type_literals(
    predicate: str, datatype: str, found: _Literals, subjects: pa.DictionaryArray, keep: pa.BooleanArray
) -> list[AttributeBatch]:
    """The values of a property and datatype; those that are not what their datatype says are texts."""
    if not pc.any(keep).as_py():
        return []
    texts, kind = pa.array(found.texts, pa.large_string()).filter(keep), kind_of_datatype(datatype)
    subjects = subjects.filter(keep)
    languages = pa.array(found.languages, pa.large_string()).filter(keep)
    if kind == "text":
        return [
            AttributeBatch(predicate, texts, subjects, None if languages.null_count == len(languages) else languages)
        ]
    values, bad = cast_words(texts, kind)
    batches = [AttributeBatch(predicate, values, subjects)]
    if bad is not None:
        batches.append(
            AttributeBatch(predicate, pc.if_else(pc.is_null(values), texts, pa.scalar(None, texts.type)), subjects)
        )
    return batches
