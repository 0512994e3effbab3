"""Leaders and apiservers that die in mid-run: no pod lost, none bound twice, no node overcommitted."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
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
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def replica(
    control_plane: ControlPlane, name: str, lease_duration_s: int, *, wait: bool = True, **options: Any
) -> KScheduler:
    lease = {
        "leaseDuration": f"{lease_duration_s}s",
        "renewDeadline": f"{lease_duration_s * 2 // 3}s",
        "retryPeriod": "1s",
        "resourceName": "kscheduler",
        "resourceNamespace": "kube-system",
    }
    return KScheduler(control_plane, name=name, leader_elect=True, lease=lease, wait=wait, **options)


def hold_lease(control_plane: ControlPlane) -> None:
    """Take the Lease for the test, so that no replica leads before it is released."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "the-test", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    control_plane.api.create(LEASES, {"metadata": {"name": "kscheduler"}, "spec": {**spec, "leaseTransitions": 0}})


def release_lease(control_plane: ControlPlane) -> None:
    control_plane.api.patch(f"{LEASES}/kscheduler", {"spec": {"holderIdentity": ""}})


def leaders(replicas: list[KScheduler]) -> list[KScheduler]:
    return [each for each in replicas if "became leader" in each.process.log_text()]


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
    hold_lease(control_plane)
    replicas = [replica(control_plane, name, lease_duration_s) for name in ("one", "two")]
    with BindWatch(control_plane.credentials) as watch:
        release_lease(control_plane)
        eventually(lambda: leaders(replicas), "a replica leads")
        (leader,) = leaders(replicas)
        (standby,) = (each for each in replicas if each is not leader)
        before = control_plane.api.get(f"{LEASES}/kscheduler")["spec"]
        watch.wait(KILL_AT)
        leader.process.signal(end)
        assert watch.count < PODS, "the leader was through before it was ended: the test showed nothing"
        watch.wait(PODS)
    assert leader.process.wait() == exit_code
    after = control_plane.api.get(f"{LEASES}/kscheduler")["spec"]
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


def test_a_leader_that_ends_releases_its_lease_though_the_rate_limit_holds_bindings_back_for_longer_than_it_waits(
    fresh_control_plane: Callable[..., ControlPlane],
) -> None:
    control_plane = fresh_control_plane(audit=True)
    create(control_plane.credentials, nodes(1))
    create(control_plane.credentials, pods(40))
    leader = replica(control_plane, "one", 3600, qps=1.0, burst=10)
    with BindWatch(control_plane.credentials) as watch:
        watch.wait(10)
        standby = replica(control_plane, "two", 3600, qps=1_000)
        leader.process.signal(signal.SIGTERM)
        watch.wait(40)
    assert leader.process.wait() == 0
    assert leaders([standby])
    check(control_plane)


@pytest.mark.parametrize("elect", [False, True], ids=["alone", "elected"])
def test_binding_goes_on_after_the_apiserver_was_killed_and_restarted(
    fresh_control_plane: Callable[..., ControlPlane], elect: bool
) -> None:
    control_plane = fresh_control_plane(audit=True)
    load(control_plane)
    with BindWatch(control_plane.credentials) as watch:
        # Not waited for: by the time at which a busy scheduler says that it is ready, it may be through with all pods.
        scheduler = replica(control_plane, "one", 30, wait=False) if elect else KScheduler(control_plane, wait=False)
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
