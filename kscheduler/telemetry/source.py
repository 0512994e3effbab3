"""The interface of a metric source: one fetch for many metrics, made in the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kscheduler.config.metric_policy import Metric, Source
from kscheduler.errors import KSchedulerError
from kscheduler.telemetry.readings import Readings


class SourceError(KSchedulerError):
    """The source gave no answer, or none that can be used."""


class MetricSource(Protocol):
    async def fetch(self, metrics: Sequence[Metric]) -> Readings:
        """Fetch the metrics; cancelled at the timeout. Raises SourceError if no metric can be read at all."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


MakeSource = Callable[[Source], MetricSource]
