"""The bundled graph: well formed, consistent, and true where everybody knows the answer."""

import re
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

import pytest

import tuplet

WORLD = Path(tuplet.__file__).parent / "data" / "world"
LINES = (WORLD / "facts.tsv").read_text(encoding="ascii").splitlines()
FACTS = {tuple(line.split("\t")) for line in LINES}
LABELS = dict(line.split("\t") for line in (WORLD / "labels.tsv").read_text(encoding="utf-8").splitlines())
ENTITIES = {name for head, _, tail in FACTS for name in (head, tail)}


def heads(relation: str, tail: str | None = None) -> set[str]:
    return {h for h, r, t in FACTS if r == relation and tail in (None, t)}


def tails(relation: str, head: str | None = None) -> set[str]:
    return {t for h, r, t in FACTS if r == relation and head in (None, h)}


COUNTRIES = heads("drives_on")
KINDS = {
    "country": COUNTRIES,
    "city": tails("has_capital") | tails("headquartered_in"),
    "class": tails("is_a"),
    "currency": tails("uses_currency"),
    "family": tails("in_family"),
    "historical state": tails("independent_from") - COUNTRIES,
    "language": tails("official_language"),
    "organisation": tails("member_of"),
    "region": {t for h, r, t in FACTS if r == "located_in" and h in COUNTRIES},
    "river": heads("flows_through"),
    "script": tails("written_in"),
    "sea": tails("has_coast_on"),
    "side": tails("drives_on"),
}
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
SIGNATURES = {
    "borders": {("country", "country")},
    "drives_on": {("country", "side")},
    "flows_into": {("river", "sea"), ("river", "river")},
    "flows_through": {("river", "country")},
    "has_capital": {("country", "city")},
    "has_coast_on": {("country", "sea")},
    "headquartered_in": {("organisation", "city")},
    "in_family": {("language", "family"), ("family", "family")},
    "independent_from": {("country", "country"), ("country", "historical state")},
    "is_a": {("country", "class")},
    "located_in": {("country", "region"), ("region", "region"), ("sea", "sea"), ("city", "country")},
    "member_of": {("country", "organisation"), ("organisation", "organisation")},
    "official_language": {("country", "language")},
    "territory_of": {("country", "country")},
    "uses_currency": {("country", "currency")},
    "written_in": {("language", "script")},
}


def test_files_are_sorted_without_duplicates_or_loops():
    assert all(len(fact) == 3 for fact in FACTS)
    assert len(LINES) == len(FACTS) >= 2_000
    assert [tuple(line.split("\t")) for line in LINES] == sorted(FACTS)
    assert list(LABELS) == sorted(LABELS)
    assert not [fact for fact in FACTS if fact[0] == fact[2]]


def test_names_are_ascii_snake_case():
    names = ENTITIES | {relation for _, relation, _ in FACTS}
    assert [name for name in names if not re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", name)] == []


def test_every_entity_has_one_label_of_its_own():
    assert set(LABELS) == ENTITIES
    assert all(LABELS.values())
    assert [label for label, count in Counter(LABELS.values()).items() if count > 1] == []
    assert LABELS["cote_d_ivoire"] == "Côte d’Ivoire"


def test_no_name_serves_two_kinds():
    for first, second in combinations(KINDS, 2):
        assert KINDS[first] & KINDS[second] == set(), f"{first} and {second} share a name"
    assert set(KIND_OF) == ENTITIES
    relations = {relation for _, relation, _ in FACTS}
    assert relations.isdisjoint(ENTITIES)


def test_relations_join_the_kinds_they_should():
    found = defaultdict(set)
    for head, relation, tail in FACTS:
        found[relation].add((KIND_OF[head], KIND_OF[tail]))
    assert dict(found) == SIGNATURES


def test_countries_are_complete():
    assert len(COUNTRIES) == 243
    for country in COUNTRIES:
        assert tails("uses_currency", country), country
        assert tails("official_language", country), country
        assert 1 <= len(tails("located_in", country)) <= 3, country
        assert len(tails("drives_on", country)) == 1, country
        status = tails("is_a", country) & {"sovereign_state", "partially_recognised_state", "dependent_territory"}
        assert len(status) == 1, country
        assert ("dependent_territory" in status) == bool(tails("territory_of", country)), country
    city_states = {"gibraltar", "hong_kong", "macau", "monaco", "singapore", "tokelau", "vatican_city"}
    assert COUNTRIES - heads("has_capital") == city_states


def test_a_capital_belongs_to_one_country():
    owners = Counter(tail for _, relation, tail in FACTS if relation == "has_capital")
    assert max(owners.values()) == 1


def test_borders_are_symmetric():
    borders = {(h, t) for h, r, t in FACTS if r == "borders"}
    assert borders == {(t, h) for h, t in borders}
    assert len(tails("borders", "china")) == 16
    assert len(tails("borders", "germany")) == 9
    assert len(tails("borders", "brazil")) == 10


def test_landlocked_countries_reach_no_ocean():
    inland = {"caspian_sea", "aral_sea"}
    for country in COUNTRIES:
        landlocked = "landlocked_country" in tails("is_a", country)
        assert landlocked == (tails("has_coast_on", country) <= inland), country


def test_subregions_agree_with_continents():
    for country in COUNTRIES:
        places = tails("located_in", country)
        assert {above for place in places for above in tails("located_in", place)} <= places, country


@pytest.mark.parametrize("relation", ["in_family", "flows_into", "located_in", "territory_of", "independent_from"])
def test_hierarchies_have_no_cycle(relation):
    above = {name: tails(relation, name) for name in heads(relation)}
    while above:
        tops = [name for name, uppers in above.items() if not uppers & above.keys()]
        assert tops, f"a cycle among {sorted(above)}"
        for name in tops:
            del above[name]


def test_a_river_runs_through_touching_countries_to_a_coast_of_theirs():
    for river in heads("flows_through"):
        countries = tails("flows_through", river)
        reached, frontier = set(), {min(countries)}
        while frontier:
            reached |= frontier
            frontier = {n for country in frontier for n in tails("borders", country)} & countries - reached
        assert reached == countries, river
        for mouth in tails("flows_into", river) & KINDS["sea"]:
            assert heads("has_coast_on", mouth) & countries, river


@pytest.mark.parametrize(
    ("organisation", "size"),
    [
        ("african_union", 55),
        ("apec", 21),
        ("arab_league", 22),
        ("asean", 11),
        ("brics", 10),
        ("caricom", 15),
        ("commonwealth_of_independent_states", 9),
        ("commonwealth_of_nations", 56),
        ("council_of_europe", 46),
        ("ecowas", 12),
        ("european_union", 27),
        ("g20", 19),
        ("g7", 7),
        ("gulf_cooperation_council", 6),
        ("mercosur", 5),
        ("nato", 32),
        ("nordic_council", 8),
        ("oecd", 38),
        ("opec", 12),
        ("organisation_of_islamic_cooperation", 57),
        ("organization_of_american_states", 34),
        ("pacific_islands_forum", 18),
        ("schengen_area", 29),
        ("united_nations", 193),
        ("world_trade_organization", 165),
    ],
)
def test_organisations_have_their_members(organisation, size):
    assert len(heads("member_of", organisation) & COUNTRIES) == size


def test_euro_area_and_kinds_of_state():
    assert len(heads("uses_currency", "euro") & heads("member_of", "european_union")) == 20
    assert len(heads("is_a", "monarchy")) == 43
    assert len(heads("is_a", "sovereign_state")) == 194
    assert heads("is_a", "monarchy").isdisjoint(heads("is_a", "republic"))


@pytest.mark.parametrize(
    "fact",
    [
        "france borders spain",
        "united_kingdom borders ireland",
        "turkey has_capital ankara",
        "australia has_capital canberra",
        "brazil official_language portuguese",
        "switzerland official_language romansh",
        "paraguay official_language guarani",
        "paraguay uses_currency paraguayan_guarani",
        "ecuador uses_currency us_dollar",
        "japan drives_on left_side",
        "mongolia is_a landlocked_country",
        "sweden is_a monarchy",
        "finland member_of nato",
        "norway member_of schengen_area",
        "hungarian in_family ugric",
        "maltese in_family semitic",
        "serbian written_in cyrillic_script",
        "opec headquartered_in vienna",
        "egypt has_coast_on red_sea",
        "danube_river flows_through hungary",
        "rhine_river flows_into north_sea",
        "angola independent_from portugal",
        "greenland territory_of denmark",
        "mozambique member_of commonwealth_of_nations",
    ],
)
def test_well_known_facts_are_there(fact):
    assert tuple(fact.split()) in FACTS


@pytest.mark.parametrize(
    "fact",
    [
        "france borders brazil",
        "norway member_of european_union",
        "switzerland member_of european_union",
        "ireland member_of schengen_area",
        "austria member_of nato",
        "australia has_capital sydney",
        "brazil official_language spanish",
        "niger member_of ecowas",
        "sweden drives_on left_side",
        "hungarian in_family slavic",
    ],
)
def test_common_mistakes_are_not(fact):
    assert tuple(fact.split()) not in FACTS


def test_readme_counts_are_those_of_the_file():
    text = (WORLD / "README.md").read_text(encoding="utf-8")
    table = {name: int(count) for name, count in re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE)}
    assert table == Counter(relation for _, relation, _ in FACTS)
    summary = f"{len(FACTS):,} facts, {len(ENTITIES):,} entities, {len(table)} relations, {len(COUNTRIES)} countries"
    assert summary in " ".join(text.replace("*", "").split())
