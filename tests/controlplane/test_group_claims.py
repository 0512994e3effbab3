"""Pods of a PodGroup that use a claim of the group, on a real apiserver of 1.37, as with kube-scheduler."""

from __future__ import annotations

from typing import NamedTuple

from kscheduler.testing.controlplane import ApiserverOptions, ControlPlane, workload
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubescheduler import KubeScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace

GATES = "--feature-gates=GenericWorkload=true,DRAWorkloadResourceClaims=true"
DEVICES = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"
MEMBERS = 3


class Outcome(NamedTuple):
    nodes: int  # on which the group's pods are bound
    shared: list[tuple[str, str, str]]  # for whom the group's claim is reserved: API group, resource and name
    own: list[tuple[str, str, str]]  # the same of the claim that only one pod names


def of_api(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def play(workspace: Workspace) -> Outcome:
    """Create a group whose pods share the group's claim, one of them with a claim of its own as well."""
    api, namespace = workspace.api, workspace.namespace
    claims = f"{DEVICES}/namespaces/{namespace}/resourceclaims"
    for node in workspace.create_nodes(2):
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{number}"} for number in range(2)]
        published = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        api.create(f"{DEVICES}/resourceslices", of_api("ResourceSlice", node, published))
    expression = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    api.create(f"{DEVICES}/deviceclasses", of_api("DeviceClass", "gpu", {"selectors": [expression]}))
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    for name in ("shared", "own"):
        api.create(claims, of_api("ResourceClaim", name, {"devices": {"requests": requests}}))
    group: Object = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": MEMBERS}},
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}],
        },
    }
    api.create(f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups", group)
    for number in range(MEMBERS):
        entries = [{"name": "gpu", "resourceClaimName": "shared"}]
        if number == 1:
            entries.append({"name": "own", "resourceClaimName": "own"})
        spec: Object = {"schedulingGroup": {"podGroupName": "train"}, "resourceClaims": entries}
        workspace.create(workload.pod(f"train-{number}", requests={"cpu": "1"}, spec=spec))
    eventually(lambda: len(workspace.bindings()) == MEMBERS, "all members are bound")

    def users(name: str) -> list[tuple[str, str, str]]:
        reserved = api.get(f"{claims}/{name}")["status"]["reservedFor"]
        return [(each.get("apiGroup", ""), each["resource"], each["name"]) for each in reserved]

    return Outcome(len(set(workspace.bindings().values())), users("shared"), users("own"))


def test_a_groups_claim_is_reserved_for_the_group_as_with_kube_scheduler() -> None:
    outcomes = []
    for is_ours in (False, True):
        flags = (GATES, "--runtime-config=scheduling.k8s.io/v1beta1=true")
        with ControlPlane(ApiserverOptions(extra_flags=flags), release="1.37") as control_plane:
            workspace = Workspace(control_plane)
            if is_ours:
                KScheduler(control_plane, extra_flags=(GATES,))
            else:
                KubeScheduler(control_plane, extra_flags=(GATES,))
            outcomes.append(play(workspace))
    theirs, ours = outcomes
    assert ours == theirs
    assert ours == Outcome(1, [("scheduling.k8s.io", "podgroups", "train")], [("", "pods", "train-1")])
