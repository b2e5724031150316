"""The graphs that ship with the package: countries, and MITRE ATT&CK."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tuplet.errors import unknown
from tuplet.graph.graph import KnowledgeGraph

DATA = Path(__file__).parents[1] / "data"
BUNDLED = ("world", "attack")


def bundled(name: str = "world") -> KnowledgeGraph:
    """A graph that ships with the package: `world` (countries) or `attack` (groups, software, techniques, by date).

    >>> graph = bundled("attack")
    >>> graph.adjacency.edges, graph.entities.label(graph.entities.find("G0016"))
    (25960, 'APT29')
    """
    from tuplet.read.read import read

    if name not in BUNDLED:
        raise unknown("bundled graph", name, BUNDLED)
    folder = DATA / name
    if name == "world":
        return read(folder / "facts.tsv", labels=[folder / "labels.tsv"])
    return read(folder / "facts.tsv.gz", nodes=folder / "objects.tsv.gz")


def example_files() -> Iterator[Path]:
    """The files of example queries beside these graphs."""
    return (DATA / name / "examples.toml" for name in BUNDLED)
