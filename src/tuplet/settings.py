"""Settings as frozen dataclasses of knobs. One declaration makes flags, `--option`, keywords, files and docs tables.

Every knob is documented with its default here or in the dataclass of its subject, and nowhere else.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, asdict, field, fields, replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from tuplet.errors import BadInput, nearest, unknown

Settings = TypeVar("Settings")
Function = TypeVar("Function", bound=Callable[..., Any])
HIGHEST = 2**63 - 1  # torch takes no larger seed


def knob(
    default: Any,
    text: str,
    choices: tuple[str, ...] = (),
    least: float | None = None,
    unit: str = "",
    flag: str | None = None,
) -> Any:
    """A setting: what `--help` says of it, what it may be, its unit (`seconds`, `bytes`), a flag unlike its name."""
    return field(
        default=default, metadata={"help": text, "choices": choices, "least": least, "unit": unit, "flag": flag}
    )


def check(settings: Any) -> None:
    """Refuse values outside their range or choices."""
    for f in fields(settings):
        value, choices, least = getattr(settings, f.name), f.metadata.get("choices"), f.metadata.get("least")
        if choices and value not in choices:
            raise BadInput(f"{f.name} is {value!r}; choose one of {', '.join(choices)}")
        if least is None or value is None:
            continue
        if not value >= least:
            raise BadInput(f"{f.name} is {value!r}; it must be at least {least:g}")
        if value == math.inf or (isinstance(value, int) and value > HIGHEST):
            raise BadInput(f"{f.name} is {value!r}; that is too large")


# Values: from files and keywords, which have types, and from text, which has none.


def from_mapping(kind: type[Settings], values: Mapping[str, Any], where: str = "settings") -> Settings:
    """Settings of `kind` from key-value pairs; unknown keys and wrong types are refused by name.

    >>> from dataclasses import make_dataclass
    >>> from_mapping(make_dataclass("Some", [("rank", int, knob(200, "numbers per entity"))]), {"rnak": 3})
    Traceback (most recent call last):
    tuplet.errors.BadInput: settings: unknown key 'rnak'; did you mean 'rank'?
    """
    return changed(kind(), values, where)


def changed(settings: Settings, values: Mapping[str, Any], where: str = "settings") -> Settings:
    """The same settings with some keys changed; `None` leaves a key as it is (a flag that was not given)."""
    known = types(type(settings))
    for key in values:
        if key not in known:
            raise BadInput(f"{where}: unknown key {key!r}{_hint(key, known)}")
    new = {k: convert(f"{where}: {k}", known[k], v) for k, v in values.items() if v is not None}
    return replace(settings, **new)  # type: ignore[type-var]


def from_options(kind: type[Settings], given: Mapping[str, Any], what: str) -> Settings:
    """Settings from names and values that may be text (`--option most=10`); `what` has them, in errors.

    >>> from dataclasses import dataclass
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
    known = types(kind)
    if not known:
        raise BadInput(f"{what} takes no options (given: {', '.join(given)})")
    for key in given:
        if key not in known:
            raise BadInput(f"{what} has no option {key!r}{_hint(key, known)}")
    settings = kind(**{key: convert(f"option {key!r}", known[key], value, text=True) for key, value in given.items()})
    check(settings)
    return settings


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


def types(kind: type[Any]) -> dict[str, Any]:
    """The type of each knob, in order; aliases and strings resolved."""
    if kind not in _TYPES:
        hints = get_type_hints(kind)
        _TYPES[kind] = {f.name: hints[f.name] for f in fields(kind)}
    return _TYPES[kind]


_TYPES: dict[type[Any], dict[str, Any]] = {}


def convert(name: str, hint: Any, value: Any, text: bool = False) -> Any:
    """A value in its declared type, or an error that calls it `name`; with `text` it may be written out.

    >>> convert("rank", int, 3), convert("rate", float, 1), convert("k", int | Literal["all"], "12", text=True)
    (3, 1.0, 12)
    >>> convert("timeout", float | None, "soon", text=True)
    Traceback (most recent call last):
    tuplet.errors.BadInput: timeout must be a number, not 'soon'
    """
    for one in _alternatives(hint):
        with suppress(ValueError):
            return _as(one, value, text)
    allowed = " or ".join(filter(None, map(_words, _alternatives(hint))))
    raise BadInput(f"{name} must be {allowed}, not {value!r}")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) in (Union, UnionType):
        return tuple(one for part in get_args(hint) for one in _alternatives(part))
    return (hint,)


def _as(hint: Any, value: Any, text: bool) -> Any:
    """The value as one plain type; ValueError if it is something else."""
    written = text and isinstance(value, str)
    if hint is NoneType and (value is None or (written and value in ("all", "none"))):
        return None
    if get_origin(hint) is Literal and value in get_args(hint):
        return value
    if hint is str and isinstance(value, str | os.PathLike):
        return os.fspath(value)
    if hint is bool and (isinstance(value, bool) or (written and value in ("true", "false"))):
        return value if isinstance(value, bool) else value == "true"
    if hint in (int, float) and written:
        return hint(value)
    if hint is int and hasattr(value, "__index__") and not isinstance(value, bool):
        return int(value)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError


def _words(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: ""}.get(hint, "")


def size(text: str) -> int:
    """Bytes as people write them.

    >>> size("512M"), size("1.5G"), size("1000"), size("2GiB")
    (536870912, 1610612736, 1000, 2147483648)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not found or (not found[2] and "." in found[1]):
        raise ValueError(text)
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))


# Flags of the command line.


def flags(parser: Any, kind: type[Any], names: Iterable[str] = (), defaults: bool = True) -> None:
    """Give an argparse parser (or group) a flag for each knob, or for those named; `given` reads them."""
    chosen = list(names)
    for f in fields(kind):
        if chosen and f.name not in chosen:
            continue
        hint = types(kind)[f.name]
        about: dict[str, Any] = {
            "dest": f.name,
            "default": None,
            "help": _help(f.default if defaults else None, f.metadata),
        }
        if hint is bool:
            about["action"] = "store_false" if f.default is True else "store_true"
        elif _is_mapping(hint):
            about |= {"action": "append", "metavar": "KEY=VALUE"}
        else:
            about["metavar"] = _metavar(f.name, hint, f.metadata)
        parser.add_argument(f.metadata.get("flag") or flag(f.name, hint), **about)


def given(arguments: argparse.Namespace, kind: type[Any], checked: bool = False) -> dict[str, Any]:
    """The knobs that were given as flags, in their types; an error names the flag.

    A kind that is `checked` refuses wrong values itself, in its own words: it gets the text.
    """
    found: dict[str, Any] = {}
    for f in fields(kind):
        value = getattr(arguments, f.name, None)
        if value is None:
            continue
        hint = types(kind)[f.name]
        if _is_mapping(hint):
            found[f.name] = pairs(flag(f.name, hint), value)
        elif f.metadata.get("unit") == "bytes" and isinstance(value, str):
            try:
                found[f.name] = size(value)
            except ValueError:
                raise BadInput(f"{flag(f.name)} takes bytes, such as 512M or 2G, not {value!r}") from None
        else:
            try:
                found[f.name] = convert(flag(f.name), hint, value, text=True)
            except BadInput:
                if not checked:
                    raise
                found[f.name] = value
    return found


def flag(name: str, hint: Any = None) -> str:
    """The flag of a knob; of a mapping each entry has one.

    >>> flag("k"), flag("learning_rate"), flag("options", Mapping[str, int])
    ('-k', '--learning-rate', '--option')
    """
    if len(name) == 1:
        return f"-{name}"
    return "--" + (name.removesuffix("s") if hint is not None and _is_mapping(hint) else name).replace("_", "-")


def pairs(flag: str, texts: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE`, as often as it is given; whoever takes the values makes numbers of them.

    >>> pairs("--option", ["most=10"])
    {'most': '10'}
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise BadInput(f"{flag} takes KEY=VALUE, such as most=10, not {text!r}")
        if key in found:
            raise BadInput(f"{flag} {key} is given twice")
        found[key] = value
    return found


def _is_mapping(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _metavar(name: str, hint: Any, metadata: Mapping[str, Any]) -> str:
    choices = metadata.get("choices")
    if choices:
        return "|".join(choices)
    if metadata.get("unit"):
        return str(metadata["unit"]).upper()
    numbers = {int, float} & set(_alternatives(hint))
    return "N" if numbers else name.upper()


def _help(default: Any, metadata: Mapping[str, Any]) -> str:
    text = str(metadata.get("help", "")).replace("%", "%%")
    shown = default is not None and not isinstance(default, bool) and isinstance(default, str | int | float)
    return f"{text} (default {default})" if shown and "default" not in text and default != 0 else text


# Python: what help() shows, and tables for the docs.


def keywords(kind: type[Any], defaults: bool = True) -> Callable[[Function], Function]:
    """Show the knobs of `kind` in the signature of a function that takes them as `**keywords`."""

    def shown(function: Function) -> Function:
        signature = inspect.signature(function)
        kept = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        knobs = [
            inspect.Parameter(
                f.name, inspect.Parameter.KEYWORD_ONLY, default=_default(f) if defaults else None, annotation=f.type
            )
            for f in fields(kind)
            if f.name not in signature.parameters
        ]
        function.__signature__ = signature.replace(parameters=[*kept, *knobs])  # type: ignore[attr-defined]
        return function

    return shown


def _default(f: Field[Any]) -> Any:
    return f.default if f.default_factory is MISSING else f.default_factory()


def unexpected(function: str, kind: type[Any], names: Iterable[str]) -> None:
    """Refuse keywords that are no knobs, as Python does."""
    for name in names:
        if name not in types(kind):
            close = nearest(name, types(kind), 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def describe(kind: type[Any]) -> list[tuple[str, str, Any, str]]:
    """(key, type, default, meaning) of every knob, in order.

    >>> from dataclasses import make_dataclass
    >>> describe(make_dataclass("Some", [("rank", "int", knob(200, "numbers per entity"))]))
    [('rank', 'int', 200, 'numbers per entity')]
    """
    return [(f.name, str(f.type), f.default, f.metadata["help"]) for f in fields(kind)]


def table(kind: type[Any], flags: bool = False) -> str:
    """The knobs as a Markdown table, for the docs; with `flags` as they are typed."""
    rows = []
    for f in fields(kind):
        text, choices, unit = (f.metadata.get(key) or "" for key in ("help", "choices", "unit"))
        if not all(choice in text for choice in choices):
            text += ": " + ", ".join(f"`{choice}`" for choice in choices)
        if unit not in text:
            text += f" ({unit})"
        default = "" if f.default in (None, MISSING, "") else f"`{f.default}`"
        name = flag(f.name) if flags else f.name
        rows.append(f"| `{name}` | {default} | {text} |".replace("|·|", r"\|·\|"))
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])


def _hint(word: str, choices: Mapping[str, Any]) -> str:
    close = nearest(word, choices)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else f"; choose one of {', '.join(choices)}"


PluginKind: TypeAlias = Literal["engines", "predictors", "calibrations", "readers", "languages", "indexes", "commands"]

# Rooms that may be deleted: their `__init__` has PLUGINS, of the same form as CORE, and is all that is known of them.
ROOMS = ("tuplet.server", "tuplet.lab")
CORE: Mapping[PluginKind, Mapping[str, str]] = {
    "engines": {
        "exact": "tuplet.engines.exact:Exact",
        "crisp": "tuplet.engines.crisp:Crisp",
        "brute": "tuplet.engines.brute:Brute",
        "ns3": "tuplet.engines.ns3.engine:Ns3",
        "ns3-marginal": "tuplet.engines.ns3.engine:Ns3Marginal",
    },
    "predictors": {
        "complex": "tuplet.predict.embeddings:ComplEx",
        "distmult": "tuplet.predict.embeddings:DistMult",
        "rotate": "tuplet.predict.embeddings:RotatE",
        "transe": "tuplet.predict.embeddings:TransE",
        "paths": "tuplet.predict.paths.model:PathModel",
        "any-graph": "tuplet.predict.paths.model:AnyGraphModel",
    },
    "calibrations": {
        "softmax-count": "tuplet.truth.rules:softmax_count",
        "observed-mass": "tuplet.truth.rules:observed_mass",
    },
    "readers": {  # by the suffix of a file; what a reader is, says tuplet.read
        **dict.fromkeys((".tsv", ".txt", ".csv"), "tuplet.read.text:read_text"),
        **dict.fromkeys((".parquet", ".pq"), "tuplet.read.tables:read_parquet"),
        **dict.fromkeys((".nt", ".ttl", ".nq", ".trig", ".rdf", ".owl", ".jsonld"), "tuplet.read.rdf:read_rdf"),
        ".json": "tuplet.read.stix:read_json",
        ".graphml": "tuplet.read.property_graphs:read_graphml",
        ".duckdb": "tuplet.read.databases:read_duckdb",
        ".lbug": "tuplet.read.databases:read_ladybug",
    },
}


def _with_rooms(core: Mapping[PluginKind, Mapping[str, str]]) -> Mapping[PluginKind, Mapping[str, str]]:
    """What the core has, and after it what the rooms bring that are there."""
    found = {kind: dict(core.get(kind, {})) for kind in get_args(PluginKind)}
    for room in ROOMS:
        try:
            plugins = getattr(import_module(room), "PLUGINS", {})
        except ModuleNotFoundError:
            continue
        for kind, places in plugins.items():
            found[kind] |= places
    return found


OURS = _with_rooms(CORE)

# What a thing must have to be of its kind; predictors and calibrations are checked where they are used.
NEEDED: Mapping[PluginKind, tuple[str, ...]] = {
    "engines": ("name", "summary", "plan", "run", "score"),
    "readers": ("__call__",),
}


def list_plugins(kind: PluginKind) -> tuple[str, ...]:
    """What there is of a kind, ours first."""
    return tuple(dict.fromkeys([*OURS[kind], *_list_installed(kind)]))


def find_plugin(kind: PluginKind, name: str, modules: bool = False) -> Any:
    """The thing of a name, made once: a class is called; `modules` also takes `module:Class`.

    >>> find_plugin("engines", "exat")
    Traceback (most recent call last):
    tuplet.errors.UnknownName: unknown engine 'exat'; did you mean 'exact'?
    """
    found = _make(_place(kind, name, modules))
    for attribute in NEEDED.get(kind, ()):
        if not hasattr(found, attribute):
            raise BadInput(f"{name} is no {kind.removesuffix('s')}: it has no {attribute!r}")
    return found


def load_class(kind: PluginKind, name: str, modules: bool = False) -> Any:
    """What is registered by a name, as it is: a class is not called."""
    return _load_object(_place(kind, name, modules))


def _place(kind: PluginKind, name: str, modules: bool) -> str:
    if not isinstance(name, str):
        raise unknown(kind.removesuffix("s"), name, list_plugins(kind))
    if name in OURS[kind]:
        return OURS[kind][name]
    if name in _list_installed(kind):
        return _list_installed(kind)[name]
    if modules and ":" in name:
        return name
    raise unknown(kind.removesuffix("s"), name, list_plugins(kind))


@cache
def _list_installed(kind: PluginKind) -> dict[str, str]:
    """What other packages offer."""
    return {entry.name: entry.value for entry in entry_points(group=f"tuplet.{kind}")}


@cache
def _make(place: str) -> Any:
    found = _load_object(place)
    try:
        return found() if isinstance(found, type) else found
    except TypeError as error:  # a constructor that wants more, or a class with abstract methods
        raise BadInput(f"cannot make {place}: {error}") from None


def _load_object(place: str) -> Any:
    """The object at `module:name`."""
    module, _, attribute = place.partition(":")
    try:
        found = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module of somebody else may fail in any way
        raise BadInput(f"cannot load {place}: {error}") from error
    return found
