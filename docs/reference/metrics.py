"""All metrics with kind, labels, stability and meaning, from their declarations."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from docs.reference.markdown import code, escaped, sentence, table
from kscheduler.observability.instruments import CounterFamily, Family, HistogramFamily, bound_text
from kscheduler.observability.metrics import Metrics

INTRODUCTION = """\
# Metrics

`/metrics` of the secure port answers in Prometheus' text format, to users who may `get` that path. Names, labels and
buckets of the first table are kube-scheduler's, so its dashboards and alerts work. The stability is what kube-scheduler
promises for the metric. Metrics that begin with `kscheduler_` are this program's own; they have no stability level yet.

A histogram `x` is exposed as `x_bucket`, `x_sum` and `x_count`. A metric appears when it first has a value.
`--disabled-metrics` leaves metrics out, `--allow-metric-labels` limits label values.

Besides, `/metrics/slis` has `kubernetes_healthcheck` and `kubernetes_healthchecks_total`, and `/metrics/resources` has
`kube_pod_resource_request` and `kube_pod_resource_limit`, as kube-scheduler has them.

This page is made from the declarations in the program.
"""

_STAGE = re.compile(r"\[(STABLE|BETA|ALPHA|DEPRECATED|INTERNAL)[^\]]*\]\s*")


class Row(NamedTuple):
    """What the page says of one metric."""

    name: str
    kind: str
    labels: tuple[str, ...]
    stability: str  # "": none
    meaning: str


def rows() -> list[Row]:
    """Return all metrics in the order of their declaration."""
    return [_row(family) for family in Metrics(process=False).families]


def page() -> str:
    """Return the page: kube-scheduler's metrics, those of other components' names, and our own."""
    found = rows()
    sections = (
        ("kube-scheduler's", [row for row in found if row.name.startswith("scheduler_")]),
        (
            "Of all Kubernetes components",
            [row for row in found if not row.name.startswith(("scheduler_", "kscheduler_"))],
        ),
        ("kscheduler's own", [row for row in found if row.name.startswith("kscheduler_")]),
    )
    parts = [INTRODUCTION]
    for title, chosen in sections:
        lines = [
            (code(row.name), row.kind, ", ".join(map(code, row.labels)), row.stability, row.meaning) for row in chosen
        ]
        parts.append(f"## {title}\n\n" + table(("Name", "Kind", "Labels", "Stability", "Meaning"), lines))
    return "\n".join(parts)


def _row(family: Family[Any]) -> Row:
    stage = _STAGE.match(family.text)
    text = sentence(escaped(family.text[stage.end() :] if stage else family.text))
    kind = "gauge"
    if isinstance(family, HistogramFamily):
        kind = "histogram"
        bounds = family.bounds
        text += f" Buckets: {bound_text(bounds[0])} to {bound_text(bounds[-1])}, {len(bounds)} of them."
    elif isinstance(family, CounterFamily):
        kind = "counter"
    return Row(family.name, kind, family.label_names, stage[1].lower() if stage else "", text)
