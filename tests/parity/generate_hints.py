"""Cases for queueing hints: pods that wait, and changes of nodes, pods and storage that may or may not wake them."""

from __future__ import annotations

import copy
import json
import random
import re
from dataclasses import dataclass, field

from kscheduler.testing.controlplane.binaries import DEFAULT_RELEASE
from tests.parity.case import Case, Object
from tests.parity.generate import generate
from tests.parity.generate_nodes import generate_node
from tests.parity.words import (
    EFFECTS,
    GPU,
    HOSTNAME,
    KUBELET_FEATURES,
    LABELS,
    POD_LABELS,
    REGION,
    REGIONS,
    TAINT_KEYS,
    TAINT_VALUES,
    ZONE,
    ZONES,
    often,
    pick,
    some,
)

HINTS = "hints"
WAITING = 12  # pods of a case
CHANGES = 24  # of nodes, of pods on nodes and of storage
OWN_CHANGES = 12  # of waiting pods
RARER = 0.4  # of the cases also have gated pods, and changes that kubelets report
MOST_NODES = 12
STORAGE = {  # a cluster's list -> the kind of its objects
    "persistentVolumes": "PersistentVolume",
    "persistentVolumeClaims": "PersistentVolumeClaim",
    "storageClasses": "StorageClass",
    "csiNodes": "CSINode",
    "csiDrivers": "CSIDriver",
    "csiStorageCapacities": "CSIStorageCapacity",
    "volumeAttachments": "VolumeAttachment",
}


@dataclass(slots=True)
class Change:
    """Before and after; None where there is none. `own`: the position of the waiting pod that changes."""

    kind: str
    old: Object | None
    new: Object | None
    own: int | None = None

    def as_json(self) -> Object:
        return {"kind": self.kind, "old": self.old, "new": self.new, "own": self.own}


@dataclass(slots=True)
class HintCase(Case):
    rejectors: list[str] = field(default_factory=list)  # each in turn is taken to have rejected the pending pods
    changes: list[Change] = field(default_factory=list)

    def request(self) -> bytes:
        asked = {
            "mode": HINTS,
            "config": json.dumps(self.config),
            "cluster": self.cluster,
            "pending": self.pending,
            "rejectors": self.rejectors,
            "changes": [change.as_json() for change in self.changes],
        }
        return json.dumps(asked).encode()

    def __str__(self) -> str:
        return json.dumps({"release": self.release, "config": self.config, "rejectors": self.rejectors}, indent=1)


def generate_hints(seed: int, release: str = DEFAULT_RELEASE) -> HintCase:
    base = in_whole_units(generate(seed, release))
    rng = random.Random(f"hints {seed}")
    config = {**base.config, "profiles": base.config["profiles"][:1]}
    cluster = base.cluster | {"nodes": base.cluster.get("nodes", [])[:MOST_NODES]}
    names = {node["metadata"]["name"] for node in cluster["nodes"]}
    cluster["pods"] = [pod for pod in cluster.get("pods", []) if pod["spec"]["nodeName"] in names]
    waiting = [as_waiting(pod) for pod in base.pending[:WAITING]]
    case = HintCase(seed, HINTS, config, cluster, waiting, release)
    for number in range(CHANGES):
        if any(cluster.get(name) for name in STORAGE) and often(rng, 0.6):
            case.changes.append(_of_storage(rng, cluster))
        else:
            case.changes.append(_of_node(rng, cluster, number) if often(rng, 0.55) else _of_pod(rng, case, number))
    for _ in range(OWN_CHANGES):
        case.changes.append(_own(rng, case))
    _add_rarer(case)
    return case


def _add_rarer(case: HintCase) -> None:
    """It draws numbers of its own, so that the rest of a case stays as its seed has it."""
    rng = random.Random(f"rarer hints {case.seed}")
    if not often(rng, RARER):
        return
    for position, pod in enumerate(case.pending):
        if often(rng, 0.3):
            gates = [{"name": gate} for gate in some(rng, ("wait", "quota"), 2)]
            case.pending[position] = {**pod, "spec": {**pod["spec"], "schedulingGates": gates}}
            case.changes.append(_open_gates(rng, case.pending[position], position))
    for number in range(CHANGES // 3 if case.cluster["pods"] else 0):
        old = copy.deepcopy(pick(rng, case.cluster["pods"]))
        old["metadata"] |= {"name": f"rarer{number}", "uid": f"rarer{number}"}
        new = copy.deepcopy(old)
        pick(rng, (_ask_to_go, _report_resize, _of_whole_pod, _finish))(rng, new)
        case.changes.append(Change("Pod", old, new))


def _open_gates(rng: random.Random, pod: Object, position: int) -> Change:
    """All gates or some of them are removed, perhaps together with another change."""
    new = copy.deepcopy(pod)
    gates = new["spec"].pop("schedulingGates")
    if often(rng, 0.4):
        new["spec"]["schedulingGates"] = gates[:-1]
    if often(rng, 0.4):
        pick(rng, (_pod_labels, _requests, _tolerate))(rng, new)
    return Change("Pod", None, new, own=position)


def in_whole_units(case: Case) -> Case:
    """kube-scheduler sees a scale-down of a fraction of a byte; we round first."""

    def whole(objects: list[Object]) -> list[Object]:
        found: list[Object] = json.loads(re.sub(r'"(?!cpu)([^"]+)": "[0-9.]+[mun]"', r'"\1": "7"', json.dumps(objects)))
        return found

    case.pending = whole(case.pending)
    case.cluster["pods"] = whole(case.cluster.get("pods", []))
    return case


def as_waiting(pod: Object) -> Object:
    """As a plugin may have rejected it: in the first profile, and not gated."""
    spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "schedulerName")}
    spec.pop("schedulingGates", None)
    return {**pod, "spec": spec}


# --- nodes ---


def _of_node(rng: random.Random, cluster: dict[str, list[Object]], number: int) -> Change:
    name = f"new{number}"
    if not cluster["nodes"] or often(rng, 0.3):
        return Change("Node", None, _stored(generate_node(rng, name, calm=often(rng, 0.6))))
    old = _stored(pick(rng, cluster["nodes"]))
    if often(rng, 0.1):
        return Change("Node", old, None)
    new = copy.deepcopy(old)
    for alter in some(rng, (_labels, _taints, _amounts, _cordon, _features, _condition, _annotation), 2):
        alter(rng, new)
    return Change("Node", old, new) if often(rng, 0.5) else Change("Node", new, old)


def _stored(node: Object) -> Object:
    node = copy.deepcopy(node)
    node["status"].setdefault("allocatable", dict(node["status"]["capacity"]))
    node["spec"].setdefault("taints", [])
    return node


def _labels(rng: random.Random, node: Object) -> None:
    labels = node["metadata"]["labels"]
    for key in some(rng, [*LABELS, ZONE, REGION, HOSTNAME], 2):
        values = {**LABELS, ZONE: ZONES, REGION: REGIONS, HOSTNAME: ("n1", "moved")}[key]
        if key in labels and often(rng, 0.4):
            del labels[key]
        else:
            labels[key] = pick(rng, values)


def _taints(rng: random.Random, node: Object) -> None:
    taints = node["spec"]["taints"]
    if taints and often(rng, 0.6):
        del taints[rng.randrange(len(taints))]
        return
    taint = {"key": pick(rng, TAINT_KEYS), "effect": pick(rng, EFFECTS), "value": pick(rng, TAINT_VALUES)}
    if all((taint["key"], taint["effect"]) != (other["key"], other["effect"]) for other in taints):
        taints.append(taint)


def _amounts(rng: random.Random, node: Object) -> None:
    amounts = node["status"]["allocatable"]
    for name in some(rng, ("cpu", "memory", "ephemeral-storage", "pods", GPU), 2):
        amounts[name] = pick(rng, {"memory": ("0", "1Gi", "700Gi"), "ephemeral-storage": ("1Gi", "9Ti")}.get(
            name, ("0", "1", "3", "300")
        ))  # fmt: skip


def _cordon(rng: random.Random, node: Object) -> None:
    if not node["spec"].pop("unschedulable", False):
        node["spec"]["unschedulable"] = True


def _features(rng: random.Random, node: Object) -> None:
    node["status"]["declaredFeatures"] = sorted(some(rng, KUBELET_FEATURES, 2))


def _condition(rng: random.Random, node: Object) -> None:
    status = pick(rng, ("True", "False", "Unknown"))
    node["status"]["conditions"] = [{"type": "Ready", "status": status, "reason": pick(rng, ("A", "B"))}]


def _annotation(rng: random.Random, node: Object) -> None:
    node["metadata"]["annotations"] = {"note": pick(rng, ("1", "2"))}


# --- storage ---


def _of_storage(rng: random.Random, cluster: dict[str, list[Object]]) -> Change:
    """An object comes, goes, or looks from now on as another of its kind does."""
    name = pick(rng, [name for name in STORAGE if cluster.get(name)])
    old = pick(rng, cluster[name])
    if often(rng, 0.4):
        return Change(STORAGE[name], None, old)
    if often(rng, 0.3):
        return Change(STORAGE[name], old, None)
    new = copy.deepcopy(pick(rng, cluster[name]))
    same = {key: old["metadata"][key] for key in ("name", "namespace", "uid") if key in old["metadata"]}
    new["metadata"] = {**new["metadata"], **same}
    return Change(STORAGE[name], old, new)


# --- pods ---


def _of_pod(rng: random.Random, case: HintCase, number: int) -> Change:
    """A pod on a node comes, goes, or changes."""
    running = case.cluster["pods"]
    pod = copy.deepcopy(pick(rng, running if running and often(rng, 0.5) else case.pending))
    pod["metadata"] |= {"name": f"other{number}", "uid": f"other{number}"}
    pod["spec"].setdefault("nodeName", "n0")
    if often(rng, 0.3):
        return Change("Pod", None, pod)
    if often(rng, 0.5):
        return Change("Pod", pod, None)
    new = copy.deepcopy(pod)
    for alter in some(rng, (_pod_labels, _requests, _tolerate, _pod_annotation), 2):
        alter(rng, new)
    # The other way round a request may vanish, which the apiserver refuses for a pod that runs.
    is_reversible = "containerStatuses" not in pod.get("status", {})
    return Change("Pod", new, pod) if is_reversible and often(rng, 0.5) else Change("Pod", pod, new)


def _ask_to_go(rng: random.Random, pod: Object) -> None:
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _report_resize(rng: random.Random, pod: Object) -> None:
    """A kubelet says what containers have, while they are resized."""
    statuses = []
    for container in pod["spec"]["containers"]:
        status: Object = {"name": container["name"], "image": container["image"], "imageID": "", "ready": True}
        amounts = {"cpu": pick(rng, ("50m", "2", "7")), "memory": pick(rng, ("64Mi", "9Gi"))}
        statuses.append({**status, "restartCount": 0, pick(rng, ("resources", "allocatedResources")): amounts})
        if "resources" in statuses[-1]:
            statuses[-1]["resources"] = {"requests": amounts}
    pod.setdefault("status", {})["containerStatuses"] = statuses


def _of_whole_pod(rng: random.Random, pod: Object) -> None:
    amounts = {"cpu": pick(rng, ("1m", "1", "9")), "memory": pick(rng, ("1Mi", "9Gi"))}
    pod["spec"]["resources"] = {"requests": amounts}


def _finish(rng: random.Random, pod: Object) -> None:
    pod.setdefault("status", {})["phase"] = pick(rng, ("Succeeded", "Failed"))


def _own(rng: random.Random, case: HintCase) -> Change:
    position = rng.randrange(len(case.pending))
    new = copy.deepcopy(case.pending[position])
    for alter in some(rng, (_pod_labels, _requests, _tolerate, _pod_annotation, _users), 2):
        alter(rng, new)
    return Change("Pod", None, new, own=position)


def _pod_labels(rng: random.Random, pod: Object) -> None:
    labels = pod["metadata"].setdefault("labels", {})
    key = pick(rng, list(POD_LABELS))
    if key in labels and often(rng, 0.4):
        del labels[key]
    else:
        labels[key] = pick(rng, POD_LABELS[key])


def _requests(rng: random.Random, pod: Object) -> None:
    resources = pick(rng, pod["spec"]["containers"]).setdefault("resources", {})
    for name in some(rng, ("cpu", "memory", GPU), 2):
        resources.get("limits", {}).pop(name, None)
        resources.setdefault("requests", {})[name] = pick(rng, ("0", "1", "2"))


def _tolerate(rng: random.Random, pod: Object) -> None:
    toleration = {"key": pick(rng, TAINT_KEYS), "operator": "Exists"}
    pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", ()), toleration]


def _pod_annotation(rng: random.Random, pod: Object) -> None:
    pod["metadata"]["annotations"] = {"note": pick(rng, ("1", "2"))}


def _users(rng: random.Random, pod: Object) -> None:
    """Decides whether the pod needs a feature of the kubelet."""
    pod["spec"] |= {"hostNetwork": True, "hostUsers": often(rng, 0.5)}
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        for port in container.get("ports", ()):
            port.pop("hostPort", None)
