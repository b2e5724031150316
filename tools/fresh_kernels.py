"""Delete compiled kernels that are older than the newest source they may have been made from.

Numba keeps compiled code beside each file and makes it again when that file changes, but not when a function of another
file changes that was compiled into it. After a pull such a mixture may compute nonsense, or crash.

With `--compile` those that are missing are then made, as by `tuplet doctor --warm`. That needs no torch, so that it can
be done while torch is being installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tuplet"


def main() -> None:
    """Delete what is too old; what is deleted is compiled again when it is needed, or at once."""
    compiled = [*SOURCE.rglob("*.nbi"), *SOURCE.rglob("*.nbc")]
    # __pycache__/kernels.find-45.py311.nbi is of kernels.py
    sources = {file.parents[1] / f"{file.name.partition('.')[0]}.py" for file in compiled}
    newest = max((file.stat().st_mtime for file in sources if file.exists()), default=0.0)
    if any(file.stat().st_mtime < newest for file in compiled):
        for file in compiled:
            file.unlink(missing_ok=True)
        print(f"{len(compiled)} compiled kernels were older than their sources, and are made again")
    if "--compile" in sys.argv[1:]:
        sys.path.insert(0, str(SOURCE.parent))
        from tuplet.cli.doctor import compiled_kernels

        print(f"kernels {compiled_kernels()}")


if __name__ == "__main__":
    main()
