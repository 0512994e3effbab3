"""Writes one page about all runs: the table, and plots over virtual time with one line per configuration.

The page loads nothing and needs no script; the SVG is written directly. Colours are those of the simulator's report, in
light and dark.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from html import escape

from kscheduler.simulator.report_load import LoadSeries
from kscheduler.ui.assets import asset
from perf.real_load.runs import DURATION_S, OUTAGE, Run
from perf.real_load.summary import COLUMNS, cells

COLOURS = ("--s5", "--s2", "--s0", "--s3")  # of the configurations, in their order
DASHES = ("", "", "", "5 3")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1180, 250, 56, 12, 10, 40
POINTS = 240  # points per line; more cannot be distinguished at this width
MINUTE = 60.0

Pick = Callable[[LoadSeries], list[float]]
PLOTS: tuple[tuple[str, str, str, Pick], ...] = (  # title, what it shows, resource, values
    (
        "CPU imbalance",
        "Standard deviation of real CPU load over the nodes: 0 is perfectly even.",
        "cpu",
        lambda series: series.deviation,
    ),
    (
        "The most loaded node",
        "Its real CPU load; above 100 % its pods want more than the node has.",
        "cpu",
        lambda series: series.max,
    ),
    ("Nodes over 80 %", "Share of nodes whose real CPU load is above 80 %.", "cpu", lambda series: series.over_80),
    (
        "Memory imbalance",
        "Standard deviation of real memory use over the nodes.",
        "memory",
        lambda series: series.deviation,
    ),
)
_STYLE = """
.kicker { color: var(--accent); font-weight: 600; font-size: 13px; }
.chart svg { display: block; width: 100%; overflow: visible; }
.chart text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
.chart .grid { stroke: var(--grid); stroke-width: 1; }
.chart .axis { stroke: var(--line); stroke-width: 1; }
.chart .line { fill: none; stroke-linejoin: round; stroke-linecap: round; }
.outage { fill: var(--bad); opacity: .08; }
.chart .outage-name { fill: var(--bad); }
.keys { display: flex; flex-wrap: wrap; gap: 4px 22px; font-size: 13px; margin: 0 0 6px; }
.keys span { display: inline-flex; align-items: center; gap: 8px; }
.keys svg { width: 26px; height: 6px; }
.keys line { stroke-width: 3; }
td a { color: var(--accent); }
main { grid-template-columns: minmax(0, 1fr); }
.chart .line { stroke-width: 1.75; }
@media (max-width: 860px) { .chart { overflow-x: auto; } .chart svg { min-width: 760px; } }
"""


def to_page(runs: Sequence[Run]) -> str:
    plots = "\n".join(_card(runs, *plot) for plot in PLOTS)
    style = asset("style.css") + _STYLE
    nodes, pods = runs[0].report.nodes.total, runs[0].report.pods.total
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Placing by real load, and by requests</title>
<style>{style}</style>
</head>
<body>
<header>
  <div class="kicker">kscheduler simulation</div>
  <h1>Placing by real load, and by requests</h1>
  <p class="lead">{nodes:,} nodes and {pods:,} pods whose requests say little about what they use: services that ask for
  five times what they need, jobs that take almost twice what they ask for. The same pods come and go at the same times
  in every run; only the scheduler's configuration differs. Metrics come from metrics.k8s.io, every 15 seconds.</p>
</header>
<main>
  <section class="card wide"><h2>In figures</h2>{_table(runs)}</section>
{plots}
</main>
</body>
</html>
"""


def _table(runs: Sequence[Run]) -> str:
    head = "".join(
        f'<th scope="col" class="number" title="{escape(why)}">{escape(title)}</th>' for title, why in COLUMNS
    )
    rows = "".join(
        f'<tr><td><a href="{run.configuration.name}.html">{escape(run.configuration.title)}</a></td>'
        + "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells(run))
        + "</tr>\n"
        for run in runs
    )
    reported = "; ".join(f"{title}: {why}" for title, why in COLUMNS if why and why != "the same")
    return (
        f'<div class="scroll"><table><thead><tr><th scope="col">Configuration</th>{head}</tr></thead>'
        f'<tbody>{rows}</tbody></table></div><p class="hint">{escape(reported)}.</p>'
    )


def _keys(runs: Sequence[Run]) -> str:
    return "".join(
        f'<span><svg viewBox="0 0 26 6" aria-hidden="true">{_key(index)}</svg>{escape(run.configuration.title)}</span>'
        for index, run in enumerate(runs)
    )


def _key(index: int) -> str:
    return f'<line x1="0" x2="26" y1="3" y2="3" {_stroke(index)}/>'


def _stroke(index: int) -> str:
    return f'stroke="var({COLOURS[index]})" stroke-dasharray="{DASHES[index]}"'


def _card(runs: Sequence[Run], title: str, hint: str, resource: str, pick: Pick) -> str:
    lines = [_thinned(run.load.time_s, pick(run.series(resource))) for run in runs]
    reported = ", ".join(
        f"{run.configuration.title} {100 * sum(line) / len(line):.1f} % on average"
        for run, line in zip(runs, lines, strict=True)
    )
    return f"""  <section class="card wide">
    <h2>{escape(title)}</h2>
    <p class="hint">{escape(hint)}</p>
    <div class="keys">{_keys(runs)}</div>
    <div class="chart" role="img" aria-label="{escape(f"{title} over virtual time: {reported}")}">{_plot(lines)}</div>
  </section>"""


def _thinned(times: Sequence[float], values: Sequence[float]) -> list[float]:
    """The mean of each of POINTS equal times, of values that hold from their times on."""
    step = DURATION_S / POINTS
    found = []
    for index in range(POINTS):
        first, last = bisect_right(times, index * step) - 1, bisect_right(times, (index + 1) * step)
        some = values[max(first, 0) : max(last, first + 1, 1)]
        found.append(sum(some) / len(some))
    return found


def _plot(lines: Sequence[Sequence[float]]) -> str:
    most = max(max(line) for line in lines)
    step = next(size for size in (0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0) if most / size <= 6 or size == 1.0)
    ticks = int(-(-most // step))
    high = ticks * step

    def px(time_s: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * time_s / DURATION_S

    def py(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / high

    start, end = px(OUTAGE.from_s), px(OUTAGE.until_s)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">',
        f'<rect class="outage" x="{start:.1f}" y="{TOP}" width="{end - start:.1f}" height="{HEIGHT - TOP - BOTTOM}"/>',
        f'<text class="outage-name" x="{start + 6:.1f}" y="{TOP + 16}">source fails, in one run</text>',
    ]
    for tick in range(ticks + 1):
        y = py(tick * step)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{100 * tick * step:.0f} %</text>')
    for minute in range(0, int(DURATION_S / MINUTE) + 1, 10):
        x = px(minute * MINUTE)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{minute}</text>')
    parts.append(
        f'<text x="{(WIDTH + LEFT) / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle">virtual time, minutes</text>'
    )
    for index, line in enumerate(lines):
        points = " ".join(
            f"{px(DURATION_S * (at + 0.5) / POINTS):.1f},{py(value):.1f}" for at, value in enumerate(line)
        )
        parts.append(f'<polyline class="line" points="{points}" {_stroke(index)}/>')
    return "".join([*parts, "</svg>"])
