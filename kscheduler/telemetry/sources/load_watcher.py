"""The metric source load-watcher: the utilisation of all nodes, in percent, in one response."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import msgspec

from kscheduler.config.metric_policy import Metric, Source
from kscheduler.errors import DecodeError
from kscheduler.input.decoding import json_decoder
from kscheduler.telemetry.endpoint import EndpointClient
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.parsing import finite, span_s
from kscheduler.telemetry.source import NOT_A_NUMBER, Reading, ReadingBuilder, Readings, SourceError
from kscheduler.telemetry.sources.aggregated import read_one_by_one

PATH = "/watcher"
# Operators to read a node's utilisation from if the metric names none, in order. Older load-watchers send no operator.
PREFERRED = ("AVG", "Latest", "")


class _Value(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    operator: str = ""
    value: object = None


class _Node(msgspec.Struct, frozen=True, gc=False):
    metrics: list[_Value] = []


class _Window(msgspec.Struct, frozen=True):
    duration: str = ""
    end: object = None  # Unix seconds


class _Data(msgspec.Struct, frozen=True):
    nodes: dict[str, _Node] = msgspec.field(default_factory=dict, name="NodeMetricsMap")


class _Answer(msgspec.Struct, frozen=True):
    timestamp: object = None
    window: _Window = _Window()
    data: _Data | None = None


_decode = json_decoder(_Answer)


class LoadWatcherSource:
    def __init__(self, config: Source, limits: AnswerLimits) -> None:
        if config.load_watcher is None:
            raise ValueError(f"source {config.name} is of another kind")
        self._client = EndpointClient(config.load_watcher, config.timeout.seconds or config.interval.seconds)
        self._limits = limits

    async def fetch(self, metrics: Sequence[Metric]) -> Readings:
        answer = await self._client.ask(PATH, {}, self._limits.bytes)
        if answer.status != 200:
            raise SourceError(f"expected an answer of a load watcher, got HTTP status {answer.status}")
        try:
            decoded = _decode(answer.body)
        except DecodeError as error:
            raise SourceError(f"expected an answer of a load watcher: {self._client.quoted(str(error))}") from None
        if decoded.data is None:
            raise SourceError("expected an answer of a load watcher, got one without data")
        return await read_one_by_one(metrics, partial(self._read, decoded, decoded.data))

    async def close(self) -> None:
        await self._client.close()

    async def _read(self, answer: _Answer, data: _Data, metric: Metric) -> Reading:
        stamp = finite(answer.window.end)
        stamp = finite(answer.timestamp) if math.isnan(stamp) else stamp

        def add(element: tuple[str, _Node], builder: ReadingBuilder) -> None:
            name, node = element
            found = _find(node, metric)
            if found is None:
                return
            value = finite(found.value)
            if math.isnan(value) or value < 0:
                builder.refuse(NOT_A_NUMBER)
            else:
                builder.add(name, value, None if math.isnan(stamp) else stamp)

        builder = await self._limits.build(list(data.nodes.items()), add)
        return builder.reading(span_s(answer.window.duration))


def _find(node: _Node, metric: Metric) -> _Value | None:
    by_operator = {value.operator: value for value in node.metrics if value.type == metric.metric}
    wanted = (metric.operator,) if metric.operator else PREFERRED
    return next((by_operator[operator] for operator in wanted if operator in by_operator), None)
