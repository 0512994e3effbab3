from __future__ import annotations

from collections.abc import Mapping

import pytest

from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.telemetry.metric_health import MetricHealth
from kscheduler.telemetry.source import DUPLICATE, NOT_A_NUMBER, OLDER


class Counted(Measurements):
    def __init__(self) -> None:
        super().__init__(Metrics(process=False))
        self.refused: list[tuple[str, dict[str, int]]] = []

    def samples_refused(self, metric: str, refused: Mapping[str, int]) -> None:
        self.refused.append((metric, dict(refused)))


def test_failures_of_the_metric_and_of_its_source_add_up_until_it_is_answered() -> None:
    health = MetricHealth(Counted())
    health.was_useless("load", "nobody home", 0.0)
    health.source_failed("load", 1)
    health.source_failed("load", 5)
    assert health.failures("load") == 5
    assert health.failures("heat") == 0
    health.answered("load")
    assert health.failures("load") == 0


def test_the_version_grows_with_changes_only() -> None:
    health = MetricHealth(Counted())
    health.answered("load")
    assert health.version == 0
    health.source_failed("load", 1)
    health.answered("load")
    health.answered("load")
    assert health.version == 2


def test_each_reason_is_counted_always_and_logged_when_it_begins_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    observer = Counted()
    health = MetricHealth(observer)
    for refused in ({NOT_A_NUMBER: 2, OLDER: 9, DUPLICATE: 0}, {NOT_A_NUMBER: 1}, {NOT_A_NUMBER: 1, DUPLICATE: 2}, {}):
        health.refused("load", refused)
    assert observer.refused == [
        ("load", {NOT_A_NUMBER: 2, OLDER: 9}),
        ("load", {NOT_A_NUMBER: 1}),
        ("load", {NOT_A_NUMBER: 1, DUPLICATE: 2}),
        ("load", {}),
    ]
    assert [(record.message, record.__dict__["reason"]) for record in caplog.records] == [
        ("samples of a metric are refused", NOT_A_NUMBER),
        ("samples of a metric are refused", DUPLICATE),
        ("samples of a metric are refused no longer", DUPLICATE),
        ("samples of a metric are refused no longer", NOT_A_NUMBER),
    ]


def test_a_metric_that_is_forgotten_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    health = MetricHealth(Counted())
    for _ in range(2):
        health.was_useless("load", "nobody home", 0.0)
        health.refused("load", {NOT_A_NUMBER: 1})
        assert health.failures("load") == 1
        health.forget("load")
    assert len(caplog.records) == 4


def test_each_other_reason_is_logged_and_the_latest_is_known(caplog: pytest.LogCaptureFixture) -> None:
    health = MetricHealth(Counted())
    for now, reason in ((0.0, "no such label"), (15.0, "no such label"), (30.0, "an empty answer")):
        health.was_useless("load", reason, now)
        assert health.reason("load") == reason
    assert [vars(record)["err"] for record in caplog.records] == ["no such label", "an empty answer"]
    health.refused("load", {NOT_A_NUMBER: 1})
    assert health.refusals("load") == [NOT_A_NUMBER]
    health.answered("load")
    assert health.reason("load") == ""
