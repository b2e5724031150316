"""Facts beyond the memory that is given wait on disk; the graph is the same to the last bit."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.cli.commands import main
from tuplet.graph.graph import KnowledgeGraph
from tuplet.read.read import gather, read

facts = st.lists(
    st.tuples(
        st.sampled_from("abcdef"), st.sampled_from("rstu"), st.sampled_from("abcdef"), st.sampled_from([0, 0.5, 1])
    ),
    min_size=1,
    max_size=30,
)


@given(train=facts, valid=facts, weighted=st.booleans(), dated=st.booleans(), memory=st.integers(0, 300))
@examples(40)
def test_memory_does_not_change_a_graph(train: list, valid: list, weighted: bool, dated: bool, memory: int) -> None:
    def table(rows: list, some: bool) -> pa.Table:
        columns = {name: [row[i] for row in rows] for i, name in enumerate(("head", "relation", "tail"))}
        if weighted and some:
            columns["truth"] = [float(row[3]) for row in rows]
        if dated:
            columns["date"] = [f"20{i % 7:02}" for i in range(len(rows))]
        return pa.table(columns)

    given = table(train, True), table(valid, False)
    plain, report = gather(*given).graph()
    spilled, again = gather(*given, memory=memory).graph()
    assert (spilled.hash, again) == (plain.hash, report)
    for name, array in plain._arrays().items():
        assert array.dtype == spilled._arrays()[name].dtype
        assert array.tolist() == spilled._arrays()[name].tolist()


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("suffix", ["tsv", "csv", "parquet", "nt"])
def test_every_reader_gives_the_same_folder(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(5)
    rows = [(f"e{rng.randrange(500)}", f"r{rng.randrange(9)}", f"e{rng.randrange(500)}") for _ in range(5000)]
    file = tmp_path / f"facts.{suffix}"
    if suffix == "parquet":
        columns = dict(zip(("head", "relation", "tail"), map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns), file, row_group_size=700)
    elif suffix == "nt":
        file.write_text("".join(f"<x:{h}> <x:{r}> <x:{t}> .\n" for h, r, t in rows))
    else:
        file.write_text("".join(("," if suffix == "csv" else "\t").join(row) + "\n" for row in rows))
    read(file).save(tmp_path / "whole")
    report = gather(file, path=tmp_path / "some", memory=1000).save(tmp_path / "some")
    assert main(["import", str(file), "-o", str(tmp_path / "cli"), "--memory", "1K"]) == 0
    assert f"{report.duplicates:,} duplicates" in capsys.readouterr().out
    assert content(tmp_path / "some") == content(tmp_path / "whole") == content(tmp_path / "cli")
    assert not [entry for entry in tmp_path.iterdir() if "lock" not in entry.name and entry.name.startswith(".")]
    mapped = read(file, memory=0)  # its folder is gone, its facts are not
    assert mapped.edges("train")[0].tolist() == KnowledgeGraph.open(tmp_path / "some").edges("train")[0].tolist()
