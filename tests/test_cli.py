"""The command line as users meet it: output, exit codes, one clear line for every mistake."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tuplet.cli.commands import main

NEIGHBOURS = "?x, ?y : borders(?x, ?y) & member_of(?y, nato)"


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def tuplet(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def run(*arguments: object) -> Result:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


def test_import_info_ask(tuplet: Callable[..., Result], tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("a\tknows\tb\nb\tknows\tc\nb\tknows\tc\nc\tknows\tc\n")
    made = tuplet("import", facts, "-o", tmp_path / "deep" / "er" / "g", "--json")
    assert made.code == 0
    report = json.loads(made.out)
    assert (report["entities"], report["relations"], report["edges"]["train"]) == (3, 1, 3)
    assert (report["duplicates"], report["self_loops"]) == (1, 1)
    about = json.loads(tuplet("info", tmp_path / "deep" / "er" / "g", "--json", "--verify").out)
    assert about["kind"] == "graph"
    answers = json.loads(tuplet("ask", tmp_path / "deep" / "er" / "g", "?x, ?y : knows(?x, ?y)", "--json").out)
    assert [tuple(a["values"].values()) for a in answers["answers"]] == [("a", "b"), ("b", "c"), ("c", "c")]
    assert (answers["exact"], answers["bound"], answers["pruned"]) == (True, 0.0, None)


def test_json_has_the_schema(tuplet: Callable[..., Result], world_directory: Path) -> None:
    result = json.loads(tuplet("ask", world_directory, NEIGHBOURS, "-k", 2, "--format", "json").out)
    assert {"query", "variables", "engine", "k", "exact", "bound", "pruned", "elapsed_ms", "answers"} <= set(result)
    assert (result["query"], result["variables"], result["engine"], result["k"]) == (NEIGHBOURS, ["x", "y"], "crisp", 2)
    first = result["answers"][0]
    assert set(first) == {"values", "labels", "truth", "status", "witness"}
    fact = first["witness"][0]
    assert {
        "clause",
        "head",
        "relation",
        "tail",
        "negated",
        "truth",
        "observed",
        "head_label",
        "tail_label",
        "evidence",
        "lift",
    } == set(fact)
    assert result["calibrated"] is None, "nothing is predicted"


def test_k_overrides_limit_and_all_means_all(tuplet: Callable[..., Result], world_directory: Path) -> None:
    sparql = "SELECT ?x WHERE { ?x :member_of :nato } LIMIT 3"

    def count(*flags: object) -> int:
        return len(json.loads(tuplet("ask", world_directory, sparql, "--json", *flags).out)["answers"])

    assert (count(), count("-k", 5), count("-k", "all"), count("-k", 0)) == (3, 5, 32, 0)


def test_formats_agree(tuplet: Callable[..., Result], world_directory: Path, tmp_path: Path) -> None:
    def ask(*flags: object) -> Result:
        return tuplet("ask", world_directory, NEIGHBOURS, "-k", "all", *flags)

    rows = [tuple(a["values"].values()) for a in json.loads(ask("--json").out)["answers"]]
    csv = [tuple(line.split(",")[:2]) for line in ask("--format", "csv").out.splitlines()[1:]]
    assert csv == [(f'"{x}"', f'"{y}"') for x, y in rows]
    assert ask("-o", tmp_path / "new" / "a.parquet").code == 0
    table = pq.read_table(tmp_path / "new" / "a.parquet").to_pydict()
    assert list(zip(table["x"], table["y"], strict=True)) == rows
    assert table["x_label"][0] == "Greece" or table["x_label"][0]
    text = ask().out.splitlines()
    assert len(text) == len(rows) + 2


def test_query_from_file_and_standard_input(
    tuplet: Callable[..., Result], world_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    (tmp_path / "q.rq").write_text("SELECT ?x WHERE { ?x :borders :portugal }")
    assert "Spain" in tuplet("ask", world_directory, f"@{tmp_path}/q.rq").out
    monkeypatch.setattr("sys.stdin", io.StringIO("?x : borders(?x, portugal)"))
    assert "Spain" in tuplet("ask", world_directory, "-").out


def test_grounding(tuplet: Callable[..., Result], world_directory: Path) -> None:
    grounding = json.dumps({"r1": "borders", "s1": "portugal"})
    assert "Spain" in tuplet("ask", world_directory, "r1(s1,f1)", "--grounding", grounding).out


def test_plan_and_explain(tuplet: Callable[..., Result], world_directory: Path) -> None:
    plan = tuplet("ask", world_directory, NEIGHBOURS, "--plan").out
    assert "?y" in plan
    assert "borders" in plan
    explained = tuplet("ask", world_directory, "?x : borders(?x, portugal)", "--explain").out
    assert "observed    borders(Spain, Portugal)" in explained


def test_no_answers_is_not_an_error(tuplet: Callable[..., Result], world_directory: Path) -> None:
    result = tuplet("ask", world_directory, "?x : borders(?x, iceland)", "--json")
    assert result.code == 0
    assert json.loads(result.out)["answers"] == []


def test_contradiction_has_no_answers(tuplet: Callable[..., Result], world_directory: Path) -> None:
    result = tuplet("ask", world_directory, "?x, ?y : borders(?x, ?y) & ?x != ?x", "--json")
    assert (result.code, json.loads(result.out)["answers"]) == (0, [])


MISTAKES = {
    "unknown relation": (("?x : boders(?x, france)",), "unknown relation 'boders'; did you mean 'borders'?"),
    "unknown entity": (("?x : borders(?x, frence)",), "unknown entity 'frence'; did you mean"),
    "unknown label": (('?x : borders(?x, "Frence")',), "unknown entity 'Frence'; did you mean"),
    "unknown engine": (
        ("?x : borders(?x, france)", "--engine", "crips"),
        "unknown engine 'crips'; did you mean 'crisp'",
    ),
    "unknown logic": (("?x : borders(?x, france)", "--logic", "gödel"), "unknown logic 'gödel'; did you mean 'godel'"),
    "unknown split": (
        ("?x : borders(?x, france)", "--observed", "trian"),
        "unknown split 'trian'; did you mean 'train'",
    ),
    "engine needs truth": (("?x : borders(?x, france)", "--engine", "brute"), "needs a store with truth values"),
    "bad k": (("?x : borders(?x, france)", "-k", "many"), "-k must be a whole number from 0 or 'all', not 'many'"),
    "negative k": (("?x : borders(?x, france)", "-k", "-1"), "k must be a whole number from 0"),
    "bad timeout": (("?x : borders(?x, france)", "--timeout", "0"), "timeout must be a positive number"),
    "no time": (("?x : borders(?x, france)", "--timeout", "-1"), "timeout must be a positive number"),
    "endless time": (("?x : borders(?x, france)", "--timeout", "inf"), "timeout must be a positive number"),
    "time that is none": (("?x : borders(?x, france)", "--timeout", "nan"), "timeout must be a positive number"),
    "two formats": (("?x : borders(?x, france)", "--json", "--format", "csv"), "either --json or --format csv"),
    "empty query": (("  ",), "the query is empty"),
    "missing query file": (("@/nowhere/q.txt",), "cannot read the query file"),
    "grounding no JSON": (("r1(s1,f1)", "--grounding", "{"), "--grounding is not JSON"),
    "grounding no object": (("r1(s1,f1)", "--grounding", "[1]"), "--grounding must be a JSON object"),
    "unsafe": (("?x, ?y : borders(?x, france) & !borders(?x, ?y)",), "?y"),
    "not exists": (("?x : borders(?x, france) & !(exists ?y . borders(?x, ?y))",), "exists"),
    "logic syntax": (("?x : borders(?x, france",), "line 1, column"),
    "SPARQL syntax": (("SELECT ?x WHERE { ?x :borders }",), "line 1, column"),
    "SPARQL unsupported": (("SELECT ?x WHERE { ?x :borders+ :france }",), "paths of any length"),
    "EFOk syntax": (("r1(s1,f1", "--grounding", '{"r1": 0, "s1": 0}'), "column"),
    "BetaE syntax": (("((1, (2,)), (3, (4,)",), "column"),
    "too large": (("?x : " + " & ".join(f"borders(?x, <c{i}>)" for i in range(20_000)),), "too large"),
    "Parquet on screen": (("?x : borders(?x, france)", "--format", "parquet"), "add -o FILE.parquet"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_get_one_clear_line(case: str, tuplet: Callable[..., Result], world_directory: Path) -> None:
    arguments, expected = MISTAKES[case]
    result = tuplet("ask", world_directory, *arguments)
    assert (result.code, result.out) == (1, "")
    first, *excerpt = result.err.splitlines()
    assert first.startswith("error: ")
    assert expected in first
    assert len(excerpt) in (0, 2), "a message, and at most the line of the query with a caret under it"


def test_output_is_not_overwritten_without_force(
    tuplet: Callable[..., Result], world_directory: Path, tmp_path: Path
) -> None:
    target = tmp_path / "a.json"
    target.write_text("mine")
    refused = tuplet("ask", world_directory, NEIGHBOURS, "-o", target)
    assert (refused.code, target.read_text()) == (1, "mine")
    assert "--force" in refused.err
    assert tuplet("ask", world_directory, NEIGHBOURS, "-o", target, "--force").code == 0
    assert json.loads(target.read_text())["variables"] == ["x", "y"]


def test_output_of_unknown_format_leaves_nothing(
    tuplet: Callable[..., Result], world_directory: Path, tmp_path: Path
) -> None:
    result = tuplet("ask", world_directory, NEIGHBOURS, "-o", tmp_path / "a.parqet")
    assert (result.code, list(tmp_path.iterdir())) == (1, [])
    assert "did you mean .parquet?" in result.err


BAD_GRAPHS: dict[str, tuple[str, bytes, str]] = {
    "malformed line": ("f.tsv", b"a\tr\tb\nbroken\n", "f.tsv:2: "),
    "too many columns": ("f.tsv", b"a\tr\tb\na\tr\tb\t0.5\tx\n", "f.tsv:2: "),
    "empty file": ("f.tsv", b"", "empty"),
    "broken gzip": ("f.tsv.gz", gzip.compress(b"a\tr\tb\n" * 100)[:-9], "gz"),
    "not gzip": ("f.tsv.gz", b"a\tr\tb\n", "gz"),
    "not UTF-8": ("f.tsv", b"a\tr\tb\n\xff\tr\tb\n", "f.tsv:2: "),
    "truth outside": ("f.tsv", b"a\tr\tb\t0.5\na\tr\tc\t1.5\n", "f.tsv:2: "),
    "truth no number": ("f.tsv", b"a\tr\tb\t0.5\na\tr\tc\thigh\n", "f.tsv:2: "),
    "unknown type": ("f.xlsx", b"a\tr\tb\n", ".tsv"),
    "Turtle syntax": ("f.ttl", b"<a> <r> .\n", "line 1"),
    "no Parquet": ("f.parquet", b"a\tr\tb\n", "arquet"),
}


@pytest.mark.parametrize("case", BAD_GRAPHS)
def test_bad_graphs_get_one_clear_line(case: str, tuplet: Callable[..., Result], tmp_path: Path) -> None:
    name, content, expected = BAD_GRAPHS[case]
    (tmp_path / name).write_bytes(content)
    result = tuplet("import", tmp_path / name, "-o", tmp_path / "g")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert name in result.err
    assert expected in result.err
    assert [entry.name for entry in tmp_path.iterdir()] == [name], "nothing half-written"


def test_missing_source_names_the_nearest(tuplet: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("a\tr\tb\n")
    result = tuplet("import", tmp_path / "fact.tsv", "-o", tmp_path / "g")
    assert result.code == 1
    assert "facts.tsv" in result.err


def test_import_does_not_overwrite(tuplet: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("a\tr\tb\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for flags in ((), ("--force",)):
        assert tuplet("import", tmp_path / "facts.tsv", "-o", tmp_path / "mine", *flags).code == 1
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_wrong_usage_exits_2(tuplet: Callable[..., Result]) -> None:
    result = tuplet("aks")
    assert result.code == 2
    assert "did you mean 'ask'?" in result.err
    assert tuplet("ask").code == 2


def test_an_unknown_option_names_the_nearest_of_its_command(tuplet: Callable[..., Result]) -> None:
    result = tuplet("ask", "x", "y", "--fromat", "json")
    assert result.code == 2
    said = "tuplet ask: unrecognized arguments: --fromat json; did you mean --format? (tuplet ask --help)\n"
    assert result.err == said


def test_the_demo_does_not_overwrite(tuplet: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "store.json").touch()
    result = tuplet("demo", "-o", tmp_path)
    assert (result.code, result.out) == (1, ""), "said before the work"
    assert "--force replaces it" in result.err


def test_fetch_accepts_only_the_published_facts(
    tuplet: Callable[..., Result], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = tuplet("data", "fetch", "nations", "--from-dir", data, "-o", tmp_path / "nations")
    assert fetched.code == 0, fetched.err
    (tmp_path / "other").mkdir()
    for split in ("train", "valid", "test"):
        (tmp_path / "other" / f"{split}.tsv").write_text("usa\tembassy\tuk\n")
    assert "not the facts of nations" in tuplet("data", "fetch", "nations", "--from-dir", tmp_path / "other").err
    assert "did you mean 'nations'" in tuplet("data", "fetch", "nation").err
    monkeypatch.delenv("TUPLET_DATA")
    assert "github.com/pykeen/pykeen) and pass their folder with --from-dir" in tuplet("data", "fetch", "nations").err


def test_doctor(tuplet: Callable[..., Result]) -> None:
    about = json.loads(tuplet("doctor", "--json", "--warm").out)
    assert {"tuplet", "python", "cores", "memory", "packages", "extras", "devices", "kernels"} <= set(about)


def test_crisp_never_imports_torch(world_directory: Path) -> None:
    code = (
        "import sys; from tuplet.cli.commands import main; "
        f"code = main(['ask', {str(world_directory)!r}, '?x : borders(?x, portugal)']); "
        "assert code == 0; assert 'torch' not in sys.modules, 'torch was imported'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Spain" in done.stdout


def test_a_closed_pipe_is_no_error(world_directory: Path) -> None:
    command = f"{sys.executable} -m tuplet ask {world_directory} '?x, ?y : borders(?x, ?y)' -k all | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_info_shows_the_reliability_as_a_diagram(tuplet: Callable[..., Result], tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join(f"e{i}\tr{i % 2}\te{(i * 7 + j) % 30}\n" for i in range(30) for j in range(3)))
    flags = ("--epochs", 2, "--rank", 8, "--quiet")
    built = tuplet("build", facts, "-o", tmp_path / "s", *flags)
    assert (built.code, built.err) == (0, "")
    shown = tuplet("info", tmp_path / "s").out
    assert "reliability on hidden edges, expected calibration error" in shown
    assert "observed            train, valid" in shown
    assert "{'" not in shown
    assert json.loads(tuplet("info", tmp_path / "s", "--json").out)["report"]["reliability"]["split"] == "hidden"
    again = tuplet("build", facts, "-o", tmp_path / "s", *flags)
    assert (again.code, again.out) == (1, "")
    assert again.err == f"error: {tmp_path / 's'} already exists; --force replaces it\n"
    assert tuplet("build", facts, "-o", tmp_path / "s", *flags, "--force").code == 0


def test_plan_of_a_store(tuplet: Callable[..., Result], tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("a\tr\tb\t0.5\nb\tr\tc\t0.25\n")
    assert tuplet("build", facts, "-o", tmp_path / "s").code == 0
    shown = tuplet("ask", tmp_path / "s", "?x : r(?x, b)", "--plan")
    assert shown.code == 0
    assert shown.out.startswith("query   ?x : r(?x, b)\nclauses 1 (tree)\nengine  exact\n  1. fix ?x")


def test_caps_on_memory_and_work_return_the_best_so_far(tuplet: Callable[..., Result], tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join(f"n{i}\tr\tn{j}\t0.{(i * 7 + j) % 9 + 1}\n" for i in range(30) for j in range(30)))
    assert tuplet("build", facts, "-o", tmp_path / "s", "--quiet").code == 0
    query = "?a, ?b, ?c, ?d : r(?a, ?b) & r(?b, ?c) & r(?c, ?d) & r(?d, ?a)"
    whole = json.loads(tuplet("ask", tmp_path / "s", query, "-k", 3000, "--json").out)
    best = whole["answers"][-1]["truth"]
    for flag, value, reason in (("--memory", "100K", "memory"), ("--work", "200", "work")):
        cut = json.loads(tuplet("ask", tmp_path / "s", query, "-k", 3000, flag, value, "--json").out)
        assert (cut["exact"], cut["pruned"]) == (False, reason)
        assert cut["bound"] >= best, "a tuple not shown may be that good"
    assert "must be a whole number from 1" in tuplet("ask", tmp_path / "s", query, "--work", "0").err


def test_index_flags_that_need_a_model(tmp_path, capsys) -> None:
    (tmp_path / "w.tsv").write_text("a\tlikes\tb\t0.5\nb\tlikes\tc\t0.8\n")
    assert main(["import", str(tmp_path / "w.tsv"), "-o", str(tmp_path / "g")]) == 0
    capsys.readouterr()
    for flags in (["--calibration", "learned"], ["--on-demand"]):
        assert main(["index", str(tmp_path / "g"), "-o", str(tmp_path / "s"), *flags]) == 1
        assert capsys.readouterr().err == f"error: {flags[0]} needs a model (tuplet train)\n"
    assert not (tmp_path / "s").exists()


def test_an_engine_of_your_own(tuplet: Callable[..., Result], world_directory: Path) -> None:
    flags = ("?x : borders(?x, portugal)", "--engine", "tuplet.engines.crisp:Crisp")
    assert "Spain" in tuplet("ask", world_directory, *flags).out
    failed = tuplet("ask", world_directory, "?x : borders(?x, portugal)", "--engine", "nowhere:Mine")
    assert (failed.code, failed.err) == (1, "error: cannot load nowhere:Mine: No module named 'nowhere'\n")


def test_what_is_in_a_graph(tuplet: Callable[..., Result], world_directory: Path) -> None:
    relations = json.loads(tuplet("relations", world_directory, "--json").out)
    assert {"relation", "label", "facts", "predicted", "head", "tail", "base_rate", "lift"} == set(relations[0])
    assert relations[0]["base_rate"] is relations[0]["lift"] is None, "nothing is predicted"
    assert tuplet("relations", world_directory).out.splitlines()[1].split()[:2] == ["member_of", "1,033"]
    assert json.loads(tuplet("find", world_directory, "York", "--json").out)[0]["name"] == "new_york_city"
    nothing = tuplet("find", world_directory, "zzz")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "nothing is called 'zzz'\n")
    assert "Paris" in tuplet("entity", world_directory, "France").out
    assert "did you mean" in tuplet("entity", world_directory, "Frnce").err
    about = tuplet("info", world_directory).out
    assert "member_of, borders" in about
    query = about.splitlines()[-1].strip()
    assert tuplet("ask", world_directory, query).code == 0, "a query to try can be asked"


def test_a_missing_argument_is_one_line(tuplet: Callable[..., Result]) -> None:
    result = tuplet("build", "three.tsv", "three.store")
    said = "tuplet build: the following arguments are required: -o/--output (tuplet build --help)\n"
    assert (result.code, result.err) == (2, said)


def test_lists(tuplet: Callable[..., Result]) -> None:
    assert "umls" in tuplet("data", "list").out.split()
    assert [row["engine"] for row in json.loads(tuplet("engines", "--json").out)][:2] == ["exact", "crisp"]


def test_build_ends_with_what_to_do_next(tuplet: Callable[..., Result], tmp_path: Path) -> None:
    for facts in ("a\tr\tb\t0.5\nb\ts\tc\t0.5\n", "a\tr s\tb\t0.5\n"):
        (tmp_path / "f.tsv").write_text(facts)
        lines = tuplet("build", tmp_path / "f.tsv", "-o", tmp_path / "s", "--quiet", "--force").out.splitlines()
        assert len(lines) < 10
        command = next(line for line in lines if line.startswith("ask it:")).split(maxsplit=4)[4]
        assert tuplet("ask", *shlex.split(command)).out.splitlines()[1].startswith("1  a"), "and it has an answer"


def test_mistakes_of_usage_are_one_line(tuplet: Callable[..., Result]) -> None:
    for arguments in (
        ("ask",),
        ("ask", "s", "q", "--format", "jsn"),
        ("bench", "rnu"),
        ("data", "lst"),
        ("build", "f.tsv", "s"),
    ):
        result = tuplet(*arguments)
        assert (result.code, result.err.count("\n")) == (2, 1), arguments


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self").exists(), reason="needs a place that takes no files")
def test_an_output_that_cannot_be_written_is_one_line(tuplet: Callable[..., Result], world_directory: Path) -> None:
    result = tuplet("ask", world_directory, NEIGHBOURS, "-o", "/proc/self/answers.csv")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert result.err.startswith("error: cannot write /proc/self/answers.csv")
