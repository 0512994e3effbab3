"""The nodes and pods that tests and benchmarks create, as JSON-like objects.

The defaults are those of the scheduler_perf suite: a node has 4 CPUs, 32 Gi and room for 110 pods; a pod requests
100m and 500 Mi. `{index}` in any string of a template is replaced by the object's number when it is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kscheduler.testing.controlplane.api import Object

IMAGE = "pause:3.10"

NODE_CAPACITY: dict[str, str] = {"cpu": "4", "memory": "32Gi", "pods": "110"}
POD_REQUESTS: dict[str, str] = {"cpu": "100m", "memory": "500Mi"}


def node(
    name: str = "node-{index}",
    *,
    capacity: Mapping[str, str] = NODE_CAPACITY,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: list[Object] | None = None,
) -> Object:
    """Return a Ready node without a kubelet; the apiserver keeps the status given at creation."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    spec: Object = {"taints": taints} if taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": spec,
        "status": {"capacity": dict(capacity), "allocatable": dict(capacity), "conditions": [ready]},
    }


def pod(
    name: str = "pod-{index}",
    *,
    requests: Mapping[str, str] = POD_REQUESTS,
    labels: Mapping[str, str] | None = None,
    scheduler_name: str = "default-scheduler",
    spec: Mapping[str, Any] | None = None,  # further fields of the pod's spec
) -> Object:
    """Return a pod with one container. Extended resources are also set as limits, as the apiserver demands."""
    extended = {resource: amount for resource, amount in requests.items() if "/" in resource}
    container = {
        "name": "pause",
        "image": IMAGE,
        "resources": {"requests": dict(requests), **({"limits": extended} if extended else {})},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"containers": [container], "schedulerName": scheduler_name, **(spec or {})},
    }
