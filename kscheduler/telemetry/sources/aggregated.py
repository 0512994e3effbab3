"""Reads aggregated APIs such as metrics.k8s.io through the scheduler's own apiserver, with its credentials."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from kscheduler.client.times import unix_seconds
from kscheduler.config.metric_policy import Metric
from kscheduler.errors import APIError, DecodeError
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.parsing import quantity
from kscheduler.telemetry.source import NOT_A_NUMBER, Reading, ReadingBuilder, Readings, SourceError

T = TypeVar("T")

MAX_REASON = 200


class AggregatedAPI(Protocol):
    """An apiserver client that can read aggregated APIs such as metrics.k8s.io."""

    async def get_aggregated(self, path: str, *, limit_bytes: int) -> bytes: ...


class Items(msgspec.Struct, Generic[T], frozen=True):
    """A list as aggregated APIs return it."""

    items: list[T] = []


class Asker:
    def __init__(self, api: AggregatedAPI, limits: AnswerLimits) -> None:
        self.limits = limits
        self._api = api

    async def ask(self, path: str, decode: Callable[[bytes], T]) -> T:
        """GET a path and decode the response. Raises NotFound for status 404, SourceError for any other failure."""
        try:
            raw = await self._api.get_aggregated(path, limit_bytes=self.limits.bytes)
        except APIError as error:
            if error.status == 404:
                raise
            raise SourceError(str(error)[:MAX_REASON]) from error
        try:
            return decode(raw)
        except DecodeError as error:
            raise SourceError(f"GET {path}: {str(error)[:MAX_REASON]}") from error


def path_of(*parts: str, **query: str) -> str:
    """Return a percent-encoded path with a query; empty query parameters are left out.

    "*" as a part stands for all objects.
    """
    given = {name: value for name, value in query.items() if value}
    path = "/" + "/".join(quote(part, safe="*") for part in parts)
    return f"{path}?{urlencode(given)}" if given else path


async def read_one_by_one(metrics: Sequence[Metric], read: Callable[[Metric], Awaitable[Reading]]) -> Readings:
    """Read the metrics one after another with `read`; the failure of one does not affect the others."""
    readings = Readings()
    for metric in metrics:
        try:
            readings.by_metric[metric.name] = await read(metric)
        except SourceError as error:
            readings.failed[metric.name] = str(error)
    return readings


def add_value(node: str, value: str | int | float | None, timestamp: str | None, builder: ReadingBuilder) -> None:
    """Add a node's value, a quantity, with its timestamp if it has one. Refuse it if either cannot be parsed."""
    number = quantity(value)
    stamp = unix_seconds(timestamp) if timestamp else None
    if math.isnan(number) or (stamp is not None and math.isnan(stamp)):
        builder.refuse(NOT_A_NUMBER)
    else:
        builder.add(node, number, stamp)
