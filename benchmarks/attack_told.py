"""How much must be told of a new attacker? Objects of 2025 added to the store of `tuplet demo attack`, five ways.

    tuplet demo attack -o attack.store
    python benchmarks/attack_told.py attack.store

Objects that appeared in 2025 with at least ten techniques that were known before: groups; groups and campaigns; these
and software. Five, ten (at least five are left) or half of the techniques are given, drawn at random, with the type of
the object or without it. Printed: of the first ten techniques by truth how many were recorded, of the ten that groups
use most and of the ten that anything uses most; the sum of the ten truths, and what came of as many more as were given.
The store is copied, not changed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import tuplet
from tuplet.cli.demo import CUT, GROUP, LEAST, SHOWN, TECHNIQUE, TOLD, History

KINDS = ((GROUP,), (GROUP, "campaign"), (GROUP, "campaign", "malware", "tool"))
AMOUNTS: Mapping[str, Callable[[int], int]] = {
    "five": lambda count: 5,
    "ten": lambda count: min(10, count - 5),
    "half": lambda count: count // 2,
}


def main(path: str) -> None:
    """Print a line for each way."""
    history = History.read()
    copy = Path(tempfile.mkdtemp()) / "store"
    shutil.copytree(path, copy)
    store = tuplet.open(copy)
    told = [(group, "uses", each) for group, all_of in history.newcomers().items() for each in all_of[:TOLD]]
    store.remove([*told, *((group, "type", GROUP) for group in history.newcomers())])
    users = Counter(
        tail
        for _, relation, tail, day in history.facts
        if (relation, history.objects[tail][1]) == ("uses", TECHNIQUE)
        if day < CUT
    )
    orders = history.most_used(), sorted(users, key=lambda name: (-users[name], name))
    ways = [(kinds, name, True) for kinds in KINDS for name in AMOUNTS] + [(kinds, "five", False) for kinds in KINDS]
    for kinds, name, typed in ways:
        for seed in (0, 1):
            figures = judge(store, history, orders, kinds, AMOUNTS[name], typed, seed)
            about = f"{'+'.join(kinds)}, {name} told, {'with' if typed else 'without'} type, lot {seed}"
            print(
                f"{about}: {len(figures)} objects, {' '.join(f'{mean:.2f}' for mean in np.mean(figures, 0))}",
                flush=True,
            )


def judge(
    store: tuplet.Store,
    history: History,
    orders: tuple[list[str], ...],
    kinds: tuple[str, ...],
    amount: Callable[[int], int],
    typed: bool,
    seed: int,
) -> list[tuple[float, ...]]:
    """For each object: right ones by truth and in the two other orders, the sum of truth, what came of as many more."""
    found, rng = defaultdict(list), np.random.default_rng(seed)
    for head, relation, tail, _ in sorted(history.facts):
        new = relation == "uses" and head not in history.known and tail in history.known
        if new and history.objects[head][1] in kinds and history.objects[tail][1] == TECHNIQUE:
            found[head].append(tail)
    dealt = {head: [ends[i] for i in rng.permutation(len(ends))] for head, ends in found.items() if len(ends) >= LEAST}
    parts = {head: (ends[: amount(len(ends))], set(ends[amount(len(ends)) :])) for head, ends in dealt.items()}
    name = f"{len(kinds)} {amount(100)} {typed} {seed} "
    facts = [(name + head, "uses", end) for head, (told, _) in parts.items() for end in told]
    facts += [(name + head, "type", history.objects[head][1]) for head in parts if typed]
    store.add(facts, new_entities=True, seconds=1e9)
    figures = []
    for head, (told, hidden) in parts.items():
        query = f"?t : uses(<{name}{head}>, ?t) & type(?t, {TECHNIQUE})"
        answers = store.ask(query, k=SHOWN, only="predicted")
        right = sum(answer.values["t"] in hidden for answer in answers)
        usual = [len(hidden & set([end for end in order if end not in told][:SHOWN])) for order in orders]
        truth = sum(answer.truth for answer in answers)
        figures.append((right, *usual, truth, right * len(told) / len(hidden)))
    store.remove(facts)
    return figures


if __name__ == "__main__":
    main(sys.argv[1])
