"""The interface of the policy store that the telemetry uses to find the policy of a pod."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kscheduler.config.metric_policy import Metric, PolicySpec
from kscheduler.framework.telemetry import PolicyRef
from kscheduler.snapshot.pod_info import PodInfo


class Policies(Protocol):
    @property
    def version(self) -> int:
        """A number that grows when a policy is added, changed or removed."""
        ...

    def policy_of(self, pod: PodInfo) -> tuple[PolicyRef, PolicySpec] | None:
        """Return the pod's policy, None without one. Raises LookupError, with the name, if that policy is missing."""
        ...

    def knows(self, policy: PolicyRef) -> bool:
        """Return whether the policy exists, valid or not."""
        ...

    def metrics(self) -> Sequence[Metric]:
        """Return the metrics that policies read beside those of the configuration, each with its source."""
        ...

    def watch(self, changed: Callable[[], object]) -> None:
        """Register a function that is called each time `version` has grown."""
        ...


class NoPolicies:
    version = 0

    def policy_of(self, pod: PodInfo) -> None:
        return None

    def knows(self, policy: PolicyRef) -> bool:
        return False

    def metrics(self) -> Sequence[Metric]:
        return ()

    def watch(self, changed: Callable[[], object]) -> None:
        pass
