"""Pods with devices on a real apiserver, by the rights of deploy/ alone: claims are written as it accepts them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kscheduler.testing.controlplane import Credentials, workload
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubeconfig import write_kubeconfig
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.deploy.manifests import render

DRIVER, GPU = "gpu.example.com", "example.com/gpu"
CLASSES, SLICES = "/apis/resource.k8s.io/v1/deviceclasses", "/apis/resource.k8s.io/v1/resourceslices"
MERGE = "application/merge-patch+json"


@pytest.fixture
def devices(workspace: Workspace) -> Iterator[Workspace]:
    """Two nodes with two GPUs each, which a class backs under the name of an extended resource."""
    api = workspace.api
    api.create(CLASSES, {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}})
    for node in workspace.create_nodes(2):
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": [{"name": "g0"}, {"name": "g1"}]}
        api.create(SLICES, {"metadata": {"name": f"{node}-gpus"}, "spec": spec})
    yield workspace
    workspace.control_plane.stop_processes(keep=0)
    for name in claims(workspace):  # no controller takes the finalizer away
        api.patch(f"{claims_path(workspace)}/{name}", {"metadata": {"finalizers": None}}, MERGE)
    api.delete(claims_path(workspace))
    api.delete(CLASSES)
    api.delete(SLICES)


def claims_path(workspace: Workspace) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{workspace.namespace}/resourceclaims"


def create_claim(workspace: Workspace, name: str) -> None:
    exactly = {"deviceClassName": "gpu"}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    workspace.api.create(claims_path(workspace), {"metadata": {"name": name}, "spec": spec})


def create_pod(workspace: Workspace, name: str, claim: str = "") -> None:
    """A pod that names a claim, or requests an extended resource."""
    if claim:
        spec = {"resourceClaims": [{"name": "c", "resourceClaimName": claim}]}
        workspace.create(workload.pod(name, spec=spec))
    else:
        requests = {"cpu": "100m", GPU: "1"}
        workspace.create(workload.pod(name, requests=requests))


def start(workspace: Workspace, folder: Path) -> KScheduler:
    """kscheduler by the ServiceAccount of deploy/base, with its rights and no others."""
    control_plane = workspace.control_plane
    workspace.api.apply(*render("base"))
    token = control_plane.service_account_token("kscheduler", "kscheduler")
    credentials = Credentials(control_plane.url, control_plane.authority.path, token=token)
    kubeconfig = write_kubeconfig(folder / "kubeconfig", credentials)
    return KScheduler(control_plane, kubeconfig=kubeconfig)


def claims(workspace: Workspace) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in workspace.api.list_all(claims_path(workspace))}


def test_claims_are_allocated_reserved_and_made_for_extended_resources(devices: Workspace, tmp_path: Path) -> None:
    start(devices, tmp_path)
    create_claim(devices, "shared")
    for name in ("a", "b"):
        create_pod(devices, name, "shared")
    for name in ("x", "y", "z"):
        create_pod(devices, name)
    eventually(lambda: len(devices.bindings()) == 5, "all pods are bound")
    found = claims(devices)
    assert len(found) == 4
    taken = set()
    for name, claim in found.items():
        [result] = claim["status"]["allocation"]["devices"]["results"]
        taken.add((result["pool"], result["device"]))
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        users = [each["name"] for each in claim["status"]["reservedFor"]]
        assert users == (["a", "b"] if name == "shared" else [name.partition("-")[0]]) or set(users) == {"a", "b"}
        assert {devices.bindings()[user] for user in users} == {result["pool"]}
    assert len(taken) == 4
    for name in ("x", "y", "z"):
        status = devices.pod(name)["status"]["extendedResourceClaimStatus"]
        assert status["resourceClaimName"] in found
        [mapping] = status["requestMappings"]
        assert (mapping["resourceName"], mapping["containerName"]) == (GPU, "pause")


def test_a_pod_waits_until_a_device_is_free(devices: Workspace, tmp_path: Path) -> None:
    start(devices, tmp_path)
    for name in ("c0", "c1", "c2", "c3", "c4"):
        create_claim(devices, name)
        create_pod(devices, f"pod-{name}", name)
    eventually(lambda: len(devices.bindings()) == 4, "four pods have the four devices")
    [waiting] = {pod["metadata"]["name"] for pod in devices.pods()} - set(devices.bindings())
    eventually(
        lambda: any(
            "2 cannot allocate all claims" in each.get("message", "")
            for each in devices.pod(waiting)["status"].get("conditions", [])
        ),
        "the fifth says why it waits",
    )
    # What the controller does once a pod is gone.
    done = next(iter(devices.bindings()))
    devices.api.delete(f"/api/v1/namespaces/{devices.namespace}/pods/{done}")
    name = done.removeprefix("pod-")
    freed = {"status": {"reservedFor": None, "allocation": None}}
    devices.api.patch(f"{claims_path(devices)}/{name}/status", freed, MERGE)
    eventually(lambda: waiting in devices.bindings(), "the fifth gets the device")


def test_a_claim_that_the_scheduler_reserved_is_given_back_when_its_pod_cannot_be_bound(
    devices: Workspace, tmp_path: Path
) -> None:
    """The strategic merge patch takes out one of several reservations."""
    start(devices, tmp_path)
    create_claim(devices, "shared")
    create_pod(devices, "stays", "shared")
    eventually(lambda: "stays" in devices.bindings(), "the first pod is bound")
    path = f"{claims_path(devices)}/shared/status"
    kept = claims(devices)["shared"]["status"]["reservedFor"]
    other = {"resource": "pods", "name": "gone", "uid": "11111111-1111-1111-1111-111111111111"}
    devices.api.patch(path, {"status": {"reservedFor": [*kept, other]}}, MERGE)
    gone = {"$patch": "delete", "uid": other["uid"]}
    patch = {"metadata": {"uid": claims(devices)["shared"]["metadata"]["uid"]}, "status": {"reservedFor": [gone]}}
    devices.api.patch(path, patch, "application/strategic-merge-patch+json")
    assert claims(devices)["shared"]["status"]["reservedFor"] == kept
