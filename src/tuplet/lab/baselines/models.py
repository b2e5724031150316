"""The query models BetaE, LogicE, ConE and LMPNN: how they are made, opened, and asked for any query graph.

Asked, a model gives one score for every entity and free variable, for many queries at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import pi
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout, normalize

from tuplet.engines.marginals import Scores
from tuplet.engines.ns3.batch import ClauseBatch, Term
from tuplet.engines.ns3.tensors import TensorTable
from tuplet.errors import BadInput, CorruptStore, Refused, unknown
from tuplet.lab.baselines.embedding import (
    Batch,
    Link,
    Pattern,
    QueryEmbedding,
    QueryModel,
    QueryModelSettings,
    distances,
    narrow,
    pattern_of,
    perceptron,
    uniform,
)
from tuplet.lab.baselines.engine import TrainedOptions, open_once
from tuplet.predict.device import pick_device
from tuplet.predict.embeddings import EmbeddingModel, multiply
from tuplet.predict.model_folder import DESCRIPTION, TENSORS, describe, read_tensors
from tuplet.query.limits import NO_DEADLINE, Deadline
from tuplet.query.ranking import Clauses, QueryGraph
from tuplet.query.source import Source
from tuplet.settings import from_mapping

INSIDE = 0.02  # of ConE: what the distance to the axis counts beside the distance to the sector
KEPT = 0.1  # of LMPNN: of what a node was, beside the messages it receives


class BetaE(QueryEmbedding):
    """BetaE (Ren and Leskovec 2020): entities and queries are Beta distributions, near where their KL is small.

    Projection by a perceptron on [state, relation], intersection by attention, negation by the reciprocal.

    A state is [alpha, beta]. The distance KL(entity ‖ query) splits into matrix products: with the mean log-odds
    statistics of an entity, E[log x] = ψ(α) − ψ(α+β), it is log B(query) − log B(entity) + (entity − query) ·
    E[log x, log(1−x)].
    """

    kind = "betae"
    published = QueryModelSettings(dim=400, gamma=60.0, table_rate=10.0)

    def __init__(self, entities: int, relations: int, settings: QueryModelSettings) -> None:
        super().__init__(entities, relations, settings)
        dim, bound = settings.dim, (settings.gamma + 2) / settings.dim
        self.entity = uniform(entities, 2 * dim, bound)
        self.relation = uniform(2 * relations, dim, bound)
        self.projection = perceptron(3 * dim, settings.hidden, settings.layers, 2 * dim)
        self.attention = perceptron(2 * dim, 2 * dim, 1, dim)
        self._kept: tuple[tuple[int, int], tuple[Tensor, Tensor]] | None = None

    def entities(self, ids: Tensor) -> Tensor:
        return positive(self.entity.index_select(0, ids))

    def project(self, state: Tensor, view: Tensor) -> Tensor:
        relation = self.relation.index_select(0, view)
        return positive(self.projection(torch.cat([state, relation], -1)))

    def intersect(self, states: Tensor) -> Tensor:
        weight = self.attention(states).softmax(0)
        return (torch.cat([weight, weight], -1) * states).sum(0)

    def negate(self, state: Tensor) -> Tensor:
        return 1 / state

    def logits(self, state: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self.settings.gamma - self.divergence(state, candidates)

    def divergence(self, state: Tensor, candidates: Tensor | None = None) -> Tensor:
        """KL(entity ‖ query), summed over dimensions; candidates as in `logits` → [n, m]."""
        rows, places = narrow(self.entity, candidates)
        mean, information = self._statistics() if rows is self.entity else statistics(positive(rows))
        every = log_beta(state)[:, None] + information - (state - 1) @ mean.T
        return every if places is None else every.gather(1, places)

    def after_step(self) -> None:
        self._kept = None  # not every optimizer counts the versions of what it changes

    def _statistics(self) -> tuple[Tensor, Tensor]:
        """The statistics of all entities; kept between rankings, as long as the table is the same."""
        if torch.is_grad_enabled():
            return statistics(positive(self.entity))
        key = self.entity.data_ptr(), self.entity._version
        if self._kept is None or self._kept[0] != key:
            self._kept = key, statistics(positive(self.entity))
        return self._kept[1]


def positive(raw: Tensor) -> Tensor:
    """Parameters of Beta distributions from numbers around 0.

    >>> positive(torch.tensor([-3.0, 0.0, 2.0]))
    tensor([0.0500, 1.0000, 3.0000])
    """
    return (raw + 1).clamp(0.05, 1e9)


def statistics(state: Tensor) -> tuple[Tensor, Tensor]:
    """Statistics of the first distribution [m, 2d] of KL: E[log x, log(1 − x)] [m, 2d] and minus the entropy [m].

    Both count parameters from 1, the uniform distribution, so that sums of large terms do not cancel each other.
    """
    alpha, beta = state.chunk(2, -1)
    both = torch.digamma(alpha + beta)
    mean = torch.cat([torch.digamma(alpha) - both, torch.digamma(beta) - both], -1)
    return mean, ((state - 1) * mean).sum(-1) - log_beta(state)


def log_beta(state: Tensor) -> Tensor:
    """log B(alpha, beta), summed over dimensions: [n, 2d] → [n]."""
    alpha, beta = state.chunk(2, -1)
    return (torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)).sum(-1)


class LogicE(QueryEmbedding):
    """LogicE (Luus et al. 2021): entities and queries are vectors of truth values, combined by fuzzy logic.

    Projection by a perceptron with a sigmoid, intersection by the weighted Łukasiewicz norm, negation 1 − x.

    A state is [lower, upper], two bounds on each truth value.
    """

    kind = "logice"
    published = QueryModelSettings(dim=400, gamma=0.375, table_rate=10.0)

    def __init__(self, entities: int, relations: int, settings: QueryModelSettings) -> None:
        super().__init__(entities, relations, settings)
        dim = settings.dim
        self.entity = nn.Parameter(as_bounds(torch.rand(entities, 2 * dim)))
        self.relation = uniform(2 * relations, dim, (settings.gamma + 2) / dim)
        self.projection = perceptron(3 * dim, settings.hidden, settings.layers, 2 * dim)
        self.attention = perceptron(2 * dim, 2 * dim, 1, dim)

    def entities(self, ids: Tensor) -> Tensor:
        return self.entity.index_select(0, ids)

    def project(self, state: Tensor, view: Tensor) -> Tensor:
        relation = self.relation.index_select(0, view)
        return as_bounds(self.projection(torch.cat([state, relation], -1)).sigmoid())

    def intersect(self, states: Tensor) -> Tensor:
        score: Tensor = self.attention(states)
        weight = (score - score.amax(0)).exp()  # the most important one counts fully
        weight = torch.cat([weight, weight], -1)
        return (1 - (weight * (1 - states)).sum(0)).clamp(0, 1)

    def negate(self, state: Tensor) -> Tensor:
        lower, upper = state.chunk(2, -1)
        return 1 - torch.cat([upper, lower], -1)

    def logits(self, state: Tensor, candidates: Tensor | None = None) -> Tensor:
        mean = distances(difference, state, *narrow(self.entity, candidates)) / state.shape[-1]
        return 100 * (self.settings.gamma - mean)

    def after_step(self) -> None:
        self.entity.clamp_(0, 1)


def as_bounds(truth: Tensor) -> Tensor:
    """Two numbers in [0, 1] as a lower bound and the share of what is above it."""
    lower, share = truth.chunk(2, -1)
    return torch.cat([lower, lower + share * (1 - lower)], -1)


def difference(query: Tensor, rows: Tensor) -> Tensor:
    """Sum of absolute differences.

    >>> difference(torch.tensor([0.25, 1.0]), torch.tensor([0.5, 0.25]))
    tensor(1.)
    """
    return (query - rows).abs().sum(-1)


class ConE(QueryEmbedding):
    """ConE (Zhang et al. 2021): a query is a product of sectors of the plane, an entity a product of rays.

    Projection by a perceptron on state + relation, intersection by a mean on the circle, negation by the rest.

    A state is [axis, aperture]: a sector reaches from axis − aperture to axis + aperture; of an entity the aperture is
    0.
    """

    kind = "cone"
    # A larger `batch` here than the published 512 lets the rate grow less: at rates of its perceptron that the others
    # bear, ConE stayed near chance on a small graph; its tables bear them.
    published = QueryModelSettings(dim=800, gamma=30.0, learning_rate=5e-5, batch=2048, dropout=0.1, table_rate=8.0)
    elsewhere: ClassVar = {
        14951: {"dropout": 0.05},
        63361: {"gamma": 20.0, "learning_rate": 1e-4, "batch": 4096, "dropout": 0.2},
    }

    def __init__(self, entities: int, relations: int, settings: QueryModelSettings) -> None:
        super().__init__(entities, relations, settings)
        dim, self.bound = settings.dim, (settings.gamma + 2) / settings.dim
        self.entity = uniform(entities, dim, self.bound)
        self.relation = uniform(2 * relations, 2 * dim, self.bound)
        self.projection = perceptron(2 * dim, settings.hidden, settings.layers, 2 * dim)
        self.axis_attention = perceptron(2 * dim, dim, 1, dim)
        self.aperture_inner = perceptron(2 * dim, dim, 0, dim)
        self.aperture_gate = perceptron(dim, dim, 0, dim)
        self.modulus = nn.Parameter(torch.tensor(self.bound / 2))  # the learned scale of the distance

    def entities(self, ids: Tensor) -> Tensor:
        axis = angle(self.entity.index_select(0, ids) / self.bound)
        return torch.cat([axis, torch.zeros_like(axis)], -1)

    def project(self, state: Tensor, view: Tensor) -> Tensor:
        relation = angle(self.relation.index_select(0, view) / self.bound)
        axis, aperture = self.projection(state + relation).chunk(2, -1)
        return torch.cat([angle(axis), (angle(2 * aperture) + pi) / 2], -1)

    def intersect(self, states: Tensor) -> Tensor:
        axis, aperture = states.chunk(2, -1)
        ends = torch.cat([axis - aperture, axis + aperture], -1)
        weight = self.axis_attention(ends).softmax(0)
        across, up = (weight * axis.cos()).sum(0), (weight * axis.sin()).sum(0)
        # Opposite axes cancel out; the direction of nothing has no gradient.
        across = across.where(across.abs() >= 1e-3, 1e-3)
        gate = self.aperture_gate(self.aperture_inner(ends).relu().mean(0)).sigmoid()
        narrowest = dropout(aperture, self.settings.dropout, self.training).amin(0)
        return torch.cat([torch.atan2(up, across), narrowest * gate], -1)

    def negate(self, state: Tensor) -> Tensor:
        axis, aperture = state.chunk(2, -1)
        return torch.cat([axis - torch.where(axis >= 0, pi, -pi), pi - aperture], -1)

    def logits(self, state: Tensor, candidates: Tensor | None = None) -> Tensor:
        axis, aperture = (state / 2).chunk(2, -1)
        query = torch.cat([axis.sin(), axis.cos(), aperture.sin(), aperture.cos()], -1)
        rows, places = narrow(self.entity, candidates)
        half = angle(rows / self.bound) / 2
        apart = distances(distance, query, torch.cat([half.sin(), half.cos()], -1), places)
        return self.settings.gamma - apart * self.modulus


def angle(number: Tensor) -> Tensor:
    """Any number as an angle between −π and π."""
    return number.tanh() * pi


def distance(query: Tensor, rows: Tensor) -> Tensor:
    """From rays to sectors, summed: the way to the nearest side counts outside, a little of the way to the axis inside.

    With half angles θ between ray and axis and φ of the aperture, both at most a right angle, a dimension adds
    max(0, sin(θ − φ)) + 0.02 · min(sin θ, sin φ). Sines of differences come from those of both sides: no sine a pair.
    """
    sine, cosine = rows.chunk(2, -1)
    axis_sine, axis_cosine, sin_aperture, cos_aperture = query.chunk(4, -1)
    sin_apart = (sine * axis_cosine - cosine * axis_sine).abs()
    cos_apart = (cosine * axis_cosine + sine * axis_sine).abs()
    outside = (sin_apart * cos_aperture - cos_apart * sin_aperture).relu()
    return (outside + INSIDE * torch.minimum(sin_apart, sin_aperture)).sum(-1)


class LMPNN(QueryModel):
    """LMPNN (Wang et al. 2023): messages along the edges of the query graph, on a frozen link predictor (ComplEx).

    Message passing with the vectors of a frozen ComplEx; `dim` is its rank, a state is real and imaginary parts.

    A constant starts as its entity's vector, every existential variable as one learned vector, the variable asked for
    as another. In each layer an edge r(h, t) sends h ∘ r to t and t ∘ r⁻¹ to h, with the sign turned where it is
    negated; the sum of what a node receives and a tenth of what it was go through one perceptron, the same in all
    layers. There are as many layers as variables. Entities are ranked by their cosine with the vector of the variable
    asked for.

    The published code has conj(r) for r⁻¹. Our predictors have a reciprocal row for each relation, which was trained to
    find heads from tails; it takes that place: view 2r is row r, view 2r + 1 is row r + relations.
    """

    kind = "lmpnn"
    published = QueryModelSettings(dim=0, gamma=0.0, hidden=4096, layers=1, batch=1024, weight_decay=1e-4)
    elsewhere: ClassVar = {14951: {"hidden": 8192}, 63361: {"hidden": 8192, "temperature": 0.1, "batch": 512}}
    rests_on_predictor = own_loss = True

    entity: Tensor
    relation: Tensor

    def __init__(self, entities: int, relations: int, settings: QueryModelSettings) -> None:
        super().__init__(entities, relations, settings)
        width = 2 * settings.dim
        if not width:
            raise BadInput("LMPNN rests on a link predictor; give one (--predictor MODEL)")
        self.register_buffer("entity", torch.zeros(entities, width))
        self.register_buffer("relation", torch.zeros(2 * relations, width))
        self.exists = nn.Parameter(torch.randn(width) / width**0.5)
        self.free = nn.Parameter(torch.randn(width) / width**0.5)
        self.update = perceptron(width, settings.hidden, settings.layers, width)

    def adopt(self, predictor: EmbeddingModel) -> None:
        if predictor.kind != "complex":
            raise BadInput(f"LMPNN rests on ComplEx, not on {predictor.kind}; train one with --model complex")
        if (predictor.entities, predictor.relations) != (self.entity_count, self.relation_count):
            raise BadInput(
                f"the link predictor has {predictor.entities:,} entities and {predictor.relations:,} relations, "
                f"the graph {self.entity_count:,} and {self.relation_count:,}"
            )
        # Of unit length on average, so that one learning rate fits predictors of any scale; cosines stay as they are.
        self.entity.copy_(predictor.entity / predictor.entity.norm(dim=1).mean())
        self.relation.copy_(predictor.relation / predictor.relation.norm(dim=1).mean() * self.settings.dim**0.5)

    def row(self, view: Tensor) -> Tensor:
        return self.relation[(view >> 1) + (view & 1) * self.relation_count]

    def embed_many(self, batches: Sequence[Batch]) -> list[Tensor]:
        return [self._pass_messages(*batch) for batch in batches]

    def _pass_messages(self, pattern: Pattern, target: int, constants: Tensor, views: Tensor) -> Tensor:
        states = {~place: self.entity[column] for place, column in enumerate(constants.T)}
        for variable in range(pattern.variables):
            states[variable] = (self.free if variable == target else self.exists).expand(len(constants), -1)
        towards = [self.row(views[:, i]) for i in range(len(pattern.edges))]
        back = [self.row(views[:, i] ^ 1) for i in range(len(pattern.edges))]
        for wanted in layers(pattern, target):
            received = {node: KEPT * states[node] for node in wanted}
            for i, (head, tail, negated) in enumerate(pattern.edges):
                sign = -1 if negated else 1
                if tail in received:
                    received[tail] = received[tail] + sign * multiply(states[head], towards[i])
                if head in received:
                    received[head] = received[head] + sign * multiply(states[tail], back[i])
            updated = self.update(torch.stack(list(received.values())))
            states = dict(zip(received, updated, strict=True))
        return states[target]

    def logits(self, state: Tensor, candidates: Tensor | None = None) -> Tensor:
        query = normalize(state, dim=-1)
        if candidates is None or candidates.dim() == 1:
            rows = self.entity if candidates is None else self.entity[candidates]
            return query @ normalize(rows, dim=-1).T / self.settings.temperature
        rows = normalize(self.entity[candidates], dim=-1)
        return (rows @ query[:, :, None])[..., 0] / self.settings.temperature

    def loss(self, positive: Tensor, negative: Tensor, weight: Tensor) -> Tensor:
        """InfoNCE: the answer among random entities; each query counts the same."""
        logits = torch.cat([positive[:, None], negative], 1)
        return cross_entropy(logits, logits.new_zeros(len(logits), dtype=torch.int64))


@lru_cache(maxsize=4096)
def layers(pattern: Pattern, target: int) -> tuple[tuple[int, ...], ...]:
    """The nodes that each layer updates, as many layers as variables: only what can still reach the target.

    >>> from tuplet.lab.baselines.embedding import Link
    >>> layers(Pattern(2, (Link(~0, 1), Link(1, 0))), 0)  # s → e → f
    ((0, 1), (0,))
    """
    wanted: list[tuple[int, ...]] = [(target,)]
    for _ in range(1, pattern.variables):
        near = {node for edge in pattern.edges for node in edge[:2] if {*edge[:2]} & {*wanted[-1]}}
        wanted.append((*wanted[-1], *sorted(near - {*wanted[-1]}, reverse=True)))
    return tuple(reversed(wanted))


MODELS: Mapping[str, type[QueryModel]] = {model.kind: model for model in (BetaE, LogicE, ConE, LMPNN)}


def settings_for(name: str, entities: int) -> QueryModelSettings:
    """The published settings of a model for a graph of that many entities; those of FB15k-237 for any other graph.

    >>> settings_for("cone", 63361).gamma
    20.0
    """
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    return replace(MODELS[name].published, **MODELS[name].elsewhere.get(entities, {}))  # type: ignore[arg-type]


def create(
    name: str,
    entities: int,
    relations: int,
    settings: QueryModelSettings | None = None,
    seed: int = 0,
    predictor: EmbeddingModel | None = None,
) -> QueryModel:
    """A fresh model; its initial numbers depend on the seed alone, and torch's own generator is left as it was.

    `predictor` is the link predictor that LMPNN rests on; the others learn their own tables.
    """
    settings, kind = settings or settings_for(name, entities), MODELS[name]
    if predictor is not None and kind.rests_on_predictor:
        settings = replace(settings, dim=predictor.rank)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind(entities, relations, settings)
    if predictor is not None:
        model.adopt(predictor)
    return model


def load(folder: str | Path, device: torch.device | str = "cpu") -> QueryModel:
    """Open a query model, ready to be asked."""
    folder = Path(folder)
    description = describe(folder)
    name = description["kind"]
    if name not in MODELS:
        raise BadInput(f"{folder} is a {name} link predictor; the query models are {', '.join(MODELS)} (tuplet train)")
    tensors = read_tensors(folder / TENSORS, "cpu", description["sha256"])
    try:
        settings = from_mapping(QueryModelSettings, description["settings"], str(folder / DESCRIPTION))
        model = create(name, description["entities"], description["relations"], settings)
        model.load_state_dict({key: value.float() for key, value in tensors.items()})
    except (BadInput, KeyError, RuntimeError) as error:
        raise CorruptStore(f"{folder}: {DESCRIPTION} and {TENSORS} do not fit together: {error}") from None
    return model.to(device).eval()


# --- asked --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ground:
    """Many queries of one clause pattern."""

    pattern: Pattern
    free: tuple[int, ...]  # the variables asked for
    constants: Tensor  # [n, ·]
    views: Tensor  # [n, edges]

    def part(self, rows: slice, device: torch.device) -> Ground:
        """Some of the queries, elsewhere."""
        return Ground(self.pattern, self.free, self.constants[rows].to(device), self.views[rows].to(device))


def by_pattern(queries: Sequence[Sequence[QueryGraph]]) -> list[tuple[list[int], list[Ground]]]:
    """Queries, each some clauses, in groups that differ in constants and relations only: (which queries, clauses)."""
    groups: dict[object, list[int]] = {}
    made = [[pattern_of(clause) for clause in clauses] for clauses in queries]
    for number, clauses in enumerate(queries):
        key = tuple((part[0], clause.free) for part, clause in zip(made[number], clauses, strict=True))
        groups.setdefault(key, []).append(number)
    result = []
    for numbers in groups.values():
        ground = []
        for place, clause in enumerate(queries[numbers[0]]):
            pattern = made[numbers[0]][place][0]
            constants, views = (torch.tensor([made[n][place][i] for n in numbers], dtype=torch.int64) for i in (1, 2))
            ground.append(Ground(pattern, clause.free, constants.view(len(numbers), -1), views))
        result.append((numbers, ground))
    return result


@torch.inference_mode()
def scores(
    model: QueryModel,
    clauses: Sequence[Ground],
    device: torch.device,
    deadline: Deadline = NO_DEADLINE,
    block: int | None = None,
) -> Tensor:
    """Logits of every entity for each free variable of each query: [n, k, entities], on the CPU.

    Each free variable is asked for on its own, the others existential. A union takes the best of its clauses.
    """
    count, k = len(clauses[0].views), len(clauses[0].free)
    # Queries at a time: few between two looks at a deadline, where there is one.
    cells = 29 if device.type == "cuda" else 24 if deadline.seconds is None else 18
    block = block or max(1, min(1024, (1 << cells) // model.entity_count))
    parts = []
    for begin in range(0, count, block):
        rows = [clause.part(slice(begin, begin + block), device) for clause in clauses]
        per_variable = []
        for j in range(k):
            best: Tensor | None = None
            for g in rows:
                deadline.check()
                found = model.logits(model.embed(g.pattern, g.free[j], g.constants, g.views))
                best = found if best is None else torch.maximum(best, found)
            assert best is not None  # a query has a clause
            per_variable.append(best.float().cpu())
        parts.append(torch.stack(per_variable, 1))
    return torch.cat(parts)


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Logits [..., entities] as numbers that may be multiplied: each entity's share among all.

    >>> softmax(np.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    shifted = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    share: NDArray[np.float64] = shifted / shifted.sum(-1, keepdims=True)
    return share


def refuse_unreached(name: str, clause: QueryGraph) -> None:
    """Raise `Refused` where states begin at constants and none reaches a variable that is asked for."""
    pattern = pattern_of(clause)[0]
    for variable in clause.free:
        if not MODELS[name].reaches(pattern, variable):
            missed = clause.variables[variable]
            raise Refused(f"engine {name!r} starts from constants; none reaches ?{missed}; try 'exact'")


def marginals(
    name: str, queries: Sequence[Clauses], source: Source, options: TrainedOptions, deadline: Deadline
) -> list[Scores]:
    """The scores of a query model for each query: every entity for each free variable [k, entities]."""
    device = pick_device(options.device)
    model = open_model(name, options.model, str(device), source)
    found: dict[int, Scores] = {}
    for numbers, clauses in by_pattern(queries):
        found |= zip(numbers, scores(model, clauses, device, deadline).numpy(), strict=True)
    return [found[number] for number in range(len(queries))]


def open_model(name: str, path: str, device: str, source: Source) -> QueryModel:
    """The model that an option names, opened once; it must be of that kind and of the graph that is asked."""
    if not path:
        raise BadInput(f"engine {name!r} needs its model: option model=FOLDER (tuplet train --model {name})")
    kind = describe(path)["kind"]
    if kind != name:
        shown = MODELS[kind].__name__ if kind in MODELS else kind
        raise BadInput(f"{path} is a {shown} model, not one of engine {name!r}")
    return open_once(load, path, device, source)


@dataclass(frozen=True)
class NeuralIndex:
    """A neural index for NS3, after NLISA: a query model says which entities of a variable are worth searching.

    The model sees the whole query graph and is asked for one variable at a time, existential ones too, the others
    existential; the B entities that it scores highest are kept, whether or not the truth table can make them true.
    Constants and atoms are all it reads: inequalities, conditions and atoms r(x, x) are the search's.
    """

    model: QueryModel
    relations: Tensor  # the relation that each number of the truth table stands for
    device: torch.device
    deadline: Deadline = NO_DEADLINE

    @staticmethod
    def from_folder(path: str, source: Source, table: TensorTable, deadline: Deadline = NO_DEADLINE) -> NeuralIndex:
        """The index by the model in a folder, for queries on a truth table."""
        if not path:
            raise BadInput("index=neural needs a query model: option model=FOLDER (tuplet train --model lmpnn)")
        model = open_model(describe(path)["kind"], path, str(table.device), source)
        return NeuralIndex(model, (table.number >= 0).nonzero().view(-1), table.device, deadline)

    def __call__(self, clause: ClauseBatch, variable: int, most: int) -> Tensor:
        ground = self.ground(clause, variable)
        if not self.model.reaches(ground.pattern, variable):
            name = clause.shape.variables[variable]
            raise Refused(f"{self.model.kind} starts from constants, and none reaches ?{name}; try a model lmpnn")
        found = scores(self.model, [ground], self.device, self.deadline)[:, 0].to(self.device)
        best = found.topk(min(most, found.shape[1]), dim=1).indices
        return torch.zeros_like(found, dtype=torch.bool).scatter_(1, best, True)

    def ground(self, clause: ClauseBatch, variable: int) -> Ground:
        """The clause as query models read it, asked for one variable."""
        constants: list[Tensor] = []

        def node(end: Term) -> int:
            if isinstance(end, int):
                return end
            constants.append(end)
            return ~(len(constants) - 1)

        atoms = [literal for literal in clause.literals if literal.view is not None]
        links = tuple(Link(node(atom.head), node(atom.tail), atom.negated) for atom in atoms)
        views = [2 * self.relations[atom.view >> 1] + (atom.view & 1) for atom in atoms if atom.view is not None]
        return Ground(
            Pattern(len(clause.shape.variables), links),
            (variable,),
            torch.stack(constants, 1) if constants else torch.zeros((clause.queries, 0), dtype=torch.int64),
            torch.stack(views, 1),
        )
