"""What is said of the names in a table that may not be meant as names; nothing is changed.

Remarks have no counts: a large file is read in parts, and what is said of several parts is said once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import combinations

import pyarrow as pa
import pyarrow.compute as pc

from tuplet.read.cells import MISSING, inferred

_LIKE_MISSING = pa.concat_arrays([MISSING, pa.array(["-", "--", "?", "."], pa.large_string())])
_MANY = 20  # cells: of fewer, it says little that each holds something else
_LOOKED_AT = 100_000  # cells
# How some write what would be numbers or days, and how that is written here.
_SPELLINGS = (
    (r"^([+-]?[0-9]+),([0-9]+)$", r"\1.\2", "numbers"),
    (r"^([0-3][0-9])[.]([01][0-9])[.]([0-9]{4})$", r"\3-\2-\1", "days"),
)


def like_missing(where: str, name: str, cells: pa.Array | pa.ChunkedArray, what: str = "an entity") -> list[str]:
    """What is said of cells that say that there is nothing."""
    words = cells.filter(pc.is_in(cells, _LIKE_MISSING.cast(cells.type)))
    return [
        f"{where}: cells of {name!r} hold {word!r}, which is {what} like any other; "
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


def mixed(where: str, ids: pa.Array, attributes: Mapping[str, pa.Array]) -> list[str]:
    """What is said of ids that have several rows with different values: which of these came together is lost."""
    ids = ids[:_LOOKED_AT]
    if pc.count_distinct(ids).as_py() == len(ids):
        return []
    for name, values in attributes.items():
        if pa.types.is_nested(values.type):
            continue
        plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        rows = pa.table({"id": ids, "value": plain[:_LOOKED_AT]})
        distinct = rows.group_by("id").aggregate([("value", "count_distinct", pc.CountOptions("only_valid"))])
        several = distinct.filter(pc.greater(distinct["value_count_distinct"], 1))
        if len(several):
            return [
                f"{where}: {several['id'][0].as_py()!r} has several rows with different {name!r}, and which value is "
                "of which row is lost; if a row is an event, give it an id of its own, or read facts, which keep their "
                f"values: head=…,RELATION=…,attribute={name}"
            ]
    return []


def other_spellings(where: str, name: str, cells: pa.Array) -> list[str]:
    """What is said of values that are texts only because numbers or days are written in another way here."""
    some = cells[:_LOOKED_AT].cast(pa.large_string()).drop_null()
    some = some.filter(pc.not_equal(some, ""))
    for pattern, mended, what in _SPELLINGS:
        like = pc.match_substring_regex(some, pattern)
        if len(some) and 2 * (pc.sum(like).as_py() or 0) > len(some):
            example = some.filter(like)[0].as_py()
            better = re.sub(pattern, mended, example)
            return [
                f"{where}: {name!r} holds texts such as {example!r}; written {better} they are {what}, which compare"
            ]
    return []


def spaced(names: pa.Array) -> list[str]:
    """What is said of names that differ from others only by spaces before or after them."""
    around = names.filter(pc.or_(pc.starts_with(names, " "), pc.ends_with(names, " ")))
    doubtful = around.filter(pc.is_in(pc.utf8_trim(around, " "), names))
    if not len(doubtful):
        return []
    many = f"{len(doubtful):,}, as {doubtful[0].as_py()!r}"
    return [
        f"names that differ from others only by spaces around them: {many}; spaces=trim among the columns removes them"
    ]


def in_other_letters(names: pa.Array) -> list[str]:
    """What is said of names that differ from others only by capital letters."""
    if len(names) > _LOOKED_AT:
        return []
    lowered = pc.utf8_lower(names)
    counts = pc.value_counts(lowered)
    several = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if not len(several):
        return []
    one, other = names.filter(pc.equal(lowered, several[0]))[:2].to_pylist()
    return [f"names that differ from others only by capital letters: {len(several):,}, as {one!r} and {other!r}"]


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
