"""Draws folded stacks as a flame graph: one SVG file, to be opened in a browser.

    python -m perf.flame stacks.txt flame.svg

A frame's width is its share of the time; above each function are those that it calls. The pointer shows names and
shares, a click zooms into a frame, a click at the bottom shows everything again. Colours distinguish kernels, the rest
of kscheduler, the measuring code, and everything else.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from perf.profile_stacks import Stacks, functions, parse

WIDTH = 1200
MARGIN = 10
ROW = 17  # pixels
TOP = 58  # for title and legend
LETTER = 6.6  # pixels, of a 11-pixel monospaced font
LEAST = 0.15  # pixels; what is narrower cannot be seen

# Kind of frame -> hue, saturation in percent.
KINDS = {"kernels": (8, 78), "kscheduler": (32, 90), "simulation, measuring": (205, 35), "others": (95, 28)}

# The numbers on each <g> are the frame's share of the graph; zooming maps the clicked frame's range to the full width.
SCRIPT = """
const all = [...document.querySelectorAll("g[data-x]")], width = %d, margin = %d, letter = %.1f;
function zoom(from, share, depth) {
  for (const g of all) {
    const x = (+g.dataset.x - from) / share * width, w = +g.dataset.w / share * width;
    const below = +g.dataset.depth < depth;
    const left = Math.max(0, x), right = Math.min(width, x + w);
    g.style.display = right - left < 0.15 ? "none" : "";
    g.style.opacity = below ? 0.5 : 1;
    const rect = g.querySelector("rect"), text = g.querySelector("text");
    rect.setAttribute("x", margin + left); rect.setAttribute("width", Math.max(0, right - left));
    text.setAttribute("x", margin + left + 3);
    const letters = Math.floor((right - left - 6) / letter), name = g.dataset.name;
    text.textContent = letters < 3 ? "" : name.length <= letters ? name : name.slice(0, letters - 1) + "\\u2026";
  }
}
for (const g of all) g.addEventListener("click", () => zoom(+g.dataset.x, +g.dataset.w, +g.dataset.depth));
"""


@dataclass(slots=True)
class Frame:
    name: str
    count: int = 0
    callees: dict[str, Frame] = field(default_factory=dict)  # name -> frame of a function called from this one


@dataclass(frozen=True, slots=True)
class Box:
    name: str
    depth: int
    x: float  # 0..1
    width: float  # 0..1
    count: int


def tree(stacks: Stacks) -> Frame:
    """Stacks merged from the outermost frame on, under one root."""
    root = Frame("all")
    for stack, count in stacks.items():
        frame = root
        frame.count += count
        for name in stack:
            frame = frame.callees.setdefault(name, Frame(name))
            frame.count += count
    return root


def boxes(root: Frame) -> Iterator[Box]:
    """Where each frame is drawn: callees side by side, in the order of their names, none wider than its caller."""
    pending = [(root, 0, 0.0)]
    while pending:
        frame, depth, x = pending.pop()
        yield Box(frame.name, depth, x, frame.count / root.count, frame.count)
        for name in sorted(frame.callees):
            pending.append((frame.callees[name], depth + 1, x))
            x += frame.callees[name].count / root.count


def draw(stacks: Stacks, title: str) -> str:
    """The SVG document. ValueError if there is no sample."""
    root = tree(stacks)
    if not root.count:
        raise ValueError("expected at least one sample, got none")
    width = WIDTH - 2 * MARGIN
    drawn = [box for box in boxes(root) if box.width * width >= LEAST]
    height = TOP + ROW * (1 + max(box.depth for box in drawn)) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        "<style>svg{background:#fff}text{font:11px monospace;pointer-events:none}"
        "g[data-x]{cursor:pointer}g:hover rect{stroke:#222}</style>",
        f'<text x="{MARGIN}" y="20" style="font-size:15px">{escape(title)}</text>',
        *_legend(),
        *(_group(box, height, root.count) for box in drawn),
        f"<script><![CDATA[{SCRIPT % (width, MARGIN, LETTER)}]]></script>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _legend() -> Iterator[str]:
    x = MARGIN
    for kind, (hue, saturation) in KINDS.items():
        yield f'<rect x="{x}" y="31" width="12" height="12" fill="hsl({hue},{saturation}%,68%)"/>'
        yield f'<text x="{x + 17}" y="41">{kind}</text>'
        x += 40 + round(LETTER * len(kind))


def _group(box: Box, height: int, total: int) -> str:
    left, width = MARGIN + box.x * (WIDTH - 2 * MARGIN), box.width * (WIDTH - 2 * MARGIN)
    y = height - MARGIN - ROW * (box.depth + 1)
    name = escape(box.name, quote=True)
    return (
        f'<g data-x="{box.x:.7f}" data-w="{box.width:.7f}" data-depth="{box.depth}" data-name="{name}">'
        f"<title>{name}: {box.count:,} samples, {100 * box.count / total:.2f}%</title>"
        f'<rect x="{left:.2f}" y="{y}" width="{width:.2f}" height="{ROW - 1}" rx="1" fill="{_colour(box.name)}"/>'
        f'<text x="{left + 3:.2f}" y="{y + 12}">{escape(_fitted(box.name, width))}</text></g>'
    )


def _fitted(name: str, width: float) -> str:
    letters = int((width - 6) / LETTER)
    if letters < 3:
        return ""
    return name if len(name) <= letters else name[: letters - 1] + "…"


def kind_of(frame: str) -> str:
    if "(kscheduler/_fast/" in frame:
        return "kernels"
    if "(kscheduler/simulator/" in frame or "(perf/" in frame or "(tests/" in frame:
        return "simulation, measuring"
    return "kscheduler" if "(kscheduler/" in frame else "others"


def _colour(frame: str) -> str:
    """The same for the same name, a little lighter or darker than its neighbours'."""
    hue, saturation = KINDS[kind_of(frame)]
    return f"hsl({hue},{saturation}%,{62 + zlib.crc32(frame.encode()) % 14}%)"


def main(argv: Sequence[str] | None = None) -> int:
    paths = sys.argv[1:] if argv is None else argv
    if len(paths) != 2:
        print("usage: python -m perf.flame STACKS SVG", file=sys.stderr)
        return 2
    source, target = map(Path, paths)
    with source.open(encoding="utf-8") as lines:
        stacks = functions(parse(lines))
    target.write_text(draw(stacks, source.name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
