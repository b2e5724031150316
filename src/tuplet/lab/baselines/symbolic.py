"""Baselines that search: FIT, QTO and CQD. FIT and QTO take the truth table; CQD a link predictor's scores too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuplet.engines.ns3.algorithm import BoxBudget
from tuplet.engines.ns3.run import by_shape, make_search, marginal_vectors
from tuplet.errors import BadInput, Refused
from tuplet.lab.baselines.engine import CqdOptions, FitOptions, QtoOptions, open_once
from tuplet.predict.device import AdamW, pick_device
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.predict.model_folder import load_embeddings
from tuplet.query.conditions import Outside, Within
from tuplet.query.limits import NO_DEADLINE, Deadline
from tuplet.query.logic import Logic
from tuplet.query.ranking import Clauses, QueryGraph
from tuplet.query.source import Source

EVERYTHING = BoxBudget.all()
End: TypeAlias = int | Tensor  # a variable, or the entity of each query [n]
VectorsOf: TypeAlias = Callable[[End], Tensor]  # the vectors of an end [n, width]

_TOGETHER = 512  # queries optimised at once
_SETTLED = 1e-9  # a loss that changes by less has converged


def fit(
    queries: Sequence[Clauses], source: Source, options: FitOptions, logic: Logic, deadline: Deadline
) -> list[NDArray[np.float64]]:
    """FIT: fuzzy inference with truth values on the query graph (Yin et al. 2024), as max-marginals.

    The fair version is the search of NS3 with an unlimited budget: constants and leaves are absorbed one after the
    other, C[v][b] *= max_a C[u][a] · P(a, b); where only cycles are left, the best rows of one variable are tried one
    by one. The mode `paper` is FIT as published comparisons with several free variables ran it, see
    docs/explanation/baselines.md.
    """
    search, budget = make_search(queries, source, logic, deadline), replace(EVERYTHING, enumerate=options.most)
    if options.mode == "fair":
        return marginal_vectors(queries, search, budget)
    narrow = replace(search, certain=False)
    places = []
    for place in range(len(queries[0][0].free)):
        asked = [[one_way(clause, place) for clause in clauses] for clauses in queries]
        places.append(marginal_vectors(asked, narrow, budget))
    return [np.concatenate(parts) for parts in zip(*places, strict=True)]


def one_way(clause: QueryGraph, place: int) -> QueryGraph:
    """The clause that asks for one free variable only, without the free variables that hang on it as leaves.

    FIT for several free variables takes a free leaf off before its neighbour is solved, and nothing flows back: what is
    asked of the leaf does not constrain the others. A leaf stays where its neighbour would be left without an atom.

    >>> from tuplet.query.ranking import Edge
    >>> chain = QueryGraph(("x", "y"), (0, 1), (Edge(~7, 0, 0), Edge(0, 1, 1)))
    >>> one_way(chain, 0).edges, len(one_way(chain, 1).edges)
    ((Edge(head=-8, relation=0, tail=0, negated=False),), 2)
    """
    asked = clause.free[place]
    edges, different, gone = list(clause.edges), list(clause.different), set[int]()
    while True:
        leaf = next((v for v in clause.free if v not in gone | {asked} and _hangs(v, edges, different)), None)
        if leaf is None:
            break
        gone.add(leaf)
        edges = [e for e in edges if leaf not in (e.head, e.tail)]
        different = [pair for pair in different if leaf not in pair]
    number = {v: i for i, v in enumerate(v for v in range(len(clause.variables)) if v not in gone)}

    def renumber(node: int) -> int:
        return number[node] if node >= 0 else node

    return QueryGraph(
        tuple(clause.variables[v] for v in number),
        (number[asked],),
        tuple(e._replace(head=renumber(e.head), tail=renumber(e.tail)) for e in edges),
        tuple((renumber(a), renumber(b)) for a, b in different),
        tuple(
            # conditions on single variables are all that a marginal engine keeps to
            replace(c, variable=number[c.variable])
            for c in clause.conditions
            if isinstance(c, Within | Outside) and c.variable in number
        ),
    )


def _hangs(v: int, edges: Sequence[tuple[int, int, int, bool]], different: Sequence[tuple[int, int]]) -> bool:
    """Whether a variable has one neighbour (constants count), which has other positive atoms."""
    joined = [{head, tail} for head, _, tail, _ in edges] + [set(pair) for pair in different]
    near = {w for pair in joined if v in pair for w in pair if w != v}
    if len(near) != 1:
        return False
    (w,) = near
    return any(not negated and w in (head, tail) and v not in (head, tail) for head, _, tail, negated in edges)


def qto(
    queries: Sequence[Clauses], source: Source, options: QtoOptions, logic: Logic, deadline: Deadline
) -> list[NDArray[np.float64]]:
    """QTO: query computation tree optimisation (Bai et al. 2023), exact on trees, negation made stricter."""
    search = make_search(queries, source, logic, deadline)
    return marginal_vectors(queries, search, EVERYTHING, options.neg_scale)


def cycle_of(clause: QueryGraph) -> tuple[int, ...] | None:
    """The variables of one cycle in order, if edges or inequalities close one; parallel edges do not.

    >>> from tuplet.query.ranking import Edge
    >>> cycle_of(QueryGraph(("x", "y", "z"), (0,), (Edge(0, 0, 1), Edge(1, 0, 2), Edge(2, 1, 0), Edge(~5, 0, 0))))
    (0, 1, 2)
    """
    joined = [(e.head, e.tail) for e in clause.edges] + list(clause.different)
    near: dict[int, list[int]] = {v: [] for v in range(len(clause.variables))}
    for pair in dict.fromkeys((min(pair), max(pair)) for pair in joined):
        if pair[0] >= 0 and pair[0] != pair[1]:
            path = _path(near, *pair)
            if path is not None:
                return path
            near[pair[0]].append(pair[1])
            near[pair[1]].append(pair[0])
    return None


def _path(near: Mapping[int, Sequence[int]], start: int, end: int) -> tuple[int, ...] | None:
    ways: list[tuple[int, ...]] = [(start,)]
    for way in ways:
        if way[-1] == end:
            return way
        ways += [(*way, v) for v in near[way[-1]] if v not in way]
    return None


def refuse_cycles(clause: QueryGraph, engine: str) -> None:
    """Raise `Refused` for a clause with a cycle, naming its variables."""
    cycle = cycle_of(clause)
    if cycle is not None:
        names = " – ".join(f"?{clause.variables[v]}" for v in (*cycle, cycle[0]))
        raise Refused(f"engine {engine!r} answers trees only; the query has the cycle {names}; try 'fit' or 'exact'")


def cqd(
    queries: Sequence[Clauses], source: Source, options: CqdOptions, logic: Logic, deadline: Deadline
) -> list[NDArray[np.float64]]:
    """CQD: continuous query decomposition (Arakelyan et al. 2021), answered by beam search or by gradient.

    `beam` searches the truth table, or a link predictor's scores: from the constants outward, only the best `beam`
    entities of a variable are carried on. `co` searches the space of embeddings of a link predictor: every variable is
    a vector, all are optimised together so that the atoms become true; then each free variable in turn is replaced by
    every entity, the others keep their vectors.
    """
    if options.method == "co" or options.model:
        if not options.model:
            raise BadInput("engine 'cqd' needs a trained link predictor here: option model=FOLDER (tuplet train)")
        model = open_once(load_embeddings, options.model, str(pick_device(options.device)), source)
        return score_by_model(queries, model, options, logic, deadline)
    search = make_search(queries, source, logic, deadline)
    # A cycle is cut by a beam too: as many candidates are tried as are carried on elsewhere.
    narrow = replace(search, beam=options.beam, certain=False)
    return marginal_vectors(queries, narrow, replace(EVERYTHING, enumerate=options.beam))


# --- on the scores of a link predictor -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoredAtom:
    """One atom of many queries of one shape, walked from the end that lies nearer to a constant."""

    source: End
    target: End
    row: Tensor  # [n] rows of the relation table; a relation walked backwards has a row of its own
    negated: bool

    @property
    def variables(self) -> set[int]:
        return {end for end in (self.source, self.target) if isinstance(end, int)}


def score_by_model(
    queries: Sequence[Clauses],
    model: EmbeddingModel,
    options: CqdOptions,
    logic: Logic,
    deadline: Deadline = NO_DEADLINE,
) -> list[NDArray[np.float64]]:
    """The truth of every entity for each free variable of each query, by the scores of a model [k, entities]."""
    if not model.bilinear:
        raise BadInput(f"engine 'cqd' needs a bilinear predictor (complex, distmult), not {model.kind}")
    found = [np.zeros((len(clauses[0].free), model.entities)) for clauses in queries]
    for numbers in by_shape(queries):
        for start in range(0, len(numbers), _TOGETHER):
            some = numbers[start : start + _TOGETHER]
            for same in zip(*(queries[i] for i in some), strict=True):
                refuse_filters(same[0])
                ask = search_by_gradient if options.method == "co" else search_by_beam
                vectors = ask(same, model, options, logic, deadline).cpu().numpy()
                for number, own in zip(some, vectors, strict=True):
                    found[number] = logic.disjunction(found[number], own)
    return found


def refuse_filters(clause: QueryGraph) -> None:
    """A model scores edges; it cannot say that two variables differ, or what else is asked of one."""
    for said in clause.describe_conditions():
        raise Refused(f"engine 'cqd' on a model cannot answer {said}; without a model it can")
    if clause.different:
        names = " != ".join(f"?{clause.variables[v]}" if v >= 0 else "a constant" for v in clause.different[0])
        raise Refused(f"engine 'cqd' on a model cannot answer {names}; without a model it can")


def search_by_beam(
    graphs: Sequence[QueryGraph], model: EmbeddingModel, options: CqdOptions, logic: Logic, deadline: Deadline
) -> Tensor:
    """CQD-Beam: the marginals of one clause of queries of one shape [n, k, entities]; the clause is a tree."""
    refuse_cycles(graphs[0], "cqd")
    n, shape, atoms = len(graphs), graphs[0], atoms_of(graphs, model)

    def ones(width: int) -> Tensor:
        return torch.ones(n, width, dtype=torch.float64, device=model.device)

    def value(v: int, without: int | None = None) -> tuple[Tensor, bool]:
        """The truth of every entity for a variable and all that hangs on it [n, entities]; whether a constant does."""
        deadline.check()
        truth, known = ones(model.entities), False
        for atom in atoms:
            if atom.variables == {v}:
                truth = logic.conjunction(truth, _score_entities(model, atom, v, lambda end: model.entity[end]))
                known |= not atom.negated
        for u in sorted({u for atom in atoms if v in atom.variables for u in atom.variables} - {v, without}):
            of_u, reached = value(u, v)
            if reached:  # else nothing is known of u, and its best score is near 1 for every entity
                truth, known = logic.conjunction(truth, message(u, v, of_u)), True
        return truth, known

    def message(u: int, v: int, of_u: Tensor) -> Tensor:
        """The best of the beam of u for every entity of v [n, entities], one query after the other."""
        best, entity = of_u.topk(min(options.beam, model.entities))
        between = [atom for atom in atoms if atom.variables == {u, v}]
        rows = []
        for i in range(n):
            deadline.check()
            truth = best[i][:, None]
            for atom in between:
                here = replace(atom, row=atom.row[i].expand(len(entity[i])))
                truth = logic.conjunction(truth, _score_entities(model, here, v, lambda _: model.entity[entity[i]]))  # noqa: B023
            rows.append(truth.amax(0))
        return torch.stack(rows)

    vectors = []
    for asked in shape.free:
        truth, left = value(asked)[0], set(range(len(shape.variables))) - _find_joined(atoms, asked)
        while left:  # a part of its own: only its best assignment matters
            root = min(left)
            truth = logic.conjunction(truth, value(root)[0].amax(1, keepdim=True))
            left -= _find_joined(atoms, root)
        for atom in atoms:
            if not atom.variables:
                score = _score(model, atom, lambda end: model.entity[end])
                truth = logic.conjunction(truth, _truth(score, atom.negated))
        vectors.append(truth)
    return torch.stack(vectors, 1)


def _find_joined(atoms: Sequence[ScoredAtom], start: int) -> set[int]:
    """The variables joined with one, itself included."""
    found = {start}
    for _ in atoms:
        found |= {v for atom in atoms if atom.variables & found for v in atom.variables}
    return found


def search_by_gradient(
    graphs: Sequence[QueryGraph], model: EmbeddingModel, options: CqdOptions, logic: Logic, deadline: Deadline
) -> Tensor:
    """CQD-CO: the marginals of one clause of queries of one shape [n, k, entities]."""
    shape, atoms = graphs[0], atoms_of(graphs, model)
    generator = torch.Generator().manual_seed(options.seed)
    start = 1e-3 * torch.randn(len(shape.variables), model.entity.shape[1], generator=generator)
    first = start.to(model.device).expand(len(graphs), *start.shape)
    guess = optimise(model, atoms, first, options, logic, deadline)
    return torch.stack([replace_variable(model, atoms, guess, v, logic) for v in shape.free], 1)


def atoms_of(graphs: Sequence[QueryGraph], model: EmbeddingModel) -> list[ScoredAtom]:
    """The atoms of queries that have one shape; they may write a relation either way."""
    distance = _distances(graphs[0])

    def end(nodes: list[int]) -> End:
        return nodes[0] if nodes[0] >= 0 else torch.tensor([~node for node in nodes], device=model.device)

    atoms = []
    for same in zip(*(graph.edges for graph in graphs), strict=True):
        sources, targets, rows = [], [], []
        for edge in same:
            backwards = (distance.get(edge.tail, -1), edge.tail) < (distance.get(edge.head, -1), edge.head)
            sources.append(edge.tail if backwards else edge.head)
            targets.append(edge.head if backwards else edge.tail)
            rows.append(edge.relation + (model.relations if backwards else 0))
        row = torch.tensor(rows, device=model.device)
        atoms.append(ScoredAtom(end(sources), end(targets), row, same[0].negated))
    return atoms


def _distances(graph: QueryGraph) -> dict[int, int]:
    """The number of positive edges from a constant to each variable; without a constant all are as far."""
    far = len(graph.variables)
    distance = dict.fromkeys(range(far), far)
    for _ in range(far):
        for edge in (edge for edge in graph.edges if not edge.negated):
            ends = [distance.get(node, -1) for node in (edge.head, edge.tail)]
            for node, other in ((edge.head, ends[1]), (edge.tail, ends[0])):
                if node >= 0:
                    distance[node] = min(distance[node], other + 1)
    return distance


def optimise(
    model: EmbeddingModel,
    atoms: Sequence[ScoredAtom],
    start: Tensor,
    options: CqdOptions,
    logic: Logic,
    deadline: Deadline = NO_DEADLINE,
) -> Tensor:
    """The vectors of all variables of a batch of queries [n, variables, width] from their start.

    Each query minimises its own −truth + regularisation · Σ|·|³, so a batch gives what its queries give one by one.
    """
    guess = start.detach().clone().requires_grad_()
    optimiser = AdamW([guess], lr=options.learning_rate)
    last: Tensor | None = None
    for _ in range(options.steps):
        deadline.check()
        optimiser.zero_grad()
        truth, penalty = objective(model, atoms, guess, logic)
        (options.regularisation * penalty - truth.sum()).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        now = torch.cat([truth.detach(), penalty.detach()[None]])
        if last is not None and bool(((now - last).abs() < _SETTLED).all()):
            break
        last = now
    return guess.detach()


def objective(model: EmbeddingModel, atoms: Sequence[ScoredAtom], guess: Tensor, logic: Logic) -> tuple[Tensor, Tensor]:
    """The truth of each query under the guessed vectors [n], and Σ|·|³ of all of them."""
    truth = torch.ones(len(guess), 1, dtype=guess.dtype, device=guess.device)
    for atom in atoms:
        truth = logic.conjunction(truth, _truth(_score(model, atom, partial(_rows, model, guess)), atom.negated))
    none = guess[:0, 0]
    return truth[:, 0], model.penalty(guess.flatten(0, 1), none, none)


def replace_variable(
    model: EmbeddingModel, atoms: Sequence[ScoredAtom], guess: Tensor, variable: int, logic: Logic
) -> Tensor:
    """The truth of every query with one variable replaced by every entity, the others as guessed [n, entities]."""
    truth = torch.ones(len(guess), model.entities, dtype=torch.float64, device=guess.device)
    rows = partial(_rows, model, guess)
    for atom in atoms:
        if variable in atom.variables:
            own = _score_entities(model, atom, variable, rows)
        else:
            own = _truth(_score(model, atom, rows).double(), atom.negated)
        truth = logic.conjunction(truth, own)
    return truth


def _score(model: EmbeddingModel, atom: ScoredAtom, rows: VectorsOf) -> Tensor:
    """The score of an atom between the vectors of its ends [n, 1]."""
    return model.score(model.query(rows(atom.source), model.relation[atom.row]), rows(atom.target))[:, None]


def _score_entities(model: EmbeddingModel, atom: ScoredAtom, variable: int, rows: VectorsOf) -> Tensor:
    """The truth of an atom with every entity in the place of a variable [n, entities]; `rows` are those of its ends."""
    relation = model.relation[atom.row]
    ends = [isinstance(end, int) and end == variable for end in (atom.source, atom.target)]
    if all(ends):  # r(x, x)
        score = torch.stack([model.score(model.query(model.entity, row[None]), model.entity) for row in relation])
    elif ends[1]:
        score = model.score_all(model.query(rows(atom.source), relation), model.entity)
    else:
        score = model.score_all(model.query(rows(atom.target), model.inverse(relation)), model.entity)
    return _truth(score.double(), atom.negated)


def _rows(model: EmbeddingModel, guess: Tensor, end: End) -> Tensor:
    """The vectors of one end of an atom [n, width]."""
    return guess[:, end] if isinstance(end, int) else model.entity[end]


def _truth(score: Tensor, negated: bool) -> Tensor:
    """σ(score), or 1 − σ(score) = σ(−score), which keeps its digits."""
    return torch.sigmoid(-score if negated else score)
