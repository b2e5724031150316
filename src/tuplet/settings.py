"""Settings as frozen dataclasses: files and command-line flags share the same keys, and an unknown key is refused.

Every knob is documented with its default here and nowhere else: `describe` lists them for `--help` and for the docs.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from tuplet.errors import BadInput, nearest

Settings = TypeVar("Settings")
HIGHEST = 2**63 - 1  # torch takes no larger seed


def knob(default: Any, text: str, choices: tuple[str, ...] = (), least: float | None = None) -> Any:
    """A setting with what `--help` says of it, and what it may be."""
    return field(default=default, metadata={"help": text, "choices": choices, "least": least})


def check(settings: Any) -> None:
    """Refuse values outside their range or choices."""
    for f in fields(settings):
        value, choices, least = getattr(settings, f.name), f.metadata["choices"], f.metadata["least"]
        if choices and value not in choices:
            raise BadInput(f"{f.name} is {value!r}; choose one of {', '.join(choices)}")
        if least is None or value is None:
            continue
        if not value >= least:
            raise BadInput(f"{f.name} is {value!r}; it must be at least {least:g}")
        if value == math.inf or (isinstance(value, int) and value > HIGHEST):
            raise BadInput(f"{f.name} is {value!r}; that is too large")


@dataclass(frozen=True)
class TrainConfig:
    """How a link predictor is trained.

    >>> TrainConfig(rank=64).rank
    64
    """

    model: str = knob("complex", "the predictor: complex, distmult, rotate or transe")
    rank: int = knob(200, "numbers per entity (complex numbers for complex and rotate)", least=1)
    epochs: int = knob(50, "passes over the training edges", least=1)
    batch: int = knob(1000, "reciprocal training edges per step", least=1)
    learning_rate: float = knob(0.1, "step size (0.1 suits adagrad, 0.001 to 0.01 adam)", least=0)
    optimizer: str = knob("adagrad", "adagrad or adam", choices=("adagrad", "adam"))
    regularisation: float = knob(0.05, "weight of the N3 penalty: weight · Σ|·|³ / batch (transe has none)", least=0)
    relation_weight: float = knob(0.5, "weight of the relation-prediction loss; 0 switches it off", least=0)
    init_scale: float = knob(1e-3, "standard deviation of the initial embeddings", least=0)
    norm: int = knob(2, "the distance of transe: 1 or 2", least=1)
    evaluate_every: int = knob(5, "epochs between two measurements of the valid MRR; 0 measures only the end", least=0)
    patience: int = knob(5, "measurements without a better valid MRR before training stops; 0 never stops", least=0)
    seed: int = knob(0, "decides the initial embeddings and the order of the edges", least=0)
    precision: str = knob(
        "auto",
        "auto (tf32 on CUDA for complex and distmult, else float32), float32, tf32 or bf16 (CUDA only)",
        choices=("auto", "float32", "tf32", "bf16"),
    )
    entity_block: int = knob(0, "entities scored at a time, recomputed when going back; 0 chooses by memory", least=0)
    checkpoint_seconds: float = knob(30.0, "seconds between two checkpoints; 0 writes one each epoch", least=0)

    def __post_init__(self) -> None:
        check(self)


# Settings for known graphs, meant for one GPU, and for small graphs of any origin, meant for the CPU.
PRESETS: Mapping[str, TrainConfig] = {
    "fb15k-237": TrainConfig(
        rank=1000, epochs=80, batch=1000, regularisation=0.05, relation_weight=4.0, evaluate_every=10, patience=0
    ),
    "nell995": TrainConfig(
        rank=500, epochs=40, batch=1000, regularisation=0.05, relation_weight=0.5, evaluate_every=10, patience=0
    ),
    "fb15k": TrainConfig(
        rank=500, epochs=45, batch=500, regularisation=0.01, relation_weight=0.1, evaluate_every=15, patience=0
    ),
    "wn18rr": TrainConfig(
        rank=500, epochs=30, batch=500, regularisation=0.1, relation_weight=0.1, evaluate_every=10, patience=0
    ),
    "small": TrainConfig(
        rank=100, epochs=40, batch=250, regularisation=0.02, relation_weight=0.25, evaluate_every=4, patience=4
    ),
}


def preset(name: str) -> TrainConfig:
    """The named settings, or an error that names the nearest.

    >>> preset("wn18rr").batch
    500
    """
    if name not in PRESETS:
        raise BadInput(f"unknown preset {name!r}{_hint(name, PRESETS)}")
    return PRESETS[name]


def suitable(train_edges: int) -> TrainConfig:
    """Sane settings for a graph nobody tuned: seconds on two CPU cores below 20,000 edges, a GPU's minutes above."""
    return PRESETS["small"] if train_edges < 20_000 else TrainConfig()


def from_mapping(kind: type[Settings], values: Mapping[str, Any], where: str = "settings") -> Settings:
    """Settings of `kind` from key-value pairs; unknown keys and wrong types are refused by name.

    >>> from_mapping(TrainConfig, {"rnak": 3})
    Traceback (most recent call last):
    tuplet.errors.BadInput: settings: unknown key 'rnak'; did you mean 'rank'?
    """
    return changed(kind(), values, where)


def changed(settings: Settings, values: Mapping[str, Any], where: str = "settings") -> Settings:
    """The same settings with some keys changed; `None` leaves a key as it is (a flag that was not given)."""
    known = {f.name: f for f in fields(settings)}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise BadInput(f"{where}: unknown key {key!r}{_hint(key, known)}")
    given = {key: _convert(known[key], value, where) for key, value in values.items() if value is not None}
    return replace(settings, **given)  # type: ignore[type-var]


def from_options(kind: type[Settings], given: Mapping[str, Any], what: str) -> Settings:
    """Settings from names and values that may be text (`--option most=10`); `what` has them, in errors.

    >>> @dataclass(frozen=True)
    ... class Some:
    ...     most: int | None = knob(10, "candidates")
    >>> from_options(Some, {"most": "3"}, "engine 'fit'"), from_options(Some, {"most": "all"}, "engine 'fit'")
    (Some(most=3), Some(most=None))
    >>> from_options(Some, {"mots": 3}, "engine 'fit'")
    Traceback (most recent call last):
    tuplet.errors.BadInput: engine 'fit' has no option 'mots'; did you mean 'most'?
    """
    if not given:
        return kind()
    known = {f.name: str(f.type) for f in fields(kind)}  # type: ignore[arg-type]
    for key in given:
        if not known:
            raise BadInput(f"{what} takes no options (given: {', '.join(given)})")
        if key not in known:
            close = nearest(key, known) or list(known)
            raise BadInput(f"{what} has no option {key!r}; did you mean {' or '.join(map(repr, close))}?")
    settings = replace(kind(), **{key: _option(key, known[key], value) for key, value in given.items()})  # type: ignore[type-var]
    check(settings)
    return settings


def _option(key: str, wanted: str, given: Any) -> Any:
    if wanted.endswith("| None") and given in ("all", None):
        return None
    if wanted == "str":
        return str(given)
    kind, words = (int, "a whole number") if wanted.startswith("int") else (float, "a number")
    try:
        if isinstance(given, bool) or (kind is int and isinstance(given, float)):
            raise ValueError
        return kind(given)
    except (TypeError, ValueError):
        raise BadInput(
            f"option {key!r} takes {words}{' or all' if wanted.endswith('| None') else ''}, not {given!r}"
        ) from None


def load(kind: type[Settings], path: str | Path) -> Settings:
    """Settings from a .toml or .json file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot read settings: {error}") from error
    if not isinstance(values, dict):
        raise BadInput(f"{path}: expected a table of keys and values")
    return from_mapping(kind, values, str(path))


def to_mapping(settings: Any) -> dict[str, Any]:
    """Key-value pairs that `from_mapping` reads back."""
    return asdict(settings)


def describe(kind: type[Any]) -> list[tuple[str, str, Any, str]]:
    """(key, type, default, meaning) of every knob, in order.

    >>> describe(TrainConfig)[0][:3]
    ('model', 'str', 'complex')
    """
    return [(f.name, _type(f), f.default, f.metadata["help"]) for f in fields(kind)]


def _type(f: Field[Any]) -> str:
    return f.type if isinstance(f.type, str) else f.type.__name__


def _convert(f: Field[Any], value: Any, where: str) -> Any:
    name = _type(f)
    if name == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value).__name__ != name:
        raise BadInput(f"{where}: {f.name} must be {name}, not {value!r}")
    return value


def _hint(word: str, choices: Mapping[str, Any]) -> str:
    close = nearest(word, choices)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else f"; choose one of {', '.join(choices)}"
