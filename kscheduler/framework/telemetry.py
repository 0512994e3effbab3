"""What plugins know of live metrics: columns of values by node, and which policy a pod is under.

Somebody at the edge asks sources, keeps time and follows policy objects; see `kscheduler.telemetry`. Plugins only read,
and nothing here waits. Values and policies stand still while a pod is decided.
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
    """How a node's newest value came about, whether it is still fresh or not."""

    read: float  # as the source said
    clamped: float
    smoothed: float
    age_s: float


class Telemetry(Protocol):
    def now(self) -> float:
        """Seconds of the scheduler's clock, for telling how long a pod has waited."""
        ...

    def moment_of(self, text: str) -> float:
        """A time as the API writes it (RFC 3339), in seconds of the scheduler's clock; NaN if it is none."""
        ...

    def policy_of(self, pod: PodInfo) -> tuple[PolicyRef, PolicySpec] | None:
        """The policy in force for the pod, if any. Raises LookupError, with the name, if what it names is not there."""
        ...

    @property
    def policies_version(self) -> int:
        """Grows when a policy came, changed or went, or plan B of a source began or ended."""
        ...

    def column(self, metric: str, freshness: Freshness, *, last_good: bool = False) -> MetricColumn:
        """Values no older than that. Raises KeyError for an unknown metric.

        The same column for the same question, until `policies_version` grows: ask again then.
        """
        ...

    def sample_of(self, metric: str, row: int) -> SampleSteps | None:
        """For people: the newest sample of the node in that row; None if there is none."""
        ...

    def failures(self, metric: str) -> int:
        """How often in a row its source has failed."""
        ...

    def watch(self, changed: Callable[[], object]) -> None:
        """From now on call this after values or policies have changed."""
        ...

    def tell(self, pod: PodInfo, reason: str, note: str) -> None:
        """An Event about the pod."""
        ...

    def count(self, what: str, policy: PolicyRef) -> None:
        """`what`: a fallback (neutral, exclude, last-good, requeue), deadline, or relaxed:STEP; for the metrics."""
        ...


class NoTelemetry:
    """Where nothing is measured: no policies, no metrics."""

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
