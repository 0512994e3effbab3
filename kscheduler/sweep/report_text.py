"""Formats the report of a sweep as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kscheduler.counted import counted
from kscheduler.simulator.report_text import aligned_table
from kscheduler.sweep.comparison import MAX_FAILURES, Cell, Difference, SweepReport

MAX_ROWS = 60  # of each table; all are in the JSON and HTML forms


def to_text(report: SweepReport) -> str:
    """Return tables of means, of differences to the baseline, and of quality beside speed."""
    blocks = [
        [_headline(report)],
        _cut(cells_table(report)),
        _titled(f"paired by seed, difference to {report.baseline}:", differences_table(report)),
        _titled(f"quality ({report.quality}) beside speed:", front_table(report)),
        _failures(report),
        [f"warning: {warning}" for warning in report.warnings],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def cells_table(report: SweepReport) -> list[list[str]]:
    """Return the rows of the table of means, the first one its header."""
    header = ["trace", "cluster", "config", "runs", *report.metrics]
    return [header, *(_cell_row(cell, report.metrics) for cell in report.cells)]


def differences_table(report: SweepReport) -> list[list[str]]:
    """Return the rows of the table of differences, the first one its header; [] without differences."""
    if not report.differences:
        return []
    header = ["trace", "cluster", "config", "metric", "mean", "standard error", "wins", "losses", "ties", ""]
    return [header, *(_difference_row(difference) for difference in report.differences)]


def front_table(report: SweepReport) -> list[list[str]]:
    """Return the rows of the Pareto table, the first one its header; [] if there is nothing to choose from."""
    if not report.front:
        return []
    header = ["trace", "cluster", "config", report.quality, "decisions/s", "on the front"]
    return [
        header,
        *(
            [
                point.trace,
                point.cluster,
                point.config,
                number(point.quality),
                number(point.speed),
                "yes" if point.on_front else "no",
            ]
            for point in report.front
        ),
    ]


def _headline(report: SweepReport) -> str:
    left = report.runs - report.finished
    parts = [f"{report.finished:,} of {report.runs:,} runs finished"]
    if report.failed:
        parts.append(f"{report.failed:,} failed")
    if left:
        parts.append(f"{left:,} left")
    return ", ".join(parts)


def _cell_row(cell: Cell, metrics: Sequence[str]) -> list[str]:
    runs = f"{cell.runs}"
    if cell.failed:
        runs += f" ({cell.failed} failed)"
    values = []
    for metric in metrics:
        summary = cell.metrics.get(metric)
        if summary is None:
            values.append("-")
        elif summary.deviation is None or not summary.deviation:
            values.append(number(summary.mean))
        else:
            values.append(f"{number(summary.mean)} ± {summary.deviation:.2g}")
    return [cell.trace, cell.cluster, cell.config, runs, *values]


def _difference_row(difference: Difference) -> list[str]:
    error = difference.standard_error
    return [
        difference.trace,
        difference.cluster,
        difference.config,
        difference.metric,
        f"{difference.mean:+.4g}" if difference.mean else "0",
        "-" if error is None else f"{error:.2g}",
        str(difference.wins),
        str(difference.losses),
        str(difference.ties),
        "clear" if difference.is_clear else "",
    ]


def _failures(report: SweepReport) -> list[str]:
    lines = [
        f"  {failure.run.trace}, {failure.run.cluster}, {failure.run.config}, seed {failure.run.seed}: {failure.error}"
        for failure in report.failures[:MAX_FAILURES]
    ]
    more = len(report.failures) - len(lines)
    if more > 0:
        lines.append(f"  and {more:,} more; all are in report.json")
    return ["failed runs:", *lines] if lines else []


def _titled(title: str, rows: list[list[str]]) -> list[str]:
    return [title, *_cut(rows)] if rows else []


def _cut(rows: Iterable[list[str]]) -> list[str]:
    """Return the aligned lines of a table, and how many are left out if there are many."""
    listed = list(rows)
    lines = aligned_table(listed[: MAX_ROWS + 1])
    more = len(listed) - MAX_ROWS - 1
    return [*lines, f"and {counted(more, 'more row')}, in report.json"] if more > 0 else lines


def number(value: float) -> str:
    """Format a figure with four significant digits, and large whole numbers in full."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
