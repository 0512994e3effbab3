"""What may happen in a scenario, in the words scenarios are written in. Each step is played to both schedulers.

A step that creates a pod waits until the scheduler has decided it, so that pods are decided in the order they are
written. A step that changes objects of another resource than the step before it waits until the scheduler has seen that
one, if pods are changed or wait: schedulers watch each resource by itself. `bound` and `refused` are also what a
scenario expects of kube-scheduler: when it does not come true, the test fails, so that no scenario can pass because
nothing happened.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.faults import RequestFailed
from tests.controlplane.parity.stage import MAIN, PODS, Stage, condition

Step = Callable[[Stage], None]

EXTENDED = ("gpu", "fpga")  # resources of the scenarios that Kubernetes does not know

MERGE = "application/merge-patch+json"


def node(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    zone: str = "",
    taints: list[Object] | None = None,
    images: Mapping[str, int] | None = None,  # name -> bytes
    unschedulable: bool = False,
    declares: Sequence[str] = (),  # features of its kubelet
    **capacity: str,  # over cpu 4, memory 32Gi, pods 110; gpu and fpga stand for example.com/gpu and so on
) -> Step:
    """A node appears."""
    zoned = {"topology.kubernetes.io/zone": zone} if zone else {}
    made = workload.node(
        name,
        capacity={**workload.NODE_CAPACITY, **_resources(capacity)},
        labels={**zoned, **(labels or {})},
        taints=taints,
    )
    if unschedulable:
        made["spec"]["unschedulable"] = True
    if declares:
        made["status"]["declaredFeatures"] = sorted(declares)
    made["status"]["images"] = [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()]
    return lambda stage: stage.create_node(copy.deepcopy(made))


def pod(
    name: str,
    spec: Mapping[str, Any] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    profile: str = "default",
    namespace: str = MAIN,
    image: str = "",
    ports: list[Object] | None = None,
    wait: bool = True,
    **requests: str,  # over cpu 100m, memory 500Mi; gpu and fpga stand for example.com/gpu and so on
) -> Step:
    """A pod appears and, by default, is decided."""
    made = workload.pod(
        name,
        requests={**workload.POD_REQUESTS, **_resources(requests)},
        labels=labels,
        scheduler_name=profile,
        spec=spec,
    )
    container = made["spec"]["containers"][0]
    if image:
        container["image"] = image
    if ports:
        container["ports"] = ports
    # Of a pod that is gated or has a node, the apiserver itself says so.
    is_the_schedulers = made["spec"].keys().isdisjoint(("schedulingGates", "nodeName"))

    def play(stage: Stage) -> None:
        stage.create_pod(copy.deepcopy(made), namespace)
        if wait:
            stage.wait(lambda: is_decided(stage.pod(f"{namespace}/{name}")), f"{name} is decided")
            if is_the_schedulers:
                stage.pods_are_seen()

    return play


def pods(count: int, prefix: str, spec: Mapping[str, Any] | None = None, **options: Any) -> list[Step]:
    """Several equal pods, one after another: `prefix-0` and so on."""
    return [pod(f"{prefix}-{index}", spec, **options) for index in range(count)]


def thing(document: Object, namespace: str = MAIN) -> Step:
    """Any other object appears."""
    return lambda stage: stage.create(copy.deepcopy(document), namespace)


def namespace(name: str, **labels: str) -> Step:
    """A namespace beside the main one."""
    return lambda stage: stage.create_namespace(name, labels)


def change_node(name: str, patch: Object) -> Step:
    """A merge patch of a node."""
    return change_thing(f"/api/v1/nodes/{name}", patch)


def change_pod(name: str, patch: Object) -> Step:
    """A merge patch of a pod."""

    def play(stage: Stage) -> None:
        stage.change(PODS)
        stage.api.patch(stage.path("pods", name), patch, MERGE)

    return play


def change_status(name: str, patch: Object) -> Step:
    """A strategic merge patch of a pod's status: conditions are merged by type."""

    def play(stage: Stage) -> None:
        stage.change(PODS)
        stage.api.patch(f"{stage.path('pods', name)}/status", {"status": patch})

    return play


def resize(name: str, **requests: str) -> Step:
    """A pod's container asks for something else, as in-place resize does. Nobody runs it, so it is done at once."""

    def play(stage: Stage) -> None:
        stage.change(PODS)
        container = {"name": "pause", "resources": {"requests": requests}}
        stage.api.patch(f"{stage.path('pods', name)}/resize", {"spec": {"containers": [container]}})

    return play


def replicas(
    name: str, count: int, spec: Mapping[str, Any] | None = None, *, labels: Mapping[str, str], **requests: str
) -> Step:
    """A ReplicaSet appears, and its pods are decided. In other steps their name is `NAME-*`."""
    made = workload.pod(
        name,
        requests={**workload.POD_REQUESTS, **_resources(requests)},
        labels=labels,
        scheduler_name="default",
        spec=spec,
    )
    document = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": made["spec"]},
        },
    }

    def are_decided(stage: Stage) -> bool:
        found = stage.named(f"{name}-*")
        return len(found) == count and all(map(is_decided, found))

    def play(stage: Stage) -> None:
        stage.create_replicas(document)
        stage.wait(lambda: are_decided(stage), f"{count} replicas of {name} are decided")

    return play


def ready(*names: str) -> Step:
    """Bound pods run and are ready, as budgets ask of pods that they are to count."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    def play(stage: Stage) -> None:
        stage.change(PODS)
        for name in names:
            for found in stage.named(name):
                path = stage.path("pods", found["metadata"]["name"])
                stage.api.patch(f"{path}/status", {"status": status})

    return play


def budget(name: str, selector: Object | None, *, allows: int, **spec: Any) -> Step:
    """A PodDisruptionBudget, and what its controller makes of it."""
    document = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": selector, **spec},
    }

    def is_so(stage: Stage) -> bool:
        status = stage.budget(name).get("status", {})
        return bool(status.get("observedGeneration") == 1 and status["disruptionsAllowed"] == allows)

    def play(stage: Stage) -> None:
        stage.create(copy.deepcopy(document))
        stage.wait(lambda: is_so(stage), f"budget {name} allows {allows}")

    return play


def nominate(name: str, node: str) -> Step:
    """Somebody else than the scheduler says where a pod will be, as autoscalers do."""
    return change_status(name, {"nominatedNodeName": node})


def denied(document: Object, containing: str) -> Step:
    """The apiserver does not let an object in, and says why with these words among others."""

    def play(stage: Stage) -> None:
        try:
            stage.create(copy.deepcopy(document))
        except RequestFailed as error:
            if containing not in str(error):
                stage.given_up.append(f"{document['metadata']['name']} is denied with: {stage.mask(str(error))}")
        else:
            stage.given_up.append(f"{document['metadata']['name']} is let in")

    return play


def tolerate(name: str, toleration: Object) -> Step:
    """A pod gets one more toleration; those it has must stay."""

    def play(stage: Stage) -> None:
        stage.change(PODS)
        tolerations = stage.api.get(stage.path("pods", name))["spec"]["tolerations"]
        stage.api.patch(stage.path("pods", name), {"spec": {"tolerations": [*tolerations, toleration]}}, MERGE)

    return play


def change_claim(name: str, patch: Object) -> Step:
    """A merge patch of a claim."""

    def play(stage: Stage) -> None:
        stage.change("persistentvolumeclaims")
        stage.api.patch(stage.path("persistentvolumeclaims", name), patch, MERGE)

    return play


def change_thing(path: str, patch: Object) -> Step:
    """A merge patch of an object without a namespace, by its path."""

    def play(stage: Stage) -> None:
        stage.change(_resource_of(path))
        stage.api.patch(path, patch, MERGE)

    return play


def remove_pod(name: str) -> Step:
    """A pod is deleted, after the judge has seen the bindings until now."""

    def play(stage: Stage) -> None:
        stage.judge()
        stage.change(PODS)
        stage.api.delete(stage.path("pods", name))
        stage.wait(lambda: not stage.pod(name), f"{name} is gone")

    return play


def ask_to_go(name: str) -> Step:
    """A bound pod is deleted with a period of grace; nobody runs it, so it stays."""

    def play(stage: Stage) -> None:
        stage.judge()
        stage.change(PODS)
        stage.api.request("DELETE", stage.path("pods", name))
        evicting(name)(stage)

    return play


def finish(name: str) -> Step:
    """A bound pod has done its work."""

    def play(stage: Stage) -> None:
        stage.judge()
        stage.change(PODS)
        stage.api.patch(f"{stage.path('pods', name)}/status", {"status": {"phase": "Succeeded"}}, MERGE)

    return play


def remove_node(name: str) -> Step:
    """A node is deleted."""
    return lambda stage: stage.delete_node(name)


def remove_claim(name: str) -> Step:
    """A claim is deleted; with finalizers it stays and says so."""

    def play(stage: Stage) -> None:
        stage.change("persistentvolumeclaims")
        stage.api.delete(stage.path("persistentvolumeclaims", name))

    return play


def remove_thing(path: str) -> Step:
    """An object without a namespace is deleted, whatever protects it."""

    def play(stage: Stage) -> None:
        stage.change(_resource_of(path))
        stage.api.patch(path, {"metadata": {"finalizers": None}}, MERGE)
        stage.api.delete(path)

    return play


def allocated(name: str) -> Step:
    """Wait until a claim for devices has them, and who uses it is written."""

    def is_used(stage: Stage) -> bool:
        status = stage.resource_claims().get(f"{MAIN}/{name}", {}).get("status", {})
        return bool(status.get("allocation") and status.get("reservedFor"))

    return lambda stage: _ignore(stage.wait(lambda: is_used(stage), f"{name} has devices"))


def released(name: str) -> Step:
    """Wait until the controller of claims has taken the devices back that nobody uses."""

    def is_free(stage: Stage) -> bool:
        return not stage.resource_claims().get(f"{MAIN}/{name}", {}).get("status", {}).get("allocation")

    return lambda stage: _ignore(stage.wait(lambda: is_free(stage), f"{name} has no devices"))


def update_capacity(name: str, capacity: str, *, largest: str) -> Step:
    """A CSIStorageCapacity changes."""

    def play(stage: Stage) -> None:
        stage.change("csistoragecapacities")
        path = stage.path("csistoragecapacities", name, group="apis/storage.k8s.io/v1")
        stage.api.patch(path, {"capacity": capacity, "maximumVolumeSize": largest}, MERGE)

    return play


def settle(stage: Stage) -> None:
    """The scheduler has seen all of the above, and decided what it wanted to."""
    stage.judge()
    stage.fence()


def bound(name: str, *nodes: str) -> Step:
    """The pod is on a node, on one of those named if any are."""

    def play(stage: Stage) -> None:
        stage.wait(lambda: node_of(stage.pod(name)), f"{name} is bound")
        found = node_of(stage.pod(name))
        if nodes and found and found not in nodes:
            stage.given_up.append(f"{name} is on {found}, expected on {' or '.join(nodes)}")

    return play


def nominated(name: str, node: str) -> Step:
    """The pod waits for room on a node that others are about to leave."""

    def is_so(stage: Stage) -> bool:
        found = stage.pod(name)
        return bool(not node_of(found) and found.get("status", {}).get("nominatedNodeName") == node)

    return lambda stage: _ignore(stage.wait(lambda: is_so(stage), f"{name} is nominated for {node}"))


def evicting(name: str) -> Step:
    """The pod, or one of them, has been asked to go, and stays until somebody removes it: nobody runs it."""

    def is_so(stage: Stage) -> bool:
        return any("deletionTimestamp" in found["metadata"] for found in stage.named(name))

    return lambda stage: _ignore(stage.wait(lambda: is_so(stage), f"{name} is asked to go"))


def gone(name: str) -> Step:
    """The pod is no more."""
    return lambda stage: _ignore(stage.wait(lambda: not stage.named(name), f"{name} is gone"))


def refused(name: str, containing: str) -> Step:
    """The condition of the pod, or of one of them, says that it is not scheduled, with these words among others."""

    def is_so(found: Object, stage: Stage) -> bool:
        reported = condition(found)
        return reported.get("status") == "False" and containing in stage.mask(reported.get("message", ""))

    def play(stage: Stage) -> None:
        def are_so() -> bool:
            return any(is_so(found, stage) for found in stage.named(name))

        if not stage.wait(are_so, f"{name} is refused: {containing}"):
            reported = [condition(found) for found in stage.named(name)]
            stage.given_up.append(f"{name} has the condition {stage.mask(str(reported))}")

    return play


def claim_bound(name: str, phase: str = "Bound") -> Step:
    """The claim has its volume, or whatever phase is named."""

    def is_so(stage: Stage) -> bool:
        found = stage.claims().get(f"{MAIN}/{name}", {})
        return bool(found.get("status", {}).get("phase") == phase)

    return lambda stage: _ignore(stage.wait(lambda: is_so(stage), f"claim {name} is {phase}"))


def is_decided(found: Object) -> bool:
    """Bound, or with a condition that says why not."""
    return bool(node_of(found)) or condition(found).get("status") == "False"


def node_of(found: Object) -> str:
    """The pod's node; empty when it has none."""
    return str(found.get("spec", {}).get("nodeName", ""))


def _resources(amounts: Mapping[str, str]) -> dict[str, str]:
    return {f"example.com/{name}" if name in EXTENDED else name: amount for name, amount in amounts.items()}


def _resource_of(path: str) -> str:
    """The resource in an object's path: `nodes` of `/api/v1/nodes/a`."""
    return path.split("/")[-2]


def _ignore(result: object) -> None:
    """A step answers nothing."""
