"""Training of a path network: hide some facts, ask for them, and let it find them by the rest.

A step draws `Questions`, hides some of the answers of each from the graph, and asks for them against all entities that
are no answers (`Lesson`). What a network of any graph learns on a few graphs it is to know on all, so it learns from
views: whole graphs and parts of many sizes, the surroundings of an entity or the core of those with the most facts,
with all relations, some or a few large ones. In some parts several relations are one, or some come twice, as they are
or the other way round; some lack many of their facts. What is hidden is left out of a view altogether, as facts that
nobody knows are: relations are described without them too, and sometimes their meetings say less than they could.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus
from torch.nn.utils import clip_grad_norm_

from tuplet.errors import BadInput
from tuplet.predict.base import Ids, TrainingEdges, Triples
from tuplet.predict.config import TrainConfig
from tuplet.predict.device import AdamW
from tuplet.predict.evaluate import KnownAnswers, evaluate
from tuplet.predict.model_folder import describe, load_for, trained_class
from tuplet.predict.paths.message_graph import SHARES, Telling
from tuplet.predict.paths.model import AnyGraphModel, PathModel, share_out
from tuplet.predict.training import PatientTask, Position

MOST_ROUNDS = 8  # a question is drawn at most so many times as often as one with few answers
NO_ANSWER = -1e9  # in place of the score of an answer, where the others are counted
QUESTIONS = 4  # of a step that a core takes at a time
WARM_UP = 200  # steps in which the learning rate rises, at most a tenth of all
ROUNDS = 10  # measurements of a run
MEASURED_SHARE = 50  # one of so many rows of the training is ranked in each measurement
FEWEST_MEASURED = 100  # edges
WIDEST = 256  # rank
DECAY = 1e-5

# A view to learn from.
HIDDEN = 0.05, 0.3  # least and most share of the facts
PART = 50, 10_000  # least and most entities of a part
FEWEST = 100  # facts of a part: of fewer little can be learned
TRIES = 8  # for a part that has as many
SOME, FEW = 0.35, 0.2  # of the parts have a share of the relations, or up to twenty
SPARSE, MERGED, COPIED = 0.4, 0.5, 0.3  # of the parts lack facts, have several relations in one, have some twice

# A network of any graph.
AT_HAND = 16  # views
EVERY = 16  # steps one of them is replaced
WHOLE = 0.12  # of the views of several graphs
MEASURED = 2000  # valid edges of each graph
_STEP, _VIEW = 1, 2  # set their random numbers apart from those of the questions


class Draw(NamedTuple):
    """What a step asks for."""

    asked: NDArray[np.int64]  # [questions] entity
    relation: NDArray[np.int64]  # [questions] r, or r + relations for heads
    row: NDArray[np.int64]  # [answers] question of each known answer, ascending
    answer: NDArray[np.int64]  # [answers]
    hidden: NDArray[np.bool_]  # [answers] whether it is hidden and asked for

    def part(self, first: int, end: int) -> Draw:
        """Some of the questions."""
        answers = slice(*np.searchsorted(self.row, (first, end)))
        questions = slice(first, end)
        row = self.row[answers] - first
        return Draw(self.asked[questions], self.relation[questions], row, self.answer[answers], self.hidden[answers])


class Questions:
    """The questions that facts answer, with their answers; those that are asked for may be some of them.

    >>> edges = np.array([0, 0, 1]), np.array([0, 0, 0]), np.array([1, 2, 2])
    >>> questions = Questions(edges, relations=1, targets=1)
    >>> len(questions), questions.rounds  # 0 leads to 1 and 2, 1 to 2; 1 is led to by 0, 2 by 0 and 1
    (4, 6.0)
    >>> draw = questions.draw(4, seed=0, step=0)
    >>> int(draw.hidden.sum()), sorted(zip(draw.asked.tolist(), draw.relation.tolist()))
    (4, [(0, 0), (1, 0), (1, 1), (2, 1)])
    """

    def __init__(
        self, facts: Triples, relations: int, targets: int, asked_for: NDArray[np.bool_] | None = None
    ) -> None:
        heads, relation, tails = (np.asarray(part, dtype=np.int64) for part in facts)
        self.kinds, self.targets = 2 * relations, targets
        key = np.concatenate([heads, tails]) * self.kinds + np.concatenate([relation, relation + relations])
        answer = np.concatenate([tails, heads])
        order = np.lexsort((answer, key))
        self.answer = answer[order]
        self.open = np.ones(len(order), dtype=bool) if asked_for is None else np.tile(asked_for, 2)[order]
        key, start, count = np.unique(key[order], return_index=True, return_counts=True)
        wanted = np.add.reduceat(self.open, start, dtype=np.int64)
        some = wanted > 0
        self.key, self.start, self.count = key[some], start[some], count[some]
        self.until = np.cumsum(np.minimum(-(-wanted[some] // targets), MOST_ROUNDS), dtype=np.float64)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def rounds(self) -> float:
        """How many questions are an epoch."""
        return float(self.until[-1])

    def draw(self, batch: int, seed: int, step: int) -> Draw:
        """`batch` different questions, or all if there are no more, and what is hidden of their answers."""
        chance = np.random.default_rng([seed, step])
        chosen = self._choose(min(batch, len(self)), chance)
        count = self.count[chosen]
        row = np.repeat(np.arange(len(chosen)), count)
        first = np.cumsum(count) - count
        known = np.arange(len(row)) + (self.start[chosen] - first)[row]
        order = np.lexsort((chance.random(len(row)), ~self.open[known], row))
        place = np.empty(len(row), dtype=np.int64)
        place[order] = np.arange(len(row)) - first[row]
        hidden = (place < self.targets) & self.open[known]
        return Draw(*np.divmod(self.key[chosen], self.kinds), row, self.answer[known], hidden)

    def _choose(self, wanted: int, chance: np.random.Generator) -> NDArray[np.int64]:
        """Different questions by weight: drawn one after the other, and those drawn before are passed over."""
        if wanted == len(self):
            return np.arange(wanted)
        found = np.zeros(0, dtype=np.int64)
        while len(found) < wanted:
            drawn = np.searchsorted(self.until, chance.random(2 * wanted) * self.until[-1], side="right")
            found = np.concatenate([found, drawn])
            found = found[np.sort(np.unique(found, return_index=True)[1])]
        return found[:wanted]


class Lesson:
    """The model on a graph, and what is asked there."""

    def __init__(self, model: PathModel, questions: Questions, whole_pairs: bool) -> None:
        self.model, self.questions, self.whole_pairs = model, questions, whole_pairs

    def differentiate(self, draw: Draw) -> Tensor:
        """The loss of a step: the mean over the hidden answers; leaves its gradients at the parameters.

        On a CPU the questions are shared out among cores, always in the same parts: how many cores there are does not
        change the result.
        """
        count = int(draw.hidden.sum())
        at = draw.row[draw.hidden]
        heads, relation, tails = map(self._here, (draw.asked[at], draw.relation[at], draw.answer[draw.hidden]))
        visible = self.model.graph.visible(heads, relation, tails, whole_pairs=self.whole_pairs)
        parameters = list(self.model.network.parameters())

        def part(first: int, end: int) -> tuple[Tensor, ...]:
            loss = self.loss(draw.part(first, end), visible) / count
            return loss.detach(), *torch.autograd.grad(loss, parameters)

        size = len(draw.asked) if self.model.device.type == "cuda" else QUESTIONS
        ranges = [(first, min(first + size, len(draw.asked))) for first in range(0, len(draw.asked), size)]
        found = [part(*ranges[0])] if len(ranges) == 1 else share_out(part, ranges)
        # added in their order, so that the sum is the same every time
        sums: list[Tensor] = [reduce(torch.add, parts) for parts in zip(*found, strict=True)]
        for parameter, slope in zip(parameters, sums[1:], strict=True):
            parameter.grad = slope
        return sums[0]

    def loss(self, draw: Draw, visible: Tensor) -> Tensor:
        """The sum over the hidden answers of −log(their share among themselves and all that is no answer)."""
        hidden = draw.row[draw.hidden], draw.answer[draw.hidden]
        asked, relation, row, answer, at, target = map(self._here, (*draw[:4], *hidden))
        scores: Tensor = self.model.network(self.model.graph, asked, relation, visible)
        others = scores.index_put((row, answer), torch.full((), NO_ANSWER, device=self.model.device)).logsumexp(1)
        return softplus(others[at] - scores[at, target]).sum()

    def _here(self, ids: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(ids).to(self.model.device)


class PathTask(PatientTask):
    """A path network: a round is a tenth of the run."""

    config: TrainConfig
    model: PathModel
    keeps_best = True
    bilinear = False
    advice = "fewer steps, fewer layers and a lower rank are faster, a GPU (device cuda) much faster"

    def __init__(self, edges: TrainingEdges, config: TrainConfig, device: torch.device) -> None:
        if config.precision != "auto":
            raise BadInput("a path network has its own precision (bfloat16 on a GPU, else float32): leave it at auto")
        if config.rank > WIDEST:
            raise BadInput(f"rank is {config.rank}; a path network is at most {WIDEST} wide")
        if config.start:
            refuse_start(config, edges)
        self.edges, self.config, self.device = edges, config, device
        self.questions = Questions(edges.splits["train"], edges.relations, config.targets)
        self.steps_per_epoch = max(1, math.ceil(self.questions.rounds / config.batch))
        self.steps = config.steps or config.epochs * self.steps_per_epoch
        self.whole_pairs = config.hide == "pair" or (config.hide == "auto" and hides_pairs(edges))
        self.products = 0  # of what torch should share out: the questions are, in `cores`

    def prepare(self) -> None:
        edges, config = self.edges, self.config
        torch.manual_seed(config.seed)  # on the CPU, so a seed means the same on every device
        kind = trained_class(config.model)
        network = kind.network_of(edges.relations, config.rank, config.layers).to(self.device)
        if config.start:
            start: Any = load_for(edges, config.start)
            network.load_state_dict(start.network.state_dict())
        self.model = kind(network, edges.entities, edges.relations, edges)
        fused = self.device.type == "cuda"
        self.optimizer = AdamW(network.parameters(), lr=config.learning_rate, weight_decay=DECAY, fused=fused)
        self.known = KnownAnswers(edges.splits, edges.entities, edges.relations, self.device)

    def parameters(self) -> Mapping[str, Tensor]:
        return dict(self.model.network.named_parameters())

    def step(self, position: Position) -> tuple[Tensor, int]:
        config, lesson = self.config, self.lesson(position)
        draw = lesson.questions.draw(config.batch, config.seed, position.step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(position.step)
        loss = lesson.differentiate(draw)
        clip_grad_norm_(self.model.network.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach(), int(draw.hidden.sum())

    def lesson(self, position: Position) -> Lesson:
        """What a step asks, and of which graph."""
        return Lesson(self.model, self.questions, self.whole_pairs)

    def learning_rate(self, step: int) -> float:
        """Rises in the first steps, falls along a cosine to nothing in the last."""
        rise = max(1, min(WARM_UP, self.steps // 10))
        return self.config.learning_rate * min(1.0, (step + 1) / rise) * (1 + math.cos(math.pi * step / self.steps)) / 2

    def amount(self, position: Position) -> tuple[float, float, str]:
        return position.step, self.steps, "steps"

    def rounds(self, position: Position) -> int:
        return position.step * ROUNDS // self.steps

    def measure(self) -> tuple[float, Mapping[str, float]] | None:
        if not self.edges.count("valid"):
            return None
        sample = max(FEWEST_MEASURED, self.steps * self.config.batch // (2 * MEASURED_SHARE))
        metrics = evaluate(self.model, self.edges.splits["valid"], self.known, self.device, sample)
        return metrics.mrr, metrics.to_json()

    def results(self, position: Position) -> dict[str, Any]:
        splits = [split for split in ("valid", "test") if self.edges.count(split)]
        metrics = {s: evaluate(self.model, self.edges.splits[s], self.known, self.device).to_json() for s in splits}
        best = (position.best_round or position.round) / ROUNDS * self.steps
        epochs = {"epochs": position.step, "best_epoch": best}
        return {**{key: round(at / self.steps_per_epoch, 2) for key, at in epochs.items()}, "metrics": metrics}

    def headline(self) -> str:
        config = self.config
        sizes = f"width {config.rank:,}, {config.layers:,} layers"
        passes = self.steps / self.steps_per_epoch
        return f"{config.model}, {sizes}, {self.steps:,} steps ({passes:.3g} epochs) of {config.batch:,} questions"

    def where(self, position: Position) -> str:
        return f"at step {position.step:,} of {self.steps:,}"


def refuse_start(config: TrainConfig, edges: TrainingEdges) -> None:
    """A training begins with the numbers of a model of the same kind and sizes alone."""
    about = describe(config.start)
    wanted = {"kind": config.model, "rank": config.rank, "layers": config.layers}
    if config.model != AnyGraphModel.kind:
        wanted |= {"relations": edges.relations}
    for what, value in wanted.items():
        if about.get(what) != value:
            raise BadInput(f"{config.start} cannot be the start: its {what} is {about.get(what)}, not {value}")


def hides_pairs(edges: TrainingEdges) -> bool:
    """Whether valid facts are rarely between two entities that train facts join, though those often join them twice.

    Then the network has to learn to find facts without another edge between their ends. FB15k-237 was made so.
    """
    if not edges.count("valid"):
        return False
    train, valid = (_pair_keys(edges.splits[split], edges.entities) for split in ("train", "valid"))
    pairs, count = np.unique(train, return_counts=True)
    twice = (count[np.searchsorted(pairs, train)] > 1).mean()
    return bool(np.isin(valid, pairs).mean() < twice / 2)


def _pair_keys(facts: Triples, entities: int) -> NDArray[np.int64]:
    """The two ends of each fact as one number, whichever is the head."""
    heads, _, tails = (np.asarray(part, dtype=np.int64) for part in facts)
    return np.minimum(heads, tails) * entities + np.maximum(heads, tails)


class GraphView(NamedTuple):
    """Facts with numbers of their own, and which of them are hidden."""

    facts: Triples
    hidden: NDArray[np.bool_]
    entities: int
    relations: int
    telling: Telling = Telling()

    @property
    def visible(self) -> TrainingEdges:
        """What is left to walk along."""
        heads, relation, tails = (ids[~self.hidden] for ids in self.facts)
        return TrainingEdges({"train": (heads, relation, tails)}, self.entities, self.relations)


def draw_view(edges: TrainingEdges, whole: float, whole_pairs: bool, chance: np.random.Generator) -> GraphView:
    """A random view of the train edges: of all of them with chance `whole`.

    With `whole_pairs`, what is hidden there has no other edge between its ends.
    """
    heads, relation, tails = (np.asarray(ids, dtype=np.int64) for ids in edges.splits["train"])
    rows, entities, relations = np.stack([heads, relation, tails]), edges.entities, edges.relations
    if chance.random() >= whole:
        for _ in range(TRIES):
            part = rows[:, _part((heads, relation, tails), edges, chance)]
            if part.shape[1] >= FEWEST:
                break
        if part.shape[1] >= FEWEST:
            sparse, merged, copied = chance.random(3) < (SPARSE, MERGED, COPIED)
            facts = part.shape[1]
            rows = part
            if sparse:
                rows = part[:, chance.permutation(facts) < max(FEWEST, chance.uniform(0.2, 0.8) * facts)]
            rows = _merge_relations(rows, chance) if merged else rows
            rows = _copy_relations(rows, chance) if copied else rows
            ends, numbered = np.unique(rows[[0, 2]], return_inverse=True)
            names, relation = np.unique(rows[1], return_inverse=True)
            heads, tails = numbered.reshape(2, -1)
            rows, entities, relations = np.stack([heads, relation, tails]), len(ends), len(names)
            # Elsewhere facts do have others between their ends.
            whole_pairs &= not copied and bool(chance.random() < 0.5)
    facts = rows[0], rows[1], rows[2]
    return GraphView(facts, _hide(facts, entities, whole_pairs, chance), entities, relations)


def draw_telling(chance: np.random.Generator) -> Telling:
    """What meetings tell in a view: sometimes neither levels nor fan-outs, or levels with other bounds."""
    by = np.exp(chance.normal(0, 0.5)) if chance.random() < 0.3 else 1.0
    low, high = (min(0.9, float(bound * by)) for bound in SHARES)
    return Telling((low, high), bool(chance.random() >= 0.3), bool(chance.random() < 0.6))


def _merge_relations(rows: NDArray[np.int64], chance: np.random.Generator) -> NDArray[np.int64]:
    """At most half as many relations, down to two, of about one size or of very different ones."""
    relations = int(rows[1].max()) + 1
    left = int(np.exp(chance.uniform(np.log(2), np.log(max(3, relations / 2)))))
    share = chance.dirichlet(np.full(left, 0.5)) if chance.random() < 0.5 else np.full(left, 1 / left)
    new = chance.choice(left, size=relations, p=share)
    return np.unique(np.stack([rows[0], new[rows[1]], rows[2]]), axis=1)


def _copy_relations(rows: NDArray[np.int64], chance: np.random.Generator) -> NDArray[np.int64]:
    """A fifth of the relations have a copy with a share of their facts, some against their direction."""
    relations = int(rows[1].max()) + 1
    copies = np.full(relations, -1)
    chosen = chance.permutation(relations)[: max(1, relations // 5)]
    copies[chosen] = relations + np.arange(len(chosen))
    share, turned = chance.uniform(0.2, 1.0, relations), chance.random(relations) < 0.5
    again = rows[:, (copies[rows[1]] >= 0) & (chance.random(rows.shape[1]) < share[rows[1]])]
    back = turned[again[1]]
    heads, tails = np.where(back, again[2], again[0]), np.where(back, again[0], again[2])
    return np.concatenate([rows, np.stack([heads, copies[again[1]], tails])], axis=1)


def _part(facts: Triples, edges: TrainingEdges, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Marks the facts of some relations between some entities."""
    heads, relation, tails = facts
    some, how = np.ones(len(heads), dtype=bool), chance.random()
    if how < SOME:
        some = (chance.random(edges.relations) < chance.uniform(0.2, 1.0))[relation]
    elif how < SOME + FEW:
        size = np.bincount(relation, minlength=edges.relations)
        few = min(int(np.exp(chance.uniform(0, np.log(20)))), int((size > 0).sum()))
        some = np.isin(relation, chance.choice(edges.relations, few, replace=False, p=size / size.sum()))
    wanted = int(np.exp(chance.uniform(*np.log(PART))))
    heads, tails = heads[some], tails[some]
    if not len(heads):
        return some
    choose = _surroundings if chance.random() < 0.5 else _core
    inside = choose(heads, tails, edges.entities, wanted, chance)
    return some & inside[facts[0]] & inside[facts[2]]


def _surroundings(heads: Ids, tails: Ids, entities: int, wanted: int, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Marks entities around a random one, step by step."""
    inside = np.zeros(entities, dtype=bool)
    inside[chance.choice(heads)] = True
    count = 1
    while count < wanted:
        next_to = inside[heads] ^ inside[tails]
        reached = np.unique(np.where(inside[heads[next_to]], tails[next_to], heads[next_to]))
        if not len(reached):
            break
        reached = chance.permutation(reached)[: max(1, wanted - count)]
        inside[reached] = True
        count += len(reached)
    return inside


def _core(heads: Ids, tails: Ids, entities: int, wanted: int, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Marks entities that have many facts, more or less."""
    degree = np.bincount(heads, minlength=entities) + np.bincount(tails, minlength=entities)
    inside = np.zeros(entities, dtype=bool)
    inside[np.argsort(-degree * np.exp(chance.normal(0, 0.5, entities)))[:wanted]] = True
    return inside


def _hide(facts: Triples, entities: int, whole_pairs: bool, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Marks facts that are hidden, one by one or with all others between the same two entities; at least one is."""
    share = np.exp(chance.uniform(*np.log(HIDDEN)))
    number, count = np.arange(len(facts[0])), len(facts[0])
    if whole_pairs:
        pairs, number = np.unique(_pair_keys(facts, entities), return_inverse=True)
        count = len(pairs)
    hidden: NDArray[np.bool_] = (chance.permutation(count) < max(1, share * count))[number]
    return hidden


class AnyGraphTask(PathTask):
    """A path network of any graph, trained on one."""

    model: AnyGraphModel
    views: dict[int, Lesson]

    def prepare(self) -> None:
        super().prepare()
        self.views = {}

    def lesson(self, position: Position) -> Lesson:
        replaced, chance = position.step // EVERY, np.random.default_rng([self.config.seed, position.step, _STEP])
        number = view_number(replaced, int(chance.integers(AT_HAND)))
        if number not in self.views:
            self.views = {key: view for key, view in self.views.items() if key > replaced}  # those still at hand
            view = self.view(np.random.default_rng([self.config.seed, number, _VIEW]))
            questions = Questions(view.facts, view.relations, self.config.targets, view.hidden)
            model = self.model.on(view.visible).telling(view.telling)
            self.views[number] = Lesson(model, questions, whole_pairs=False)
        return self.views[number]

    def view(self, chance: np.random.Generator) -> GraphView:
        """A random view."""
        return draw_view(self.edges, 1.0, self.whole_pairs, chance)


class MixedTask(AnyGraphTask):
    """The same, trained on several graphs, and measured by the mean of their valid MRR.

    Large ones are asked more often, in proportion to the root of how many facts they have: the largest must not be all
    there is.
    """

    def __init__(self, graphs: Mapping[str, TrainingEdges], config: TrainConfig, device: torch.device) -> None:
        if config.model != AnyGraphModel.kind:
            raise BadInput(f"{config.model} learns the names of relations; several graphs need {AnyGraphModel.kind}")
        self.graphs, each = graphs, list(graphs.values())
        super().__init__(each[0], config, device)
        weight = np.sqrt([edges.count("train") for edges in each])
        self.share = weight / weight.sum()
        self.pairs = [hides_pairs(edges) for edges in each]
        rounds = sum(Questions(edges.splits["train"], edges.relations, config.targets).rounds for edges in each)
        self.steps_per_epoch = max(1, math.ceil(rounds / config.batch))
        self.steps = config.steps or config.epochs * self.steps_per_epoch

    def prepare(self) -> None:
        super().prepare()
        self.answers = {
            name: KnownAnswers(edges.splits, edges.entities, edges.relations, self.device)
            for name, edges in self.graphs.items()
        }

    def view(self, chance: np.random.Generator) -> GraphView:
        graph = int(chance.choice(len(self.share), p=self.share))
        view = draw_view(list(self.graphs.values())[graph], WHOLE, self.pairs[graph], chance)
        return view._replace(telling=draw_telling(chance))

    def measure(self) -> tuple[float, Mapping[str, float]] | None:
        each = {name: found["mrr"] for name, found in self._evaluate("valid", MEASURED).items()}
        return (math.fsum(each.values()) / len(each), each) if each else None

    def _evaluate(self, split: str, sample: int | None = None) -> dict[str, dict[str, Any]]:
        found = {}
        for name, edges in self.graphs.items():
            if edges.count(split):
                asked = edges.splits[split], self.answers[name], self.device, sample
                found[name] = evaluate(self.model.on(edges), *asked).to_json()
        return found

    def results(self, position: Position) -> dict[str, Any]:
        each = {split: self._evaluate(split) for split in ("valid", "test")}
        metrics = {f"{name} {split}": one for split, found in each.items() for name, one in found.items()}
        epochs = round(position.step / self.steps_per_epoch, 2)
        return {"epochs": epochs, "metrics": metrics, "graphs": list(self.graphs)}

    def headline(self) -> str:
        *names, last = self.graphs
        return f"{super().headline()} of {', '.join(names) + ' and ' if names else ''}{last}"


def view_number(replaced: int, place: int) -> int:
    """Which view is at a place after so many were replaced, one place after the other.

    >>> [view_number(0, place) for place in (0, 1, 15)], [view_number(17, place) for place in (0, 1, 2)]
    ([16, 1, 15], [32, 33, 18])
    """
    return replaced + AT_HAND - (replaced - place) % AT_HAND
