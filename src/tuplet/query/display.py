"""Tables for notebooks: everything is escaped, headers are headers, and the colours are those of the page."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import NO_PREFIXES, Prefixes
from tuplet.progress import align_columns, printable
from tuplet.query.ranking import Clauses, QueryGraph

if TYPE_CHECKING:
    import altair
    import pandas
    import pyarrow


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Markup:
    """A table of cells; a row of one cell spans all columns.

    >>> html_table(["name"], [["<b>"]])
    '<table><thead><tr><th scope="col">name</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    title = f"<caption>{escape_html(caption)}</caption>" if caption else ""
    names = "".join(f'<th scope="col">{escape_html(name)}</th>' for name in head)
    body = "".join(f"<tr>{_cells(row, len(head))}</tr>" for row in rows)
    return Markup(f"<table>{title}<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>")


def escape_html(text: str) -> Markup:
    """Text as HTML; what is HTML already stays."""
    return text if isinstance(text, Markup) else Markup(html.escape(printable(text)))


def tag(name: str, text: str) -> Markup:
    """An element around a text.

    >>> tag("code", "a < b")
    '<code>a &lt; b</code>'
    """
    return Markup(f"<{name}>{escape_html(text)}</{name}>")


def draw_share(text: str, share: float) -> Markup:
    """A number with a bar behind it, as long as its share of 1; grey that light and dark pages show alike.

    >>> draw_share("0.5", 0.5)
    '<div style="background:linear-gradient(90deg,#8885 50.0%,transparent 0)">0.5</div>'
    """
    bar = f"background:linear-gradient(90deg,#8885 {100 * share:.1f}%,transparent 0)"
    return Markup(f'<div style="{bar}">{escape_html(text)}</div>')


def _cells(row: Sequence[str], columns: int) -> str:
    if len(row) == 1 < columns:
        return f'<td colspan="{columns}">{escape_html(row[0])}</td>'
    return "".join(f"<td>{escape_html(cell)}</td>" for cell in row)


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
        return "\n".join([*([short(self.title)] if self.title else []), *align_columns(cells), *below])

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


# Blue, orange and green that colour-blind people tell apart, the same on every chart.
STATUSES = {"observed": "#0072b2", "mixed": "#009e73", "predicted": "#e69f00", "not known": "#999999"}
INK, PALE = "#444444", "#999999"
UNIT = 170  # pixels of an edge of a drawn query


def _altair() -> Any:
    try:
        return import_module("altair")
    except ModuleNotFoundError:
        raise BadInput("altair is not installed; pip install 'tuplet[plots]'") from None


def bars(rows: Sequence[Mapping[str, Any]], title: str) -> altair.Chart:
    """One bar of truth for each row of `answer`, `truth` and `status`, in the order given."""
    alt = _altair()
    return (
        _chart(rows, title)
        .mark_bar()
        .encode(
            x=_truth("x"),
            y=alt.Y("answer:N", sort=None, title=None, axis=alt.Axis(labelLimit=400)),
            color=_status(),
            tooltip=["answer:N", "truth:Q", "status:N"],
        )
        .properties(width=400)
    )


def ranks(rows: Sequence[Mapping[str, Any]], bound: float, title: str) -> altair.LayerChart:
    """Points of `rank` and `truth`, and a dashed line at what no tuple further down exceeds."""
    alt = _altair()
    plain = _chart(rows, title).encode(
        x=alt.X("rank:Q", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(zero=False)), y=_truth("y")
    )
    points = plain.mark_point(filled=True, opacity=1).encode(color=_status(), tooltip=["rank:Q", "truth:Q", "status:N"])
    rest = [{"bound": bound, "says": f"every other tuple ≤ {bound:.4g}"}]
    line = _chart(rest).mark_rule(strokeDash=[6, 4], color=INK).encode(y=alt.Y("bound:Q"), tooltip=["says:N"])
    return (plain.mark_line(color=PALE) + line + points).properties(width=400, height=240)


def reliability(
    tables: Mapping[str, Mapping[str, Any]], title: str = "Is truth as high as it should be?"
) -> altair.LayerChart:
    """Mean truth against the share of held-out facts by bins, with 95 % intervals; what is right is on the diagonal.

    `tables` are reliability tables as `store.info()` has them, by what they are called in the legend.
    """
    alt = _altair()
    rows = [
        {
            "truth": mean,
            "share": facts / edges,
            "low": low,
            "high": high,
            "edges": edges,
            "facts": facts,
            "values": name,
        }
        for name, table in tables.items()
        for edges, facts, mean in zip(table["entries"], table["facts"], table["mean"], strict=True)
        if edges
        for low, high in [wilson(facts, edges)]
    ]
    diagonal = _chart([{"truth": 0, "share": 0}, {"truth": 1, "share": 1}]).mark_line(color=PALE, strokeDash=[6, 4])
    colour = alt.Color("values:N", title=None, scale=alt.Scale(domain=list(tables), range=["#0072b2", "#e69f00"]))
    plain = _chart(rows, title)
    spans = plain.mark_rule().encode(x=_truth("x"), y="low:Q", y2="high:Q", color=colour)
    points = plain.mark_point(filled=True, opacity=1).encode(
        x=_truth("x"),
        y=alt.Y("share:Q", title="share that are facts", scale=alt.Scale(domain=[0, 1])),
        size=alt.Size("edges:Q", scale=alt.Scale(type="log", range=[30, 300]), title="edges"),
        color=colour,
        tooltip=["values:N", "truth:Q", "share:Q", "edges:Q", "facts:Q"],
    )
    return (diagonal.encode(x=_truth("x"), y="share:Q") + spans + points).properties(width=320, height=320)


def wilson(right: float, number: float, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share, after Wilson.

    >>> [round(end, 3) for end in wilson(8, 10)]
    [0.49, 0.943]
    """
    share, spread = right / number, z * z / number
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / number + spread / (4 * number)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


NODES = {"asked for": "circle", "any": "circle", "given": "square"}


def query(clauses: Clauses, graph: KnowledgeGraph, title: str) -> altair.HConcatChart:
    """Clauses as graphs, side by side: any of them makes a tuple an answer."""
    alt = _altair()
    return alt.hconcat(*(_draw_clause(clause, graph) for clause in clauses), title=_title(title))


def _draw_clause(clause: QueryGraph, graph: KnowledgeGraph) -> altair.LayerChart:
    alt = _altair()
    entities, relations, short = graph.entities, graph.relations, graph.prefixes.short
    shown = [(f"?{name}", "asked for" if v in clause.free else "any") for v, name in enumerate(clause.variables)]

    def place(node: int) -> int:
        """The number of a node; a constant has one for each edge: it is a value there, and joins nothing."""
        if node >= 0:
            return node
        shown.append((short(entities.label(~node) or entities.name(~node)), "given"))
        return len(shown) - 1

    drawn = []  # head, tail, label and kind of each edge
    for edge in clause.edges:
        label = short(relations.label(edge.relation) or relations.name(edge.relation))
        said = (f"not {label}", "does not hold") if edge.negated else (label, "holds")
        drawn.append((place(edge.head), place(edge.tail), *said))
    drawn += [(place(one), place(other), "≠", "different") for one, other in clause.different]
    places = UNIT * layout(len(shown), [(head, tail) for head, tail, *_ in drawn])
    nodes = [
        {"x": x, "y": y, "label": label, "kind": kind}
        for (x, y), (label, kind) in zip(places.tolist(), shown, strict=True)
    ]
    edges, drawn_between = [], dict[frozenset[int], int]()
    for head, tail, label, kind in drawn:
        # the second edge between two nodes runs beside the first
        beside = drawn_between.setdefault(frozenset((head, tail)), 0)
        drawn_between[frozenset((head, tail))] += 1
        along = places[tail] - places[head]
        length = float(np.hypot(*along)) or 1.0
        aside = 9 * beside * np.array([-along[1], along[0]]) / length * (1 if head < tail else -1)
        loop = np.array([0, 26 + 16 * beside]) if head == tail else aside
        (x, y), (x2, y2) = places[head] + aside, places[tail] + aside
        mx, my = places[head] + along * (0.76 if beside else 0.5) + loop
        angle = math.degrees(math.atan2(along[0], along[1]))
        ax, ay = places[tail] + aside - 14 * along / length
        edges.append(
            {"x": x, "y": y, "x2": x2, "y2": y2, "mx": mx, "my": my, "ax": ax, "ay": ay}
            | {"angle": angle, "label": label if head != tail else f"{label} ↺", "kind": kind}
        )
    low, high = places.min(axis=0), places.max(axis=0)
    margin = np.array([90, 50])
    domains = np.stack([low - margin, high + margin], axis=1).tolist()
    across, up = (
        {"axis": None, "scale": alt.Scale(domain=domain, zero=False, nice=False), "title": None} for domain in domains
    )
    dash = alt.StrokeDash(
        "kind:N",
        legend=None,
        scale=alt.Scale(domain=["holds", "does not hold", "different"], range=[[1, 0], [5, 4], [2, 3]]),
    )
    ends = {"x": alt.X("x:Q", **across), "y": alt.Y("y:Q", **up)}
    lines = _chart(edges).mark_rule(color=INK).encode(**ends, x2="x2:Q", y2="y2:Q", strokeDash=dash)
    arrows = (
        _chart([edge for edge in edges if edge["kind"] != "different" and not edge["label"].endswith("↺")])
        .mark_point(shape="triangle-up", filled=True, size=90, color=INK, opacity=1)
        .encode(x=alt.X("ax:Q", **across), y=alt.Y("ay:Q", **up), angle=alt.Angle("angle:Q", scale=None))
    )
    halo = {"fontSize": 12, "baseline": "middle"}
    middle = {"x": alt.X("mx:Q", **across), "y": alt.Y("my:Q", **up), "text": "label:N"}
    behind = _chart(edges).mark_text(**halo, stroke="white", strokeWidth=5).encode(**middle)
    words = _chart(edges).mark_text(**halo, color=INK).encode(**middle)
    kinds = list(NODES)
    dots = (
        _chart(nodes)
        .mark_point(size=220, opacity=1, strokeWidth=2, stroke="#0072b2")
        .encode(
            **ends,
            shape=alt.Shape("kind:N", legend=None, scale=alt.Scale(domain=kinds, range=list(NODES.values()))),
            fill=alt.Fill("kind:N", legend=None, scale=alt.Scale(domain=kinds, range=["#0072b2", "white", "#cccccc"])),
            tooltip=["label:N", "kind:N"],
        )
    )
    called = _chart(nodes).encode(**ends, text="label:N")
    names = [
        called.mark_text(dy=22, fontSize=13, **look)
        for look in ({"stroke": "white", "strokeWidth": 4}, {"color": "black"})
    ]
    size = (high - low + 2 * margin).tolist()
    below = alt.TitleParams(clause.describe_conditions() or "", orient="bottom", fontWeight="normal", fontSize=12)
    return alt.layer(lines, arrows, behind, words, dots, *names, title=below, view={"stroke": None}).properties(
        width=size[0], height=size[1]
    )


def layout(nodes: int, edges: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """Places [n, 2] of the nodes of a small graph: as far apart as the number of steps between them.

    It starts from a circle and lowers the stress by majorisation, so the same query is always drawn alike.

    >>> chain = layout(3, [(0, 1), (1, 2)])
    >>> np.round(np.hypot(*(chain[0] - chain[2])), 2)
    np.float64(2.0)
    """
    steps = np.where(np.eye(nodes, dtype=bool), 0.0, np.inf)
    for head, tail in edges:
        if head != tail:
            steps[head, tail] = steps[tail, head] = 1.0
    for middle in range(nodes):
        steps = np.minimum(steps, steps[:, middle, None] + steps[None, middle])
    steps[np.isinf(steps)] = 2.0  # parts that nothing joins stand side by side
    turn = 2 * np.pi * np.arange(nodes) / max(nodes, 1)
    places = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    for _ in range(300):
        apart = places[:, None] - places[None]
        length = np.linalg.norm(apart, axis=2)
        np.fill_diagonal(length, 1.0)
        pull = steps / np.maximum(length, 1e-9)
        places = (pull[:, :, None] * apart).sum(axis=1) / max(nodes, 1)
    # the longest way runs from left to right
    _, _, axes = np.linalg.svd(places - places.mean(axis=0), full_matrices=False) if nodes > 1 else (0, 0, np.eye(2))
    places = (places - places.mean(axis=0)) @ axes.T
    return np.asarray(places * np.where(places[0] <= 0, 1.0, -1.0))


def _chart(rows: Sequence[Mapping[str, Any]], title: str = "") -> Any:
    alt = _altair()
    # Values instead of a data frame: pandas is not needed for a chart.
    chart = alt.Chart(alt.Data(values=list(rows)))
    return chart.properties(title=_title(title)) if title else chart


def _truth(axis: str) -> Any:
    alt = _altair()
    return getattr(alt, axis.upper())("truth:Q", scale=alt.Scale(domain=[0, 1]), title="truth")


def _status() -> Any:
    alt = _altair()
    return alt.Color("status:N", title=None, scale=alt.Scale(domain=list(STATUSES), range=list(STATUSES.values())))


def _title(text: str) -> Any:
    lines = textwrap.wrap(text, 80, max_lines=3, placeholder=" …") or [""]
    return _altair().TitleParams(lines, fontWeight="normal", anchor="start")
