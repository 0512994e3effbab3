"""Which policy a pod is under: what the telemetry asks of whoever keeps policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kscheduler.config.metric_policy import Metric, PolicySpec
from kscheduler.framework.telemetry import PolicyRef
from kscheduler.snapshot.pod_info import PodInfo


class Policies(Protocol):
    @property
    def version(self) -> int:
        """Grows when a policy came, changed or went."""
        ...

    def policy_of(self, pod: PodInfo) -> tuple[PolicyRef, PolicySpec] | None:
        """Raises LookupError, with the name, if what the pod names is not there."""
        ...

    def knows(self, policy: PolicyRef) -> bool:
        """Is there such a policy, valid or not?"""
        ...

    def metrics(self) -> Sequence[Metric]:
        """What policies read beside the metrics of the configuration, with the sources those come from."""
        ...

    def watch(self, changed: Callable[[], object]) -> None:
        """From now on call this after `version` has grown."""
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
