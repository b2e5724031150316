"""Tables of DuckDB, and the node and relationship tables of Ladybug."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tuplet.errors import BadInput, unknown
from tuplet.read.facts import FactColumns
from tuplet.read.mapping import Choice, TableLayout, label_place
from tuplet.read.tables import from_layout, from_table

_FACTS, _NODES = ("facts", "triples", "edges"), "nodes"  # tables that are read if a database has several


def read_duckdb(path: Path, columns: Choice | None = None) -> Iterator[FactColumns]:
    """What a DuckDB file says: the table after a colon (`my.duckdb:drugs`), its only one, or `facts` and `nodes`."""
    duckdb = _module("duckdb", "sql", path)
    file, table = (str(path), "") if path.exists() else str(path).rsplit(":", 1)
    try:
        connection = duckdb.connect(file, read_only=True)
    except duckdb.Error as error:
        raise BadInput(f"{path}: cannot be read as DuckDB ({str(error).splitlines()[0]})") from None
    with closing(connection):
        yield from from_duckdb(connection, columns, file, table)


def from_duckdb(
    connection: Any, columns: Choice | None = None, where: str = "the database", table: str = ""
) -> Iterator[FactColumns]:
    """What the tables of a DuckDB connection say, or one of them."""
    found_tables = connection.execute("select table_name from information_schema.tables order by 1").fetchall()
    names = [name for (name,) in found_tables]
    if table:
        if table not in names:
            raise unknown("table", table, names, f"is not in {where}")
        names = [table]
    facts = [name for name in names if name.lower() in _FACTS] or [n for n in names if table or n.lower() != _NODES]
    if len(facts) != 1:
        found = ", ".join(names) or "none"
        raise BadInput(f"{where}: which table holds the facts? There are {found}; write {where}:TABLE")
    for name in names:
        if name in facts or name.lower() == _NODES:
            rows = connection.table(f'"{name}"').to_arrow_table()
            chosen, nodes = (columns, False) if name in facts else (None, True)
            yield from from_table(f"{where}, table {name}", rows, chosen, nodes)


def read_ladybug(path: Path, columns: Choice | None = None) -> Iterator[FactColumns]:
    """What a Ladybug database says."""
    ladybug = _module("ladybug", "ladybug", path)
    try:
        database = ladybug.Database(str(path), read_only=True)
        connection = ladybug.Connection(database)
    except RuntimeError as error:
        raise BadInput(f"{path}: cannot be read as Ladybug ({str(error).splitlines()[0]})") from None
    with closing(database), closing(connection):
        yield from from_ladybug(connection, str(path))


def from_ladybug(connection: Any, where: str = "the database") -> Iterator[FactColumns]:
    """What a Ladybug connection says: nodes are called `Table:key`, their table is their type."""
    tables = {row[1]: row[2] for row in connection.execute("CALL show_tables() RETURN *")}
    key = {}
    for name in (name for name, kind in tables.items() if kind == "NODE"):
        info = list(connection.execute(f"CALL table_info('{name}') RETURN *"))
        key[name] = next(row[1] for row in info if row[4])
        names = [row[1] for row in info]
        place = {column: i for i, column in enumerate(names)}
        role = {"id": place[key[name]], **label_place(place)}
        layout = TableLayout(len(names), role, attributes=place, spaces={"id": name}, type_name=name)
        table = connection.execute(f"MATCH (n:{_quote(name)}) RETURN n.*").get_as_arrow()
        yield from from_layout(f"{where}, table {name}", table.rename_columns(names), layout)
    for name in (name for name, kind in tables.items() if kind == "REL"):
        properties = [row[1] for row in connection.execute(f"CALL table_info('{name}') RETURN *")]
        for head, tail, *_ in list(connection.execute(f"CALL show_connection('{name}') RETURN *")):
            wanted = [f"a.{_quote(key[head])}", f"b.{_quote(key[tail])}", *(f"r.{_quote(p)}" for p in properties)]
            pattern = f"MATCH (a:{_quote(head)})-[r:{_quote(name)}]->(b:{_quote(tail)}) RETURN {', '.join(wanted)}"
            table = connection.execute(pattern).get_as_arrow()
            layout = TableLayout(
                len(wanted),
                {"head": 0, "tail": 1},
                attributes={p: i for i, p in enumerate(properties, start=2)},
                spaces={"head": head, "tail": tail},
                relation_name=name,
            )
            yield from from_layout(f"{where}, table {name}", table, layout)


def _quote(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else f"`{name}`"


def _module(name: str, extra: str, path: Path) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise BadInput(f"{path} is read with {name}, which is missing: pip install 'tuplet[{extra}]'") from None
