"""Clusters as an apiserver lists them, page by page: nodes and pods as real clusters have them, or as benchmarks do."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kscheduler.client.informer import PAGE_SIZE
from perf.pod_defaults import spec_defaults, tolerations

PENDING = 1_000
WORKLOADS = 400  # distinct pod templates
NAMESPACES = 40
IMAGES_ON_NODE = 30
PAGES = "{plural}-{limit}-{token}.json"  # the file of one page


def write_cluster(directory: Path, nodes: int, pods: int, like: str) -> None:
    make_node, make_pod = LIKE[like]
    write_pages(directory, "nodes", "NodeList", (make_node(i) for i in range(nodes)))
    everything = (make_pod(i, f"node-{i % nodes:05}" if i < pods else "") for i in range(pods + PENDING))
    write_pages(directory, "pods", "PodList", everything)


def write_pages(directory: Path, plural: str, kind: str, documents: Iterator[dict[str, object]]) -> None:
    """Pages as informers ask for them; the first is 0."""
    items: list[bytes] = []
    token = 0
    pending = next(documents, None)
    while True:
        while pending is not None and len(items) < PAGE_SIZE:
            items.append(json.dumps(pending, separators=(",", ":")).encode())
            pending = next(documents, None)
        following = "" if pending is None else str(token + 1)
        head = json.dumps(
            {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "9", "continue": following}}
        )
        name = PAGES.format(plural=plural, limit=PAGE_SIZE, token=token)
        (directory / name).write_bytes(head[:-1].encode() + b',"items":[' + b",".join(items) + b"]}")
        if not following:
            return
        items, token = [], token + 1


def real_pod(number: int, node: str) -> dict[str, Any]:
    """About 4.5 kB: a pod of a Deployment as a cluster has it, with two containers and its service account's token."""
    rng = random.Random(number)
    workload = number % WORKLOADS
    app, namespace = f"service-{workload}", f"team-{workload % NAMESPACES}"
    hashed = f"{workload * 2654435761 % 2**32:010x}"
    name = f"{app}-{hashed}-{rng.randrange(36**5):05x}"
    token = f"kube-api-access-{rng.randrange(36**5):05x}"
    started = f"2026-11-{1 + number % 28:02}T{number // 28 % 24:02}:{number // 700 % 60:02}:{number % 60:02}Z"
    mounts = [
        {"name": "config", "mountPath": "/etc/app"},
        {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]
    labels = {
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/instance": f"{app}-prod",
        "app.kubernetes.io/version": f"1.{workload % 9}.0",
        "team": namespace,
        "pod-template-hash": hashed,
    }
    managed: dict[str, Any] = {
        f"f:{field}": {".": {}, "f:type": {}, "f:status": {}, "f:lastTransitionTime": {}}
        for field in ("metadata", "spec", "status", "containers", "volumes", "conditions")
    }
    pod: dict[str, Any] = {
        "metadata": {
            "name": name,
            "generateName": f"{app}-{hashed}-",
            "namespace": namespace,
            "uid": _uid(rng),
            "resourceVersion": str(100_000 + number),
            "generation": 1,
            "creationTimestamp": started,
            "labels": labels,
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
                "checksum/config": f"{workload:064x}",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-{hashed}",
                    "uid": _uid(random.Random(-workload - 1)),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": manager,
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": started,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": managed,
                }
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "volumes": [
                {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
                {"name": "scratch", "emptyDir": {}},
                {
                    "name": token,
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        ],
                        "defaultMode": 420,
                    },
                },
            ],
            "containers": [
                {
                    "name": container,
                    "image": f"registry.example.com/{namespace}/{container}:1.{workload % 9}.0",
                    "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                    "env": [{"name": f"SETTING_{n}", "value": f"value of setting {n}"} for n in range(6)],
                    "resources": {
                        "requests": {"cpu": f"{50 * (1 + workload % 6)}m", "memory": f"{64 * (1 + workload % 8)}Mi"},
                        "limits": {"memory": f"{128 * (1 + workload % 8)}Mi"},
                    },
                    "volumeMounts": mounts,
                    "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
                for container in (app, "proxy")
            ],
            "serviceAccountName": app,
            **spec_defaults(),
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    if node:
        pod["spec"]["nodeName"] = node
        pod["status"] = {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": started}
                for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "hostIP": f"10.0.{number % 250}.7",
            "podIP": f"10.{number % 200}.{number % 250}.9",
            "startTime": started,
            "containerStatuses": [
                {
                    "name": container,
                    "state": {"running": {"startedAt": started}},
                    "ready": True,
                    "restartCount": 0,
                    "image": f"registry.example.com/{namespace}/{container}:1.{workload % 9}.0",
                    "imageID": f"registry.example.com/{namespace}/{container}@sha256:{workload:064x}",
                    "containerID": f"containerd://{rng.getrandbits(256):064x}",
                    "allocatedResources": {
                        "cpu": f"{50 * (1 + workload % 6)}m",
                        "memory": f"{64 * (1 + workload % 8)}Mi",
                    },
                    "resources": {
                        "requests": {"cpu": f"{50 * (1 + workload % 6)}m", "memory": f"{64 * (1 + workload % 8)}Mi"},
                        "limits": {"memory": f"{128 * (1 + workload % 8)}Mi"},
                    },
                }
                for container in (app, "proxy")
            ],
            "qosClass": "Burstable",
        }
    return pod


def large_pod(number: int, node: str) -> dict[str, Any]:
    """About 10 kB: a real pod with as many managed fields as in a cluster with server-side apply."""
    pod = real_pod(number, node)
    known: dict[str, Any] = {".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}
    fields = {f'k:{{"type":"Condition{each}"}}': known for each in range(20)}
    pod["metadata"]["managedFields"][0]["fieldsV1"]["f:status"] = {"f:conditions": fields}
    return pod


def small_pod(number: int, node: str) -> dict[str, Any]:
    """About 700 bytes: what kube-scheduler's own benchmark creates."""
    rng = random.Random(number)
    pod: dict[str, Any] = {
        "metadata": {
            "name": f"pod-{number:06}",
            "namespace": "default",
            "uid": _uid(rng),
            "resourceVersion": str(100_000 + number),
            "creationTimestamp": f"2026-11-01T00:{number // 6000 % 60:02}:{number // 100 % 60:02}Z",
        },
        "spec": {
            "containers": [
                {
                    "name": "pause",
                    "image": "registry.k8s.io/pause:3.10",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}},
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": tolerations(),
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    if node:
        pod["spec"]["nodeName"] = node
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}
        pod["status"]["conditions"] = [scheduled]
    return pod


def real_node(number: int) -> dict[str, Any]:
    """About 8 kB, most of it images."""
    node = small_node(number)
    rng = random.Random(number)
    node["metadata"]["labels"] |= {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m7.2xlarge",
        "topology.kubernetes.io/region": "region-1",
    }
    node["metadata"]["annotations"] = {
        "node.alpha.kubernetes.io/ttl": "300",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        "csi.volume.kubernetes.io/nodeid": json.dumps({"csi.example.com": f"i-{rng.getrandbits(64):016x}"}),
    }
    node["status"]["images"] = [
        {
            "names": [
                f"registry.example.com/team-{image % NAMESPACES}/service-{image}@sha256:{image:064x}",
                f"registry.example.com/team-{image % NAMESPACES}/service-{image}:1.{image % 9}.0",
            ],
            "sizeBytes": 10_000_000 + image,
        }
        for image in sorted(rng.sample(range(WORKLOADS), IMAGES_ON_NODE))
    ]
    node["status"]["conditions"] = [
        {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": f"2026-11-20T00:{number % 60:02}:00Z",
            "lastTransitionTime": "2026-11-01T00:00:00Z",
            "reason": f"Kubelet{kind}",
            "message": f"kubelet says {status} of {kind}",
        }
        for kind, status in (
            ("MemoryPressure", "False"),
            ("DiskPressure", "False"),
            ("PIDPressure", "False"),
            ("Ready", "True"),
        )
    ]
    node["status"]["nodeInfo"] = {"kubeletVersion": "v1.36.3", "osImage": "Linux", "machineID": _uid(rng)}
    return node


def small_node(number: int) -> dict[str, Any]:
    """About 500 bytes: what kube-scheduler's own benchmark creates."""
    name = f"node-{number:05}"
    room = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return {
        "metadata": {
            "name": name,
            "uid": _uid(random.Random(number)),
            "resourceVersion": str(number + 1),
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"},
        },
        "spec": {},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _uid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


# --like: how nodes and pods are made
LIKE = {"real": (real_node, real_pod), "large": (real_node, large_pod), "benchmark": (small_node, small_pod)}
