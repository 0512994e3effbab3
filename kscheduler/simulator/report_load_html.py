"""Real load on the page of a report: two plots that `page/report.js` draws, and a table."""

from __future__ import annotations

from html import escape

from kscheduler.simulator.report_load import LoadFigures, RealLoadReport
from kscheduler.simulator.units import percent

_UNKNOWN = "What processes really use is not known: pods are taken to use what they request."
_KNOWN = (
    "What pods really use is what their annotations declare; pods that declare nothing use what they request. A load "
    "above 100 % is what a node's pods want and do not get; how they suffer is not modelled. "
    "Metrics of nodes come from these loads, sampled and averaged as metrics-server does."
)
_COLUMNS = (
    ("Resource", ""),
    ("Requested", "number"),
    ("Used", "number"),
    ("Deviation over nodes", "number"),
    ("Highest node", "number"),
    ("Over 80 %, node-minutes", "number"),
    ("Over 90 %", "number"),
    ("Over 100 %", "number"),
)


def load_note(load: RealLoadReport | None) -> str:
    return _UNKNOWN if load is None else _KNOWN


def load_section(load: RealLoadReport | None) -> str:
    """Return the section; "" where no load is declared."""
    if load is None:
        return ""
    said = escape("; ".join(_told(figures) for figures in load.resources))
    return f"""
  <section class="card wide" aria-labelledby="load-title">
    <h2 id="load-title">Real load over time</h2>
    <p class="hint">What pods on nodes use, as a share of a node: the mean, one standard deviation around it, and the
    highest node; beside it the mean of what they request.</p>
    <div class="controls"><div class="segments" role="group" aria-label="Resource" id="load-resource"></div></div>
    <div class="legend" id="load-legend"></div>
    <div class="chart" id="load" role="img" aria-label="Line chart of real load over virtual time: {said}."></div>
    <h3>Nodes that are loaded highly</h3>
    <div class="legend" id="loaded-legend"></div>
    <div class="chart" id="loaded" role="img" aria-label="Line chart of the share of nodes above 80 and 100 %."></div>
    {_table(load)}
  </section>
"""


def _told(figures: LoadFigures) -> str:
    spread = f"with a deviation of {percent(figures.deviation)} over nodes, {percent(figures.max)} at most"
    return f"{figures.name} {percent(figures.mean)} on average {spread}"


def _table(load: RealLoadReport) -> str:
    head = "".join(f'<th scope="col"{_class(name)}>{title}</th>' for title, name in _COLUMNS)
    rows = "".join(f"<tr>{_cells(figures)}</tr>\n" for figures in load.resources)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>'


def _cells(figures: LoadFigures) -> str:
    shares = (figures.requested, figures.mean, figures.deviation, figures.max)
    overs = (figures.over_80_node_s, figures.over_90_node_s, figures.over_100_node_s)
    cells = [figures.name, *map(percent, shares), *(f"{over / 60:,.0f}" for over in overs)]
    return "".join(f"<td{_class(name)}>{cell}</td>" for cell, (_, name) in zip(cells, _COLUMNS, strict=True))


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
