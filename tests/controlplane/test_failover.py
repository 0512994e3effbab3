"""Leaders and apiservers that die in mid-run: no pod lost, none bound twice, no node overcommitted."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.testing.controlplane import BindWatch, ControlPlane, verify
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.load import create, nodes, pods
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace

pytestmark = pytest.mark.slow

NODES = 100
PODS = 3_000  # of 4,000 that fit, so a lost or doubled assumption shows
KILL_AT = 600  # pods bound
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kscheduler"


def replica(control_plane: ControlPlane, name: str, lease_duration_s: int, *, wait: bool = True) -> KScheduler:
    lease = {
        "leaseDuration": f"{lease_duration_s}s",
        "renewDeadline": f"{lease_duration_s * 2 // 3}s",
        "retryPeriod": "1s",
        "resourceName": "kscheduler",
        "resourceNamespace": "kube-system",
    }
    return KScheduler(control_plane, name=name, leader_elect=True, lease=lease, wait=wait)


def wait_for_lease(control_plane: ControlPlane) -> dict[str, Any]:
    """The lease's spec once somebody holds it."""
    held: list[dict[str, Any]] = []

    def is_held() -> bool:
        leases = control_plane.api.list_all(LEASE.rpartition("/")[0], fieldSelector="metadata.name=kscheduler")
        held.extend(lease["spec"] for lease in leases if lease["spec"].get("holderIdentity"))
        return bool(held)

    eventually(is_held, "somebody holds the Lease")
    return held[0]


def accepted_bindings(control_plane: ControlPlane) -> Counter[str]:
    """Pod -> bindings the apiserver carried out, from its audit log."""
    return Counter(
        f"{event['objectRef']['namespace']}/{event['objectRef']['name']}"
        for event in control_plane.apiserver.audit_events()
        if event.get("objectRef", {}).get("subresource") == "binding" and event["responseStatus"]["code"] == 201
    )


def load(control_plane: ControlPlane) -> None:
    create(control_plane.credentials, nodes(NODES))
    create(control_plane.credentials, pods(PODS))


def check(control_plane: ControlPlane) -> None:
    placement = verify(control_plane.api, events=False)
    assert placement.problems == []
    assert max(accepted_bindings(control_plane).values()) == 1


@pytest.mark.parametrize(
    ("end", "exit_code", "lease_duration_s"),
    # A killed leader's lease runs out. A terminated leader releases it: waiting for an hour would fail the test.
    [
        pytest.param(signal.SIGKILL, -signal.SIGKILL, 6, id="SIGKILL"),
        pytest.param(signal.SIGTERM, 0, 3600, id="SIGTERM"),
    ],
)
def test_the_standby_finishes_when_the_leader_ends_in_mid_run(
    fresh_control_plane: Callable[..., ControlPlane], end: signal.Signals, exit_code: int, lease_duration_s: int
) -> None:
    control_plane = fresh_control_plane(audit=True)
    load(control_plane)
    with BindWatch(control_plane.credentials) as watch:
        first = replica(control_plane, "first", lease_duration_s, wait=False)
        before = wait_for_lease(control_plane)
        standby = replica(control_plane, "standby", lease_duration_s)
        watch.wait(KILL_AT)
        first.process.signal(end)
        assert watch.count < PODS, "the leader was through before it was ended: the test showed nothing"
        watch.wait(PODS)
    assert first.process.wait() == exit_code
    after = control_plane.api.get(LEASE)["spec"]
    assert after["holderIdentity"] != before["holderIdentity"]
    assert after["leaseTransitions"] > before["leaseTransitions"]
    assert standby.process.is_running
    check(control_plane)
    # Those of the leader that ended as well: its successor knows which are missing, and doubles none.
    eventually(
        lambda: verify(control_plane.api).problems == [],
        "one Scheduled Event for each pod",
        state=lambda: verify(control_plane.api).problems[:5],
    )


@pytest.mark.parametrize("elect", [False, True], ids=["alone", "elected"])
def test_binding_goes_on_after_the_apiserver_was_killed_and_restarted(
    fresh_control_plane: Callable[..., ControlPlane], elect: bool
) -> None:
    control_plane = fresh_control_plane(audit=True)
    load(control_plane)
    with BindWatch(control_plane.credentials) as watch:
        scheduler = replica(control_plane, "one", 30) if elect else KScheduler(control_plane)
        watch.wait(KILL_AT)
        control_plane.apiserver.kill()
        assert watch.count < PODS, "all pods were bound before the apiserver was killed: the test showed nothing"
        control_plane.apiserver.start()
        watch.wait(PODS)
    assert scheduler.process.is_running
    placement = verify(control_plane.api, events=False)
    assert placement.problems == []


def test_a_leader_that_cannot_renew_stops_and_says_so(fresh_control_plane: Callable[..., ControlPlane]) -> None:
    control_plane = fresh_control_plane()
    leader = replica(control_plane, "leader", 6)
    # It leads when it binds: it holds the Lease a little earlier, while it confirms that it knows all pods and nodes.
    workspace = Workspace(control_plane)
    workspace.create_nodes(1)
    workspace.create_pod("bound")
    eventually(workspace.bindings, "it leads")
    control_plane.apiserver.stop()
    assert leader.process.wait() == 1
    assert "kscheduler: error: lease kube-system/kscheduler: not renewed within" in leader.process.log_text()
    assert "Traceback" not in leader.process.log_text()
