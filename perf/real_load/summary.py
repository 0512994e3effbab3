"""Summarises the runs as a table: one row per configuration."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.simulator.units import percent
from perf.real_load.runs import Run

# Title, and what it means, for the page.
COLUMNS = (
    ("CPU imbalance", "standard deviation of real CPU load over nodes, mean over time"),
    ("highest CPU", "of any node at any time; above 100 % its pods want more than there is"),
    ("over 80 %", "node-minutes with a CPU load above"),
    ("over 90 %", "the same"),
    ("over 100 %", "the same"),
    ("memory imbalance", "standard deviation of real memory load over nodes, mean over time"),
    ("CPU requested, imbalance", "standard deviation of what pods on them request: what the default profile evens out"),
    ("pods placed", ""),
)


def cells(run: Run) -> list[str]:
    """In the order of COLUMNS."""
    cpu, memory = run.figures("cpu"), run.figures("memory")
    overs = (cpu.over_80_node_s, cpu.over_90_node_s, cpu.over_100_node_s)
    return [
        percent(cpu.deviation),
        percent(cpu.max, 0),
        *(f"{over / 60:,.0f} min" for over in overs),
        percent(memory.deviation),
        percent(cpu.requested_deviation),
        f"{run.report.pods.placed:,}",
    ]


def table(runs: Sequence[Run]) -> str:
    rows = [["", *(title for title, _ in COLUMNS)]]
    rows += [[run.configuration.title, *cells(run)] for run in runs]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) if index else cell.ljust(width) for index, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    )
