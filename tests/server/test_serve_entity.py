"""The card of an entity: what is stated and predicted about it, page by page, within the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import tuplet
from tuplet.errors import UnknownName
from tuplet.query.limits import Deadline
from tuplet.server.entity_card import entity_card
from tuplet.server.models import CardBody
from tuplet.store import Store


@pytest.fixture(scope="module")
def earth(store_path: Path) -> Store:
    return tuplet.open(store_path)


def _ends(group: dict[str, Any], other: str) -> tuple[str, str, str]:
    return (other, group["relation"], "france") if group["inverse"] else ("france", group["relation"], other)


def test_a_card_has_what_the_list_has(earth: Store) -> None:
    card = entity_card(earth.source, "France", Deadline(), k=100, least=0.0)
    assert (card["name"], card["label"], card["pruned"]) == ("france", "France", None)
    assert {kind["name"] for kind in card["types"]} == {"sovereign_state"}
    listed = {(f.head, f.relation, f.tail, f.truth, f.status) for f in earth.entity("france", k=100)}
    shown = {
        (*_ends(g, one["name"]), one["truth"], kind)
        for g in card["relations"]
        for kind in ("observed", "predicted")
        for one in g[kind]["shown"]
    }
    assert shown == listed
    assert {"observed", "predicted"} <= {status for *_, status in listed}
    assert [bool(g["observed"]["count"]) for g in card["relations"]] == sorted(
        (bool(g["observed"]["count"]) for g in card["relations"]), reverse=True
    ), "what is stated comes first"


def test_one_relation_is_read_on_and_faint_predictions_are_left_out(earth: Store) -> None:
    whole = entity_card(earth.source, "france", Deadline(), k=100, relation="borders")["relations"][0]
    parts = [
        entity_card(earth.source, "france", Deadline(), k=3, offset=at, relation="borders")["relations"][0]
        for at in range(0, 12, 3)
    ]
    for kind in ("observed", "predicted"):
        assert [one for part in parts for one in part[kind]["shown"]] == whole[kind]["shown"]
        assert {part[kind]["count"] for part in parts} == {whole[kind]["count"]} == {len(whole[kind]["shown"])}
    cards = [entity_card(earth.source, "france", Deadline(), k=100, least=least) for least in (0.0, 0.5)]
    truths = [[one["truth"] for g in card["relations"] for one in g["predicted"]["shown"]] for card in cards]
    assert sorted(t for t in truths[0] if t >= 0.5) == sorted(truths[1])
    with pytest.raises(UnknownName, match="nowhere"):
        entity_card(earth.source, "nowhere", Deadline())
    with pytest.raises(UnknownName, match="bordrs"):
        entity_card(earth.source, "france", Deadline(), relation="bordrs")


def test_the_route_gives_the_card(client: httpx.Client, earth: Store) -> None:
    given = {"name": "France", "k": 3, "least": 0.2, "relation": "borders", "inverse": True, "offset": 2}
    found = client.get("/entity", params=given)
    assert found.json() == entity_card(earth.source, deadline=Deadline(), **given)  # type: ignore[arg-type]
    CardBody.model_validate(found.json())
    CardBody.model_validate(client.get("/entity", params={"name": "ann", "store": "people"}).json())
    assert client.get("/entity", params={"name": "Frnce"}).json()["suggestions"]
    for wrong in ({}, {"name": "france", "k": 101}, {"name": "france", "timeout": 1e9}, {"name": "", "k": "x"}):
        assert client.get("/entity", params=wrong).status_code == 422


def test_when_the_time_is_up_what_is_stated_is_still_told(earth: Store) -> None:
    late = Deadline(1.0, clock=iter([0.0, *[9.0] * 999]).__next__)
    card = entity_card(earth.source, "france", late)
    assert card["pruned"] == "timeout"
    assert [g for g in card["relations"] if g["predicted"]["count"]] == []
    whole = entity_card(earth.source, "france", Deadline())
    stated = [{(g["relation"], g["inverse"]) for g in c["relations"] if g["observed"]["count"]} for c in (card, whole)]
    assert stated[0] == stated[1]


def test_attributes_and_a_graph_without_predictions(people_path: Path) -> None:
    card = entity_card(tuplet.open(people_path).source, "ann", Deadline())
    values = {a["attribute"]: a["value"] for a in card["attributes"]}
    assert values == {"age": 30, "born": "1990-05-01", "nick": "Annie"}
    assert [(g["relation"], g["inverse"], g["observed"]["count"]) for g in card["relations"]] == [
        ("knows", False, 1),
        ("likes", True, 1),
    ]
