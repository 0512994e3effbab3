"""The interface through which plugins read live metrics: columns of values by node, and the policy of a pod.

`kscheduler.telemetry` implements it: it polls sources and watches policy objects. Plugins only read, and nothing here
blocks. Values and policies stay constant while a pod is decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kscheduler.config.metric_policy import Freshness, PolicySpec
from kscheduler.snapshot.metric_columns import MetricColumn
from kscheduler.snapshot.pod_info import PodInfo

POLICY_KEY = "kscheduler.io/metric-policy"  # label, or annotation, of a pod
TAS_KEY = "telemetry-policy"  # label of a pod


@dataclass(frozen=True, slots=True)
class PolicyRef:
    """The name of a metric policy: an object in a namespace, or one in the configuration (namespace "")."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class SampleSteps(NamedTuple):
    """The newest value of a metric on a node: as read, clamped and smoothed; it may be too old for rules to use."""

    read: float  # as the source returned it
    clamped: float
    smoothed: float
    age_s: float


class Telemetry:
    """The live metrics, and the policies over them, that plugins read.

    This base class serves a scheduler without live metrics: it has no policies and no values.
    """

    def now(self) -> float:
        """Return the time in seconds of the scheduler's clock, to compute how long a pod has waited."""
        return 0.0

    def moment_of(self, text: str) -> float:
        """Convert an RFC 3339 time to seconds of the scheduler's clock; NaN if the text is not a time."""
        return math.nan

    def policy_of(self, pod: PodInfo) -> tuple[PolicyRef, PolicySpec] | None:
        """Return the policy that the pod names; None if it names none.

        Raises LookupError with the name of a missing policy.
        """
        return None

    @property
    def policies_version(self) -> int:
        """A number that grows when a policy changes, or when a policy's fallback (plan B) begins or ends to apply."""
        return 0

    def column(self, metric: str, freshness: Freshness, *, last_good: bool = False) -> MetricColumn:
        """Return the column of a metric's values by node that are fresh enough. Raises KeyError for an unknown metric.

        Calls with equal arguments return the same column until `policies_version` grows; then call `column` again.
        """
        raise KeyError(metric)

    def sample_of(self, metric: str, row: int) -> SampleSteps | None:
        """Return the newest sample of a metric for the node in a row, to explain a decision; None if there is none."""
        return None

    def failures(self, metric: str) -> int:
        """Return how many times in a row the metric's source has failed."""
        return 0

    def watch(self, changed: Callable[[], object]) -> None:
        """Register `changed`, which is called whenever values or policies have changed."""

    def record_event(self, pod: PodInfo, reason: str, note: str) -> None:
        """Record a Kubernetes Event about the pod."""

    def count(self, what: str, policy: PolicyRef) -> None:
        """Count an occurrence for a policy, for metrics.

        `what` is a fallback (neutral, exclude, last-good, requeue), "deadline", or "relaxed:STEP".
        """
