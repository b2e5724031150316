"""The GPU kernels of the path network against plain torch, run by Triton's interpreter where there is no GPU.

Triton's wheel has 290 MB and comes with torch for GPUs alone, so it is not among the packages for tests. Where it is
installed, the interpreter (TRITON_INTERPRET=1) runs the kernels on the CPU, in a process of its own: once kernels are
defined they stay interpreted.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed (it comes with torch for GPUs)"
)

COMPARE = """
import json, numpy as np, torch
from tuplet.predict.paths import triton_kernels as kernels
from plain_layer import aggregate, update
from tuplet.predict.paths.message_graph import MessageGraph
from tuplet.predict.paths.network import PathLayer, Sight

torch.manual_seed(0)
entities, relations, batch, width = 23, 3, 4, 32
edges = np.random.default_rng(0).integers(0, [entities, relations, entities], (90, 3)).T
graph = MessageGraph.from_facts(tuple(edges), entities, relations, "cpu")
visible = graph.visible(*(torch.as_tensor(side[:5]) for side in edges), whole_pairs=True)
degree, sight = graph.degrees(visible), Sight(graph, visible)
layer = PathLayer(torch.nn.Identity(), width)  # what relations say is not compared
weights = [layer.summary.weight, layer.summary.bias, layer.own.weight, layer.own.bias]
norm = [layer.norm.weight, layer.norm.bias]
told = {}

def some(rows):
    return torch.randn(rows, batch * width).bfloat16().requires_grad_()

def compare(name, inputs, shared, mine, plain):
    '''Distance of results and gradients, in units of their mean size.'''
    copies = [side.detach().float().requires_grad_() for side in inputs]
    sides = []
    for given, work in ((inputs, mine), (copies, plain)):
        for side in shared:
            side.grad = None
        out = work(*given)
        out = out if isinstance(out, tuple) else (out,)
        torch.manual_seed(1)
        sum((part.float() * torch.randn(part.shape)).sum() for part in out).backward()
        slopes = [side.grad.clone() for side in (*given, *shared)]
        sides.append([part.detach().float() for part in (*out, *slopes)])
    told[name] = [float((a - b).abs().mean() / b.abs().mean()) for a, b in zip(*sides, strict=True)]

compare(
    "aggregate", [some(entities), some(2 * relations), some(entities)], [],
    lambda *given: tuple(kernels.TritonAggregate.apply(*given, graph, visible, degree)),
    lambda *given: aggregate(*given, graph, visible, degree),
)
compare(
    "update", [some(entities) for _ in range(5)], [*weights, *norm],
    lambda x, *parts: kernels.TritonUpdate.apply(x, torch.stack(parts), sight.scale, *weights, *norm),
    lambda x, *parts: update(layer, x, parts, sight.scale),
)
print(json.dumps(told))
"""


def test_the_kernels_and_their_gradients_are_those_of_plain_torch() -> None:
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPARE],
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    told = json.loads(found.stdout.splitlines()[-1])
    assert {name: len(distances) for name, distances in told.items()} == {"aggregate": 7, "update": 12}
    for name, distances in told.items():
        # bfloat16 has eight bits, and a unit near 0 may be cut off on one side alone
        assert max(distances) < 0.06, (name, distances)
