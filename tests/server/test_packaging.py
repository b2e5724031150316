"""What lies in `packaging/` speaks of things that are there."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tuplet.server.metrics import FAMILIES

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"


def test_the_dashboard_asks_for_metrics_and_labels_that_exist_and_for_all_of_them() -> None:
    dashboard = json.loads((PACKAGING / "grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(asked) > 25
    names = set()
    for query in asked:
        for name in re.findall(r"\b(?:tuplet|process)_\w+", query):
            family = FAMILIES.get(name) or FAMILIES[re.sub(r"_(bucket|count|sum)$", "", name)]
            assert (family.kind == "histogram") == (name != family.name), query
            assert family.kind != "counter" or "rate(" in query or "increase(" in query, query
            names.add(family.name)
            labels = {"le", "job", "instance", *family.labels}
            by = re.findall(r"by \(([^)]*)\)", query)
            assert {label.strip() for group in by for label in group.split(",")} <= labels, query
            assert set(re.findall(r"(\w+)=~?\"", query)) <= labels, query
    assert names == set(FAMILIES), "and what is counted is shown"


def test_the_container_has_what_serving_needs_but_torch() -> None:
    command = [sys.executable, str(PACKAGING / "serving_requirements.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {*project["dependencies"], *project["optional-dependencies"]["serve"]}
    [left_out] = wanted - set(printed)
    assert left_out.startswith("torch>=")
    recipe = (PACKAGING / "Dockerfile").read_text()
    assert "extra-index-url" not in recipe
    for base in re.findall(r"^FROM (\S+)", recipe, re.MULTILINE):
        assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base), "a tag that stays what it is"
    for copied in re.findall(r"^COPY (?!--from)(.*) \S+$", recipe, re.MULTILINE):
        for name in copied.split():
            assert (ROOT / name).exists(), name


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_valid_and_hardened(tmp_path: Path) -> None:
    unit = tmp_path / "tuplet.service"
    unit.write_text((PACKAGING / "tuplet.service").read_text().replace("/opt/tuplet/bin/tuplet", "/bin/true"))
    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)]
    judged = subprocess.run(command, capture_output=True, text=True)
    assert judged.returncode == 0, judged.stdout[-200:]


def test_flags_in_the_recipes_exist() -> None:
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for name in ("Dockerfile", "tuplet.service", "nginx.conf"):
        text = (PACKAGING / name).read_text()
        started = [line for line in text.splitlines() if "tuplet serve" in line or line.startswith("# docker run")]
        for flag in re.findall(r" (--[a-z][\w-]+)", "\n".join(started)):
            assert f"`{flag}" in reference or flag in ("--stop-timeout", "--memory"), (name, flag)


def test_the_recipe_for_ray_imports_what_there_is() -> None:
    tree = ast.parse((PACKAGING / "ray_serve.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tuplet"):
            module = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name), f"{node.module}.{name.name}"
