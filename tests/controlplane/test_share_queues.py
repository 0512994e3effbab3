"""Queues with shares on a real apiserver, by the rights of deploy/ alone: lent, kept, taken back, with their status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kscheduler.testing.controlplane import ControlPlane, Credentials, RequestFailed, workload
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubeconfig import write_kubeconfig
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.custom_kinds import remove_kind, serves
from tests.deploy.manifests import own_objects, render

KIND = "queues.kscheduler.io"
[CRD] = (each for each in own_objects("queues") if each["kind"] == "CustomResourceDefinition")
GROUP_VERSION = "kscheduler.io/v1alpha1"
QUEUES = f"/apis/{GROUP_VERSION}/queues"
CONFIGURATION: dict[str, Any] = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                "preFilter": {"enabled": [{"name": "Queues"}]},
                "postFilter": {"enabled": [{"name": "Queues"}], "disabled": [{"name": "*"}]},
            },
        }
    ]
}
GANG_LABEL = "scheduling.x-k8s.io/pod-group"
GROUP_VERSION_OF_GANGS = "scheduling.x-k8s.io/v1alpha1"


class Tenants:
    """Queues, and pods of 1 cpu in them on one node of 6."""

    def __init__(self, control_plane: ControlPlane, workspace: Workspace) -> None:
        self.control_plane = control_plane
        self.api = control_plane.api
        self.workspace = workspace
        workspace.create_node("node-0", capacity={"cpu": "6", "memory": "32Gi", "pods": "110"})

    def start(self, folder: Path, configuration: dict[str, Any] = CONFIGURATION, *components: str) -> KScheduler:
        """kscheduler by the ServiceAccount of deploy/base with the components, with their rights and no others."""
        own = (each for each in render("base", "queues", *components) if each["metadata"]["name"] != KIND)
        self.api.apply(*own)
        token = self.control_plane.service_account_token("kscheduler", "kscheduler")
        credentials = Credentials(self.control_plane.url, self.control_plane.authority.path, token=token)
        kubeconfig = write_kubeconfig(folder / "kubeconfig", credentials)
        return KScheduler(self.control_plane, kubeconfig=kubeconfig, configuration=configuration)

    def set_queue(self, name: str, parent: str = "", **terms: Any) -> None:
        spec = {"parent": parent, "resources": {"cpu": terms}}
        self.api.apply({"apiVersion": GROUP_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec})

    def status(self, name: str) -> Object:
        found: Object = self.api.get(f"{QUEUES}/{name}").get("status", {})
        return found

    def create(self, queue: str, count: int, gang: str = "") -> None:
        for number in range(count):
            labels = {"kscheduler.io/queue": queue}
            if gang:
                labels[GANG_LABEL] = gang
            self.workspace.create(
                workload.pod(
                    f"{queue}-{number}",
                    requests={"cpu": "1", "memory": "1Gi"},
                    labels=labels,
                    spec={"terminationGracePeriodSeconds": 0},
                )
            )

    def bound(self) -> Counter[str]:
        """How many pods of each queue have a node."""
        return Counter(name.partition("-")[0] for name in self.workspace.bindings())

    def preemptions(self) -> int:
        """How many Events say that a pod was preempted."""
        events = self.api.list_all(f"/apis/events.k8s.io/v1/namespaces/{self.workspace.namespace}/events")
        return sum(event["reason"] == "Preempted" for event in events)

    def message(self, pod: str) -> str:
        """Why a pod waits."""
        conditions = self.workspace.pod(pod)["status"].get("conditions", ())
        return next((str(one.get("message", "")) for one in conditions if one["type"] == "PodScheduled"), "")


@pytest.fixture
def tenants(control_plane: ControlPlane, workspace: Workspace) -> Iterator[Tenants]:
    remove_kind(control_plane.api, KIND)
    control_plane.api.apply(CRD)
    eventually(lambda: serves(control_plane.api, QUEUES), "the kind is served")
    try:
        yield Tenants(control_plane, workspace)
    finally:
        remove_kind(control_plane.api, KIND)


def test_what_a_queue_does_not_use_is_lent_and_taken_back(tenants: Tenants, tmp_path: Path) -> None:
    tenants.set_queue("team")
    tenants.set_queue("a", "team", deserved=2)
    tenants.set_queue("b", "team", deserved="3")
    scheduler = tenants.start(tmp_path)
    tenants.create("a", 6)
    eventually(lambda: tenants.bound() == {"a": 6}, "it uses what the other does not use")
    tenants.create("b", 4)
    eventually(lambda: tenants.bound() == {"a": 3, "b": 3}, "the other takes its share back")
    share = {"used": {"cpu": "3"}, "fairShare": {"cpu": "3500m"}}
    eventually(lambda: share.items() <= tenants.status("b").items(), "the status says so")
    assert tenants.status("b")["requested"] == {"cpu": "4"}
    metrics = scheduler.get("/metrics")
    for kind, amount in (("used", 3.0), ("fair_share", 3.5), ("deserved", 3.0), ("requested", 4.0)):
        assert f'kscheduler_queue_share{{queue="b",resource="cpu",type="{kind}"}} {amount}' in metrics
    eventually(lambda: tenants.preemptions() == 3, "each evicted pod has an Event")
    assert "Traceback" not in scheduler.process.log_text()


def test_a_gang_takes_its_share_back_for_its_whole_minimum(tenants: Tenants, tmp_path: Path) -> None:
    [profile] = CONFIGURATION["profiles"]
    plugins = {**profile["plugins"], "permit": {"enabled": [{"name": "Coscheduling"}]}}
    tenants.set_queue("a")
    tenants.set_queue("b")
    tenants.api.apply(*(each for each in own_objects("gangs") if each["kind"] == "CustomResourceDefinition"))
    try:
        groups = f"/apis/{GROUP_VERSION_OF_GANGS}/namespaces/{tenants.workspace.namespace}/podgroups"
        eventually(lambda: serves(tenants.api, groups), "PodGroups are served")
        scheduler = tenants.start(tmp_path, {"profiles": [{**profile, "plugins": plugins}]}, "gangs")
        tenants.create("a", 6)
        eventually(lambda: tenants.bound() == {"a": 6}, "the other queue uses all")
        body = {"apiVersion": GROUP_VERSION_OF_GANGS, "kind": "PodGroup", "metadata": {"name": "train"}}
        tenants.api.create(groups, {**body, "spec": {"minMember": 3}})
        tenants.create("b", 3, gang="train")
        eventually(lambda: tenants.bound() == {"a": 3, "b": 3}, "the gang takes its share back")
        assert "Traceback" not in scheduler.process.log_text()
    finally:
        tenants.control_plane.stop_processes(keep=0)
        remove_kind(tenants.api, "podgroups.scheduling.x-k8s.io")


def test_limits_are_kept_and_queues_that_are_wrong_say_so(tenants: Tenants, tmp_path: Path) -> None:
    tenants.set_queue("a", limit="2")
    tenants.set_queue("lost", "nowhere")
    tenants.start(tmp_path)
    tenants.create("a", 3)
    tenants.create("lost", 1)
    eventually(lambda: tenants.bound() == {"a": 2}, "pods up to the limit are bound")
    [waiting] = {"a-0", "a-1", "a-2"} - set(tenants.workspace.bindings())
    eventually(lambda: tenants.message(waiting), "the pod beyond it is refused")
    assert tenants.message(waiting).startswith(
        "0/1 nodes are available: queue a would exceed its limit of cpu "
        "(a: 2 of 0 deserved, fair share 2, limit 2, would be 3)."
    )
    eventually(
        lambda: "expected a queue above lost" in tenants.status("lost").get("message", ""), "its status says why"
    )
    tenants.set_queue("nowhere")
    eventually(lambda: tenants.bound() == {"a": 2, "lost": 1}, "until it has its place")
    eventually(lambda: "message" not in tenants.status("lost"), "and its status says that, too")
    tenants.set_queue("a", limit="3")
    eventually(lambda: tenants.bound()["a"] == 3, "a greater limit wakes the pod")


def test_the_apiserver_refuses_amounts_that_cannot_be_read(tenants: Tenants) -> None:
    for terms in ({"deserved": "much"}, {"limit": "-1"}, {"weight": "heavy"}):
        with pytest.raises(RequestFailed, match=r"spec\.resources"):
            tenants.set_queue("a", **terms)
