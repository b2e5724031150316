"""What `build` does in a given time: which predictors, how large, for how long.

A plan is a rung of a ladder of work, each rung more than the one below. The highest that fits into the time is taken:
so more time or a faster machine never means less, and the next rung is what more time would bring. How long a rung
takes is counted from sizes and speeds alone; `build_models` measures the speeds and follows the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tuplet.predict.config import PRESETS, TrainConfig, ranked_edges, suitable
from tuplet.progress import counted, duration

MINUTES = 15.0  # of all the work, unless somebody says otherwise
RESERVE = 0.15  # of the time, for what is not counted here: reading, writing, a machine that is not alone
ENOUGH = 100  # rank

FEW_VALID, FEW_FACTS = 300, 20_000  # below, the facts are hidden in turn
SMALL = 50_000  # facts; below, a larger rank than that of the preset for small graphs gains little
SAMPLED_FROM = 8  # times as many entities as a sampled step would score: from there on steps are sampled
NEGATIVES = 100
SAMPLED_BATCH = 250
PASSES = (0.25, 0.5, 1.0, 1.5)  # over the half-links, that a path network gets, rung by rung
# Scoring and calibrating, counted on two cores whose `TYPICAL` speed for embeddings is that of one of them alone.
TYPICAL = 7e9
FIXED, PER_PAIR, PER_LISTED = 5.0, 1e-8, 8e-6  # seconds
LISTED = 40  # candidates that are listed for each fact
PER_NEAREST, NEAREST_LISTED = 6e-8, 20  # the same two where rows look at their nearest ends alone
FAST, FAST_MESSAGES = 3e10, 3e8  # of one core of a fast CPU, in the units of `MachineSpeed`
LEAST_STEPS = 100  # of a path network: fewer teach it nothing


@dataclass(frozen=True)
class GraphSizes:
    """What the time depends on."""

    entities: int
    relations: int
    facts: int  # to learn from
    half_links: int  # (entity, relation, direction) with a fact: the rows of a path network
    pairs: int = 0  # candidates that embeddings score
    valid: int = 0
    test: int = 0
    again: int = 0  # how many times more predictors learn, from what came to be known
    nearest: bool = False  # whether pairs are the nearest ends of each row alone

    @property
    def times(self) -> int:
        """How many times the time of training is needed: each part of few facts is hidden in turn, as long again."""
        return 1 + (self.again or (self.valid < FEW_VALID and self.facts < FEW_FACTS))


@dataclass(frozen=True)
class MachineSpeed:
    """What one machine does in a second, as it was measured."""

    products: float  # multiplications for embeddings, forwards and back
    messages: float = 0.0  # numbers of messages of a path network, forwards and back; 0: not measured
    on_gpu: bool = False


@dataclass(frozen=True)
class PlannedModel:
    """A predictor to be trained, and how long that takes."""

    config: TrainConfig
    seconds: float

    def __str__(self) -> str:
        config = self.config
        amount = counted(config.steps, "step") if config.steps else counted(config.epochs, "epoch")
        sampled = f", {config.negatives:,} negatives" if config.negatives else ""
        return f"{config.model} (rank {config.rank}{sampled}, {amount})"


@dataclass(frozen=True)
class BuildPlan:
    """What is done, how long it takes, and what more time would bring."""

    models: tuple[PlannedModel, ...]
    index_seconds: float
    limit: float  # seconds
    times: int = 1  # that the time of training is needed
    on_gpu: bool = False
    more: str = ""

    @property
    def seconds(self) -> float:
        """Of all of it."""
        return self.times * sum(model.seconds for model in self.models) + self.index_seconds

    def sentences(self) -> list[str]:
        """What was chosen and for how long; what more time would bring."""
        chosen = " and ".join(map(str, self.models))
        training, indexing = duration(self.seconds - self.index_seconds), duration(self.index_seconds)
        where = "GPU" if self.on_gpu else "CPU"
        first = f"plan for at most {duration(self.limit)} on this {where}: {chosen}; "
        first += f"about {training} of training and {indexing} of scoring"
        return [first, *([self.more] if self.more else [])]


def plan(
    sizes: GraphSizes, speed: MachineSpeed, minutes: float = MINUTES, predictors: Sequence[str] | None = None
) -> BuildPlan:
    """The most that fits into the time; if nothing does, the least, which will be cut short.

    >>> sizes = GraphSizes(entities=38_000, relations=24, facts=95_000, half_links=90_000, pairs=10**9, valid=5_000)
    >>> for minutes in (1, 3, 15):
    ...     print(plan(sizes, MachineSpeed(products=8e9), minutes).models[0])
    complex (rank 50, 100 negatives, 10 epochs)
    complex (rank 100, 100 negatives, 20 epochs)
    complex (rank 200, 100 negatives, 40 epochs)
    """
    limit = 60 * minutes
    plans = [_counted(rung, sizes, speed, limit) for rung in ladder(sizes, speed, predictors)]
    fitting = [number for number, one in enumerate(plans) if one.seconds <= limit * (1 - RESERVE)]
    chosen = fitting[-1] if fitting else 0
    return replace(plans[chosen], more=_more(plans, chosen, bool(fitting)))


def ladder(
    sizes: GraphSizes, speed: MachineSpeed, predictors: Sequence[str] | None = None
) -> list[tuple[TrainConfig, ...]]:
    """Sets of predictors to train, each more work than the one before."""
    if predictors is not None:
        return _together([list(rungs(name, sizes, speed)) for name in predictors])
    first = list(rungs("complex", sizes, speed))
    found = _together([first])
    if speed.messages:
        # A second predictor is worth more than a larger first one.
        enough = [config for config in first if config.rank >= ENOUGH or config == first[-1]]
        found += _together([enough, list(rungs("paths", sizes, speed))])
    return found


def _together(kinds: Sequence[Sequence[TrainConfig]]) -> list[tuple[TrainConfig, ...]]:
    """Several predictors, each going up its own ladder as far as that goes."""
    return [tuple(kind[min(number, len(kind) - 1)] for kind in kinds) for number in range(max(map(len, kinds)))]


def sampled(sizes: GraphSizes) -> bool:
    """Whether there are so many entities that a step had better draw some."""
    return sizes.entities > SAMPLED_FROM * (2 * SAMPLED_BATCH + NEGATIVES)


def rungs(model: str, sizes: GraphSizes, speed: MachineSpeed) -> Iterator[TrainConfig]:
    """One predictor, each time with more work."""
    if model == "paths":
        base = PRESETS["paths" if speed.on_gpu else "paths-small"]
        for passes in PASSES:
            yield replace(base, steps=max(LEAST_STEPS, round(passes * sizes.half_links / base.batch)))
        return
    base = replace(PRESETS["small"], model=model) if sizes.facts < SMALL else suitable(sizes.facts, model)
    if sampled(sizes) and not speed.on_gpu:
        base = replace(base, batch=SAMPLED_BATCH, negatives=NEGATIVES)
    for rank, epochs in ((50, 10), (50, 20), (100, 20), (100, 40), (200, 20), (200, 40)):
        if rank <= base.rank:
            yield replace(base, rank=rank, epochs=epochs, evaluate_every=4, patience=3)


def worth_timing(model: str, sizes: GraphSizes, minutes: float, cores: int) -> bool:
    """Whether a predictor could fit into the time on a fast CPU; if not, nobody needs to see how fast this one is."""
    if model != "paths":
        return True
    speed = MachineSpeed(products=FAST * cores, messages=FAST_MESSAGES * cores)
    least = next(rungs(model, sizes, speed))
    return training_seconds(least, sizes, speed) + index_seconds([least], sizes, speed) < 60 * minutes


def _counted(rung: tuple[TrainConfig, ...], sizes: GraphSizes, speed: MachineSpeed, limit: float) -> BuildPlan:
    models = tuple(PlannedModel(config, training_seconds(config, sizes, speed)) for config in rung)
    return BuildPlan(models, index_seconds(rung, sizes, speed), limit, sizes.times, speed.on_gpu)


def training_seconds(config: TrainConfig, sizes: GraphSizes, speed: MachineSpeed) -> float:
    """How long a predictor is trained and measured, unless its valid MRR stops rising before."""
    steps = config.steps or config.epochs * -(-2 * sizes.facts // config.batch)
    rows = steps * config.batch
    if config.model == "paths":
        # Ten times a hundredth of the rows of training, in the end all.
        measured = rows / 10 + 2 * (sizes.valid + sizes.test)
    else:
        valid, test = (ranked_edges(split, sizes.entities) for split in (sizes.valid, sizes.test))
        times = 1 + (config.epochs // config.evaluate_every if config.evaluate_every else 0)
        measured = 2 * (times * valid + test)
    work = question_work(config, sizes) / rate(config, speed)
    return rows * work + measured * row_seconds(config, sizes, speed)


def index_seconds(configs: Sequence[TrainConfig], sizes: GraphSizes, speed: MachineSpeed) -> float:
    """How long candidates are scored and calibrated."""
    slow = max(0.1, TYPICAL / speed.products)  # the rest of the work suffers as the products do
    per_pair, per_fact = (PER_NEAREST, NEAREST_LISTED) if sizes.nearest else (PER_PAIR, LISTED)
    listed = min(sizes.pairs, per_fact * sizes.facts)
    seconds = FIXED + slow * (sizes.pairs * per_pair + listed * PER_LISTED)
    for config in configs:
        if config.model == "paths":
            seconds += sizes.half_links * row_seconds(config, sizes, speed)
        else:
            seconds += 2.0 * sizes.pairs * config.rank / rate(config, speed) / 3
    return seconds


def question_work(config: TrainConfig, sizes: GraphSizes) -> float:
    """What training on one question takes, in the units of the speed."""
    if config.model == "paths":
        return 2.0 * sizes.facts * config.layers * config.rank
    scored = min(sizes.entities, 2 * config.batch + config.negatives) if config.negatives else sizes.entities
    return 2.0 * scored * config.rank


def row_seconds(config: TrainConfig, sizes: GraphSizes, speed: MachineSpeed) -> float:
    """Scoring all entities for one question: forwards alone is a third of training."""
    whole = replace(config, negatives=0)
    return question_work(whole, sizes) / rate(config, speed) / 3


def rate(config: TrainConfig, speed: MachineSpeed) -> float:
    """The speed that counts for a predictor."""
    return speed.messages if config.model == "paths" else speed.products


def _more(plans: Sequence[BuildPlan], chosen: int, fits: bool) -> str:
    """What more time would bring, in a sentence."""
    limit = plans[chosen].limit
    if not fits:
        return f"that is more than {duration(limit)}: training will be cut short; more time (minutes) would let it end"
    if chosen + 1 == len(plans):
        return ""
    after = plans[chosen + 1]
    minutes = -(-after.seconds // (60 * (1 - RESERVE)))
    return f"{minutes:.0f} minutes would allow {' and '.join(map(str, after.models))}"
