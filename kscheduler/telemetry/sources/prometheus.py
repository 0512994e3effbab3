"""The metric source Prometheus, or a compatible server: one query per metric, whose answer has one element per node.

The time of a sample is the time at which the query was evaluated, which reveals a server that hangs or answers from a
cache.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from kscheduler.config.metric_policy import Metric, Source
from kscheduler.errors import DecodeError
from kscheduler.input.decoding import json_decoder
from kscheduler.telemetry.endpoint import Answer, EndpointClient
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.parsing import LABELS_TRIED, finite, float_text, node_of
from kscheduler.telemetry.source import NOT_A_NUMBER, Reading, ReadingBuilder, Readings, SourceError

PATH = "/api/v1/query"
AT_ONCE = 4  # concurrent queries; more would only wait in the server's own queue
QUERY_SHARE = 0.9  # share of the source's timeout for each query: one that hangs does not lose the others' answers


class _Element(msgspec.Struct, frozen=True, gc=False):
    metric: dict[str, str] = {}
    value: tuple[object, object] | None = None  # Unix seconds, and a number as text


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")  # a list of elements, if it is a vector


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error_type: str = ""
    error: str = ""


Quote = Callable[[str], str]  # text of the server -> the part of it that may appear in a message

_decode = json_decoder(_Answer)
_decode_vector = json_decoder(list[msgspec.Raw])  # a tenth of the decoding; elements are decoded later, in slices
_decode_element = json_decoder(_Element)


class PrometheusSource:
    def __init__(self, config: Source, limits: AnswerLimits) -> None:
        if config.prometheus is None:
            raise ValueError(f"source {config.name} is of another kind")
        timeout_s = config.timeout.seconds or config.interval.seconds
        self._client = EndpointClient(config.prometheus, QUERY_SHARE * timeout_s)
        self._limits = limits

    async def fetch(self, metrics: Sequence[Metric]) -> Readings:
        readings = Readings()
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(metric: Metric) -> None:
            async with turns:
                try:
                    readings.by_metric[metric.name] = await self._read(metric)
                except SourceError as error:
                    readings.failed[metric.name] = str(error)

        await asyncio.gather(*map(ask, metrics))
        return readings

    async def close(self) -> None:
        await self._client.close()

    async def _read(self, metric: Metric) -> Reading:
        answer = await self._client.ask(PATH, {"query": metric.query}, self._limits.bytes)
        quote = self._client.quoted
        try:
            builder = await self._limits.build(_vector(answer, quote), partial(_add, metric.node_label, quote))
        except DecodeError as error:
            raise _no_answer(error, quote) from None
        return builder.reading()


def _vector(answer: Answer, quote: Quote) -> list[msgspec.Raw]:
    """Return the elements of a query's answer. Raises SourceError if it is not a vector."""
    try:
        decoded = _decode(answer.body)
        if decoded.status == "success" and decoded.data is not None and answer.status == 200:
            if decoded.data.result_type != "vector":
                raise SourceError(f"expected a vector, got a {quote(decoded.data.result_type) or 'nothing'}")
            return _decode_vector(decoded.data.result)
    except DecodeError as error:
        if answer.status != 200:
            raise SourceError(f"expected an answer at {PATH}, got HTTP status {answer.status}") from None
        raise _no_answer(error, quote) from None
    reason = f"{decoded.error_type}: {decoded.error}" if decoded.error else "no reason"
    raise SourceError(f"expected success, got HTTP status {answer.status}, {quote(reason)}")


def _no_answer(error: Exception, quote: Quote) -> SourceError:
    return SourceError(f"expected an answer of the Prometheus API: {quote(str(error))}")


def _add(label: str, quote: Quote, raw: msgspec.Raw, builder: ReadingBuilder) -> None:
    """Decode one element of an answer and add its value. `label` names the node's label. Raises DecodeError."""
    element = _decode_element(raw)
    node = node_of(element.metric, label)
    if not node:
        builder.refuse_nameless(map(quote, element.metric), label or LABELS_TRIED)
        return
    stamp, value = element.value or (math.nan, "")
    number, time = float_text(value), finite(stamp)
    if math.isnan(number) or math.isnan(time):
        builder.refuse(NOT_A_NUMBER)
    else:
        builder.add(node, number, time)
