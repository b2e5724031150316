"""The bundled ATT&CK: what its page says, small, with its licence, and found by name."""

import gzip
import re
from collections import Counter

import pytest

from tuplet.errors import UnknownName
from tuplet.read.datasets import DATA, bundled, fetch

FOLDER = DATA / "attack"


@pytest.fixture(scope="module")
def facts() -> list[tuple[str, ...]]:
    lines = gzip.decompress((FOLDER / "facts.tsv.gz").read_bytes()).decode().splitlines()
    assert lines[0].split("\t") == ["head", "relation", "tail", "date"]
    return [tuple(line.split("\t")) for line in lines[1:]]


def test_it_is_small_and_carries_its_licence() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 150_000
    for name in ("LICENSE.txt", "README.md"):
        assert "© 2025 The MITRE Corporation" in (FOLDER / name).read_text(encoding="utf-8")


def test_its_page_counts_right(facts: list[tuple[str, ...]]) -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    said = {name: int(count.replace(",", "")) for name, count in re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", page, re.M)}
    graph = fetch("attack")  # which checks the facts
    types = graph.adjacency.edges - len(facts)
    assert said == Counter(fact[1] for fact in facts) | Counter(type=types)
    assert f"{len(facts):,} facts and {types:,} types, {len(graph.entities):,} entities" in page


def test_every_fact_has_a_day_and_every_thing_a_label_and_a_type(facts: list[tuple[str, ...]]) -> None:
    assert all(re.fullmatch(r"20(1[7-9]|2[0-5])-\d\d-\d\d", fact[3]) for fact in facts)
    graph = bundled("attack")
    assert graph.notes["type_relation"] == "type"
    lines = gzip.decompress((FOLDER / "objects.tsv.gz").read_bytes()).decode().splitlines()
    assert {line.split("\t")[0] for line in lines[1:]} == {end for fact in facts for end in (fact[0], fact[2])}


def test_others_are_not_bundled() -> None:
    with pytest.raises(UnknownName, match="unknown bundled graph 'atack'; did you mean 'attack'"):
        bundled("atack")
