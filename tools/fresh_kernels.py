"""Delete compiled kernels that are older than the newest source they may have been made from.

Numba keeps compiled code beside each file and makes it anew when that file changes, but not when a function of another
file changes that was compiled into it. After a pull such a mixture may compute nonsense, or crash.
"""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tuplet"


def main() -> None:
    """Delete what is too old; what is deleted is compiled again when it is needed."""
    compiled = [*SOURCE.rglob("*.nbi"), *SOURCE.rglob("*.nbc")]
    sources = (file for file in SOURCE.rglob("*.py") if "numba" in file.read_text("utf-8"))
    newest = max(file.stat().st_mtime for file in sources)
    if any(file.stat().st_mtime < newest for file in compiled):
        for file in compiled:
            file.unlink(missing_ok=True)
        print(f"{len(compiled)} compiled kernels were older than their sources, and are made anew")


if __name__ == "__main__":
    main()
