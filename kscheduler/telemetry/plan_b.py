"""Whether plan B of a policy is in force, for those who route new pods: on every replica, whether it decides or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kscheduler.framework.plugins.metricpolicy.rule_sets import metrics_of
from kscheduler.telemetry.policy_book import PolicyBook


class PlanBLookout:
    def __init__(self, book: PolicyBook, failures: Callable[[str], int]) -> None:
        """`failures`: metric -> how often in a row its source has failed."""
        self._book = book
        self._failures = failures

    def is_in_force(
        self, scheduler_name: str, namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> bool:
        """Of the policy that such a pod would be under; not if there is none."""
        try:
            found = self._book.policy_for(scheduler_name, namespace, labels, annotations)
        except LookupError:
            return False  # it waits for its policy
        if found is None or found[1].plan_b is None:
            return False
        most = found[1].plan_b.after_failures
        return any(self._failures(metric) >= most for metric in metrics_of(found[1]))
