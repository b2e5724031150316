"""Limits of time: with a clock that the test drives no step comes after the limit, and no claim is false."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine_contract import expected_order, random_query, random_table, registered
from hypothesis import given
from hypothesis import strategies as st

from repeatable import examples, seeds
from tuplet.engines import brute
from tuplet.engines.exact import stream, warm
from tuplet.engines.given import judge
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.lang.ast import Column, Free, Query
from tuplet.query.ask import BoundReading, Question, ask
from tuplet.query.interpretations import Reading
from tuplet.query.limits import Deadline, Limits
from tuplet.query.logic import Logic
from tuplet.query.source import Source
from tuplet.settings import find_plugin
from tuplet.truth.table import TruthTable

ENGINES = registered("exact", "crisp", "ns3", "ns3-marginal", "fit")


class Clock:
    """Time that passes by one whenever somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def source_of(table: TruthTable, rng: np.random.Generator) -> Source:
    """The table with a graph around it whose names stand in another order than the ids."""
    names = [f"n{i:03}" for i in rng.permutation(table.entities)]
    heads, relation, tails, _ = table.facts().triples()
    relations = Vocabulary.from_names([f"r{i}" for i in range(table.relations)])
    return Source(
        KnowledgeGraph.from_edges(Vocabulary.from_names(names), relations, heads, relation, tails), None, table
    )


def random_question(seed: int) -> tuple[np.random.Generator, Question]:
    rng = np.random.default_rng(seed)
    table = random_table(rng, int(rng.integers(3, 8)), int(rng.integers(1, 4)), 0.4, bool(rng.random() < 0.5))
    clauses = random_query(rng, table, most_free=3)
    names = tuple(Free(f"x{i}") for i in range(len(clauses[0].free)))
    tree = _tree(names)
    reading = Reading(tree.free, tuple(Column(variable.name, variable) for variable in tree.free))
    return rng, Question(source_of(table, rng), "", tree, (BoundReading(reading, tuple(clauses)),), plain=True)


def _tree(free: tuple[Free, ...]) -> Query:
    from tuplet.lang.parse import parse

    variables = ", ".join(f"?{name.name}" for name in free)
    return parse(f"{variables} : {' & '.join(f'r0(?{name.name}, n000)' for name in free)}")


def watched(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> list[float]:
    """The times at which compiled steps of the exact engine begin."""
    begun: list[float] = []
    warm()  # where kernels are brought in, some are tried

    def watch(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            begun.append(clock.now)
            return kernel(*arguments)

        return step

    monkeypatch.setattr(stream.search_kernels, "best", watch(stream.search_kernels.best))
    monkeypatch.setattr(stream.search_kernels, "points", watch(stream.search_kernels.points))
    return begun


def check(seed: int, engine: str, timeout: float, monkeypatch: pytest.MonkeyPatch) -> bool:
    """One question under a limit; returns whether the limit was met."""
    rng, question = random_question(seed)
    only = [None, "predicted", "observed"][int(rng.integers(3))]
    logic = str(rng.choice(Logic.names))
    limits = Limits(k=int(rng.choice([1, 3, 20])), only=only, logic=logic)  # type: ignore[arg-type]
    clock = Clock()
    deadline = Deadline(timeout, clock)
    with monkeypatch.context() as patch:
        begun = watched(patch, clock)
        answers = ask(question, find_plugin("engines", engine), judge, limits, deadline)
    assert all(time < deadline.end for time in begun), "a step began after the limit"
    source, clauses, rules = question.source, question.clauses, Logic.from_name(logic)
    table = source.table(clauses)
    space = brute.Space(table, rules)
    tensor = space.combine(clauses)
    crisp = space.combine(clauses, facts=True) > 0
    late = answers.pruned == "timeout"
    for i, row in enumerate(answers.ranking.tuples.tolist()):
        key = tuple(row)
        if engine in ("exact", "ns3"):
            assert answers.ranking.truth[i] == pytest.approx(tensor[key], rel=1e-6)
        status = answers[i].status
        assert (status is None) <= late
        if status is not None:
            assert (status == "observed") == bool(crisp[key])
    truth = crisp.astype(float) if engine == "crisp" else tensor
    wanted = np.where(crisp == (only == "observed"), truth, 0.0) if only else truth
    rest = wanted.copy()
    rest[tuple(answers.ranking.tuples.T)] = 0.0
    assert rest.max() <= answers.bound * (1 + 1e-6), "a tuple that is not shown is above the bound"
    if engine == "crisp" or not answers.exact:
        return late
    keys, _ = expected_order(wanted, source.graph.entities.sort_rank)
    assert answers.ranking.tuples.tolist() == keys[: len(answers)].tolist()
    assert len(answers) == min(len(keys), int(limits.k or 0))
    return late


@pytest.mark.parametrize("engine", ENGINES)
def test_no_step_after_the_limit_and_no_false_claim(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    late = sum(
        check(seed, engine, timeout, monkeypatch)
        for seed in seeds(12, 300)
        for timeout in (0.5, 2.0, 4.0, 7.0, 12.0, 30.0)
    )
    assert late or engine == "crisp"


@examples(60, 1000)
@given(seed=st.integers(0, 2**32 - 1), timeout=st.floats(0.1, 40))
def test_any_limit(seed: int, timeout: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        check(seed, "exact", timeout, patch)


def test_the_facts_are_searched_within_the_limit_for_a_part_that_no_tuple_fixes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check(2000, "exact", 12.0, monkeypatch)
