"""Public graphs by name, checked: the graph you score on is the one everybody scores on.

Two ship with the package. Nothing is downloaded: the public links of the others come and go. A copy on disk is found
through `--from-dir` or the variable TUPLET_DATA, in any file form the readers know, and is accepted only if its facts
are the published ones.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuplet.errors import BadInput, Option, unknown
from tuplet.graph.graph import SPLITS, KnowledgeGraph

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


@dataclass(frozen=True)
class PublicGraph:
    """A graph that everybody has: its name, its sizes and the checksum of its facts."""

    name: str
    entities: int
    relations: int
    train: int
    valid: int
    test: int
    sha256: str  # over the sorted lines "split<TAB>head<TAB>relation<TAB>tail"
    home: str  # where it is published

    def __str__(self) -> str:
        edges = f"{self.train + self.valid + self.test:,} edges ({self.test:,} test)"
        return f"{self.name:<10} {self.entities:>6,} entities  {self.relations:>5,} relations  {edges}"


_HOMES = {
    "betae": "github.com/snap-stanford/KGReasoning",  # numbers for names, and every edge in both directions
    "codex": "github.com/tsafavi/codex",
    "mitre": "github.com/mitre/cti; ships with tuplet",
    "pykeen": "github.com/pykeen/pykeen",  # in the folder of the package
    "tuplet": "ships with tuplet",
    "villmow": "github.com/villmow/datasets_knowledge_embedding",
}
# name, entities, relations, train, valid, test, checksum, home
_KNOWN = """
world      1057   16   5036     0     0 9a8e14ccfb02f4739852646f813432521be24878231155581e1a5a7a2b3b5983 tuplet
attack     2472    8  25960     0     0 f597a3e6a8f39bd6406dbd45ab297f04b563efeca45ad4b9d6385386ae136c78 mitre
fb15k-237 14505  237 272115 17526 20438 0d9b8c30e5e8f0e3a09be96d19acc2549eb5741ae737c7a65cdef1916e53b969 betae
fb15k     14951 1345 483142 50000 59071 24277ef27287113ad7f0ae1696c52580185fa4ca0c8cdb86b701859e3c25ec2a betae
nell995   63361  200 114213 14324 14267 04159c3e820734285951c73082e4cfb675cc97c374b5b0d66adbcab8ce111ff4 betae
wn18rr    40943   11  86835  3034  3134 347d6dbd62babc35f301432b8df3001e871963f3618a93f10c2316704acdcd82 villmow
codex-s    2034   42  32888  1827  1828 f28255034d6525bb84cc18b0bd4e230179a1168405f7a38ba5c3f29534cf0b16 codex
codex-m   17050   51 185584 10310 10311 dd1a120cb5d2cb3cb2535d079248e002889cc8ea91b6dc20824bce393f9e1eb8 codex
umls        135   46   5216   652   661 3a8f0608f2de468a3703b90db000ed67903772ccfc4e574e12875a681b3456d6 pykeen
kinships    104   25   8544  1068  1074 4e0b7a665b54ca73c5602fb964f8e5ea38562923ef08b5e5a7a6290da9a242e4 pykeen
nations      14   55   1592   199   201 8bb5d4d6155acb70e31458afbd4e7d81e56f5f8f7250892bb6943c4fd3475132 pykeen
"""


DATASETS: dict[str, PublicGraph] = {}  # all graphs that `fetch` knows
for _line in _KNOWN.strip().splitlines():
    _name, *_counts, _sum, _home = _line.split()
    _entities, _relations, _train, _valid, _test = map(int, _counts)
    DATASETS[_name] = PublicGraph(_name, _entities, _relations, _train, _valid, _test, _sum, _HOMES[_home])


def fetch(name: str, from_dir: str | os.PathLike[str] | None = None) -> KnowledgeGraph:
    """The graph of that name, verified."""
    if name not in DATASETS:
        raise unknown("benchmark graph", name, DATASETS)
    from tuplet.read.read import read

    graph = bundled(name) if name in BUNDLED else read(_folder(name, from_dir))
    found = digest(graph)
    wanted = DATASETS[name].sha256
    if found != wanted:
        raise BadInput(f"these are not the facts of {name}: checksum {found[:12]}…, expected {wanted[:12]}…")
    return graph


def digest(graph: KnowledgeGraph) -> str:
    """The checksum of the named facts of a graph and their splits, whatever file they came from."""
    entities, relations = list(graph.entities), list(graph.relations)
    lines = sorted(
        f"{split}\t{entities[h]}\t{relations[r]}\t{entities[t]}\n"
        for split in SPLITS
        for h, r, t in zip(*(part.tolist() for part in graph.edges(split)), strict=True)
    )
    sums = hashlib.sha256()
    for line in lines:
        sums.update(line.encode())
    return sums.hexdigest()


def _folder(name: str, from_dir: str | os.PathLike[str] | None) -> Path:
    roots = [Path(root) for root in (from_dir, os.environ.get("TUPLET_DATA")) if root]
    for root in roots:
        for folder in (root / name, root):
            if folder.is_dir() and any(file.name.startswith("train.") for file in folder.iterdir()):
                return folder
    where = f"not found in {roots[0]}" if roots else "cannot be downloaded by tuplet"
    raise BadInput(
        f"{name} {where}; get its train, valid and test files (head, relation, tail; published at "
        f"{DATASETS[name].home}) and pass their folder with ",
        Option("from_dir", None),
    )
