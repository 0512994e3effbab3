"""The page about replacing kube-scheduler, command by command, as a reader copies it, on a real control plane.

What a kubelet does is played by the test (tests/deploy/kubelet.py): the scheduler's pods are processes with the pods'
own arguments, configuration and rights. Two kinds of commands are done in other ways: moving the manifest of
kube-scheduler's static pod stops or starts a kube-scheduler process, and instead of forwarding a port the leader's own
is asked.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from docs.assembly import ROOT
from kscheduler.testing.controlplane import Binaries, ControlPlane, KubeScheduler, workload
from kscheduler.testing.controlplane.controllermanager import ControllerManager
from kscheduler.testing.controlplane.patience import eventually
from tests.deploy.kubelet import Kubelet
from tests.docs.console import check, commands, printed_by
from tests.docs.pages import ON_CLUSTER, blocks, own_pages
from tests.support.helm import build
from tests.support.skips import program

pytestmark = pytest.mark.slow

PAGE = own_pages()["start/replace.md"]
CONTROLLERS = ("deployment-controller", "replicaset-controller", "garbage-collector-controller", "namespace-controller")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
LARGE = "/api/v1/namespaces/default/pods/large"  # the pod of the page that is explained
# What comes and goes by itself, or is of the pods that the page creates.
PASSING = {"events", "pods", "replicasets", "deployments", "leases", "endpoints", "endpointslices"}


class Cluster:
    """Three nodes, the controllers of Deployments, kubelets, and kube-scheduler as a static pod."""

    def __init__(self, control_plane: ControlPlane, ends: contextlib.ExitStack) -> None:
        self.control_plane = control_plane
        self.api = control_plane.api
        for index in range(3):
            self.api.create("/api/v1/nodes", workload.node(f"node-{index}"))
        ControllerManager(control_plane, CONTROLLERS)
        self.kubelet = Kubelet(control_plane)
        self.kubelet.start()
        ends.callback(self.kubelet.stop)
        self.start_kube_scheduler()

    def start_kube_scheduler(self) -> None:
        self.kube_scheduler = KubeScheduler(self.control_plane, leader_elect=True)

    def stop_kube_scheduler(self) -> None:
        self.kube_scheduler.stop()

    def leader(self) -> str:
        """The pod that leads, or "" if none of the scheduler's does."""
        holder = str(self.api.get(LEASE)["spec"].get("holderIdentity", ""))
        for pod in self.api.list_all("/api/v1/namespaces/kscheduler/pods"):
            name = str(pod["metadata"]["name"])
            lines = self.kubelet.replica(name).process.log_text().splitlines()
            if holder and any("became leader" in line and holder in line for line in lines):  # a standby names it, too
                return name
        return ""

    def objects(self) -> set[tuple[str, str, str]]:
        """Every object of every kind: kind, namespace and name."""
        groups = [f"/apis/{each['preferredVersion']['groupVersion']}" for each in self.api.get("/apis")["groups"]]
        found = set()
        for base in ("/api/v1", *groups):
            for resource in self.api.get(base)["resources"]:
                kind = resource["name"]
                if "list" in resource["verbs"] and kind not in PASSING:
                    metadata = [each["metadata"] for each in self.api.list_all(f"{base}/{kind}")]
                    found |= {(kind, each.get("namespace", ""), each["name"]) for each in metadata}
        return found


@pytest.fixture
def cluster(binaries: Binaries) -> Iterator[Cluster]:
    with contextlib.ExitStack() as ends:
        own = ends.enter_context(ControlPlane(binaries=binaries))
        yield Cluster(own, ends)


@pytest.fixture
def folder(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of somebody whose kubeconfig is an administrator's."""
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").symlink_to(cluster.control_plane.kubeconfig_for_user("admin", ["system:masters"]))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/helm").symlink_to(build())
    for name in ("KUBECONFIG", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def explained(cluster: Cluster, command: str, folder: Path) -> bool:
    """Whether the pod's decision has details. A busy scheduler leaves them out; then the pod is created again."""
    printed = "\n".join(printed_by(command, folder))
    if "the scheduler was busy" in printed:
        pod = cluster.api.get(LARGE)
        cluster.api.delete(f"{LARGE}?gracePeriodSeconds=0")
        cluster.api.create(LARGE.rpartition("/")[0], {"metadata": {"name": "large"}, "spec": pod["spec"]})
        return False
    return "fits nowhere" in printed


def test_the_page_is_followed_from_the_first_command_to_the_last(cluster: Cluster, folder: Path) -> None:
    program("kubectl", "install kubectl")
    eventually(lambda: cluster.api.get(LEASE)["spec"].get("holderIdentity"), "kube-scheduler leads")
    before = cluster.objects()
    by_hand: dict[str, Callable[[], object]] = {
        "$ mv /etc/kubernetes/manifests/kube-scheduler.yaml /root/": cluster.stop_kube_scheduler,
        "$ mv /root/kube-scheduler.yaml /etc/kubernetes/manifests/": cluster.start_kube_scheduler,
        "$ kubectl --namespace kscheduler port-forward pod/LEADER 10259 >port-forward.txt &": lambda: None,
    }
    done = set()
    for block in blocks(PAGE):
        if block.file:
            (folder / block.file).write_text(block.text)
        elif block.language == "console" and block.options in ("", ON_CLUSTER):
            for command, shown in commands(block.text):
                done.add(command)
                if command in by_hand:
                    by_hand[command]()
                    continue
                asked = command
                if command.startswith("$ kscheduler explain "):
                    eventually(cluster.leader, "a replica leads", state=cluster.kubelet.log_tails)
                    asked += f" --server {cluster.kubelet.replica(cluster.leader()).url}"
                    eventually(lambda: explained(cluster, asked, folder), "a decision has its details")  # noqa: B023
                check(shown, printed_by(asked, folder), command)
    assert by_hand.keys() <= done
    left = cluster.objects() - before
    assert left == set()
