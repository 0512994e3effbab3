"""Pods and nodes as JSON texts like an apiserver's: with defaults, tolerations, a token's volume and managedFields.

The stub apiserver fills in what differs (`{index}`, `{uid}`, `{rv}`, `{node}`).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.api import Object
from perf import pod_shapes
from perf.pod_defaults import tolerations

CREATED = "2026-01-02T03:04:05Z"
NAME = "pod-{index}"
CLASSES = 150


class Served(NamedTuple):
    """The JSON templates of one kind of pods."""

    pending: str
    bound: str


def served_node(template: Object) -> str:
    """Return a node's text."""
    node = copy.deepcopy(template)
    node["metadata"] |= {"uid": "{uid}", "resourceVersion": "{rv}", "creationTimestamp": CREATED}
    return _text(node)


def served_pod(template: Object) -> Served:
    """Return a pod's texts, before and after its binding."""
    pod = copy.deepcopy(template)
    pod["metadata"] = {
        "name": NAME,
        "namespace": "default",
        "uid": "{uid}",
        "resourceVersion": "{rv}",
        "generation": 1,
        "creationTimestamp": CREATED,
        **({"labels": pod["metadata"]["labels"]} if pod["metadata"].get("labels") else {}),
        **{key: value for key, value in pod["metadata"].items() if key not in ("name", "labels")},
        "managedFields": [*_managed_fields(pod["spec"])],
    }
    pod["spec"] = {"volumes": [_token_volume()], **pod["spec"], **_spec_defaults()}
    for container in pod["spec"]["containers"]:
        container |= _container_defaults()
    pod["status"] = {"phase": "Pending", "qosClass": "Burstable"}
    pending = _text(pod)
    pod["spec"]["nodeName"] = "{node}"
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": CREATED}
    pod["status"] = {"phase": "Pending", "conditions": [condition], "qosClass": "Burstable"}
    return Served(pending, _text(pod))


def _plain() -> list[Object]:
    return pod_shapes.basic()


def _classes() -> list[Object]:
    """Deployments of their own: each has its label and its requests."""
    return [
        workload.pod(labels={"app": f"app-{each}"}, requests={"cpu": f"{100 + each}m", "memory": "500Mi"})
        for each in range(CLASSES)
    ]


def _stateful() -> list[Object]:
    """Pods of a StatefulSet: each has a label of its own."""
    labels = {"app": "db", "statefulset.kubernetes.io/pod-name": NAME, "apps.kubernetes.io/pod-index": "{index}"}
    return [workload.pod(labels=labels)]


def _large() -> list[Object]:
    """Pods with two sidecars, an environment of many variables, volumes and annotations."""
    variables = [
        {"name": f"SETTING_{at:02}", "value": f"https://service-{at}.example.svc:8443/path"} for at in range(54)
    ]
    pod = workload.pod(labels={"app": "web", "version": "v42", "team": "shop"})
    main = pod["spec"]["containers"][0]
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "periodSeconds": 10,
        "failureThreshold": 3,
    }
    main |= {"env": variables, "livenessProbe": probe, "readinessProbe": probe}
    for name in ("proxy", "logs"):
        pod["spec"]["containers"].append({**copy.deepcopy(main), "name": name, "env": variables[:10]})
    pod["spec"]["volumes"] = [{"name": f"scratch-{at}", "emptyDir": {}} for at in range(4)]
    pod["metadata"]["annotations"] = {f"example.com/setting-{at}": "x" * 60 for at in range(8)}
    return [pod]


SHAPES: Mapping[str, Callable[[], Sequence[Object]]] = {
    "plain": _plain,
    "spread": pod_shapes.spread,
    "classes": _classes,
    "stateful": _stateful,
    "large": _large,
}


def _managed_fields(spec: Mapping[str, Any]) -> list[Object]:
    """Return what the apiserver records of who set which field: about half of a pod's text."""
    containers = {_key(container["name"]): _fields_of(container) for container in spec["containers"]}
    fields = {
        "f:metadata": {"f:labels": {".": {}}},
        "f:spec": {"f:containers": containers, **{f"f:{key}": {} for key in (*spec, *_spec_defaults())}},
    }
    return [
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": "v1",
            "time": CREATED,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
    ]


def _fields_of(container: Mapping[str, Any]) -> Object:
    fields: Object = {".": {}, **{f"f:{key}": {} for key in container}}
    fields |= {"f:imagePullPolicy": {}, "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}}
    if "env" in container:
        variables = [variable["name"] for variable in container["env"]]
        fields["f:env"] = {_key(name): {".": {}, "f:name": {}, "f:value": {}} for name in variables}
    return fields


def _key(name: str) -> str:
    return f'k:{{"name":"{name}"}}'


def _token_volume() -> Object:
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    return {"name": "kube-api-access-{index}", "projected": {"sources": sources, "defaultMode": 420}}


def _spec_defaults() -> Object:
    return {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "tolerations": tolerations(),
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _container_defaults() -> Object:
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    mount = {"name": "kube-api-access-{index}", "readOnly": True, "mountPath": path}
    return {
        "volumeMounts": [mount],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _text(value: Object) -> str:
    return json.dumps(value, separators=(",", ":"))
