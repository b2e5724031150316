"""The tools as JSON schemas: what each does, takes and gives. Python, MCP and the docs read this table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from tuplet.query.limits import Limits

JsonSchema: TypeAlias = dict[str, Any]

_LIMITS = {f.name: f.metadata["help"] for f in fields(Limits)}


@dataclass(frozen=True)
class ToolDefinition:
    """One tool. `about` is what a language model reads first; how queries are written is told behind it."""

    name: str
    title: str
    about: str
    takes: Mapping[str, JsonSchema]
    gives: JsonSchema
    needed: tuple[str, ...] = ()
    teaches: bool = field(default=False)  # whether it takes a query, so that its description has to teach the language

    def parameters(self, more: Mapping[str, JsonSchema] | None = None) -> JsonSchema:
        """The schema of the arguments, with those that all tools take where there are several stores."""
        return _object({**self.takes, **(more or {})}, self.needed) | {"additionalProperties": False}


def _object(properties: Mapping[str, JsonSchema], required: tuple[str, ...] | None = None) -> JsonSchema:
    """An object; all of its keys are there unless some are named."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
    }


def _text(about: str) -> JsonSchema:
    return {"type": "string", "description": about}


def _list(items: JsonSchema, about: str = "") -> JsonSchema:
    return {"type": "array", "items": items, **({"description": about} if about else {})}


def _whole(about: str, least: int = 0) -> JsonSchema:
    return {"type": "integer", "minimum": least, "description": about}


def _flag(about: str, default: bool) -> JsonSchema:
    return {"type": "boolean", "default": default, "description": about}


def _truth(about: str) -> JsonSchema:
    return {"type": "number", "minimum": 0, "maximum": 1, "description": about}


_QUERY = _text("logic text, SPARQL or Cypher; see the description for the language")
_TIMEOUT = {"type": "number", "exclusiveMinimum": 0, "description": _LIMITS["timeout"] + " (seconds)"}
_STATUS = {
    "type": ["string", "null"],
    "enum": ["observed", "mixed", "predicted", "none", None],
    "description": "observed: the stated facts imply it; predicted: it rests on predictions alone; mixed: on both; "
    "none: nothing makes it true; null: the time was up before it was known",
}
_STATED = _object({"head": _text("an entity"), "relation": _text("a relation"), "tail": _text("an entity")})
_FACT = _object(
    {
        "head": _text("name of an entity"),
        "relation": _text("name of a relation"),
        "tail": _text("name of an entity"),
        "head_label": _text("what people call it, where that differs"),
        "tail_label": _text("what people call it, where that differs"),
        "truth": _truth("1 of a stated fact; of a predicted one how likely it is; under a negation 1 minus that"),
        "observed": {"type": "boolean", "description": "whether it is stated"},
        "negated": {"type": "boolean", "description": "there, and true, where the query says that it must not hold"},
        "clause": _whole("which alternative of the query, where it has several"),
        "lift": {"type": "number", "description": "how many times likelier than chance, of a predicted fact"},
        "evidence": _list(
            _object(
                {
                    "kind": _text("how the facts speak for it"),
                    "facts": _list(_STATED),
                    "weight": {"type": "number", "description": "how much they say"},
                },
                ("facts", "weight"),
            ),
            "stated facts that speak for a predicted one, the strongest first; empty: none does",
        ),
    },
    ("head", "relation", "tail", "truth", "observed"),
)
_ANSWER = _object(
    {
        "values": {"type": "object", "description": "a name (or value) for every variable asked for"},
        "labels": {"type": "object", "description": "what people call them, where that differs"},
        "truth": _truth("how likely it is that all of it holds"),
        "status": _STATUS,
        "witness": _list(_FACT, "the facts that the answer rests on, stated and predicted"),
    },
    ("values", "truth", "status"),
)

DEFINITIONS: Mapping[str, ToolDefinition] = {
    tool.name: tool
    for tool in (
        ToolDefinition(
            "schema",
            "What is in the knowledge graph",
            "Relations with counts and an example each, attributes, and queries to start from. Call it first.",
            {
                "k": {**_whole("how many relations, those with most facts first", 1), "default": 100},
            },
            _object(
                {
                    "entities": _whole("how many there are"),
                    "facts": _whole("how many are stated"),
                    "predicts": {"type": "boolean", "description": "whether missing facts are predicted, too"},
                    "calibrated": {
                        "type": ["boolean", "null"],
                        "description": "true: of predicted facts with truth 0.7, about 7 in 10 are right",
                    },
                    "relations": _list(
                        _object(
                            {
                                "name": _text("its exact name"),
                                "write": _text("how the name is written in a query"),
                                "label": _text("what people call it, where that differs"),
                                "facts": _whole("how many are stated"),
                                "predicted": _whole("how many are predicted"),
                                "example": _text("one of its facts, by labels"),
                            },
                            ("name", "write", "facts"),
                        )
                    ),
                    "more_relations": _whole("how many are not listed; `find` with relations=true finds them"),
                    "attributes": _list({"type": "object"}, "numbers, dates and texts of entities: ?x.age > 30"),
                    "examples": _list(
                        _object({"title": _text("what it asks"), "query": _text("a query that works here")})
                    ),
                    "language": _text("how queries are written"),
                }
            ),
        ),
        ToolDefinition(
            "find",
            "Find the exact name of something",
            "Entities (or relations) whose name or label begins with a text or contains it. Use it before you name "
            "anything in a query: only exact names and labels are known there.",
            {
                "text": _text("a part of the name or label"),
                "k": {**_whole("how many", 1), "default": 10},
                "relations": _flag("find relations, not entities", False),
            },
            _object(
                {
                    "found": _list(
                        _object(
                            {
                                "name": _text("its exact name"),
                                "label": _text("what people call it, where that differs"),
                                "write": _text("how the name is written in a query"),
                            },
                            ("name", "write"),
                        ),
                        "the best first",
                    ),
                    "suggestions": _list({"type": "string"}, "names that are spelled alike, if nothing was found"),
                },
                ("found",),
            ),
            ("text",),
        ),
        ToolDefinition(
            "ask",
            "Answer a query",
            "The tuples that make a query true, the likeliest first: from stated facts, and from predicted ones where "
            "facts are missing. Each has its truth (a probability) and the facts it rests on. Say in your words "
            "whether an answer is stated or predicted, and how sure it is.",
            {
                "query": _QUERY,
                "k": _whole(_LIMITS["k"].replace(", or 'all'", "")),
                "offset": _whole(_LIMITS["offset"]),
                "only": {
                    "type": ["string", "null"],
                    "enum": ["predicted", "observed", None],
                    "description": _LIMITS["only"],
                },
                "witness": _flag("tell the facts that each answer rests on", True),
                "evidence": _flag(_LIMITS["evidence"], False),
                "timeout": _TIMEOUT,
            },
            _object(
                {
                    "variables": _list({"type": "string"}),
                    "answers": _list(_ANSWER),
                    "exact": {"type": "boolean", "description": "whether the order is proven over all tuples"},
                    "bound": _truth("no tuple that is not shown has more truth"),
                    "pruned": {"type": ["string", "null"], "description": "what ended the search early"},
                    "calibrated": {
                        "type": ["boolean", "null"],
                        "description": "false: truth values are no probabilities here; null: nothing is predicted",
                    },
                    "elapsed_ms": {"type": "number"},
                    "boolean": {"type": ["boolean", "null"], "description": "of an ASK query"},
                    "count": {"type": "object", "description": "of a COUNT query"},
                    "summary": _text("the same in a sentence"),
                },
                ("variables", "answers", "exact", "bound", "pruned", "calibrated", "elapsed_ms", "summary"),
            ),
            ("query",),
            teaches=True,
        ),
        ToolDefinition(
            "explain",
            "Why, or why not",
            "Truth of one given tuple, the facts that it rests on, and what speaks for those that are predicted; of a "
            "tuple that is not true, what is missing.",
            {
                "query": _QUERY,
                "values": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "the tuple: an exact name for every variable asked for, as `ask` gives them",
                },
                "evidence": _flag(_LIMITS["evidence"], True),
                "timeout": _TIMEOUT,
            },
            _object(
                {
                    **_ANSWER["properties"],
                    "missing": _list(
                        _FACT, "of a tuple without truth: what would have to hold and does not; ?y is any entity"
                    ),
                },
                ("values", "truth", "status", "witness"),
            ),
            ("query", "values"),
            teaches=True,
        ),
        ToolDefinition(
            "score",
            "How true are these?",
            "The truth of given tuples of a query, also of those that `ask` would not list. To check a guess, or to "
            "compare options.",
            {
                "query": _QUERY,
                "tuples": _list(
                    _list({"type": "string"}), "exact names, in the order of the variables that the query asks for"
                ),
                "timeout": _TIMEOUT,
            },
            _object(
                {
                    "variables": _list({"type": "string"}),
                    "truth": _list({"type": "number"}, "of each tuple, in the order given"),
                }
            ),
            ("query", "tuples"),
            teaches=True,
        ),
    )
}

PROBLEM: JsonSchema = _object(
    {
        "error": _text("what is wrong, in a sentence"),
        "kind": _text("syntax, unsupported, unknown, unsafe, limit, busy, scope, store or input"),
        "position": _whole("where in the query, from 0"),
        "length": _whole("of the wrong part"),
        "line": _whole("from 1"),
        "column": _whole("from 1"),
        "suggestions": _list({"type": "string"}, "what was perhaps meant, as it has to be written"),
        "excerpt": _text("the line of the query with a caret under the place"),
        "hint": _text("how to go on"),
    },
    ("error", "kind"),
)
