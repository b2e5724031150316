"""How link predictors are trained: the settings, and those that suit known graphs and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from tuplet.errors import BadInput, unknown
from tuplet.settings import check, knob

PACKAGED = "packaged"  # the name of the model that ships with the package
MINUTES = 15.0  # of all the work of a build, unless somebody says otherwise


@dataclass(frozen=True)
class TrainConfig:
    """How a link predictor is trained.

    >>> TrainConfig(rank=64).rank
    64
    """

    model: str = knob("complex", "the predictor: complex, distmult, rotate, transe, paths or any-graph")
    rank: int = knob(200, "numbers per entity (complex ones for complex and rotate; paths: of a message)", least=1)
    epochs: int = knob(50, "passes over the training edges", least=1)
    steps: int = knob(0, "steps of training; 0 goes by epochs", least=0)
    batch: int = knob(1000, "reciprocal training edges per step (paths: questions)", least=1)
    layers: int = knob(6, "paths: the most edges of a path", least=1)
    targets: int = knob(4, "paths: answers of a question that a step hides and asks for, at most", least=1)
    hide: str = knob(
        "auto",
        "paths: what a step hides of a fact: its edge, all edges between the pair, or auto, as valid facts are hidden",
        choices=("auto", "edge", "pair"),
    )
    start: str = knob(
        "", "paths: go on from the numbers of this model folder, or of packaged, the one in the package", flag="--from"
    )
    learning_rate: float = knob(0.1, "step size (0.1 suits adagrad, 0.001 to 0.01 adam)", least=0)
    optimizer: str = knob("adagrad", "adagrad or adam", choices=("adagrad", "adam"))
    regularisation: float = knob(0.05, "weight of the N3 penalty: weight · Σ|·|³ / batch (transe has none)", least=0)
    relation_weight: float = knob(0.5, "weight of the relation-prediction loss; 0 switches it off", least=0)
    negatives: int = knob(
        0, "random entities a step scores beside those of its batch (sampled softmax); 0 scores all of them", least=0
    )
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
        if self.negatives and self.optimizer != "adagrad":
            raise BadInput(f"negatives need adagrad, which can change some rows alone; optimizer is {self.optimizer!r}")


class TrainFields(TypedDict, total=False):
    """The fields of `TrainConfig` as keywords of `tuplet.build` and `tuplet.train`, for type checkers."""

    model: str
    rank: int
    epochs: int
    steps: int
    batch: int
    layers: int
    targets: int
    hide: str
    start: str
    learning_rate: float
    optimizer: str
    regularisation: float
    relation_weight: float
    negatives: int
    init_scale: float
    norm: int
    evaluate_every: int
    patience: int
    seed: int
    precision: str
    entity_block: int
    checkpoint_seconds: float


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
    "paths": TrainConfig(
        model="paths", rank=32, steps=5000, batch=64, learning_rate=0.003, evaluate_every=1, patience=0
    ),
    "paths-small": TrainConfig(
        model="paths", rank=16, layers=5, epochs=1, batch=8, learning_rate=0.005, evaluate_every=1, patience=0
    ),
}


RANKED = 2_000_000_000  # scores of held-out edges in one direction: beyond, a sample says as much
FEWEST_RANKED = 1_000
FURTHER = 0.002  # learning rate of a training that goes on from another


def preset(name: str) -> TrainConfig:
    """The named settings, or an error that names the nearest.

    >>> preset("wn18rr").batch
    500
    """
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]


def continue_settings(about: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a training that begins with the numbers of a model, as `model.json` tells of it.

    >>> about = {"kind": "any-graph", "rank": 32, "layers": 6}
    >>> continue_settings(about, {"model": "paths", "start": "packaged"})["model"]
    'any-graph'
    """
    if given.get("model") not in (None, about["kind"], "paths"):
        raise BadInput(f"{given['start']} is a model of kind {about['kind']}; {given['model']} cannot go on from it")
    wanted = {"rank": about["rank"], "layers": about.get("layers")}
    return {"learning_rate": FURTHER, **wanted, **given, "model": about["kind"]}


def count_ranked(held_out: int, entities: int) -> int:
    """How many held-out edges a measurement ranks against all entities: all of them, of a large graph a sample.

    >>> count_ranked(17_535, entities=14_505), count_ranked(500_000, entities=1_000_000)
    (17535, 2000)
    """
    return min(held_out, max(FEWEST_RANKED, RANKED // max(1, entities)))


def choose_settings(train_edges: int, model: str = "complex") -> TrainConfig:
    """Sane settings for a graph nobody tuned: for a CPU if it is small, for a GPU if it is not.

    >>> choose_settings(1_000).rank, choose_settings(1_000, "paths").rank, choose_settings(1_000_000, "paths").batch
    (100, 16, 64)
    """
    if model.lower() in ("paths", "any-graph"):
        return replace(PRESETS["paths-small" if train_edges < 100_000 else "paths"], model=model)
    return replace(PRESETS["small"] if train_edges < 20_000 else TrainConfig(), model=model)
