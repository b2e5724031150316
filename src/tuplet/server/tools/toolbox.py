"""What a language model has to know to write a query: the language in a few lines, with examples from the store."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from inspect import signature
from pathlib import Path
from time import monotonic
from typing import Any

from tuplet.engines import given as given_tuples
from tuplet.engines.given import judge
from tuplet.errors import BadInput, PlacedError, TupletError, UnknownName, unknown
from tuplet.lang.parse import LANGUAGE
from tuplet.lang.print import written
from tuplet.progress import aligned
from tuplet.query import ask as asking
from tuplet.query import contents, evidence
from tuplet.query.answers import Answers, show_entity
from tuplet.query.examples import examples
from tuplet.query.limits import Deadline, Limits, Only, whole_number
from tuplet.query.question import Question, read_query
from tuplet.server.keys import KeyRefused
from tuplet.server.limits import ServerLimits, problem, with_place
from tuplet.server.tools.definitions import DEFINITIONS, JsonSchema
from tuplet.store import Store

_GRAMMAR = Path(__file__).parent / "grammar.md"
_RELATIONS = 40  # that a prompt lists


def teaching(store: Store | None = None, most: int = 3) -> str:
    """The query language in a few lines, with queries that work on a store."""
    if store is None:
        return LANGUAGE
    shown = [f"  {' '.join(example['query'].split())}" for example in examples(store.source)[:most]]
    return "\n".join([LANGUAGE, *(["Queries that work here:", *shown] if shown else [])])


@cache
def grammar() -> str:
    """The whole grammar of logic text, and what it means."""
    return _GRAMMAR.read_text(encoding="utf-8")


def question_prompt(store: Store, question: str) -> str:
    """What to tell a language model that is to turn a question into a query on a store."""
    rows = store.relations()
    listed = [
        [f"  {row.relation}", f"{row.facts:,} facts", f"e.g. {row.head} → {row.tail}"] for row in rows[:_RELATIONS]
    ]
    more = [f"  and {len(rows) - _RELATIONS} more (schema, find)"] if len(rows) > _RELATIONS else []
    return "\n".join(
        [
            "Turn the question into a query on a knowledge graph, ask it, and answer from what comes back.",
            "",
            teaching(store),
            "",
            "Relations (head → tail):",
            *aligned(listed),
            *more,
            "",
            "1. Find the exact name of everything the question names (tool `find`).",
            "2. Write the query; what the question asks for are the variables in front. Ask it (tool `ask`).",
            "3. An error says where it is and what was perhaps meant: correct the query and ask again.",
            "4. Answer with the tuples. Say which are stated and which are predicted, and how likely those are. If the "
            "first has little truth, say that the graph does not know.",
            "",
            f"Question: {question}",
        ]
    )


USUAL = ServerLimits()


def schema(store: Store, k: int = 100) -> dict[str, Any]:
    """What is in a store: relations, attributes, queries to start from, and the language.

    >>> from tuplet.read.read import read
    >>> from tuplet.query.source import Source
    >>> store = Store(Source(read([("paris", "capital_of", "france"), ("france", "borders", "spain")])))
    >>> schema(store)["relations"][0]
    {'name': 'borders', 'write': 'borders', 'facts': 1, 'example': 'france borders spain'}
    """
    whole_number("k", k, 1)
    source = store.source
    rows = contents.relations(source)
    relations = [
        _told(
            name=row.relation,
            write=written(row.relation),
            label=row.label if _says_more(row.label, row.relation) else "",
            facts=row.facts,
            predicted=row.predicted,
            example=f"{row.head} {row.label or row.relation} {row.tail}" if row.head else "",
        )
        for row in rows[:k]
    ]
    return {
        "entities": len(source.graph.entities),
        "facts": sum(row.facts for row in rows),
        "predicts": source.truth is not None,
        "calibrated": None if store.meta is None else store.meta.calibrated,
        "relations": relations,
        "more_relations": max(0, len(rows) - k),
        "attributes": contents.attributes(source.graph).to_dicts(),
        "examples": [{"title": one["title"], "query": " ".join(one["query"].split())} for one in examples(source)],
        "language": LANGUAGE,
    }


def find(store: Store, text: str, k: int = 10, relations: bool = False) -> dict[str, Any]:
    """Entities (or relations) by a part of their name or label; if there are none, what is spelled alike."""
    whole_number("k", k, 1)
    if not isinstance(relations, bool):
        raise BadInput(f"relations must be true or false, not {relations!r}")
    found = [
        _told(name=one.name, label=one.label if _says_more(one.label, one.name) else "", write=written(one.name))
        for one in store.find(text, k, relations)
    ]
    if found:
        return {"found": found}
    words = store.graph.relations if relations else store.graph.entities
    return {"found": [], "suggestions": words.suggest(text, 5)}


def ask(
    store: Store,
    query: str,
    k: int | None = None,
    offset: int = 0,
    only: Only | None = None,
    witness: bool = True,
    evidence: bool = False,
    timeout: float | None = None,
    *,
    within: ServerLimits = USUAL,
    deadline: Deadline | None = None,
) -> dict[str, Any]:
    """The likeliest answers of a query, each with its truth and what it rests on.

    >>> from tuplet.read.read import read
    >>> from tuplet.query.source import Source
    >>> store = Store(Source(read([("paris", "capital_of", "france"), ("france", "borders", "spain")])))
    >>> ask(store, "?x : borders(?x, spain)")["answers"]
    [{'values': {'x': 'france'}, 'truth': 1.0, 'status': 'observed', 'witness': [{'head': 'france', \
'relation': 'borders', 'tail': 'spain', 'truth': 1.0, 'observed': True}]}]
    """
    wanted = Limits(k=k, offset=offset, only=only, witness=witness, evidence=evidence, timeout=timeout)
    deadline = deadline or within.deadline(timeout)
    question = _question(store, query, within)
    limits = within.within(wanted.settled(question.tree.limit, question.tree.offset), deadline.seconds)
    with deadline.paused():
        engine = store.engine()
    return _shown(asking.ask(question, engine, judge, limits, deadline), within.max_answer_bytes)


def explain(
    store: Store,
    query: str,
    values: Mapping[str, str] | Sequence[str],
    evidence: bool = True,
    timeout: float | None = None,
    *,
    within: ServerLimits = USUAL,
    deadline: Deadline | None = None,
) -> dict[str, Any]:
    """Truth of one tuple and what it rests on, or what is missing."""
    limits = Limits(evidence=evidence, timeout=timeout)
    deadline = deadline or within.deadline(timeout)
    question = _question(store, query, within)
    with deadline.paused():
        engine = store.engine()
    [answer] = given_tuples.explain(question, [values], engine, limits, deadline)
    missing = [_fact(asdict(fact)) for fact in answer.missing]
    row = _row(answer.to_dict())
    return {**row, "witness": row.get("witness", []), **({"missing": missing} if missing else {})}


def score(
    store: Store,
    query: str,
    tuples: Sequence[Sequence[str]],
    timeout: float | None = None,
    *,
    within: ServerLimits = USUAL,
    deadline: Deadline | None = None,
) -> dict[str, Any]:
    """The truth of given tuples, in the order of the variables asked for."""
    if isinstance(tuples, Sequence) and len(tuples) > within.max_k:
        raise BadInput(f"these are {len(tuples):,} tuples; at most {within.max_k:,} are scored at once")
    limits = within.within(Limits(k=0, timeout=timeout))
    deadline = deadline or within.deadline(timeout)
    question = _question(store, query, within)
    with deadline.paused():
        engine = store.engine()
    truth = asking.score(question, tuples, engine, limits, deadline)
    return {"variables": [variable.name for variable in question.free], "truth": [_short(one) for one in truth]}


def _question(store: Store, text: str, within: ServerLimits) -> Question:
    """A query that is not too large; an error says where in the text it is."""
    if not isinstance(text, str):
        raise BadInput(f"a query is text, not {text!r}")
    within.check_text(text)
    tree = read_query(text, None, store.graph)
    within.check_query(tree)
    with with_place(text):
        return store.question(tree, text=text)


def _shown(answers: Answers, most: int) -> dict[str, Any]:
    """The JSON schema of answers without what an agent does not need; at most so many bytes of them."""
    head = answers.head()
    rows: list[dict[str, Any]] = []
    for row in map(_row, answers.rows()):
        most -= len(json.dumps(row))
        if most < 0 and rows:
            head["pruned"], head["bound"] = "bytes", max(head["bound"], row["truth"])
            break
        rows.append(row)
    kept = ("variables", "exact", "bound", "pruned", "calibrated", "elapsed_ms", "boolean", "count")
    told = {name: head[name] for name in kept if name in head}
    return {**told, "bound": _short(told["bound"]), "answers": rows, "summary": answers.summary()}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """An answer with what says something, and with truth in as many digits as mean something."""
    labels = {name: label for name, label in row["labels"].items() if _says_more(label, row["values"][name])}
    witness = [_fact(fact) for fact in row["witness"]]
    return {
        "values": row["values"],
        **({"labels": labels} if labels else {}),
        "truth": _short(row["truth"]),
        "status": row["status"],
        **({"witness": witness} if witness else {}),
    }


def _fact(fact: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in _named(fact).items() if value is not None}
    for name in ("clause", "negated"):
        if not told[name]:
            del told[name]
    for name in {"truth", "lift"} & told.keys():
        told[name] = _short(told[name])
    if "evidence" in told:
        told["evidence"] = [
            {"kind": one["kind"], "facts": list(map(_named, one["facts"])), "weight": _short(one["weight"])}
            for one in told["evidence"]
        ]
    return told


def _named(fact: Mapping[str, Any]) -> dict[str, Any]:
    """A fact with the labels that say more than the names."""
    needless = {f"{end}_label" for end in ("head", "tail") if not _says_more(fact[f"{end}_label"], fact[end])}
    return {name: value for name, value in fact.items() if name not in needless}


def _says_more(label: str, name: Any) -> bool:
    """Whether a label says more than the name.

    >>> _says_more("New York", "Q60"), _says_more("New York", "new_york"), _says_more("", "Q60")
    (True, False, False)
    """
    return bool(label) and show_entity(str(name), label) not in (name, label)


def _told(**fields: Any) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value is not None and value != ""}


def _short(number: float) -> float:
    """A number to four digits: more are noise, and cost a language model as much as words."""
    return float(f"{number:.4g}")


_LOOK = 1.0  # seconds between two looks for a newer generation of a store


class Toolbox:
    """Stores by name, limits as those of a server, and the tools to ask them.

    >>> from tuplet.read.read import read
    >>> from tuplet.query.source import Source
    >>> box = Toolbox(Store(Source(read([("paris", "capital_of", "france"), ("france", "borders", "spain")]))))
    >>> [tool["name"] for tool in box.definitions()]
    ['schema', 'find', 'ask', 'explain', 'score']
    >>> box.call("find", {"text": "par"})
    {'found': [{'name': 'paris', 'write': 'paris'}]}
    >>> wrong = box.call("ask", {"query": "?x : boders(?x, spain)"})
    >>> wrong["error"], wrong["suggestions"], wrong["column"]
    ("unknown relation 'boders'; did you mean 'borders'?", ['borders'], 6)
    """

    def __init__(self, stores: Store | Mapping[str, Store], limits: ServerLimits | None = None) -> None:
        self.stores = {"store": stores} if isinstance(stores, Store) else dict(stores)
        self.limits = (limits or ServerLimits()).settled(1)
        self._looked = monotonic()

    def of(self, names: Iterable[str] | None) -> Toolbox:
        """The same tools over some of the stores, such as those that a key opens; None: all."""
        if names is None:
            return self
        wanted = set(names)
        return Toolbox({name: store for name, store in self.stores.items() if name in wanted}, self.limits)

    def store(self, name: str | None = None) -> Store:
        """The store of a name; the first if none is given."""
        if not self.stores:
            raise KeyRefused("this key opens none of the stores that are served")
        if name is not None and name not in self.stores:
            raise unknown("store", str(name)[:100], self.stores)
        return self.stores[next(iter(self.stores)) if name is None else name]

    def warm(self) -> None:
        """Load what is compiled before the first call."""
        evidence.load()
        for store in self.stores.values():
            store.engine()
            filters: tuple[Only | None, ...] = (None, "predicted", "observed")
            for example, only in itertools.product(examples(store.source)[:2], filters):
                with suppress(TupletError):
                    store.ask(example["query"], k=3, only=only, timeout=1.0)

    def definitions(self) -> list[dict[str, Any]]:
        """What a language model is shown: name, title, description, and JSON schemas of arguments and results."""
        choose = self._choose()
        return [
            {
                "name": tool.name,
                "title": tool.title,
                "description": "\n\n".join([tool.about, *([self._taught()] if tool.teaches else [])]),
                "parameters": tool.parameters(choose),
                "returns": tool.gives,
            }
            for tool in DEFINITIONS.values()
        ]

    def _choose(self) -> dict[str, JsonSchema]:
        """The argument that names a store, where there are several."""
        if len(self.stores) < 2:
            return {}
        names = list(self.stores)
        return {"store": {"type": "string", "enum": names, "description": f"which graph (default: {names[0]})"}}

    def _taught(self) -> str:
        return teaching(next(iter(self.stores.values()), None))

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, deadline: Deadline | None = None) -> Any:
        """What a tool gives; of a mistake what is wrong, where, and how to go on: such a result has the key `error`."""
        try:
            return self.run(name, arguments, deadline)
        except TupletError as error:
            return self.told(error)

    def run(self, name: str, arguments: Mapping[str, Any] | None = None, deadline: Deadline | None = None) -> Any:
        """What a tool gives; mistakes are raised."""
        if name not in DEFINITIONS:
            raise unknown("tool", str(name)[:100], DEFINITIONS)
        given = dict(arguments or {})
        store = self.store(given.pop("store", None))
        tool, function = DEFINITIONS[name], _FUNCTIONS[name]
        for argument in given:
            if argument not in tool.takes:
                raise unknown(f"argument of {name}", argument[:100], [*tool.takes, *self._choose()])
        for argument in tool.needed:
            if argument not in given:
                raise BadInput(f"{name} needs {argument!r}: {tool.takes[argument]['description']}")
        if "within" in signature(function).parameters:
            given["within"] = self.limits
            given["deadline"] = deadline or self.deadline(given)
        self._refresh()
        return function(store, **given)

    def deadline(self, arguments: Mapping[str, Any] | None) -> Deadline:
        """When a call that has just come must be answered; a timeout that is no number is refused later, in words."""
        timeout = (arguments or {}).get("timeout")
        number = isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0
        return self.limits.deadline(timeout if number else None)

    def told(self, error: TupletError) -> dict[str, Any]:
        """An error as JSON, with what helps to write it better."""
        said = problem(error)[1]
        if isinstance(error, PlacedError) and error.text:
            said["excerpt"] = str(error).removeprefix(error.message).partition("\n")[2]
        if said["kind"] in ("syntax", "unsupported", "unsafe"):
            said["hint"] = LANGUAGE
        elif isinstance(error, UnknownName) and error.kind in ("entity", "relation"):
            wanted = ", relations=true" if error.kind == "relation" else ""
            said["hint"] = f"find(text=…{wanted}) looks for the exact name"
        return said

    def _refresh(self) -> None:
        """Take the newest generation of stores that others changed, at most once a second."""
        now = monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            for store in self.stores.values():
                with suppress(TupletError):  # what cannot be read now stays as it was
                    store.refresh()


_FUNCTIONS: Mapping[str, Callable[..., dict[str, Any]]] = {
    function.__name__: function for function in (schema, find, ask, explain, score)
}
