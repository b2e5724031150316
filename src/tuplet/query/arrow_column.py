"""Values of attributes as a column of an Arrow table."""

from __future__ import annotations

from typing import Any

from tuplet.query.answer import show_cell
from tuplet.query.value_columns import Cell, Named


def arrow_column(values: list[Cell]) -> Any:
    """Values as an Arrow column of their type; of several types, as text."""
    import pyarrow as pa

    plain = [str(value) if isinstance(value, Named) else value for value in values]
    try:
        return pa.array(plain)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else show_cell(value, "") for value in plain], pa.string())
