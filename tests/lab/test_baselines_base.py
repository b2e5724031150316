"""The seam of all baselines: marginals become tuples, options are checked, refusals are one line, imports are lazy."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from tuplet import settings as registry
from tuplet.engines import brute
from tuplet.errors import BadInput, Refused, Unsupported
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.lab.baselines.engine import BaselineEngine, BaselinePlan
from tuplet.lab.baselines.symbolic import cycle_of
from tuplet.query.limits import NO_DEADLINE, Count, Deadline, Limits
from tuplet.query.ranking import Edge, QueryGraph, Ranking
from tuplet.query.source import Source
from tuplet.settings import knob
from tuplet.truth.table import TruthTable

CHAIN = QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1)))
TRIANGLE = QueryGraph(("x", "y", "z"), (0, 1, 2), (Edge(0, 0, 1), Edge(1, 0, 2), Edge(2, 0, 0)))


@dataclass(frozen=True)
class Knobs:
    count: int | None = knob(3, "a count", least=1)
    share: float = knob(0.5, "a share")
    way: str = knob("one", "a way", choices=("one", "two"))


class FixedEngine(BaselineEngine):
    """Scores that are given, as a model would give them."""

    name, summary, options = "fixed", "fixed scores", Knobs
    steps = ("look them up",)
    values = "sigmoids of fixed scores"
    scores = np.array([[3.0, 1.0, -2.0, -9.0], [0.5, 0.5, 4.0, -1.0]], dtype=np.float32)

    def refuse(self, clause: QueryGraph) -> None:
        if len(clause.free) != 2:
            raise Refused("engine 'fixed' answers two variables only")

    def marginals(self, plans: Sequence[BaselinePlan], limits: Limits, deadline: Deadline) -> list[np.ndarray]:
        return [self.scores for _ in plans]

    def truth(self, scores: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-scores.astype(np.float64)))


def ask(
    engine: str | FixedEngine, clause: QueryGraph, source: Source, limits: Limits, deadline: Deadline = NO_DEADLINE
) -> Ranking:
    runner = registry.find_plugin("engines", engine) if isinstance(engine, str) else engine
    found: Ranking = runner.run(runner.plan([clause], source, limits), limits, deadline)
    return found


@pytest.fixture
def source() -> Source:
    heads, tails = np.array([0, 0, 1, 1, 2]), np.array([1, 2, 2, 3, 3])
    observed = np.array([True, False, True, False, False])
    truth = np.where(observed, 1.0, [0, 0.5, 0, 0.25, 0.75])
    table = TruthTable.build(4, 1, heads, np.zeros(5, dtype=int), tails, truth, observed)
    names = Vocabulary.from_names(["a", "b", "c", "d"]), Vocabulary.from_names(["r"])
    facts = (heads[observed], np.zeros(2, dtype=int), tails[observed])
    return Source(KnowledgeGraph.from_edges(*names, *facts, np.ones(2, dtype=np.uint8)), truth=table)


@pytest.mark.parametrize("logic", ["product", "godel"])
@pytest.mark.parametrize("k", [1, 3, 16, "all"])
def test_tuples_are_ranked_by_the_product_of_marginals(source: Source, k: Count, logic: str) -> None:
    engine, limits = FixedEngine(), Limits(k=k, logic=logic)
    vectors = engine.truth(engine.scores)
    joint = {t: limits.rules.conjunction(vectors[0][t[0]], vectors[1][t[1]]) for t in product(range(4), repeat=2)}
    ranking = ask(engine, CHAIN, source, limits)
    assert ranking.truth == pytest.approx(sorted(joint.values(), reverse=True)[: 16 if k == "all" else k])
    shown = [tuple(t) for t in ranking.tuples.tolist()]
    assert len(set(shown)) == len(shown)
    assert ranking.truth == pytest.approx([joint[t] for t in shown])
    assert engine.score(engine.plan([CHAIN], source, limits), ranking.tuples, limits, NO_DEADLINE) == pytest.approx(
        ranking.truth
    )
    assert (ranking.exact, ranking.bound) == (False, 1.0)
    how = "product" if logic == "product" else "minimum"
    assert ranking.pruned == (
        f"truth is the {how} of marginals (sigmoids of fixed scores), and this is not an exact engine"
    )
    # The witness is the store's: none where the members do not go together.
    truth = brute.score([CHAIN], source.values(), ranking.tuples)
    assert ((ranking.assignments[0] >= 0).all(axis=1) == (truth > 0)).all()


def test_the_filter_comes_before_the_top_k(source: Source) -> None:
    (answer,) = ask(FixedEngine(), CHAIN, source, Limits(only="observed")).tuples.tolist()
    assert answer == [1, 2]
    predicted = ask(FixedEngine(), CHAIN, source, Limits(k=15, only="predicted")).tuples.tolist()
    assert len(predicted) == 15
    assert [1, 2] not in predicted


def test_a_timeout_is_said(source: Source) -> None:
    for name in ("fit", "qto", "cqd"):
        for looks in range(1, 200):  # the clock moves with every look at it
            ranking = ask(name, CHAIN, source, Limits(only="predicted"), Deadline(looks, itertools.count().__next__))
            if ranking.pruned != "timeout":
                break
            assert (len(ranking.tuples), len(ranking.assignments[0]), ranking.exact) == (0, 0, False)
        assert looks > 4
        assert len(ranking.tuples)


def test_plans_say_what_is_done(source: Source) -> None:
    text = FixedEngine().plan([CHAIN], source, Limits()).text(str, str)
    assert text.splitlines()[0] == "look them up"
    assert text.endswith("rank tuples by the product of the marginals of their members (sigmoids of fixed scores)")


def test_options_are_numbers_words_or_all() -> None:
    settings = FixedEngine().settings
    assert settings({}) == Knobs()
    assert settings({"count": "all", "share": "2", "way": "two"}) == Knobs(None, 2.0, "two")
    assert settings({"count": 7, "share": 1}) == Knobs(7, 1.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cuont": 1}, "engine 'fixed' has no option 'cuont'; did you mean 'count'?"),
        ({"zzz": 1}, "engine 'fixed' has no option 'zzz'; choose one of count, share, way"),
        ({"count": "x"}, "option 'count' must be a whole number, not 'x'"),
        ({"count": 1.5}, "option 'count' must be a whole number, not 1.5"),
        ({"share": "half"}, "option 'share' must be a number, not 'half'"),
        ({"count": 0}, "count is 0; it must be at least 1"),
        ({"way": "three"}, "way is 'three'; choose one of one, two"),
    ],
)
def test_wrong_options_are_refused_in_one_line(options: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput) as error:
        FixedEngine().settings(options)
    assert str(error.value) == said


def test_other_engines_take_no_options() -> None:
    with pytest.raises(BadInput, match=r"engine 'exact' takes no options \(given: most\)"):
        registry.find_plugin("engines", "exact").settings({"most": 3})
    registry.find_plugin("engines", "fit").settings({"most": 3})


def test_cycles_are_refused_by_name(source: Source) -> None:
    with pytest.raises(Unsupported) as error:
        ask("qto", TRIANGLE, source, Limits())
    assert str(error.value) == (
        "engine 'qto' answers trees only; the query has the cycle ?x – ?y – ?z – ?x; try 'fit' or 'exact'"
    )


def test_what_closes_a_cycle() -> None:
    assert cycle_of(CHAIN) is None
    doubled = QueryGraph(
        ("x", "y"), (0,), (Edge(0, 0, 1), Edge(1, 1, 0), Edge(0, 1, 0), Edge(~1, 0, 0), Edge(~1, 0, 1))
    )
    assert cycle_of(doubled) is None, "parallel edges, self-loops and constants close none"
    assert cycle_of(QueryGraph(("x", "y", "z"), (0,), (Edge(0, 0, 1), Edge(1, 0, 2)), ((0, 2),))) == (0, 1, 2)
    square = tuple(Edge(i, 0, (i + 1) % 4) for i in range(4))
    found = cycle_of(QueryGraph(("a", "b", "c", "d", "e"), (0,), (Edge(4, 0, 0), *square)))
    assert found is not None
    assert set(found) == {0, 1, 2, 3}


ABSENT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent}:
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
"""
LISTED = """
from dataclasses import fields
from tuplet import settings
engines = [settings.find_plugin("engines", name) for name in settings.list_plugins("engines")]
said = {e.name: (e.summary, e.batched, e.marginal, e.served, [f.name for f in fields(e.options)]) for e in engines}
assert said["fit"][4] == ["most", "mode"], said
"""
USED = """
import tuplet.lab.baselines.symbolic, tuplet.lab.baselines.models
import tuplet.lab.bench.run, tuplet.lab.bench.queries
"""


@pytest.mark.parametrize(
    ("absent", "code"), [(("torch",), LISTED), (("numba", "pyarrow", "scipy", "pandas"), USED)], ids=["listed", "used"]
)
def test_engines_are_listed_without_torch_and_baselines_need_torch_and_numpy_alone(
    absent: tuple[str, ...], code: str
) -> None:
    subprocess.run([sys.executable, "-c", ABSENT.format(absent=absent) + code], check=True)
