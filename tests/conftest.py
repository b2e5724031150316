"""What all tests share: repeatable random tests, the bundled graph, the benchmark graphs if they are here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repeatable import SEED, SOAK, load_profile
from tuplet.cli.demo import bundled
from tuplet.graph.graph import KnowledgeGraph
from tuplet.query.source import Source
from tuplet.store import Store

load_profile()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give hypothesis the seed of this run of `make soak`."""
    if SOAK:
        config.option.hypothesis_seed = str(SEED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show how what `make soak` found is repeated."""
    if SOAK:
        shared = ("TUPLET_SOAK", "TUPLET_SOAK_SEED", "TUPLET_SOAK_EXAMPLES", "PYTHONHASHSEED")
        given = " ".join(f"{name}={os.environ[name]}" for name in shared if name in os.environ)
        terminalreporter.line(f"seed of this run: {given}")
        for kind in ("failed", "error"):
            for report in terminalreporter.getreports(kind):
                terminalreporter.line(f"repeat: {given} pytest '{report.nodeid}'")


@pytest.fixture(scope="session")
def world() -> KnowledgeGraph:
    """The graph that ships with the package."""
    return bundled()


@pytest.fixture(scope="session")
def world_store(world: KnowledgeGraph) -> Store:
    """The bundled graph, ready to be asked."""
    return Store(Source(world))


@pytest.fixture(scope="session")
def world_directory(world: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled graph as a directory."""
    path = tmp_path_factory.mktemp("world") / "world.graph"
    world.save(path)
    return path


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of benchmark graphs."""
    folder = os.environ.get("TUPLET_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TUPLET_DATA does not point at a folder of benchmark graphs")
    return Path(folder)


# Tests that take longest, or wait for many processes; `make soak` runs them, so that `make test` stays quick.
ONLY_IN_SOAK = (
    "test_an_index_of_two_nodes_is_that_of_one_process_bit_for_bit",
    "test_only_the_asked_answer_is_scored_and_the_others_do_not_compete[ns3]",
    "test_only_the_asked_answer_is_scored_and_the_others_do_not_compete[ns3-marginal]",
    "test_valid_edges_are_hidden_where_there_are_enough",
    "test_two_processes_learn_what_one_learns",
    "test_killed_writers_leave_the_old_or_the_new_state[index]",
    "test_a_planned_build_is_made_of_both_and_goes_on_after_ctrl_c",
    "test_safetensors[complex]",
    "test_a_run_killed_twice_and_resumed_equals_an_uninterrupted_one",
    "test_a_batch_is_its_queries[adaptive]",
    "test_relations_scored_on_another_machine_are_not_scored_again",
    "test_killed_first_index_leaves_nothing_or_a_store",
    "test_training_learns[published]",
    "test_ctrl_c_loses_no_finished_relation",
    "test_workers_threads_and_blocks_change_nothing",
    "test_random_queries_are_exact_without_caps",
    "test_several_graphs_teach_one_network",
    "test_queries_are_sampled_and_run_on_stores_that_were_fetched",
    "test_a_folder_that_was_fetched_is_not_fetched_again",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the longest tests to `make soak`."""
    if not SOAK:
        for item in items:
            if item.name in ONLY_IN_SOAK:
                item.add_marker(pytest.mark.skip(reason="long: runs in make soak"))
