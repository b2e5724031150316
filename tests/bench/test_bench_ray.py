"""A simulated cluster of two nodes gives what the process pool gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from random_graph import random_graph
from small_store import make_store, numbers

from tuplet.bench.ray_executor import RayExecutor
from tuplet.bench.run import run
from tuplet.bench.sampling import sample
from tuplet.bench.shapes import shape
from tuplet.errors import BadInput

pytest.importorskip("ray", reason="Ray is not installed (pip install 'tuplet[ray]')")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    from ray.cluster_utils import Cluster

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    yield cluster.address
    cluster.shutdown()


def test_two_nodes_equal_two_processes(address: str, tmp_path: Path) -> None:
    graph = random_graph(3, entities=30, relations=5, edges=350)
    make_store(tmp_path / "store", graph)
    queries = sample(graph, ["2fp", "2fcn", "1p"], 8, seed=1)
    run(tmp_path / "store", queries, tmp_path / "processes", block=3, workers=2)
    with RayExecutor(address) as executor:
        assert len(executor.nodes()) == 2
        run(tmp_path / "store", queries, tmp_path / "ray", block=3, executor=executor)
        with pytest.raises(BadInput, match=r"^unknown shape '2fx'"):
            executor.submit(shape, "2fx").result()
    assert len(numbers(tmp_path / "ray")) == 24
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "processes")


def test_no_cluster_is_said_in_one_line() -> None:
    with pytest.raises(BadInput, match=r"there is no Ray cluster at '127\.0\.0\.1:1'") as error:
        RayExecutor("127.0.0.1:1")
    assert "\n" not in str(error.value)
