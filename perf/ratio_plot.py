"""Plots ratios: one row per workload, one panel per figure, a dot for the median and a line from lowest to highest.

The scale is logarithmic, so that twice as fast and half as fast are equally far from 1. The SVG is written directly, so
that no library is needed to make or to view it.
"""

from __future__ import annotations

import math
from html import escape

from perf.ratios import OURS, THEIRS, Ratios, Spread, shown
from perf.results import CPU, LATENCY, MEMORY, THROUGHPUT, Figure

PANELS: tuple[Figure, ...] = (THROUGHPUT, CPU, LATENCY, MEMORY)
TICKS = (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1_000.0)
LEAST_SCALE = (0.5, 2.0)

ROW, PANEL, GAP, TOP, BOTTOM, MARGIN = 22, 190, 70, 76, 40, 12
CHARACTER = 6.7  # width of one, on average, at this size
AHEAD, BEHIND, INK, FAINT, GRID = "#1a7f5a", "#b3402e", "#222222", "#666666", "#dddddd"


def to_svg(ratios: Ratios) -> str:
    """The whole picture."""
    names = [each.name for each in ratios.workloads]
    label_width = max([len(name) for name in names], default=0) * CHARACTER + 2 * MARGIN
    width = label_width + len(PANELS) * (PANEL + GAP)
    height = TOP + ROW * len(names) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12" fill="{INK}" role="img">',
        f"<title>{escape(_alternative(ratios))}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        _text(MARGIN, 20, f"{OURS} to {THEIRS}: how many times ahead", size=15),
        _text(MARGIN, 38, _note(ratios), fill=FAINT),
    ]
    parts += [_text(MARGIN, _row(number) + 4, name) for number, name in enumerate(names)]
    for number, figure in enumerate(PANELS):
        parts += _panel(ratios, figure, label_width + number * (PANEL + GAP), height)
    return "\n".join([*parts, "</svg>", ""])


def _panel(ratios: Ratios, figure: Figure, left: float, height: float) -> list[str]:
    found = [each.ratios.get(figure.key) for each in ratios.workloads]
    low, high = _range([each for each in found if each is not None])
    scale = _Scale(low, high, left)
    parts = [_text(left, TOP - 18, figure.title.partition(",")[0] if figure is not LATENCY else "p99 created to bound")]
    for tick in TICKS:
        if low <= tick <= high:
            colour = INK if tick == 1.0 else GRID
            x = scale.x(tick)
            parts.append(_line(x, TOP - 6, x, height - BOTTOM + 4, colour))
            parts.append(_text(x, height - BOTTOM + 18, f"{tick:g}", fill=FAINT, anchor="middle"))
    for number, each in enumerate(found):
        if each is not None:
            parts += _mark(each, scale, _row(number), left)
    return parts


def _mark(found: Spread, scale: _Scale, y: float, left: float) -> list[str]:
    colour = AHEAD if found.median >= 1 else BEHIND
    return [
        _line(scale.x(found.lowest), y, scale.x(found.highest), y, colour, 2),
        f'<circle cx="{scale.x(found.median):.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>',
        _text(left + PANEL + 6, y + 4, shown(found.median), fill=colour),
    ]


class _Scale:
    """Maps a ratio to a position on a logarithmic scale."""

    def __init__(self, low: float, high: float, left: float) -> None:
        self._low, self._span, self._left = math.log(low), math.log(high) - math.log(low), left

    def x(self, ratio: float) -> float:
        return self._left + PANEL * (math.log(ratio) - self._low) / self._span


def _range(found: list[Spread]) -> tuple[float, float]:
    """From tick to tick around all there is, and around 1."""
    low = min([each.lowest for each in found] + [LEAST_SCALE[0]])
    high = max([each.highest for each in found] + [LEAST_SCALE[1]])
    below = [tick for tick in TICKS if tick <= low]
    above = [tick for tick in TICKS if tick >= high]
    return (below[-1] if below else low, above[0] if above else high)


def _row(number: int) -> float:
    return TOP + ROW * (number + 0.5)


def _note(ratios: Ratios) -> str:
    facts = ratios.facts
    rounds = max([each.rounds for work in ratios.workloads for each in work.ratios.values()], default=0)
    part = "PARTIAL. " if facts.partial else ""
    return f"{part}Right of 1, {OURS} is ahead. Dot: median of {rounds} paired rounds; line: lowest to highest."


def _alternative(ratios: Ratios) -> str:
    reported = []
    for figure in PANELS:
        medians = [each.ratios[figure.key].median for each in ratios.workloads if figure.key in each.ratios]
        if medians:
            reported.append(f"{figure.title}: {shown(min(medians))} to {shown(max(medians))}")
    return f"Ratios of {OURS} to {THEIRS} over {len(ratios.workloads)} workloads. {'; '.join(reported)}."


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: int = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"'
        ' stroke-linecap="round"/>'
    )


def _text(x: float, y: float, text: str, *, fill: str = INK, size: int = 12, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" font-size="{size}" text-anchor="{anchor}">{escape(text)}</text>'
    )
