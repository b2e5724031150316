"""Scenarios of the openCypher TCK: read from feature files, set up as graphs, asked, and compared.

The set-up has a reader of CREATE of its own: nodes become entities `n000, n001, …` in the order of creation, labels
facts of the relation `type`, properties attributes of entities or facts, relationships facts. A node without a label
has the label `BARE`, for facts are all that says of an entity that it is a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import tuplet
from tuplet.errors import BudgetExceeded, ParseError, TupletError, UnknownName, Unsupported
from tuplet.graph.attributes import kind_of
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.lang.ast import Free, Query
from tuplet.lang.parse import parse
from tuplet.query.answers import Answers
from tuplet.read.facts import AttributeBatch, FactColumns

BARE = "no label"

# --- feature files ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """One scenario, with the examples of an outline put in."""

    name: str
    steps: tuple[tuple[str, str, tuple[tuple[str, ...], ...]], ...]  # what is said, a text below it, a table below it

    def text(self, said: str) -> list[str]:
        return [text for step, text, _ in self.steps if said in step]

    def table(self, said: str) -> tuple[tuple[str, ...], ...]:
        return next((table for step, _, table in self.steps if said in step), ())

    def said(self, part: str) -> str:
        return next((step for step, _, _ in self.steps if part in step), "")


def scenarios(folder: Path) -> Iterator[Scenario]:
    """All scenarios of the feature files below a folder."""
    for path in sorted(folder.rglob("*.feature")):
        before, *blocks = re.split(r"^\s*Scenario(?: Outline)?:", path.read_text("utf-8"), flags=re.MULTILINE)
        background = before.partition("Background:")[2]
        for block in blocks:
            title, _, rest = block.partition("\n")
            rest, *examples = re.split(r"^\s*Examples:.*\n", rest, flags=re.MULTILINE)
            found = Scenario(f"{path.stem} {title.strip()}", tuple(_steps(background + rest)))
            if not examples:
                yield found
            for text in examples:
                keys, *rows = _table(text.splitlines())
                for number, row in enumerate(rows, 1):
                    yield _filled(found, dict(zip(keys, row, strict=True)), number)


def _filled(outline: Scenario, values: Mapping[str, str], number: int) -> Scenario:
    def fill(text: str) -> str:
        for key, value in values.items():
            text = text.replace(f"<{key}>", value)
        return text

    steps = tuple(
        (fill(said), fill(text), tuple(tuple(map(fill, row)) for row in table)) for said, text, table in outline.steps
    )
    return Scenario(f"{outline.name} ({number})", steps)


def _steps(text: str) -> Iterator[tuple[str, str, tuple[tuple[str, ...], ...]]]:
    for step in re.split(r"^\s*(?:Given|When|Then|And)\b", text, flags=re.MULTILINE)[1:]:
        said, _, below = step.partition("\n")
        quoted = re.search(r'"""\n(.*?)"""', below, re.DOTALL)
        yield said.strip(), quoted.group(1) if quoted else "", () if quoted else tuple(_table(below.splitlines()))


def _table(lines: list[str]) -> list[tuple[str, ...]]:
    rows = [line.strip() for line in lines if line.strip().startswith("|")]
    return [tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]) for row in rows]


# --- values as the TCK writes them -----------------------------------------------------------------------------------

_WORDS = re.compile(r"""\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?\d+\.\d+(?:e-?\d+)?|-?\d+|[\w`]+|->|.)""", re.DOTALL)
_PLAIN = {"true": True, "false": False, "null": None}


class NotCovered(Exception):
    """A set-up or an expectation that facts and attributes cannot say; the argument is the reason."""


@dataclass
class Words:
    """The words of a text, one after the other."""

    words: list[str]
    at: int = 0

    @staticmethod
    def of(text: str) -> Words:
        return Words([word for word in _WORDS.findall(text) if word.strip()])

    @property
    def next(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self, *expected: str) -> str:
        word = self.next
        if expected and word not in expected:
            raise NotCovered(f"set-up: {word!r} in {' '.join(self.words)[:60]!r}")
        self.at += 1
        return word

    def accept(self, word: str) -> bool:
        found = self.next == word
        self.at += found
        return found

    def value(self, known: Mapping[str, Any]) -> Any:
        word = self.take()
        if word == "[":
            items = []
            while not self.accept("]"):
                items.append(self.value(known))
                self.accept(",")
            return tuple(items)
        if word[0] in "'\"":
            return re.sub(r"\\(.)", r"\1", word[1:-1])
        if word in known and self.accept("."):
            found = known[word][self.take()]
            return found + self.value(known) if self.accept("+") else found
        if word in known:
            return known[word]
        if word.lower() in _PLAIN:
            return _PLAIN[word.lower()]
        if re.fullmatch(r"-?\d+", word):
            return int(word)
        if re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", word):
            return float(word)
        raise NotCovered(f"a value such as {word!r}")

    def properties(self, known: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.accept("{"):
            while not self.accept("}"):
                key = self.take()
                self.take(":")
                found[key] = self.value(known)
                self.accept(",")
        return {key: value for key, value in found.items() if value is not None}

    def labels(self) -> list[str]:
        found = []
        while self.accept(":"):
            found.append(self.take().strip("`"))
        return found


@dataclass(frozen=True)
class Node:
    """A node: what the TCK shows of it."""

    labels: frozenset[str]
    properties: frozenset[tuple[str, Any]]


def expected_value(text: str) -> Any:
    """What a cell of an expected result says; a relationship is its type, as answers show it."""
    words = Words.of(text)
    if words.accept("("):
        labels = words.labels()
        node = Node(frozenset(labels), frozenset(words.properties({}).items()))
        words.take(")")
        return node
    if words.next == "[" and words.words[1:2] == [":"]:
        words.take()
        (kind,) = words.labels()
        words.properties({})
        words.take("]")
        return kind
    if words.next in ("<", "{") or (words.next == "[" and words.words[1:2] in (["["], ["("])):
        raise NotCovered("paths, lists and maps as values")
    return words.value({})


# --- set-up ----------------------------------------------------------------------------------------------------------


_MATCHED = re.compile(
    r"\s*MATCH \((\w+)(?::(\w+))?\)(?:-\[r\]->\((\w+)\))?\s*(?:WHERE NOT \w+:(\w+)\s*)?(DELETE r)?\s*(CREATE.*)",
    re.DOTALL,
)


@dataclass
class SetUp:
    """What CREATE makes."""

    labels: list[list[str]] = field(default_factory=list)
    properties: list[dict[str, Any]] = field(default_factory=list)
    relationships: dict[tuple[int, str, int], dict[str, Any]] = field(default_factory=dict)

    def run(self, statement: str) -> None:
        """One statement: CREATE, for each number of UNWIND range(…) or for each match of a pattern."""
        if matched := _MATCHED.match(statement):
            self.run_matched(matched)
            return
        words = Words.of(statement)
        values: list[dict[str, Any]] = [{}]
        if words.accept("UNWIND"):
            words.take("range")
            words.take("(")
            low = words.value({})
            words.take(",")
            high = words.value({})
            words.take(")")
            words.take("AS")
            name = words.take()
            values = [{name: i} for i in range(low, high + 1)]
        start = words.at
        for known in values:
            words.at = start
            self.create(words, {}, known)

    def run_matched(self, matched: re.Match[str]) -> None:
        """`MATCH (a:A)-[r]->(b) WHERE NOT a:B DELETE r CREATE …`, all but the first node and CREATE optional."""
        name, label, other, without, deleted, made = matched.groups()
        nodes = [i for i, labels in enumerate(self.labels) if label in (None, *labels) and without not in labels]
        found: list[dict[str, int]] = [{name: i} for i in nodes]
        if other:
            edges = [key for key in self.relationships if key[0] in nodes]
            found = [{name: head, other: tail} for head, _, tail in edges]
            self.relationships = {k: v for k, v in self.relationships.items() if not (deleted and k in edges)}
        for names in found:
            known = {node: self.properties[number] for node, number in names.items()}
            self.create(Words.of(made), names, known)

    def create(self, words: Words, names: dict[str, int], known: Mapping[str, Any]) -> None:
        while words.next:
            words.take("CREATE")
            self.path(words, names, known)
            while words.accept(","):
                self.path(words, names, known)

    def path(self, words: Words, names: dict[str, int], known: Mapping[str, Any]) -> None:
        left = self.node(words, names, known)
        while words.next in ("-", "<"):
            back = words.accept("<")
            words.take("-")
            words.take("[")
            if words.next != ":":
                words.take()
            (kind,) = words.labels()
            properties = words.properties(known)
            words.take("]")
            if not words.accept("->"):
                words.take("-")
            right = self.node(words, names, known)
            key = (right, kind, left) if back else (left, kind, right)
            if key in self.relationships:
                raise NotCovered("two relationships of one type between the same nodes are one fact")
            self.relationships[key] = properties
            left = right

    def node(self, words: Words, names: dict[str, int], known: Mapping[str, Any]) -> int:
        words.take("(")
        name = words.take() if words.next not in (":", "{", ")") else ""
        if name in names:
            number = names[name]
            words.take(")")
            return number
        number = len(self.labels)
        if name:
            names[name] = number
        self.labels.append(words.labels())
        self.properties.append(words.properties(known))
        words.take(")")
        return number

    def graph(self) -> tuplet.Graph:
        """The graph of facts and attributes."""
        facts = [(entity(i), "type", label) for i, labels in enumerate(self.labels) for label in labels or [BARE]]
        typed = len(facts)
        facts += [(entity(head), kind, entity(tail)) for head, kind, tail in self.relationships]
        if not facts:
            return tuplet.Graph.from_graph(
                KnowledgeGraph.from_edges(Vocabulary.from_names([]), Vocabulary.from_names(["type"]), [], [], [])
            )
        batches: list[AttributeBatch] = []
        batches += _batches(dict(enumerate(self.properties)), lambda keys: pa.array([entity(i) for i in keys]))
        given = dict(enumerate(self.relationships.values(), typed))
        batches += _batches({i: given.get(i, {}) for i in range(len(facts))}, None)
        columns = [pa.chunked_array([pa.array(column, pa.large_string())]) for column in zip(*facts, strict=True)]
        return tuplet.read(FactColumns(*columns, values=tuple(batches)))

    def shown(self, number: int) -> Node:
        return Node(frozenset(self.labels[number]), frozenset(self.properties[number].items()))


def _batches(rows: Mapping[int, Mapping[str, Any]], subjects: Any) -> Iterator[AttributeBatch]:
    """A batch for each property and kind of its values; of facts, every fact has a place in each."""
    for name, kind in dict.fromkeys((key, _kind(value)) for row in rows.values() for key, value in row.items()):
        values = {i: row[name] for i, row in rows.items() if name in row and _kind(row[name]) == kind}
        if subjects is not None:
            yield AttributeBatch(name, pa.array(list(values.values())), subjects(values))
        else:
            yield AttributeBatch(name, pa.array([values.get(i) for i in rows]))


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        raise NotCovered("lists as values")
    return kind_of(value)


def entity(number: int) -> str:
    return f"n{number:03}"


# --- running ---------------------------------------------------------------------------------------------------------

# Why a scenario is left out: a construct that is refused by name, or what a graph of facts cannot hold.
REASONS = {
    "variable length": r"paths of variable length|is a list of relationships|shortest",
    "OPTIONAL MATCH": "OPTIONAL MATCH is not supported",
    "path values": "paths are no values here",
    "writing": "queries only read",
    "WITH": "^WITH is not supported",
    "UNWIND": "UNWIND is not supported",
    "RETURN without MATCH": "RETURN without MATCH",
    "aggregates and groups": r"counts by group|only RETURN count|count\(\) takes|distinct values are not counted",
    "expressions and functions": r"arithmetic|the function|no other expressions|not supported in RETURN|"
    r"are no values here|RETURN takes|ORDER BY takes",
    "negated patterns with new nodes": "only facts of a named type",
    "a relationship in two patterns": "of another pattern",
    "properties of undirected relationships": "without a direction",
    "comparison with null": "nothing equals null",
}


def reason(error: TupletError) -> str:
    """Why a query was refused, by construct."""
    if isinstance(error, BudgetExceeded):
        return "too many clauses"
    return next((name for name, pattern in REASONS.items() if re.search(pattern, error.message)), "?")


def run(scenario: Scenario) -> str:
    """Runs a scenario: `""` if it passes, the reason if it is left out; it fails with an `AssertionError`."""
    text = scenario.text("executing query")[0]
    parameters = {key: Words.of(value).value({}) for key, value in scenario.table("parameters are")}
    raised = scenario.said("should be raised")
    try:
        query = parse(text, parameters=parameters)
    except (Unsupported, BudgetExceeded) as error:
        return reason(error)
    except ParseError as error:
        found = reason(error)
        if found == "?" and not raised:
            raise AssertionError(f"{scenario.name}: {error}") from error
        return found.removeprefix("?")
    assert not raised, f"{scenario.name}: {raised}\n{text}"
    try:
        setup = SetUp()
        for statement in scenario.text("having executed"):
            setup.run(statement)
        header, *expected = scenario.table("the result should be")
        rows = [tuple(map(expected_value, row)) for row in expected]
        graph = setup.graph()
    except NotCovered as error:
        return str(error)
    try:
        answers = graph.ask(query, **({"k": "all"} if query.limit is None else {}))
    except UnknownName as error:
        return f"a name that the graph does not have is an error ({error.kind})"
    except BudgetExceeded as error:
        return reason(error)
    if ".name" in text and any(None in row for row in rows) and not any("name" in row for row in setup.properties):
        return "every entity has a name"
    found_rows = shown_rows(answers, query, header, setup)
    distinct = list(dict.fromkeys(rows))
    if "in order" in scenario.said("the result should be"):
        assert found_rows == distinct, scenario.name
    assert typed(found_rows) == typed(distinct), scenario.name
    return ""


def plain(cell: Any) -> Any:
    return str(cell) if isinstance(cell, str) else cell  # a relation is a text of its own class


def typed(rows: list[tuple[Any, ...]]) -> set[Any]:
    return {tuple((type(cell).__name__, cell) for cell in row) for row in rows}


def shown_rows(answers: Answers, query: Query, header: tuple[str, ...], setup: SetUp) -> list[tuple[Any, ...]]:
    """The rows of an answer with nodes as the TCK shows them, each once, in the order of the header."""
    if query.form == "count":
        assert answers.number is not None
        assert header == (query.counted,)
        return [(answers.number.answers,)]
    kinds = {column.name: column.what for column in query.shown} or {free.name: free for free in query.free}
    assert sorted(kinds) == sorted(header)
    rows = []
    for answer in answers:
        assert answer.truth == 1
        cells = [
            setup.shown(int(answer[name][1:])) if isinstance(kinds[name], Free) else plain(answer[name])
            for name in header
        ]
        rows.append(tuple(cells))
    return list(dict.fromkeys(rows))
