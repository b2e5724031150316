"""The documentation's links lead somewhere, and the checker notices when they do not."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def links() -> ModuleType:
    spec = importlib.util.spec_from_file_location("links", ROOT / "tools" / "links.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_link_of_the_documentation_leads_somewhere(links: ModuleType) -> None:
    assert links.dead_links(ROOT) == []


def test_a_dead_link_is_named_with_its_page_and_line(links: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text(
        "# Other\n\n```\n# no heading\n```\n\n## A `part` of it\n## A part of it\n"
    )
    (tmp_path / "docs" / "page.md").write_text(
        "[fine](other.md#a-part-of-it) [second](other.md#a-part-of-it_1) `[code](gone.md)` [web](https://example.org)\n"
        "[gone](gone.md)\n\n[no heading](other.md#no-heading)\n![up](../README.md)\n"
    )
    (tmp_path / "README.md").write_text("[page](docs/page.md)\n")
    assert links.dead_links(tmp_path) == [
        "docs/page.md:2: gone.md: no such file",
        "docs/page.md:4: other.md#no-heading: no such heading",
        "docs/page.md:5: ../README.md: outside docs/, so it is not on the site",
    ]
