"""BetaE, LogicE and ConE learn from a small real graph what chance does not give."""

from statistics import fmean

import pytest
import torch

from repeatable import SOAK
from tuplet.lab.baselines.models import create
from tuplet.lab.baselines.train import QueryTrainConfig, train, watch
from tuplet.lab.baselines.training_queries import make_watched
from tuplet.predict.training import RunOptions
from tuplet.read.read import read

NEGATED = ("2in", "3in", "inp", "pin", "pni")
RUNS = {
    "betae": {"steps": 150, "gamma": 4.0, "learning_rate": 5e-3},
    "logice": {"steps": 250, "learning_rate": 5e-3},
    "cone": {"steps": 180, "gamma": 3.0, "learning_rate": 2e-3},
}


@pytest.fixture(autouse=True)
def one_thread():
    """These products are too small to share: threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", RUNS)
def test_a_short_training_is_far_above_chance(name, data, tmp_path):
    if not (data / "umls").is_dir():
        pytest.skip("TUPLET_DATA holds no umls")
    if name != "betae" and not SOAK:
        pytest.skip("one of them is trained here, all of them by make soak")
    umls = read(data / "umls")
    edges, sizes = {split: umls.edges(split) for split in ("train", "valid")}, (len(umls.entities), len(umls.relations))
    settings = RUNS[name] | {"steps": RUNS[name]["steps"] * (5 if SOAK else 1)}
    config = QueryTrainConfig(
        model=name, dim=24, hidden=96, batch=256, group=256, negatives=135, pool=1500, watched=40, **settings
    )
    queries = make_watched(edges, *sizes, config.watched, config.seed)
    chance = watch(create(name, *sizes, config.settings(sizes[0]), seed=1), queries)
    learned = train(umls, config, RunOptions(tmp_path / name, "cpu", progress=False)).valid
    assert learned["1p"] > 2 * chance["1p"]
    assert fmean(learned[t] for t in ("2p", "2i")) > 1.8 * fmean(chance[t] for t in ("2p", "2i"))
    assert fmean(learned[t] for t in NEGATED) > 1.6 * fmean(chance[t] for t in NEGATED)
