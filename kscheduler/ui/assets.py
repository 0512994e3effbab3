"""Reads the files of the page: an index, styles, ES modules without a framework, and uPlot, which draws its charts.

`page/vendor/` holds uPlot as npm publishes it, with its licence; `vendored.json` there has its version and each
file's SHA-256.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

INDEX = "index.html"
STYLES = ("vendor/uPlot.min.css", "style.css")
CHARTS = "vendor/uPlot.iife.min.js"
# In an order in which each module comes after those that it imports.
MODULES = (
    "format.js",
    "dom.js",
    "route.js",
    "report.js",
    "bars.js",
    "claims.js",
    "chart.js",
    "table.js",
    "scrubber.js",
    "nodemap.js",
    "gangs.js",
    "overview.js",
    "pending.js",
    "scores.js",
    "decision.js",
    "nodes.js",
    "timeline.js",
    "notes.js",
    "domains.js",
    "reasons.js",
    "compare.js",
    "command.js",
    "trials.js",
    "whatif.js",
    "compose.js",
    "shell.js",
    "main.js",
)
FILES = (INDEX, *STYLES, CHARTS, *MODULES)
# The page of a running scheduler has a start of its own, and views over the same parts.
LIVE = "live/main.js"
LIVE_MODULES = (
    "live/connection.js",
    "live/overview.js",
    "live/queue.js",
    "live/decisions.js",
    "live/pod.js",
    "live/nodes.js",
    LIVE,
)
LIVE_STYLE = "live/style.css"
LIVE_FILES = (INDEX, *STYLES, LIVE_STYLE, CHARTS, *(name for name in MODULES if name != "main.js"), *LIVE_MODULES)
_NOSCRIPT = re.compile(r'<noscript><p class="noscript">[^<]*</p>')


@cache
def asset(name: str) -> str:
    """Return the text of one of FILES."""
    return files("kscheduler.ui").joinpath("page", name).read_text(encoding="utf-8")


def live_asset(name: str) -> str:
    """Return the text of one of LIVE_FILES; the index starts the page of a running scheduler."""
    text = asset(name)
    if name != INDEX:
        return text
    text = _NOSCRIPT.sub(
        '<noscript><p class="noscript">This page needs JavaScript. `kscheduler explain` does not.</p>', text
    )
    text = text.replace('<script type="module" src="main.js">', f'<script type="module" src="{LIVE}">')
    return text.replace("</head>", f'<link rel="stylesheet" href="{LIVE_STYLE}">\n</head>', 1)
