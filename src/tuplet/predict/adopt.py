"""Predictors trained elsewhere become models of ours: read two tables, find out what they are, put rows in our order.

What can be read (`read_tables` decides by what it finds):

- a `.safetensors` or `.npz` file with `entity` and `relation`;
- a checkpoint of CQD or kbc: a torch file with `embeddings.0.weight` and `embeddings.1.weight`;
- a directory that PyKEEN saved. Its model is a pickle, and a pickle can run any code: it is opened only when trusted.

Rows are matched by name where the source has names; otherwise they must already be in the graph's order of ids.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tuplet import settings
from tuplet.errors import BadInput, Option, unknown
from tuplet.files import locked, refuse_existing
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.predict.evaluate import KnownAnswers, evaluate
from tuplet.predict.model_folder import DESCRIPTION, model_class, save

ORDERS = ("blocks", "interleaved")
TABLES = ("entity", "relation")


@dataclass(frozen=True)
class Tables:
    """What a source holds. `relation` has one row per relation, or two: then `order` says where the reciprocals are."""

    entity: Tensor
    relation: Tensor
    kind: str | None  # None: the source does not say
    origin: str
    norm: int = 2
    order: str = "blocks"  # all relations, then all reciprocals; interleaved: row 2r, reciprocal 2r + 1
    entity_names: Sequence[str] | None = None
    relation_names: Sequence[str] | None = None


def adopt(
    source: str | Path,
    graph: KnowledgeGraph,
    folder: str | Path,
    model: str | None = None,
    norm: int | None = None,
    relation_order: str | None = None,
    entity_names: str | Path | None = None,
    relation_names: str | Path | None = None,
    trust: bool = False,
    sample: int = 1000,
    force: bool = False,
) -> dict[str, Any]:
    """Turn the predictor at `source` into a model of `graph` in `folder`; returns what `model.json` says.

    `model` names its kind, where the source does not. The names files hold one name per line (or the first column of a
    TSV) in the order of the rows. `sample` edges of valid and test are ranked, so that a wrong order of rows shows.
    """
    source, folder = Path(source), Path(folder)
    tables = read_tables(source, trust)
    if relation_order not in (None, *ORDERS):
        raise unknown("relation order", str(relation_order), ORDERS)
    files = {"entity_names": entity_names, "relation_names": relation_names}
    given: dict[str, Any] = {key: _read_names(Path(file)) for key, file in files.items() if file is not None}
    given |= {key: value for key, value in (("order", relation_order), ("norm", norm)) if value is not None}
    made, notes = fit(replace(tables, **given), graph, model)
    refuse_existing(folder, force, lambda path: None if (path / DESCRIPTION).exists() else "it is not a model")
    metrics = _measure(made, graph, sample)
    meta = {"graph": graph.hash, "source": tables.origin, **notes, "metrics": metrics}
    with locked(folder):
        return save(made, folder, meta)


def read_tables(source: Path, trust: bool = False) -> Tables:
    """The tables of a source, by what kind of thing it is."""
    if source.is_dir():
        if (source / "trained_model.pkl").exists():
            return _read_pykeen(source, trust)
        raise BadInput(f"{source}: no predictor found; a PyKEEN directory has a trained_model.pkl")
    if not source.is_file():
        raise BadInput(f"no such file or directory: {source}")
    return _read_arrays(source) if source.suffix in (".safetensors", ".npz") else _read_checkpoint(source)


def fit(tables: Tables, graph: KnowledgeGraph, kind: str | None = None) -> tuple[EmbeddingModel, dict[str, Any]]:
    """The model of `graph` that the tables are, and what to know about it.

    `reciprocal` says whether the reciprocal relations were trained or derived: without them, predicting heads uses the
    forward relation, walked backwards with exactly the same score. `unused` names rows that the graph does not know.
    """
    kind = kind or tables.kind or ("rotate" if tables.entity.shape[1] == 2 * tables.relation.shape[1] else None)
    if kind is None:
        known = ", ".join(settings.list_plugins("predictors"))
        raise BadInput(f"{tables.origin} does not say which model it is; give ", Option("model", None), f" {known}")
    cls = model_class(kind)
    entity_row, unused_entities = _rows("entity", tables.entity_names, len(tables.entity), graph.entities)
    entity = tables.entity[entity_row]
    given = len(tables.relation)
    count = len(tables.relation_names) if tables.relation_names is not None else len(graph.relations)
    if given not in (count, 2 * count):
        needed = f"{count} relations need {count}, or {2 * count} with reciprocal ones"
        raise BadInput(f"{tables.origin} has {given} relation rows; {needed}")
    row, unused_relations = _rows("relation", tables.relation_names, count, graph.relations)
    if given == count:
        forward = tables.relation[row]
        relation, reciprocal = torch.cat([forward, cls.inverse(forward)]), "derived"
    elif tables.order == "interleaved":
        relation, reciprocal = tables.relation[torch.cat([2 * row, 2 * row + 1])], "trained"
    else:
        relation, reciprocal = tables.relation[torch.cat([row, row + count])], "trained"
    if not (bool(entity.isfinite().all()) and bool(relation.isfinite().all())):
        raise BadInput(f"{tables.origin}: the tables hold values that are not finite numbers")
    notes: dict[str, Any] = {"reciprocal": reciprocal}
    if unused := unused_entities + unused_relations:
        notes["unused"] = {"rows": len(unused), "first": unused[:10]}
    return cls(entity, relation, tables.norm), notes


def _rows(what: str, names: Sequence[str] | None, count: int, wanted: Vocabulary) -> tuple[Tensor, list[str]]:
    """For each id of the graph the row that has its name [len(wanted)], and the names that the graph does not know.

    Names of the graph without a row are an error that names them.
    """
    if names is None:
        if count != len(wanted):
            sizes = f"the source has {count} {what} rows and no names, the graph has {len(wanted)}"
            raise BadInput(f"{sizes}; give the names of the rows: ", Option(f"{what}_names", None))
        return torch.arange(count), []
    if len(names) != count:
        raise BadInput(f"{len(names)} {what} names for {count} {what} rows")
    found = np.array([wanted.find(name) for name in names], dtype=np.int64)
    extra = [name for name, number in zip(names, found, strict=True) if number < 0]
    row = np.full(len(wanted), -1, dtype=np.int64)
    row[found[found >= 0]] = np.flatnonzero(found >= 0)
    missing = np.flatnonzero(row < 0)
    if len(missing):
        first = [wanted.name(int(i)) for i in missing[:3]]
        message = f"no row for {len(missing)} {_plural(what)} of the graph: {_some(first, len(missing))}"
        if extra:
            message += f"; {len(extra)} rows that the graph does not know: {_some(extra, len(extra))}"
        raise BadInput(message)
    return torch.from_numpy(row), extra


def _plural(what: str) -> str:
    return "entities" if what == "entity" else f"{what}s"


def _some(names: Sequence[str], count: int) -> str:
    return ", ".join(map(repr, names[:3])) + (", …" if count > 3 else "")


def _measure(model: EmbeddingModel, graph: KnowledgeGraph, sample: int) -> dict[str, dict[str, float]]:
    splits = {split: graph.edges(split) for split in SPLIT_CODE}
    ready, known = model.to(dtype=torch.float32), KnownAnswers(splits, model.entities, model.relations)
    held_out = [split for split in ("valid", "test") if len(splits[split][0]) and sample]
    return {split: evaluate(ready, splits[split], known, sample=sample).to_json() for split in held_out}


# Sources -----------------------------------------------------------------------------------------------------------


def _read_arrays(file: Path) -> Tables:
    """A safetensors or npz file; the names of its rows may lie beside it."""
    kind: str | None = None
    try:
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                tensors = {name: torch.from_numpy(arrays[name]) for name in TABLES if name in arrays}
        else:
            with safe_open(file, framework="pt") as opened:
                kind = (opened.metadata() or {}).get("model")
                tensors = {name: opened.get_tensor(name) for name in opened.keys() if name in TABLES}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise BadInput(f"{file}: not a readable {file.suffix[1:]} file: {error}") from None
    names = []
    for name in TABLES:
        if name not in tensors:
            raise BadInput(f"{file}: it has no tensor {name!r}; expected entity and relation")
        beside = file.with_name(f"{_plural(name)}.tsv.gz")
        names.append(_read_names(beside) if beside.exists() else None)
    entity, relation = (tensors[name] for name in TABLES)
    return Tables(entity, relation, kind, file.name, entity_names=names[0], relation_names=names[1])


def _read_checkpoint(file: Path) -> Tables:
    """CQD and kbc: the state dict of a ComplEx, perhaps inside another dict; never unpickles code."""
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception:  # torch raises many kinds for a file that is not a plain state dict, few of them readable
        raise BadInput(f"{file}: not a checkpoint of plain tensors (torch.load cannot read it safely)") from None
    found, inside = dict[int, Tensor](), [content]
    for _ in range(3):  # a state dict may lie in a dict of a dict
        inside = [one for one in inside if isinstance(one, Mapping)]
        for key, value in [pair for one in inside for pair in one.items()]:
            for place in (0, 1):
                if isinstance(value, Tensor) and str(key).endswith(f"embeddings.{place}.weight"):
                    found[place] = value.detach()
        inside = [value for one in inside for value in one.values()]
    if len(found) != 2:
        raise BadInput(f"{file}: no embeddings.0.weight and embeddings.1.weight as CQD and kbc write them")
    return Tables(found[0], found[1], "complex", file.name)


def _read_pykeen(folder: Path, trust: bool) -> Tables:
    file = folder / "trained_model.pkl"
    if not trust:
        raise BadInput(
            f"{file} is a pickle, which can run any code when opened; if you trust its origin, pass ", Option("trust")
        )
    try:
        import pykeen  # noqa: F401
    except ImportError:
        raise BadInput(f"{file} can be opened only where PyKEEN is installed: pip install 'tuplet[pykeen]'") from None
    try:
        model = torch.load(file, map_location="cpu", weights_only=False)
        entity, relation = (
            representations[0](indices=None).detach()
            for representations in (model.entity_representations, model.relation_representations)
        )
    except Exception as error:  # whatever the pickle does
        raise BadInput(f"{file}: PyKEEN's model cannot be opened: {type(error).__name__}: {error}") from None
    kind = type(model).__name__.lower()
    known = settings.OURS["predictors"]
    if kind not in known:
        raise BadInput(f"{file} is a {type(model).__name__}; {', '.join(known)} can be adopted")
    interaction = model.interaction
    if getattr(interaction, "power_norm", False):
        raise BadInput(f"{file}: its scores are a power of the norm (power_norm), which is not supported")
    norm = int(getattr(interaction, "p", 2))
    if kind == "rotate" and norm != 2:
        raise BadInput(f"{file}: RotatE with norm {norm} is not supported, only with norm 2")
    if entity.is_complex():
        entity = torch.cat([entity.real, entity.imag], -1)
    if relation.is_complex():
        relation = relation.angle() if kind == "rotate" else torch.cat([relation.real, relation.imag], -1)
    names = [_read_pykeen_names(folder / "training_triples" / f"{what}_to_id.tsv.gz") for what in TABLES]
    origin = f"PyKEEN {type(model).__name__}, {folder.name}"
    return Tables(entity, relation, kind, origin, norm, "interleaved", *names)


def _read_pykeen_names(file: Path) -> list[str]:
    """Names in the order of PyKEEN's ids; the file has a header `id, label`."""
    rows = list(csv.reader(io.StringIO(_text(file)), delimiter="\t"))
    try:
        place = {int(row[rows[0].index("id")]): row[rows[0].index("label")] for row in rows[1:]}
        return [place[i] for i in range(len(place))]
    except (ValueError, KeyError, IndexError):
        raise BadInput(f"{file}: not a table of ids 0 … n-1 and labels") from None


def _read_names(file: Path) -> list[str]:
    return [line.split("\t")[0] for line in _text(file).split("\n") if line]


def _text(file: Path) -> str:
    try:
        data = file.read_bytes()
        return (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8")
    except (OSError, EOFError, ValueError, gzip.BadGzipFile) as error:
        raise BadInput(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from None
