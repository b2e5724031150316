"""Print what serving needs, one requirement per line: everything but torch, which only computes what a store holds.

python packaging/serving_requirements.py > requirements.txt
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
wanted = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
sys.stdout.write("".join(f"{line}\n" for line in wanted if re.split(r"[^\w-]", line)[0] != "torch"))
