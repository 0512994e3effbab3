"""The parts of pods and the other objects that scenarios are made of, in few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kscheduler.testing.controlplane import provisioner
from kscheduler.testing.controlplane.api import Object

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"

OWN_NAMESPACE = "main"  # where a play puts what it creates; it has another name on the control plane

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Labels = Mapping[str, str]


# --- nodes ---


def has(key: str, *values: str, operator: str = "In") -> Object:
    """An expression of a selector, about a label."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def needs_node(*expressions: Object, fields: list[Object] | None = None) -> Object:
    """A pod's spec with one required term of node affinity."""
    term: Object = {"matchExpressions": list(expressions)} if expressions else {}
    if fields:
        term["matchFields"] = fields
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


def prefers_node(*weighted: tuple[int, Object]) -> Object:
    """A pod's spec with preferred terms of node affinity."""
    terms = [{"weight": weight, "preference": {"matchExpressions": [each]}} for weight, each in weighted]
    return {"affinity": {"nodeAffinity": {PREFERRED: terms}}}


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Object:
    """A taint of a node."""
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def tolerates(*tolerations: Object) -> Object:
    """A pod's spec with tolerations."""
    return {"tolerations": list(tolerations)}


def host_port(port: int, address: str = "", protocol: str = "TCP") -> Object:
    """A container's port on its node."""
    return {
        "containerPort": port,
        "hostPort": port,
        "protocol": protocol,
        **({"hostIP": address} if address else {}),
    }


# --- other pods ---


def term(labels: Labels, key: str, **fields: Any) -> Object:
    """A term of pod affinity: pods of these labels in the same domain of the key."""
    return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key, **fields}


def needs_pods(*terms: Object) -> Object:
    """A pod's spec with required affinity."""
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def shuns_pods(*terms: Object) -> Object:
    """A pod's spec with required anti-affinity."""
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def prefers_pods(*weighted: tuple[int, Object]) -> Object:
    """A pod's spec with preferred affinity."""
    return {"affinity": {"podAffinity": {PREFERRED: _weighted(weighted)}}}


def avoids_pods(*weighted: tuple[int, Object]) -> Object:
    """A pod's spec with preferred anti-affinity."""
    return {"affinity": {"podAntiAffinity": {PREFERRED: _weighted(weighted)}}}


def _weighted(weighted: tuple[tuple[int, Object], ...]) -> list[Object]:
    return [{"weight": weight, "podAffinityTerm": each} for weight, each in weighted]


def spread(key: str, labels: Labels, *, hard: bool = True, skew: int = 1, **fields: Any) -> Object:
    """A topology spread constraint about pods of these labels."""
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(labels)},
        **fields,
    }


def spreads(*constraints: Object) -> Object:
    """A pod's spec with topology spread constraints."""
    return {"topologySpreadConstraints": list(constraints)}


def service(name: str, selector: Labels) -> Object:
    """A Service over pods of these labels."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": dict(selector), "ports": [{"port": 80}]},
    }


def priority_class(name: str, value: int, *, preempts: bool = True) -> Object:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": "PreemptLowerPriority" if preempts else "Never",
    }


# --- volumes ---


def storage_class(
    name: str,
    *,
    waits: bool = True,
    provisions: bool = True,
    zones: list[str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Object:
    """A StorageClass, of the test provisioner or of nobody."""
    made: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner.NAME if provisions else "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
        "parameters": dict(parameters or {}),
        "reclaimPolicy": "Retain",
    }
    if zones:
        made["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
    return made


def claim(
    name: str,
    storage_class: str,
    *,
    size: str = "1Gi",
    mode: str = "ReadWriteOnce",
    volume: str = "",
    finalizers: list[str] | None = None,
) -> Object:
    """A PersistentVolumeClaim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "finalizers": finalizers or []},
        "spec": {
            "accessModes": [mode],
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage_class,
            **({"volumeName": volume} if volume else {}),
        },
    }


def volume(
    name: str,
    storage_class: str,
    *,
    size: str = "1Gi",
    mode: str = "ReadWriteOnce",
    node: str = "",
    labels: Labels | None = None,
    driver: str = "",  # a CSI driver's; else it is a local path
    expressions: list[Object] | None = None,
    claims: str = "",  # the claim it is meant for
) -> Object:
    """A PersistentVolume, local to a node when one is named."""
    spec: Object = {
        "capacity": {"storage": size},
        "accessModes": [mode],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": storage_class,
    }
    spec |= {"csi": {"driver": driver, "volumeHandle": name}} if driver else {"local": {"path": f"/disks/{name}"}}
    if not driver and not node and not expressions:
        spec.pop("local")
        spec["hostPath"] = {"path": f"/disks/{name}"}
    where = expressions or ([has(HOST, node)] if node else [])
    if where:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": where}]}}
    if claims:
        spec["claimRef"] = {"name": claims, "namespace": OWN_NAMESPACE}
    metadata = {"name": name, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def mounts(*claims: str) -> Object:
    """A pod's spec with volumes of these claims."""
    return {
        "volumes": [
            {"name": f"volume-{index}", "persistentVolumeClaim": {"claimName": each}}
            for index, each in enumerate(claims)
        ]
    }


def mounts_ephemeral(name: str, storage_class: str, size: str = "1Gi") -> Object:
    """A pod's spec with a volume of its own."""
    spec = claim("unused", storage_class, size=size)["spec"]
    return {"volumes": [{"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]}


def csi_driver(name: str = provisioner.NAME, *, tracks_capacity: bool = True) -> Object:
    """A CSIDriver."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {"storageCapacity": tracks_capacity, "attachRequired": False},
    }


def csi_capacity(name: str, storage_class: str, zone: str, capacity: str, *, largest: str = "") -> Object:
    """A CSIStorageCapacity: what is left of a class in a zone."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name},
        "storageClassName": storage_class,
        "nodeTopology": {"matchLabels": {ZONE: zone}},
        "capacity": capacity,
        **({"maximumVolumeSize": largest} if largest else {}),
    }


def csi_node(name: str, *, limit: int, driver: str = provisioner.NAME) -> Object:
    """A CSINode: so many volumes of the driver can be attached."""
    entry = {"name": driver, "nodeID": name, "topologyKeys": [ZONE], "allocatable": {"count": limit}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [entry]},
    }
