from __future__ import annotations

from typing import Any

import pytest

from kscheduler.config.metric_policy import Metric
from kscheduler.errors import Forbidden, NotFound
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.source import DUPLICATE, NOT_A_NUMBER, UNKNOWN_NODE, Sample
from kscheduler.telemetry.sources.custom_metrics import CustomMetricsSource
from tests.telemetry.sources.fake_api import FakeAPI

HEAT = Metric(name="heat", source="c", metric="node temperature", selector="sensor=cpu,zone!=b")
PATH = "/apis/custom.metrics.k8s.io/{}/nodes/*/node%20temperature?metricLabelSelector=sensor%3Dcpu%2Czone%21%3Db"
V2, V1 = PATH.format("v1beta2"), PATH.format("v1beta1")
WHEN = "2023-11-14T22:13:20Z"


def item(node: str, value: Any, kind: str = "Node", **more: Any) -> dict[str, Any]:
    return {"describedObject": {"kind": kind, "name": node}, "timestamp": WHEN, "value": value, **more}


def source_of(api: FakeAPI) -> CustomMetricsSource:
    return CustomMetricsSource(api, AnswerLimits(lambda: 2))


async def test_values_are_quantities_of_the_objects_they_describe() -> None:
    api = FakeAPI()
    api.answers[V2] = {"items": [item("a", "81500m", windowSeconds=60), item("b", "7")]}
    reading = (await source_of(api).fetch([HEAT])).by_metric["heat"]
    assert reading.samples == {"a": Sample(81.5, 1_700_000_000.0), "b": Sample(7.0, 1_700_000_000.0)}
    assert reading.window_s == 60.0


async def test_where_only_the_older_version_is_served_it_is_asked_and_remembered() -> None:
    api = FakeAPI()
    api.answers[V1] = {"items": [item("a", "1", window=30)]}
    source = source_of(api)
    reading = (await source.fetch([HEAT])).by_metric["heat"]
    assert reading.samples == {"a": Sample(1.0, 1_700_000_000.0)}
    assert reading.window_s == 30.0
    await source.fetch([HEAT])
    assert api.asked == [V2, V1, V1]


async def test_after_an_upgrade_the_newer_version_is_found() -> None:
    api = FakeAPI()
    api.answers[V1] = {"items": []}
    source = source_of(api)
    await source.fetch([HEAT])
    api.answers = {V2: {"items": [item("a", "1")]}}
    assert (await source.fetch([HEAT])).by_metric["heat"].samples
    await source.fetch([HEAT])
    assert api.asked == [V2, V1, V1, V2, V2]


async def test_a_metric_that_does_not_exist_fails_and_the_others_do_not() -> None:
    api = FakeAPI()
    api.answers[V2] = {"items": [item("a", "1")]}
    readings = await source_of(api).fetch([Metric(name="cost", source="c", metric="cost"), HEAT])
    assert readings.failed == {"cost": "custom.metrics.k8s.io has no metric cost of nodes: not served"}
    assert list(readings.by_metric) == ["heat"]


async def test_a_metric_that_the_only_version_served_lacks_fails_with_that_versions_reason() -> None:
    api = FakeAPI()
    api.answers[V1] = NotFound("the server could not find the metric node temperature for nodes", status=404)
    assert (await source_of(api).fetch([HEAT])).failed == {
        "heat": "custom.metrics.k8s.io has no metric node temperature of nodes: "
        "v1beta1: the server could not find the metric node temperature for nodes; v1beta2: not served"
    }


async def test_what_may_not_be_read_fails_with_the_reason() -> None:
    api = FakeAPI()
    api.answers[V2] = Forbidden("may not get nodes/heat", status=403)
    assert (await source_of(api).fetch([HEAT])).failed == {"heat": "may not get nodes/heat"}
    assert api.asked == [V2]


async def test_elements_that_are_not_of_nodes_or_no_numbers_are_refused() -> None:
    api = FakeAPI()
    api.answers[V2] = {
        "items": [
            item("p", "1", kind="Pod"),
            item("", "1"),
            item("a", "hot"),
            item("b", None),
            item("c", "1", timestamp="just now"),
            item("d", "1"),
            item("d", "2"),
        ]
    }
    reading = (await source_of(api).fetch([HEAT])).by_metric["heat"]
    assert not reading.samples
    assert reading.refused == {UNKNOWN_NODE: 2, NOT_A_NUMBER: 3, DUPLICATE: 2}


@pytest.mark.parametrize("garbage", [b"", b"<html>", b'{"items": {}}', b"[" * 100_000])
async def test_garbage_is_a_failure(garbage: bytes) -> None:
    api = FakeAPI()
    api.answers[V2] = garbage
    assert list((await source_of(api).fetch([HEAT])).failed) == ["heat"]
