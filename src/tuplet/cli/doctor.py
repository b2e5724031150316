"""What `tuplet doctor` tells: versions, devices, memory, extras, and whether the kernels are compiled."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import re
import time
from importlib import metadata
from typing import Any

from tuplet._version import __version__

CORE = ("numpy", "numba", "pyarrow", "pyoxigraph", "safetensors", "torch")
MISSING = "not installed"
FOR_DEVELOPERS = ("test", "docs", "all")  # extras that no user misses


def run_doctor(arguments: argparse.Namespace) -> dict[str, Any]:
    """`tuplet doctor`: everything worth knowing when something does not work."""
    about: dict[str, Any] = {
        "tuplet": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count() or 1,
        "memory": _memory(),
        "packages": {name: _version(name) for name in CORE},
        "extras": _extras(),
        "devices": _devices(),
        "data": os.environ.get("TUPLET_DATA", "TUPLET_DATA is not set"),
    }
    missing = [extra for extra, packages in about["extras"].items() if MISSING in packages]
    if missing:
        about["install"] = f"pip install 'tuplet[{','.join(missing)}]' brings what is missing"
    if arguments.warm:
        about["kernels"] = compiled_kernels()
    return about


def _extras() -> dict[str, str]:
    """Each extra with the versions of what it brings, as the installed package lists them."""
    found: dict[str, list[str]] = {}
    try:
        required = metadata.requires("tuplet") or []
    except metadata.PackageNotFoundError:
        required = []
    for line in required:
        named = re.match(r"([\w.-]+).*;\s*extra\s*==\s*[\"'](\w+)[\"']", line)
        if named and named[1] != "tuplet" and named[2] not in FOR_DEVELOPERS:
            version = _version(named[1], f"'tuplet[{named[2]}]'")
            found.setdefault(named[2], []).append(f"{named[1]} {version}")
    return {extra: ", ".join(packages) for extra, packages in found.items()}


def _version(package: str, wanted: str = "") -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return f"{MISSING} (pip install {wanted or package})"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    except (ValueError, OSError):
        return "unknown"


def _devices() -> str:
    if importlib.util.find_spec("torch") is None:
        return "cpu (no torch: nothing can be trained)"
    import torch

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return ", ".join(["cpu", *names])


def compiled_kernels() -> str:
    """Use everything that is compiled on something small, so that it is on disk for the next process."""
    import tuplet
    from tuplet.engines import exact
    from tuplet.query import evidence
    from tuplet.read.datasets import bundled
    from tuplet.truth.two_step import TwoStepRules

    start = time.perf_counter()
    tuplet.Store(tuplet.Source(bundled())).ask("?x, ?y : borders(?x, ?y)", k=1, engine="crisp")
    exact.warm()
    exact.warm(weighted=True)
    evidence.load()
    rules = TwoStepRules.from_edges(9, 3, [0, 1, 2, 3, 4, 5, 0, 1], [0, 0, 0, 1, 1, 1, 2, 2], [3, 4, 5, 6, 7, 8, 6, 7])
    rules.pairs(2, least=0.2)
    return f"ready after {time.perf_counter() - start:.1f} s"
