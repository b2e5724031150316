"""The main job on the bundled graph of countries: hide facts, learn, index, ask, explain, see what was found again."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tuplet.errors import unknown
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.read.datasets import bundled

if TYPE_CHECKING:
    from tuplet.progress import Report
    from tuplet.query.answers import Answer, Answers

QUESTION = "Which countries of Western Africa are in which organisation, together with a neighbour?"
QUERY = (
    "?country, ?organisation : exists ?neighbour . located_in(?country, western_africa) & borders(?country, ?neighbour)"
    " & member_of(?neighbour, ?organisation) & member_of(?country, ?organisation)"
)


def hidden(graph: KnowledgeGraph, share: float = 0.1, seed: int = 0) -> KnowledgeGraph:
    """The graph with a share of its facts in the test split, and three quarters as many in valid: enough to learn from.

    Facts between the same two entities go together: France borders Spain, so Spain borders France.
    """
    heads, relation, tails, _ = graph.adjacency.triples()
    ends = np.stack([relation, np.minimum(heads, tails), np.maximum(heads, tails)])
    _, group = np.unique(ends, axis=1, return_inverse=True)
    lot = np.random.default_rng(seed).random(group.max() + 1)[group]
    split = np.select([lot < share, lot < 1.75 * share], [SPLIT_CODE["test"], SPLIT_CODE["valid"]], SPLIT_CODE["train"])
    return graph.with_splits(split)


@dataclass(frozen=True)
class Truths:
    """The facts that were hidden: none of the steps has seen them."""

    facts: frozenset[tuple[str, str, str]]

    @staticmethod
    def of(graph: KnowledgeGraph) -> Truths:
        """The test facts of a graph."""
        heads, relation, tails = graph.edges("test")
        names = (graph.entities.names(heads), graph.relations.names(relation), graph.entities.names(tails))
        return Truths(frozenset(zip(*names, strict=True)))

    def judge(self, answer: Answer) -> str:
        """What a user would find out about the predicted facts of an answer."""
        guessed = [fact for fact in answer.witness if not fact.observed and not fact.negated]
        right = sum((fact.head, fact.relation, fact.tail) in self.facts for fact in guessed)
        if right == len(guessed):
            return "hidden truth"
        return f"{right} of {len(guessed)} hidden truths" if right else "not in the data"


def run_demo(arguments: argparse.Namespace) -> None:
    """`tuplet demo`."""
    from tuplet.cli import demo_attack

    demos = {"world": run, "attack": demo_attack.run}
    if arguments.graph not in demos:
        raise unknown("demonstration", arguments.graph, demos)
    demos[arguments.graph](arguments.say, not arguments.quiet, arguments.output, arguments.force)


def run(
    say: Callable[[str], None], progress: bool | Report = True, keep: str | None = None, force: bool = False
) -> None:
    """The demonstration; `keep` leaves the store there, `force` replaces one that is there."""
    from tuplet.build import build
    from tuplet.truth.store_folder import refuse_existing

    if keep:
        refuse_existing(keep, force)
    graph = hidden(bundled())
    truths = Truths.of(graph)
    say(
        f"A graph of {len(graph.entities):,} entities and {graph.adjacency.edges:,} facts about countries; "
        f"{len(truths.facts)} of them are hidden now.\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(keep) if keep else Path(folder) / "world.store"
        store = build(graph, path, force=force, progress=progress)
        report = store.info()["report"]
        say(f"Learned and indexed: {report['facts']:,} observed facts, {report['predicted']:,} predicted ones.\n")
        say(f"{QUESTION}\n  {QUERY}\nOnly what the observed facts do not say:\n")
        answers = store.ask(QUERY, k=12, only="predicted")
        say(_table(answers, truths))
        say(f"\nWhy the first one?\n{answers[0].explain()}")
        if keep:
            say(f"\nThe store is in {path}; ask it: tuplet ask {path} 'SELECT ?x WHERE {{ ?x :borders :france }}'")


def _table(answers: Answers, truths: Truths) -> str:
    head, *rows, summary = str(answers).splitlines()
    width = max(len(row) for row in (head, *rows))
    judged = [f"{row:<{width}}  {truths.judge(answer)}" for row, answer in zip(rows, answers, strict=True)]
    return "\n".join([f"{head:<{width}}  in fact", *judged, summary])
