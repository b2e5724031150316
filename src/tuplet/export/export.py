"""One door for all formats: the ending of the file says which."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuplet.errors import unknown
from tuplet.export.content import ExportContent
from tuplet.files import replacing
from tuplet.progress import counted
from tuplet.query.source import Source

FORMATS = (".nt", ".ttl", ".parquet", ".csv", ".graphml")


@dataclass(frozen=True)
class ExportReport:
    """What was written."""

    files: tuple[str, ...]
    facts: int
    predictions: int
    labels: int
    values: int  # of attributes

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        parts = [counted(self.facts, "fact")]
        for number, word in ((self.predictions, "prediction"), (self.labels, "label"), (self.values, "value")):
            parts += [counted(number, word)] if number else []
        return "\n".join([", ".join(parts), *self.files])


def export(
    source: Source,
    path: str | os.PathLike[str],
    predicted: bool = False,
    threshold: float = 0.0,
    force: bool = False,
) -> ExportReport:
    """Write what is stated, and perhaps predicted, to a file whose ending is its format.

    Tables (.parquet, .csv) of entities with labels or values are a second file: `facts.nodes.csv` beside `facts.csv`.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in FORMATS:
        raise unknown("format of an export", target.suffix or target.name, FORMATS)
    content = ExportContent(source, predicted, threshold)
    files = [target]
    with ExitStack() as stack:
        fresh = stack.enter_context(replacing(target, force))
        if suffix in (".parquet", ".csv"):
            _tables(content, suffix, target, fresh, files, stack, force)
        else:
            _writer(suffix)(content, fresh)
    graph = content.graph
    return ExportReport(
        tuple(map(str, files)),
        content.counts["stated"],
        content.counts["predicted"],
        graph.entities.labelled + graph.relations.labelled,
        sum(map(len, graph.attributes.columns)),
    )


def _tables(
    content: ExportContent, suffix: str, target: Path, fresh: Path, files: list[Path], stack: ExitStack, force: bool
) -> None:
    import pyarrow.parquet as pq

    from tuplet.export import tables

    write = tables.write_facts_parquet if suffix == ".parquet" else tables.write_facts_csv
    write(content, fresh)
    found = tables.nodes(content)
    if found is not None:
        files.append(target.with_name(f"{target.stem}.nodes{target.suffix}"))
        place = stack.enter_context(replacing(files[-1], force))
        if suffix == ".parquet":
            pq.write_table(found, place)
        else:
            tables.write_nodes_csv(found, place)


def _writer(suffix: str) -> Callable[[ExportContent, Path], None]:
    from tuplet.export.graphml import write_graphml
    from tuplet.export.rdf import write_ntriples, write_turtle

    return {".nt": write_ntriples, ".ttl": write_turtle, ".graphml": write_graphml}[suffix]
