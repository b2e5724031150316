"""Facts from N-Triples and Turtle: IRIs are names, rdfs:label gives labels, other literals are no entities."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyoxigraph as ox

from tuplet.errors import BadInput, Option
from tuplet.graph.readers.columns import Choice
from tuplet.graph.readers.facts import FactColumns
from tuplet.graph.readers.load import load

_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_BATCH = 1 << 18


def read_ntriples(path: Path, columns: Choice | None = None) -> FactColumns:
    """The facts of an N-Triples file."""
    return read_rdf(path, ox.RdfFormat.N_TRIPLES, columns)


def read_turtle(path: Path, columns: Choice | None = None) -> FactColumns:
    """The facts of a Turtle file."""
    return read_rdf(path, ox.RdfFormat.TURTLE, columns)


def read_rdf(path: Path, form: ox.RdfFormat, columns: Choice | None = None) -> FactColumns:
    """The facts of an RDF file."""
    if columns:
        raise BadInput(f"{path} is RDF: its subject, predicate and object need no ", Option("columns", None))
    data = load(path)
    blank: dict[str, str] = {}  # in order of appearance, so that the same file always gives the same graph
    names: tuple[list[str], list[str], list[str]] = ([], [], [])
    chunks: tuple[list[pa.Array], list[pa.Array], list[pa.Array]] = ([], [], [])
    labels: dict[str, tuple[int, str]] = {}
    literals = 0

    def flush() -> None:
        for column, chunk in zip(names, chunks, strict=True):
            chunk.append(pa.array(column, pa.large_string()).dictionary_encode())
            column.clear()

    try:
        for triple in ox.parse(bytes(data), format=form):
            subject, predicate, value = triple.subject, triple.predicate.value, triple.object
            if isinstance(value, ox.Literal):
                if predicate == _LABEL and isinstance(subject, ox.NamedNode):
                    _keep_label(labels, subject.value, value)
                else:
                    literals += 1
                continue
            ends = [_name(node, blank) for node in (subject, value)]
            if None in ends:
                literals += 1
                continue
            for column, name in zip(names, (ends[0], predicate, ends[1]), strict=True):
                column.append(str(name))
            if len(names[0]) >= _BATCH:
                flush()
    except SyntaxError as error:
        raise BadInput(f"{path}:{error.lineno or 1}: {_one_line(error.msg)}") from None
    except ValueError as error:
        raise BadInput(f"{path}: {_one_line(str(error))}") from None
    flush()
    head, relation, tail = (pa.chunked_array(chunk) for chunk in chunks)
    if not len(head):
        raise BadInput(f"{path}: no facts between named things ({literals} literals)")
    stated = {name: label for name, (_, label) in labels.items()}
    return FactColumns(head, relation, tail, literals=literals, labels=stated, blank_nodes=len(blank))


def _one_line(message: str) -> str:
    """The parser quotes what it stumbled over, which may be a line end."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in message)


def _name(node: object, blank: dict[str, str]) -> str | None:
    if isinstance(node, ox.NamedNode):
        return node.value
    return blank.setdefault(node.value, f"_:b{len(blank)}") if isinstance(node, ox.BlankNode) else None


def _keep_label(labels: dict[str, tuple[int, str]], name: str, value: ox.Literal) -> None:
    """Prefer a label without a language, then English, then any; the first one of its kind."""
    language = value.language
    rank = 0 if language is None else 1 if language.lower().split("-")[0] == "en" else 2
    if value.value and (name not in labels or rank < labels[name][0]):
        labels[name] = rank, value.value
