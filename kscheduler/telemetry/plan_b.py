"""Tells the routing of new pods whether a policy's plan B is in force. Works on every replica, leader or standby."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kscheduler.framework.plugins.metricpolicy.rule_sets import metrics_of
from kscheduler.telemetry.policy_book import PolicyBook


class PlanBLookout:
    def __init__(self, book: PolicyBook, failures: Callable[[str], int]) -> None:
        """`failures` returns the number of consecutive failures of a metric."""
        self._book = book
        self._failures = failures

    def is_in_force(
        self, scheduler_name: str, namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> bool:
        """Return whether plan B of the policy that applies to such a pod is in force; False without a policy."""
        try:
            found = self._book.policy_for(scheduler_name, namespace, labels, annotations)
        except LookupError:
            return False  # the pod names a policy that is not there, and waits for it
        if found is None or found[1].plan_b is None:
            return False
        most = found[1].plan_b.after_failures
        return any(self._failures(metric) >= most for metric in metrics_of(found[1]))
