"""Formats the report as one HTML page that loads nothing: styles, script and data are in the page.

Tables and summary are written here; `page/report.js` draws the plots from the JSON in the page. Each plot has a text
alternative. A page of 5,000 nodes stays well below 2 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

import msgspec

from kscheduler.simulator.fragmentation import DEFINITION
from kscheduler.simulator.report import Report, ResourceFigures
from kscheduler.simulator.report_load import RealLoadReport
from kscheduler.simulator.units import amount, percent, seconds

TOP_REASONS = 20
TOP_VIOLATIONS = 10
SHOWN_RESOURCES = 3  # resources that the summary shows, besides "pods"

_MODEL_NOTES = (
    "Time is virtual. Requests to the apiserver take the latency given; the scheduler's own decisions take none.",
    "Utilisation counts requests of pods that are bound and not finished, as the scheduler does.",
)
_USAGE_UNKNOWN = "What processes really use is not known: pods are taken to use what they request."
_USAGE_KNOWN = (
    "What pods really use is what their annotations declare; pods that declare nothing use what they request. A load "
    "above 100 % is what a node's pods want and do not get; how they suffer is not modelled. "
    "Metrics of nodes come from these loads, sampled and averaged as metrics-server does."
)


def to_html(report: Report) -> str:
    """Return the report as a complete HTML page."""
    return Template(page_asset("report.html")).substitute(
        title=escape(f"kscheduler simulation: {_headline(report)}"),
        headline=escape(_headline(report)),
        lead=escape(_lead(report)),
        verdict=_verdict(report),
        tiles="\n".join(_tiles(report)),
        utilisation_text=escape(_utilisation_text(report)),
        load=_load_section(report.real_load),
        pending_text=escape(_pending_text(report)),
        latency_text=escape(_latency_text(report)),
        nodes_text=escape(_nodes_text(report)),
        resources=_resources_table(report.resources),
        fragmentation=escape(DEFINITION),
        reasons=_reasons_table(report),
        priorities=_priorities_table(report),
        parameters=_parameters_table(report),
        notes=html_list([*report.notes, *_MODEL_NOTES, _usage_note(report.real_load)], "notes"),
        version=escape(report.version),
        style=page_asset("report.css"),
        script=page_asset("report.js"),
        data=_data(report),
    )


def page_asset(name: str) -> str:
    """Return the text of a file of the page, such as its style sheet."""
    return (files("kscheduler.simulator") / "page" / name).read_text(encoding="utf-8")


# --- what the script gets -----------------------------------------------------------------------------------------


def _data(report: Report) -> str:
    nodes = report.node_utilisation
    data = {
        "simulated_s": report.simulated_s,
        "busiest_s": report.busiest_s,
        "series": report.series,
        "latency": report.latency,
        "load": report.real_load,
        "nodes": {
            "names": nodes.names,
            "resources": nodes.resources,
            "busiest": _per_mille(nodes.busiest),
            "final": _per_mille(nodes.final),
            "average": _per_mille(nodes.average),
            "pods_busiest": nodes.pods_busiest,
            "pods_final": nodes.pods_final,
        },
    }
    # "<" could end the script element or start a comment in it; JSON may write it as an escape.
    return msgspec.json.encode(data).decode().replace("<", "\\u003c")


def _per_mille(table: Sequence[Sequence[float | None]]) -> list[list[int | None]]:
    return [[None if share is None else round(share * 1000) for share in shares] for shares in table]


# --- words --------------------------------------------------------------------------------------------------------


def _headline(report: Report) -> str:
    asked = report.pods.total - report.pods.existing
    return f"{asked:,} pods on {report.nodes.total:,} nodes"


def _lead(report: Report) -> str:
    existing = f" {report.pods.existing:,} more pods were there from the start." if report.pods.existing else ""
    return f"{seconds(report.simulated_s)} of virtual time; it ended because {report.ending}.{existing}"


def _verdict(report: Report) -> str:
    pods = report.pods
    if report.violations:
        shown = [*report.violations[:TOP_VIOLATIONS]]
        more = len(report.violations) - len(shown)
        if more:
            shown.append(f"and {more} more")
        return f'<div class="verdict bad">Invariants were violated{html_list(shown, "violations")}</div>'
    if not report.complete:
        return '<div class="verdict warn">Stopped at the limit of virtual time</div>'
    if pods.unplaced or pods.left_unplaced:
        missing = pods.unplaced + pods.left_unplaced
        who = f"{missing:,} {'pod' if missing == 1 else 'pods'}"
        return f'<div class="verdict warn">{who} got no node; no node was overcommitted</div>'
    return '<div class="verdict good">Every pod was placed; no node was overcommitted</div>'


def _utilisation_text(report: Report) -> str:
    shares = (
        f"{each.name} {percent(each.average)} on average, {percent(each.peak)} at most" for each in report.resources
    )
    return f"Line chart of utilisation over virtual time: {'; '.join(shares)}."


def _pending_text(report: Report) -> str:
    return (
        f"Line chart of waiting pods over virtual time: {report.peak_pending:,} at most, {report.pods.unplaced:,} last."
    )


def _latency_text(report: Report) -> str:
    latency = report.latency
    return (
        f"Cumulative distribution of the time from creation to binding: half within {seconds(latency.p50_s)}, "
        f"99 % within {seconds(latency.p99_s)}, all within {seconds(latency.max_s)}."
    )


def _nodes_text(report: Report) -> str:
    shares = (
        f"{name} {percent(balance.mean)} with a deviation of {percent(balance.deviation)}"
        for name, balance in ((each.name, each.balance_busiest) for each in report.resources)
    )
    return f"Map of {report.nodes.total:,} nodes coloured by utilisation; at the busiest moment {'; '.join(shares)}."


# --- summary ------------------------------------------------------------------------------------------------------


def _tiles(report: Report) -> Iterable[str]:
    pods, latency = report.pods, report.latency
    asked = pods.total - pods.existing
    yield _tile("Pods placed", f"{pods.placed:,}", f"{percent(pods.placed / asked if asked else 1.0, 2)} of {asked:,}")
    missing = pods.unplaced + pods.left_unplaced
    yield _tile(
        "Without a node",
        f"{missing:,}",
        f"{pods.unplaced:,} waiting, {pods.left_unplaced:,} left early",
        bad=missing > 0,
    )
    yield _tile(
        "Created to bound",
        seconds(latency.p50_s),
        f"median; p99 {seconds(latency.p99_s)}, max {seconds(latency.max_s)}",
    )
    for each in [each for each in report.resources if each.name != "pods"][:SHOWN_RESOURCES]:
        yield _tile(_short(each.name), percent(each.peak), f"at most; {percent(each.average)} on average")
    yield _tile(
        "Nodes empty",
        f"{report.nodes.empty_when_busiest:,}",
        f"at the busiest moment; {report.nodes.never_used:,} never used",
    )
    if report.machine is not None:
        yield _tile(
            "Decisions",
            f"{report.machine.decisions_per_s:,.0f} <small>/s</small>",
            f"on this machine; {report.machine.wall_s:,.1f} s in all",
        )


def _tile(name: str, value: str, more: str, bad: bool = False) -> str:
    """Return the HTML of one headline figure.

    `value` is HTML and not escaped; `bad` marks a figure that is a failure.
    """
    return (
        f'    <div class="tile{" bad" if bad else ""}"><div class="name">{escape(name)}</div>'
        f'<div class="value">{value}</div><div class="more">{escape(more)}</div></div>'
    )


def _short(name: str) -> str:
    return {"cpu": "CPU requested", "memory": "Memory requested"}.get(name, name)


# --- real load: two plots that the script draws, and a table ------------------------------------------------------


def _usage_note(load: RealLoadReport | None) -> str:
    return _USAGE_UNKNOWN if load is None else _USAGE_KNOWN


def _load_section(load: RealLoadReport | None) -> str:
    """Return the HTML section about real load; "" if no pod or node declares its use."""
    if load is None:
        return ""
    header = [
        ("Resource", ""),
        ("Requested", "number"),
        ("Used", "number"),
        ("Deviation over nodes", "number"),
        ("Highest node", "number"),
        ("Over 80 %, node-minutes", "number"),
        ("Over 90 %", "number"),
        ("Over 100 %", "number"),
    ]
    rows, texts = [], []
    for each in load.resources:
        shares = [percent(share) for share in (each.requested, each.mean, each.deviation, each.max)]
        overs = (each.over_80_node_s, each.over_90_node_s, each.over_100_node_s)
        rows.append([each.name, *shares, *(f"{over / 60:,.0f}" for over in overs)])
        _, mean, deviation, highest = shares
        texts.append(f"{each.name} {mean} on average with a deviation of {deviation} over nodes, {highest} at most")
    summary = escape("; ".join(texts))
    return f"""
  <section class="card wide" aria-labelledby="load-title">
    <h2 id="load-title">Real load over time</h2>
    <p class="hint">What pods on nodes use, as a share of a node: the mean, one standard deviation around it, and the
    highest node; beside it the mean of what they request.</p>
    <div class="controls"><div class="segments" role="group" aria-label="Resource" id="load-resource"></div></div>
    <div class="legend" id="load-legend"></div>
    <div class="chart" id="load" role="img" aria-label="Line chart of real load over virtual time: {summary}."></div>
    <h3>Nodes that are loaded highly</h3>
    <div class="legend" id="loaded-legend"></div>
    <div class="chart" id="loaded" role="img" aria-label="Line chart of the share of nodes above 80 and 100 %."></div>
    {html_table(header, rows)}
  </section>
"""


# --- tables -------------------------------------------------------------------------------------------------------


def html_table(header: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
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


def _resources_table(resources: Iterable[ResourceFigures]) -> str:
    number = "number"
    header = [
        ("Resource", ""),
        ("Capacity", number),
        ("Average", number),
        ("Peak", number),
        ("Final", number),
        ("Balance, busiest", number),
        ("Balance, average", number),
        ("Fragmentation, busiest", number),
        ("Fragmentation, final", number),
    ]
    rows = [
        [
            each.name,
            amount(each.capacity, each.unit),
            percent(each.average),
            percent(each.peak),
            percent(each.final),
            f"{each.balance_busiest.variation:.3f}",
            f"{each.balance_average.variation:.3f}",
            _optional(each.fragmentation_busiest),
            _optional(each.fragmentation_final),
        ]
        for each in resources
    ]
    return html_table(header, rows)


def _optional(share: float | None) -> str:
    return "–" if share is None else percent(share)


def _reasons_table(report: Report) -> str:
    if not report.reasons:
        return '<p class="fine">None: every pod got a node.</p>'
    header = [("Pods", "number"), ("Still waiting", "number"), ("Reason", "message"), ("For example", "examples")]
    rows = [
        [
            f"{each.pods:,}",
            f"{each.still_waiting:,}",
            each.kind,
            each.examples[0] if each.sample == each.kind else f"{each.examples[0]}: {each.sample}",
        ]
        for each in report.reasons[:TOP_REASONS]
    ]
    more = len(report.reasons) - TOP_REASONS
    rest = f'<p class="fine">{more:,} more reasons are in the JSON report.</p>' if more > 0 else ""
    return html_table(header, rows) + rest


def _priorities_table(report: Report) -> str:
    header = [
        ("Priority", "number"),
        ("Pods", "number"),
        ("Placed", "number"),
        ("Without a node", "number"),
        ("p50", "number"),
        ("p99", "number"),
    ]
    rows = [
        [
            f"{each.priority:,}",
            f"{each.pods:,}",
            f"{each.placed:,}",
            f"{each.unplaced + each.left_unplaced:,}",
            seconds(each.p50_s),
            seconds(each.p99_s),
        ]
        for each in report.priorities
    ]
    return html_table(header, rows)


def _parameters_table(report: Report) -> str:
    attempts = ", ".join(f"{count:,} {result}" for result, count in report.attempts.items())
    figures = {**report.parameters, "placed per virtual second": f"{report.placed_per_virtual_s:,.4g}"}
    if attempts:
        figures["scheduling attempts"] = attempts
    machine = report.machine
    if machine is not None:
        figures["on this machine"] = (
            f"{machine.wall_s:,.2f} s wall, {machine.cpu_s:,.2f} s CPU, {machine.cpu_us_per_placed_pod:,.0f} µs of CPU "
            f"a placed pod, {machine.peak_memory_mib:,.0f} MiB at most, Python {machine.python}"
        )
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>\n' for name, value in figures.items()
    )
    return f'<div class="scroll"><table class="parameters"><tbody>\n{body}</tbody></table></div>'


def html_list(items: Iterable[str], name: str) -> str:
    """Return an HTML list of CSS class `name`; its items are plain text, and escaped here."""
    return f'<ul class="{name}">' + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"
