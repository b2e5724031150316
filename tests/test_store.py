"""A store as users hold it: built from facts in one go, asked, explained, saved; every engine behind the same door."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tuplet
from tuplet.build import choose_recipe, make
from tuplet.errors import BadInput, BudgetExceeded, TupletError
from tuplet.predict.config import TrainConfig
from tuplet.read.read import read

QUICK = TrainConfig(rank=8, epochs=3, batch=50, evaluate_every=0)
QUERY = "?x, ?y : exists ?z . likes(?x, ?z) & knows(?z, ?y) & ?x != ?y"


def facts() -> list[tuple[str, str, str]]:
    """People who know their neighbours in two rings, and like every third one."""
    people = [f"p{i:02}" for i in range(24)]
    knows = [(people[i], "knows", people[(i + step) % 24]) for i in range(24) for step in (1, 2)]
    return knows + [(people[i], "likes", people[(i + 3) % 24]) for i in range(24)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, its predictor, and a store of the same that computes rows on demand."""
    root = tmp_path_factory.mktemp("made")
    file = root / "facts.tsv"
    file.write_text("".join("\t".join(fact) + "\n" for fact in facts()))
    built = tuplet.build(file, root / "a.store", config=QUICK, keep_model=root / "a.model", calibration="softmax-count")
    make(built.graph, choose_recipe(root / "a.model", on_demand=True, calibration="softmax-count"), root / "rows.store")
    return root


@pytest.fixture(params=["a.store", "rows.store"])
def store(made: Path, request: pytest.FixtureRequest) -> tuplet.Store:
    return tuplet.open(made / request.param)


def test_build_holds_facts_out_and_reports_on_them(made: Path) -> None:
    about = tuplet.open(made / "a.store").info()
    assert about["edges"] == {"train": 69, "valid": 3, "test": 0}
    assert about["report"]["facts"] == 72, "all facts are observed"
    assert about["report"]["reliability"]["split"] == "valid"
    assert sum(about["report"]["reliability"]["facts"]) <= 3


@pytest.mark.parametrize("engine", ["exact", "crisp", "brute", "ns3", "ns3-marginal"])
def test_every_engine_plans_and_answers(engine: str, store: tuplet.Store) -> None:
    assert store.plan(QUERY, engine=engine).startswith(f"query   {QUERY}\nclauses 1 (tree)\nengine  {engine}\n")
    answers = store.ask(QUERY, k=5, engine=engine)
    assert len(answers) == 5
    assert answers.engine == engine
    first = answers[0]
    assert first.truth == 1.0
    if engine != "ns3-marginal":  # ranks by the variables one by one: its best tuple need not be an answer
        assert first.status == "observed"
        assert str(first.explain()).startswith("x = p00, y = ")
        assert store.score(QUERY, [tuple(first.values.values()), ("p00", "p00")], engine=engine)[0] == 1.0


@pytest.mark.parametrize("engine", ["fit", "qto", "cqd"])
def test_symbolic_baselines_plan_answer_and_score(engine: str, store: tuplet.Store) -> None:
    query = "?x, ?y : exists ?z . likes(?x, ?z) & knows(?z, ?y)"
    assert store.plan(query, engine=engine).startswith(f"query   {query}\nclauses 1 (tree)\nengine  {engine}\n")
    answers = store.ask(query, k=5, engine=engine)
    assert (len(answers), answers.engine, answers.exact) == (5, engine, False)
    assert answers[0].truth == 1.0
    assert "truth is the product of marginals" in answers.summary()
    assert store.score(query, [tuple(answers[0].values.values())], engine=engine) == pytest.approx([1.0])
    assert len(store.ask(query, k=5, engine=engine, only="predicted")) == 5


def test_truth_that_cannot_be_had_in_time_is_a_limit(store: tuplet.Store) -> None:
    query = "?x, ?y : exists ?z . likes(?x, ?z) & knows(?z, ?y)"
    with pytest.raises(BudgetExceeded, match="no truth values within 1e-09 s") as error:
        store.score(query, [("p00", "p01")], timeout=1e-9)
    assert error.value.limit == "timeout"


def test_options_of_an_engine_are_told_with_its_answers(store: tuplet.Store) -> None:
    query = "?x : knows(p00, ?x) & !likes(?x, p04)"
    answers = store.ask(query, engine="qto", options={"neg_scale": 3})
    assert answers.about["options"] == {"neg_scale": 3}
    with pytest.raises(BadInput, match="did you mean 'neg_scale'"):
        store.ask(query, engine="qto", options={"negscale": 3})
    with pytest.raises(BadInput, match="did you mean 'beam'"):
        store.score(query, [("p01",)], engine="cqd", options={"baem": 3})


def test_on_demand_answers_as_the_table_does(made: Path) -> None:
    table, rows = tuplet.open(made / "a.store"), tuplet.open(made / "rows.store")
    for only in (None, "predicted", "observed"):
        wanted, found = (s.ask(QUERY, k="all", only=only) for s in (table, rows))
        assert {tuple(a.values.values()): a.status for a in found} == {
            tuple(a.values.values()): a.status for a in wanted
        }
        np.testing.assert_allclose(found.ranking.truth, wanted.ranking.truth, atol=1e-5)


def test_many_queries_at_once(store: tuplet.Store) -> None:
    queries = [f"?x : {relation}(p{i:02}, ?x)" for i in range(12) for relation in ("knows", "likes")]
    for query, answers in zip(queries, store.ask_many(queries, k=4), strict=True):
        assert answers.query == query
        assert [a.to_dict() for a in answers] == [a.to_dict() for a in store.ask(query, k=4)]


def test_answers_as_tables(store: tuplet.Store, tmp_path: Path) -> None:
    answers = store.ask("SELECT ?x ?truth WHERE { ?x :likes ?truth }", k=3)
    assert answers.to_arrow().column_names == ["x", "truth", "truth_", "status"]
    assert answers.to_pandas()["x"].tolist() == ["p00", "p01", "p02"]
    answers.write(tmp_path / "deep" / "a.json")
    assert json.loads((tmp_path / "deep" / "a.json").read_text()) == answers.to_dict()
    with pytest.raises(BadInput, match="already exists"):
        answers.write(tmp_path / "deep" / "a.json")
    assert "<table>" in answers._repr_html_()
    assert "<table>" in answers[0].explain()._repr_html_()


@pytest.mark.parametrize("k", [3, np.int64(3)])
def test_k_may_be_any_whole_number(k: int, store: tuplet.Store) -> None:
    assert len(store.ask(QUERY, k=k)) == 3
    assert json.loads(store.ask(QUERY, k=k).to_json())["k"] == 3


@pytest.mark.parametrize("k", [-1, 2.5, "many", True])
def test_other_numbers_are_refused(k: object, store: tuplet.Store) -> None:
    with pytest.raises(BadInput, match="k must be a whole number"):
        store.ask(QUERY, k=k)  # type: ignore[arg-type]


def test_memory_is_written_as_on_the_command_line(store: tuplet.Store) -> None:
    assert store.ask(QUERY, k=1, memory="2M").about == store.ask(QUERY, k=1, memory=2 << 20).about
    for wrong in ("2 sacks", "", "-1", "9" * 400):
        with pytest.raises(BadInput, match="memory takes bytes, such as 512M or 2G"):
            store.ask(QUERY, memory=wrong)
    with pytest.raises(BadInput, match="memory must be a whole number from 1"):
        store.ask(QUERY, memory="0")


def test_the_budget_reaches_the_engine(store: tuplet.Store) -> None:
    small = store.ask(QUERY, k=24 * 23, engine="ns3", budget=1)
    assert small.about["budget"] == 1
    assert len(small) < 10, "one entity per variable, two pairs in the hypernode"
    assert not small.exact
    whole = store.ask(QUERY, k=24 * 23, engine="ns3", budget="all", merge="simultaneous")
    assert (whole.about["budget"], whole.about["merge"]) == ("all", "simultaneous")
    assert whole.ranking.truth.tolist() == pytest.approx(store.ask(QUERY, k=24 * 23).ranking.truth.tolist())
    for wrong, message in (
        ({"budget": 0}, "whole number from 1"),
        ({"budget": 1.5}, "whole number"),
        ({"merge": "x"}, "unknown merge"),
    ):
        with pytest.raises(TupletError, match=message):
            store.ask(QUERY, engine="ns3", **wrong)  # type: ignore[arg-type]


def test_a_query_that_contradicts_itself_has_no_answers(store: tuplet.Store) -> None:
    answers = store.ask("?x : likes(?x, p00) & ?x != ?x")
    assert (len(answers), answers.exact, answers.bound) == (0, True, 0.0)
    assert store.plan("?x : likes(?x, p00) & ?x != ?x").endswith("nothing to do")
    assert store.score("?x : likes(?x, p00) & ?x != ?x", [("p00",)]).tolist() == [0.0]


def test_a_weighted_graph_needs_no_predictor(tmp_path: Path) -> None:
    store = tuplet.build([("a", "r", "b", 0.5), ("b", "r", "c", 0.25)], tmp_path / "s")
    answers = store.ask("?x, ?y : exists ?z . r(?x, ?z) & r(?z, ?y)")
    assert [(a["x"], a["y"], a.truth, a.status) for a in answers] == [("a", "c", 0.125, "observed")]
    assert [a.truth for a in store.ask("?x : r(?x, b)", engine="crisp")] == [1.0]
    assert store.add([("a", "r", "b", 0.75)]).updated == 1
    assert store.ask("?x : r(?x, b)")[0].truth == 0.75


def test_facts_change_at_once(made: Path, tmp_path: Path, store: tuplet.Store) -> None:
    make(store.graph, choose_recipe(made / "a.model", on_demand=store.path == made / "rows.store"), tmp_path / "s")
    changed = tuplet.open(tmp_path / "s")
    assert changed.add([("p00", "knows", "new")], new_entities=True).new_entities == ("new",)
    assert changed.ask("?x : knows(?x, new)")[0]["x"] == "p00"
    assert changed.info()["report"]["facts"] == 73
    assert changed.remove([("p00", "knows", "new")]).removed == 1
    assert len(changed.ask("?x : knows(?x, new)")) == 0
    with pytest.raises(BadInput, match="not to a plain graph"):
        tuplet.Store(tuplet.Source(read(facts()))).add([("p00", "knows", "p00")])


def test_exact_needs_truth_values() -> None:
    plain = tuplet.Store(tuplet.Source(read(facts())))
    asked: Callable[[], object] = lambda: plain.ask(QUERY, engine="exact")  # noqa: E731
    with pytest.raises(BadInput, match="a plain graph is asked with engine 'crisp'"):
        asked()


def test_suggestions_can_be_typed_as_shown() -> None:
    graph = read([("http://ex.org/a", "is cure of", "hay fever"), ("17", "r", "b")])
    store = tuplet.Store(tuplet.Source(graph))
    for query, hint in (
        ("?x : <is cure off>(?x, b)", "did you mean <is cure of>?"),
        ("?x : r(?x, <http://ex.org/aa>)", "did you mean <http://ex.org/a>?"),
        ("?x : r(@17, ?x)", "does not exist (there are 4, from 0); the name 17 is written 17"),
    ):
        with pytest.raises(tuplet.TupletError) as error:
            store.ask(query)
        assert hint in str(error.value)
    assert store.ask("?x : r(:17, ?x)")[0]["x"] == "b"


def test_misuse_is_said_clearly(world_directory: Path) -> None:
    graph = tuplet.open(world_directory, observed="train,valid")
    assert graph.source.splits == ("train", "valid")
    for wrong, message in (
        (lambda: tuplet.open(world_directory, observed="tran"), "unknown split 'tran'; did you mean 'train'"),
        (lambda: graph.ask(3), "a query is text, not int"),  # type: ignore[arg-type]
        (lambda: graph.ask_many("?x : borders(?x, france)"), "takes a list of queries"),
    ):
        with pytest.raises(tuplet.TupletError, match=message):
            wrong()
    assert repr(graph.graph) == "<KnowledgeGraph: 1,057 entities, 16 relations, 5,036 edges>"


def test_what_is_known_and_predicted_about_one_entity(store: tuplet.Store) -> None:
    facts = store.entity("p00", k=2)
    assert {(f.head, f.relation, f.tail) for f in facts if f.status == "observed"} >= {("p00", "knows", "p01")}
    guesses = [f for f in facts if f.status == "predicted" and (f.head, f.relation) == ("p00", "likes")]
    assert 1 <= len(guesses) <= 2
    best = store.ask("?x : likes(p00, ?x)", only="predicted", k=2)
    assert [f.tail for f in guesses] == [answer.x for answer in best]
    assert [f.truth for f in guesses] == pytest.approx([answer.truth for answer in best])
    assert all((row.predicted or 0) > 0 for row in store.relations()) or store.relations()[0].predicted is None


WRONG: list[tuple[Callable[[tuplet.Store], object], str]] = [
    (lambda store: store.ask(QUERY, engine=5), "unknown engine '5'"),  # type: ignore[arg-type]
    (lambda store: store.ask(QUERY, limits={"k": 3}), "limits must be tuplet.Limits"),  # type: ignore[arg-type]
    (lambda store: store.ask(QUERY, logic=[]), "unknown logic '\\[\\]'"),  # type: ignore[arg-type]
    (lambda store: store.ask_many([QUERY], errors="keep"), "unknown errors 'keep'"),  # type: ignore[call-overload]
    (lambda store: store.find("p", k=-1), "k must be a whole number from 0"),
    (lambda store: store.find(5), "is text, not 5"),  # type: ignore[arg-type]
    (lambda store: store.entity("p00", k=-1), "k must be a whole number from 0"),
    (lambda store: store.entity(3), "named by text, not 3"),  # type: ignore[arg-type]
    (lambda store: store.score(QUERY, 5), "a list of tuples of names, not 5"),  # type: ignore[arg-type]
    (lambda store: store.score(QUERY, ["p00"]), "2 names, of \\?x, \\?y; 'p00' is no such tuple"),
    (lambda store: store.explain(QUERY, 5), "2 names, of \\?x, \\?y; 5 is no such tuple"),  # type: ignore[call-overload]
    (lambda store: store.explain("?x : knows(?x, p00)", ("p01", "p02")), "one name, of \\?x"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_what_python_gets_wrong_is_said_in_one_line(made: Path, wrong: Callable, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(TupletError, match=message):
        wrong(tuplet.open(made / "a.store"))


def test_numbers_of_numpy_are_numbers(made: Path) -> None:
    assert len(tuplet.open(made / "a.store").ask(QUERY, k=np.int64(2), timeout=np.int64(60))) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"threshold": "0.1"}, {"threshold": 2.0}, {"calibration": "none"}])
def test_what_indexing_would_refuse_is_refused_before_training(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=r"threshold|calibration"):
        tuplet.build(facts(), tmp_path / "s.store", config=QUICK, progress=False, **wrong)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_text_is_read_once_and_anew_after_an_edit(tmp_path: Path) -> None:
    path = tmp_path / "a.store"
    file = tmp_path / "facts.tsv"
    file.write_text("".join("\t".join(fact) + "\n" for fact in facts()))
    store = tuplet.build(file, path, config=QUICK, calibration="softmax-count")
    text = "?x, ?y : likes(?x, ?y) & knows(?y, newcomer)"
    with pytest.raises(TupletError, match="newcomer"):
        store.ask(text)
    store.add([("p00", "knows", "newcomer")], new_entities=True)
    assert ("p21", "p00") in {tuple(answer) for answer in store.ask(text, only="observed")}
    assert store.question(text).readings is store.question(text).readings
    assert store.question(text, parameters={}).readings == store.question(text).readings


def test_an_answer_makes_its_witness_when_asked_for(store: tuplet.Store) -> None:
    answer = store.ask(QUERY, k=1)[0]
    assert answer.witness is answer.witness
    assert [fact.relation for fact in answer.witness] == ["likes", "knows"]
    assert answer.to_dict()["witness"] == store.ask(QUERY, k=1).to_dict()["answers"][0]["witness"]


@pytest.mark.parametrize("query", ["?x, ?y : likes(?x, ?y) & knows(?y, p01)", "?x, ?y : likes(?x, ?y) | knows(?y, ?x)"])
def test_statuses_without_existentials_are_those_of_the_facts(store: tuplet.Store, query: str) -> None:
    given = {tuple(answer) for answer in store.ask(query, engine="crisp", k="all")}
    answers = store.ask(query, k=200)
    assert given
    assert {tuple(a) for a in answers if a.status == "observed"} == given & {tuple(a) for a in answers}
    assert any(a.status != "observed" for a in answers)
