"""The recipe for Ray Serve, on a cluster of this machine: two replicas answer as `tuplet serve` does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import free_port
from repeatable import SOAK

PACKAGING = Path(__file__).parents[2] / "packaging"
ASK = """
import json, sys, urllib.request
import ray
from ray import serve
ray.init(num_cpus=2, object_store_memory=100_000_000, include_dashboard=False, logging_level="ERROR")
serve.start(http_options={"port": int(sys.argv[1]), "host": "127.0.0.1"})
from ray_serve import app
serve.run(app)
body = json.dumps({"query": "?x, ?y : borders(?x, ?y) & member_of(?y, nato)", "k": 3}).encode()
for _ in range(20):
    request = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/ask", body, {"content-type": "application/json"})
    answers = json.load(urllib.request.urlopen(request, timeout=60))
    assert len(answers["answers"]) == 3 and answers["exact"], answers
page = urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/", timeout=60).read()
assert b"<title>tuplet</title>" in page
print("answered")
serve.shutdown()
"""


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="a Ray cluster: TUPLET_SOAK=1")
def test_replicas_of_ray_serve_answer(store_path: Path) -> None:
    pytest.importorskip("ray.serve", reason="pip install 'ray[serve]'", exc_type=ImportError)
    paths = [str(PACKAGING), *filter(None, sys.path)]
    environment = {**os.environ, "TUPLET_STORES": str(store_path), "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(free_port())], env=environment, capture_output=True, text=True, timeout=600
    )
    assert "answered" in done.stdout, done.stderr[-3000:]
