"""Uses labels and annotations of nodes as metrics: quantities, or times, of which the age in seconds is the value."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kscheduler.client.times import unix_seconds
from kscheduler.clock import Clock
from kscheduler.config.metric_policy import Metric
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.limits import sliced
from kscheduler.telemetry.parsing import quantity
from kscheduler.telemetry.source import NOT_A_NUMBER, MetricSource, Reading, ReadingBuilder, Readings
from kscheduler.telemetry.sources.aggregated import read_one_by_one


class NodeFieldsSource(MetricSource):
    def __init__(self, table: NodeTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def fetch(self, metrics: Sequence[Metric]) -> Readings:
        return await read_one_by_one(metrics, self._read)

    async def _read(self, metric: Metric) -> Reading:
        builder = ReadingBuilder()
        async for some in sliced(list(self._table)):
            for info in some:
                meta = info.node.metadata
                fields = meta.labels if metric.label else meta.annotations
                text = (fields or {}).get(metric.label or metric.annotation)
                if text is None:
                    continue
                value = self._clock.wall() - unix_seconds(text) if metric.is_time else quantity(text)
                if math.isnan(value):
                    builder.refuse(NOT_A_NUMBER)
                else:
                    builder.add(info.name, value)
        return builder.reading()
