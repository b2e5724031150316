"""STIX bundles as MITRE writes them: a small one, made by hand, with what real ones have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tuplet
from tuplet.errors import TupletError
from tuplet.read.read import gather

MARKS = {
    "created_by_ref": "identity--c78cb6e5-0c4b-4611-8297-d1b8b55e40b5",
    "object_marking_refs": ["marking-definition--fa42a846-8d90-4e51-bc29-71d5b4802168"],
    "x_mitre_version": "1.0",
}


def thing(kind: str, number: int, name: str, known_as: str | None, **more: Any) -> dict[str, Any]:
    """An object: its own id, and the one that people know it by."""
    references = [{"source_name": "A report", "url": "https://example.org/report"}]
    if known_as:
        references.insert(0, {"source_name": "mitre-attack", "external_id": known_as})
    return {
        "type": kind,
        "id": f"{kind}--{number:08d}",
        "created": f"2019-03-{number:02d}T12:00:00.000Z",
        "modified": "2025-04-28T15:31:30.051Z",
        "name": name,
        "external_references": references,
        **MARKS,
        **more,
    }


def link(number: int, head: str, relation: str, tail: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "relationship",
        "id": f"relationship--{number:08d}",
        "created": f"2024-06-{number:02d}T09:30:00.000Z",
        "relationship_type": relation,
        "source_ref": head,
        "target_ref": tail,
        **MARKS,
        **more,
    }


GROUP, TOOL = "intrusion-set--00000001", "tool--00000002"
DUMP, SUB, GONE = "attack-pattern--00000003", "attack-pattern--00000004", "attack-pattern--00000005"
PHASES = [{"kill_chain_name": "mitre-attack", "phase_name": "credential-access"}]
OBJECTS = [
    {
        "type": "identity",
        "id": MARKS["created_by_ref"],
        "name": "The MITRE Corporation",
        "identity_class": "organization",
    },
    thing("x-mitre-tactic", 9, "Credential Access", "TA0006", x_mitre_shortname="credential-access"),
    thing("intrusion-set", 1, "APT0", "G0900", aliases=["APT0", "Quiet Bear"], description="A group."),
    thing("tool", 2, "Dumper", "S0900", x_mitre_aliases=["Dumper"], x_mitre_platforms=["Windows", "Linux"]),
    thing("attack-pattern", 3, "OS Credential Dumping", "T1003", kill_chain_phases=PHASES),
    thing("attack-pattern", 4, "LSASS Memory", "T1003.001", kill_chain_phases=PHASES, x_mitre_is_subtechnique=True),
    thing("attack-pattern", 5, "Old Technique", "T1000", revoked=True),
    thing("course-of-action", 6, "Old Mitigation", "T1003", x_mitre_deprecated=False),  # older ones share their id
    thing("campaign", 7, "Unnamed by any relationship", None),
    link(1, GROUP, "uses", TOOL, description="[APT0](https://attack.mitre.org) has used Dumper.(Citation: A report)"),
    link(2, TOOL, "uses", DUMP),
    link(3, SUB, "subtechnique-of", DUMP),
    link(4, GROUP, "uses", GONE),
    link(5, GROUP, "uses", SUB, x_mitre_deprecated=True),
    link(6, "course-of-action--00000006", "mitigates", DUMP),
]


def bundle(path: Path, objects: list[Any] | None = None) -> Path:
    document = {"type": "bundle", "id": "bundle--1", "objects": OBJECTS if objects is None else objects}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_relationships_are_facts_with_dates_and_objects_have_labels_types_and_texts(tmp_path: Path) -> None:
    graph, report = gather(bundle(tmp_path / "enterprise-attack.json")).graph()
    heads, relation, tails, _ = graph.adjacency.triples()
    names = graph.entities.names(heads), graph.relations.names(relation), graph.entities.names(tails)
    facts = set(zip(*names, strict=True))
    assert {fact for fact in facts if fact[1] != "type"} == {
        ("G0900", "uses", "S0900"),
        ("S0900", "uses", "T1003"),
        ("T1003.001", "subtechnique_of", "T1003"),
        ("course-of-action--00000006", "mitigates", "T1003"),
        ("T1003", "has_tactic", "credential-access"),
        ("T1003.001", "has_tactic", "credential-access"),
        ("S0900", "on_platform", "Windows"),
        ("S0900", "on_platform", "Linux"),
    }
    assert ("G0900", "type", "intrusion-set") in facts
    assert ("credential-access", "type", "x-mitre-tactic") in facts
    assert graph.entities.label(graph.entities.find("credential-access")) == "Credential Access"
    assert report.remarks == [
        f"{tmp_path}/enterprise-attack.json: 1 relationship of objects that are not there, revoked or deprecated",
        f"{tmp_path}/enterprise-attack.json: 2 objects revoked or deprecated, left out",
    ]
    assert {(found.name, found.of, found.values) for found in report.attributes} == {
        ("aliases", "entities", 1),
        ("created", "entities", 5),
        ("modified", "entities", 5),
        ("description", "entities", 1),
        ("description", "facts", 1),
    }


def test_it_can_be_asked_by_label_alias_type_and_date(tmp_path: Path) -> None:
    graph = tuplet.read(bundle(tmp_path / "enterprise-attack.json"))
    query = 'SELECT ?tool ?tactic WHERE { "Quiet Bear" :uses ?tool . ?tool :uses/:has_tactic ?tactic . ?tool a :tool }'
    assert [answer.values for answer in graph.ask(query)] == [{"tool": "S0900", "tactic": "credential-access"}]
    told = graph.ask("MATCH (g)-[r:uses]->(t:tool) WHERE g.created < date('2020-01-01') RETURN t, r.description")
    assert "has used Dumper" in str(told[0].values["r.description"])
    _, relation, _, entry = graph.adjacency.triples()
    assert graph.date is not None
    dates = {int(date) for date in graph.date[entry[relation == graph.relations.find("uses")]]}
    assert dates == {1717234200, 1717320600}, "the mornings of 1 and 2 June 2024"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "is neither a STIX bundle nor JSON-LD; facts are read from .csv, .tsv and .parquet too"),
        ("[1, 2", "a.json:1: Expecting ',' delimiter at column 6; is this JSON?"),
        ('{"objects": [{"type": "tool"}]}', "object 1 has no type and id, as STIX objects have"),
        ('{"objects": []}', "no relationships between objects of the bundle"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_bundle_is_one_clear_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.json").write_text(content, encoding="utf-8")
    with pytest.raises(TupletError) as caught:
        tuplet.read(tmp_path / "a.json")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_date_that_is_none_and_columns_are_refused(tmp_path: Path) -> None:
    path = bundle(tmp_path / "a.json", [*OBJECTS[:5], link(1, GROUP, "uses", TOOL) | {"created": "yesterday"}])
    with pytest.raises(TupletError, match="relationship--00000001: the date 'yesterday' is not like 2024"):
        tuplet.read(path)
    with pytest.raises(TupletError, match="is a STIX bundle: its relationships need no columns"):
        tuplet.read(bundle(path), columns="head=1,relation=2,tail=3")


def test_json_ld_may_be_called_json(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"@id": "http://x/a", "http://x/r": {"@id": "http://x/b"}}))
    assert tuplet.read(tmp_path / "a.json").adjacency.edges == 1
