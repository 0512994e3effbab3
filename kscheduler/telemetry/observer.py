"""The interface through which live metrics report what they do, for the scheduler's own metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol


class MetricState(NamedTuple):
    """The freshness of one metric's samples at one moment."""

    metric: str
    age_s: float | None  # of the newest sample; None: no sample yet
    fresh: int  # nodes with a fresh sample; likewise stale and absent
    stale: int
    absent: int


class TelemetryObserver(Protocol):
    def source_asked(self, source: str, result: str, seconds: float) -> None:
        """Record one poll of a source. `result` is "success" or "error"."""
        ...

    def source_state(self, source: str, breaker: int, failures: int) -> None: ...

    def samples_refused(self, metric: str, refused: Mapping[str, int]) -> None:
        """Record the number of refused samples by reason."""
        ...

    def policy_counted(self, what: str, policy: str) -> None:
        """Count an occurrence for a policy. `what` is as in `framework.telemetry.Telemetry.count`."""
        ...

    def metric_gone(self, metric: str) -> None:
        """Drop the series of a metric that no longer exists."""
        ...

    def policy_gone(self, policy: str) -> None: ...

    def show_metrics(
        self, states: Callable[[], Iterable[MetricState]], plan_b: Callable[[], Mapping[str, bool]]
    ) -> None:
        """Register functions to call at each scrape. `plan_b` returns policy -> whether its plan B is in force."""
        ...

    def show_policies(self, states: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        """Register a function that is read at each scrape: (kind, "valid" or "invalid") -> number of objects."""
        ...


class NoTelemetryObserver:
    def source_asked(self, source: str, result: str, seconds: float) -> None:
        pass

    def source_state(self, source: str, breaker: int, failures: int) -> None:
        pass

    def samples_refused(self, metric: str, refused: Mapping[str, int]) -> None:
        pass

    def policy_counted(self, what: str, policy: str) -> None:
        pass

    def metric_gone(self, metric: str) -> None:
        pass

    def policy_gone(self, policy: str) -> None:
        pass

    def show_metrics(
        self, states: Callable[[], Iterable[MetricState]], plan_b: Callable[[], Mapping[str, bool]]
    ) -> None:
        pass

    def show_policies(self, states: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        pass
