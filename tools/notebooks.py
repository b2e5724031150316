"""The notebooks: run them, compare what they show with what is stored, and make pages of the documentation of them.

`python tools/notebooks.py [NAME...]` runs them and stores their outputs (`make notebooks`). The test suite runs them in
the same settings and compares. MkDocs loads this file as a hook: each notebook becomes a page, with its stored outputs.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"

# How long something took is different every time.
TIME = re.compile(r"\d[\d.,]* ?(?:ms|s|min|µs)\b(?: \d+ s\b)?")
NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e-?\d+)?")
TAG = re.compile(r"<style.*?</style>|<[^>]*>", re.DOTALL)
STYLE = re.compile(r"<style.*?</style>", re.DOTALL)


def notebooks() -> list[Path]:
    """All of them, in the order in which they are read."""
    return sorted(FOLDER.glob("*.ipynb"))


def execute(path: Path, kernel: Any = None) -> dict[str, Any]:
    """The notebook as it is after a run in an empty folder; a cell that fails ends it, unless it says that it will.

    In a kernel of its own, or in a given one (`running_kernel`), from which all variables are removed first.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            km=kernel,
            timeout=600,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        if kernel is not None:
            _empty(kernel, folder)
        client.execute(env=_environment())
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _is_progress(output)]
            for output in cell.outputs:
                if "text" in output:
                    output.text = output.text.replace("\x1b[0m", "")  # a shell resets its colours
    found: dict[str, Any] = json.loads(nbformat.writes(notebook))
    return found


@contextmanager
def running_kernel() -> Iterator[Any]:
    """A kernel that runs several notebooks: to import what they need takes as long as the rest of most of them."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=_environment())
    try:
        yield manager
    finally:
        manager.shutdown_kernel(now=True)


def _empty(kernel: Any, folder: str) -> None:
    """Go to a folder (the one before is gone) and remove all variables."""
    client = kernel.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=600)
        told = client.execute_interactive(f"import os\nos.chdir({folder!r})\n%reset -f", timeout=600)
    finally:
        client.stop_channels()
    if told["content"]["status"] != "ok":
        raise RuntimeError(f"the kernel could not be emptied: {told['content']}")


def _environment() -> dict[str, str]:
    """One thread each, since two notebooks run at a time; `tuplet` in a cell is the one beside this Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}


def _is_progress(output: dict[str, Any]) -> bool:
    """Whether an output tells how far long work is: worth seeing when it runs, and no more when it is done."""
    shown = "".join(output.get("data", {}).get("text/html", ""))
    alone = output["output_type"] == "display_data" and set(output["data"]) == {"text/plain"}
    return shown.startswith("<progress ") or alone or output.get("name") == "stderr"


def differences(stored: dict[str, Any], fresh: dict[str, Any]) -> list[str]:
    """What a run shows other than what is stored: words are equal, numbers are near, pictures are there.

    A cell with the tag `varies` shows what is learned: its words may be others on another machine, its form may not.
    """
    found = []
    for number, (old, new) in enumerate(zip(_code(stored), _code(fresh), strict=True), start=1):
        before, after = ([sorted(_shown(output)) for output in cell["outputs"]] for cell in (old, new))
        if before != after:
            found.append(f"cell {number} shows {after}, not {before}")
            continue
        if "varies" in new["metadata"].get("tags", ()):
            continue
        for one, other in zip(old["outputs"], new["outputs"], strict=True):
            text, now = _words(one), _words(other)
            if not _alike(text, now):
                found.append(f"cell {number} shows\n{now}\nnot\n{text}")
    return found


def _code(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _shown(output: dict[str, Any]) -> list[str]:
    """In which forms an output comes."""
    return [output["output_type"], *output.get("data", {})]


def _words(output: dict[str, Any]) -> str:
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}"
    data = output.get("data", {})
    if "image/svg+xml" in data:
        return ""
    shown = TAG.sub(" ", "".join(data["text/html"])) if "text/html" in data else "".join(data.get("text/plain", ""))
    return TIME.sub("…", shown or "".join(output.get("text", "")))


def _alike(one: str, other: str) -> bool:
    """Whether two texts differ in nothing but a little in their numbers.

    >>> _alike("Mali 0.8496", "Mali 0.8501"), _alike("Mali 0.8", "Niger 0.8"), _alike("3 answers", "7 answers")
    (True, False, False)
    """
    if NUMBER.sub("#", one).split() != NUMBER.sub("#", other).split():
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    values = [(float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs]
    return all(abs(a - b) <= 0.02 + 0.05 * abs(a) for a, b in values)


def page(notebook: dict[str, Any], name: str) -> str:
    """A notebook as Markdown, with what its cells show below them."""
    parts = [f"<!-- notebooks/{name} -->"]
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts.append(f"```python\n{source}\n```")
            parts += [_output(output) for output in cell["outputs"]]
    title, *rest = parts[1:]
    run = f"*This page is a notebook that runs: [notebooks/{name}]({SOURCE}/{name}).*"
    return "\n\n".join([parts[0], title, run, *rest]) + "\n"


SOURCE = "https://github.com/tuplet/tuplet/blob/main/notebooks"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/svg+xml" in data:
        return _framed("".join(data["image/svg+xml"]), ' style="overflow-x:auto"')
    if "text/html" in data:
        # tables look as the theme has them
        return _framed(STYLE.sub("", "".join(data["text/html"])).replace(' border="1" class="dataframe"', ""))
    if output["output_type"] == "error":
        text = f"{output['ename']}: {output['evalue']}"
    else:
        text = "".join(data.get("text/plain", "") or output.get("text", ""))
    return f"<pre>{html.escape(text.rstrip()).replace(chr(10), '<br>')}</pre>"


def _framed(text: str, style: str = "") -> str:
    """HTML on one line, since Markdown would end it at an empty one."""
    return f"<div{style}>{text.replace(chr(10), ' ')}</div>"


def on_files(files: Any, config: Any) -> Any:
    """MkDocs: a page for each notebook."""
    from mkdocs.structure.files import File

    for path in notebooks():
        text = page(json.loads(path.read_text("utf-8")), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
    return files


def _chosen(names: list[str]) -> Iterator[Path]:
    for path in notebooks():
        if not names or any(name in path.stem for name in names):
            yield path


def main(names: list[str]) -> None:
    """Run the notebooks (of these names) and store what they show."""
    for path in _chosen(names):
        print(path.relative_to(ROOT))
        path.write_text(json.dumps(execute(path), indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
