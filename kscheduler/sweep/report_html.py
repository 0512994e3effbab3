"""Formats the report of a sweep as one static HTML page without a script, in the style of a simulation's report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from kscheduler.sweep.comparison import SweepReport
from kscheduler.sweep.metrics import metric_named
from kscheduler.sweep.report_text import cells_table, differences_table, front_table
from kscheduler.ui.assets import asset
from kscheduler.ui.page_file import csp_digest

_TEXT_COLUMNS = frozenset(["trace", "cluster", "config", "metric", "error", "on the front", ""])


def to_html(report: SweepReport) -> str:
    """Return the report as a complete HTML page; every name in it is escaped."""
    template = (files("kscheduler.sweep") / "page" / "sweep.html").read_text(encoding="utf-8")
    style = asset("style.css")
    return Template(template).substitute(
        headline=escape(f"{report.finished:,} of {report.runs:,} runs"),
        verdict=_verdict(report),
        means=_table(cells_table(report)),
        differences=_differences(report),
        front=_front(report),
        failures=_failures(report),
        metrics=_html_list([f"{name}: {metric_named(name).text}" for name in report.metrics], "notes"),
        warnings=_html_list(report.warnings, "notes") if report.warnings else "",
        version=escape(report.version),
        style=style,
        digest=csp_digest(style),
    )


def _verdict(report: SweepReport) -> str:
    left = report.runs - report.finished
    if report.failed:
        return f'<div class="verdict bad">{report.failed:,} failed</div>'
    if left:
        return f'<div class="verdict warn">{left:,} are left</div>'
    return '<div class="verdict good">All runs are finished</div>'


def _differences(report: SweepReport) -> str:
    rows = differences_table(report)
    if not rows:
        return '<p class="fine">None: there is no other configuration to compare with.</p>'
    baseline = escape(report.baseline)
    return (
        f'<p class="hint">Each run against the run of {baseline} with the same trace, cluster and seed. A difference '
        "is clear if its mean is further from zero than two standard errors.</p>" + _table(rows)
    )


def _front(report: SweepReport) -> str:
    rows = front_table(report)
    return _table(rows) if rows else '<p class="fine">There is one configuration only.</p>'


def _failures(report: SweepReport) -> str:
    if not report.failures:
        return '<p class="fine">None.</p>'
    rows = [
        [failure.run.trace, failure.run.cluster, failure.run.config, str(failure.run.seed), failure.error]
        for failure in report.failures
    ]
    return _table([["trace", "cluster", "config", "seed", "error"], *rows])


def _table(rows: Sequence[Sequence[str]]) -> str:
    header = [(title, "" if title in _TEXT_COLUMNS else "number") for title in rows[0]]
    return _html_table(header, rows[1:])


def _html_table(header: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table. `header`: (title, CSS class) of each column; cells are plain text, and escaped here."""
    head = "".join(f'<th scope="col"{_class(name)}>{escape(title)}</th>' for title, name in header)
    body = "".join(
        "<tr>"
        + "".join(f"<td{_class(name)}>{escape(cell)}</td>" for cell, (_, name) in zip(row, header, strict=True))
        + "</tr>\n"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _html_list(items: Iterable[str], name: str) -> str:
    """Return an HTML list of CSS class `name`; its items are plain text, and escaped here."""
    return f'<ul class="{name}">' + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"
