"""Random conditions on the variables of a clause, of all kinds, and what they mean by plain look-ups."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tuplet.graph.attributes import Ranked, members
from tuplet.query.conditions import COMPARES, PAIR, BoundCondition, Compared, Equal, Outside, Paired, Within
from tuplet.query.ranking import QueryGraph
from tuplet.truth.table import TruthTable

OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def random_values(rng: np.random.Generator, keys: np.ndarray) -> Ranked:
    """Values of some of the keys, of some of them several; sometimes of every key exactly one."""
    if rng.random() < 0.3:
        return Ranked(keys, rng.integers(0, 5, len(keys)).astype(np.int32))
    count = rng.choice([0, 1, 1, 1, 2], len(keys))
    rank = [np.sort(rng.choice(5, size=n, replace=False)) for n in count]
    own = np.concatenate([np.zeros(0, dtype=np.int64), *rank]).astype(np.int32)
    return Ranked(np.repeat(keys, count), own)


def random_condition(rng: np.random.Generator, table: TruthTable, variables: int) -> BoundCondition:
    """One condition on one or two variables, perhaps twice the same one."""
    everyone = np.arange(table.entities, dtype=rng.choice([np.int32, np.int64]))
    a, b = (int(v) for v in rng.integers(0, variables, 2))
    low = int(rng.integers(-1, 4))
    high = low + int(rng.integers(0, 5))
    match int(rng.integers(6)):
        case 0:
            return Within(a, random_values(rng, everyone), low, high)
        case 1:
            return Within(a, members(everyone[rng.random(len(everyone)) < 0.5]))
        case 2:
            return Outside(a, everyone[rng.random(len(everyone)) < 0.3])
        case 3:
            own = random_values(rng, everyone), random_values(rng, everyone)
            return Compared(a, b, str(rng.choice(list(COMPARES))), *own)
        case 4:
            heads, _, tails, _ = table.adjacency.triples()
            pairs = np.unique(heads.astype(np.int64) * PAIR + tails)
            return Paired(a, b, random_values(rng, pairs), low, high)
        case _:
            return Equal(a, b)


def with_conditions(
    rng: np.random.Generator, clauses: Sequence[QueryGraph], table: TruthTable, most: int = 3
) -> list[QueryGraph]:
    """The clauses with up to so many random conditions each, at least one in all."""
    found = []
    for i, clause in enumerate(clauses):
        count = int(rng.integers(0 if i else 1, most + 1))
        own = tuple(random_condition(rng, table, len(clause.variables)) for _ in range(count))
        found.append(replace(clause, conditions=own))
    return found


def meant(condition: BoundCondition, values: Sequence[int]) -> bool:
    """Whether a condition holds under an assignment, written down plainly."""

    def ranks(of: Ranked, key: int) -> list[int]:
        return [rank for own, rank in zip(of.keys.tolist(), of.rank.tolist(), strict=True) if own == key]

    match condition:
        case Within(variable, own, low, high):
            return any(low <= rank < high for rank in ranks(own, values[variable]))
        case Outside(variable, listed):
            return values[variable] not in listed.tolist()
        case Compared(left, right, sign, left_values, right_values):
            ours, theirs = ranks(left_values, values[left]), ranks(right_values, values[right])
            return any(OPERATORS[sign](x, y) for x in ours for y in theirs)
        case Paired(left, right, own, low, high):
            return any(low <= rank < high for rank in ranks(own, values[left] * PAIR + values[right]))
        case Equal(left, right):
            return values[left] == values[right]
