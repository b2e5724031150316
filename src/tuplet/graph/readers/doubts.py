"""What is said of the names in a table that may not be meant as names; nothing is changed.

Remarks have no counts: a large file is read in parts, and what is said of several parts is said once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import pyarrow as pa
import pyarrow.compute as pc

from tuplet.graph.readers.cells import MISSING, inferred

_LIKE_MISSING = pa.concat_arrays([MISSING, pa.array(["-", "--", "?", "."], pa.large_string())])
_MANY = 20  # cells: of fewer, it says little that each holds something else
_LOOKED_AT = 100_000  # cells


def like_missing(where: str, name: str, cells: pa.Array | pa.ChunkedArray) -> list[str]:
    """What is said of cells that say that there is nothing."""
    words = cells.filter(pc.is_in(cells, _LIKE_MISSING.cast(cells.type)))
    return [
        f"{where}: cells of {name!r} hold {word!r}, which is an entity like any other; "
        f"missing={word} among the columns reads them as empty"
        for word in pc.unique(words).to_pylist()[:1]
    ]


def like_values(where: str, name: str, cells: pa.Array) -> list[str]:
    """What is said of a column that nobody called a relation, if it seems to hold values."""
    if not len(cells):
        return []
    values, others = inferred(cells)
    keeps = f"attribute={name} among the columns keeps them as values"
    if others is None and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        return [f"{where}: {name!r} holds numbers, and each is an entity now; {keeps} that compare"]
    if others is None and (pa.types.is_date(values.type) or pa.types.is_timestamp(values.type)):
        return [f"{where}: {name!r} holds dates, and each is an entity now; {keeps} that compare"]
    if len(cells) >= _MANY and 10 * pc.count_distinct(cells).as_py() >= 9 * len(cells):
        return [f"{where}: {name!r} holds something else in nearly every row, so nothing is learnt from it; {keeps}"]
    return []


def decimal_commas(where: str, name: str, cells: pa.Array) -> list[str]:
    """What is said of values that are texts only because of the comma before their decimals."""
    some = cells[:_LOOKED_AT].cast(pa.large_string()).drop_null()
    some = some.filter(pc.not_equal(some, ""))
    like = pc.match_substring_regex(some, r"^[+-]?[0-9]+,[0-9]+$")
    if not len(some) or 2 * (pc.sum(like).as_py() or 0) <= len(some):
        return []
    example = some.filter(like)[0].as_py()
    point = example.replace(",", ".")
    return [f"{where}: {name!r} holds texts such as {example!r}; written {point} they are numbers, which compare"]


def shared(where: str, columns: Mapping[str, pa.Array]) -> Iterator[str]:
    """What is said of columns with some names in common, which are then one entity each.

    A few of many, or numbers, may be so by chance; people who know people are not.
    """
    names = {name: pc.unique(column[:_LOOKED_AT]) for name, column in columns.items()}
    for (one, left), (other, right) in combinations(list(names.items())[:8], 2):
        common = left.filter(pc.is_in(left, right))
        few = 10 * len(common) <= min(len(left), len(right))
        some = 10 * len(common) <= 9 * max(len(left), len(right))
        if len(common) and (few or (some and pc.all(pc.match_substring_regex(common, "^[0-9]+$")).as_py())):
            yield (
                f"{where}: {one!r} and {other!r} have names in common, such as {common[0].as_py()!r}, which are one "
                f"entity each; if they are not, write them differently, such as {other}-{common[0].as_py()}"
            )
