from __future__ import annotations

from kscheduler.config.metric_policy import Metric
from kscheduler.errors import Unreachable
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.source import NOT_A_NUMBER, UNKNOWN_NODE, Sample
from kscheduler.telemetry.sources.external_metrics import ExternalMetricsSource
from tests.telemetry.sources.fake_api import FakeAPI

PRICE = Metric(name="price", source="e", metric="spot_price", namespace="billing", node_label="vm", selector="cloud=x")
PATH = "/apis/external.metrics.k8s.io/v1beta1/namespaces/billing/spot_price?labelSelector=cloud%3Dx"
WHEN = "2023-11-14T22:13:20Z"


async def test_values_are_joined_to_nodes_by_a_label() -> None:
    api = FakeAPI()
    api.answers[PATH] = {
        "items": [
            {"metricName": "spot_price", "metricLabels": {"vm": "a"}, "timestamp": WHEN, "window": 60, "value": "35m"},
            {"metricName": "spot_price", "metricLabels": None, "timestamp": WHEN, "value": "1"},
            {"metricName": "spot_price", "metricLabels": {"vm": "b"}, "timestamp": WHEN, "value": "free"},
        ]
    }
    reading = (await ExternalMetricsSource(api, AnswerLimits(lambda: 2)).fetch([PRICE])).by_metric["price"]
    assert reading.samples == {"a": Sample(0.035, 1_700_000_000.0)}
    assert reading.window_s == 60.0
    assert reading.refused == {UNKNOWN_NODE: 1, NOT_A_NUMBER: 1}


async def test_one_metric_that_fails_spoils_no_other() -> None:
    api = FakeAPI()
    api.answers[PATH] = {"items": []}
    api.answers["/apis/external.metrics.k8s.io/v1beta1/namespaces/default/down"] = Unreachable("gone")
    metrics = [Metric(name=name, source="e", metric=name) for name in ("down", "missing")]
    readings = await ExternalMetricsSource(api, AnswerLimits(lambda: 2)).fetch([*metrics, PRICE])
    assert list(readings.by_metric) == ["price"]
    assert readings.failed == {
        "down": "gone",
        "missing": "external.metrics.k8s.io has no metric missing: not served",
    }
