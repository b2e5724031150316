"""Published HIT@10 of the 14 joint types and of EFOk-CQA, in percent: context beside our tables, never a comparison.

The query sets behind these numbers are not public; ours are sampled anew, so only methods on the same queries may be
compared. The cells cn and c of FB15k-237 look interchanged in the source and are uncertain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuplet.lab.bench.shapes import JOINT

_TABLE = {
    "FB15k-237": {
        "NS3(J)": "11.4 28.5 28.3 16.2 10.0 36.5 19.2 8.4 19.4 26.2 8.0 8.4 17.0 8.9",
        "NS3(M)": "4.5 14.4 14.1 6.0 3.9 13.7 6.0 5.2 14.9 17.9 3.7 5.2 7.3 3.1",
        "FIT": "3.3 9.7 7.7 5.7 3.2 14.9 10.1 2.9 8.5 6.7 3.1 4.2 5.9 3.5",
    },
    "FB15k": {
        "NS3(J)": "40.3 61.3 67.2 61.6 64.5 47.2 65.7 30.2 45.0 48.4 35.6 39.7 17.2 37.2",
        "NS3(M)": "11.3 28.0 36.0 17.5 20.1 32.9 24.5 11.0 27.0 32.6 12.0 15.0 3.3 15.0",
        "FIT": "10.7 19.7 24.3 13.3 14.6 19.9 19.9 5.3 14.5 18.0 9.0 10.3 8.1 9.5",
    },
    "NELL995": {
        "NS3(J)": "15.8 32.8 53.9 26.9 21.9 24.2 50.2 14.7 25.3 41.0 21.4 31.6 11.7 21.0",
        "NS3(M)": "9.5 13.8 30.5 16.9 13.5 8.5 24.4 8.9 20.1 34.4 19.5 30.9 4.8 8.4",
        "FIT": "8.8 11.9 24.0 17.1 11.6 12.9 29.1 5.7 16.4 27.2 18.6 31.2 7.7 9.5",
    },
}
_GROUPS = ((0, "S"), (0, "M"), (1, "S"), (1, "M"), (1, "C"), (2, "S"), (2, "M"), (2, "C"))
_EFOK = {  # HIT@10 of EFOk-CQA, two free variables and two constants: _GROUPS, then the mean
    "FB15k-237": {
        "NS3(M), Marginal": "48.0 46.7 46.0 46.1 59.0 35.5 33.2 48.7 42.8",
        "NS3(M), Multiply": "40.1 33.9 36.9 33.3 40.2 34.6 31.1 39.1 34.8",
        "NS3(M), Joint": "6.9 7.6 7.4 7.7 14.6 3.3 3.3 9.0 6.6",
        "FIT, Marginal": "45.9 43.1 45.0 45.4 50.2 36.4 34.8 42.0 41.2",
        "FIT, Multiply": "40.7 34.3 37.2 34.4 33.7 36.2 34.7 33.7 35.0",
        "FIT, Joint": "6.7 7.0 7.1 7.2 11.7 3.2 3.4 7.1 5.9",
    },
    "FB15k": {
        "NS3(M), Marginal": "82.0 83.6 81.6 83.4 55.5 76.7 78.9 82.2 79.1",
        "NS3(M), Multiply": "81.8 83.1 81.1 82.7 44.4 78.0 79.3 46.6 78.5",
        "NS3(M), Joint": "19.9 24.2 21.1 23.5 19.7 13.0 14.3 18.5 18.5",
    },
}
_SIZES = {(14_505, 237): "FB15k-237", (14_951, 1_345): "FB15k", (63_361, 200): "NELL995"}


def dataset(entities: int, relations: int) -> str | None:
    """The benchmark graph of this size.

    >>> dataset(14_505, 237)
    'FB15k-237'
    """
    return _SIZES.get((entities, relations))


def hit10(graph: str | None) -> Mapping[str, Mapping[str, float]]:
    """Method → shape → HIT@10 in percent, for a benchmark graph.

    >>> round(sum(hit10("FB15k-237")["NS3(J)"].values()) / 14, 1)
    17.6
    """
    rows = _TABLE.get(graph or "", {})
    return {method: dict(zip(JOINT, map(float, cells.split()), strict=True)) for method, cells in rows.items()}


def efok(graph: str | None, groups: Sequence[tuple[int, str]]) -> Mapping[str, list[str]]:
    """Method → HIT@10 of EFOk-CQA for each (existential variables, topology) and the mean; none for other groups.

    >>> efok("FB15k-237", _GROUPS)["NS3(M), Joint"][-1]
    '6.6'
    """
    rows = _EFOK.get(graph or "", {}) if tuple(groups) == _GROUPS else {}
    return {method: cells.split() for method, cells in rows.items()}
