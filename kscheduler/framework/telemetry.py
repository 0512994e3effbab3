"""Live metrics as plugins read them: columns of values by node, and the policy of a pod.

`kscheduler.telemetry` polls sources, keeps time and follows policy objects. Plugins only read,
and nothing here waits. Values and policies stay constant while a pod is decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kscheduler.config.metric_policy import Freshness, PolicySpec
from kscheduler.snapshot.metric_columns import MetricColumn
from kscheduler.snapshot.pod_info import PodInfo

POLICY_KEY = "kscheduler.io/metric-policy"  # label, or annotation, of a pod
TAS_KEY = "telemetry-policy"  # label of a pod


@dataclass(frozen=True, slots=True)
class PolicyRef:
    """A policy by name: of an object in a namespace, or of the configuration ("" as the namespace)."""

    namespace: str
    name: str


class SampleSteps(NamedTuple):
    """The newest value of a node with the steps of its processing, fresh or not."""

    read: float  # as the source said
    clamped: float
    smoothed: float
    age_s: float


class Telemetry(Protocol):
    def now(self) -> float:
        """Return seconds of the scheduler's clock, to compute how long a pod has waited."""
        ...

    def moment_of(self, text: str) -> float:
        """Return a time as the API writes it (RFC 3339), in seconds of the scheduler's clock; NaN if it is none."""
        ...

    def policy_of(self, pod: PodInfo) -> tuple[PolicyRef, PolicySpec] | None:
        """Return the pod's policy, None without one. Raises LookupError with the name of a missing policy."""
        ...

    @property
    def policies_version(self) -> int:
        """A number that grows when a policy changes, or plan B of a source begins or ends."""
        ...

    def column(self, metric: str, freshness: Freshness, *, last_good: bool = False) -> MetricColumn:
        """Return the column of values up to that age. Raises KeyError for an unknown metric.

        Equal questions get the same column, until `policies_version` grows: ask again then.
        """
        ...

    def sample_of(self, metric: str, row: int) -> SampleSteps | None:
        """Return the newest sample of the node in that row, to explain it; None if there is none."""
        ...

    def failures(self, metric: str) -> int:
        """Return the number of consecutive failures of the metric's source."""
        ...

    def watch(self, changed: Callable[[], object]) -> None:
        """Call `changed` from now on after values or policies have changed."""
        ...

    def tell(self, pod: PodInfo, reason: str, note: str) -> None:
        """Record an Event about the pod."""
        ...

    def count(self, what: str, policy: PolicyRef) -> None:
        """Count `what`, for metrics: a fallback (neutral, exclude, last-good, requeue), deadline, or relaxed:STEP."""
        ...


class NoTelemetry:
    """No policies and no metrics."""

    policies_version = 0

    def now(self) -> float:
        return 0.0

    def moment_of(self, text: str) -> float:
        return math.nan

    def policy_of(self, pod: PodInfo) -> None:
        return None

    def column(self, metric: str, freshness: Freshness, *, last_good: bool = False) -> MetricColumn:
        raise KeyError(metric)

    def sample_of(self, metric: str, row: int) -> None:
        return None

    def failures(self, metric: str) -> int:
        return 0

    def watch(self, changed: Callable[[], object]) -> None:
        pass

    def tell(self, pod: PodInfo, reason: str, note: str) -> None:
        pass

    def count(self, what: str, policy: PolicyRef) -> None:
        pass
