"""A standby whose watch of pods brings nothing any more takes over: what it does not know must not be overcommitted.

kube-scheduler goes through the same, and its number is printed: it leads on what it knew.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kscheduler.testing.controlplane import ControlPlane
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubescheduler import KubeScheduler
from kscheduler.testing.controlplane.load import create, nodes, pods
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workload import node, pod
from tests.support.faultproxy import Answer, Cut, Fault, FaultProxy, Freeze

pytestmark = pytest.mark.slow

NODES = 4
FITTING = 16  # a node has room for four
PODS = 2 * FITTING
NAME = "stale-standby"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = {
    "leaseDuration": "6s",
    "renewDeadline": "4s",
    "retryPeriod": "1s",
    "resourceName": NAME,
    "resourceNamespace": "kube-system",
}
PROBE = "/api/v1/namespaces/default/pods/probe"

FAULTS: dict[str, list[Fault]] = {
    # The watch is open and brings nothing; lists work.
    "frozen": [Freeze(verb="watch", resource="pods")],
    "refused": [
        Answer(verb="list", resource="pods", status=403),
        Answer(verb="watch", resource="pods", status=403),
        Cut(verb="watch", resource="pods"),
    ],
}
DECLINED = "not taking a free lease"


def bound(control_plane: ControlPlane) -> Counter[str]:
    """Node -> pods on it, without the probe."""
    found = control_plane.api.list_all("/api/v1/namespaces/default/pods")
    names = (pod["spec"].get("nodeName") for pod in found if pod["metadata"]["name"] != "probe")
    return Counter(name for name in names if name)


def holder(control_plane: ControlPlane) -> str:
    for lease in control_plane.api.list_all(LEASES, fieldSelector=f"metadata.name={NAME}"):
        return str(lease["spec"].get("holderIdentity") or "")
    return ""


def overcommitted_after_takeover(
    control_plane: ControlPlane, program: type[KScheduler] | type[KubeScheduler], faults: list[Fault], directory: Path
) -> int:
    """Pods beyond what fits, once the standby has bound a pod that came after the leader's death."""
    token = control_plane.service_account_token("kube-system", "through-the-proxy")
    binding: dict[str, Any] = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "through-the-proxy"},
        "subjects": [{"kind": "ServiceAccount", "name": "through-the-proxy", "namespace": "kube-system"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    }
    control_plane.api.apply(binding)
    with FaultProxy(control_plane.url, control_plane.authority) as proxy:
        # 1. Both know the pods, and no node.
        create(control_plane.credentials, pods(PODS, "default", templates=[pod(requests={"cpu": "1"})]))
        leader = program(control_plane, name="leader", leader_elect=True, lease=LEASE)
        eventually(lambda: holder(control_plane), "a leader")
        first = holder(control_plane)
        kubeconfig = proxy.kubeconfig(directory / f"{program.__name__}.kubeconfig", token)
        standby = program(control_plane, name="standby", leader_elect=True, lease=LEASE, kubeconfig=kubeconfig)
        # 2. The standby sees the nodes, and no pod being bound to them.
        active = [proxy.add(fault) for fault in faults]
        create(control_plane.credentials, nodes(NODES, templates=[node(capacity={"cpu": "4", "pods": "110"})]))
        eventually(lambda: bound(control_plane).total() == FITTING, "full nodes")
        # 3. It takes over.
        leader.process.signal(signal.SIGKILL)
        create(control_plane.credentials, pods(1, "default", templates=[pod("probe", requests={"cpu": "0"})]))
        eventually(
            lambda: holder(control_plane) not in ("", first) or DECLINED in standby.process.log_text(),
            "the standby's turn",
        )
        if program is KubeScheduler:
            eventually(
                lambda: sum(exchange.resource == "pods/binding" for exchange in list(proxy.journal)) >= FITTING,
                "the bindings of a stale leader",
            )
        if program is KubeScheduler or holder(control_plane) in ("", first):  # else it must do with what it lists
            for fault in active:
                fault.remove()
        eventually(lambda: control_plane.api.get(PROBE)["spec"].get("nodeName"), "the probe bound")
        for fault in active:
            fault.remove()
    return sum(max(0, count - FITTING // NODES) for count in bound(control_plane).values())


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_a_standby_that_saw_no_binding_overcommits_no_node(
    fresh_control_plane: Callable[..., ControlPlane], faults: list[Fault], tmp_path: Path
) -> None:
    ours = overcommitted_after_takeover(fresh_control_plane(), KScheduler, faults, tmp_path)
    assert ours == 0


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_what_kube_scheduler_overcommits_in_the_same_case_is_counted(
    fresh_control_plane: Callable[..., ControlPlane],
    faults: list[Fault],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    theirs = overcommitted_after_takeover(fresh_control_plane(), KubeScheduler, faults, tmp_path)
    record_property("overcommitted", theirs)
    print(f"kube-scheduler: {theirs} pods overcommitted")
