"""The tools as plain functions: a store and JSON values in, JSON values out. Mistakes are `TupletError`s."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tuplet.engines import given as given_tuples
from tuplet.engines.given import judge
from tuplet.errors import BadInput
from tuplet.lang.brief_language import LANGUAGE
from tuplet.lang.printer import written
from tuplet.query import ask as asking
from tuplet.query import contents
from tuplet.query.answers import Answers, show_entity
from tuplet.query.examples import examples
from tuplet.query.limits import Deadline, Limits, Only, whole_number
from tuplet.query.question import Question, read_query
from tuplet.server.requests.limits import ServerLimits, with_place
from tuplet.store import Store

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
