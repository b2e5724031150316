"""Terms of RDF: names of nodes, kinds of literals, and terms of rdflib as those of pyoxigraph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import pyoxigraph as ox

from tuplet.errors import BadInput
from tuplet.graph.attributes import Kind

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
XSD = "http://www.w3.org/2001/XMLSchema#"
TYPE, REIFIES = RDF + "type", RDF + "reifies"
TRUTH = "truth"  # the last part of the IRI of the property that says how true an annotated fact is
GRAPH = "graph"  # the attribute of facts in a named graph

# Properties that say what a thing is called: its label is the first of these that it has; all of them find it.
LABELS = (RDFS + "label", SKOS + "prefLabel")
ALIASES = (*LABELS, SKOS + "altLabel")

Statement: TypeAlias = tuple[Any, Any, Any, Any]  # subject, predicate, object, graph: terms of pyoxigraph

_INTEGERS = """integer int long short byte unsignedInt unsignedLong unsignedShort unsignedByte nonNegativeInteger
positiveInteger nonPositiveInteger negativeInteger gYear"""
_KINDS: dict[str, Kind] = {
    **{XSD + name: "integer" for name in _INTEGERS.split()},
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


def of_rdflib(graph: Any) -> Iterator[Statement]:
    """The statements of an rdflib graph or dataset."""
    import rdflib

    default = ox.DefaultGraph()
    if isinstance(graph, rdflib.Dataset | rdflib.ConjunctiveGraph):
        for subject, predicate, value, context in graph.quads((None, None, None, None)):
            name = getattr(context, "identifier", context)
            plain = name is None or not isinstance(name, rdflib.URIRef) or str(name) == "urn:x-rdflib:default"
            yield _term(subject), _term(predicate), _term(value), default if plain else _term(name)
    else:
        for subject, predicate, value in graph:
            yield _term(subject), _term(predicate), _term(value), default


def _term(term: Any) -> Any:
    import rdflib

    try:
        if isinstance(term, rdflib.URIRef):
            return ox.NamedNode(str(term))
        if isinstance(term, rdflib.BNode):
            return ox.BlankNode(str(term))
        if isinstance(term, rdflib.Literal):
            if term.language:
                return ox.Literal(str(term), language=term.language)
            return ox.Literal(str(term), datatype=ox.NamedNode(str(term.datatype or XSD + "string")))
    except ValueError as error:
        raise BadInput(f"the rdflib graph has a term that is not RDF: {error}") from None
    raise BadInput(f"the rdflib graph has a {type(term).__name__}, which is not RDF")
