"""What the edge of live metrics reports for people to see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol


class MetricState(NamedTuple):
    """One metric, at one moment."""

    metric: str
    age_s: float | None  # of the newest sample; None: there was none yet
    fresh: int  # nodes
    stale: int
    absent: int


class TelemetryObserver(Protocol):
    def source_asked(self, source: str, result: str, seconds: float) -> None:
        """`result`: success or error."""
        ...

    def source_state(self, source: str, breaker: int, failures: int) -> None: ...

    def samples_refused(self, metric: str, refused: Mapping[str, int]) -> None:
        """Reason -> how many."""
        ...

    def policy_counted(self, what: str, policy: str) -> None:
        """`what`: as in `framework.telemetry.Telemetry.count`."""
        ...

    def metric_gone(self, metric: str) -> None:
        """There is no such metric any more: what was counted of it need not be shown for ever."""
        ...

    def policy_gone(self, policy: str) -> None: ...

    def show_metrics(
        self, states: Callable[[], Iterable[MetricState]], plan_b: Callable[[], Mapping[str, bool]]
    ) -> None:
        """Read these whenever somebody looks. `plan_b`: policy -> is it in force?"""
        ...

    def show_policies(self, states: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        """(kind, valid or invalid) -> how many objects; read in the same way."""
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
