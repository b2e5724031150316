"""Tables and one page from benchmark results: Markdown, LaTeX, CSV, HTML.

Runs are compared only on the same queries: results with different query sets get separate tables. Published numbers
stand beside as context, on their own queries.
"""

from __future__ import annotations

import csv
import html
import io
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tuplet.bench import published
from tuplet.bench.evaluate import KINDS, Row
from tuplet.bench.metrics import NAMES, Estimate, bootstrap, coverage
from tuplet.bench.plots import Series, chart
from tuplet.bench.run import read_manifest, read_rows
from tuplet.errors import BadInput

TITLES = {"mrr": "MRR", "hit1": "HIT@1", "hit3": "HIT@3", "hit10": "HIT@10"}


@dataclass(frozen=True, eq=False)
class Result:
    """One run: what it was, and its rows."""

    manifest: Mapping[str, Any]
    rows: Sequence[Row]

    @staticmethod
    def read(folder: str | os.PathLike[str], unfinished: bool = False) -> Result:
        manifest, rows = read_manifest(folder), read_rows(folder)
        if len(rows) < manifest["queries"]["count"] and not unfinished:
            raise BadInput(
                f"{folder} is unfinished ({len(rows)} of {manifest['queries']['count']} queries); run it again"
            )
        if not rows:
            raise BadInput(f"{folder} has no results yet")
        return Result(manifest, rows)

    @property
    def label(self) -> str:
        """The engine and its options."""
        settings = self.manifest["settings"]
        options = {"logic": settings["logic"], **settings["options"]}
        if options["logic"] == "product":
            del options["logic"]
        return " ".join([settings["engine"], *(f"{key}={value}" for key, value in options.items())])

    @property
    def shapes(self) -> dict[str, int]:
        """Shapes in order, with the number of their free variables."""
        return {row["shape"]: row["k"] for row in self.rows}

    @cached_property
    def estimates(self) -> dict[str, dict[str, Estimate]]:
        """Metric → shape, `k=…` or `all` → mean with its interval."""
        found: dict[str, dict[str, Estimate]] = {}
        for metric in NAMES:
            values: dict[str, list[float]] = {}
            for row in self.rows:
                values.setdefault(row["shape"], []).append(row[metric])
            by_shape, overall = bootstrap(values)
            found[metric] = dict(by_shape)
            for k in sorted(set(self.shapes.values())):
                found[metric][f"k={k}"] = bootstrap({s: values[s] for s, n in self.shapes.items() if n == k})[1]
            found[metric]["all"] = overall
        return found

    @property
    def quality(self) -> dict[str, float]:
        """Shares of queries answered, proven and decided, and times in milliseconds."""
        times = np.array([row["ms"] for row in self.rows])
        return {
            "answered": coverage([row["answered"] for row in self.rows]),
            "exact": coverage([row["exact"] for row in self.rows]),
            "decided": float(np.mean([row["decided"] for row in self.rows])),
            "mean_ms": float(times.mean()),
            "p99_ms": float(np.percentile(times, 99)),
            "total_s": float(times.sum() / 1e3),
        }


def write_report(
    folders: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    force: bool = False,
    unfinished: bool = False,
) -> Path:
    """Write `report.md`, `report.tex`, `report.csv` and `index.html` into a folder; all of them or nothing."""
    if not folders:
        raise BadInput("there are no results to report")
    root = Path(target)
    if root.exists() and not force:
        raise BadInput(f"{root} exists; use --force to replace it")
    if root.exists() and not (root / "report.csv").exists() and (not root.is_dir() or any(root.iterdir())):
        raise BadInput(f"{root} is not a benchmark report; it is not replaced")
    groups: dict[str, list[Result]] = {}
    for folder in folders:
        result = Result.read(folder, unfinished)
        groups.setdefault(result.manifest["queries"]["digest"], []).append(result)
    sets = list(groups.values())
    root.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{root.name}.", dir=root.parent))
    try:
        (temporary / "report.md").write_text(markdown(sets), encoding="utf-8")
        (temporary / "report.tex").write_text(latex(sets), encoding="utf-8")
        (temporary / "report.csv").write_text(table_csv(sets), encoding="utf-8")
        (temporary / "index.html").write_text(page(sets), encoding="utf-8")
        temporary.chmod(0o755)
        if root.exists():
            shutil.rmtree(root)
        os.replace(temporary, root)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return root


# --- tables ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column names the rows."""

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str = ""


def tables(runs: Sequence[Result]) -> list[Table]:
    """The tables of runs on the same queries: one for each metric, HIT@10 first, and one of coverage and time."""
    graph = _graph(runs[0])
    made = []
    for metric in ("hit10", "mrr", "hit1", "hit3"):
        keys = list(runs[0].estimates[metric])
        context = published.hit10(graph) if metric == "hit10" else {}
        rows = []
        for key in keys:
            cells = [_cell(run.estimates[metric].get(key)) for run in runs]
            cells += [_published(cells_of, key, runs[0].shapes) for cells_of in context.values()]
            rows.append([_row_name(key), *cells])
        header = ["shape", *(run.label for run in runs), *(f"{name} (published)" for name in context)]
        note = "Percent; ± is half the 95 % bootstrap interval over queries."
        if context:
            note += " Published numbers are on other queries of these types: context, not a comparison."
        made.append(Table(f"Joint {TITLES[metric]}", header, rows, note))
    by_topology = topology_table(runs)
    if by_topology is not None:
        made.append(by_topology)
    rows = []
    for run in runs:
        q = run.quality
        shares = [f"{100 * q[name]:.1f}" for name in ("answered", "exact", "decided")]
        rows.append([run.label, *shares, f"{q['mean_ms']:.2f}", f"{q['p99_ms']:.2f}", f"{q['total_s']:.1f}"])
    header = ["run", "answered %", "proven exact %", "HIT@10 decided %", "mean ms", "p99 ms", "total s"]
    made.append(Table("Coverage and time", header, rows, "Times include scoring the hard tuples and the metrics."))
    return made


def topology_table(runs: Sequence[Result]) -> Table | None:
    """HIT@10 of Marginal, Multiply and Joint by existential variables and topology, as EFOk-CQA groups them.

    Means over queries, of those where every free variable has a hard value; None if no run ranked variables alone.
    """
    kept = {
        run.label: [r for r in run.rows if r["hard_variables"] is not None and r["hard_variables"] == r["k"]]
        for run in runs
    }
    groups = sorted({(r["e"], "SMC".index(r["topology"])) for rows in kept.values() for r in rows})
    if not groups:
        return None
    body = []
    for label, rows in kept.items():
        for kind in KINDS if rows else ():
            cells = []
            for e, t in groups:
                values = [r[f"{kind}_hit10"] for r in rows if (r["e"], r["topology"]) == (e, "SMC"[t])]
                cells.append(f"{100 * np.mean(values):.1f}" if values else "–")
            mean = f"{100 * np.mean([r[f'{kind}_hit10'] for r in rows]):.1f}"
            body.append([f"{label}, {kind.capitalize()}", *cells, mean, f"{len(rows):,}"])
    header = ["run", *(f"e={e} {'SMC'[t]}" for e, t in groups), "mean", "queries"]
    note = (
        "HIT@10 from marginal rankings, percent; S tree, M multi-edge, C cyclic. Means over queries of all types, "
        "of those where every free variable has a hard value."
    )
    return Table("Marginal, Multiply, Joint", header, body, note)


def _graph(run: Result) -> str | None:
    return published.dataset(run.manifest["store"]["entities"], run.manifest["store"]["relations"])


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    return f"{100 * estimate.mean:.1f} ± {50 * (estimate.high - estimate.low):.1f}"


def _row_name(key: str) -> str:
    return {"all": "mean"}.get(key, f"mean {key}" if key.startswith("k=") else key)


def _published(cells: Mapping[str, float], key: str, shapes: Mapping[str, int]) -> str:
    """A published cell, or the mean of the published cells that the row averages; – if one of them is missing."""
    wanted = [key]
    if key == "all" or key.startswith("k="):
        wanted = [s for s, k in shapes.items() if key in ("all", f"k={k}")]
    return f"{np.mean([cells[s] for s in wanted]):.1f}" if all(s in cells for s in wanted) else "–"


def description(runs: Sequence[Result]) -> list[str]:
    """What the numbers rest on, one line each."""
    queries, store = runs[0].manifest["queries"], runs[0].manifest["store"]
    name = _graph(runs[0]) or store["graph"][:12]
    lines = [
        f"Graph: {name}, {store['entities']:,} entities, {store['relations']:,} relations.",
        f"Queries: {queries['count']:,}, digest {queries['digest'][:12]}.",
    ]
    if "rules_version" in queries:
        splits = f"known {'+'.join(queries['known'])}, target {'+'.join(queries['target'])}"
        lines.append(f"Sampled with rules version {queries['rules_version']}, seed {queries['seed']}; {splits}.")
    if queries.get("shortage"):
        lines.append(f"Shapes that could not be filled: {', '.join(queries['shortage'])}.")
    for run in runs:
        about = run.manifest["store"]
        observed = about["observed"] if isinstance(about["observed"], str) else "+".join(about["observed"])
        shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in about.items()}
        made = ", ".join(f"{k} {shown[k]}" for k in ("predictor", "calibration", "threshold") if shown.get(k))
        count = run.manifest["queries"]["count"]
        rest = "" if len(run.rows) == count else f" Unfinished: {len(run.rows):,} of {count:,} queries."
        lines.append(f"{run.label}: observed {observed}{'; ' + made if made else ''}.{rest}")
    return lines


def markdown(sets: Sequence[Sequence[Result]]) -> str:
    """All tables as Markdown."""
    parts = ["# Benchmark results\n"]
    for number, runs in enumerate(sets, start=1):
        parts.append(f"## Query set {number}\n")
        parts += [f"- {line}" for line in description(runs)]
        for table in tables(runs):
            parts.append(f"\n### {table.title}\n")
            parts.append("| " + " | ".join(_escaped(cell) for cell in table.header) + " |")
            parts.append("|" + "---|" * len(table.header))
            parts += ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in table.rows]
            parts.append(f"\n{table.note}")
        parts.append("")
    return "\n".join(parts)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def latex(sets: Sequence[Sequence[Result]]) -> str:
    """All tables as LaTeX (booktabs)."""
    parts = []
    for number, runs in enumerate(sets, start=1):
        for table in tables(runs):
            head = " & ".join(_tex(cell) for cell in table.header)
            body = "\n".join("  " + " & ".join(_tex(cell) for cell in row) + r" \\" for row in table.rows)
            caption = _tex(f"{table.title}, query set {number}. {table.note}")
            columns = "l" + "r" * (len(table.header) - 1)
            parts.append(
                f"\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n"
                f"  {head} \\\\\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
            )
    return "\n".join(parts)


def _tex(text: str) -> str:
    for sign, written in (("\\", r"\textbackslash "), ("%", r"\%"), ("&", r"\&"), ("_", r"\_"), ("#", r"\#")):
        text = text.replace(sign, written)
    return text.replace("±", r"$\pm$").replace("–", "--")


def table_csv(sets: Sequence[Sequence[Result]]) -> str:
    """Every mean with its interval, one row each, for other programs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["query_set", "run", "metric", "group", "mean", "low", "high", "queries"])
    for number, runs in enumerate(sets, start=1):
        for run in runs:
            for metric, groups in run.estimates.items():
                for group, e in groups.items():
                    writer.writerow([number, run.label, metric, group, e.mean, e.low, e.high, e.queries])
            for name, value in run.quality.items():
                writer.writerow([number, run.label, name, "all", value, "", "", len(run.rows)])
    return out.getvalue()


# --- the page ----------------------------------------------------------------------------------------------------

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;color:#1c2430;background:#fff}
table{border-collapse:collapse;margin:.5rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #d8dee6}
th:first-child,td:first-child{text-align:left}
.scroll{overflow-x:auto}.note{color:#55606e;font-size:.9rem}svg{max-width:100%;height:auto}
@media(prefers-color-scheme:dark){body{background:#14181e;color:#e4e8ee}th,td{border-color:#39424e}.note{color:#9aa5b3}}
"""


def page(sets: Sequence[Sequence[Result]]) -> str:
    """One self-contained page: tables and charts, no script, nothing loaded from elsewhere."""
    parts = []
    for number, runs in enumerate(sets, start=1):
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in description(runs))
        parts.append(f"<h2>Query set {number}</h2><ul>{lines}</ul>")
        parts += charts(runs)
        for table in tables(runs):
            head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in table.header)
            body = "".join(
                f'<tr><th scope="row">{html.escape(row[0])}</th>'
                + "".join(f"<td>{html.escape(cell)}</td>" for cell in row[1:])
                + "</tr>"
                for row in table.rows
            )
            parts.append(
                f'<h3>{html.escape(table.title)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
                f'<tbody>{body}</tbody></table></div><p class="note">{html.escape(table.note)}</p>'
            )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Benchmark results</title><style>{_STYLE}</style></head>"
        f"<body><h1>Benchmark results</h1>{''.join(parts)}</body></html>\n"
    )


def charts(runs: Sequence[Result]) -> list[str]:
    """HIT@10 against time for each run, and against the budget where runs have one."""

    def point(run: Result, x: float) -> tuple[float, float, float, float]:
        e = run.estimates["hit10"]["all"]
        return x, 100 * e.mean, 100 * e.low, 100 * e.high

    drawn = [
        chart(
            "Joint HIT@10 against time per query",
            "mean ms per query",
            "HIT@10, %",
            [Series(run.label, (point(run, max(run.quality["mean_ms"], 1e-3)),)) for run in runs],
        )
    ]
    swept: dict[str, list[tuple[float, Result]]] = {}
    for run in runs:
        budget = run.manifest["settings"]["options"].get("budget")
        if isinstance(budget, int | float):
            swept.setdefault(run.manifest["settings"]["engine"], []).append((float(budget), run))
    lines = [
        Series(engine, tuple(point(run, b) for b, run in sorted(entries, key=lambda entry: entry[0])))
        for engine, entries in swept.items()
        if len(entries) > 1
    ]
    if lines:
        drawn.append(chart("Joint HIT@10 against the budget", "budget B", "HIT@10, %", lines))
    return drawn
