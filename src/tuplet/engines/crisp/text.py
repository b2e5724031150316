"""The program of a crisp join in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tuplet.engines.crisp.assemble import JoinPart, Origin
from tuplet.engines.crisp.program import (
    CHECKS,
    CHECKS_END,
    DIFFERENT,
    DIFFERENT_ENTITY,
    HAS_ROW,
    LISTS,
    LISTS_END,
    LOOKED_UP_LOOP,
    LOOP,
    MEMO,
    MEMO_END,
    NEGATED,
    SUCCEEDED,
    TEST,
    VARIABLE,
)
from tuplet.query.conditions import Within, described
from tuplet.query.ranking import Edge

Naming: TypeAlias = Callable[[int], str]


def describe(variables: Sequence[str], part: JoinPart, entity: Naming, relation: Naming) -> list[str]:
    """The steps of a part, a line each."""
    program = part.program

    def node(number: int | None) -> str:
        return "·" if number is None else entity(~number) if number < 0 else f"?{variables[number]}"

    def atom(parts: Origin) -> str:
        if isinstance(parts, Within):
            return described(parts, node)
        head, name, tail = parts
        return f"{relation(name)}({node(head)}, {node(tail)})"

    def check(kind: int, operand: int, v: int) -> str:
        if kind == DIFFERENT:
            return f"{node(v)} != {node(operand)}"
        if kind == DIFFERENT_ENTITY:
            return f"{node(v)} != {entity(operand)}"
        if kind == LOOP:
            looped = part.atoms[operand]
            return atom(looped if isinstance(looped, Within) else (v, looped[1], v))
        if kind == TEST:
            return described(part.tested[operand], node)
        if kind == HAS_ROW:
            return atom((None, operand // 2, v) if operand % 2 else (v, operand // 2, None))
        return ("" if kind == LOOKED_UP_LOOP else "not ") + atom((v, operand // 2, v))

    def all_of(numbers: Sequence[int]) -> str:
        return ", ".join(node(v) for v in numbers)

    varied = _varied(part)
    lines = []
    for depth, step in enumerate(program.steps[:-1].tolist()):
        v, expected = step[VARIABLE], f"{part.order[depth].candidates:.3g}"
        text = f"  {depth + 1}. {node(v)} {'free' if v in part.free else 'exists'}, ~{expected} candidate"
        text += "" if expected == "1" else "s"
        if depth:
            text += f" per {all_of(program.steps[:depth, VARIABLE].tolist())}"
        text += ": " + " ∩ ".join(atom(part.atoms[j]) for j in range(step[LISTS], step[NEGATED]))
        checks = [f"not {atom(part.atoms[j])}" for j in range(step[NEGATED], step[LISTS_END])]
        checks += [
            check(kind, operand, v) for kind, operand in program.checks[step[CHECKS] : step[CHECKS_END]].tolist()
        ]
        if checks:
            text += "; check " + ", ".join(checks)
        if step[MEMO_END] > step[MEMO]:
            text += f"; once for each ({all_of(program.memo[step[MEMO] : step[MEMO_END]].tolist())})"
        if depth not in varied:
            text += "; first witness suffices"
        lines.append(text)
    if part.distinct:
        lines.append(f"  distinct ({all_of(part.free)})")
    return lines


def failure(variables: Sequence[str], fails: Edge | tuple[int, int], entity: Naming, relation: Naming) -> str:
    """Why a clause has no answers: a ground atom that is not as it says, or something that differs from itself."""
    if not isinstance(fails, Edge):
        name = entity(~fails[0]) if fails[0] < 0 else f"?{variables[fails[0]]}"
        return f"{name} != {name} never holds"
    verb = "is" if fails.negated else "is not"
    return f"{relation(fails.relation)}({entity(~fails.head)}, {entity(~fails.tail)}) {verb} observed"


def _varied(part: JoinPart) -> set[int]:
    """The depths to which the search goes back after a success."""
    jump = part.program.steps[:, SUCCEEDED].tolist()
    varied: set[int] = set()
    depth = jump[-1]
    while depth >= 0:
        varied.add(depth)
        depth = jump[depth]
    return varied
