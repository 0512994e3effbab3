"""How long a pod may take to end once it was asked to."""

from __future__ import annotations

from kscheduler.api.objects import Pod

DEFAULT_GRACE_S = 30  # the apiserver's default of terminationGracePeriodSeconds


def grace_s(pod: Pod) -> int:
    """Return the pod's grace period in seconds."""
    asked = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_S if asked is None else asked
