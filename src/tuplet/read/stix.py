"""STIX bundles: what MITRE publishes ATT&CK as, and threat intelligence in general. Relationships become facts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyoxigraph as ox

from tuplet.errors import BadInput, Option
from tuplet.graph.graph import NO_DATE
from tuplet.progress import counted
from tuplet.read.cells import parse_seconds
from tuplet.read.facts import AttributeBatch, FactColumns
from tuplet.read.mapping import TYPE_RELATION, Choice
from tuplet.read.rdf import read_rdf
from tuplet.read.text import BOM, load

StixObject: TypeAlias = Mapping[str, Any]

TACTIC, TACTIC_TYPE = "has_tactic", "x-mitre-tactic"
PLATFORM, PLATFORM_TYPE = "on_platform", "platform"
_ALIASES = ("aliases", "x_mitre_aliases")  # of groups and campaigns, of software


def read_json(path: Path, columns: Choice | None = None) -> Iterable[FactColumns]:
    """What a JSON file says: a STIX bundle, or JSON-LD."""
    text = bytes(load(path)).removeprefix(BOM)
    try:
        document = json.loads(text)
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}:{error.lineno}: {error.msg} at column {error.colno}; is this JSON?") from None
    except RecursionError:
        raise BadInput(f"{path}: nested too deeply") from None
    if isinstance(document, dict) and isinstance(document.get("objects"), list):
        if columns:
            raise BadInput(f"{path} is a STIX bundle: its relationships need no ", Option("columns", None))
        return [from_objects(str(path), document["objects"])]
    if b'"@' in text:
        return read_rdf(path, columns, ox.RdfFormat.JSON_LD)
    raise BadInput(f"{path} is neither a STIX bundle nor JSON-LD; facts are read from .csv, .tsv and .parquet too")


def from_objects(where: str, objects: Iterable[Any]) -> FactColumns:
    """What the objects of a bundle say, those that were revoked or deprecated aside.

    An object is called by the id it is known by (`G0016`), else by its own. A relationship is a fact with its date.
    Only objects that a relationship names are in the graph.

    >>> group = {"type": "intrusion-set", "id": "intrusion-set--1", "name": "APT29"}
    >>> tool = {"type": "tool", "id": "tool--2", "name": "PsExec", "external_references": [{"external_id": "S0029"}]}
    >>> uses = {"type": "relationship", "id": "relationship--3", "relationship_type": "uses",
    ...         "source_ref": "intrusion-set--1", "target_ref": "tool--2"}
    >>> found = from_objects("a.json", [group, tool, uses])
    >>> found.head.to_pylist()[0], found.relation.to_pylist()[0], found.tail.to_pylist()[0], found.labels["S0029"]
    ('intrusion-set--1', 'uses', 'S0029', 'PsExec')
    """
    whole = [_object(where, place, one) for place, one in enumerate(objects, start=1)]
    known = {str(one["id"]): one for one in whole if one["type"] != "relationship" and _counts(one)}
    tactics = {str(one.get("x_mitre_shortname")): one for one in known.values() if one["type"] == TACTIC_TYPE}
    found = _Found(where)
    links = [one for one in whole if one["type"] == "relationship" and _counts(one)]
    ends = [(str(link.get("source_ref")), str(link.get("target_ref"))) for link in links]
    kept = [(link, pair) for link, pair in zip(links, ends, strict=True) if known.keys() >= {*pair}]
    named = {end for _, pair in kept for end in pair}
    name_of = _names(known[one] for one in known if one in named)
    for link, (source, target) in kept:
        relation = str(link.get("relationship_type", "related-to")).replace("-", "_")
        found.fact(name_of[source], relation, name_of[target], link)
    if not found.facts:
        raise BadInput(f"{where}: no relationships between objects of the bundle")
    for key, name in name_of.items():
        found.thing(name, known[key], tactics)
    dropped, gone = len(links) - len(kept), len(whole) - len(known) - len(links)
    remarks = [f"{where}: {counted(dropped, 'relationship')} of objects that are not there, revoked or deprecated"]
    remarks.append(f"{where}: {counted(gone, 'object')} revoked or deprecated, left out")
    return found.columns().with_remarks(*compress(remarks, (dropped, gone)))


def _object(where: str, place: int, one: Any) -> StixObject:
    if not isinstance(one, dict) or not isinstance(one.get("type"), str) or not isinstance(one.get("id"), str):
        raise BadInput(f"{where}: object {place} has no type and id, as STIX objects have")
    return one


def _counts(one: StixObject) -> bool:
    """Whether it is still held to be so."""
    return not one.get("revoked") and not one.get("x_mitre_deprecated")


def _names(objects: Iterable[StixObject]) -> dict[str, str]:
    """The name of each by its id: the first id that others know it by, unless an object before has it."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for one in objects:
        references = one.get("external_references") or ()
        outer = (str(r["external_id"]) for r in references if isinstance(r, dict) and r.get("external_id"))
        name = next((text for text in outer if text not in taken), str(one["id"]))
        taken.add(name)
        found[str(one["id"])] = name
    return found


@dataclass
class _Found:
    """Facts, labels and values as they are found."""

    where: str
    facts: list[tuple[str, str, str]] = field(default_factory=list)
    dates: list[int] = field(default_factory=list)
    descriptions: list[str | None] = field(default_factory=list)  # of each fact
    labels: dict[str, str] = field(default_factory=dict)
    values: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)

    def fact(self, head: str, relation: str, tail: str, because: StixObject, described: bool = True) -> None:
        """A fact, dated as the object that states it."""
        self.facts.append((head, relation, tail))
        self.dates.append(self._date(because, "created"))
        self.descriptions.append(str(because.get("description") or "").strip() or None if described else None)

    def thing(self, name: str, one: StixObject, tactics: Mapping[str, StixObject]) -> None:
        """What is known of one object: its label, types, tactics and platforms, and the texts about it."""
        self.fact(name, TYPE_RELATION, str(one["type"]), one, described=False)
        if one.get("name"):
            self.labels[name] = str(one["name"])
        for phase in _texts(one, "kill_chain_phases", "phase_name"):
            if phase not in self.labels:
                stated = tactics.get(phase, {})
                self.labels[phase] = str(stated.get("name") or phase.replace("-", " "))
                self.fact(phase, TYPE_RELATION, TACTIC_TYPE, stated, described=False)
            self.fact(name, TACTIC, phase, one, described=False)
        for platform in _texts(one, "x_mitre_platforms"):
            if platform not in self.labels:
                self.labels[platform] = platform
                self.fact(platform, TYPE_RELATION, PLATFORM_TYPE, {}, described=False)
            self.fact(name, PLATFORM, platform, one, described=False)
        other = [text for key in _ALIASES for text in _texts(one, key) if text != one.get("name")]
        for text in dict.fromkeys(other):
            self.values.setdefault("aliases", []).append((name, text))
        if one.get("description"):
            self.values.setdefault("description", []).append((name, str(one["description"])))
        for key in ("created", "modified"):
            if (date := self._date(one, key)) != NO_DATE:
                self.values.setdefault(key, []).append((name, date))

    def _date(self, one: StixObject, key: str) -> int:
        try:
            return parse_seconds(str(one.get(key) or ""))
        except ValueError as error:
            raise BadInput(f"{self.where}: {one.get('id')}: {error}") from None

    def columns(self) -> FactColumns:
        values = [AttributeBatch("description", pa.array(self.descriptions, pa.large_string()))]
        for name, rows in self.values.items():
            kind = pa.timestamp("s", "UTC") if name in ("created", "modified") else pa.large_string()
            subjects = pa.array([subject for subject, _ in rows], pa.large_string())
            values.append(AttributeBatch(name, pa.array([value for _, value in rows], kind), subjects))
        return FactColumns.from_triples(
            self.facts,
            date=np.array(self.dates, np.int64),
            labels=self.labels,
            values=tuple(values),
            notes={"type_relation": TYPE_RELATION},
        )


def _texts(one: StixObject, key: str, inner: str | None = None) -> Iterator[str]:
    """The texts of a list of texts, or of a list of objects that have one."""
    for value in one.get(key) or ():
        text = value.get(inner) if inner and isinstance(value, dict) else value
        if isinstance(text, str) and text:
            yield text
