"""The metric source external.metrics.k8s.io: values from outside the cluster, matched to nodes by a label.

One request is sent per metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from kscheduler.config.metric_policy import Metric
from kscheduler.errors import NotFound
from kscheduler.input.decoding import json_decoder
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.parsing import LABELS_TRIED, node_of
from kscheduler.telemetry.source import MetricSource, Reading, ReadingBuilder, Readings, SourceError
from kscheduler.telemetry.sources.aggregated import AggregatedAPI, Asker, Items, add_value, path_of, read_one_by_one

GROUP_VERSION = ("apis", "external.metrics.k8s.io", "v1beta1")
DEFAULT_NAMESPACE = "default"


class _Value(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metric_labels: dict[str, str] | None = None
    timestamp: str | None = None
    value: str | int | float | None = None
    window: int | None = None  # seconds


_decode = json_decoder(Items[_Value])


class ExternalMetricsSource(MetricSource):
    def __init__(self, api: AggregatedAPI, limits: AnswerLimits) -> None:
        self._asker = Asker(api, limits)

    async def fetch(self, metrics: Sequence[Metric]) -> Readings:
        return await read_one_by_one(metrics, self._read)

    async def _read(self, metric: Metric) -> Reading:
        namespace = metric.namespace or DEFAULT_NAMESPACE
        path = path_of(*GROUP_VERSION, "namespaces", namespace, metric.metric, labelSelector=metric.selector)
        try:
            items = (await self._asker.ask(path, _decode)).items
        except NotFound as error:
            raise SourceError(f"{GROUP_VERSION[1]} has no metric {metric.metric}: {error}") from error
        builder = await self._asker.limits.build(items, partial(_add, metric.node_label))
        window_s = max((item.window or 0 for item in items[:1]), default=0)
        return builder.reading(float(max(window_s, 0)))


def _add(label: str, item: _Value, builder: ReadingBuilder) -> None:
    node = node_of(item.metric_labels or {}, label)
    if not node:
        builder.refuse_nameless(item.metric_labels or {}, label or LABELS_TRIED)
        return
    add_value(node, item.value, item.timestamp, builder)
