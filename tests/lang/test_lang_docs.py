"""The examples of the pages about languages run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "least"), [("reference/language.md", 15), ("how-to/from-sparql.md", 8), ("how-to/from-cypher.md", 8)]
)
def test_examples_of_a_page(page: str, least: int) -> None:
    failed, tried = doctest.testfile(str(DOCS / page), module_relative=False)
    assert failed == 0
    assert tried > least
