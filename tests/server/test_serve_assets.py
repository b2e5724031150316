"""The files of the page: small, kept for ever under their version, whole under any prefix."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from running_server import request

from tuplet.server.http import HTTPProblem, Reply
from tuplet.server.page import WEB, Assets, bundle


@pytest.fixture(scope="module")
def assets() -> Assets:
    return Assets()


def sent(assets: Assets, path: str, **headers: str) -> Reply:
    return assets.reply(request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()}))


def bytes_of(reply: Reply) -> bytes:
    assert isinstance(reply.body, bytes)
    return reply.body


def test_everything_together_is_small(assets: Assets) -> None:
    asked = ("index.html", "all.css", "all.js", "icon.svg", "vendor/cytoscape.min.js")
    sizes = {name: len(assets.files[name].packed or assets.files[name].body) for name in asked}
    assert sum(sizes.values()) < 190_000, "with headers and what the store holds, under 200 KB"
    assert sum(sizes.values()) - sizes["vendor/cytoscape.min.js"] < 55_000, "before the drawings"


def test_the_page_names_one_script_and_one_sheet_of_its_version(assets: Assets) -> None:
    page = bytes_of(sent(assets, "/")).decode()
    assert sent(assets, "/").headers["cache-control"] == "no-cache"
    named = sorted(set(re.findall(r'(?:src|href)="([^"#]+)"', page)))
    assert named == [f"web/{assets.version}/{name}" for name in ("all.css", "all.js", "icon.svg")], "relative addresses"
    for name in named:
        assert "immutable" in sent(assets, f"/{name}").headers["cache-control"]
    script = bytes_of(sent(assets, "/web/all.js")).decode()
    for path in WEB.glob("*.js"):
        assert f"// {path.name}\n" in script, "every module is used"
    sheet = bytes_of(sent(assets, "/web/all.css"))
    for path in WEB.glob("*.css"):
        assert path.read_bytes() in sheet, "every style sheet is used"


def test_what_the_bundle_does_not_understand_is_an_error() -> None:
    for text in ('import * as a from "./a.js";', "export default 1;", 'import { a } from "./b.js";', "export { a };"):
        with pytest.raises(ValueError, match=r"not understood|not there"):
            bundle({"page.js": text, "a.js": ""}, "page.js")
    with pytest.raises(ValueError, match="each other"):
        bundle({"page.js": 'import "./a.js";', "a.js": 'import "./page.js";'}, "page.js")


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
