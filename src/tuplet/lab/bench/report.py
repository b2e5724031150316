"""A report of benchmark results: Markdown, LaTeX, CSV and one HTML page with charts.

Runs are compared only on the same queries: results with different query sets get separate tables.
"""

from __future__ import annotations

import csv
import html
import io
import os
from collections.abc import Sequence
from pathlib import Path

from tuplet.errors import BadInput
from tuplet.files import refuse_existing, replacing
from tuplet.lab.bench.charts import COLOURS, Series, chart
from tuplet.lab.bench.report_tables import Result, description, tables

__all__ = ["Result", "write_report"]


def write_report(
    folders: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    force: bool = False,
    unfinished: bool = False,
) -> Path:
    """Write `report.md`, `report.tex`, `report.csv` and `index.html` into a folder; all of them or nothing."""
    if not folders:
        raise BadInput("there are no results to report")
    refuse_existing(target, force, _not_a_report)
    groups: dict[str, list[Result]] = {}
    for folder in folders:
        result = Result.read(folder, unfinished)
        groups.setdefault(result.manifest.digest, []).append(result)
    sets = list(groups.values())
    with replacing(target, force, _not_a_report) as fresh:
        fresh.mkdir()
        for name, write in (("md", markdown), ("tex", latex), ("csv", table_csv)):
            (fresh / f"report.{name}").write_text(write(sets), encoding="utf-8")
        (fresh / "index.html").write_text(page(sets), encoding="utf-8")
    return Path(target)


def _not_a_report(path: Path) -> str | None:
    return None if (path / "report.csv").exists() else "it is not a benchmark report"


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
                for group, e in {**groups, **run.by_links.get(metric, {})}.items():
                    writer.writerow([number, run.label, metric, group, e.mean, e.low, e.high, e.queries])
            for name, value in run.quality.items():
                writer.writerow([number, run.label, name, "all", value, "", "", len(run.rows)])
    return out.getvalue()


# --- the page ----------------------------------------------------------------------------------------------------

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;color:#1c2430;background:#fff}
table{border-collapse:collapse;margin:.5rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #d8dee6}
td,th[scope=row]{white-space:nowrap}th:first-child,td:first-child{text-align:left}
.scroll{overflow-x:auto}.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1rem}
.note{color:#55606e;font-size:.9rem}svg{max-width:100%;height:auto}
@media(prefers-color-scheme:dark){body{background:#14181e;color:#e4e8ee}th,td{border-color:#39424e}.note{color:#9aa5b3}}
"""


def page(sets: Sequence[Sequence[Result]]) -> str:
    """One self-contained page: tables and charts, no script, nothing loaded from elsewhere."""
    parts = []
    for number, runs in enumerate(sets, start=1):
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in description(runs))
        parts.append(f"<h2>Query set {number}</h2><ul>{lines}</ul>")
        parts.append(f'<div class="charts">{"".join(charts(runs))}</div>')
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
    """HIT@10 against time, runs that differ in their budget joined; HIT@10, time and recall against the budget."""
    swept: dict[str, list[tuple[float, Result]]] = {}
    for run in runs:
        name, budget = run.sweep or (run.label, 0.0)
        swept.setdefault(name, []).append((budget, run))
    swept = {name: sorted(found, key=lambda entry: entry[0]) for name, found in swept.items()}
    front = [
        Series(name, tuple(_point(run, "all", max(run.quality["mean_ms"], 1e-3)) for _, run in found))
        for name, found in swept.items()
    ]
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(swept)}
    drawn = [chart("Joint HIT@10 against time", "mean ms per query", "HIT@10, %", front, colours)]
    budgeted = {name: [entry for entry in found if entry[0]] for name, found in swept.items()}
    lines = {name: found for name, found in budgeted.items() if len(found) > 1}
    if not lines:
        return drawn
    budgets = [budget for found in lines.values() for budget, _ in found]
    ends = (min(budgets), max(budgets))
    # Without a budget, and proven: what the budgeted runs may hope for.
    proven = next((run for run in runs if run.sweep is None and run.quality["exact"] > 0), None)
    for group in [key for key in runs[0].estimates["hit10"] if key.startswith("k=")]:
        series = []
        if proven is not None:
            series.append(Series(proven.label, tuple(_point(proven, group, b) for b in ends), dashed=True))
        series += [Series(name, tuple(_point(run, group, b) for b, run in found)) for name, found in lines.items()]
        drawn.append(chart(f"Joint HIT@10 against the budget, {group}", "budget B", "HIT@10, %", series, colours))

    def against(title: str, label: str, name: str, scale: float) -> None:
        series = []
        for line, found in lines.items():
            values = [(b, scale * run.quality[name]) for b, run in found if name in run.quality]
            if values:
                series.append(Series(line, tuple((b, y, y, y) for b, y in values)))
        if series:
            drawn.append(chart(title, "budget B", label, series, colours))

    against("Time against the budget", "mean ms per query", "mean_ms", 1)
    against("Hard tuples kept", "recall, %", "recall", 100)
    return drawn


def _point(run: Result, group: str, x: float) -> tuple[float, float, float, float]:
    e = run.estimates["hit10"][group]
    return x, 100 * e.mean, 100 * e.low, 100 * e.high
