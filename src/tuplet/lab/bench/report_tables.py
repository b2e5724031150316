"""The tables of benchmark results, as text: what a report writes in several formats.

Runs are compared only on the same queries; published numbers stand beside as context, on their own queries.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from tuplet.errors import BadInput
from tuplet.lab.bench import published
from tuplet.lab.bench.hardness import STRATA
from tuplet.lab.bench.marginal_metrics import KINDS
from tuplet.lab.bench.metrics import NAMES, Estimate, bootstrap, coverage
from tuplet.lab.bench.results import ResultRow, RunManifest, read_rows

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
            values: dict[str, list[float]] = {}
            for row in self.rows:
                values.setdefault(row.shape, []).append(getattr(row, metric) or 0.0)  # refused: missed
            by_shape, overall = bootstrap(values)
            found[metric] = dict(by_shape)
            for k in sorted(set(self.shapes.values())):
                found[metric][f"k={k}"] = bootstrap({s: values[s] for s, n in self.shapes.items() if n == k})[1]
            found[metric]["all"] = overall
        return found

    @cached_property
    def by_links(self) -> dict[str, dict[str, Estimate]]:
        """Metric → `links=…`, or a shape and `links=…` → mean over the answers that need so many predicted links."""
        found: dict[str, dict[str, Estimate]] = {metric: {} for metric in LINK_METRICS}
        for metric, stratum in product(LINK_METRICS, range(1, STRATA + 1)):
            values: dict[str, list[float]] = {}
            for row in self.rows:
                value: float | None = getattr(row, f"links{stratum}_{metric}")
                if value is not None:
                    values.setdefault(row.shape, []).append(value)
            if values:
                by_shape, overall = bootstrap(values)
                found[metric] |= {f"{shape} links={stratum}": e for shape, e in by_shape.items()}
                found[metric][f"links={stratum}"] = overall
        return found

    @property
    def quality(self) -> dict[str, float]:
        """Shares of queries answered, proven and decided, times in milliseconds, memory, recall of what was kept."""
        times = np.array([row.ms for row in self.rows])
        return {
            "answered": coverage([row.answered for row in self.rows]),
            "exact": coverage([row.exact for row in self.rows]),
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
        context = published.hit10(graph) if metric == "hit10" else {}
        context = {name: cells for name, cells in context.items() if not cells.keys().isdisjoint(runs[0].shapes)}
        alone = [run for run in runs if metric == "hit10" and RANK_SUMS in run.estimates]
        rows = []
        for key in keys:
            cells = [_cell(run.estimates[metric].get(key)) for run in runs]
            cells += [_cell(run.estimates[RANK_SUMS].get(key)) for run in alone]
            cells += [_published(cells_of, key, runs[0].shapes) for cells_of in context.values()]
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
        "Percent, over the scored answers that need so many predicted links at least: the mean of a query, then of the "
        "queries of a shape that have such answers, then of these shapes; report.csv has them shape by shape. ± is "
        "half the 95 % bootstrap interval over queries."
    )
    return ReportTable("By predicted links", header, rows, note)


def coverage_table(runs: Sequence[Result]) -> ReportTable:
    """What was answered, proven and kept, and what it cost, with HIT@10 by the number of free variables."""
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
    for method, cells in published.efok(_graph(runs[0]), [(e, "SMC"[t]) for e, t in groups]).items():
        body.append([f"{method} (published)", *cells, "–"])
    header = ["run", *(f"e={e} {'SMC'[t]}" for e, t in groups), "mean", "queries"]
    note = (
        "HIT@10 from marginal rankings, percent; S tree, M multi-edge, C cyclic. Means over queries of all types, "
        "of those where every free variable has a hard value."
    )
    return ReportTable("Marginal, Multiply, Joint", header, body, note)


def _graph(run: Result) -> str | None:
    return published.dataset(run.manifest.store["entities"], run.manifest.store["relations"])


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    if estimate.low == estimate.high:
        return f"{100 * estimate.mean:.1f}"  # one query, or all alike: nothing to resample
    return f"{100 * estimate.mean:.1f} ± {50 * (estimate.high - estimate.low):.1f}"


def _row_name(key: str) -> str:
    return {"all": "mean"}.get(key, f"mean {key}" if key.startswith("k=") else key)


def _published(cells: Mapping[str, float], key: str, shapes: Mapping[str, int]) -> str:
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
    """What the numbers rest on, one line each."""
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
