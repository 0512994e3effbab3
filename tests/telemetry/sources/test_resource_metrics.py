from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.config.metric_policy import Metric, Source
from kscheduler.errors import Forbidden, Unreachable
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.source import NOT_A_NUMBER, UNKNOWN_NODE, Readings, Sample, SourceError
from kscheduler.telemetry.sources.resource_metrics import PATH, ResourceMetricsSource
from kscheduler.testing.wrappers import make_node
from tests.telemetry.sources.fake_api import FakeAPI

CPU = Metric(name="cpu", source="r", resource="cpu")
MEMORY = Metric(name="memory", source="r", resource="memory")
WHEN = "2023-11-14T22:13:20Z"


def usage(name: str, **usage: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "timestamp": WHEN, "window": "30s", "usage": usage}


async def fetch(answer: Any, *metrics: Metric, **settings: Any) -> tuple[Readings, FakeAPI]:
    table = NodeTable()
    table.set_node(make_node("a").capacity(cpu=4, memory="8Gi").obj())
    table.set_node(make_node("empty").obj())
    api = FakeAPI()
    api.answers[PATH] = answer
    source = ResourceMetricsSource(Source(name="r", resource_metrics=settings), api, table, AnswerLimits(lambda: 2))
    return await source.fetch(metrics or [CPU]), api


async def test_usage_is_a_share_of_what_the_node_has_to_give() -> None:
    readings, _ = await fetch({"items": [usage("a", cpu="1500m", memory="2Gi")]}, CPU, MEMORY)
    assert readings.by_metric["cpu"].samples == {"a": Sample(0.375, 1_700_000_000.0)}
    assert readings.by_metric["memory"].samples == {"a": Sample(0.25, 1_700_000_000.0)}
    assert readings.by_metric["cpu"].window_s == 30.0


async def test_one_question_is_enough_for_all_metrics() -> None:
    _, api = await fetch({"items": []}, CPU, MEMORY)
    assert api.asked == ["/apis/metrics.k8s.io/v1beta1/nodes"]


async def test_nanocores_are_not_rounded() -> None:
    readings, _ = await fetch({"items": [usage("a", cpu="4000001n")]})
    assert readings.by_metric["cpu"].samples["a"].value == pytest.approx(4000001e-9 / 4, rel=1e-15)


async def test_it_can_be_in_percent() -> None:
    readings, _ = await fetch({"items": [usage("a", cpu="3")]}, per=100)
    assert readings.by_metric["cpu"].samples["a"].value == 75.0


async def test_it_can_be_a_share_of_all_that_the_node_has() -> None:
    table = NodeTable()
    half = make_node("half").capacity(cpu=4, memory="8Gi").obj()
    table.set_node(replace(half, status=replace(half.status, allocatable={"cpu": "2", "memory": "4Gi"})))
    silent = make_node("silent").capacity(cpu=4).obj()
    table.set_node(replace(silent, status=replace(silent.status, capacity={"cpu": "many"})))
    api = FakeAPI()
    api.answers[PATH] = {"items": [usage("half", cpu="1", memory="2Gi"), usage("silent", cpu="1", memory="1Gi")]}
    settings = {"per": 100, "of": "capacity"}
    source = ResourceMetricsSource(Source(name="r", resource_metrics=settings), api, table, AnswerLimits(lambda: 2))
    readings = await source.fetch([CPU, MEMORY])
    for metric in ("cpu", "memory"):
        assert {node: value for node, (value, _) in readings.by_metric[metric].samples.items()} == {"half": 25.0}
        assert readings.by_metric[metric].refused == {NOT_A_NUMBER: 1}


@pytest.mark.parametrize("wrong", ["-1", "NaN", "lots", None, [], True])
async def test_a_usage_that_cannot_be_is_refused(wrong: Any) -> None:
    if isinstance(wrong, str):
        readings, _ = await fetch({"items": [usage("a", cpu=wrong)]})
        assert not readings.by_metric["cpu"].samples
        assert readings.by_metric["cpu"].refused == {NOT_A_NUMBER: 1}
    else:
        with pytest.raises(SourceError):
            await fetch({"items": [usage("a", cpu=wrong)]})


async def test_nodes_that_are_unknown_or_have_nothing_to_give_are_refused() -> None:
    readings, _ = await fetch({"items": [usage("gone", cpu="1"), usage("empty", cpu="1")]})
    assert readings.by_metric["cpu"].refused == {UNKNOWN_NODE: 1, NOT_A_NUMBER: 1}


async def test_an_api_that_is_not_served_or_not_allowed_is_an_error() -> None:
    with pytest.raises(SourceError, match="may not"):
        await fetch(Forbidden("may not list nodes", status=403))
    with pytest.raises(SourceError, match="gone"):
        await fetch(Unreachable("gone"))
    source = ResourceMetricsSource(Source(name="r", resource_metrics={}), FakeAPI(), NodeTable(), AnswerLimits(int))
    with pytest.raises(SourceError, match=r"metrics\.k8s\.io is not served"):
        await source.fetch([CPU])


@pytest.mark.parametrize("garbage", [b"", b"<html>", b'{"items": 5}', b"[" * 100_000])
async def test_garbage_is_an_error(garbage: bytes) -> None:
    with pytest.raises(SourceError):
        await fetch(garbage)
