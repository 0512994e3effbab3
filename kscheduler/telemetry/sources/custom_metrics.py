"""The metric source custom.metrics.k8s.io: values that describe nodes.

One request per metric is sent to v1beta2 or, if that is missing, to v1beta1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kscheduler.config.metric_policy import Metric
from kscheduler.errors import NotFound
from kscheduler.input.decoding import json_decoder
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.source import UNKNOWN_NODE, MetricSource, Reading, ReadingBuilder, Readings, SourceError
from kscheduler.telemetry.sources.aggregated import (
    MAX_REASON,
    AggregatedAPI,
    Asker,
    Items,
    add_value,
    path_of,
    read_one_by_one,
)

GROUP = "custom.metrics.k8s.io"
VERSIONS = ("v1beta2", "v1beta1")


class _Object(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""
    name: str = ""


class _Value(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    described_object: _Object = _Object()
    timestamp: str | None = None
    value: str | int | float | None = None
    window_seconds: int | None = None  # v1beta2
    window: int | None = None  # v1beta1


_decode = json_decoder(Items[_Value])


class CustomMetricsSource(MetricSource):
    def __init__(self, api: AggregatedAPI, limits: AnswerLimits) -> None:
        self._asker = Asker(api, limits)
        self._version = ""  # the API version that answered last, which is tried first

    async def fetch(self, metrics: Sequence[Metric]) -> Readings:
        return await read_one_by_one(metrics, self._read)

    async def _read(self, metric: Metric) -> Reading:
        items = (await self._ask(metric)).items
        builder = await self._asker.limits.build(items, _add)
        window_s = max((item.window_seconds or item.window or 0 for item in items[:1]), default=0)
        return builder.reading(float(max(window_s, 0)))

    async def _ask(self, metric: Metric) -> Items[_Value]:
        """Read a metric from the first API version that has it. Raises SourceError if no version has it.

        Each version is tried, because a missing metric is a 404 just like an API version that is not served.
        """
        refusals: dict[str, str] = {}  # version -> why not
        for version in sorted(VERSIONS, key=lambda version: version != self._version):
            path = path_of(
                "apis", GROUP, version, "nodes", "*", metric.metric or metric.name, metricLabelSelector=metric.selector
            )
            try:
                found = await self._asker.ask(path, _decode)
            except NotFound as error:
                refusals[version] = str(error)[:MAX_REASON]
            else:
                self._version = version
                return found
        raise SourceError(f"{GROUP} has no metric {metric.metric or metric.name} of nodes: {_joined(refusals)}")


def _joined(refusals: Mapping[str, str]) -> str:
    """Return the errors of all API versions as one text, since only together they show what is missing."""
    if len(set(refusals.values())) == 1:
        return next(iter(refusals.values()))
    return "; ".join(f"{version}: {reason}" for version, reason in sorted(refusals.items()))


def _add(item: _Value, builder: ReadingBuilder) -> None:
    if item.described_object.kind not in ("Node", "") or not item.described_object.name:
        builder.refuse(UNKNOWN_NODE)
        return
    add_value(item.described_object.name, item.value, item.timestamp, builder)
