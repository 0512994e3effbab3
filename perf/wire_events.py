"""Lines of a watch as an apiserver writes them, of each kind that is frequent for a scheduler.

The objects also contain what a live cluster's contain and a scheduler does not read: managedFields, the token volume
that admission adds, probes, environment variables, images on nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perf.pod_defaults import spec_defaults

Object = dict[str, Any]

PENDING = "pod: new and pending"
BOUND = "pod: bound as we asked"
RUNNING = "pod: its kubelet reports"
FIELDS = "pod: its managedFields alone"
HEARTBEAT = "node: heartbeat"
BOOKMARK = "bookmark"

_TIME = "2026-01-02T03:04:05Z"


def line(kind: str, number: int, version: int) -> bytes:
    """One line, newline included."""
    event = {"type": _TYPES.get(kind, "MODIFIED"), "object": _OBJECTS[kind](number, version)}
    return msgspec.json.encode(event) + b"\n"


def before(kind: str) -> str:
    """Return the kind of event that comes before this one for the same object; "" for none."""
    return {BOUND: PENDING, RUNNING: BOUND, FIELDS: RUNNING, HEARTBEAT: HEARTBEAT}.get(kind, "")


def _pod(number: int, version: int, spec: Object, status: Object, managers: int) -> Object:
    name = f"web-7c5ddbdf54-{number:06d}"
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "generateName": "web-7c5ddbdf54-",
            "namespace": "shop",
            "uid": f"3f0c8a52-5d0e-4f1d-9a59-{number:012d}",
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": _TIME,
            "labels": {"app": "web", "pod-template-hash": "7c5ddbdf54", "tier": "front"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web-7c5ddbdf54",
                    "uid": "9a1f3c1e-0000-4000-8000-5e0dbeef0001",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [_managed(manager, version) for manager in range(managers)],
        },
        "spec": {
            "volumes": [
                {"name": "kube-api-access-x7k2p", "projected": {"sources": _TOKEN_SOURCES, "defaultMode": 420}}
            ],
            "containers": [_container("web"), _container("proxy")],
            "serviceAccountName": "default",
            "serviceAccount": "default",
            **spec_defaults(),
            **spec,
        },
        "status": {"qosClass": "Burstable", **status},
    }


_TOKEN_SOURCES = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {
        "downwardAPI": {
            "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
        }
    },
]


def _container(name: str) -> Object:
    return {
        "name": name,
        "image": f"registry.example.com/shop/{name}:v1.2.3",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{index}", "value": f"value-{index}"} for index in range(6)],
        "resources": {"limits": {"memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [
            {
                "name": "kube-api-access-x7k2p",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _managed(manager: int, version: int) -> Object:
    fields: Object = {f"f:field{index}": {"f:inner": {}, "f:other": {".": {}, "f:leaf": {}}} for index in range(8)}
    return {
        "manager": ("kube-controller-manager", "kubelet")[manager % 2],
        "operation": "Update",
        "apiVersion": "v1",
        "time": f"2026-01-02T03:04:{version % 60:02d}Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": fields, "f:spec": fields},
    }


def _pending(number: int, version: int) -> Object:
    return _pod(number, version, {}, {"phase": "Pending"}, 1)


def _bound(number: int, version: int) -> Object:
    return _pod(number, version, _on_node(number), {"phase": "Pending", "conditions": [_condition("PodScheduled")]}, 1)


def _running(number: int, version: int) -> Object:
    kinds = ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    status = {
        "phase": "Running",
        "hostIP": "10.0.0.7",
        "podIP": "10.244.3.17",
        "podIPs": [{"ip": "10.244.3.17"}],
        "startTime": _TIME,
        "conditions": [_condition(kind) for kind in kinds],
        "containerStatuses": [_container_status(name) for name in ("web", "proxy")],
    }
    return _pod(number, version, _on_node(number), status, 2)


def _on_node(number: int) -> Object:
    return {"nodeName": f"node-{number % 5000:05d}"}


def _condition(kind: str) -> Object:
    return {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _TIME}


def _container_status(name: str) -> Object:
    return {
        "name": name,
        "state": {"running": {"startedAt": _TIME}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": f"registry.example.com/shop/{name}:v1.2.3",
        "imageID": f"registry.example.com/shop/{name}@sha256:{'ab' * 32}",
        "containerID": f"containerd://{'cd' * 32}",
        "started": True,
        "allocatedResources": {"cpu": "100m", "memory": "128Mi"},
        "resources": {"limits": {"memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
    }


def _node(number: int, version: int) -> Object:
    name = f"node-{number % 5000:05d}"
    amounts = {"cpu": "32", "memory": "131072Ki", "ephemeral-storage": "100Gi", "pods": "110"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "uid": f"aa0c8a52-5d0e-4f1d-9a59-{number:012d}",
            "resourceVersion": str(version),
            "creationTimestamp": _TIME,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/region": "r1",
                "topology.kubernetes.io/zone": f"z{number % 3}",
                "node.kubernetes.io/instance-type": "m5.8xlarge",
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", "csi.volume.kubernetes.io/nodeid": '{"csi":"i-0"}'},
            "managedFields": [_managed(manager, version) for manager in range(3)],
        },
        "spec": {"podCIDR": "10.244.3.0/24", "podCIDRs": ["10.244.3.0/24"], "providerID": "aws:///z/i-0123456789"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                _heartbeat(kind, version) for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
            ],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": "ab" * 16,
                "kubeletVersion": "v1.36.3",
                "osImage": "Linux",
                "architecture": "amd64",
            },
            "images": [
                {
                    "names": [
                        f"registry.example.com/shop/image-{index}@sha256:{'ef' * 32}",
                        f"registry.example.com/shop/image-{index}:v1.{index}",
                    ],
                    "sizeBytes": 50_000_000 + index,
                }
                for index in range(50)  # as many as a kubelet reports
            ],
        },
    }


def _heartbeat(kind: str, version: int) -> Object:
    return {
        "type": kind,
        "status": "True" if kind == "Ready" else "False",
        "lastHeartbeatTime": f"2026-01-02T03:04:{version % 60:02d}Z",
        "lastTransitionTime": _TIME,
        "reason": "KubeletHasSufficientMemory",
        "message": "kubelet has sufficient memory available",
    }


def _bookmark(number: int, version: int) -> Object:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": str(version), "creationTimestamp": None},
        "spec": {"containers": None},
        "status": {},
    }


_OBJECTS: dict[str, Callable[[int, int], Object]] = {
    PENDING: _pending,
    BOUND: _bound,
    RUNNING: _running,
    FIELDS: _running,
    HEARTBEAT: _node,
    BOOKMARK: _bookmark,
}
_TYPES = {PENDING: "ADDED", BOOKMARK: "BOOKMARK"}
KINDS = tuple(_OBJECTS)
