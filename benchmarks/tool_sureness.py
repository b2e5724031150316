"""Is the tool as sure as it should be? Questions whose answers were hidden from a store, a third without any answer.

    python benchmarks/tool_sureness.py --build FOLDER     # stores of world and attack with a tenth of the facts hidden
    python benchmarks/tool_sureness.py world=FOLDER/world.store:FOLDER/world.model … [--questions 210] [--seed 0]

Every question is put to the tool `ask` as an agent would put it (`k=1`, `only="predicted"`: the stated answers are
known). The first answer is right if all facts, the hidden ones included, imply it. Its truth is what the tool claims;
beside it stand the raw softmax of the predictor and the base rate of the relation.

Five forms: r(a, ?x) and r(?x, a); two steps with a variable in between; two conditions on one variable; pairs. Two
thirds have an answer that only a hidden fact gives. The others have the same relations in the same form and name other
entities: half of them seen at that end of the relation, half that share another relation with such; they have no answer
beyond the stated ones.

Who asks where something was hidden knows more than the store. So further tables are of as many questions about any
entities that fit, whether they have an answer or not. No language model takes part. With `-o` a line for each question.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import tuplet
from tuplet.cli.demo import hide_facts
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.print import write_name
from tuplet.predict.base import LinkPredictor, row_scores
from tuplet.predict.model_folder import load
from tuplet.query.source import Source
from tuplet.read.datasets import DATA, bundled
from tuplet.server.tools import Toolbox
from tuplet.store import Store

FORMS = ("tail", "head", "chain", "both", "pair")
SURE = 0.5
TENTHS = np.linspace(0, 1, 11)


@dataclass(frozen=True)
class Step:
    """`relation` from a place to the next, backwards or not."""

    relation: int
    inverse: bool

    def atom(self, graph: KnowledgeGraph, near: str, far: str) -> str:
        """As it is written in a query."""
        ends = (far, near) if self.inverse else (near, far)
        return f"{write_name(graph.relations.name(self.relation))}({ends[0]}, {ends[1]})"


@dataclass(frozen=True)
class Asked:
    """A question in one form: the steps, and the entities that it names."""

    form: str
    steps: tuple[Step, ...]
    named: tuple[int, ...]

    def query(self, graph: KnowledgeGraph) -> str:
        """The question as the tool takes it."""
        first, *more = [write_name(graph.entities.name(entity)) for entity in self.named]
        one = self.steps[0]
        if self.form in ("tail", "head"):
            return f"?x : {one.atom(graph, first, '?x')}"
        two = self.steps[1]
        if self.form == "both":
            return f"?x : {one.atom(graph, first, '?x')} & {two.atom(graph, '?x', more[0])}"
        if self.form == "chain":
            return f"?x : exists ?y . {one.atom(graph, first, '?y')} & {two.atom(graph, '?y', '?x')}"
        return f"?x, ?y : {one.atom(graph, first, '?x')} & {two.atom(graph, '?x', '?y')}"


@dataclass(frozen=True)
class Judged:
    """A question, what the tool said first, how sure it was, and whether that is right."""

    graph: str
    form: str
    query: str
    answerable: bool
    answer: str
    truth: float
    right: bool
    softmax: float
    base_rate: float
    relations: tuple[str, ...]


class Examiner:
    """Makes questions of one store and judges the answers."""

    def __init__(self, name: str, store: Store, model: LinkPredictor, seed: int) -> None:
        self.name, self.store, self.model = name, store, model
        self.graph, self.rng = store.graph, np.random.default_rng(seed)
        self.known = Store(Source(self.graph, ("train", "valid")))
        self.full = Store(Source(self.graph))
        self.facts: Adjacency = self.known.source.facts
        self.everything: Adjacency = self.full.source.facts
        self.hidden = np.stack(self.graph.edges("test"))
        self.tools = Toolbox(store)

    def questions(self, count: int) -> Iterator[tuple[Asked, bool]]:
        """So many questions, a third of them without an answer, the forms in turn."""
        asked: set[Asked] = set()
        patterns: list[Asked] = []
        while len(asked) < count:
            number = len(asked)
            with_answer = number % 3 != 2
            form = FORMS[number // 3 % len(FORMS)]
            one = self._hidden_one(form) if with_answer else self._other([p for p in patterns if p.form == form])
            if one is not None and one not in asked and self._new_answers(one) is with_answer:
                asked.add(one)
                if with_answer:
                    patterns.append(one)
                yield one, with_answer

    def any_questions(self, count: int) -> Iterator[tuple[Asked, bool]]:
        """So many questions about entities that fit, whether they have an answer or not."""
        for number in range(count):
            pattern = None
            while pattern is None:
                pattern = self._hidden_one(FORMS[number % len(FORMS)])
            asked = self._other([pattern])
            yield asked, self._new_answers(asked)

    def _hidden_one(self, form: str) -> Asked | None:
        head, relation, tail = self.hidden[:, self.rng.integers(self.hidden.shape[1])].tolist()
        inverse = form == "head" or (form != "tail" and bool(self.rng.integers(2)))
        near, far = (tail, head) if inverse else (head, tail)
        first = Step(relation, inverse)
        if form in ("tail", "head"):
            return Asked(form, (first,), (near,))
        then = [view for view in range(2 * len(self.graph.relations)) if len(self.everything.row(far, view))]
        view = int(self.rng.choice(then))
        second = Step(view // 2, bool(view % 2))
        if form != "both":
            return Asked(form, (first, second), (near,))
        end = int(self.rng.choice(self.everything.row(far, view)))
        return (
            Asked(form, (first, second), (near, end)) if (view, end) != (2 * relation + (not inverse), near) else None
        )

    def _other(self, patterns: Sequence[Asked]) -> Asked:
        """A question of the same kind about other entities."""
        pattern = patterns[self.rng.integers(len(patterns))]
        named = [self._fitting(2 * pattern.steps[0].relation + pattern.steps[0].inverse)]
        if pattern.form == "both":
            named.append(self._fitting(2 * pattern.steps[1].relation + (not pattern.steps[1].inverse)))
        return Asked(pattern.form, pattern.steps, tuple(named))

    def _fitting(self, view: int) -> int:
        """An entity seen at one end of a relation, or, half of the time, one that shares another end with such."""
        entity = self._seen(view)
        if self.rng.integers(2):
            return entity
        ends = [v for v in range(2 * len(self.graph.relations)) if len(self.facts.row(entity, v))]
        return self._seen(int(self.rng.choice(ends)))

    def _seen(self, view: int) -> int:
        """An entity that stands at one end of a relation."""
        entities = self.facts.view(view).entities
        return int(self.rng.choice(entities)) if len(entities) else int(self.rng.integers(len(self.graph.entities)))

    def _new_answers(self, asked: Asked) -> bool:
        """Whether the hidden facts give answers that the stated ones do not."""
        query = asked.query(self.graph)
        stated, all_of_them = (len(store.ask(query, k="all", witness=False)) for store in (self.known, self.full))
        return all_of_them > stated

    def judged(self, asked: Asked, answerable: bool) -> Judged:
        """The tool's first answer, and whether it is right."""
        query = asked.query(self.graph)
        given = self.tools.call("ask", {"query": query, "k": 1, "only": "predicted"})
        relations = tuple(sorted(self.graph.relations.name(step.relation) for step in asked.steps))
        if not given["answers"]:
            return Judged(self.name, asked.form, query, answerable, "", 0.0, False, 0.0, 0.0, relations)
        [answer] = given["answers"]
        [truth] = self.full.score(query, [list(answer["values"].values())])
        guessed = [fact for fact in answer["witness"] if not fact["observed"]]
        softmax = np.prod([self._softmax(fact) for fact in guessed])
        rate = np.prod([self.store.source.base_rates[self._relation(fact)] for fact in guessed])
        said = ", ".join(answer["values"].values())
        return Judged(
            self.name,
            asked.form,
            query,
            answerable,
            said,
            answer["truth"],
            bool(truth > 0),
            float(softmax),
            float(rate),
            relations,
        )

    def _relation(self, fact: dict[str, Any]) -> int:
        return self.graph.relations.find(fact["relation"])

    def _softmax(self, fact: dict[str, Any]) -> float:
        """What the predictor alone says of a fact: the mean of its softmax over tails and over heads."""
        ends = [self.graph.entities.find(fact[end]) for end in ("head", "tail")]
        found = []
        for inverse in (False, True):
            near, far = ends[::-1] if inverse else ends
            with torch.no_grad():
                row = row_scores(self.model, torch.tensor([near]), self._relation(fact), inverse)[0]
            found.append(float(torch.softmax(row.double(), 0)[far]))
        return sum(found) / 2


# --- what is measured ------------------------------------------------------------------------------------------------


def auroc(sure: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """The chance that a right answer is held for surer than a wrong one; ties count half."""
    if right.all() or not right.any():
        return float("nan")
    above = (sure[right][:, None] > sure[~right][None]).mean()
    return float(above + 0.5 * (sure[right][:, None] == sure[~right][None]).mean())


def calibration_error(sure: NDArray[np.float64], right: NDArray[np.bool_], bins: int = 10) -> float:
    """The mean distance of what was claimed from what was right, over ten parts of as many answers each."""
    parts = np.array_split(np.argsort(sure, kind="stable"), bins)
    return sum(len(part) * abs(sure[part].mean() - right[part].mean()) for part in parts if len(part)) / len(sure)


def table(judged: Sequence[Judged]) -> str:
    """One line for each graph and form, and one for all."""
    titles = (
        "questions",
        "right",
        "AUROC of truth",
        "of softmax",
        "of base rate",
        "ECE of truth",
        "of softmax",
        "of base rate",
    )
    lines = [f"| | {' | '.join(titles)} |", "|---" * 9 + "|"]
    graphs = list(dict.fromkeys(one.graph for one in judged))
    groups = [("all", list(judged))]
    groups += [(name, [one for one in judged if one.graph == name]) for name in graphs]
    groups += [(form, [one for one in judged if one.form == form]) for form in FORMS]
    for name, some in groups:
        right = np.array([one.right for one in some])
        claims = [np.array([getattr(one, key) for one in some]) for key in ("truth", "softmax", "base_rate")]
        orders = " | ".join(f"{auroc(claim, right):.3f}" for claim in claims)
        errors = " | ".join(f"{calibration_error(claim, right):.3f}" for claim in claims)
        lines.append(f"| {name} | {len(some)} | {right.mean():.3f} | {orders} | {errors} |")
    return "\n".join(lines)


def reliability(judged: Sequence[Judged]) -> str:
    """Claim against fact by tenths of truth, and what a threshold keeps."""
    truth, right = np.array([one.truth for one in judged]), np.array([one.right for one in judged])
    lines = ["| truth | answers | mean truth | right |", "|---|---|---|---|"]
    place = np.clip(np.digitize(truth, TENTHS) - 1, 0, 9)
    for tenth in range(10):
        kept = place == tenth
        if kept.any():
            claim, share = truth[kept].mean(), right[kept].mean()
            lines.append(f"| {TENTHS[tenth]:.1f}–{TENTHS[tenth + 1]:.1f} | {kept.sum()} | {claim:.3f} | {share:.3f} |")
    answerable = np.array([one.answerable for one in judged])
    lines += [
        "",
        "| says it from | questions | right of these | of those without an answer it speaks |",
        "|---|---|---|---|",
    ]
    for least in (0.1, 0.3, SURE, 0.7, 0.9):
        kept = truth >= least
        share = right[kept].mean() if kept.any() else float("nan")
        lines.append(
            f"| {least} | {kept.mean():.0%} | {share:.0%} | {(kept & ~answerable).sum() / (~answerable).sum():.0%} |"
        )
    lines += ["", f'AUROC of truth for "there is an answer at all": {auroc(truth, answerable):.3f}']
    return "\n".join(lines)


# --- stores ----------------------------------------------------------------------------------------------------------


def build(folder: Path) -> None:
    """Stores of the two graphs that ship with the package, with a tenth of their facts hidden."""
    graphs = {"world": bundled(), "attack": tuplet.read(DATA / "attack" / "facts.tsv.gz")}
    for name, graph in graphs.items():
        store, model = folder / f"{name}.store", folder / f"{name}.model"
        if not store.exists():
            hide_facts(graph).save(folder / f"{name}.graph", force=True)
            tuplet.build(folder / f"{name}.graph", store, rank=100, epochs=40, keep_model=model)


def main() -> None:
    """Build stores, or ask and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", metavar="NAME=STORE:MODEL", nargs="*")
    parser.add_argument("--build", metavar="FOLDER", type=Path)
    parser.add_argument("--questions", type=int, default=210, help="of each store")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path)
    arguments = parser.parse_args()
    if arguments.build:
        arguments.build.mkdir(parents=True, exist_ok=True)
        build(arguments.build)
    judged: list[Judged] = []
    anywhere: list[Judged] = []
    for given in arguments.stores:
        name, _, paths = given.partition("=")
        store, _, model = paths.partition(":")
        examiner = Examiner(name, tuplet.open(store), load(model), arguments.seed)
        judged += [examiner.judged(asked, answerable) for asked, answerable in examiner.questions(arguments.questions)]
        anywhere += [examiner.judged(*one) for one in examiner.any_questions(arguments.questions)]
    if arguments.output:
        arguments.output.write_text("".join(f"{json.dumps(asdict(one), ensure_ascii=False)}\n" for one in judged))
    if judged:
        print(f"{table(judged)}\n\n{reliability(judged)}")
        print(f"\nany entities that fit, {np.mean([one.answerable for one in anywhere]):.0%} have an answer:\n")
        print(f"{table(anywhere)}\n\n{reliability(anywhere)}")


if __name__ == "__main__":
    main()
