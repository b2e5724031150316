"""The tools: questions to stores as functions with JSON schemas, and their descriptions for a language model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cache
from inspect import Parameter, getdoc, signature
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, NotRequired, TypeAlias, TypedDict, get_type_hints

from tuplet.engines import given as given_tuples
from tuplet.engines.given import judge
from tuplet.errors import BadInput, PlacedError, TupletError, UnknownName, unknown
from tuplet.lang.parse import LANGUAGE
from tuplet.lang.print import write_name
from tuplet.progress import align_columns
from tuplet.query import ask as asking
from tuplet.query import contents, evidence
from tuplet.query.answers import Answers, show_entity
from tuplet.query.contents import examples
from tuplet.query.limits import Deadline, Limits, Only, whole_number
from tuplet.query.schema import AnswerDict, AnswersDict, Fact, JsonSchema, json_schema
from tuplet.server.asking import QueryService, ask_all
from tuplet.server.limits import MOST_MEMORY, ServerLimits, problem
from tuplet.store import Store

_GRAMMAR = Path(__file__).parent / "grammar.md"
_RELATIONS = 40  # that a prompt lists
_LOOK = 1.0  # seconds between two looks for a newer generation of a store


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
    """A prompt that makes a language model turn a question into a query on a store."""
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
            *align_columns(listed),
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


# What the tools take and give: the description of an argument that is a limit is that of `Limits`.
Name: TypeAlias = Annotated[str, "its exact name"]
Label: TypeAlias = Annotated[str, "what people call it, where that differs"]
Write: TypeAlias = Annotated[str, "how the name is written in a query"]
Seconds: TypeAlias = Annotated[float | None, {"exclusiveMinimum": 0}]
QueryText: TypeAlias = Annotated[str, "logic text, SPARQL or Cypher; see the description for the language"]


class RelationDict(TypedDict):
    """A relation."""

    name: Name
    write: Write
    label: NotRequired[Label]
    facts: Annotated[int, "how many are stated"]
    predicted: NotRequired[Annotated[int, "how many are predicted"]]
    example: NotRequired[Annotated[str, "one of its facts, by labels"]]


class ExampleDict(TypedDict):
    """A query to start from."""

    title: Annotated[str, "what it asks"]
    query: Annotated[str, "a query that works here"]


class SchemaDict(TypedDict):
    """What is in a store."""

    entities: Annotated[int, "how many there are"]
    facts: Annotated[int, "how many are stated"]
    predicts: Annotated[bool, "whether missing facts are predicted, too"]
    calibrated: Annotated[bool | None, "true: of predicted facts with truth 0.7, about 7 in 10 are right"]
    relations: list[RelationDict]
    more_relations: Annotated[int, "how many are not listed; `find` with relations=true finds them"]
    attributes: Annotated[list[dict[str, Any]], "numbers, dates and texts of entities: ?x.age > 30"]
    examples: list[ExampleDict]
    language: Annotated[str, "how queries are written"]


class NameDict(TypedDict):
    """An entity or a relation."""

    name: Name
    label: NotRequired[Label]
    write: Write


class FindDict(TypedDict):
    """Names that were found."""

    found: Annotated[list[NameDict], "the best first"]
    suggestions: NotRequired[Annotated[list[str], "names that are spelled alike, if nothing was found"]]


class ExplainDict(AnswerDict):
    """One given tuple."""

    missing: NotRequired[
        Annotated[list[Fact], "of a tuple without truth: what would have to hold and does not; ?y is any entity"]
    ]


class ScoreDict(TypedDict):
    """The truth of given tuples."""

    variables: list[str]
    truth: Annotated[list[float], "of each tuple, in the order given"]


# Of the answer's schema a language model gets these keys; those of its parts that say nothing are left out, and numbers
# have as many digits as mean something: more cost as much as words.
_KEPT = ("variables", "exact", "bound", "pruned", "calibrated", "elapsed_ms", "boolean", "count", "answers")
_OPTIONAL = frozenset({"labels", "witness", "head_label", "tail_label", "clause", "negated", "lift", "evidence"})
_ROUNDED = frozenset({"truth", "lift", "weight", "bound"})


def _shorten(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_shorten(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    for key, given in value.items():
        if key == "labels":
            given = {name: label for name, label in given.items() if _says_more(label, value["values"][name])}
        elif key.endswith("_label") and not _says_more(given, value[key.removesuffix("_label")]):
            continue
        elif key in _ROUNDED and given is not None:
            given = _short(given)
        elif key != "values":
            given = _shorten(given)
        if given or key not in _OPTIONAL or (key == "evidence" and given is not None):
            found[key] = given
    return found


def _shorten_schema(schema: JsonSchema) -> JsonSchema:
    """The JSON schema of the results of `_shorten`."""
    found = dict(schema)
    if "properties" in schema:
        found["properties"] = {name: _shorten_schema(inner) for name, inner in schema["properties"].items()}
        found["required"] = [name for name in schema["required"] if name not in _OPTIONAL]
    if "items" in schema:
        found["items"] = _shorten_schema(schema["items"])
    if "anyOf" in schema:
        found["anyOf"] = list(map(_shorten_schema, schema["anyOf"]))
    return found


def _says_more(label: str, name: Any) -> bool:
    """Whether a label says more than the name.

    >>> _says_more("New York", "Q60"), _says_more("New York", "new_york"), _says_more("", "Q60")
    (True, False, False)
    """
    return bool(label) and show_entity(str(name), label) not in (name, label)


def _short(number: float) -> float:
    return float(f"{number:.4g}")


class Toolbox(QueryService):
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
        self._stores = {"store": stores} if isinstance(stores, Store) else dict(stores)
        self._parts: dict[frozenset[str], Toolbox] = {}
        self.limits = (limits or ServerLimits()).settled(1)
        self._looked = monotonic()

    @property
    def stores(self) -> Mapping[str, Store]:
        return self._stores

    def limited_to(self, names: Iterable[str] | None) -> Toolbox:
        """The same tools over some of the stores, such as those that a key opens; None: all."""
        if names is None:
            return self
        wanted = frozenset(names)
        if wanted not in self._parts:
            seen = {name: store for name, store in self._stores.items() if name in wanted}
            self._parts[wanted] = Toolbox(seen, self.limits)
        return self._parts[wanted]

    def warm(self) -> None:
        evidence.load()
        for store in self.stores.values():
            ask_all(store, [store.engine()], None)

    # --- the tools: what a language model reads about each is its first paragraph -----------------------------------

    def schema(
        self, store: Store, k: Annotated[int, "how many relations, those with most facts first", {"minimum": 1}] = 100
    ) -> SchemaDict:
        """Relations with counts and an example each, attributes, and queries to start from. Call it first.

        >>> from tuplet.read.read import read
        >>> from tuplet.query.source import Source
        >>> store = Store(Source(read([("paris", "capital_of", "france"), ("france", "borders", "spain")])))
        >>> schema(store)["relations"][0]
        {'name': 'borders', 'write': 'borders', 'facts': 1, 'example': 'france borders spain'}
        """
        whole_number("k", k, 1)
        source = store.source
        rows = contents.relations(source)
        relations: list[Any] = [
            _drop_empty(
                name=row.relation,
                write=write_name(row.relation),
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

    def find(
        self,
        store: Store,
        text: Annotated[str, "a part of the name or label"],
        k: Annotated[int, "how many", {"minimum": 1}] = 10,
        relations: Annotated[bool, "find relations, not entities"] = False,
    ) -> FindDict:
        """Entities (or relations) whose name or label begins with a text or contains it. Use it before you name
        anything in a query: only exact names and labels are known there.
        """
        whole_number("k", k, 1)
        if not isinstance(relations, bool):
            raise BadInput(f"relations must be true or false, not {relations!r}")
        found: list[Any] = [
            _drop_empty(
                name=one.name, label=one.label if _says_more(one.label, one.name) else "", write=write_name(one.name)
            )
            for one in store.find(text, k, relations)
        ]
        if found:
            return {"found": found}
        words = store.graph.relations if relations else store.graph.entities
        return {"found": [], "suggestions": words.suggest(text, 5)}

    def ask(
        self,
        store: Store,
        query: QueryText,
        k: Annotated[int | None, "how many answers (default: LIMIT of the query, or 10)", {"minimum": 0}] = None,
        offset: Annotated[int, {"minimum": 0}] = 0,
        only: Only | None = None,
        witness: Annotated[bool, "tell the facts that each answer rests on"] = True,
        evidence: bool = False,
        timeout: Seconds = None,
        *,
        deadline: Deadline | None = None,
    ) -> dict[str, Any]:
        """The tuples that make a query true, the likeliest first: from stated facts, and from predicted ones where
        facts are missing. Each has its truth (a probability) and the facts it rests on. Say in your words whether an
        answer is stated or predicted, and how sure it is.

        >>> from tuplet.read.read import read
        >>> from tuplet.query.source import Source
        >>> store = Store(Source(read([("paris", "capital_of", "france"), ("france", "borders", "spain")])))
        >>> ask(store, "?x : borders(?x, spain)")["answers"]
        [{'values': {'x': 'france'}, 'truth': 1.0, 'status': 'observed', 'witness': [{'head': 'france', \
'relation': 'borders', 'tail': 'spain', 'truth': 1.0, 'observed': True}]}]
        """
        limits = Limits(k=k, offset=offset, only=only, witness=witness, evidence=evidence, timeout=timeout)
        deadline = deadline or self.limits.deadline(timeout)
        question = self.question(store, query)
        limits = self.settled(limits, question, deadline)
        engine = self.engine(store, None, deadline)
        return self._write(asking.ask(question, engine, judge, limits, deadline))

    def _write(self, answers: Answers) -> dict[str, Any]:
        """Answers as JSON, as many as fit into the bytes of an answer."""
        head, most = answers.head(), self.limits.max_answer_bytes
        head["answers"] = []
        for row in map(_shorten, answers.rows()):
            most -= len(json.dumps(row))
            if most < 0 and head["answers"]:
                head["pruned"], head["bound"] = "bytes", max(head["bound"], row["truth"])
                break
            head["answers"].append(row)
        kept = {name: head[name] for name in _KEPT if name in head}
        return kept | {"bound": _short(head["bound"]), "summary": answers.summary()}

    def explain(
        self,
        store: Store,
        query: QueryText,
        values: Annotated[
            Mapping[str, str], "the tuple: an exact name for every variable asked for, as `ask` gives them"
        ],
        evidence: bool = True,
        timeout: Seconds = None,
        *,
        deadline: Deadline | None = None,
    ) -> dict[str, Any]:
        """Truth of one given tuple, the facts that it rests on, and what speaks for those that are predicted; of a
        tuple that is not true, what is missing.
        """
        limits = Limits(evidence=evidence, timeout=timeout)
        deadline = deadline or self.limits.deadline(timeout)
        question = self.question(store, query)
        engine = self.engine(store, None, deadline)
        [answer] = given_tuples.explain(question, [values], engine, limits, deadline)
        found: dict[str, Any] = {"witness": []} | _shorten(answer.to_dict())
        if answer.missing:
            found["missing"] = _shorten([asdict(fact) for fact in answer.missing])
        return found

    def score(
        self,
        store: Store,
        query: QueryText,
        tuples: Annotated[
            Sequence[Sequence[str]], "exact names, in the order of the variables that the query asks for"
        ],
        timeout: Seconds = None,
        *,
        deadline: Deadline | None = None,
    ) -> ScoreDict:
        """The truth of given tuples of a query, also of those that `ask` would not list. To check a guess, or to
        compare options.
        """
        if isinstance(tuples, Sequence) and len(tuples) > self.limits.max_k:
            raise BadInput(f"these are {len(tuples):,} tuples; at most {self.limits.max_k:,} are scored at once")
        deadline = deadline or self.limits.deadline(timeout)
        limits = self.limits.within(Limits(k=0, timeout=timeout))
        question = self.question(store, query)
        engine = self.engine(store, None, deadline)
        truth = asking.score(question, tuples, engine, limits, deadline)
        return {"variables": list(question.names), "truth": list(map(_short, truth))}

    # --- what a language model is shown, and asks for ---------------------------------------------------------------

    def definitions(self) -> list[dict[str, Any]]:
        """The tools for a language model: name, title, description, and JSON schemas of arguments and results."""
        more, taught = self._choose(), f"\n\n{teaching(next(iter(self.stores.values()), None))}"
        return [
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.about + (taught if "query" in tool.takes else ""),
                "parameters": tool.parameters(more),
                "returns": tool.gives,
            }
            for tool in DEFINITIONS.values()
        ]

    def _choose(self) -> dict[str, JsonSchema]:
        if len(self.stores) < 2:
            return {}
        names = list(self.stores)
        return {"store": {"type": "string", "enum": names, "description": f"which graph (default: {names[0]})"}}

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, deadline: Deadline | None = None) -> Any:
        """The result of a tool, or of a mistake its error, place and hint: such a result has the key `error`."""
        try:
            return self.run(name, arguments, deadline)
        except TupletError as error:
            return self.describe_error(error)

    def run(self, name: str, arguments: Mapping[str, Any] | None = None, deadline: Deadline | None = None) -> Any:
        """The result of a tool; mistakes are raised."""
        if name not in DEFINITIONS:
            raise unknown("tool", str(name)[:100], DEFINITIONS)
        given, tool = dict(arguments or {}), DEFINITIONS[name]
        store = self.store(given.pop("store", None))
        for argument in given:
            if argument not in tool.takes:
                raise unknown(f"argument of {name}", argument[:100], [*tool.takes, *self._choose()])
        for argument in tool.needed:
            if argument not in given:
                raise BadInput(f"{name} needs {argument!r}: {tool.takes[argument]['description']}")
        if "query" in tool.takes:
            given["deadline"] = deadline or self.deadline(given)
        self._refresh()
        return tool.function(self, store, **given)

    def deadline(self, arguments: Mapping[str, Any] | None) -> Deadline:
        """The deadline of a new call; a timeout that is no number is refused later, with a message."""
        timeout = (arguments or {}).get("timeout")
        number = isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0
        return self.limits.deadline(timeout if number else None)

    def describe_error(self, error: TupletError) -> dict[str, Any]:
        """An error as JSON, with a hint."""
        found = problem(error)[1]
        if isinstance(error, PlacedError) and error.text:
            found["excerpt"] = str(error).removeprefix(error.message).partition("\n")[2]
        if found["kind"] in ("syntax", "unsupported", "unsafe"):
            found["hint"] = LANGUAGE
        elif isinstance(error, UnknownName) and error.kind in ("entity", "relation"):
            wanted = ", relations=true" if error.kind == "relation" else ""
            found["hint"] = f"find(text=…{wanted}) looks for the exact name"
        return found

    def _refresh(self) -> None:
        """Take the newest generation of stores that others changed, at most once a second."""
        now = monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            for store in self.stores.values():
                with suppress(TupletError):  # what cannot be read now stays as it was
                    store.refresh()


def _drop_empty(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and value != ""}


@dataclass(frozen=True)
class ToolDefinition:
    """One tool as JSON schemas, made from the function that runs it."""

    name: str
    title: str
    function: Callable[..., Any]
    about: str  # what a language model reads first; how queries are written is told behind it
    takes: Mapping[str, JsonSchema]
    needed: tuple[str, ...]
    gives: JsonSchema

    @staticmethod
    def from_function(function: Callable[..., Any], title: str, gives: JsonSchema | None = None) -> ToolDefinition:
        """A method of `Toolbox` as a tool; `gives` replaces the schema of its return type."""
        hints = get_type_hints(function, include_extras=True)
        helps = {f.name: f.metadata["help"] + (" (seconds)" * (f.name == "timeout")) for f in fields(Limits)}
        takes, needed = {}, []
        for name, parameter in list(signature(function).parameters.items())[2:]:
            if parameter.kind is not Parameter.KEYWORD_ONLY:
                takes[name] = {"description": helps.get(name, "")} | json_schema(hints[name])
                if parameter.default is Parameter.empty:
                    needed.append(name)
                elif parameter.default is not None:
                    takes[name]["default"] = parameter.default
        about = " ".join((getdoc(function) or "").partition("\n\n")[0].split())
        returned = json_schema(hints["return"]) if gives is None else gives
        return ToolDefinition(function.__name__, title, function, about, takes, tuple(needed), returned)

    def parameters(self, more: Mapping[str, JsonSchema] | None = None) -> JsonSchema:
        properties = {**self.takes, **(more or {})}
        required = {"required": list(self.needed), "additionalProperties": False}
        return {"type": "object", "properties": properties, **required}


def _ask_schema() -> JsonSchema:
    whole = _shorten_schema(json_schema(AnswersDict))
    properties = {name: whole["properties"][name] for name in _KEPT}
    properties["summary"] = {"type": "string", "description": "the same in a sentence"}
    required = [name for name in properties if name == "summary" or name in whole["required"]]
    return {"type": "object", "properties": properties, "required": required}


DEFINITIONS: Mapping[str, ToolDefinition] = {
    tool.name: tool
    for tool in (
        ToolDefinition.from_function(Toolbox.schema, "What is in the knowledge graph"),
        ToolDefinition.from_function(Toolbox.find, "Find the exact name of something"),
        ToolDefinition.from_function(Toolbox.ask, "Answer a query", _ask_schema()),
        ToolDefinition.from_function(Toolbox.explain, "Why, or why not", _shorten_schema(json_schema(ExplainDict))),
        ToolDefinition.from_function(Toolbox.score, "How true are these?"),
    )
}

_ALONE = Toolbox({}, ServerLimits(max_memory=MOST_MEMORY))
schema, find, ask, explain, score = _ALONE.schema, _ALONE.find, _ALONE.ask, _ALONE.explain, _ALONE.score
