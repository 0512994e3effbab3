from __future__ import annotations

from typing import Any

import pytest

from kscheduler.config.metric_policy import Endpoint, Metric, Source
from kscheduler.input.redaction import SecretURL
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.source import NOT_A_NUMBER, Reading, Sample, SourceError
from kscheduler.telemetry.sources.load_watcher import LoadWatcherSource
from tests.telemetry.http_server import answering, http_server


def value(type: str, operator: str, value: Any) -> dict[str, Any]:
    return {"name": "x", "type": type, "operator": operator, "rollup": "15m", "value": value}


def document(**nodes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "timestamp": 1000,
        "window": {"duration": "15m", "start": 100, "end": 1000},
        "source": "Prometheus",
        "data": {"NodeMetricsMap": {name: {"metrics": values, "tags": {}} for name, values in nodes.items()}},
    }


async def fetch(body: Any, metric: str = "CPU", operator: str = "", status: int = 200) -> Reading:
    async with http_server(answering(body, status)) as server:
        source = LoadWatcherSource(
            Source(name="w", load_watcher=Endpoint(url=SecretURL(server.url))), AnswerLimits(lambda: 2)
        )
        try:
            readings = await source.fetch([Metric(name="m", source="w", metric=metric, operator=operator)])
        finally:
            await source.close()
        assert server.requests[0].target == "/watcher"
        return readings.by_metric["m"]


async def test_the_values_of_all_nodes_come_with_window_and_time() -> None:
    reading = await fetch(
        document(a=[value("CPU", "AVG", 40.5)], b=[value("CPU", "AVG", 0), value("Memory", "AVG", 9)])
    )
    assert reading.samples == {"a": Sample(40.5, 1000.0), "b": Sample(0.0, 1000.0)}
    assert reading.window_s == 900.0


async def test_an_average_comes_before_the_latest_value() -> None:
    both = [value("CPU", "Latest", 90), value("CPU", "AVG", 40), value("CPU", "STD", 3)]
    assert (await fetch(document(a=both))).samples == {"a": Sample(40.0, 1000.0)}
    assert (await fetch(document(a=both[:1]))).samples == {"a": Sample(90.0, 1000.0)}
    assert (await fetch(document(a=both), operator="STD")).samples == {"a": Sample(3.0, 1000.0)}


async def test_a_node_without_the_value_is_absent() -> None:
    assert (await fetch(document(a=[value("CPU", "AVG", 1)]), operator="STD")).samples == {}


@pytest.mark.parametrize("wrong", [-1, "40", None, True, [], 10**400])
async def test_a_value_that_cannot_be_is_refused(wrong: Any) -> None:
    reading = await fetch(document(a=[value("CPU", "AVG", wrong)]))
    assert not reading.samples
    assert reading.refused == {NOT_A_NUMBER: 1}


async def test_without_a_time_a_value_is_of_the_moment_it_arrives() -> None:
    reading = await fetch({"data": {"NodeMetricsMap": {"a": {"metrics": [value("CPU", "", 5)]}}}})
    assert reading.samples == {"a": Sample(5.0, None)}


@pytest.mark.parametrize("body", [b"", b"<html>", {}, {"data": None}, {"data": {"NodeMetricsMap": []}}, b"[" * 100_000])
async def test_what_is_no_load_watchers_answer_is_an_error(body: Any) -> None:
    with pytest.raises(SourceError, match="expected an answer of a load watcher"):
        await fetch(body)


async def test_an_error_status_is_an_error() -> None:
    with pytest.raises(SourceError, match="HTTP status 500"):
        await fetch(document(), status=500)
