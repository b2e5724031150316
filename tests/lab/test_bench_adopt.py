"""Rows measured elsewhere: the numbers of the metrics, the file, the result folder."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.bench.adopt import COLUMNS, adopt, measure, read_rows, write_rows
from tuplet.lab.bench.metrics import from_marginals, product_ranks
from tuplet.lab.bench.queries import QuerySet
from tuplet.lab.bench.report import write_report
from tuplet.lab.bench.results import read_rows as read_parts
from tuplet.lab.bench.sampling import sample


def test_a_row_holds_the_metrics() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2, 40)).astype(np.float32)
    truth = np.exp(scores.astype(np.float64))
    easy, hard = rng.integers(0, 40, (5, 2)), rng.integers(0, 40, (3, 2))
    row = dict(zip(COLUMNS, measure(scores, truth, easy, hard).tolist(), strict=True))
    found = from_marginals(list(scores), easy, hard)
    assert row["mrr"] == pytest.approx(product_ranks(list(truth), easy, hard).values()["mrr"])
    assert row["joint_hit10"] == pytest.approx(found["joint_hit10"])
    assert row["multiply_mrr"] == pytest.approx(found["multiply_mrr"])
    assert np.isnan(row["ms"])


def test_files_come_back_and_others_are_refused(tmp_path: Path) -> None:
    numbers = np.arange(2 * len(COLUMNS), dtype=np.float32).reshape(2, -1)
    write_rows(
        tmp_path / "rows.npz", {"betae": {"2fp": (np.array([0, 3], np.int32), numbers)}}, {"betae": {"steps": 7}}
    )
    rows, meta = read_rows(tmp_path / "rows.npz")
    assert meta == {"betae": {"steps": 7}}
    assert rows["betae"]["2fp"][0].tolist() == [0, 3]
    assert np.array_equal(rows["betae"]["2fp"][1], numbers)
    (tmp_path / "other.npz").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="not a file of benchmark rows"):
        read_rows(tmp_path / "other.npz")
    with pytest.raises(BadInput, match=r"cannot read .*nothing\.npz: No such file"):
        read_rows(tmp_path / "nothing.npz")


@pytest.fixture
def world(tmp_path: Path) -> tuple[Path, QuerySet]:
    rng = np.random.default_rng(1)
    facts = np.unique(rng.integers(0, [25, 3, 25], (200, 3)), axis=0)
    split = rng.choice(["train", "train", "train", "test"], len(facts))
    lines = {
        s: [f"e{h}\tr{r}\te{t}" for (h, r, t), own in zip(facts, split, strict=True) if own == s]
        for s in ("train", "test")
    }
    for name, text in lines.items():
        (tmp_path / f"{name}.tsv").write_text("\n".join(text) + "\n")
    import tuplet

    graph = tuplet.read(tmp_path / "train.tsv", test=tmp_path / "test.tsv")
    graph.save(tmp_path / "graph")
    opened = KnowledgeGraph.open(tmp_path / "graph")
    queries = sample(opened, ["1p", "2fp"], 4, known=["train"], target=["test"])
    from tuplet.lab.bench.formats import write

    write(queries, tmp_path / "queries.parquet")
    return tmp_path, queries


def test_rows_become_a_result_folder(world: tuple[Path, QuerySet]) -> None:
    folder, queries = world
    import torch

    import tuplet
    from tuplet.build import choose_recipe, make
    from tuplet.predict.embeddings import ComplEx
    from tuplet.predict.model_folder import save

    graph = KnowledgeGraph.open(folder / "graph")
    model = ComplEx.create(len(graph.entities), len(graph.relations), 2, 1.0, 2, torch.Generator().manual_seed(0))
    save(model, folder / "model", {"graph": graph.hash})
    make(graph, choose_recipe(folder / "model", observed=["train"]), folder / "store")
    assert tuplet.open(folder / "store")
    rows: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for shape, members in queries.by_shape().items():
        kept = members[:-1] if shape == "2fp" else members  # one query was not measured in time
        numbers = np.full((len(kept), len(COLUMNS)), 0.5, np.float32)
        numbers[:, COLUMNS.index("hard_variables")] = 1
        rows[shape] = np.array([q.index for q in kept], np.int32), numbers
    write_rows(folder / "rows.npz", {"betae": rows}, {"betae": {"steps": 7, "gpu_bytes": 2_000_000}})
    counts = adopt(folder / "rows.npz", folder / "store", queries, folder / "results")
    assert counts == {"betae": len(queries) - 1}
    parts = read_parts(folder / "results" / "betae")
    assert len(parts) == len(queries)
    assert sum(row.answered for row in parts) == len(queries) - 1
    missed = next(row for row in parts if not row.answered)
    assert missed.mrr == 0
    assert missed.pruned == "not scored in time"
    assert missed.peak_mb == 2.0
    # of several answers the mean alone came home, of an answer that was asked for alone it is its own
    assert {row.links1_hit10 for row in parts if row.answered} == {None}
    asked = replace(queries, queries=tuple(replace(query, asked=0) for query in queries))
    adopt(folder / "rows.npz", folder / "store", asked, folder / "asked")
    for query, row in zip(asked, read_parts(folder / "asked" / "betae"), strict=True):
        assert query.strata is not None
        for n in (1, 2, 3, 4):
            expected = None if n != query.strata.item() else 0.5 if row.answered else 0.0
            assert getattr(row, f"links{n}_hit10") == getattr(row, f"links{n}_mrr") == expected
    report = write_report([folder / "results" / "betae"], folder / "report")
    assert "betae" in (report / "report.md").read_text()
    with pytest.raises(BadInput, match=r"engine 'cone' has no rows in .*; choose 'betae'"):
        adopt(folder / "rows.npz", folder / "store", queries, folder / "more", ["cone"])
