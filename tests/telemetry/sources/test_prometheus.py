"""Prometheus over real connections: a server's answers, and what a liar's come to."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import Endpoint, Metric, Source
from kscheduler.input.redaction import SecretURL
from kscheduler.telemetry.limits import BASE_ELEMENTS, AnswerLimits
from kscheduler.telemetry.source import (
    DUPLICATE,
    NOT_A_NUMBER,
    TOO_MANY,
    UNKNOWN_NODE,
    Reading,
    Readings,
    Sample,
)
from kscheduler.telemetry.sources.prometheus import PrometheusSource
from tests.telemetry.http_server import Request, Serve, answering, hanging, http_server

LOAD = Metric(name="load", source="p", query="node_load1")


def vector(*elements: tuple[dict[str, str], Any], kind: str = "vector") -> dict[str, Any]:
    """Elements of labels and value; a value alone was evaluated at second 1000."""
    result = [
        {"metric": labels, "value": value if isinstance(value, list) else [1000.5, value]} for labels, value in elements
    ]
    return {"status": "success", "data": {"resultType": kind, "result": result}}


async def fetch(serve: Serve, *metrics: Metric, timeout_s: float = 5.0) -> Readings:
    async with http_server(serve) as server:
        config = Source(
            name="p", prometheus=Endpoint(url=SecretURL(server.url)), timeout=Duration.of_seconds(timeout_s)
        )
        source = PrometheusSource(config, AnswerLimits(lambda: 2))
        try:
            return await source.fetch(metrics or [LOAD])
        finally:
            await source.close()


async def read(*elements: tuple[dict[str, str], Any], metric: Metric = LOAD) -> Reading:
    return (await fetch(answering(vector(*elements)), metric)).by_metric[metric.name]


async def failure(body: Any, status: int = 200) -> str:
    readings = await fetch(answering(body, status))
    assert not readings.by_metric
    return readings.failed["load"]


async def test_each_element_is_a_node_with_its_value_and_time() -> None:
    reading = await read(({"node": "a"}, "1.5"), ({"instance": "b:9100"}, "2"))
    assert reading.samples == {"a": Sample(1.5, 1000.5), "b": Sample(2.0, 1000.5)}
    assert not reading.refused


async def test_the_label_that_names_the_node_is_the_users_choice() -> None:
    metric = Metric(name="load", source="p", query="x", node_label="host")
    reading = await read(({"host": "a", "node": "wrong"}, "1"), ({"node": "b"}, "2"), metric=metric)
    assert reading.samples == {"a": Sample(1.0, 1000.5)}
    assert reading.refused == {UNKNOWN_NODE: 1}


async def test_each_metric_is_a_query_of_its_own_and_one_that_is_wrong_spoils_no_other() -> None:
    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        [query] = parse_qs(urlsplit(request.target).query)["query"]
        if query == "good":
            await answering(vector(({"node": "a"}, "1")))(request, writer)
        else:
            await answering({"status": "error", "errorType": "bad_data", "error": "parse error"}, 400)(request, writer)

    metrics = [Metric(name=name, source="p", query=name) for name in ("bad", "good")]
    readings = await fetch(serve, *metrics)
    assert readings.by_metric["good"].samples == {"a": Sample(1.0, 1000.5)}
    assert readings.failed == {"bad": "expected success, got HTTP status 400, bad_data: parse error"}


async def test_one_query_that_hangs_spoils_no_other() -> None:
    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        await (answering(vector(({"node": "a"}, "1"))) if "good" in request.target else hanging)(request, writer)

    metrics = [Metric(name=name, source="p", query=name) for name in ("bad", "good")]
    readings = await fetch(serve, *metrics, timeout_s=0.5)
    assert list(readings.by_metric) == ["good"]
    assert readings.failed["bad"].endswith("no answer within 0.45 s")


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "", "one", "1" * 1000, 1.5, None, {"a": 1}, True])
async def test_a_value_that_is_no_finite_number_in_text_is_refused(value: Any) -> None:
    reading = await read(({"node": "a"}, value), ({"node": "b"}, "2"))
    assert reading.samples == {"b": Sample(2.0, 1000.5)}
    assert reading.refused == {NOT_A_NUMBER: 1}


async def test_a_time_that_is_none_is_refused() -> None:
    reading = await read(({"node": "a"}, ["now", "1"]), ({"node": "b"}, [None, "1"]))
    assert not reading.samples
    assert reading.refused == {NOT_A_NUMBER: 2}


async def test_two_series_of_one_node_void_each_other() -> None:
    reading = await read(({"node": "a", "cpu": "0"}, "1"), ({"node": "a", "cpu": "1"}, "2"), ({"node": "b"}, "3"))
    assert reading.samples == {"b": Sample(3.0, 1000.5)}
    assert reading.refused == {DUPLICATE: 2}


async def test_an_empty_vector_is_a_reading_of_nothing() -> None:
    assert (await read()).samples == {}


async def test_more_series_than_nodes_can_have_are_not_looked_at() -> None:
    reading = await read(*(({"node": f"n{number}"}, "1") for number in range(BASE_ELEMENTS + 14)))
    assert len(reading.samples) == BASE_ELEMENTS + 4
    assert reading.refused == {TOO_MANY: 10}


@pytest.mark.parametrize(
    ("body", "recorded"),
    [
        (vector(kind="matrix"), "expected a vector, got a matrix"),
        (
            {"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}},
            "expected a vector, got a scalar",
        ),
        (
            {"status": "error", "errorType": "timeout", "error": "too slow"},
            "expected success, got HTTP status 200, timeout: too slow",
        ),
        ({"status": "success"}, "expected success, got HTTP status 200, no reason"),
        ({}, "expected success, got HTTP status 200, no reason"),
    ],
)
async def test_an_answer_without_a_vector_is_a_failure_that_says_so(body: Any, recorded: str) -> None:
    assert await failure(body) == recorded


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Sign in</html>",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"null",
        b'{"status": "success", "data": {"resultType": "vector", "result": {}}}',
        b'{"status": "success", "data": {"resultType": "vector", "result": [{"metric": 5}]}}',
        b'{"status": "success", "data": {"resultType": "vector", "result": [{"value": [1]}]}}',
        b'{"status": "success", "data": {"resultType": "vector", "result": [null]}}',
        b'{"status": 7}',
    ],
)
async def test_garbage_is_a_failure(body: bytes) -> None:
    assert (await failure(body)).startswith("expected an answer of the Prometheus API: ")


@pytest.mark.parametrize("status", [401, 403, 500, 503])
async def test_an_error_page_is_a_failure_with_its_status(status: int) -> None:
    assert (
        await failure(b"<html>sorry</html>", status) == f"expected an answer at /api/v1/query, got HTTP status {status}"
    )


async def test_a_value_cannot_be_smuggled_past_an_error_status() -> None:
    assert await failure(vector(({"node": "a"}, "1")), 500) == "expected success, got HTTP status 500, no reason"


async def test_a_huge_answer_is_a_failure() -> None:
    body = json.dumps(vector(({"node": "a", "pad": "x" * 2_000_000}, "1"))).encode()
    assert "expected an answer of at most" in await failure(body)
