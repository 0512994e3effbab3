"""Where values come from: one question for many metrics, asked in the background."""

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
        """Raises SourceError if there is nothing at all to be had. It is cancelled when the time is over."""
        ...

    async def close(self) -> None:
        """Let connections go."""
        ...


MakeSource = Callable[[Source], MetricSource]
