"""The files of the page: small, kept for ever under their version, whole under any prefix."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tuplet.serve.assets import WEB, Assets
from tuplet.serve.http import HTTPProblem, Reply, Request


@pytest.fixture(scope="module")
def assets() -> Assets:
    return Assets()


def sent(assets: Assets, path: str, **headers: str) -> Reply:
    return assets.reply(
        Request("GET", path, "", {k.replace("_", "-").encode(): v.encode() for k, v in headers.items()})
    )


def bytes_of(reply: Reply) -> bytes:
    assert isinstance(reply.body, bytes)
    return reply.body


def test_everything_together_is_small(assets: Assets) -> None:
    sizes = {name: len(asset.packed or asset.body) for name, asset in assets.files.items() if "LICENSE" not in name}
    assert sum(sizes.values()) < 200_000
    assert sum(size for name, size in sizes.items() if not name.startswith("vendor/")) < 65_000, "before the drawings"


def test_the_page_names_every_module_of_its_version(assets: Assets) -> None:
    page = bytes_of(sent(assets, "/")).decode()
    assert sent(assets, "/").headers["cache-control"] == "no-cache"
    named = re.findall(r'(?:src|href)="([^"#]+)"', page)
    assert all(name.startswith(f"web/{assets.version}/") for name in named), "relative, so that it works in a folder"
    modules = {path.name for path in WEB.glob("*.js")}
    assert {name.rsplit("/", 1)[1] for name in named if name.endswith(".js")} == modules
    for name in named:
        assert "immutable" in sent(assets, f"/{name}").headers["cache-control"]


def test_modules_and_requests_have_relative_addresses() -> None:
    for path in WEB.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"""(?:from|import|fetch\(|get\(|post\(|postJson\()\s*["'`]/""", text), path.name


def test_compressed_if_asked_for_and_fresh(assets: Assets) -> None:
    packed = sent(assets, "/web/page.js", accept_encoding="gzip, br")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(bytes_of(packed)) == bytes_of(sent(assets, "/web/page.js")) == (WEB / "page.js").read_bytes()
    assert packed.headers["cache-control"] == "no-cache", "without the version it may change"
    other = sent(assets, "/web/0123456789ab/page.js")
    assert (other.status, other.headers["cache-control"]) == (200, "no-cache"), "a page of another version goes on"
    assert sent(assets, "/web/page.js", if_none_match=packed.headers["etag"]).status == 304
    for path in ("/web/", "/web/nothing.js", "/web/../app.py", "/web/vendor", f"/web/{assets.version}/"):
        with pytest.raises(HTTPProblem):
            sent(assets, path)


def test_another_content_is_another_version(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<head></head>")
    (tmp_path / "page.js").write_text("1")
    first = Assets(tmp_path).version
    assert Assets(tmp_path).version == first
    (tmp_path / "page.js").write_text("2")
    assert Assets(tmp_path).version != first
