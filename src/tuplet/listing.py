"""Short lists that people read: a table when printed, rows when iterated, a data frame when asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from tuplet.errors import BadInput
from tuplet.html_table import html_table
from tuplet.prefixes import NO_PREFIXES, Prefixes
from tuplet.text_table import aligned

if TYPE_CHECKING:
    import pandas
    import pyarrow

R = TypeVar("R")


class Listing(Sequence[R], Generic[R]):
    """Rows of one dataclass.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class City:
    ...     name: str
    ...     people: int
    >>> print(Listing([City("Paris", 2100000), City("Lyon", 520000)], City))
    name   people
    Paris  2,100,000
    Lyon   520,000
    """

    def __init__(
        self,
        rows: Sequence[R],
        kind: type[R],
        title: str = "",
        prefixes: Prefixes = NO_PREFIXES,
        attributes: Listing[Any] | None = None,
    ) -> None:
        self._rows, self.kind, self.title, self.prefixes = tuple(rows), kind, title, prefixes
        self.attributes: Listing[Any] | None = attributes if attributes is not None and len(attributes) else None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(f.name for f in fields(self.kind))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[R, ...]: ...
    def __getitem__(self, index: int | slice) -> R | tuple[R, ...]:
        return self._rows[index]

    def __iter__(self) -> Iterator[R]:
        return iter(self._rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows, ready for JSON; those of attributes follow."""
        rows = [asdict(row) for row in self]  # type: ignore[call-overload]
        return rows + ([] if self.attributes is None else self.attributes.to_dicts())

    def to_arrow(self) -> pyarrow.Table:
        """The rows as an Arrow table."""
        import pyarrow as pa

        columns = {name: [getattr(row, name) for row in self] for name in self.columns}
        try:
            return pa.table(columns)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # values of several kinds
            columns["value"] = list(map(str, columns["value"]))
            return pa.table(columns)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame."""
        return data_frame(self.to_arrow())

    def _shown(self) -> list[list[str]]:
        """The cells, header first; a column that says nothing is left out."""
        cells = {name: [_cell(getattr(row, name)) for row in self] for name in self.columns}
        told = {name: column for name, column in cells.items() if any(column)} or cells
        return [list(told), *map(list, zip(*told.values(), strict=True))]

    def __str__(self) -> str:
        short = self.prefixes.short
        cells = [[short(cell) for cell in row] for row in self._shown()]
        below = [] if self.attributes is None else ["", str(self.attributes)]
        return "\n".join([*([short(self.title)] if self.title else []), *aligned(cells), *below])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        short = self.prefixes.short
        head, *rows = ([short(cell) for cell in row] for row in self._shown())
        below = "" if self.attributes is None else self.attributes._repr_html_()
        return html_table(head, rows, short(self.title)) + below


def _cell(value: Any) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return " ".join(f"{key}={'all' if one is None else one}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def data_frame(table: pyarrow.Table) -> pandas.DataFrame:
    """An Arrow table as a data frame with plain strings."""
    try:
        import pandas as _  # noqa: F401 - only to say clearly when it is missing
    except ModuleNotFoundError:
        raise BadInput("pandas is not installed; pip install 'tuplet[pandas]', or use to_arrow()") from None
    frame = table.to_pandas()
    return frame.astype({name: "str" for name in frame.columns if str(frame[name].dtype) == "category"})
