"""Formats the report as plain text for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kscheduler.counted import counted
from kscheduler.input.printable import printable
from kscheduler.simulator.gang_book import HOLDING, GangRuns
from kscheduler.simulator.report import Report, ResourceFigures
from kscheduler.simulator.report_load import RealLoadReport
from kscheduler.simulator.units import amount, percent, seconds

TOP_REASONS = 8
TOP_GANGS = 3
_WIDEST_MESSAGE = 140
_NONE_AVAILABLE = re.compile(r"0/\d+ nodes are available: ")


def to_text(report: Report) -> str:
    """Return a few dozen lines: headline figures, resources, and the reasons why pods have no node."""
    blocks = [
        _violations(report),
        _pods(report),
        _times(report),
        _resources(report.resources),
        _real_load(report.real_load),
        _nodes(report),
        _gangs(report.gangs),
        _reasons(report),
        _machine(report),
        [f"note: {note}" for note in report.notes],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _violations(report: Report) -> list[str]:
    return [f"INVARIANT VIOLATED: {violation}" for violation in report.violations]


def _pods(report: Report) -> list[str]:
    pods = report.pods
    asked = pods.total - pods.existing
    lines = [f"placed {pods.placed:,} of {counted(asked, 'pod')} ({percent(pods.placed / asked if asked else 1.0, 2)})"]
    if pods.unplaced:
        lines.append(f"{counted(pods.unplaced, 'still waits', 'still wait')} for a node")
    if pods.left_unplaced:
        lines.append(f"{pods.left_unplaced:,} left before they got one")
    preempted = len(report.preempted)
    if pods.finished:
        left = {"finished": pods.finished - preempted, "preempted": preempted}
        ended = "".join(f"{number:,} {how}, " for how, number in left.items() if number)
        lines.append(f"{ended}{counted(pods.running, 'is on a node', 'are on nodes')} at the end")
    attempts = ", ".join(f"{count:,} {result}" for result, count in report.attempts.items())
    lines.append(f"ended after {seconds(report.simulated_s)} of virtual time: {report.ending}")
    return [*lines, f"attempts: {attempts}"] if attempts else lines


def _times(report: Report) -> list[str]:
    latency = report.latency
    if not latency.count:
        return []
    figures = [("p50", latency.p50_s), ("p90", latency.p90_s), ("p95", latency.p95_s), ("p99", latency.p99_s)]
    shown = "  ".join(f"{name} {seconds(value)}" for name, value in [*figures, ("max", latency.max_s)])
    return [f"created to bound, virtual time: {shown}"]


def _resources(resources: Sequence[ResourceFigures]) -> list[str]:
    header = ["resource", "capacity", "average", "peak", "final", "node CV busiest", "fragmentation busiest"]
    rows = [
        [
            figures.name,
            amount(figures.capacity, figures.unit),
            percent(figures.average),
            percent(figures.peak),
            percent(figures.final),
            f"{figures.balance_busiest.variation:.2f}",
            "-" if figures.fragmentation_busiest is None else percent(figures.fragmentation_busiest),
        ]
        for figures in resources
    ]
    return aligned_table([header, *rows])


def _real_load(load: RealLoadReport | None) -> list[str]:
    if load is None:
        return []
    header = ["really used", "mean", "deviation", "highest node", "over 80 %", "over 90 %", "over 100 % (node-minutes)"]
    rows = [
        [
            figures.name,
            percent(figures.mean),
            percent(figures.deviation),
            percent(figures.max),
            *(
                f"{over / 60:,.0f}"
                for over in (figures.over_80_node_s, figures.over_90_node_s, figures.over_100_node_s)
            ),
        ]
        for figures in load.resources
    ]
    return aligned_table([header, *rows])


def _nodes(report: Report) -> list[str]:
    nodes = report.nodes
    return [
        f"{counted(nodes.total, 'node')}: {nodes.empty_when_busiest:,} empty at the busiest moment "
        f"(at {seconds(report.busiest_s)}), {nodes.empty_at_end:,} at the end, {nodes.never_used:,} never used"
    ]


def _gangs(gangs: GangRuns | None) -> list[str]:
    if gangs is None:
        return []
    lines = [f"{gangs.ran:,} of {counted(gangs.total, 'gang')} ran"]
    if gangs.ran:
        lines[0] += f", {seconds(gangs.wait_mean_s)} after their first pod on average, p99 {seconds(gangs.wait_p99_s)}"
    if gangs.holding:
        held = [f"{run.gang} {run.placed} of {run.minimum}" for run in gangs.gangs if run.state == HOLDING]
        more = f" and {gangs.holding - TOP_GANGS:,} more" if gangs.holding > TOP_GANGS else ""
        hold = counted(
            gangs.holding, "holds nodes for fewer pods than it needs", "hold nodes for fewer pods than they need"
        )
        lines.append(f"{hold}: {', '.join(held[:TOP_GANGS])}{more}")
    if gangs.waiting:
        lines.append(f"{counted(gangs.waiting, 'waits and holds', 'wait and hold')} nothing")
    if gangs.incomplete:
        lines.append(f"{counted(gangs.incomplete, 'has fewer pods than its', 'have fewer pods than their')} minimum")
    if gangs.idle_pod_s:
        lines.append(f"pods stood on nodes and waited for their gang: {seconds(gangs.idle_pod_s)} in all")
    return lines


def _reasons(report: Report) -> list[str]:
    lines = [
        f"{reason.pods:>7,}  {_cut(reason.kind)}  (e.g. {reason.examples[0]})"
        for reason in report.reasons[:TOP_REASONS]
    ]
    more = len(report.reasons) - TOP_REASONS
    if more > 0:
        lines.append(f"         and {counted(more, 'other reason')}; all are in the JSON report")
    return ["pods without a node, by reason:", *lines] if lines else []


def _machine(report: Report) -> list[str]:
    machine = report.machine
    if machine is None:
        return []
    return [
        f"on this machine: {machine.wall_s:.2f} s, {machine.decisions_per_s:,.0f} decisions/s, "
        f"{machine.cpu_us_per_placed_pod:,.0f} µs of CPU a placed pod, {machine.peak_memory_mib:,.0f} MiB at most"
    ]


def _cut(message: str) -> str:
    message = printable(message)  # a plugin's words, or an extender's
    if len(message) > _WIDEST_MESSAGE:
        message = _NONE_AVAILABLE.sub("", message)  # the reasons come after it, as in the message of a gang
    return message if len(message) <= _WIDEST_MESSAGE else message[: _WIDEST_MESSAGE - 3] + "..."


def aligned_table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return table rows as aligned lines: the first column to the left, all others to the right."""
    listed = list(rows)
    widths = [max(len(cell) for cell in column) for column in zip(*listed, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in listed
    ]
