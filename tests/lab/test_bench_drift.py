"""Three numbers of the published tables, computed again from graph and truth table to the cell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuplet.cli.commands import main
from tuplet.lab.bench.report import Result

PAGE = Path(__file__).parents[2] / "docs" / "results" / "joint.md"
DATA = Path(os.environ.get("TUPLET_DATA", ""))
TRUTH = DATA.parent / "truth" / "nell995.parquet"
SHAPES = ("2fp", "2fd", "2fdm")


def cells() -> dict[str, str]:
    """HIT@10 of the exact engine on NELL995, by shape, as the page has it."""
    section = PAGE.read_text(encoding="utf-8").split("\n## NELL995\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line]
    column = rows[0].index("exact")
    return {row[0]: row[column] for row in rows if row[0] in SHAPES}


@pytest.mark.skipif(
    "TUPLET_DATA" not in os.environ or not TRUTH.exists(),
    reason="needs NELL995 (TUPLET_DATA) and its truth table, ../truth/nell995.parquet",
)
def test_three_cells_of_the_main_table_have_not_moved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, store, queries, run = (tmp_path / name for name in ("graph", "store", "queries.parquet", "run"))
    for words in (
        f"data fetch nell995 --from-dir {DATA} -o {graph}",
        f"index {graph} --table {TRUTH} --calibration given -o {store} --quiet",
        f"bench sample {graph} --shapes {','.join(SHAPES)} --per-shape 500 --seed 0 --workers 1 -o {queries} --quiet",
        f"bench run {store} {queries} --workers 1 -o {run} --quiet",
    ):
        assert main(words.split()) == 0, capsys.readouterr().err
    found = Result.read(run).estimates["hit10"]
    shown = {
        shape: f"{100 * e.mean:.1f} ± {50 * (e.high - e.low):.1f}" for shape, e in found.items() if shape in SHAPES
    }
    assert shown == cells()
