"""Bad graphs: one clear line each, with file and line number, and nothing written."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuplet.errors import BadInput
from tuplet.read.read import read

GOOD = "a\tr\tb\nb\tr\tc\n"

FILES = {
    "two columns": (
        "f.tsv",
        b"a\tr\n",
        r"f\.tsv:1: expected 3 or 4 tab-separated columns, got 2; if all .* say columns='head=1,NAME=2'$",
    ),
    "five columns": (
        "f.tsv",
        b"a\tr\tb\t1\tx\n",
        r"f\.tsv:1: expected 3 or 4 tab-separated columns, got 5; choose some with columns=$",
    ),
    "runs of spaces": (
        "f.txt",
        b"a  r b\na r  b c\n",
        r"f\.txt:1: expected 3 or 4 tab-separated columns, got 1; it has 3 spaces$",
    ),
    "comment": ("f.tsv", b"# facts, all\na\tr\tb\n", r"f\.tsv:1: .* got 1; there are no comment lines$"),
    "late comment": ("f.tsv", b"a\tr\tb\n# all\n", r"f\.tsv:2: .* got 1 \(there are no comment lines\)$"),
    "malformed line": ("f.tsv", b"a\tr\tb\na r b\n", r"f\.tsv:2: expected 3 columns as in the first line, got 1$"),
    "late fourth column": ("f.tsv", b"a\tr\tb\n\na\tr\tb\t1\n", r"f\.tsv:3: expected 3 columns .* got 4$"),
    "malformed under header": ("f.tsv", b"h\tr\tt\nx\tr\ty\nx\tr\n", r"f\.tsv:3: expected 3 columns .* got 2$"),
    "empty": ("f.tsv", b"", r"f\.tsv is empty$"),
    "only blank lines": ("f.tsv", b"\n\r\n\n", r"f\.tsv is empty$"),
    "only a mark": ("f.tsv", b"\xef\xbb\xbf", r"f\.tsv is empty$"),
    "only a header": ("f.tsv", b"head\trelation\ttail\n", r"f\.tsv: no facts, only a header line$"),
    "empty head": (
        "f.tsv",
        b"a\tr\tb\n\tr\tb\n",
        r"f\.tsv:2: the head is empty; missing= among",
    ),
    "empty relation": (
        "f.tsv",
        b"a\t\tb\n",
        r"f\.tsv:1: the relation is empty; missing= among",
    ),
    "empty tail": (
        "f.tsv",
        b"a\tr\tb\na\tr\t\r\n",
        r"f\.tsv:2: the tail is empty; missing= among",
    ),
    "not utf-8": (
        "f.tsv",
        b"a\tr\tb\na\tr\tb\xff\n",
        r"f\.tsv:2: not UTF-8 \(byte 0xff at column 6\); save it as UTF-8, or",
    ),
    "not utf-8 at first": (
        "f.tsv",
        b"a\xe9\tr\tb\n",
        r"f\.tsv:1: not UTF-8 \(byte 0xe9 at column 2\); save it as UTF-8, or",
    ),
    "utf-16": ("f.tsv", GOOD.encode("utf-16"), r"f\.tsv: this is UTF-16; save it as UTF-8$"),
    "nul": ("f.tsv", b"a\tr\tb\na\0\tr\tb\n", r"f\.tsv:2: NUL byte at column 2"),
    "truth above": ("f.tsv", b"a\tr\tb\t1\nb\tr\tc\t1.5\n", r"f\.tsv:2: the truth 1\.5 is outside \[0, 1\]$"),
    "truth below": ("f.tsv", b"a\tr\tb\t-0.1\n", r"f\.tsv:1: the truth -0\.1 is outside \[0, 1\]$"),
    "truth nan": ("f.tsv", b"a\tr\tb\tnan\n", r"f\.tsv:1: the truth nan is outside \[0, 1\]$"),
    "truth word": ("f.tsv", b"a\tr\tb\t1\nb\tr\tc\thigh\n", r"f\.tsv:2: the truth 'high' is not a number$"),
    "truth missing": ("f.tsv", b"a\tr\tb\t1\nb\tr\tc\t\n", r"f\.tsv:2: the truth '' is not a number$"),
    "truth under header": ("f.csv", b"h,r,t,weight\na,r,b,2\n", r"f\.csv:2: the truth 2 is outside \[0, 1\]$"),
    "csv columns": ("f.csv", b"a,r,b\nc,d\n", r"f\.csv:2: expected 3 columns as in the first line, got 2$"),
    "csv open quote": ("f.csv", b'a,r,b\n"c,r,d\n', r"f\.csv:2: "),
    "carriage return": ("f.tsv", b"a\tr\tb\na\tr\tb\rc\n", r"f\.tsv:2: carriage return inside the line at column 6$"),
    "broken gzip": ("f.tsv.gz", b"this is no gzip", r"f\.tsv\.gz: broken gzip file"),
    "truncated gzip": ("f.tsv.gz", gzip.compress(GOOD.encode() * 99)[:-12], r"f\.tsv\.gz: broken gzip file"),
    "gzip with garbage": ("f.tsv.gz", gzip.compress(GOOD.encode()) + b"xx", r"f\.tsv\.gz: broken gzip file"),
    "empty gzip": ("f.tsv.gz", gzip.compress(b""), r"f\.tsv\.gz is empty$"),
    "gzip of no bytes": ("f.tsv.gz", b"", r"f\.tsv\.gz"),
    "unknown type": (
        "f.xlsx",
        b"PK",
        r"file type '\.xlsx' of .*f\.xlsx is not known; choose '\.tsv', '\.txt', '\.csv'",
    ),
    "no type": ("facts", b"a\tr\tb", r"file type '' of .*facts is not known; choose '\.tsv'"),
    "turtle": ("f.ttl", b"@prefix : <http://x/> .\n:a :b :c .\n:a :b", r"f\.ttl:3: "),
    "turtle prefix": ("f.ttl", b"\n\nex:a ex:b ex:c .", r"f\.ttl:3: .*ex"),
    "n-triples": ("f.nt", b"<http://x/a> <http://x/b> <http://x/c> .\n<http://x/a> b\n", r"f\.nt:2: "),
    "rdf literals only": ("f.nt", b'<http://x/a> <http://x/b> "c" .\n', r"f\.nt: no facts, only attributes"),
    "parquet": ("f.parquet", b"PAR1 not really", r"f\.parquet: cannot be read as Parquet"),
    "parquet gz": ("f.parquet.gz", b"", r"f\.parquet\.gz: Parquet is compressed inside"),
}


@pytest.mark.parametrize("case", FILES)
def test_bad_file(tmp_path: Path, case: str) -> None:
    file, raw, message = FILES[case]
    (tmp_path / file).write_bytes(raw)
    with pytest.raises(BadInput, match=message) as caught:
        read(tmp_path / file)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [file]


def test_attributes_of_a_file_with_one_column_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f.tsv").write_text("drug;disease\naspirin;pain\n")
    with pytest.raises(BadInput, match=r"f\.tsv:1: expected 3 or 4 tab-separated columns, got 1; it has 1 semicolon"):
        read(tmp_path / "f.tsv", columns="attribute=*")


def test_a_number_of_graphml_that_64_bits_do_not_hold_is_refused(tmp_path: Path) -> None:
    key = '<key id="k" for="node" attr.name="age" attr.type="long"/>'
    node = '<node id="a"><data key="k">99999999999999999999</data></node>'
    (tmp_path / "f.graphml").write_text(f'<graphml>{key}<graph>{node}<edge source="a" target="a"/></graph></graphml>')
    with pytest.raises(BadInput, match=r"f\.graphml: age is '9{20}', which is no long"):
        read(tmp_path / "f.graphml")


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text(GOOD)
    with pytest.raises(BadInput, match=r"no such file: .*fcats\.tsv; did you mean .*facts\.tsv\?"):
        read(tmp_path / "fcats.tsv")
    with pytest.raises(BadInput, match=r"no such file: .*\(the folder .*nowhere does not exist\)"):
        read(tmp_path / "nowhere" / "facts.tsv")
    with pytest.raises(BadInput, match=r"no such file: .*valid\.tsv"):
        read(tmp_path / "facts.tsv", valid=tmp_path / "valid.tsv")


def test_names_no_system_allows(tmp_path: Path) -> None:
    for path in ("x" * 5000 + ".tsv", str(tmp_path / "a\0b.tsv")):
        with pytest.raises(BadInput, match="no such file"):
            read(path)


def test_bad_truth_under_a_header_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("\nwho,does,whom,sure\na,r,b,0.5\na,r,c,7\n")
    with pytest.raises(BadInput, match=r"f\.csv:4: the truth 7 is outside"):
        read(tmp_path / "f.csv", columns=["who", "does", "whom", "sure"])


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no train file"):
        read(tmp_path)
    (tmp_path / "train.tsv").write_text(GOOD)
    read(tmp_path).save(tmp_path / "g")
    with pytest.raises(BadInput, match="is a graph already; import reads facts"):
        read(tmp_path / "g")
    (tmp_path / "train.txt").write_text(GOOD)
    with pytest.raises(BadInput, match=r"has both train\.tsv and train\.txt; keep one"):
        read(tmp_path)
    with pytest.raises(BadInput, match="is a folder where a file is expected"):
        read(tmp_path / "train.tsv", valid=tmp_path)


def test_parquet_columns(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": ["x"], "b": ["y"], "tail": ["z"]}), path)
    with pytest.raises(
        BadInput,
        match=r"needs the columns head, relation and tail .* it has 'a', 'b', 'tail'; name them with columns=$",
    ):
        read(path)
    with pytest.raises(BadInput, match=r"column 'tial' is not in .*; did you mean 'tail'"):
        read(path, columns=["a", "b", "tial"])
    with pytest.raises(BadInput, match="name 3 or 4 columns"):
        read(path, columns=["a"])
    pq.write_table(pa.table({"head": ["x", None], "relation": ["y", "y"], "tail": ["z", "z"]}), path)
    with pytest.raises(BadInput, match=r"f\.parquet, row 2: the head is missing"):
        read(path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "no facts: the iterable is empty"),
        ([("a", "r")], r"fact 1: expected a tuple of 3 or 4 values, got \('a', 'r'\)"),
        ([("a", "r", "b"), "abc"], "fact 2: expected a tuple of 3 or 4 values, got 'abc'"),
        ([("a", "r", "b"), ("a", "r", "b", 1)], "fact 2: 4 values where the first fact has 3"),
        ([("a", "r", None)], "fact 1: the tail None is not a name"),
        ([("a", "r", "b", "x")], "fact 1: the truth 'x' is not a number"),
        ([("a", "r", "b", 1.5)], r"the facts, row 1: the truth 1\.5 is outside \[0, 1\]"),
        ([("a", "r", "")], "the facts, row 1: the tail is empty"),
        ([("a", "r", "\ud800")], "cannot be written as UTF-8"),
        (7, "cannot read facts from a int"),
        (pd.DataFrame({"x": [1]}), "the DataFrame needs the columns head, relation and tail"),
        (pd.DataFrame({"h": ["a"], "r": ["b"], "t": [0.5]}), "the tail column holds numbers with fractions"),
        (pd.DataFrame({"h": [], "r": [], "t": []}), "the DataFrame: no facts"),
        (pa.table({"h": ["a"], "r": ["b"], "t": ["c"], "truth": ["x"]}), "the truth column holds something"),
        (pa.table({"h": ["a"], "r": ["b"], "t": ["c"], "truth": pa.array([None], pa.float64())}), "row 1: the truth"),
        (pa.table({"h": [["a"]], "r": ["b"], "t": ["c"]}), "the head column of type .* does not hold names"),
    ],
)
def test_bad_values(source: object, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read(source)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (
            "l.tsv",
            "a\tA\nb\tB\textra\n",
            r"l\.tsv:2: expected a name and a label, got 3 columns; more about entities comes with nodes=",
        ),
        ("l.tsv", "a\tA\n\tB\n", r"l\.tsv:2: the name is empty"),
        ("l.tsv", "", r"l\.tsv is empty"),
        ("l.parquet", "x", r"labels are read from \.tsv, \.txt or \.csv files"),
    ],
)
def test_bad_labels(tmp_path: Path, file: str, text: str, message: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(BadInput, match=message):
        read([("a", "r", "b")], labels=tmp_path / file)


def test_the_line_is_found_far_inside(tmp_path: Path) -> None:
    lines = [f"e{i}\tr\te{i + 1}" for i in range(100_000)]
    lines[77_776] = "e\tr"
    (tmp_path / "f.tsv").write_text("\n".join(lines))
    with pytest.raises(BadInput, match=r"f\.tsv:77777: .* got 2"):
        read(tmp_path / "f.tsv")


NEO4J = """:START_ID(A),since:int,tags:string[],day:date,sure:boolean,:END_ID(B),:TYPE
é1,1999,a;b,2024-05-31,true,2,KNOWS
é2,,,,false,1,KNOWS
"""
GRAPHML = """<graphml><key id="d0" for="edge" attr.name="since" attr.type="int"/><key id="d1" attr.name="name"/>
<graph edgedefault="directed"><node id="é"><data key="d1">é</data></node><node id="b"/>
<edge source="é" target="b" label="R"><data key="d0">1999</data></edge></graph></graphml>
"""
JSONLD = """{"@context": {"r": {"@id": "http://x/r", "@type": "@id"}, "n": "http://x/n"},
"@id": "http://x/é", "r": ["http://x/b", "http://x/c"], "n": [1, "a", true, {"@value": "b", "@language": "en"}]}
"""
RDFXML = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/">
<rdf:Description rdf:about="http://x/é"><x:r rdf:resource="http://x/b"/><x:n
rdf:datatype="http://www.w3.org/2001/XMLSchema#date">2024-05-31</x:n></rdf:Description></rdf:RDF>
"""
TRIG = """@prefix : <http://x/> . :g { :é :r :b {| :truth 0.5 ; :since 1999 |} . } :b :n 1, 1.5, "x"@en, true .
"""
OTHERS = {"n.csv": NEO4J, "f.graphml": GRAPHML, "f.jsonld": JSONLD, "f.rdf": RDFXML, "f.trig": TRIG}


@pytest.mark.parametrize("file", ["f.tsv", "f.csv", "f.nt", "f.ttl", "f.tsv.gz", "f.parquet", *OTHERS])
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path: Path, file: str) -> None:
    """Random bytes anywhere in a good file: a graph or a clear error, never anything else."""
    path = tmp_path / file
    facts = [(f"http://x/é{i % 7}", "http://x/r", f"http://x/{i % 5}", round(i / 40, 3)) for i in range(30)]
    if file == "f.parquet":
        pd.DataFrame(facts, columns=["h", "r", "t", "truth"]).to_parquet(path)
        whole = path.read_bytes()
    elif file in OTHERS:
        whole = OTHERS[file].encode()
        path.write_bytes(whole)
        read(path)
    elif file in ("f.nt", "f.ttl"):
        whole = "".join(f"<{h}> <{r}> <{t}> .\n" for h, r, t, _ in facts).encode()
    else:
        mark = "," if file == "f.csv" else "\t"
        whole = "".join(mark.join(map(str, fact)) + "\n" for fact in facts).encode()
        whole = gzip.compress(whole) if file.endswith(".gz") else whole
    chance = random.Random(file)
    refused = []
    for _ in range(80):
        raw = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(raw))
            raw[place : place + chance.randrange(3)] = chance.choice(
                [b"", b"\t", b"\n", b"\r", b'"', b",", b"\0", b"\xff", b"9", b"\xef\xbb\xbf", b"\n\n"]
            )
        path.write_bytes(raw)
        try:
            read(path)
        except BadInput as error:
            refused.append(str(error))
    assert refused
    assert [message for message in refused if file not in message or "\n" in message] == []


def test_nothing_is_not_an_empty_graph() -> None:
    with pytest.raises(BadInput, match="nothing to read"):
        read(None)  # type: ignore[arg-type]
