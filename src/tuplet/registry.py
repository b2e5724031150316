"""Everything that is chosen by name: engines, predictors, calibrations, readers, languages, indexes of NS3.

Ours are listed here, in the form of entry points, so that they are found where the package is not installed. Everybody
else's come from entry points of the groups `tuplet.engines`, `tuplet.predictors`, … or, on the command line and in
Python, as `module:Class`. Nothing is imported before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal, TypeAlias

from tuplet.errors import BadInput, unknown

Kind: TypeAlias = Literal["engines", "predictors", "calibrations", "readers", "languages", "indexes"]

OURS: Mapping[Kind, Mapping[str, str]] = {
    "engines": {
        "exact": "tuplet.engines.exact.engine:Exact",
        "crisp": "tuplet.engines.crisp.engine:Crisp",
        "brute": "tuplet.engines.brute:Brute",
        "ns3": "tuplet.engines.ns3.engine:Ns3",
        "ns3-marginal": "tuplet.engines.ns3.engine:Ns3Marginal",
        "fit": "tuplet.baselines.engine:FitEngine",
        "qto": "tuplet.baselines.engine:QtoEngine",
        "cqd": "tuplet.baselines.engine:CqdEngine",
        "lmpnn": "tuplet.baselines.engine:LmpnnEngine",
        "betae": "tuplet.baselines.engine:BetaEEngine",
        "logice": "tuplet.baselines.engine:LogicEEngine",
        "cone": "tuplet.baselines.engine:ConEEngine",
    },
    "predictors": {
        "complex": "tuplet.predict.embeddings:ComplEx",
        "distmult": "tuplet.predict.embeddings:DistMult",
        "rotate": "tuplet.predict.embeddings:RotatE",
        "transe": "tuplet.predict.embeddings:TransE",
        "paths": "tuplet.predict.paths.model:PathModel",
        "any-graph": "tuplet.predict.paths.model:AnyGraphModel",
    },
    "calibrations": {
        "softmax-count": "tuplet.truth.rules:softmax_count",
        "observed-mass": "tuplet.truth.rules:observed_mass",
    },
    "readers": {  # by the suffix of a file; what a reader is, says tuplet.graph.readers
        ".tsv": "tuplet.graph.readers.text:read_tsv",
        ".txt": "tuplet.graph.readers.text:read_tsv",
        ".csv": "tuplet.graph.readers.text:read_csv",
        ".parquet": "tuplet.graph.readers.tables:read_parquet",
        ".pq": "tuplet.graph.readers.tables:read_parquet",
        ".nt": "tuplet.graph.readers.rdf:read_ntriples",
        ".ttl": "tuplet.graph.readers.rdf:read_turtle",
        ".nq": "tuplet.graph.readers.rdf:read_nquads",
        ".trig": "tuplet.graph.readers.rdf:read_trig",
        ".rdf": "tuplet.graph.readers.rdf:read_rdfxml",
        ".owl": "tuplet.graph.readers.rdf:read_rdfxml",
        ".jsonld": "tuplet.graph.readers.rdf:read_jsonld",
        ".json": "tuplet.graph.readers.stix:read_json",
        ".graphml": "tuplet.graph.readers.property_graphs:read_graphml",
        ".duckdb": "tuplet.graph.readers.databases:read_duckdb",
        ".lbug": "tuplet.graph.readers.databases:read_ladybug",
    },
    "languages": {},
    "indexes": {"neural": "tuplet.baselines.trained.index:NeuralIndex"},  # which entities NS3 searches; beside messages
}

# What a thing must have to be of its kind; predictors and calibrations are checked where they are used.
NEEDED: Mapping[Kind, tuple[str, ...]] = {
    "engines": ("name", "summary", "plan", "run", "score"),
    "readers": ("__call__",),
}


def names(kind: Kind) -> tuple[str, ...]:
    """What there is of a kind, ours first."""
    return tuple(dict.fromkeys([*OURS[kind], *_installed(kind)]))


def find(kind: Kind, name: str, modules: bool = False) -> Any:
    """The thing of a name, made once: a class is called; `modules` also takes `module:Class`.

    >>> find("engines", "exat")
    Traceback (most recent call last):
    tuplet.errors.UnknownName: unknown engine 'exat'; did you mean 'exact'?
    """
    found = _made(_place(kind, name, modules))
    for attribute in NEEDED.get(kind, ()):
        if not hasattr(found, attribute):
            raise BadInput(f"{name} is no {kind.removesuffix('s')}: it has no {attribute!r}")
    return found


def load(kind: Kind, name: str, modules: bool = False) -> Any:
    """What is registered by a name, as it is: a class is not called."""
    return _loaded(_place(kind, name, modules))


def _place(kind: Kind, name: str, modules: bool) -> str:
    if not isinstance(name, str):
        raise unknown(kind.removesuffix("s"), name, names(kind))
    if name in OURS[kind]:
        return OURS[kind][name]
    if name in _installed(kind):
        return _installed(kind)[name]
    if modules and ":" in name:
        return name
    raise unknown(kind.removesuffix("s"), name, names(kind))


@cache
def _installed(kind: Kind) -> dict[str, str]:
    """What other packages offer."""
    return {entry.name: entry.value for entry in entry_points(group=f"tuplet.{kind}")}


@cache
def _made(place: str) -> Any:
    found = _loaded(place)
    try:
        return found() if isinstance(found, type) else found
    except TypeError as error:  # a constructor that wants more, or a class with abstract methods
        raise BadInput(f"cannot make {place}: {error}") from None


def _loaded(place: str) -> Any:
    """The object at `module:name`."""
    module, _, attribute = place.partition(":")
    try:
        found = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module of somebody else may fail in any way
        raise BadInput(f"cannot load {place}: {error}") from error
    return found
