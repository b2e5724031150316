"""`tuplet demo attack`: what it tells; all of it in `make soak`, where it prints what the docs show."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet
from repeatable import SOAK
from tuplet.cli.commands import main
from tuplet.cli.demo import CUT, TOLD, History, tell

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "attack.md"


@pytest.fixture(scope="module")
def history() -> History:
    return History.read()


def test_the_past_knows_nothing_of_the_groups_to_come(history: History) -> None:
    past, groups = history.past(), history.newcomers()
    assert past.adjacency.edges == 20_703 + len(history.known)
    assert all(past.entities.find(group) < 0 for group in groups)
    assert all(past.entities.find(technique) >= 0 for techniques in groups.values() for technique in techniques)
    assert groups == history.newcomers(), "drawn by lot, but always the same"
    names = "APT42, Salt Typhoon, Storm-1811, Velvet Ant, UNC3886, Medusa Group, Contagious Interview, Storm-0501"
    assert ", ".join(map(history.label, groups)) == names
    assert history.label(history.most_used()[0]) == "Ingress Tool Transfer"


def test_what_is_predicted_is_shown_beside_what_was_recorded(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store of the same facts whose predictions are given: half of them right."""
    groups = history.newcomers()
    told = {(group, technique) for group, techniques in groups.items() for technique in techniques[:TOLD]}
    past = [(h, t) for h, r, t, day in history.facts if r == "uses" and day < CUT and t.startswith("T1")]
    usual = [name for name in history.most_used() if all(name not in techniques for techniques in groups.values())]
    right = [(group, technique) for group, techniques in groups.items() for technique in techniques[TOLD : TOLD + 4]]
    wrong = [(group, technique) for group in groups for technique in usual[:8]]
    edges = [*sorted(told | {*past}), *right, *wrong]
    types = [(name, history.objects[name][1]) for name in sorted(history.known)]
    mitigated = [(h, t) for h, r, t, _ in history.facts if r == "mitigates" and t in history.known]
    facts = [(h, "uses", t) for h, t in edges] + [(h, "type", t) for h, t in types]
    facts += [(h, "mitigates", t) for h, t in mitigated]
    truth = [0.5 if (h, t) in {*right} else 0.25 if (h, t) in {*wrong} else 1.0 for h, _, t in facts]
    names = dict(zip(("head", "relation", "tail"), map(list, zip(*facts, strict=True)), strict=True))
    source = pa.array([int(value == 1) for value in truth], pa.uint8())
    pq.write_table(pa.table({**names, "truth": truth, "source": source}), tmp_path / "truth.parquet")
    graph = tuplet.read([fact for fact, value in zip(facts, truth, strict=True) if value == 1])
    store = tuplet.index(graph, None, tmp_path / "attack.store", table=tmp_path / "truth.parquet", progress=False)
    said: list[str] = []
    tell(said.append, store, history, groups)
    text = "\n".join(said)
    shown = re.findall(r"^\d+ +(.*?)  +(T[\d.]+)  +(0\.\d\d)  +(yes|not yet)$", text, re.MULTILINE)
    assert [recorded for *_, recorded in shown] == ["yes"] * 4 + ["not yet"] * 6
    assert {(truth, recorded) for _, _, truth, recorded in shown} == {("0.50", "yes"), ("0.25", "not yet")}
    found = re.search(r"^Medusa Group +(\d+) +(\d+) +\d+ +([\d.]+) +([\d.]+)$", text, re.MULTILINE)
    assert found is not None
    assert found.groups() == ("52", "4", "3.5", "0.4")
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    monkeypatch.chdir(tmp_path)
    exec(code[1], {})
    store.refresh()
    assert len(store.ask("?t : uses(MyGroup, ?t)")) == 2
    assert re.search(r"^all +249 +32 +24 +28\.0 +6\.9$", text, re.MULTILINE)


def test_another_demonstration_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "atack"]) == 1
    assert capsys.readouterr().err == "error: unknown demonstration 'atack'; did you mean 'attack'?\n"


@pytest.mark.skipif(not SOAK, reason="some minutes; make soak runs it")
def test_all_of_it_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "attack", "--quiet"]) == 0
    said = re.sub(r" · [\d.,]+ m?s$", "", capsys.readouterr().out, flags=re.MULTILINE)
    assert said in PAGE.read_text(encoding="utf-8")
