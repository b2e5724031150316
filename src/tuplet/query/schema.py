"""The answer of a question, declared once: JSON, tool schemas, OpenAPI, the docs and the page's types read this file.

A field is a name, a type and a sentence. To add one, add it here and fill it where it is known: a field of `Provenance`
in query/ask.py, one of `AnswersDict` as a property of `Answers`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeAlias,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from tuplet.progress import counted
from tuplet.query.limits import Limits

# `none` is the status of a given tuple that nothing makes true.
Status: TypeAlias = Literal["observed", "mixed", "predicted", "none"]
JsonSchema: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A stated fact, in names."""

    head: Annotated[str, "name of an entity"]
    relation: Annotated[str, "name of a relation"]
    tail: Annotated[str, "name of an entity"]
    head_label: Annotated[str, "label of the head; empty if it has none"] = ""
    tail_label: Annotated[str, "label of the tail; empty if it has none"] = ""

    def labelled(self) -> str:
        """The fact with labels in place of names, where there are any."""
        return f"{self.relation}({self.head_label or self.head}, {self.tail_label or self.tail})"

    def shared(self, other: "StatedFact") -> str:
        """The same, with a dot in place of the end that differs in another fact."""
        differs = ("head", "head_label") if self.tail == other.tail else ("tail", "tail_label")
        return replace(self, **dict.fromkeys(differs, "·")).labelled()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Stated facts that together are evidence for a predicted one: a path, or a similar entity that has it.

    The weight of a path is the share of the pairs joined by the same steps that have the relation; that of a similar
    entity is how much it shares with the one in question.
    """

    kind: Annotated[Literal["path", "similar"], "a path between the ends, or a similar entity"]
    facts: Annotated[tuple[StatedFact, ...], "the stated facts, in order"]
    weight: Annotated[float, "share of the pairs joined alike that have the relation, or similarity"]

    def __str__(self) -> str:
        """One line; of what two similar entities share, each thing once.

        >>> both = StatedFact("benin", "borders", "togo"), StatedFact("ghana", "borders", "togo")
        >>> print(Evidence("similar", (StatedFact("ghana", "has_coast_on", "atlantic"), *both), 0.25))
        0.2500  similar  has_coast_on(ghana, atlantic); both borders(·, togo)
        """
        said = [fact.labelled() for fact in self.facts]
        if self.kind == "similar":
            pairs = zip(self.facts[1::2], self.facts[2::2], strict=True)
            said = [f"{said[0]}; both {', '.join(one.shared(other) for one, other in pairs)}"]
        return f"{percent(self.weight)}  {self.kind:<7}  {', '.join(said)}"

    def to_dict(self) -> dict[str, Any]:
        """The evidence in the JSON schema."""
        return {"kind": self.kind, "facts": [asdict(fact) for fact in self.facts], "weight": self.weight}


@dataclass(frozen=True, slots=True)
class Fact:
    """One atom of a witness, in names."""

    clause: Annotated[int, "the alternative of the query (from 0) that the atom belongs to"]
    head: Annotated[str, "name of an entity"]
    relation: Annotated[str, "name of a relation"]
    tail: Annotated[str, "name of an entity"]
    negated: Annotated[bool, "whether the query says that it must not hold"]
    truth: Annotated[float, "1 if stated, the calibrated truth if predicted; 1 minus that under a negation"]
    observed: Annotated[bool, "whether the fact is stated"]
    head_label: Annotated[str, "label of the head; empty if it has none"] = ""
    tail_label: Annotated[str, "label of the tail; empty if it has none"] = ""
    evidence: Annotated[
        tuple[Evidence, ...] | None,
        "evidence for a predicted fact, strongest first; null if it was not asked for, or the time was up",
    ] = None
    lift: Annotated[
        float | None, "how many times as likely as chance a predicted fact is; null where truth is not calibrated"
    ] = None

    @property
    def kind(self) -> str:
        """How the atom comes to its truth, in one word."""
        if self.negated:
            return "but stated" if self.observed else "not stated"
        return "observed" if self.observed else "predicted"

    def __str__(self) -> str:
        return f"{'!' if self.negated else ''}{self.relation}({self.head}, {self.tail})"

    def labelled(self) -> str:
        """The atom with labels in place of names, where there are any."""
        ends = f"{self.head_label or self.head}, {self.tail_label or self.tail}"
        return f"{'!' if self.negated else ''}{self.relation}({ends})"


def percent(truth: float) -> str:
    """A truth value for people: four digits, more where it is tiny; only 1 itself is shown as 1.

    >>> percent(1.0), percent(0.71234), percent(0.99999), percent(0.0000123)
    ('1', '0.7123', '0.9999', '1.23e-05')
    """
    if truth in (0.0, 1.0):
        return f"{truth:.0f}"
    if truth < 0.001:
        return f"{truth:.3g}"
    return f"{math.floor(truth * 10_000) / 10_000:.4f}" if truth > 0.9999 else f"{truth:.4f}"


@dataclass(frozen=True)
class AnswerCount:
    """How many distinct answers there are, and how many of them to expect to be true: the sum of their truth."""

    name: Annotated[str, "the column"]
    answers: Annotated[int, "how many distinct answers there are"]
    expected: Annotated[float, "the sum of their truth"]
    complete: Annotated[bool, "false: a limit stopped the search, and there are at least so many"]

    def __str__(self) -> str:
        least = "" if self.complete else "at least "
        return f"{least}{counted(self.answers, 'answer')}; {least}{self.expected:,.6g} of them expected to be true"

    def rows(self) -> list[list[str]]:
        """A small table."""
        return [[self.name, "expected"], [f"{self.answers:,}", f"{self.expected:,.6g}"]]


@dataclass(frozen=True)
class Guarantee:
    """What is said of a list, on what ground, and whether that is a promise."""

    kind: Annotated[Literal["confidence", "max_false"], "the limit that asked for it"]
    share: Annotated[float, "the share that was asked for"]
    complete: Annotated[bool, "whether nothing was cut: then what is promised holds"]
    everything: Annotated[bool, "only the set of all tuples keeps the promise; the list does for those with truth"] = (
        False
    )
    ground: Annotated[Literal["shape", "family", "facts"] | None, "what was held out; null: the truth values alone"] = (
        None
    )
    shape: Annotated[str | None, "the shape of the query"] = None
    queries: Annotated[int, "held-out queries that the promise rests on"] = 0
    reach: Annotated[float | None, "the share of held-out answers that have any truth"] = None
    promised: Annotated[bool, "whether held-out queries of this very shape, or held-out facts, bear it out"] = False
    facts: Annotated[int, "held-out facts that the promise rests on (max_false)"] = 0
    least: Annotated[float | None, "the smallest share of wrong tuples that these facts can promise of any list"] = None

    def words(self) -> str:
        """One sentence for the last line of a table."""
        if self.kind == "max_false":
            return self._of_a_list()
        if self.ground is None:
            return "no tuple can be true"
        if self.ground == "family":
            return f"not guaranteed, its shape was not held out: {self._of_a_set()}"
        return self._of_a_set()

    def _of_a_list(self) -> str:
        said = f"at most {100 * self.share:g} % of these are wrong"
        if self.promised:
            said = f"{said}, as {self.facts:,} held-out facts bear out"
        elif self.least is None:
            said = f"not promised: by their truth alone {said}"
        else:
            ground = f"{self.facts:,} held-out facts bear out a truth of at most {1 - self.least:.2f}"
            return f"no list can be promised: {ground}, so ask for {math.ceil(100 * self.least) / 100:g} or more"
        return said if self.complete else f"{said}; the list was cut, it goes on"

    def _of_a_set(self) -> str:
        said = f"holds a true tuple beyond the facts {100 * self.share:g} times in 100"
        ground = f"{self.queries:,} held-out queries of its shape"
        if self.ground == "family":
            ground = f"by the most cautious of other shapes, {self.shape}"
        if self.everything:
            reach = f"{100 * (self.reach or 0):.0f} % of held-out answers have any truth"
            cut = "" if self.complete else ", but it was cut"
            held = f"this set holds one of those {100 * self.share:g} times in 100{cut}"
            return f"only the set of all tuples {said}: {reach}; {held} ({ground})"
        if not self.complete:
            return f"the set was cut: only with all its tuples it {said} ({ground})"
        return f"the set {said} ({ground})"


@dataclass(frozen=True)
class Origin:
    """What made the truth values of a store."""

    threshold: Annotated[float, "predicted facts of less truth are not in the store"]
    calibration: Annotated[Mapping[str, Any] | None, "how truth was calibrated"]
    store: Annotated[str, "hash of the store"]
    predictor: Annotated[str | None, "the model that scored the facts"]
    calibrated: Annotated[bool | None, "whether every predicted fact passed a learned calibration"]
    generation: Annotated[int, "counts the changes of the store"] = 0
    not_calibrated: Annotated[str | None, "why truth values are not calibrated"] = None
    stale: Annotated[float | None, "share of the facts that changed since, where it is more than a tenth"] = None
    waiting: Annotated[int | None, "new entities about which nothing is predicted yet"] = None
    rows_computed: Annotated[float | None, "share of the rows computed, where there was no time for all"] = None


@dataclass(frozen=True)
class Provenance:
    """What you need to repeat an answer. In JSON the fields of `origin` and the given `limits` are its own."""

    version: Annotated[str, "of tuplet"]
    graph: Annotated[str, "hash of the graph"]
    observed: Annotated[tuple[str, ...] | Literal["all"], "splits whose facts count as stated"]
    limits: Annotated[Limits, "the limits that were given"]
    origin: Annotated[Origin | None, "what made the truth values; null where facts alone were asked"] = None
    hints: Annotated[tuple[str, ...], "named entities that no stated fact has in their place, mixed attributes"] = ()
    guarantee: Annotated[Guarantee | None, "what is promised of the list"] = None

    def to_dict(self) -> dict[str, Any]:
        """The provenance in the JSON schema. Rows and entities that wait are left out where there are none."""
        found: dict[str, Any] = {"version": self.version, "graph": self.graph}
        found["observed"] = self.observed if self.observed == "all" else list(self.observed)
        if self.origin is not None:
            found["logic"] = self.limits.logic
            rare = ("waiting", "rows_computed")
            found |= {name: value for name, value in vars(self.origin).items() if value is not None or name not in rare}
            if self.origin.calibration is not None:
                found["calibration"] = {"name": self.origin.calibration["name"]}
        found |= {name: value for name, value in self.limits.given().items() if name not in ("k", "logic")}
        if self.hints:
            found["hints"] = list(self.hints)
        if self.guarantee is not None:
            found["guarantee"] = asdict(self.guarantee)
        return found


class AnswerDict(TypedDict):
    """One answer."""

    values: Annotated[dict[str, Any], "by variable: the name of an entity or relation, or a value"]
    labels: Annotated[dict[str, str], "by variable: the label of the entity; empty if it has none"]
    truth: Annotated[float, "the joint truth of the tuple"]
    status: Annotated[
        Status | None,
        "observed: the stated facts imply it; predicted: it rests on predictions alone; mixed: on both; none: nothing "
        "makes it true; null: the time was up before it was known",
    ]
    witness: Annotated[list[Fact], "the facts that the answer rests on, stated and predicted"]


class AnswersDict(TypedDict):
    """The answers of a question."""

    query: Annotated[str, "the question as it was asked"]
    variables: Annotated[list[str], "the columns, in order"]
    engine: Annotated[str, "the engine that answered"]
    k: Annotated[int | None, "how many answers were asked for; null: the default, or all"]
    exact: Annotated[bool, "whether the order shown is proven over all tuples, ties included"]
    bound: Annotated[float, "no tuple that is not shown (of those that `only` keeps) has more truth"]
    pruned: Annotated[
        str | None, "what stopped or limited the search: timeout, memory, work, bytes, or words of an engine"
    ]
    calibrated: Annotated[bool | None, "false: truth values are no probabilities here; null: nothing is predicted"]
    stale: Annotated[
        float | None, "share of the facts that changed since truth was made, where it is more than a tenth"
    ]
    elapsed_ms: Annotated[float, "time of the search"]
    about: Annotated[Provenance, "what you need to repeat the answer"]
    boolean: NotRequired[Annotated[bool | None, "of a yes-or-no question: whether there is an answer; null: not known"]]
    count: NotRequired[Annotated[AnswerCount, "of a query that counts; then no tuple is listed"]]
    answers: Annotated[list[AnswerDict], "the tuples, the truest first"]


def json_schema(kind: Any, place: str = "", components: dict[str, JsonSchema] | None = None) -> JsonSchema:
    """The JSON schema of a type of this file, or of a plain type.

    In `Annotated[…]` a text is its description, and a dictionary what else its schema has.

    With `components`, the schemas of named types are collected there, and `place` is where references point to.

    >>> json_schema(float | None)
    {'type': ['number', 'null']}
    >>> json_schema(AnswerCount)["properties"]["answers"]
    {'type': 'integer', 'description': 'how many distinct answers there are'}
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Annotated, NotRequired):
        found = json_schema(inner[0], place, components)
        for more in inner[1:]:
            found = found | ({"description": more} if isinstance(more, str) else more)
        return found
    if origin is Literal:
        return {"type": _JSON[type(inner[0])], "enum": list(inner)}
    if origin in (Union, UnionType):
        return _union([json_schema(part, place, components) for part in inner])
    if origin in (list, tuple, Sequence):
        return {"type": "array", "items": json_schema(inner[0], place, components)}
    if is_dataclass(kind) or is_typeddict(kind):
        if components is None:
            return _object_schema(kind, place, None)
        name = kind.__name__.removesuffix("Dict")
        if name not in components:
            components[name] = {}
            components[name] = _object_schema(kind, place, components)
        return {"$ref": f"{place}{name}"}
    if origin is not None or kind is dict:
        values = inner[1] if len(inner) == 2 else Any
        return {"type": "object"} | ({} if values is Any else {"additionalProperties": json_schema(values)})
    return {} if kind is Any else {"type": _JSON[kind]}


_JSON: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def _union(parts: list[JsonSchema]) -> JsonSchema:
    """One of several types: as a list of types where they are plain."""
    if all(part.keys() <= {"type", "enum"} for part in parts) and sum("enum" in part for part in parts) <= 1:
        types = [part["type"] for part in parts]
        values = [value for part in parts for value in part.get("enum", ())]
        return {"type": types} | ({"enum": [*values, *([None] if "null" in types else [])]} if values else {})
    return {"anyOf": parts}


def schema_fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """The fields of a type in JSON: type (with its sentence) and whether it is always there, by name."""
    hints = get_type_hints(kind, include_extras=True)
    if is_typeddict(kind):
        return {name: (hint, get_origin(hint) is not NotRequired) for name, hint in hints.items()}
    if kind is Provenance:  # flat
        own = {name: (hint, name in ("version", "graph", "observed")) for name, hint in hints.items()}
        del own["limits"], own["origin"]
        made = {name: (hint, False) for name, (hint, _) in schema_fields(Origin).items()}
        limits = get_type_hints(Limits)
        given = {
            f.name: (Annotated[limits[f.name], f.metadata["help"]], False) for f in fields(Limits) if f.name != "k"
        }
        return own | made | given
    return {f.name: (hints[f.name], True) for f in fields(kind)}


def _object_schema(kind: Any, place: str, components: dict[str, JsonSchema] | None) -> JsonSchema:
    known = schema_fields(kind)
    return {
        "type": "object",
        "description": (kind.__doc__ or "").split("\n")[0],
        "properties": {name: json_schema(hint, place, components) for name, (hint, _) in known.items()},
        "required": [name for name, (_, always) in known.items() if always],
    }
