"""The plan of a build: a pure function of sizes and speeds, that fits into the time and never gives less for more."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tuplet.predict.config import TrainConfig
from tuplet.truth.trained import RESERVE, BuildPlan, GraphSizes, MachineSpeed, ladder, plan

SPEEDS = st.builds(
    MachineSpeed,
    products=st.floats(1e6, 1e13),
    messages=st.floats(1e5, 1e12),
    on_gpu=st.booleans(),
)
MINUTES = st.floats(0.01, 10_000)
WANTED = st.sampled_from([None, ("complex",), ("paths",), ("complex", "paths"), ("paths", "rotate")])


@st.composite
def sizes(draw: st.DrawFn) -> GraphSizes:
    facts = draw(st.integers(1, 10**7))
    entities = draw(st.integers(1, 2 * facts + 1))
    return GraphSizes(
        entities,
        draw(st.integers(1, 1000)),
        facts,
        draw(st.integers(1, 2 * facts)),
        draw(st.integers(0, 10**12)),
        draw(st.integers(0, facts)),
        draw(st.integers(0, facts)),
    )


def work(found: BuildPlan) -> list[tuple[str, int, int, int]]:
    """How much each predictor gets."""
    return [(m.config.model, m.config.rank, m.config.epochs, m.config.steps) for m in found.models]


@given(sizes(), SPEEDS, MINUTES, WANTED)
def test_a_plan_fits_into_its_time_or_is_the_least_there_is(
    graph: GraphSizes, speed: MachineSpeed, minutes: float, wanted: tuple[str, ...] | None
) -> None:
    found = plan(graph, speed, minutes, wanted)
    least = plan(graph, speed, 1e-9, wanted)
    assert found.limit == 60 * minutes
    if found.seconds > 60 * minutes * (1 - RESERVE):
        assert work(found) == work(least)
        assert "cut short" in found.more
    assert found.seconds >= least.seconds
    assert all(model.seconds > 0 for model in found.models)


@given(sizes(), SPEEDS, MINUTES, st.floats(1, 100), WANTED)
def test_more_time_and_a_faster_machine_never_mean_less(
    graph: GraphSizes, speed: MachineSpeed, minutes: float, factor: float, wanted: tuple[str, ...] | None
) -> None:
    found = plan(graph, speed, minutes, wanted)
    longer = plan(graph, speed, minutes * factor, wanted)
    faster = plan(
        graph, replace(speed, products=speed.products * factor, messages=speed.messages * factor), minutes, wanted
    )
    rungs = ladder(graph, speed, wanted)
    place, after, beside = (rungs.index(tuple(model.config for model in one.models)) for one in (found, longer, faster))
    assert place <= after
    assert place <= beside


@given(sizes(), SPEEDS, MINUTES)
def test_what_is_asked_for_is_planned(graph: GraphSizes, speed: MachineSpeed, minutes: float) -> None:
    assert [m.config.model for m in plan(graph, speed, minutes, ("paths", "distmult")).models] == ["paths", "distmult"]
    alone = plan(graph, MachineSpeed(speed.products), minutes)
    assert [m.config.model for m in alone.models] == ["complex"], "of paths nobody knows how long they take"


def test_where_facts_are_hidden_in_turn_there_is_time_for_it() -> None:
    few, enough = (plan(GraphSizes(500, 5, 4_000, 3_000, 10**6, valid), MachineSpeed(7e9, 2e8)) for valid in (200, 400))
    assert (few.times, enough.times) == (2, 1)
    assert few.seconds > 1.5 * enough.seconds


def test_many_entities_are_sampled_on_a_cpu_and_few_are_not() -> None:
    def config(entities: int, on_gpu: bool = False) -> TrainConfig:
        graph = GraphSizes(entities, 24, 100_000, 90_000, 10**9, 5_000)
        return plan(graph, MachineSpeed(1e10, on_gpu=on_gpu)).models[0].config

    assert config(38_000).negatives > 0
    assert config(2_000).negatives == 0
    assert config(38_000, on_gpu=True).negatives == 0


def test_it_says_what_it_chose_and_what_more_time_would_bring() -> None:
    graph = GraphSizes(38_000, 24, 95_000, 90_000, 10**9, 5_000)
    first, second = plan(graph, MachineSpeed(8e9), 3).sentences()
    assert first.startswith(
        "plan for at most 3 min 00 s on this CPU: complex (rank 100, 100 negatives, 20 epochs); about "
    )
    assert second.startswith("4 minutes would allow complex (rank 100, ")
    assert "would allow" not in " ".join(plan(graph, MachineSpeed(8e12), 600).sentences())
