"""Tables as CSV: as they are, or such that a spreadsheet computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

# What a cell begins with that a spreadsheet takes for a formula.
_FORMULA = r"^[=+@\t\r-]"


def csv_text(table: pyarrow.Table, safe: bool = False) -> str:
    """A table with a header; `safe` puts an apostrophe before texts that would be formulas.

    >>> import pyarrow
    >>> table = pyarrow.table({"x": ["=1+1", "a"], "truth": [-0.5, 1.0]})
    >>> print(csv_text(table, safe=True))
    "x","truth"
    "'=1+1",-0.5
    "a",1
    <BLANKLINE>
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    columns, names = [], table.column_names
    for column in table.columns:
        if pa.types.is_dictionary(column.type):  # which CSV has not
            column = column.cast(pa.string())
        if safe and pa.types.is_string(column.type):
            column = pc.replace_substring_regex(column, _FORMULA, r"'\0")
        columns.append(column)
    if safe:
        names = pc.replace_substring_regex(pa.array(names), _FORMULA, r"'\0").to_pylist()
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(pa.table(columns, names), sink)
    return bytes(sink.getvalue()).decode()
