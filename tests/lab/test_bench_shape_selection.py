"""What `--shapes` selects."""

from __future__ import annotations

import pytest

from tuplet.errors import BadInput
from tuplet.lab.bench.query_types import select, types
from tuplet.lab.bench.shapes import BETAE, JOINT


def test_names_sets_families_and_enumerations() -> None:
    assert [s.name for s in select("3fc, 2fp")] == ["3fc", "2fp"]
    assert tuple(s.name for s in select("paper14")) == JOINT
    assert tuple(s.name for s in select("betae14")) == BETAE
    assert [s.name for s in select("joint:k=5,1p")] == [
        f"5f{kind}" for kind in ["pn", "p", "pm", "d", "dm", "cn", "c"]
    ] + ["1p"]
    chosen = select("published741:k=2,c=2,n=1,t=C,1p")
    expected = [
        t
        for t in types("published741")
        if (len(t.free), len(t.constants), t.negations, t.topology) == (2, 2, 1, "C")
    ]  # fmt: skip
    assert [s.name for s in chosen] == [*(t.name for t in expected), "1p"]
    assert len(expected) > 10
    assert len(select("complete")) == 1907


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2fz", "unknown shape '2fz'; did you mean '2f"),
        ("paper41", "did you mean 'paper14'"),
        ("2fp,,3fp", "empty item"),
        ("complete:", "empty item"),
        ("complete:k", "written key=value, not 'k'"),
        ("complete:z=1", "unknown condition 'z'; choose 'k', 'e', 'c', 'n' or 't'"),
        ("complete:k=9", "no type of complete has k=9"),
        ("joint", "joint:k=4"),
        ("2fp:k=2", "takes no conditions"),
        ("k=2", "unknown shape 'k=2'"),
    ],
)
def test_what_cannot_be_selected_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message) as error:
        select(text)
    assert "\n" not in str(error.value)
