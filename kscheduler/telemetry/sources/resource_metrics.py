"""The metric source metrics.k8s.io: nodes' usage of cpu and memory, as a share of allocatable or capacity.

One request returns all nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import msgspec

from kscheduler._fast import CPU, MEMORY
from kscheduler.client.times import unix_seconds
from kscheduler.config.metric_policy import Metric, Source
from kscheduler.errors import NotFound
from kscheduler.input.decoding import json_decoder
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.parsing import quantity, span_s
from kscheduler.telemetry.source import (
    NOT_A_NUMBER,
    UNKNOWN_NODE,
    MetricSource,
    Reading,
    ReadingBuilder,
    Readings,
    SourceError,
)
from kscheduler.telemetry.sources.aggregated import AggregatedAPI, Asker, Items, path_of

PATH = path_of("apis", "metrics.k8s.io", "v1beta1", "nodes")
_COLUMNS = {
    "cpu": (CPU, 1000.0),
    "memory": (MEMORY, 1.0),
}  # resource -> column, and the column's units per unit of the API


class _Meta(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _Node(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta = _Meta()
    timestamp: str = ""
    window: str = ""
    usage: dict[str, str | int | float] = {}


_decode = json_decoder(Items[_Node])


class ResourceMetricsSource(MetricSource):
    """Reads the usage of nodes from metrics.k8s.io.

    `per` is the value of a fully used node: 1, or 100 for percent. `of` is what the share is taken of: allocatable or
    capacity.
    """

    def __init__(self, config: Source, api: AggregatedAPI, table: NodeTable, limits: AnswerLimits) -> None:
        self._asker = Asker(api, limits)
        self._table = table
        settings = config.resource_metrics or {}
        self._per = float(settings.get("per", 1.0))
        self._is_of_capacity = settings.get("of") == "capacity"

    async def fetch(self, metrics: Sequence[Metric]) -> Readings:
        try:
            nodes = (await self._asker.ask(PATH, _decode)).items
        except NotFound as error:
            raise SourceError(f"metrics.k8s.io is not served: {error}") from error
        readings = Readings()
        for metric in metrics:
            if metric.resource in _COLUMNS:
                readings.by_metric[metric.name] = await self._read(metric.resource, nodes)
            else:
                readings.failed[metric.name] = f"expected the resource cpu or memory, got {metric.resource!r}"
        return readings

    async def _read(self, resource: str, nodes: list[_Node]) -> Reading:
        builder = await self._asker.limits.build(nodes, partial(self._add, resource))
        return builder.reading(span_s(nodes[0].window) if nodes else 0.0)

    def _add(self, resource: str, node: _Node, builder: ReadingBuilder) -> None:
        _, unit = _COLUMNS[resource]
        row = self._table.row_of(node.metadata.name)
        has = 0.0 if row is None else self._has(row, resource)
        if row is None or not has > 0:  # NaN too
            builder.refuse(UNKNOWN_NODE if row is None else NOT_A_NUMBER)
            return
        used = quantity(node.usage.get(resource))
        stamp = unix_seconds(node.timestamp) if node.timestamp else None
        if not used >= 0 or (stamp is not None and math.isnan(stamp)):  # NaN too
            builder.refuse(NOT_A_NUMBER)
        else:
            builder.add(node.metadata.name, used * unit / has * self._per, stamp)

    def _has(self, row: int, resource: str) -> float:
        column, unit = _COLUMNS[resource]
        if not self._is_of_capacity:
            return float(self._table.columns.allocatable(row, column))
        return quantity((self._table.at(row).node.status.capacity or {}).get(resource)) * unit
