"""A source that says what a test gives it, and telemetry around it in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from kscheduler.clock import Clock
from kscheduler.config.metric_policy import Metric, Source
from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.policy_book import PolicyBook
from kscheduler.telemetry.source import Reading, Readings, Sample, SourceError
from kscheduler.telemetry.telemetry import LiveTelemetry

SOURCE = Source(name="fake", resource_metrics={})


class FakeSource:
    """`values`: metric -> node -> value. An exception in `failure` is raised; with `hangs` there is no answer."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, float]] = {}
        self.stamps: dict[str, float] = {}  # node -> Unix seconds; else the moment of arrival
        self.reasons: dict[str, str] = {}  # metric without values -> why it has none
        self.failure: Exception | None = None
        self.hangs = False
        self.asked: list[list[str]] = []  # the metrics of each question
        self.is_closed = False

    async def fetch(self, metrics: Sequence[Metric]) -> Readings:
        self.asked.append([metric.name for metric in metrics])
        if self.hangs:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure
        readings = Readings()
        for metric in metrics:
            if metric.name in self.values:
                readings.by_metric[metric.name] = Reading(
                    {node: Sample(value, self.stamps.get(node)) for node, value in self.values[metric.name].items()}
                )
            else:
                readings.failed[metric.name] = self.reasons.get(metric.name, "no such metric")
        return readings

    def fail(self, reason: str = "asked to") -> None:
        self.failure = SourceError(reason)

    async def close(self) -> None:
        self.is_closed = True


def measurements() -> Measurements:
    return Measurements(Metrics(process=False))


def no_policies() -> PolicyBook:
    return PolicyBook((), lambda verdict: None)


def telemetry_of(
    table: NodeTable,
    source: FakeSource,
    clock: Clock,
    metrics: Sequence[Metric] = (Metric(name="load", source="fake"),),
    config: Source = SOURCE,
    policies: PolicyBook | None = None,
    observer: Measurements | None = None,
) -> LiveTelemetry:
    return LiveTelemetry(
        table,
        [config],
        metrics,
        lambda config: source,
        clock=clock,
        rng=random.Random(1),
        policies=policies or no_policies(),
        observer=observer or measurements(),
        record_for_pod=lambda pod, reason, note: None,
    )
