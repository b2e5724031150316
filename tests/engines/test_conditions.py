"""Conditions on variables: every engine keeps to them as the oracle does, or refuses them by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tuplet import registry
from tuplet.errors import BadInput
from tuplet.graph.ranked import members
from tuplet.query.conditions import Within
from tuplet.query.engine import Engine
from tuplet.query.limits import NO_LIMITS
from tuplet.query.query_graph import Edge, QueryGraph


def test_an_engine_that_does_not_know_a_condition_refuses_it() -> None:
    clause = QueryGraph(("x",), (0,), (Edge(~0, 0, 0),), conditions=(Within(0, members(np.array([1]))),))
    refused = 0
    for name in registry.names("engines"):
        engine: Engine[Any] = registry.find("engines", name)
        if Within in engine.conditions:
            continue
        refused += 1
        with pytest.raises(BadInput, match=f"engine '{name}' does not know conditions"):
            engine.planned([clause], cast(Any, SimpleNamespace()), NO_LIMITS)
    assert refused
