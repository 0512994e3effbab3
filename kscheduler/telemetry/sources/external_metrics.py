"""external.metrics.k8s.io: values of things outside the cluster, joined to nodes by a label. One question a metric."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from kscheduler.config.metric_policy import Metric
from kscheduler.errors import NotFound
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.node_names import LABELS_TRIED, node_of
from kscheduler.telemetry.numbers import quantity
from kscheduler.telemetry.readings import NOT_A_NUMBER, Reading, ReadingBuilder, Readings
from kscheduler.telemetry.slices import sliced
from kscheduler.telemetry.source import SourceError
from kscheduler.telemetry.sources.aggregated import AggregatedAPI, Asker, path_of
from kscheduler.telemetry.times import unix_seconds

GROUP_VERSION = ("apis", "external.metrics.k8s.io", "v1beta1")
DEFAULT_NAMESPACE = "default"


class _Value(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metric_labels: dict[str, str] | None = None
    timestamp: str | None = None
    value: str | int | float | None = None
    window: int | None = None  # seconds


class _List(msgspec.Struct, frozen=True):
    items: list[_Value] = []


_DECODER = msgspec.json.Decoder(_List)


class ExternalMetricsSource:
    def __init__(self, api: AggregatedAPI, limits: AnswerLimits) -> None:
        self._asker = Asker(api, limits)

    async def fetch(self, metrics: Sequence[Metric]) -> Readings:
        readings = Readings()
        for metric in metrics:
            try:
                readings.by_metric[metric.name] = await self._read(metric)
            except NotFound as error:
                readings.failed[metric.name] = f"{GROUP_VERSION[1]} has no metric {metric.metric}: {error}"
            except SourceError as error:
                readings.failed[metric.name] = str(error)
        return readings

    async def close(self) -> None:
        pass

    async def _read(self, metric: Metric) -> Reading:
        namespace = metric.namespace or DEFAULT_NAMESPACE
        path = path_of(*GROUP_VERSION, "namespaces", namespace, metric.metric, labelSelector=metric.selector)
        items = (await self._asker.ask(path, _DECODER)).items
        builder = ReadingBuilder()
        async for some in sliced(self._asker.limits.first(items, builder)):
            for item in some:
                _add(item, metric.node_label, builder)
        window_s = max((item.window or 0 for item in items[:1]), default=0)
        return builder.reading(float(max(window_s, 0)))


def _add(item: _Value, label: str, builder: ReadingBuilder) -> None:
    node = node_of(item.metric_labels or {}, label)
    if not node:
        builder.refuse_nameless(item.metric_labels or {}, label or LABELS_TRIED)
        return
    value = quantity(item.value)
    stamp = unix_seconds(item.timestamp) if item.timestamp else None
    if math.isnan(value) or (stamp is not None and math.isnan(stamp)):
        builder.refuse(NOT_A_NUMBER)
    else:
        builder.add(node, value, stamp)
