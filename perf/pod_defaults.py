"""What the apiserver gives every pod. No import, so that a process whose memory is measured may have it."""

from __future__ import annotations

from typing import Any


def tolerations() -> list[dict[str, Any]]:
    """Return the tolerations that keep a pod for five minutes on a node that fails."""
    return [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]


def spec_defaults() -> dict[str, Any]:
    """Return what a pod's spec holds besides volumes, containers and the ServiceAccount."""
    return {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": tolerations(),
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
