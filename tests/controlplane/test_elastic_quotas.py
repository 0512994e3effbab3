"""ElasticQuotas on a real apiserver, by the rights of deploy/ alone: kept, lent, taken back, with their status."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kscheduler.testing.controlplane import ControlPlane, Credentials, workload
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubeconfig import write_kubeconfig
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.custom_kinds import remove_kind, serves
from tests.deploy.manifests import own_objects, render

[CRD] = (each for each in own_objects("quotas") if each["kind"] == "CustomResourceDefinition")
KIND = "elasticquotas.scheduling.x-k8s.io"
GROUP_VERSION = "scheduling.x-k8s.io/v1alpha1"
QUOTAS = f"/apis/{GROUP_VERSION}/elasticquotas"
MERGE = "application/merge-patch+json"
CONFIGURATION: dict[str, Any] = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                "preFilter": {"enabled": [{"name": "CapacityScheduling"}]},
                "postFilter": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]},
                "reserve": {"enabled": [{"name": "CapacityScheduling"}]},
            },
        }
    ]
}


class Tenants:
    """Two namespaces, and pods of 1 cpu in them on one node of 8."""

    def __init__(self, control_plane: ControlPlane, shop: Workspace, lab: Workspace) -> None:
        self.control_plane = control_plane
        self.api = control_plane.api
        self.shop, self.lab = shop, lab
        shop.create_node("node-0", capacity={"cpu": "8", "memory": "32Gi", "pods": "110"})

    def start(self, folder: Path) -> KScheduler:
        """kscheduler by the ServiceAccount of deploy/base with the component, with its rights and no others."""
        self.api.apply(*(each for each in render("base", "quotas") if each["kind"] != CRD["kind"]))
        token = self.control_plane.service_account_token("kscheduler", "kscheduler")
        credentials = Credentials(self.control_plane.url, self.control_plane.authority.path, token=token)
        kubeconfig = write_kubeconfig(folder / "kubeconfig", credentials)
        return KScheduler(self.control_plane, kubeconfig=kubeconfig, configuration=CONFIGURATION)

    def set_quota(self, tenant: Workspace, least: str, most: str) -> None:
        amounts = {"min": {"cpu": least, "memory": "16Gi"}, "max": {"cpu": most, "memory": "32Gi"}}
        metadata = {"name": "quota", "namespace": tenant.namespace}
        self.api.apply({"apiVersion": GROUP_VERSION, "kind": "ElasticQuota", "metadata": metadata, "spec": amounts})

    def used(self, tenant: Workspace) -> Object:
        found = self.api.get(f"/apis/{GROUP_VERSION}/namespaces/{tenant.namespace}/elasticquotas/quota")
        used: Object = found.get("status", {}).get("used", {})
        return used

    def run(self, tenant: Workspace) -> None:
        """What kubelets do: let bound pods run."""
        for name in tenant.bindings():
            path = f"/api/v1/namespaces/{tenant.namespace}/pods/{name}/status"
            self.api.patch(path, {"status": {"phase": "Running"}}, MERGE)


def create(tenant: Workspace, *names: str) -> None:
    for name in names:
        spec = {"terminationGracePeriodSeconds": 0}
        tenant.create(workload.pod(name, requests={"cpu": "1", "memory": "1Gi"}, spec=spec))


def message(tenant: Workspace, name: str) -> str:
    """Why a pod waits."""
    conditions = tenant.pod(name)["status"].get("conditions", ())
    return next((str(one.get("message", "")) for one in conditions if one["type"] == "PodScheduled"), "")


def preemptions(tenant: Workspace) -> int:
    """How many Events say that a pod was preempted."""
    events = tenant.api.list_all(f"/apis/events.k8s.io/v1/namespaces/{tenant.namespace}/events")
    return sum(event["reason"] == "Preempted" for event in events)


@pytest.fixture
def tenants(control_plane: ControlPlane, workspace: Workspace) -> Iterator[Tenants]:
    control_plane.api.apply(CRD)
    eventually(lambda: serves(control_plane.api, QUOTAS), "the kind is served")
    other = Workspace(control_plane)
    try:
        yield Tenants(control_plane, workspace, other)
    finally:
        other.clean()
        remove_kind(control_plane.api, KIND)


def test_a_namespace_stays_within_its_max_and_a_larger_one_wakes_its_pods(tenants: Tenants, tmp_path: Path) -> None:
    shop = tenants.shop
    tenants.set_quota(shop, "4", "2")
    tenants.start(tmp_path)
    create(shop, "a", "b")
    eventually(lambda: len(shop.bindings()) == 2, "pods up to max are bound")
    create(shop, "c")
    create(tenants.lab, "free")
    eventually(lambda: message(shop, "c"), "the pod beyond it is refused")
    assert message(shop, "c") == (
        f"0/1 nodes are available: Pod {shop.namespace}/c is rejected in PreFilter because "
        f"ElasticQuota {shop.namespace} is more than Max. "
        "0/1 nodes are available: 1 No victims found on node node-0 for preemptor pod c."
    )
    eventually(lambda: tenants.lab.bindings(), "a namespace without a quota is not limited")
    assert set(shop.bindings()) == {"a", "b"}
    tenants.set_quota(shop, "4", "3")
    eventually(lambda: "c" in shop.bindings(), "the larger quota has room for it")


def test_what_one_does_not_use_is_lent_and_taken_back(tenants: Tenants, tmp_path: Path) -> None:
    shop, lab = tenants.shop, tenants.lab
    tenants.set_quota(shop, "2", "4")
    tenants.set_quota(lab, "2", "4")
    scheduler = tenants.start(tmp_path)
    create(shop, "a", "b", "c", "d")
    eventually(lambda: len(shop.bindings()) == 4, "it borrows what the other does not use")
    labels = f'namespace="{shop.namespace}",resource="cpu"'
    metrics = scheduler.get("/metrics")
    for kind, amount in (("used", 4.0), ("min", 2.0), ("max", 4.0)):
        assert f'kscheduler_elastic_quota{{{labels},type="{kind}"}} {amount}' in metrics
    tenants.run(shop)
    eventually(lambda: tenants.used(shop) == {"cpu": "4", "memory": "4294967296"}, "the status says so")
    eventually(lambda: tenants.used(lab) == {"cpu": "0", "memory": "0"}, "and that the other uses nothing")
    create(lab, "x")
    eventually(lambda: "x" in lab.bindings(), "the other takes back one cpu")
    assert len(shop.bindings()) == len(shop.pods()) == 3
    create(lab, "y", "z")
    eventually(lambda: "y" in lab.bindings() or "z" in lab.bindings(), "and another")
    [waiting] = {"y", "z"} - set(lab.bindings())
    eventually(lambda: message(lab, waiting), "beyond its min it does not")
    assert message(lab, waiting).startswith(
        f"0/1 nodes are available: Pod {lab.namespace}/{waiting} is rejected in PreFilter because "
        "total ElasticQuota used is more than min. "
    )
    assert len(shop.bindings()) == 2
    tenants.run(lab)
    both = {"cpu": "2", "memory": "2147483648"}
    eventually(lambda: tenants.used(shop) == tenants.used(lab) == both, "both statuses follow")
    eventually(lambda: preemptions(shop) == 2, "each evicted pod has an Event")


def test_a_quota_that_is_created_after_its_pods_counts_them(tenants: Tenants, tmp_path: Path) -> None:
    shop = tenants.shop
    tenants.start(tmp_path)
    create(shop, "a", "b")
    eventually(lambda: len(shop.bindings()) == 2, "there is no quota yet")
    tenants.run(shop)
    tenants.set_quota(shop, "2", "2")
    eventually(lambda: tenants.used(shop).get("cpu") == "2", "the new quota counts them")
    create(shop, "c")
    eventually(lambda: "more than Max" in message(shop, "c"), "so that there is no room left")
    tenants.api.delete(f"/api/v1/namespaces/{shop.namespace}/pods/a")
    eventually(lambda: "c" in shop.bindings(), "until one ends")


@pytest.mark.slow
def test_a_scheduler_that_is_older_than_the_kind_keeps_quotas_once_it_is_there(
    tenants: Tenants, tmp_path: Path
) -> None:
    shop = tenants.shop
    remove_kind(tenants.api, KIND)
    eventually(lambda: not serves(tenants.api, QUOTAS), "the kind is gone")
    scheduler = tenants.start(tmp_path)
    create(shop, "a")
    eventually(lambda: shop.bindings(), "pods are bound without the kind")
    tenants.api.apply(CRD)
    eventually(lambda: serves(tenants.api, QUOTAS), "the kind is back")
    tenants.set_quota(shop, "1", "1")
    eventually(lambda: tenants.used(shop).get("cpu") == "0", "the quota was seen")
    create(shop, "b")
    eventually(lambda: "more than Max" in message(shop, "b"), "and is kept")
    assert "Traceback" not in scheduler.process.log_text()
