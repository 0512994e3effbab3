"""Plots the loads of nodes: one panel per rule, one bar per node from least to most loaded, and a line at the mean.

The SVG is written directly, so that no library is needed to make or to view it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from html import escape

COLUMNS = 4
WIDTH, HEIGHT, GAP, TOP, MARGIN = 210, 130, 46, 56, 20
FULL = 100.0  # percent
USED, OVER, INK, FAINT, GRID = "#3b6ea8", "#b3402e", "#222222", "#666666", "#dddddd"


def to_svg(title: str, loads: Mapping[str, Sequence[float]]) -> str:
    """`loads`: rule -> load of each node, in percent."""
    rows = -(-len(loads) // COLUMNS)
    width = 2 * MARGIN + COLUMNS * (WIDTH + GAP) - GAP
    height = TOP + rows * (HEIGHT + GAP + 20)
    top = max([max(each, default=0.0) for each in loads.values()] + [FULL])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' font-family="sans-serif" font-size="12" fill="{INK}" role="img">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        _text(MARGIN, 24, title, size=15),
    ]
    for number, (rule, each) in enumerate(loads.items()):
        left = MARGIN + number % COLUMNS * (WIDTH + GAP)
        parts += _panel(rule, sorted(each), left, TOP + number // COLUMNS * (HEIGHT + GAP + 20), top)
    return "\n".join([*parts, "</svg>", ""])


def _panel(rule: str, loads: Sequence[float], left: float, above: float, top: float) -> list[str]:
    scale = HEIGHT / top
    bottom = above + 20 + HEIGHT
    step = WIDTH / max(len(loads), 1)
    mean = statistics.fmean(loads) if loads else 0.0
    deviation = statistics.pstdev(loads) if loads else 0.0
    most = max(loads, default=0.0) - mean
    parts = [_text(left, above + 10, rule)]
    for tick in (0.0, FULL):
        y = bottom - tick * scale
        parts.append(_line(left, y, left + WIDTH, y, GRID))
        parts.append(_text(left + WIDTH + 4, y + 4, f"{tick:.0f}", fill=FAINT, size=10))
    parts += [
        f'<rect x="{left + number * step:.2f}" y="{bottom - load * scale:.1f}" width="{max(step - 0.3, 0.3):.2f}"'
        f' height="{load * scale:.1f}" fill="{OVER if load > FULL else USED}"/>'
        for number, load in enumerate(loads)
    ]
    parts.append(_line(left, bottom - mean * scale, left + WIDTH, bottom - mean * scale, INK))
    note = f"deviation {deviation:.1f}, most {most:.1f} above mean"
    parts.append(_text(left, bottom + 16, note, fill=FAINT, size=11))
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, *, fill: str = INK, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" font-size="{size}">{escape(text)}</text>'
