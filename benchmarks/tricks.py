"""What each trick of docs/contributing/tricks.md gains: the same work with and without it, in turn, in CPU time.

python benchmarks/tricks.py                # all but the compilation, which takes minutes, and what needs a GPU
python benchmarks/tricks.py compile        # one of them
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Work = Callable[[], object]


def compare(trick: str, with_it: Work, without: Work, times: int = 9, inner: int = 1) -> None:
    """Prints the median CPU time of both, taken in turn."""
    took: tuple[list[float], list[float]] = [], []
    for _ in range(times):
        for work, own in zip((with_it, without), took, strict=True):
            start = time.process_time()
            for _ in range(inner):
                work()
            own.append((time.process_time() - start) / inner)
    mine, other = (1000 * statistics.median(own) for own in took)
    print(f"{trick:24} with {mine:10.4f} ms   without {other:10.4f} ms   ratio {other / mine:6.2f}")


def addresses() -> None:
    """Conditions give kernels the addresses of their columns; without, the columns are copied into one array."""
    from tuplet.engines.condition_tests import ConditionTests
    from tuplet.graph.attributes import Ranked
    from tuplet.query.conditions import Within

    for size in (10_000, 5_000_000):
        values = Ranked(np.arange(size, dtype=np.int32), np.arange(size, dtype=np.int32)[::-1].copy())
        conditions = [Within(0, values, 0, 9), Within(1, values, 5, 9)]

        def copied(values: Ranked = values) -> object:
            return np.concatenate([values.keys, values.rank])

        compare(f"addresses, {size:,}", lambda: ConditionTests(conditions), copied)  # noqa: B023


def spare() -> None:
    """The memory of a finished search serves the next one."""
    from tuplet.engines import exact
    from tuplet.engines.exact import stream
    from tuplet.query.ranking import Edge, QueryGraph
    from tuplet.truth.table import TruthTable

    rng = np.random.default_rng(0)
    heads, tails = rng.integers(0, 1000, (2, 5000))
    truth, zeros = rng.random(5000), np.zeros(5000, dtype=np.int64)
    table = TruthTable.build(1000, 1, heads, zeros, tails, truth, zeros.astype(bool))
    plan = exact.plan([QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1)))], table)
    exact.run(plan, 10)

    def without() -> None:
        stream._spare.clear()
        exact.run(plan, 10)

    compare("memory used again", lambda: exact.run(plan, 10), without, inner=500)


def packed_names() -> None:
    """Tuples in the order of their names by one number each; without, column by column."""
    from tuplet.engines.crisp import order_by_name

    rng = np.random.default_rng(0)
    tuples, rank = rng.integers(0, 50_000, (1_000_000, 3)).astype(np.int32), rng.permutation(50_000).astype(np.int32)
    compare("packed names", lambda: order_by_name(tuples, rank), lambda: np.lexsort(rank[tuples].T[::-1]), times=3)


def packed_truths() -> None:
    """Rows by falling truth and name by one number each, from the bits of the truth; without, by two keys."""
    rng = np.random.default_rng(0)
    best, rank = rng.random(1_000_000).astype(np.float32), rng.permutation(1_000_000).astype(np.int32)

    def packed() -> object:
        return np.argsort(((0x7FFFFFFF - best.view(np.int32).astype(np.int64)) << 32) | rank, kind="stable")

    compare("packed truths", packed, lambda: np.lexsort((rank, -best)), times=3)


def marks() -> None:
    """Different entities are found by marking; without, by sorting."""
    import torch

    from tuplet.engines.ns3.tensors import distinct

    some = torch.as_tensor(np.random.default_rng(0).integers(0, 1_000_000, 500_000))
    compare("marks", lambda: distinct([some], len(some), 1_000_000, some.device), lambda: torch.unique(some))


def remap() -> None:
    """A column that grows shows the pages of a mapped file; without, they are copied (20 million edges)."""
    from tuplet.graph import arrays

    with tempfile.TemporaryDirectory() as folder:
        edges = {"neighbour": np.arange(20_000_000, dtype=np.int32), "truth": np.ones(20_000_000, np.float32)}
        arrays.write_directory(Path(folder) / "rows", "rows", edges, {})
        mapped = arrays.open_directory(Path(folder) / "rows").arrays

        def copied() -> object:
            known, arrays._REMAP = arrays._REMAP, False
            try:
                return arrays.Segments([mapped], room=1 << 22)
            finally:
                arrays._REMAP = known

        compare("pages shown again", lambda: arrays.Segments([mapped], room=1 << 22), copied)


def name_table() -> None:
    """Two million names get numbers by a compiled table; without, by Arrow's dictionaries and one of Python."""
    import pyarrow as pa

    from tuplet.graph.name_table import NameTable

    ids = np.random.default_rng(0).integers(0, 1_000_000, (20, 100_000))
    columns = [pa.array([f"http://www.wikidata.org/entity/Q{i}" for i in part.tolist()]) for part in ids]

    def compiled() -> None:
        table = NameTable()
        for column in columns:
            table.number(column)

    def plain() -> None:
        numbers: dict[str, int] = {}
        for column in columns:
            coded = column.dictionary_encode()
            own = [numbers.setdefault(name, len(numbers)) for name in coded.dictionary.to_pylist()]
            np.array(own, np.int32)[coded.indices.to_numpy()]

    compiled()
    compare("numbers of names", compiled, plain, times=5)


def query_models() -> None:
    """Queries of ten types are embedded side by side; without, type by type. And BetaE keeps what its KL needs."""
    import torch

    from tuplet.lab.baselines.embedding import QueryModelSettings
    from tuplet.lab.baselines.models import create, positive, statistics
    from tuplet.lab.baselines.training_queries import PATTERNS

    torch.set_num_threads(1)
    model: Any = create("betae", 14_505, 237, QueryModelSettings(dim=100, gamma=20.0, hidden=200))
    batches = [
        (shape, 0, torch.randint(14_505, (100, shape.constants)), torch.randint(474, (100, len(shape.edges))))
        for shape in PATTERNS.values()
    ]

    def step(alone: bool) -> None:
        model.zero_grad(set_to_none=True)
        states = [model.embed(*batch) for batch in batches] if alone else model.embed_many(batches)
        torch.cat(states).sum().backward()

    step(alone=False)
    compare("queries side by side", lambda: step(alone=False), lambda: step(alone=True))
    with torch.inference_mode():
        compare("statistics of entities", model._statistics, lambda: statistics(positive(model.entity)))


def batches() -> None:
    """Queries of a batch go through each step together, 16 at a time; without, one after another."""
    import tuplet
    from tuplet.cli import demo
    from tuplet.query.limits import Deadline
    from tuplet.server import models, service
    from tuplet.server.limits import ServerLimits
    from tuplet.server.metrics import ServerMetrics

    with tempfile.TemporaryDirectory() as folder:
        demo.run(lambda _: None, progress=False, keep=f"{folder}/demo")
        store = tuplet.open(f"{folder}/demo")
        served = service.Service({"world": store}, ServerLimits(), ServerMetrics())
        entities, fresh = list(store.graph.entities)[:128], itertools.count()

        def ask(together: int) -> None:
            service._TOGETHER = together
            at = next(fresh)  # each batch has queries that were not asked before
            queries = [f"?x{at} : borders(?x{at}, <{name}>)" for name in entities]
            served.batch(models.AskRequest(queries=queries), Deadline())

        compare("batches, 128 queries", lambda: ask(16), lambda: ask(1), times=41)


def layers() -> None:
    """One layer of a path network, there and back: compiled by numba; without, in plain torch (on one core)."""
    import torch

    from tuplet.predict.paths.cpu_kernels import CompiledLayer

    torch.set_num_threads(1)
    layer, given, sight = _layer(torch.device("cpu"), entities=5_000, facts=50_000, queries=4)
    weights = [part for module in (layer.summary, layer.own, layer.norm) for part in (module.weight, module.bias)]
    graph = given[3]

    def compiled() -> object:
        out = CompiledLayer.apply(*given[:3], layer.width, graph, sight.visible, sight.degree, sight.scale, *weights)
        return out.sum().backward()

    compiled()
    compare("layers by numba", compiled, lambda: _plain_layer(layer, given, sight).sum().backward(), times=5)


def gpu_layers() -> None:
    """The same on a GPU: compiled by Triton; without, in plain torch, in one half or in both. In time of the GPU."""
    import torch
    from triton.testing import do_bench

    from tuplet.predict.paths import triton_kernels as kernels

    layer, given, sight = _layer(torch.device("cuda"), entities=14_505, facts=272_115, queries=64)
    weights = [part for module in (layer.summary, layer.own, layer.norm) for part in (module.weight, module.bias)]
    x, graph = given[0], given[3]

    def summed() -> tuple[torch.Tensor, ...]:
        return kernels.TritonAggregate.apply(*given, sight.visible, sight.degree)

    def half() -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return plain_layer.update(layer, x, summed(), sight.scale)

    plain_layer = _plain()
    with_it = {"both": lambda: kernels.triton_layer(*given[:3], graph, *vars(sight).values(), *weights), "half": half}
    for name, work in (with_it | {"none": lambda: _plain_layer(layer, given, sight)}).items():
        torch.cuda.reset_peak_memory_stats()
        took = do_bench(lambda: work().sum().backward(), warmup=200, rep=1000, return_mode="median")  # noqa: B023
        peak = torch.cuda.max_memory_allocated() / 1e9
        print(f"layers by Triton, {name:5} {took:10.3f} ms of the GPU, {peak:.1f} GB at most")


def _plain() -> Any:
    """The layer in plain torch that the tests compare with."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "predict"))
    return importlib.import_module("plain_layer")


def _layer(device: Any, entities: int, facts: int, queries: int) -> tuple[Any, Any, Any]:
    """A layer of width 32, what it is given on a random graph (half of the facts at a tenth of the entities)."""
    import torch

    from tuplet.predict.paths.message_graph import MessageGraph
    from tuplet.predict.paths.network import PathLayer, Sight

    rng = np.random.default_rng(0)
    ends = np.where(rng.random((2, facts)) < 0.5, entities, entities // 10) * rng.random((2, facts))
    edges = ends[0].astype(np.int64), rng.integers(0, 237, facts), ends[1].astype(np.int64)
    graph = MessageGraph.from_facts(edges, entities, 237, device)
    layer = PathLayer(torch.nn.Identity(), 32).to(device)
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    sizes = entities, 474, entities
    states = [torch.randn(n, queries * 32, device=device, dtype=kind, requires_grad=True) for n in sizes]
    return layer, (*states, graph), Sight(graph, graph.all_visible)


def _plain_layer(layer: Any, given: Any, sight: Any) -> Any:
    import torch

    plain = _plain()
    with torch.autocast("cuda", torch.bfloat16, enabled=given[0].is_cuda):
        parts = plain.aggregate(*given, sight.visible, sight.degree.to(given[0].dtype))
        return plain.update(layer, given[0], parts, sight.scale)


def truth() -> None:
    """Calibrations and candidates: tables in place of searches, one key in place of two, bits of bytes."""
    import torch

    from tuplet.truth.calibration.trees import Bins, _leaf
    from tuplet.truth.known_edges import find_places

    torch.set_num_threads(1)
    chance = torch.Generator().manual_seed(0)
    columns = torch.randn(40, 400_000, generator=chance).half()
    cut = Bins.from_columns(columns)

    def searched() -> None:
        for number, column in enumerate(columns):
            torch.bucketize(column.float(), cut.edges[number], right=True)

    compare("bins", lambda: cut(columns), searched)
    bins, questions, splits = cut(columns)[:, : 1 << 17], list(range(7)), [60, 30, 90, 64, 10, 100, 50]

    def compared() -> None:
        leaf = torch.zeros(bins.shape[1], dtype=torch.uint8)
        for level, (column, split) in enumerate(zip(questions, splits, strict=True)):
            leaf |= (bins[column] > split).view(torch.uint8) << level

    compare("leaves", lambda: _leaf(bins, questions, splits), compared, inner=10)
    ids = torch.sort(torch.randperm(40_000, generator=chance)[:15_000]).values
    wanted = torch.randint(0, 40_000, (200_000,), generator=chance)

    def tabled() -> torch.Tensor:
        table = torch.full((40_000,), -1, dtype=torch.int32)
        table[ids] = torch.arange(len(ids), dtype=torch.int32)
        return table[wanted].long()

    compare("places", tabled, lambda: find_places(ids, wanted), inner=10)
    row = torch.sort(torch.randint(0, 20_000, (1_000_000,), generator=chance)).values
    log = -torch.rand(len(row), generator=chance)

    def by_two_keys() -> torch.Tensor:
        order = torch.argsort(log, descending=True, stable=True)
        return order[torch.argsort(row[order], stable=True)]

    compare("rows in order", lambda: torch.argsort((row << 32) + (-log).view(torch.int32)), by_two_keys)
    promised = torch.randn(2_000, 1_000, generator=chance)
    by_torch = lambda: torch.argsort(promised, dim=1, descending=True)  # noqa: E731
    compare("cells in order", lambda: np.argsort(-promised.numpy(), 1), by_torch)


def compile_() -> None:
    """Kernels call conditions by their address; without, they are inlined wherever they are looked at."""
    inlined = "from tuplet.engines import kernels; kernels.call_test = kernels.inlined(kernels.holds)"
    for name, before in (("with", "pass"), ("without", inlined)):
        code = f"{before}; from tuplet.engines import exact; exact.warm(); import tuplet.engines.crisp.kernels"
        with tempfile.TemporaryDirectory() as cache:
            seconds = _seconds(code, NUMBA_CACHE_DIR=cache)
        print(f"conditions by address    {name:8} {seconds:6.1f} s of CPU to compile")


def optimizers() -> None:
    """An optimizer is made without the compiler of torch; without, as torch has it. With the import of torch."""
    for name, module in (("with", "tuplet.predict.device"), ("without", "torch.optim")):
        code = f"import torch; from {module} import AdamW; AdamW([torch.zeros(1)])"
        print(f"optimizers               {name:8} {_seconds(code):6.1f} s of CPU to the first")


def _seconds(code: str, **environment: str) -> float:
    """The CPU time of a process of Python."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], env=os.environ | environment, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


TRICKS: dict[str, Callable[[], None]] = {
    "addresses": addresses,
    "spare": spare,
    "names": packed_names,
    "truths": packed_truths,
    "marks": marks,
    "remap": remap,
    "name-table": name_table,
    "query-models": query_models,
    "batches": batches,
    "layers": layers,
    "gpu-layers": gpu_layers,
    "optimizers": optimizers,
    "truth": truth,
    "compile": compile_,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tricks", nargs="*", help=", ".join(TRICKS))
    for name in parser.parse_args().tricks or [name for name in TRICKS if name not in ("compile", "gpu-layers")]:
        TRICKS[name]()


if __name__ == "__main__":
    main()
