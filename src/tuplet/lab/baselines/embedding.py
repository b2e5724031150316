"""Query embedding: one vector per node of a query graph, and entities ranked by how near they lie to it.

BetaE, LogicE and ConE differ in five operators (`QueryEmbedding`, `models.py`); which operator is applied where is
decided once, here, for any query graph (`walk`). A batch is many queries of one `Pattern`: they differ in constants and
relations.

Relations are walked in both directions: view 2r is relation r from head to tail, view 2r + 1 from tail to head, so
that `view ^ 1` turns around. Each direction has its own learned row.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, softplus
from torch.utils.checkpoint import checkpoint

from tuplet.errors import BadInput
from tuplet.query.ranking import QueryGraph

if TYPE_CHECKING:
    from tuplet.predict.embeddings import EmbeddingModel

Distance = Callable[[Tensor, Tensor], Tensor]


class Link(NamedTuple):
    """An edge of a pattern between nodes: variables 0, 1, …, constants ~0, ~1, … (places of a grounding)."""

    head: int
    tail: int
    negated: bool = False


@dataclass(frozen=True)
class Pattern:
    """One clause without its constants and relations; its i-th edge takes the i-th view of a grounding."""

    variables: int
    edges: tuple[Link, ...]

    @property
    def constants(self) -> int:
        """The number of constants of a grounding."""
        return -min((node for edge in self.edges for node in edge[:2]), default=0) if self.edges else 0


def pattern_of(clause: QueryGraph) -> tuple[Pattern, list[int], list[int]]:
    """A clause as its pattern, its constants in the order of their first mention, and the views of its edges.

    >>> from tuplet.query.ranking import Edge
    >>> pattern_of(QueryGraph(("x",), (0,), (Edge(0, 3, ~7),)))
    (Pattern(variables=1, edges=(Link(head=0, tail=-1, negated=False),)), [7], [6])
    """
    place: dict[int, int] = {}
    for edge in clause.edges:
        for node in (edge.head, edge.tail):
            if node < 0:
                place.setdefault(node, ~len(place))
    links = tuple(Link(place.get(e.head, e.head), place.get(e.tail, e.tail), e.negated) for e in clause.edges)
    return Pattern(len(clause.variables), links), [~node for node in place], [2 * e.relation for e in clause.edges]


class Message(NamedTuple):
    """A message to a node: the state of `source` through `edge`, turned around or not, negated or not."""

    source: int
    edge: int
    turned: bool
    negated: bool


@lru_cache(maxsize=4096)
def walk(pattern: Pattern, target: int) -> tuple[tuple[int, tuple[Message, ...]], ...]:
    """The variables in the order in which they are embedded, `target` last, each with the messages it receives.

    Constants are known. Of the variables that something known reaches, those with one variable neighbour come first,
    then the farthest from the target; each receives from all its neighbours that are known by then. Variables that
    nothing reaches send no message, and an edge from a node to itself says nothing here.

    >>> for step in walk(Pattern(2, (Link(~0, 1), Link(0, 1, True))), 0):  # s → e ← f, the second edge negated
    ...     print(step)
    (1, (Message(source=-1, edge=0, turned=False, negated=False),))
    (0, (Message(source=1, edge=1, turned=True, negated=True),))
    """
    links: dict[int, list[Message]] = {v: [] for v in range(pattern.variables)}
    for number, (head, tail, negated) in enumerate(pattern.edges):
        if head != tail:
            if tail >= 0:
                links[tail].append(Message(head, number, False, negated))
            if head >= 0:
                links[head].append(Message(tail, number, True, negated))
    around = {v: {m.source for m in messages if m.source >= 0} for v, messages in links.items()}
    distance, edge = {target: 0}, [target]
    while edge:
        edge = [u for u in dict.fromkeys(u for v in edge for u in around[v]) if u not in distance]
        step = len(distance) and max(distance.values()) + 1
        distance.update(dict.fromkeys(edge, step))
    steps: list[tuple[int, tuple[Message, ...]]] = []
    known: set[int] = set()

    def reached(v: int) -> list[Message]:
        return [m for m in links[v] if m.source < 0 or m.source in known]

    waiting = [v for v in distance if v != target]
    while ready := [v for v in waiting if reached(v)]:
        chosen = min(ready, key=lambda v: (len(around[v]) > 1, -distance[v], v))
        steps.append((chosen, tuple(reached(chosen))))
        known.add(chosen)
        waiting.remove(chosen)
    return (*steps, (target, tuple(reached(target))))


Batch: TypeAlias = tuple[Pattern, int, Tensor, Tensor]  # pattern, target, constants [n, ·], views [n, edges]


@dataclass(frozen=True)
class QueryModelSettings:
    """The size of a model and its loss; what only one model has is in its own file."""

    dim: int = 400
    gamma: float = 60.0
    hidden: int = 1600
    layers: int = 2
    learning_rate: float = 1e-4  # for `batch` queries a step
    batch: int = 512
    table_rate: float = 1.0  # the rate of the entity and relation tables, as a multiple
    dropout: float = 0.0
    temperature: float = 0.05  # of LMPNN's cosine
    weight_decay: float = 0.0


class QueryModel(nn.Module, ABC):
    """A trained model that an engine asks: a state for the target of a query, and scores of entities for it."""

    kind: ClassVar[str]
    published: ClassVar[QueryModelSettings]  # for FB15k-237, and any other graph that is not named next
    elsewhere: ClassVar[Mapping[int, Mapping[str, float]]] = {}  # what differs, by a graph's number of entities
    rests_on_predictor: ClassVar[bool] = False  # whether it takes the tables of a link predictor, see `adopt`
    own_loss: ClassVar[bool] = False  # whether only its own `loss` trains it

    def __init__(self, entities: int, relations: int, settings: QueryModelSettings) -> None:
        super().__init__()
        self.entity_count, self.relation_count, self.settings = entities, relations, settings

    @staticmethod
    def reaches(pattern: Pattern, target: int) -> bool:
        """Whether a state of the target says something about the query."""
        return True

    @abstractmethod
    def embed_many(self, batches: Sequence[Batch]) -> list[Tensor]:
        """States [n, width] of the target of each batch."""

    def embed(self, pattern: Pattern, target: int, constants: Tensor, views: Tensor) -> Tensor:
        """States [n, width] of the target of one batch."""
        return self.embed_many([(pattern, target, constants, views)])[0]

    @abstractmethod
    def logits(self, state: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Scores of entities for states [n, width]: higher is better, as the loss wants them (gamma − distance).

        Candidates are ids [n, m], one row for each state, or [m], the same for all; None is all entities → [n, m].
        """

    def loss(self, positive: Tensor, negative: Tensor, weight: Tensor) -> Tensor:
        """Logits of the answers [n] and of random entities [n, m], weights of the queries [n] → a scalar."""
        total = weight.sum()
        near = -(logsigmoid(positive) * weight).sum() / total
        far = -(logsigmoid(-negative).mean(-1) * weight).sum() / total
        return (near + far) / 2

    def adopt(self, predictor: EmbeddingModel) -> None:
        """Take the tables of a link predictor, for a model that rests on one."""
        raise BadInput(f"{type(self).__name__} learns its own tables; it takes no link predictor")

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.state_dict())

    def about(self) -> dict[str, Any]:
        sizes = {"entities": self.entity_count, "relations": self.relation_count, "rank": self.settings.dim, "norm": 0}
        return {"kind": self.kind, **sizes, "settings": asdict(self.settings)}

    def after_step(self) -> None:
        """Called after each step of the optimizer, under no_grad; for example to clamp a table."""


class QueryEmbedding(QueryModel):
    """A model by operators on states; the order in which they are applied is `walk`'s."""

    @staticmethod
    def reaches(pattern: Pattern, target: int) -> bool:
        """Whether a constant, where states begin, reaches the target."""
        return bool(walk(pattern, target)[-1][1])

    @abstractmethod
    def entities(self, ids: Tensor) -> Tensor:
        """Ids [n] → states [n, width]."""

    @abstractmethod
    def project(self, state: Tensor, view: Tensor) -> Tensor:
        """States [n, width] through views [n] (2r from head to tail, 2r + 1 from tail to head) → [n, width]."""

    @abstractmethod
    def intersect(self, states: Tensor) -> Tensor:
        """Two or more states of each query [m, n, width] → [n, width]."""

    @abstractmethod
    def negate(self, state: Tensor) -> Tensor:
        """States [n, width] → [n, width]."""

    def embed_many(self, batches: Sequence[Batch]) -> list[Tensor]:
        """States [n, width] of the target of each batch.

        All batches walk side by side, so that each operator is called once for all that is ready: a GPU spends its time
        on numbers, not on starting small kernels; and on the way back the entity table is passed over only once.
        """
        columns = [column for _, _, constants, _ in batches for column in constants.T]
        first = list(_split_like(self.entities(torch.cat(columns)), columns)) if columns else []
        states = [{~place: first.pop(0) for place in range(constants.shape[1])} for _, _, constants, _ in batches]
        waiting = [(number, *step) for number, batch in enumerate(batches) for step in walk(*batch[:2])]
        if any(not messages for _, _, messages in waiting):
            raise BadInput("a query without constants cannot be embedded: nothing reaches its free variable")
        while waiting:
            ready = [step for step in waiting if all(m.source in states[step[0]] for m in step[2])]
            waiting = [step for step in waiting if step not in ready]
            sent = self._messages([(states[number], batches[number][3], m) for number, _, ms in ready for m in ms])
            received = [[sent.pop(0) for _ in messages] for _, _, messages in ready]
            for (number, node, _), state in zip(ready, self._intersections(received), strict=True):
                states[number][node] = state
        return [states[number][target] for number, (_, target, _, _) in enumerate(batches)]

    def _messages(self, sent: Sequence[tuple[Mapping[int, Tensor], Tensor, Message]]) -> list[Tensor]:
        """Messages to nodes: states through edges, negated where the edge is."""
        views = [views[:, m.edge] ^ 1 if m.turned else views[:, m.edge] for _, views, m in sent]
        sources = torch.cat([states[m.source] for states, _, m in sent])
        projected = list(_split_like(self.project(sources, torch.cat(views)), views))
        denied = [place for place, (_, _, m) in enumerate(sent) if m.negated]
        if denied:
            parts = [projected[place] for place in denied]
            for place, state in zip(denied, _split_like(self.negate(torch.cat(parts)), parts), strict=True):
                projected[place] = state
        return projected

    def _intersections(self, received: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """One state for each node; those that receive equally many are intersected together."""
        states = [messages[0] for messages in received]
        for width in {len(messages) for messages in received} - {1}:
            places = [place for place, messages in enumerate(received) if len(messages) == width]
            stacked = torch.stack([torch.cat([received[place][i] for place in places]) for i in range(width)])
            parts = [states[place] for place in places]
            for place, state in zip(places, _split_like(self.intersect(stacked), parts), strict=True):
                states[place] = state
        return states


def _split_like(whole: Tensor, parts: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The rows of a tensor as parts as long as the given ones."""
    return torch.split(whole, [len(part) for part in parts])


# --- what the models are made of -----------------------------------------------------------------------------------


def perceptron(inputs: int, hidden: int, layers: int, outputs: int) -> nn.Sequential:
    """`layers` hidden layers with ReLU and a linear one on top, Xavier weights.

    >>> perceptron(3, 8, 2, 5)(torch.zeros(4, 3)).shape
    torch.Size([4, 5])
    """
    network = nn.Sequential()
    for _ in range(layers):
        network.extend([nn.Linear(inputs, hidden), nn.ReLU()])
        inputs = hidden
    network.append(nn.Linear(inputs, outputs))
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return network


def uniform(rows: int, width: int, bound: float) -> nn.Parameter:
    """A learned table [rows, width] that starts uniform in ±bound."""
    return nn.Parameter((torch.rand(rows, width) * 2 - 1) * bound)


def narrow(table: Tensor, candidates: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The rows of a table that candidates need, and the candidates as places among these; None for all, in order.

    >>> rows, places = narrow(torch.tensor([[0.0], [10.0], [20.0], [30.0]]), torch.tensor([[3], [1]]))
    >>> rows.tolist(), places.tolist()
    ([[30.0], [10.0]], [[0], [1]])
    """
    if candidates is None:
        return table, None
    if candidates.dim() == 1:
        return table.index_select(0, candidates), None
    if candidates.numel() >= len(table):
        return table, candidates
    places = torch.arange(candidates.numel(), device=candidates.device).view_as(candidates)
    return table.index_select(0, candidates.flatten()), places


def distances(
    distance: Distance, query: Tensor, table: Tensor, candidates: Tensor | None = None, cells: int | None = None
) -> Tensor:
    """Distances of queries [n, a] to rows of a table [rows, b] → [n, m], at most `cells` numbers at a time.

    Candidates [n, m] are places in the table, None is all of it. `distance` gets queries [n, 1, a] and rows
    [n or 1, block, b], and sums over the last dimension. A block is computed again on the way back, so that training is
    bounded like ranking.
    """
    if cells is None:
        cells = 1 << (28 if query.is_cuda else 22)
    count = len(table) if candidates is None else candidates.shape[1]
    block = max(1, cells // max(1, len(query) * table.shape[1]))
    training = torch.is_grad_enabled() and (query.requires_grad or table.requires_grad)
    # One kernel instead of a dozen passes over all pairs; not for the few pairs of the answers.
    compute = compile_distance(distance) if training and query.is_cuda and count >= 16 else distance

    def part(query: Tensor, table: Tensor, start: int) -> Tensor:
        if candidates is None:
            rows = table[None, start : start + block]
        else:
            chosen = candidates[:, start : start + block]
            rows = table.index_select(0, chosen.flatten()).view(*chosen.shape, -1)
        return compute(query[:, None], rows)

    if count <= block:
        return part(query, table, 0)
    starts = range(0, count, block)
    if not training:
        return torch.cat([part(query, table, start) for start in starts], 1)
    return torch.cat(
        [checkpoint(part, query, table, s, use_reentrant=False, preserve_rng_state=False) for s in starts], 1
    )


@lru_cache(maxsize=8)
def compile_distance(distance: Distance) -> Distance:
    """The distance as one compiled kernel, where torch has its compiler for the GPU; the same numbers without it."""
    return torch.compile(distance) if find_spec("triton") else distance


def cross_entropy(positive: Tensor, negative: Tensor, weight: Tensor, entities: int) -> Tensor:
    """−log of the share of the answer [n] among all entities, estimated from random ones [n, m]; weighted [n] → a mean.

    The random entities stand for all others: m of them count as much as all would.

    >>> cross_entropy(torch.zeros(1), torch.zeros(1, 2), torch.ones(1), entities=9).exp()
    tensor(9.)
    """
    others = negative.logsumexp(-1) + math.log((entities - 1) / negative.shape[-1])
    return (softplus(others - positive) * weight).sum() / weight.sum()
