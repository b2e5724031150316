"""Tables as people have them: one relation for all rows, blanks, words for nothing, prices among the names."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from graph_content import fact_values, facts

from tuplet.errors import BadInput
from tuplet.read.read import gather, read

TRANSFERS = "from,to,amount,day\n007,1,9.5,2024-01-02\n1,x,3,2024-01-03\nx,N/A,4,\n,1,2,2024-01-05\n"
KEPT = {("007", "transfers_to", "1"), ("1", "transfers_to", "x")}


@pytest.fixture
def transfers(tmp_path: Path) -> Path:
    path = tmp_path / "transfers.csv"
    path.write_text(TRANSFERS)
    return path


def test_one_relation_for_all_rows(transfers: Path) -> None:
    columns = "head=from,transfers_to=to,date=day,attribute=amount,missing=N/A"
    graph, report = gather(transfers, columns=columns).graph()
    assert facts(graph) == KEPT
    assert fact_values(graph, "1", "transfers_to", "x") == {"amount": 3.0}
    assert report.remarks[-1:] == [f"{transfers}: 2 rows without a name where one is needed, left out"]


def test_one_relation_in_several_columns(tmp_path: Path) -> None:
    path = tmp_path / "recipes.csv"
    path.write_text(",dish,first,second\n0,cake,egg,flour\n1,soup,salt,\n2,bread,flour,salt\n")
    graph, report = gather(path, columns="id=dish,contains=first,contains=second").graph()
    pairs = {("cake", "egg"), ("cake", "flour"), ("soup", "salt"), ("bread", "flour"), ("bread", "salt")}
    assert facts(graph) == {(dish, "contains", of) for dish, of in pairs}
    assert "column '' not read" in report.remarks[-1]
    with pytest.raises(BadInput, match="id=1,relation="):  # a column without a name is named by its place
        read(path)


def test_decimal_commas_are_told(tmp_path: Path) -> None:
    path = tmp_path / "races.csv"
    path.write_text("bird;race;speed\na;r;1081,17\nb;r;990,5\nc;r;\n")
    _, report = gather(path, columns="head=bird,flew=race,attribute=speed").graph()
    assert any("texts such as '1081,17'; written 1081.17 they are numbers" in remark for remark in report.remarks)
    path.write_text("bird;race;speed\na;r;1081.17\nb;r;990,5\nc;r;7\n")
    _, report = gather(path, columns="head=bird,flew=race,attribute=speed").graph()
    assert not any("they are numbers" in remark for remark in report.remarks)


def test_the_same_in_python() -> None:
    table = pa.table({"from": ["007", "1", "1", None], "to": ["1", "N/A", "x", "x"]})
    assert facts(read(table, columns={"head": "from", "transfers_to": "to", "missing": ["N/A"]})) == KEPT


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("head=from,transfers_to=to", ":5: the head is empty; missing= among the columns leaves such rows out"),
        (
            "head=from,a=to,b=amount",
            "names the relations a and b; a row with several is about an entity: id=from instead of head=from",
        ),
        ("head=from,transfers=to,relation=day", "unknown column role 'transfers'"),
        ("head=from,tial=to", "unknown column role 'tial'; did you mean 'tail'?"),
    ],
)
def test_mistakes_are_one_line(transfers: Path, columns: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        read(transfers, columns=columns)
    assert message in str(error.value)


def test_words_for_nothing_are_told(transfers: Path) -> None:
    graph, report = gather(transfers, columns="head=from,transfers_to=to,missing=").graph()
    assert facts(graph) == KEPT | {("x", "transfers_to", "N/A")}
    assert report.remarks[:2] == [
        f"{transfers}: cells of 'tail' hold 'N/A', which is an entity like any other; "
        "missing=N/A among the columns reads them as empty",
        f"{transfers}: 1 row without a name where one is needed, left out",
    ]


def test_a_word_for_nothing_as_a_relation_is_told(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("bee,does,plant\nb1,pollinates,p1\nb2,N/A,p1\n")
    _, report = gather(path, columns="head=bee,relation=does,tail=plant").graph()
    assert report.remarks == [
        f"{path}: cells of 'relation' hold 'N/A', which is a relation like any other; "
        "missing=N/A among the columns reads them as empty"
    ]
    _, report = gather(path, columns="head=bee,relation=does,tail=plant,missing=N/A").graph()
    assert report.remarks == [f"{path}: 1 row without a name where one is needed, left out"]


def test_rows_of_one_id_with_different_values_are_told(tmp_path: Path) -> None:
    path = tmp_path / "shifts.csv"
    path.write_text("nurse,ward,hours\nann,A,8\nann,B,8\nbob,A,6\nbob,B,\n")
    columns = "id=nurse,relation=ward,attribute=hours"
    assert gather(path, columns=columns).graph()[1].remarks == [], "several rows that agree are several facts"
    path.write_text("nurse,ward,hours\nann,A,8\nann,B,4\nbob,A,6\nbob,B,\n")
    [remark] = gather(path, columns=columns).graph()[1].remarks
    assert remark.startswith(f"{path}: 'ann' has several rows with different 'hours', and which value is of which row")
    assert remark.endswith("head=…,RELATION=…,attribute=hours")
    assert gather(path, columns="head=nurse,works_on=ward,attribute=hours").graph()[1].remarks == []


def test_blanks_of_a_plain_table(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("head,relation,tail\na,r,b\na,r,-\nb,r,\n")
    assert facts(read(path, columns="missing=-")) == {("a", "r", "b")}
    path.write_text("a\tr\tb\na\tr\t007\n")  # spelt so, not 7
    assert facts(read(path, columns="missing=007")) == {("a", "r", "b")}


def test_what_may_not_be_meant_as_a_name_is_told(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    rows = [f"{i},{i % 7},{i % 3 * 1.5},2024-01-{i % 28 + 1:02},code-{i * i}" for i in range(30)]
    path.write_text("\n".join(["order,customer,price,day,code", *rows]))
    remarks = "\n".join(gather(path, columns="id=order,relation=*").graph()[1].remarks)
    assert "'customer' holds numbers, and each is an entity now; attribute=customer among the columns" in remarks
    assert "'price' holds numbers" in remarks
    assert "'day' holds dates" in remarks
    assert "'code' holds something else in nearly every row, so nothing is learnt from it; attribute=code" in remarks
    assert "'id' and 'customer' have names in common, such as '0', which are one entity each" in remarks
    named = gather(path, columns="id=order,relation=customer,attribute=*").graph()[1].remarks
    assert [remark for remark in named if "holds" in remark] == []


def test_people_who_know_people_are_not_doubted(tmp_path: Path) -> None:
    path = tmp_path / "knows.csv"
    path.write_text("who,whom\nann,bob\nbob,cid\ncid,ann\n")
    assert gather(path, columns="head=who,knows=whom").graph()[1].remarks == []


@pytest.mark.parametrize(
    ("header", "rows", "guess"),
    [
        (
            "customer,product,price,date",
            ["a,x,1.5,2024-01-01", "b,x,2.5,2024-01-02", "a,y,3.5,2024-01-03"],
            "head=customer,NAME=product,attribute=*",
        ),
        (
            "drug,targets gene,phase,made by",
            ["d1,g1,1.5,m", "d2,g1,2.5,n", "d3,g2,3.5,m"],
            "id=drug,relation=targets gene,relation=made by,attribute=*",
        ),
        (
            "who,how,whom,since",
            [f"a{i % 9},{'knows' if i % 2 else 'likes'},a{i % 7},x" for i in range(20)],
            "head=who,relation=how,tail=whom,attribute=*",
        ),
        ("from,to", ["a,b", "b,c"], "head=from,NAME=to"),
    ],
)
def test_the_hint_of_a_header_makes_sense(tmp_path: Path, header: str, rows: list[str], guess: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join([header, *rows]))
    with pytest.raises(BadInput) as error:
        read(path)
    assert guess in shlex.split(error.value.shell.replace(" (NAME: what you call the relation)", ""))
    assert len(facts(read(path, columns=guess)))


def test_days_as_spreadsheets_write_them(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    columns = "head=bee,visits=plant,date=day"
    wanted = {1716336000, 1717113600}  # the 22nd and the 31st of May 2024
    for one, other in (("22.05.2024", "31.5.2024"), ("22/5/2024", "31/05/2024"), ("05/22/2024", "5/31/2024")):
        path.write_text(f"bee,plant,day\nb,p,{one}\nc,p,{other}\n")
        assert set(read(path, columns=columns).date.tolist()) == wanted
    path.write_text("bee,plant,day\nb,p,05/06/2024\nc,p,07/05/2024\n")
    with pytest.raises(BadInput, match="may have the day or the month first, and no other date of the column says"):
        read(path, columns=columns)
    path.write_text("bee,plant,day\nb,p,24.12.2023\nc,p,01.05.2024\n")
    _, report = gather(path, columns="head=bee,visits=plant,attribute=day").graph()
    assert report.remarks == [
        f"{path}: 'day' holds texts such as '24.12.2023'; written 2023-12-24 they are days, which compare"
    ]


def test_commas_between_names(tmp_path: Path) -> None:
    path = tmp_path / "games.csv"
    path.write_text(
        'game,how,by\nA,"dice, cards","Kramm, A."\nB,"cards,auction","Rosen, B."\nC,"dice, auction",\nD,dice,\n'
    )
    columns = "id=game,relation=how,relation=by"
    [remark] = gather(path, columns=columns).graph()[1].remarks
    assert remark == f"{path}: 3 cells of 'how' hold ','; split=, among the columns reads several names", (
        "names have one"
    )
    wanted = {("A", "how", "dice"), ("A", "how", "cards"), ("B", "how", "cards"), ("B", "how", "auction")}
    wanted |= {("C", "how", "dice"), ("C", "how", "auction"), ("D", "how", "dice")}
    for split in ("id=game,relation=how,split=,", "id=game,split=,,relation=how", "split=, , id=game,relation=how"):
        assert facts(read(path, columns=split)) == wanted


def test_spaces_and_capitals_are_told_and_spaces_removed(tmp_path: Path) -> None:
    path = tmp_path / "wards.csv"
    path.write_text("nurse,ward\nann,Ward A\nbob,Ward A \ncid, ward a\n")
    _, report = gather(path, columns="head=nurse,on=ward").graph()
    assert report.remarks == [
        "names that differ from others only by spaces around them: 1, as 'Ward A '; "
        "spaces=trim among the columns removes them",
    ]
    graph, report = gather(path, columns="head=nurse,on=ward,spaces=trim").graph()
    assert {tail for _, _, tail in facts(graph)} >= {"Ward A", "ward a"}
    assert report.remarks == ["names that differ from others only by capital letters: 1, as 'Ward A' and 'ward a'"]
    with pytest.raises(BadInput, match="knows spaces=trim, not spaces=no"):
        read(path, columns="head=nurse,on=ward,spaces=no")
