"""A report of benchmark results: Markdown, LaTeX, CSV and one HTML page with charts.

Runs are compared only on the same queries: results with different query sets get separate tables. Published numbers
stand beside as context, on their own queries.
"""

from __future__ import annotations

import csv
import html
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tuplet.errors import BadInput
from tuplet.files import refuse_existing, replacing
from tuplet.lab.bench.hardness import STRATA
from tuplet.lab.bench.metrics import KINDS, NAMES, Estimate, bootstrap
from tuplet.lab.bench.results import ResultRow, RunManifest, read_rows
from tuplet.lab.bench.shapes import JOINT

RANK_SUMS = "joint_hit10"  # of runs that rank each variable on its own
LINK_METRICS = ("hit10", "mrr")  # those that are reported by predicted links
MANY = 40  # shapes: beyond, tables show the means only
TITLES = {"mrr": "MRR", "hit1": "HIT@1", "hit3": "HIT@3", "hit10": "HIT@10"}


@dataclass(frozen=True, eq=False)
class Result:
    """One run: what it was, and its rows."""

    manifest: RunManifest
    rows: Sequence[ResultRow]

    @staticmethod
    def read(folder: str | os.PathLike[str], unfinished: bool = False) -> Result:
        """The result in a folder; one that is not done yet is refused unless `unfinished` ones are welcome."""
        manifest, rows = RunManifest.read(folder), read_rows(folder)
        if len(rows) < manifest.count and not unfinished:
            raise BadInput(f"{folder} is unfinished ({len(rows)} of {manifest.count} queries); run it again")
        if not rows:
            raise BadInput(f"{folder} has no results yet")
        return Result(manifest, rows)

    @property
    def label(self) -> str:
        """The engine and what is not the default; the observed splits, if they are not train and valid."""
        settings = self.manifest.settings
        options = dict(settings.options)
        parts = [settings.engine]
        if "budget" in options:
            parts.append(f"B={options.pop('budget')}")
        parts += [value if key == "merge" else f"{key}={value}" for key, value in options.items()]
        if settings.logic != "product":
            parts.append(settings.logic)
        if self.manifest.observed not in ("all", "train+valid"):
            parts.append(f"(observed {self.manifest.observed})")
        return " ".join(parts)

    @property
    def sweep(self) -> tuple[str, float] | None:
        """The label without the budget, and the budget; None without one."""
        budget = self.manifest.settings.options.get("budget")
        if isinstance(budget, bool) or not isinstance(budget, int | float):
            return None
        return self.label.replace(f" B={budget}", ""), float(budget)

    @property
    def shapes(self) -> dict[str, int]:
        """Shapes in order, with the number of their free variables."""
        return {row.shape: row.k for row in self.rows}

    @cached_property
    def estimates(self) -> dict[str, dict[str, Estimate]]:
        """Metric → shape, `k=…` or `all` → mean with its interval."""
        found: dict[str, dict[str, Estimate]] = {}
        ranked_alone = any(row.hard_variables is not None for row in self.rows)
        for metric in (*NAMES, *([RANK_SUMS] if ranked_alone else [])):
            values = self._by_shape([getattr(row, metric) or 0.0 for row in self.rows])  # refused: missed
            by_shape, overall = bootstrap(values)
            found[metric] = dict(by_shape)
            for k in sorted(set(self.shapes.values())):
                found[metric][f"k={k}"] = bootstrap({s: values[s] for s, n in self.shapes.items() if n == k})[1]
            found[metric]["all"] = overall
        return found

    @cached_property
    def by_links(self) -> dict[str, dict[str, Estimate]]:
        """Metric → `links=…`, or a shape and `links=…` → mean over the answers in that stratum."""
        found: dict[str, dict[str, Estimate]] = {metric: {} for metric in LINK_METRICS}
        for metric, stratum in product(LINK_METRICS, range(1, STRATA + 1)):
            values = self._by_shape([getattr(row, f"links{stratum}_{metric}") for row in self.rows])
            if values:
                by_shape, overall = bootstrap(values)
                found[metric] |= {f"{shape} links={stratum}": e for shape, e in by_shape.items()}
                found[metric][f"links={stratum}"] = overall
        return found

    def _by_shape(self, column: Sequence[float | None]) -> dict[str, list[float]]:
        values: dict[str, list[float]] = {}
        for row, value in zip(self.rows, column, strict=True):
            if value is not None:
                values.setdefault(row.shape, []).append(value)
        return values

    @property
    def quality(self) -> dict[str, float]:
        """Shares of queries answered, proven and decided, times in milliseconds, memory, recall of what was kept."""
        times = np.array([row.ms for row in self.rows])
        return {
            "answered": float(np.mean([row.answered for row in self.rows])),
            "exact": float(np.mean([row.exact for row in self.rows])),
            "decided": float(np.mean([row.decided for row in self.rows])),
            "mean_ms": float(times.mean()),
            "p99_ms": float(np.percentile(times, 99)),
            "total_s": float(times.sum() / 1e3),
            "peak_mb": max(row.peak_mb for row in self.rows),
            **{
                name: float(np.mean(values))
                for name in ("recall", "recall_variable")
                if (values := [v for row in self.rows if (v := getattr(row, name)) is not None])
            },
        }


@dataclass(frozen=True)
class ReportTable:
    """Cells as text; the first column names the rows."""

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str = ""


def tables(runs: Sequence[Result]) -> list[ReportTable]:
    """The tables of runs on the same queries: one for each metric, HIT@10 first, and one of coverage and time."""
    graph = _graph(runs[0])
    made = []
    for metric in ("hit10", "mrr", "hit1", "hit3"):
        keys = list(runs[0].estimates[metric])
        many = len(runs[0].shapes) > MANY
        if many:
            keys = [key for key in keys if key == "all" or key.startswith("k=")]
        context = _published_hit10(graph) if metric == "hit10" else {}
        context = {name: cells for name, cells in context.items() if not cells.keys().isdisjoint(runs[0].shapes)}
        alone = [run for run in runs if metric == "hit10" and RANK_SUMS in run.estimates]
        rows = []
        for key in keys:
            cells = [_cell(run.estimates[metric].get(key)) for run in runs]
            cells += [_cell(run.estimates[RANK_SUMS].get(key)) for run in alone]
            cells += [_format_published(cells_of, key, runs[0].shapes) for cells_of in context.values()]
            rows.append([_row_name(key), *cells])
        header = ["shape", *(run.label for run in runs), *(f"{run.label}, rank sums" for run in alone)]
        header += [f"{name} (published)" for name in context]
        note = "Percent; ± is half the 95 % bootstrap interval over queries."
        if many:
            note += f" Means over {len(runs[0].shapes)} types, which report.csv lists one by one."
        if alone:
            note += " Rank sums: the Joint metric of EFOk-CQA, from one ranking for each variable."
        if context:
            note += " Published numbers are on other queries of these types: context, not a comparison."
        made.append(ReportTable(f"Joint {TITLES[metric]}", header, rows, note))
    optional = (links_table(runs), topology_table(runs))
    return [*made, *(table for table in optional if table is not None), coverage_table(runs)]


def links_table(runs: Sequence[Result]) -> ReportTable | None:
    """HIT@10 and MRR by the number of links that must be predicted; None if the links were never counted."""
    groups = {f"links={n}": f"{n}+" if n == STRATA else f"{n}" for n in range(1, STRATA + 1)}
    kept = [group for group in groups if any(group in run.by_links["hit10"] for run in runs)]
    if not kept:
        return None
    columns = [(run, metric) for metric in LINK_METRICS for run in runs]
    rows = [[groups[group], *(_cell(run.by_links[metric].get(group)) for run, metric in columns)] for group in kept]
    header = ["predicted links", *(f"{run.label}, {TITLES[metric]}" for run, metric in columns)]
    note = (
        "Percent, over the scored answers that need at least this number of predicted links: the mean of a query, then "
        "of the queries of a shape that have such answers, then of these shapes; report.csv has them shape by shape. ± "
        "is half the 95 % bootstrap interval over queries."
    )
    return ReportTable("By predicted links", header, rows, note)


def coverage_table(runs: Sequence[Result]) -> ReportTable:
    """Shares answered, proven and kept, their cost, and HIT@10 by the number of free variables."""
    groups = [key for key in runs[0].estimates["hit10"] if key.startswith("k=") or key == "all"]
    rows = []
    for run in runs:
        q = run.quality
        shares = [
            f"{100 * q[name]:.1f}" if name in q else "–"
            for name in ("answered", "decided", "exact", "recall_variable", "recall")
        ]
        cost = [f"{q['mean_ms']:.2f}", f"{q['p99_ms']:.2f}", f"{q['total_s']:.1f}", f"{q['peak_mb']:,.0f}"]
        rows.append([run.label, *(f"{100 * run.estimates['hit10'][key].mean:.1f}" for key in groups), *shares, *cost])
    header = [
        "run",
        *(f"HIT@10 {_row_name(key)}" for key in groups),
        *("answered %", "decided %", "proven %", "recall per variable %", "recall %"),
        *("mean ms", "p99 ms", "total s", "peak MB"),
    ]
    note = (
        "Decided: HIT@10 is exact. Proven: the list is certified to be the true one (of ns3 its ten best). Recall: "
        "hard tuples kept by pruning: in the joint box (ns3), or by the marginals of all members (ns3-marginal). "
        "Times are those of the processes added up, ranks included; units answered at once share their time evenly. "
        "Peak MB: the largest worker process, memory-mapped files included."
    )
    return ReportTable("Coverage, time and memory", header, rows, note)


def topology_table(runs: Sequence[Result]) -> ReportTable | None:
    """HIT@10 of Marginal, Multiply and Joint by existential variables and topology, as EFOk-CQA groups them.

    Means over queries, of those where every free variable has a hard value; None if no run ranked variables alone.
    """
    kept = {
        run.label: [r for r in run.rows if r.hard_variables is not None and r.hard_variables == r.k] for run in runs
    }
    groups = sorted({(r.e, "SMC".index(r.topology)) for rows in kept.values() for r in rows})
    if not groups:
        return None
    body = []
    for label, rows in kept.items():
        for kind in KINDS if rows else ():
            cells = []
            for e, t in groups:
                values = [getattr(r, f"{kind}_hit10") for r in rows if (r.e, r.topology) == (e, "SMC"[t])]
                cells.append(f"{100 * np.mean(values):.1f}" if values else "–")
            mean = f"{100 * np.mean([getattr(r, f'{kind}_hit10') for r in rows]):.1f}"
            body.append([f"{label}, {kind.capitalize()}", *cells, mean, f"{len(rows):,}"])
    for method, cells in _published_efok(_graph(runs[0]), [(e, "SMC"[t]) for e, t in groups]).items():
        body.append([f"{method} (published)", *cells, "–"])
    header = ["run", *(f"e={e} {'SMC'[t]}" for e, t in groups), "mean", "queries"]
    note = (
        "HIT@10 from marginal rankings, percent; S tree, M multi-edge, C cyclic. Means over queries of all types, "
        "of those where every free variable has a hard value."
    )
    return ReportTable("Marginal, Multiply, Joint", header, body, note)


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    if estimate.low == estimate.high:
        return f"{100 * estimate.mean:.1f}"  # one query, or all alike: nothing to resample
    return f"{100 * estimate.mean:.1f} ± {50 * (estimate.high - estimate.low):.1f}"


def _row_name(key: str) -> str:
    return {"all": "mean"}.get(key, f"mean {key}" if key.startswith("k=") else key)


def _format_published(cells: Mapping[str, float], key: str, shapes: Mapping[str, int]) -> str:
    """A published cell, or the mean of the published cells that the row averages; – if one of them is missing."""
    wanted = [key]
    if key == "all" or key.startswith("k="):
        wanted = [s for s, k in shapes.items() if key in ("all", f"k={k}")]
    return f"{np.mean([cells[s] for s in wanted]):.1f}" if all(s in cells for s in wanted) else "–"


def _short(value: Any) -> Any:
    """A number with four digits, a dictionary as its values, a learned calibration as its name."""
    if isinstance(value, dict) and "names" in value:
        return value["name"]
    if isinstance(value, dict):
        return " ".join(str(_short(v)) for v in value.values())
    return f"{value:.4g}" if isinstance(value, float) else value


_STATED = {  # what made the truth values, and what is said where nobody knows
    "predictor": "not stated (a truth table made elsewhere)",
    "calibration": "not stated",
    "threshold": "none",
}


def description(runs: Sequence[Result]) -> list[str]:
    """Graph, queries and stores that the numbers rest on, one line each."""
    queries, store = runs[0].manifest.queries, runs[0].manifest.store
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
    rests: dict[str, list[str]] = {}
    for run in runs:
        shown = {k: _short(v) for k, v in run.manifest.store.items()}
        made = "; ".join(f"{key} {shown.get(key) or default}" for key, default in _STATED.items())
        count = run.manifest.count
        rest = "" if len(run.rows) == count else f" Unfinished: {len(run.rows):,} of {count:,} queries."
        rests.setdefault(f"observed {run.manifest.observed}; {made}.{rest}", []).append(run.label)
    lines += [f"{', '.join(labels)}: {what}" for what, labels in rests.items()]
    return lines


# --- published numbers -----------------------------------------------------------------------------------------------

# HIT@10 in percent of the 14 joint types: context beside our tables, never a comparison. The query sets behind these
# numbers are not public. The cells cn and c of FB15k-237 look interchanged in the source and are uncertain.
_PUBLISHED = {
    "FB15k-237": {
        "NS3(J)": "11.4 28.5 28.3 16.2 10.0 36.5 19.2 8.4 19.4 26.2 8.0 8.4 17.0 8.9",
        "NS3(M)": "4.5 14.4 14.1 6.0 3.9 13.7 6.0 5.2 14.9 17.9 3.7 5.2 7.3 3.1",
        "FIT": "3.3 9.7 7.7 5.7 3.2 14.9 10.1 2.9 8.5 6.7 3.1 4.2 5.9 3.5",
    },
    "FB15k": {
        "NS3(J)": "40.3 61.3 67.2 61.6 64.5 47.2 65.7 30.2 45.0 48.4 35.6 39.7 17.2 37.2",
        "NS3(M)": "11.3 28.0 36.0 17.5 20.1 32.9 24.5 11.0 27.0 32.6 12.0 15.0 3.3 15.0",
        "FIT": "10.7 19.7 24.3 13.3 14.6 19.9 19.9 5.3 14.5 18.0 9.0 10.3 8.1 9.5",
    },
    "NELL995": {
        "NS3(J)": "15.8 32.8 53.9 26.9 21.9 24.2 50.2 14.7 25.3 41.0 21.4 31.6 11.7 21.0",
        "NS3(M)": "9.5 13.8 30.5 16.9 13.5 8.5 24.4 8.9 20.1 34.4 19.5 30.9 4.8 8.4",
        "FIT": "8.8 11.9 24.0 17.1 11.6 12.9 29.1 5.7 16.4 27.2 18.6 31.2 7.7 9.5",
    },
}
_GROUPS = ((0, "S"), (0, "M"), (1, "S"), (1, "M"), (1, "C"), (2, "S"), (2, "M"), (2, "C"))
_EFOK = {  # HIT@10 of EFOk-CQA, two free variables and two constants: _GROUPS, then the mean
    "FB15k-237": {
        "NS3(M), Marginal": "48.0 46.7 46.0 46.1 59.0 35.5 33.2 48.7 42.8",
        "NS3(M), Multiply": "40.1 33.9 36.9 33.3 40.2 34.6 31.1 39.1 34.8",
        "NS3(M), Joint": "6.9 7.6 7.4 7.7 14.6 3.3 3.3 9.0 6.6",
        "FIT, Marginal": "45.9 43.1 45.0 45.4 50.2 36.4 34.8 42.0 41.2",
        "FIT, Multiply": "40.7 34.3 37.2 34.4 33.7 36.2 34.7 33.7 35.0",
        "FIT, Joint": "6.7 7.0 7.1 7.2 11.7 3.2 3.4 7.1 5.9",
    },
    "FB15k": {
        "NS3(M), Marginal": "82.0 83.6 81.6 83.4 55.5 76.7 78.9 82.2 79.1",
        "NS3(M), Multiply": "81.8 83.1 81.1 82.7 44.4 78.0 79.3 46.6 78.5",
        "NS3(M), Joint": "19.9 24.2 21.1 23.5 19.7 13.0 14.3 18.5 18.5",
    },
}
_SIZES = {(14_505, 237): "FB15k-237", (14_951, 1_345): "FB15k", (63_361, 200): "NELL995"}


def _graph(run: Result) -> str | None:
    return _SIZES.get((run.manifest.store["entities"], run.manifest.store["relations"]))


def _published_hit10(graph: str | None) -> dict[str, dict[str, float]]:
    """Method → shape → HIT@10 in percent."""
    rows = _PUBLISHED.get(graph or "", {})
    return {method: dict(zip(JOINT, map(float, cells.split()), strict=True)) for method, cells in rows.items()}


def _published_efok(graph: str | None, groups: Sequence[tuple[int, str]]) -> dict[str, list[str]]:
    """Method → HIT@10 of EFOk-CQA for each (existential variables, topology) and the mean; none for other groups."""
    rows = _EFOK.get(graph or "", {}) if tuple(groups) == _GROUPS else {}
    return {method: cells.split() for method, cells in rows.items()}


# --- the files -----------------------------------------------------------------------------------------------------


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
    parts = ["# Benchmark results\n"]
    for number, runs in enumerate(sets, start=1):
        parts.append(f"## Query set {number}\n")
        parts += [f"- {line}" for line in description(runs)]
        for table in tables(runs):
            parts.append(f"\n### {table.title}\n")
            parts.append("| " + " | ".join(_escape(cell) for cell in table.header) + " |")
            parts.append("|" + "---|" * len(table.header))
            parts += ["| " + " | ".join(_escape(cell) for cell in row) + " |" for row in table.rows]
            parts.append(f"\n{table.note}")
        parts.append("")
    return "\n".join(parts)


def _escape(cell: str) -> str:
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
    """One self-contained page: tables, and charts (extra `plots`); no script, nothing loaded from elsewhere."""
    parts = []
    for number, runs in enumerate(sets, start=1):
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in description(runs))
        parts.append(f"<h2>Query set {number}</h2><ul>{lines}</ul>")
        parts.append(f'<div class="charts">{"".join(draw_charts(runs))}</div>')
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


def draw_charts(runs: Sequence[Result]) -> list[str]:
    """HIT@10 against time, runs that differ in their budget joined; HIT@10, time and recall against the budget."""
    if find_spec("altair") is None or find_spec("vl_convert") is None:
        return ["<p class=\"note\">Charts are drawn where altair is installed: pip install 'tuplet[plots]'</p>"]
    swept: dict[str, list[tuple[float, Result]]] = {}
    for run in runs:
        name, budget = run.sweep or (run.label, 0.0)
        swept.setdefault(name, []).append((budget, run))
    names = list(swept)
    swept = {name: sorted(found, key=lambda entry: entry[0]) for name, found in swept.items()}
    front = [
        _point(name, max(run.quality["mean_ms"], 1e-3), run, "all") for name, found in swept.items() for _, run in found
    ]
    drawn = [_chart("Joint HIT@10 against time", "mean ms per query", "HIT@10, %", front, names)]
    budgeted = {name: [entry for entry in found if entry[0]] for name, found in swept.items()}
    lines = [(name, budget, run) for name, found in budgeted.items() if len(found) > 1 for budget, run in found]
    if not lines:
        return drawn
    ends = min(budget for _, budget, _ in lines), max(budget for _, budget, _ in lines)
    # Without a budget, and proven: what the budgeted runs may hope for.
    proven = next((run for run in runs if run.sweep is None and run.quality["exact"] > 0), None)
    for group in [key for key in runs[0].estimates["hit10"] if key.startswith("k=")]:
        level = [] if proven is None else [_point(proven.label, budget, proven, group, level=True) for budget in ends]
        points = [_point(name, budget, run, group) for name, budget, run in lines]
        drawn.append(
            _chart(f"Joint HIT@10 against the budget, {group}", "budget B", "HIT@10, %", level + points, names)
        )
    for title, label, quality, scale in (
        ("Time against the budget", "mean ms per query", "mean_ms", 1),
        ("Hard tuples kept", "recall, %", "recall", 100),
    ):
        known = [(name, budget, scale * run.quality[quality]) for name, budget, run in lines if quality in run.quality]
        points = [{"run": name, "x": x, "y": y, "low": y, "high": y, "level": False} for name, x, y in known]
        if points:
            drawn.append(_chart(title, "budget B", label, points, names))
    return drawn


def _point(name: str, x: float, run: Result, group: str, level: bool = False) -> dict[str, Any]:
    """A point with its interval; those of a `level`, to compare with, are joined by a dashed line without marks."""
    e = run.estimates["hit10"][group]
    return {"run": name, "x": x, "y": 100 * e.mean, "low": 100 * e.low, "high": 100 * e.high, "level": level}


def _chart(title: str, x: str, y: str, points: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    """An SVG chart with a logarithmic x axis and a y axis from 0; bars are the intervals, colours go by name."""
    alt = import_module("altair")

    def base(own: Sequence[dict[str, Any]]) -> Any:
        legend = alt.Legend(orient="bottom", columns=1, labelLimit=500)
        colour = alt.Color("run:N", title=None, scale=alt.Scale(domain=list(names)), legend=legend)
        across = alt.X("x:Q", title=x, scale=alt.Scale(type="log"))
        return alt.Chart(alt.Data(values=list(own))).encode(x=across, color=colour)

    up = alt.Y("y:Q", title=y, scale=alt.Scale(domainMin=0))
    dash = alt.StrokeDash("level:N", legend=None, scale=alt.Scale(domain=[False, True], range=[[1, 0], [6, 4]]))
    own = base([point for point in points if not point["level"]])
    layers = [
        base(points).mark_line().encode(y=up, strokeDash=dash),
        own.mark_rule().encode(y="low:Q", y2="high:Q"),
        own.mark_point(filled=True, opacity=1, size=50).encode(y=up, tooltip=["run:N", "x:Q", "y:Q"]),
    ]
    out = io.StringIO()
    alt.layer(*layers).properties(title=title, width=480, height=240).save(out, format="svg")
    return out.getvalue()
