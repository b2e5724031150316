"""Requests and answers as the OpenAPI description shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1, max_length=100_000)]
Count = Annotated[int, Field(ge=0)]


class Strict(BaseModel):
    """A request in which an unknown key is an error, not a silent nothing."""

    model_config = ConfigDict(extra="forbid")


class Options(Strict):
    """How queries are answered; the same keys as the flags of `tuplet ask`."""

    store: str | None = Field(default=None, description="which store, where several are served; the first if not given")
    k: Count | Literal["all"] | None = Field(default=None, description="how many answers; LIMIT of the query, or 10")
    engine: str | None = Field(default=None, description="exact (default), crisp, ns3, ...: see /schema")
    logic: Literal["product", "godel"] = "product"
    timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="seconds; then the best so far")
    only: Literal["predicted", "observed"] | None = Field(default=None, description="filter before the top k")
    budget: Annotated[int, Field(ge=1)] | Literal["all"] | None = Field(default=None, description="of ns3")
    merge: Literal["progressive", "simultaneous", "adaptive"] = Field(default="progressive", description="of ns3")
    options: dict[str, str | int | float] = Field(default_factory=dict, description="of fit, qto and cqd; no files")


class Question(Strict):
    """One query of a batch, with its own k."""

    query: Text
    k: Count | None = None
    grounding: dict[str, str | int] | None = None


class AskRequest(Options):
    """One `query`, or a batch of `queries`."""

    query: Text | None = Field(default=None, description="SPARQL, logic text, EFOk-CQA or BetaE")
    queries: list[Text | Question] | None = None
    grounding: dict[str, str | int] | None = Field(default=None, description="of an EFOk-CQA string")
    format: Literal["json", "ndjson", "csv", "parquet"] = "json"

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"query": "SELECT ?x WHERE { ?x :borders :france }", "k": 5}]},
    )


class ExplainRequest(Strict):
    """One tuple of a query: `values` names an entity for every variable asked for."""

    query: Text
    values: dict[str, str]
    store: str | None = None
    logic: Literal["product", "godel"] = "product"
    grounding: dict[str, str | int] | None = None


class PlanRequest(Strict):
    """A query to be planned, not run."""

    query: Text
    store: str | None = None
    engine: str | None = None
    grounding: dict[str, str | int] | None = None


class ParseRequest(Strict):
    """A query to be read and drawn."""

    query: Annotated[str, Field(max_length=100_000)]
    store: str | None = None


class LabelsRequest(Strict):
    """Entities by their exact names."""

    names: Annotated[list[str], Field(max_length=1000)]
    store: str | None = None


class Term(Strict):
    """A node of a drawn query: a variable that is asked for, one that only has to exist, or an entity."""

    kind: Literal["free", "exists", "constant"]
    name: Annotated[str, Field(min_length=1, max_length=10_000)]
    form: Literal["name", "label", "id"] = "name"


class DrawnEdge(Strict):
    """An edge of a drawn query."""

    head: Term
    relation: Annotated[str, Field(min_length=1, max_length=10_000)]
    form: Literal["name", "label", "id"] = "name"
    tail: Term
    negated: bool = False


class DrawnClause(Strict):
    """Edges that hold together, and nodes that differ."""

    edges: list[DrawnEdge]
    different: list[tuple[Term, Term]] = []


class WriteRequest(Strict):
    """A drawn query to be written as text."""

    free: list[Annotated[str, Field(pattern=r"^\w+$", max_length=100)]]
    clauses: list[DrawnClause]
    limit: Count | None = None
    language: Literal["sparql", "logic"] = "logic"
    store: str | None = None


# --- what comes back -----------------------------------------------------------------------------------------------


class Fact(BaseModel):
    """One atom of a witness."""

    clause: int
    head: str
    relation: str
    tail: str
    negated: bool
    truth: float
    observed: bool


class OneAnswer(BaseModel):
    """One tuple."""

    values: dict[str, str]
    labels: dict[str, str]
    truth: float
    status: Literal["observed", "mixed", "predicted"]
    witness: list[Fact]


class AnswersBody(BaseModel):
    """The answers of a query: the JSON of `tuplet ask --format json`."""

    query: str
    variables: list[str]
    engine: str
    k: int | None
    exact: bool
    bound: float
    pruned: str | None
    elapsed_ms: float
    about: dict[str, Any]
    answers: list[OneAnswer]


class ErrorBody(BaseModel):
    """What went wrong, in one line, and where."""

    error: str
    kind: str
    position: int | None = None
    length: int | None = None
    line: int | None = None
    column: int | None = None
    limit: str | None = None
    suggestions: list[str] | None = None


class BatchBody(BaseModel):
    """The answers of a batch, in order; a query that was refused has its error in its place."""

    results: list[AnswersBody | ErrorBody]
