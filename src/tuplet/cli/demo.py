"""`tuplet demo`: the main job on a bundled graph. Countries, of which facts are hidden, or MITRE ATT&CK by date."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tuplet.errors import unknown
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.predict.config import TrainConfig
from tuplet.progress import align_columns
from tuplet.read.datasets import DATA, bundled
from tuplet.truth.store_folder import refuse_existing

if TYPE_CHECKING:
    from tuplet.progress import Report
    from tuplet.query.answers import Answer
    from tuplet.store import Graph, Store

QUESTION = "Which countries of Western Africa are in which organisation, together with a neighbour?"
QUERY = (
    "?country, ?organisation : exists ?neighbour . located_in(?country, western_africa) & borders(?country, ?neighbour)"
    " & member_of(?neighbour, ?organisation) & member_of(?country, ?organisation)"
)
CUT = "2025"
GROUP, TECHNIQUE = "intrusion-set", "attack-pattern"
TOLD = 5  # techniques of each group
LEAST = 10  # that a group must have, so that there is something to find
SHOWN = 10
# Settings rather than minutes, and rows however long they take: so that everybody sees the same figures.
TRAINING = TrainConfig(rank=50, epochs=12, batch=250, regularisation=0.02, relation_weight=0.25, evaluate_every=4)
SECONDS = 3600.0
Say = Callable[[str], None]


def run_demo(arguments: argparse.Namespace) -> None:
    """`tuplet demo`."""
    demos = {"world": run, "attack": run_attack}
    if arguments.graph not in demos:
        raise unknown("demonstration", arguments.graph, demos)
    demos[arguments.graph](arguments.say, not arguments.quiet, arguments.output, arguments.force)


@contextmanager
def build_store(graph: KnowledgeGraph, say: Say, keep: str | None, **settings: Any) -> Iterator[tuple[Store, Path]]:
    """The store of a graph, learned and indexed, and its path; it stays if that is given."""
    from tuplet.build import build

    with tempfile.TemporaryDirectory() as folder:
        path = Path(keep or Path(folder) / "demo.store")
        store = build(graph, path, **settings)
        report = store.info()["report"]
        say(f"Learned and indexed: {report['facts']:,} observed facts, {report['predicted']:,} predicted ones.\n")
        yield store, path


# --- countries ---------------------------------------------------------------------------------------------------


def hide_facts(graph: KnowledgeGraph, share: float = 0.1, seed: int = 0) -> KnowledgeGraph:
    """The graph with a share of its facts in the test split, and three quarters as many in valid: enough to learn from.

    Facts between the same two entities go together: France borders Spain, so Spain borders France.
    """
    heads, relation, tails, _ = graph.adjacency.triples()
    ends = np.stack([relation, np.minimum(heads, tails), np.maximum(heads, tails)])
    _, group = np.unique(ends, axis=1, return_inverse=True)
    lot = np.random.default_rng(seed).random(group.max() + 1)[group]
    split = np.select([lot < share, lot < 1.75 * share], [SPLIT_CODE["test"], SPLIT_CODE["valid"]], SPLIT_CODE["train"])
    return graph.with_splits(split)


def run(say: Say, progress: bool | Report = True, keep: str | None = None, force: bool = False) -> None:
    """Hide facts, learn, index, ask, explain, see what was found again.

    `keep` leaves the store there, `force` replaces one that is there.
    """
    if keep:
        refuse_existing(keep, force)
    graph = hide_facts(bundled())
    heads, relation, tails = graph.edges("test")
    names = graph.entities.names(heads), graph.relations.names(relation), graph.entities.names(tails)
    truths = set(zip(*names, strict=True))  # none of the steps has seen them
    say(
        f"A graph of {len(graph.entities):,} entities and {graph.adjacency.edges:,} facts about countries; "
        f"{len(truths)} of them are hidden now.\n"
    )

    def judge(answer: Answer) -> str:
        """What a user would find out about the predicted facts of an answer."""
        guessed = [fact for fact in answer.witness if not fact.observed and not fact.negated]
        right = sum((fact.head, fact.relation, fact.tail) in truths for fact in guessed)
        if right == len(guessed):
            return "hidden truth"
        return f"{right} of {len(guessed)} hidden truths" if right else "not in the data"

    with build_store(graph, say, keep, force=force, progress=progress) as (store, path):
        say(f"{QUESTION}\n  {QUERY}\nOnly what the observed facts do not say:\n")
        answers = store.ask(QUERY, k=12, only="predicted")
        head, *rows, summary = str(answers).splitlines()
        width = max(map(len, (head, *rows)))
        judged = [f"{row:<{width}}  {judge(answer)}" for row, answer in zip(rows, answers, strict=True)]
        say("\n".join([f"{head:<{width}}  in fact", *judged, summary]))
        say(f"\nWhy the first one?\n{answers[0].explain()}")
        if keep:
            say(f"\nThe store is in {path}; ask it: tuplet ask {path} 'SELECT ?x WHERE {{ ?x :borders :france }}'")


# --- MITRE ATT&CK ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class History:
    """Facts with their days, and objects with their labels and types; the past is what was stated before `CUT`."""

    facts: Sequence[tuple[str, ...]]
    objects: Mapping[str, tuple[str, ...]]

    @staticmethod
    def read(folder: Path = DATA / "attack") -> History:
        """The bundled one."""
        from tuplet.read.text import load

        def rows(name: str) -> list[tuple[str, ...]]:
            return [tuple(line.split("\t")) for line in bytes(load(folder / name)).decode().splitlines()[1:]]

        return History(rows("facts.tsv.gz"), {row[0]: row[1:] for row in rows("objects.tsv.gz")})

    @cached_property
    def known(self) -> frozenset[str]:
        """What had been mentioned in the past."""
        return frozenset(end for head, _, tail, day in self.facts if day < CUT for end in (head, tail))

    def label(self, name: str) -> str:
        """What it is called."""
        return self.objects[name][0]

    def past(self) -> Graph:
        """The graph of the past."""
        import pyarrow as pa

        from tuplet.build import read

        def table(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> pa.Table:
            return pa.table(list(map(list, zip(*rows, strict=True))), names)

        facts = table(("head", "relation", "tail", "date"), [fact for fact in self.facts if fact[3] < CUT])
        objects = [(name, *self.objects[name]) for name in sorted(self.known)]
        return read(facts, nodes=table(("id", "label", "type"), objects))

    def list_uses(self, known: bool) -> list[tuple[str, str]]:
        """Groups that were known in the past, or were not, and their techniques, which were."""
        return [
            (head, tail)
            for head, relation, tail, day in self.facts
            if relation == "uses" and (self.objects[head][1], self.objects[tail][1]) == (GROUP, TECHNIQUE)
            if (day < CUT if known else head not in self.known and tail in self.known)
        ]

    def newcomers(self) -> dict[str, list[str]]:
        """The groups that appeared later, each with its techniques in an order drawn by lot, the same every time."""
        found, rng = defaultdict(list), np.random.default_rng(0)
        for group, technique in sorted(self.list_uses(known=False)):
            found[group].append(technique)
        lots = {group: rng.permutation(len(techniques)) for group, techniques in found.items()}
        return {g: [found[g][place] for place in lot] for g, lot in lots.items() if len(lot) >= LEAST}

    def most_used(self) -> list[str]:
        """The techniques in order of how many groups used them."""
        users = Counter(technique for _, technique in self.list_uses(known=True))
        return sorted(users, key=lambda technique: (-users[technique], technique))


def run_attack(say: Say, progress: bool | Report = True, keep: str | None = None, force: bool = False) -> None:
    """Learn from the past, add groups that appeared later with five techniques, predict the rest.

    `keep` leaves the store there, `force` replaces one that is there.
    """
    if keep:
        refuse_existing(keep, force)
    history = History.read()
    past, groups = history.past(), history.newcomers()
    say(
        f"MITRE ATT&CK as it was at the end of {int(CUT) - 1}: {past.adjacency.edges:,} facts about "
        f"{len(past.entities):,} groups, programs, techniques and the like.\n"
    )
    with build_store(past, say, keep, config=TRAINING, force=force, progress=progress) as (store, path):
        told = [(group, "uses", technique) for group, techniques in groups.items() for technique in techniques[:TOLD]]
        kinds = [(group, "type", GROUP) for group in groups]
        store.add([*told, *kinds], new_entities=True, seconds=SECONDS, progress=progress)
        tell(say, store, history, groups)
        if keep:
            say(f"\nThe store is in {path}; ask it: tuplet ask {path} '{_query(max(groups))}'")


def _query(group: str) -> str:
    return f"?technique : uses({group}, ?technique) & type(?technique, {TECHNIQUE})"


def tell(say: Say, store: Store, history: History, groups: Mapping[str, list[str]]) -> None:
    """What is predicted about the groups, beside what MITRE recorded."""
    say(
        f"{len(groups)} groups appeared in {CUT} of which MITRE recorded {LEAST} or more techniques that were known "
        f"before.\nOf each {TOLD} are told to the store, drawn by lot. What else should one look for?\n"
    )
    most = max(groups, key=lambda group: len(groups[group]))
    query = _query(most)
    best = store.ask(query, k=SHOWN, only="predicted", evidence=True)
    say(f"{history.label(most)} was seen with {', '.join(map(history.label, groups[most][:TOLD]))}.\n  {query}")
    rows = [("#", "technique", "", "truth", "recorded by MITRE")]
    for place, answer in enumerate(best, start=1):
        name = str(answer.values["technique"])
        recorded = "yes" if name in groups[most] else "not yet"
        rows.append((str(place), history.label(name), name, f"{answer.truth:.2f}", recorded))
    say("\n".join(align_columns(rows)))
    say(f"\nWhy the first one?\n{best[0].explain()}")
    helps = f"?mitigation, {query} & mitigates(?mitigation, ?technique)"
    say(f"\nWhat helps, and against what?\n  {helps}\n{store.ask(helps, k=5, only='predicted')}")
    say(f"\nAll of them: how many of the first {SHOWN} did MITRE record, and of the {SHOWN} that groups use most?")
    say("\n".join(align_columns(_figures(store, history, groups))))
    say(f"Truth is the chance to be among as many more as were told, {TOLD}: promised, and on average over what came.")


def _figures(store: Store, history: History, groups: Mapping[str, list[str]]) -> list[tuple[str, ...]]:
    """For each group how many predictions were right, beside the usual ones; what truth promised, and what came."""
    rows: list[tuple[str, ...]] = [("group", "recorded", "found", "most used", "promised", "on average")]
    sums, most_used = np.zeros(5), history.most_used()
    for group, techniques in groups.items():
        found, hidden = store.ask(_query(group), k=SHOWN, only="predicted"), set(techniques[TOLD:])
        right = sum(answer.values["technique"] in hidden for answer in found)
        usual = [name for name in most_used if name not in techniques[:TOLD]][:SHOWN]
        promised = sum(answer.truth for answer in found)
        figures = len(hidden), right, len(hidden & set(usual)), promised, right * TOLD / len(hidden)
        rows.append(_row(history.label(group), *figures))
        sums += figures
    return [*rows, _row("all", *sums.tolist())]


def _row(name: str, recorded: float, found: float, usual: float, promised: float, average: float) -> tuple[str, ...]:
    return name, f"{recorded:.0f}", f"{found:.0f}", f"{usual:.0f}", f"{promised:.1f}", f"{average:.1f}"
