"""Compiled sums for growing trees."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from tuplet.graph.kernels import compiled


@compiled
def sum_by_bin(bins, columns, rows, leaf, packed, out):
    """Adds the numbers of rows by (column, leaf, bin). uint8 [all columns, all rows] → int64 [columns, leaves, bins]"""
    fours = len(columns) // 4 * 4
    for place in range(0, fours, 4):
        # Together, because an addition waits for the one before only if both go to the same column's sums.
        one, two = bins[columns[place]], bins[columns[place + 1]]
        three, four = bins[columns[place + 2]], bins[columns[place + 3]]
        first, second, third, fourth = out[place], out[place + 1], out[place + 2], out[place + 3]
        for i in range(len(rows)):
            row, at, number = rows[i], leaf[i], packed[i]
            first[at, one[row]] += number
            second[at, two[row]] += number
            third[at, three[row]] += number
            fourth[at, four[row]] += number
    for place in range(fours, len(columns)):
        column, sums = bins[columns[place]], out[place]
        for i in range(len(rows)):
            sums[leaf[i], column[rows[i]]] += packed[i]
