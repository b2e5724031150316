"""Debian's nginx with the recipe of `packaging/nginx.conf`, in front of servers of the tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (apt-get install nginx-light)")
RECIPE = Path(__file__).parents[2] / "packaging" / "nginx.conf"


def configuration(folder: Path, port: int, replicas: Sequence[int]) -> str:
    """The recipe with other ports and folders, and what a file of its own needs around it."""
    site = RECIPE.read_text()
    for written, replica in zip((8001, 8002), (*replicas, *replicas), strict=False):
        site = site.replace(f"127.0.0.1:{written}", f"127.0.0.1:{replica}")
    if len(replicas) == 1:  # the same server twice is no balance
        site = re.sub(r"(    server 127.*\n)\1", r"\1", site)
    site = site.replace("listen 80;", f"listen 127.0.0.1:{port};").replace(
        "/var/cache/nginx/tuplet", str(folder / "cache")
    )
    site = site.replace("rate=100r/s", "rate=100000r/s")  # the load of the tests comes from one address
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder / kind};\n" for kind in kinds)
    user = "user root;\n" if os.geteuid() == 0 else ""  # the folder is that of who runs the tests
    files = f"{user}pid {folder / 'pid'};\nerror_log {folder / 'error.log'} warn;\n"
    return f"{files}worker_processes 1;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{site}}}\n"


@contextmanager
def balanced(folder: Path, port: int, replicas: Sequence[int]) -> Iterator[str]:
    """The address of an nginx in front of these ports."""
    assert NGINX is not None
    (folder / "nginx.conf").write_text(configuration(folder, port, replicas))
    command = [NGINX, "-c", str(folder / "nginx.conf"), "-p", str(folder), "-e", str(folder / "start.log")]
    process = subprocess.Popen([*command, "-g", "daemon off;"], stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(200):
            assert process.poll() is None, process.stderr and process.stderr.read()
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)
