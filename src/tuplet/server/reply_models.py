"""What the server sends back, besides answers: as the OpenAPI description shows it, and as a test checks it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel
from pydantic import Field as Key

from tuplet.query.witness import Fact
from tuplet.server.models import AnswerBody, ErrorBody, WriteRequest


class ExplainBody(AnswerBody):
    """Truth and witness of a given tuple, also in words."""

    query: str
    text: str
    missing: list[Fact]


class PlanBody(BaseModel):
    """How a query would be answered, in words."""

    query: str
    engine: str
    plan: str


class DrawingGraph(WriteRequest):
    """A query as a graph: what `/write` takes."""


class DrawingBody(BaseModel):
    """A query as a graph and in every language that has words for it, or the first thing that is wrong with it."""

    language: Literal["logic", "sparql", "cypher", "efok", "betae"]
    logic: str | None
    sparql: str | None
    cypher: str | None
    refused: dict[str, str] = Key(description="why a language has no words for the query")
    graph: DrawingGraph | None
    problem: ErrorBody | None


class WrittenBody(BaseModel):
    """A drawn query as text."""

    query: str


class RelationBody(BaseModel):
    """A relation and the number of its facts."""

    name: str
    label: str
    count: int


class AttributeBody(BaseModel):
    """An attribute by the word that names it: what kind of values, and how many."""

    word: str
    kind: str
    count: int


class ExampleBody(BaseModel):
    """A query that has answers here."""

    title: str
    query: str
    only: Literal["predicted", "observed"] | None = None


class SchemaBody(BaseModel):
    """What can be asked, and how much at once."""

    stores: list[str]
    store: str
    entities: int
    facts: int
    predicted: bool
    generation: dict[str, Any] | None
    truth_age: dict[str, Any] | None
    relations: list[RelationBody]
    attributes: list[AttributeBody]
    prefixes: dict[str, str]
    engines: list[str]
    examples: list[ExampleBody]
    limits: dict[str, float]


class EntityBody(BaseModel):
    """An entity."""

    name: str
    label: str


class EntitiesBody(BaseModel):
    """Entities by name or label, the best first."""

    entities: list[EntityBody]


class NeighbourBody(EntityBody):
    """Another end of a fact."""

    truth: float


class NeighboursBody(BaseModel):
    """How many neighbours there are, and some of them, the best first."""

    count: int
    shown: list[NeighbourBody]


class NeighbourhoodBody(BaseModel):
    """The neighbours by one relation; inverse: those that point at the entity."""

    relation: str
    label: str
    inverse: bool
    observed: NeighboursBody
    predicted: NeighboursBody


class ValueBody(BaseModel):
    """A value of an entity."""

    attribute: str
    value: bool | int | float | str
    kind: str
    language: str


class CardBody(EntityBody):
    """All about an entity."""

    types: list[EntityBody]
    attributes: list[ValueBody]
    k: int
    offset: int
    least: float
    pruned: Literal["timeout"] | None
    relations: list[NeighbourhoodBody]


class LabelsBody(BaseModel):
    """Labels by name; a name that is not there is left out."""

    labels: dict[str, str]


class SparqlTerm(BaseModel):
    """A term of RDF."""

    type: Literal["uri", "literal", "bnode"]
    value: str
    datatype: str | None = None


class SparqlHead(BaseModel):
    """The variables of a table; none of a yes or no."""

    vars: list[str] = []


class SparqlRows(BaseModel):
    """The rows of a table."""

    bindings: list[dict[str, SparqlTerm]]


class SparqlProof(BaseModel):
    """What is known of the tuples that are not listed."""

    exact: bool
    bound: Annotated[float, Key(description="no other tuple has more truth")]
    pruned: str | None


class SparqlBody(BaseModel):
    """SPARQL 1.1 results in JSON, with one more variable: the truth."""

    head: SparqlHead
    results: SparqlRows | None = None
    boolean: bool | None = None
    tuplet: SparqlProof | None = None


class ServedGeneration(BaseModel):
    """What is served of a store."""

    generation: Annotated[int, Key(description="counts the changes of a store; 0 of a plain graph")]
    hash: Annotated[str, Key(description="of everything that answers depend on")]
    graph: Annotated[str, Key(description="hash of the graph; each answer has it too")]


class HealthBody(BaseModel):
    """Whether the server is up; with keys, details are for those who have one."""

    status: Literal["ok", "degraded"]
    version: str
    workers: Annotated[int, Key(description="processes that there should be")]
    serving: Annotated[int, Key(description="processes that answer")]
    problem: str | None = None
    stores: dict[str, ServedGeneration] | None = None


class ReadyBody(BaseModel):
    """That requests are welcome here."""

    ready: Literal[True]


class ReloadBody(BaseModel):
    """What all workers serve now."""

    changed: bool
    stores: dict[str, ServedGeneration]


class ChangedBody(BaseModel):
    """What a change did, in facts; all workers serve the generation."""

    store: str
    generation: int
    graph: str
    added: int
    already: Annotated[int, Key(description="were stated before")]
    updated: Annotated[int, Key(description="were stated with another truth")]
    removed: int
    shown_as_predicted: Annotated[int | None, Key(description="of the removed: are predicted now")]
    not_found: Annotated[int, Key(description="were not stated")]
    duplicates: Annotated[int, Key(description="were given more than once")]
    new_entities: list[str]
    values_added: int
    values_removed: int
    predicted: int
    waiting: Annotated[int, Key(description="new entities whose predictions `tuplet update` has to compute")]
    why: Annotated[str | None, Key(description="nothing can be predicted about them")]
