"""Requests and answers as pydantic models: what is checked, and what the OpenAPI description shows."""

# mypy: disable-error-code="valid-type"
# (models that are made when this is loaded are variables to mypy)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, Literal, NotRequired, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, StrictInt, StrictStr, create_model, model_validator
from pydantic import Field as Key
from pydantic_core import PydanticCustomError

from tuplet.errors import TupletError
from tuplet.lang.ast import Form
from tuplet.query.limits import Limits, Only
from tuplet.query.logic import LogicName
from tuplet.query.schema import AnswerDict, AnswersDict, Fact, Provenance, schema_fields
from tuplet.truth.edit import EditReport

Text = Annotated[str, Key(min_length=1, max_length=100_000)]
Grounding = dict[str, StrictStr | StrictInt]
Scalar = bool | int | float | str


def _plain(given: Any) -> Any:
    """A check with one line of error, not one for each type that a parameter may have."""
    if all(isinstance(item, Scalar) for item in (given if isinstance(given, list) else [given])):
        return given
    raise PydanticCustomError("parameter", "a parameter is text, a number, true, false or a list of these")


Parameters = dict[str, Annotated[Scalar | list[Scalar], BeforeValidator(_plain)]]
Whole = Annotated[int, Key(ge=0, strict=True)]


class Strict(BaseModel):
    """A request in which an unknown key is an error, not a silent nothing."""

    model_config = ConfigDict(extra="forbid")


class StrictTypes(Strict):
    """A request in which "5" is no number and true is not 1, as in Python."""

    model_config = ConfigDict(strict=True)


def _key(limit: Field[Any], hint: Any) -> Any:
    """A field of `Limits` as a key of a request: same name, same type, same default."""
    choices = limit.metadata["choices"]
    if choices:
        hint = Literal[choices] if limit.default is not None else Literal[choices] | None
    made = {"default_factory": limit.default_factory} if limit.default is MISSING else {"default": limit.default}
    return hint, Key(description=limit.metadata["help"], **made)


class QueryRequest(StrictTypes):
    """A query, and what it is asked with."""

    query: Text
    grounding: Grounding | None = None
    parameters: Parameters | None = None


class BatchQuery(QueryRequest):
    """One query of a batch, with its own k."""

    k: Whole | None = None


_HINTS = get_type_hints(Limits)
_LimitKeys: Any = create_model(
    "_LimitKeys", __base__=StrictTypes, **{limit.name: _key(limit, _HINTS[limit.name]) for limit in fields(Limits)}
)


class AskRequest(_LimitKeys):  # type: ignore[misc]
    """One `query`, or a batch of `queries`, and how they are answered: the flags of `tuplet ask`."""

    store: str | None = Key(default=None, description="which store, where several are served; the first if not given")
    engine: str | None = Key(default=None, description="exact (default), crisp, ns3, ...: see /schema")
    query: Text | None = Key(default=None, description="SPARQL, logic text, Cypher, EFOk-CQA or BetaE")
    queries: list[Text | BatchQuery] | None = None
    grounding: Grounding | None = Key(default=None, description="of an EFOk-CQA string")
    parameters: Parameters | None = Key(default=None, description="what $name stands for in Cypher")
    format: Literal["json", "ndjson", "csv", "csv_safe", "parquet"] = Key(
        default="json", description="csv_safe: no cell is a formula to a spreadsheet"
    )

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "SELECT ?x WHERE { ?x :borders :france }", "k": 5}]}
    )

    @model_validator(mode="before")
    @classmethod
    def _check(cls, keys: Any) -> Any:
        """Check with the messages of `Limits`; the types here serve the description."""
        if isinstance(keys, Mapping):
            if isinstance(keys.get("memory"), str):  # in Python a text will do
                text = "memory must be a number of bytes, such as 2147483648 for 2G"
                raise PydanticCustomError("limit", "{text}", {"text": text})
            try:
                Limits(**{name: keys[name] for name in _HINTS if name in keys})
            except TupletError as error:
                raise PydanticCustomError("limit", "{text}", {"text": str(error)}) from None
        return keys

    def limits(self) -> Limits:
        return Limits(**{name: getattr(self, name) for name in self.model_fields_set if name in _HINTS})


class PlanRequest(QueryRequest):
    """A query to be planned, not run."""

    store: str | None = None
    engine: str | None = None


class ExplainRequest(QueryRequest):
    """One tuple of a query: `values` names an entity for every variable asked for."""

    values: dict[str, str]
    store: str | None = None
    logic: LogicName = "product"
    evidence: bool = Key(default=False, description="list the stated facts that are evidence for each predicted one")
    timeout: float | None = Key(default=None, gt=0, allow_inf_nan=False, description="seconds")


class ParseRequest(StrictTypes):
    """A query to be read and drawn."""

    query: Annotated[str, Key(max_length=100_000)]
    store: str | None = None
    parameters: Parameters | None = Key(default=None, description="what $name stands for in Cypher")


class StoreParameters(Strict):
    """Which store is meant; it stands in the address where there is no JSON."""

    store: str | None = Key(default=None, description="which store, where several are served; the first if not given")


Name = Annotated[str, Key(min_length=1, max_length=10_000)]
Triple = tuple[Name, Name, Name]
Plain = bool | int | float | Annotated[str, Key(max_length=100_000)]


class AddParameters(StoreParameters):
    """What stands in the address where the body is a table of facts to be added."""

    new_entities: bool = Key(default=False, description="the facts may name entities that the store does not have")


class AddRequest(AddParameters):
    """Facts, and values of attributes, that are true from now on."""

    facts: list[Triple | tuple[Name, Name, Name, float]] = Key(
        default=[], description="head, relation, tail; in a weighted store also a truth above 0 and up to 1"
    )
    attributes: list[tuple[Name | Triple, Name, Plain] | tuple[Name | Triple, Name, Plain, str]] = Key(
        default=[], description="an entity, or a fact; an attribute; a value; of a text perhaps its language"
    )
    replace: bool = Key(default=False, description="the values take the place of those that are there")

    model_config = ConfigDict(json_schema_extra={"examples": [{"facts": [["france", "borders", "spain"]]}]})


class RemoveRequest(StoreParameters):
    """Facts, and values of attributes, that are stated no longer."""

    facts: list[Triple] = []
    attributes: list[tuple[Name | Triple, Name] | tuple[Name | Triple, Name, Plain]] = Key(
        default=[], description="without a value all of the attribute"
    )


class SearchParameters(StoreParameters):
    """A search for entities."""

    search: Annotated[str, Key(max_length=200)] = ""
    limit: Annotated[int, Key(ge=1, le=100)] = 20


class EntityParameters(StoreParameters):
    """An entity, and how much about it."""

    name: Annotated[str, Key(min_length=1, max_length=10_000, description="a name, or a label that no other has")]
    k: Annotated[int, Key(ge=0, le=100, description="stated and predicted neighbours of each relation")] = 5
    offset: Annotated[int, Key(ge=0, description="skip this many of both first")] = 0
    least: Annotated[float, Key(ge=0, le=1, description="leave out predictions of less truth")] = 0.05
    relation: Annotated[str | None, Key(max_length=10_000, description="this relation alone")] = None
    inverse: Annotated[bool, Key(description="of that relation: who points at the entity")] = False
    timeout: Annotated[float | None, Key(gt=0, allow_inf_nan=False, description="seconds")] = None


class LabelsRequest(StrictTypes):
    """Entities by their exact names."""

    names: Annotated[list[str], Key(max_length=1000)]
    store: str | None = None


NameForm = Literal["name", "label", "number", "id", "variable"]
LogicText = Annotated[str, Key(min_length=1, max_length=10_000, description="a piece of logic text")]


class DrawnTerm(StrictTypes):
    """A node of a drawn query: a variable that is asked for, one that only has to exist, or an entity."""

    kind: Literal["free", "exists", "constant"]
    name: Annotated[str, Key(min_length=1, max_length=10_000)]
    form: Literal["name", "label", "number", "id"] = "name"
    label: str = Key(default="", description="how it is shown; /write does not look at it")


class DrawnEdge(StrictTypes):
    """An edge of a drawn query; of the form `variable`, its relation is one that a variable stands for."""

    head: DrawnTerm
    relation: Annotated[str, Key(min_length=1, max_length=10_000)]
    form: NameForm = "name"
    tail: DrawnTerm
    negated: bool = False
    label: str = Key(default="", description="how it is shown; /write does not look at it")
    position: Whole | None = Key(default=None, description="where it stands in the text it was read from")
    length: Whole | None = None


class DrawnCondition(StrictTypes):
    """A condition, and the nodes that it is about."""

    text: LogicText
    terms: list[DrawnTerm] = Key(default=[], description="/write does not look at them")


class DrawnClause(Strict):
    """Edges that hold together, nodes that differ, and conditions that are written rather than drawn."""

    edges: list[DrawnEdge]
    different: list[tuple[DrawnTerm, DrawnTerm]] = []
    conditions: list[DrawnCondition] = Key(default=[], description="such as ?x.age > 30")


class WriteRequest(Strict):
    """A drawn query to be written as text: the `graph` that `/parse` gives, as it is or changed."""

    free: list[Annotated[str, Key(pattern=r"^\w+$", max_length=100)]]
    clauses: list[DrawnClause]
    shown: list[LogicText] = Key(default=[], description="columns such as ?x.age; the free variables if not given")
    order: list[LogicText] = Key(default=[], description="keys such as ?x.age desc")
    limit: Whole | None = None
    offset: Whole = 0
    form: Form = "select"
    counted: str = Key(default="", max_length=1000, description="what the number of a count is called")
    language: Literal["logic", "sparql", "cypher"] = "logic"
    store: str | None = None


# --- what comes back: for the description alone -------------------------------------------------------------------


def _body(name: str, about: str, keys: Mapping[str, Any], perhaps: Mapping[str, Any] | None = None) -> Any:
    """A model of what is sent: types, perhaps with a sentence, by key; those of `perhaps` may be left out."""
    found: dict[str, Any] = {}
    for key, hint in {**keys, **(perhaps or {})}.items():
        kind, text = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
        given: dict[str, Any] = {"default_factory": lambda: None} if perhaps and key in perhaps else {}
        found[key] = kind, Key(description=text, **given)
    return create_model(name, __doc__=about, **found)


def _schema_body(name: str, kind: Any, text: str, /, **types: Any) -> Any:
    """A type of the answer's schema as a model; `types` are those of keys whose type is a model, too."""
    keys: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for key, (hint, always) in schema_fields(kind).items():
        plain, about = get_args(get_args(hint)[0] if get_origin(hint) is NotRequired else hint)
        keys[not always][key] = Annotated[types.get(key, plain), about]
    return _body(name, text, *keys)


AnswerBody = _schema_body(
    "AnswerBody", AnswerDict, "One answer: names of entities and relations, and values of attributes."
)
AboutBody = _schema_body("AboutBody", Provenance, "What you need to repeat an answer; what is not known is left out.")
AnswersBody = _schema_body(
    "AnswersBody",
    AnswersDict,
    "The answers of a query: the JSON of `tuplet ask --format json`.",
    about=AboutBody,
    answers=list[AnswerBody],
)
ExplainBody = create_model(
    "ExplainBody",
    __base__=AnswerBody,
    __doc__="Truth and witness of a given tuple, also in words.",
    query=(str, ...),
    text=(str, ...),
    missing=(list[Fact], ...),
)
ErrorBody = _body(
    "ErrorBody",
    "What went wrong, in one line, and where.",
    {"error": str, "kind": str},
    {**dict.fromkeys(("position", "length", "line", "column"), int), "limit": str, "suggestions": list[str]},
)
BatchBody = _body(
    "BatchBody",
    "The answers of a batch, in order; a query that was refused has its error in its place.",
    {"results": list[AnswersBody | ErrorBody]},
)
PlanBody = _body("PlanBody", "How a query would be answered, in words.", {"query": str, "engine": str, "plan": str})
DrawingGraph = create_model("DrawingGraph", __base__=WriteRequest, __doc__="A query as a graph: what `/write` takes.")
DrawingBody = _body(
    "DrawingBody",
    "A query as a graph and in every language that has words for it, or the first thing that is wrong with it.",
    {
        "language": Literal["logic", "sparql", "cypher", "efok", "betae"],
        **dict.fromkeys(("logic", "sparql", "cypher"), str | None),
        "refused": Annotated[dict[str, str], "why a language has no words for the query"],
        "graph": DrawingGraph | None,
        "problem": ErrorBody | None,
    },
)
WrittenBody = _body("WrittenBody", "A drawn query as text.", {"query": str})
RelationBody = _body(
    "RelationBody", "A relation and the number of its facts.", {"name": str, "label": str, "count": int}
)
AttributeBody = _body(
    "AttributeBody",
    "An attribute by the word that names it: what kind of values, and how many.",
    {"word": str, "kind": str, "count": int},
)
ExampleBody = _body(
    "ExampleBody", "A query that has answers here.", {"title": str, "query": str}, {"only": Literal[get_args(Only)]}
)
SchemaBody = _body(
    "SchemaBody",
    "What can be asked, and how much at once.",
    {
        "stores": list[str],
        "store": str,
        "entities": int,
        "facts": int,
        "predicted": bool,
        "generation": dict[str, Any] | None,
        "truth_age": dict[str, Any] | None,
        "relations": list[RelationBody],
        "attributes": list[AttributeBody],
        "prefixes": dict[str, str],
        "engines": list[str],
        "examples": list[ExampleBody],
        "limits": dict[str, float],
    },
)
ENTITY = {"name": str, "label": str}
EntityBody = _body("EntityBody", "An entity.", ENTITY)
EntitiesBody = _body("EntitiesBody", "Entities by name or label, the best first.", {"entities": list[EntityBody]})
NeighbourBody = _body("NeighbourBody", "Another end of a fact.", {**ENTITY, "truth": float})
NeighboursBody = _body(
    "NeighboursBody",
    "How many neighbours there are, and some of them, the best first.",
    {"count": int, "shown": list[NeighbourBody]},
)
NeighbourhoodBody = _body(
    "NeighbourhoodBody",
    "The neighbours by one relation; inverse: those that point at the entity.",
    {"relation": str, "label": str, "inverse": bool, "observed": NeighboursBody, "predicted": NeighboursBody},
)
ValueBody = _body(
    "ValueBody",
    "A value of an entity.",
    {"attribute": str, "value": bool | int | float | str, "kind": str, "language": str},
)
CardBody = _body(
    "CardBody",
    "All about an entity.",
    {
        **ENTITY,
        "types": list[EntityBody],
        "attributes": list[ValueBody],
        "k": int,
        "offset": int,
        "least": float,
        "pruned": Literal["timeout"] | None,
        "relations": list[NeighbourhoodBody],
    },
)
LabelsBody = _body("LabelsBody", "Labels by name; a name that is not there is left out.", {"labels": dict[str, str]})
SparqlTerm = _body(
    "SparqlTerm", "A term of RDF.", {"type": Literal["uri", "literal", "bnode"], "value": str}, {"datatype": str}
)
SparqlHead = create_model(
    "SparqlHead", __doc__="The variables of a table; none of a yes or no.", vars=(list[str], Key(default=[]))
)
SparqlRows = _body("SparqlRows", "The rows of a table.", {"bindings": list[dict[str, SparqlTerm]]})
SparqlProof = _body(
    "SparqlProof",
    "What is known of the tuples that are not listed.",
    {
        "exact": bool,
        "bound": Annotated[float, "no other tuple has more truth"],
        "pruned": str | None,
    },
)
SparqlBody = _body(
    "SparqlBody",
    "SPARQL 1.1 results in JSON, with one more variable: the truth.",
    {"head": SparqlHead},
    {"results": SparqlRows, "boolean": bool, "tuplet": SparqlProof},
)
ServedGeneration = _body(
    "ServedGeneration",
    "What is served of a store.",
    {
        "generation": Annotated[int, "counts the changes of a store; 0 of a plain graph"],
        "hash": Annotated[str, "of everything that answers depend on"],
        "graph": Annotated[str, "hash of the graph; each answer has it too"],
    },
)
HealthBody = _body(
    "HealthBody",
    "Whether the server is up; with keys, details are for those who have one.",
    {
        "status": Literal["ok", "degraded"],
        "version": str,
        "workers": Annotated[int, "processes that there should be"],
        "serving": Annotated[int, "processes that answer"],
    },
    {"problem": str | None, "stores": dict[str, ServedGeneration]},
)
ReadyBody = _body("ReadyBody", "That requests are welcome here.", {"ready": Literal[True]})
ReloadBody = _body(
    "ReloadBody", "What all workers serve now.", {"changed": bool, "stores": dict[str, ServedGeneration]}
)
ChangedBody = _body(
    "ChangedBody",
    "What a change did, in facts; all workers serve the generation.",
    {
        "store": str,
        "generation": int,
        "graph": str,
        **get_type_hints(EditReport, include_extras=True),
    },
)
