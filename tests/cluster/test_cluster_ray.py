"""A simulated cluster of two nodes gives what one machine gives, although a worker is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuplet
from repeatable import SOAK
from tuplet.cli.commands import main
from tuplet.cli.demo import hide_facts
from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.bench.run import run
from tuplet.lab.bench.sampling import sample
from tuplet.lab.bench.shapes import shape
from tuplet.predict.base import TrainingEdges
from tuplet.predict.config import PACKAGED
from tuplet.truth import trained
from tuplet.truth.candidates import score as relation_parts
from tuplet.truth.candidates.score import ShardSize
from tuplet.truth.cluster import CACHE, RayExecutor, Shipment, digest_of, fetch_folder
from tuplet.truth.new_entities.learn import KnownGraph, on_cluster, put_together
from tuplet.truth.new_entities.predict import network_of

pytest.importorskip("ray", reason="Ray is not installed (pip install 'tuplet[ray]')")


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the nodes keep what they fetched."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def address(fetched: Path) -> Iterator[str]:
    from ray.cluster_utils import Cluster

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE, str(fetched))  # the nodes inherit it
        cluster = Cluster(initialize_head=True, head_node_args=node)
        cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
        yield cluster.address
        cluster.shutdown()


@pytest.fixture(scope="module")
def graph(world: KnowledgeGraph) -> KnowledgeGraph:
    """A third of the bundled graph: learning what scores are worth takes ten times as long for all of it."""
    heads, relations, tails, _ = world.adjacency.triples()
    names = world.entities.names(heads), world.relations.names(relations), world.entities.names(tails)
    return hide_facts(tuplet.read(list(zip(*names, strict=True))[::3]))


@pytest.fixture(scope="module")
def model(graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    tuplet.train(graph, folder, rank=8, epochs=2, progress=False)
    return folder


def workers() -> list[int]:
    """The processes of the cluster's workers that do something."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                name = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if name.startswith(b"ray::RayWorker.call"):
                found.append(int(folder.name))
    return found


def test_an_index_of_two_nodes_is_that_of_one_process_bit_for_bit(
    address: str, fetched: Path, graph: KnowledgeGraph, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relation_parts, "SHARD", ShardSize(cells=20_000))  # it travels with the job
    killed: list[int] = []
    totals: set[float] = set()

    def kill(stage: str, done: float, total: float, note: str = "") -> None:
        totals.add(total)
        if stage == "index" and note == "parts" and not killed and (busy := workers()):
            os.kill(busy[0], signal.SIGKILL)
            killed.append(busy[0])

    tuplet.index(graph, model, tmp_path / "one.store", candidates="half-links", progress=False)
    tuplet.index(graph, model, tmp_path / "ray.store", candidates="half-links", ray=address, progress=kill)
    assert killed, "a worker died midway"
    assert max(totals) > len(graph.relations), "large relations were cut into shards"
    tables = [tuplet.open(tmp_path / name).source.values() for name in ("one.store", "ray.store")]
    assert tables[0] is not tables[1]
    folders = [next((tmp_path / name).glob("table-*")) for name in ("one.store", "ray.store")]
    assert digest_of(folders[0]) == digest_of(folders[1])
    assert digest_of(model) in {path.name for path in (fetched / "folders").iterdir()}


def test_queries_are_sampled_and_run_on_stores_that_were_fetched(
    address: str, fetched: Path, graph: KnowledgeGraph, tmp_path: Path
) -> None:
    tuplet.index(graph, None, tmp_path / "store", table=_table(graph, tmp_path), progress=False)
    alone = sample(graph, ["2fp", "1p"], 6, seed=1)
    run(tmp_path / "store", alone, tmp_path / "processes", block=3, workers=1)
    with RayExecutor(address) as executor:
        nodes = [executor.submit(os.getppid).result() for _ in range(2)]  # idle workers take work one after the other
        assert len(set(nodes)) == 2, "each node starts its own workers"
        queries = sample(graph, ["2fp", "1p"], 6, seed=1, executor=executor)
        assert queries.digest == alone.digest
        run(tmp_path / "store", queries, tmp_path / "ray", block=3, executor=executor)
        with pytest.raises(BadInput, match=r"^unknown shape '2fx'"):
            executor.submit(shape, "2fx").result()
    assert digest_of(tmp_path / "store") in {path.name for path in (fetched / "folders").iterdir()}
    assert _numbers(tmp_path / "ray") == _numbers(tmp_path / "processes")


@pytest.mark.skipif(not SOAK, reason="takes 20 s; make soak runs it")
def test_rows_of_new_entities_are_those_of_one_process(
    address: str, graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KnownGraph, "portion", lambda scene: 8)
    network, facts, sizes = network_of(PACKAGED)[0], graph.edges("train"), (len(graph.entities), len(graph.relations))
    scene = KnownGraph.from_edges(*sizes, facts, network.on(TrainingEdges({"train": facts}, *sizes)))
    rows, told = scene.rows([3, 5, 8, 13, 21, 34]), []
    with on_cluster(address, scene) as (score, count):
        found = score(rows, told.append)
    alone = put_together([scene.score(some, lambda _: None) for some in rows.portions(8)])
    assert len(told) > count == 2, "portions of whole entities"
    assert told[-1] == rows.walks
    assert len(alone) > 20
    for side in ("heads", "relation", "tails", "logs"):
        np.testing.assert_array_equal(getattr(found, side), getattr(alone, side))


@pytest.mark.skipif(not SOAK, reason="takes minutes; make soak runs it")
def test_the_packaged_network_gives_its_rows_on_a_cluster_by_command(
    address: str, graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trained, "MOST_FACTS", 0)  # else its facts are few enough to be hidden in turn, here
    graph.save(tmp_path / "graph")
    (tmp_path / "new.tsv").write_text("newcomer\tborders\tfrance\nnewcomer\tborders\tspain\n")
    for name, more in (("one", []), ("ray", ["--ray", address])):
        store = str(tmp_path / f"{name}.store")
        main(["build", str(tmp_path / "graph"), "--no-train", "--quiet", "-o", store, *more])
        main(["add", store, str(tmp_path / "new.tsv"), "--new-entities", "--quiet", *more])
    stores = [tuplet.open(tmp_path / f"{name}.store") for name in ("one", "ray")]
    assert stores[0].info()["report"]["predicted"] > 100
    folders = [next((tmp_path / f"{name}.store").glob("table-*")) for name in ("one", "ray")]
    assert digest_of(folders[0]) == digest_of(folders[1])
    told = [list(store.ask("?x : borders(newcomer, ?x)", k=20).rows()) for store in stores]
    assert told[0] == told[1]
    assert len(told[0]) > 2, "more than what was stated"


def test_a_folder_that_was_fetched_is_not_fetched_again(address: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("1")
    with RayExecutor(address) as executor:
        sent = executor.ship(tmp_path / "folder")
        assert fetch_folder(sent) == str(tmp_path / "folder")
        elsewhere = Shipment(sent.digest, sent.origin, "another node", sent.files)
        paths = {executor.submit(fetch_folder, elsewhere).result() for _ in range(3)}
        assert len(paths) == 1
        assert (Path(paths.pop()) / "a").read_text() == "1"


def test_no_cluster_is_said_in_one_line() -> None:
    with pytest.raises(BadInput, match=r"there is no Ray cluster at '127\.0\.0\.1:1'") as error:
        RayExecutor("127.0.0.1:1")
    assert "\n" not in str(error.value)


def _table(graph: KnowledgeGraph, folder: Path) -> Path:
    """The test edges with truth 0.5."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    heads, relations, tails = graph.edges("test")
    names = graph.entities.names(heads), graph.relations.names(relations), graph.entities.names(tails)
    columns = dict(zip(("head", "relation", "tail"), names, strict=True))
    pq.write_table(pa.table({**columns, "truth": [0.5] * len(heads)}), folder / "truth.parquet")
    return folder / "truth.parquet"


def _numbers(folder: Path) -> list[dict[str, Any]]:
    from dataclasses import asdict

    from tuplet.lab.bench.results import read_rows

    return [{key: v for key, v in asdict(row).items() if key not in ("ms", "peak_mb")} for row in read_rows(folder)]
