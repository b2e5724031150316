"""The files of `src/tuplet/data/attack` from MITRE's own JSON, the same bytes every time.

    python tools/attack_data.py enterprise-attack.json

The JSON is in the folder enterprise-attack of github.com/mitre/cti.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from tuplet.read.mapping import TYPE_RELATION
from tuplet.read.stix import read_json

FOLDER = Path(__file__).parents[1] / "src/tuplet/data/attack"


def main(source: str) -> None:
    """Write the facts with their days, and the objects with their labels and types."""
    (said,) = read_json(Path(source))
    assert said.date is not None
    days = [datetime.fromtimestamp(date, UTC).date().isoformat() if date > 0 else "" for date in said.date.tolist()]
    facts = list(zip(said.head.to_pylist(), said.relation.to_pylist(), said.tail.to_pylist(), days, strict=True))
    types = {head: tail for head, relation, tail, _ in facts if relation == TYPE_RELATION}
    dated = sorted((fact for fact in facts if fact[1] != TYPE_RELATION), key=lambda fact: (fact[1], fact[0], fact[2]))
    _write("facts.tsv.gz", [("head", "relation", "tail", "date"), *dated])
    objects = sorted((name, said.labels.get(name, name), types[name]) for name in types)
    _write("objects.tsv.gz", [("id", "label", "type"), *objects])


def _write(name: str, rows: Iterable[tuple[str, ...]]) -> None:
    text = "".join("\t".join(row) + "\n" for row in rows)
    packed = gzip.compress(text.encode(), 9, mtime=0)
    (FOLDER / name).write_bytes(packed)
    print(f"{name}: {text.count(chr(10)) - 1:,} rows, {len(packed):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
