"""A leader whose Pod has ended by the kubelet's report is replaced at once; one whose Pod is only missing is not."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.replica_pod import ReplicaPod
from kscheduler.testing.controlplane.workspace import Workspace

LEASE_S = 120  # far longer than the test takes
LOOKS = 5  # of the standby at a Lease and its holder, a second apart

pytestmark = pytest.mark.slow


def replica(workspace: Workspace, pod: ReplicaPod) -> KScheduler:
    """A scheduler process in that Pod."""
    where = {"resourceNamespace": workspace.namespace, "resourceName": "ended-holder"}
    lease = {"leaseDuration": f"{LEASE_S}s", "renewDeadline": f"{LEASE_S - 20}s", "retryPeriod": "1s"}
    return KScheduler(
        workspace.control_plane,
        name=pod.environment["POD_NAME"],
        leader_elect=True,
        lease={**lease, **where},
        extra_flags=("--leader-elect-replace-ended-holder", "--v=4"),
        environment=pod.environment,
    )


def lease_of(workspace: Workspace) -> Any:
    """The Lease's spec."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{workspace.namespace}/leases"
    return workspace.api.get(f"{leases}/ended-holder")["spec"]


def holder(workspace: Workspace) -> str:
    """The name of the Pod that holds the Lease."""
    return str(lease_of(workspace).get("holderIdentity", "")).partition("_")[0]


def renewals(workspace: Workspace) -> str:
    """When the Lease was renewed last, as its holder wrote it."""
    return str(lease_of(workspace)["renewTime"])


def runs_out_at(workspace: Workspace) -> datetime:
    return datetime.fromisoformat(renewals(workspace).replace("Z", "+00:00")) + timedelta(seconds=LEASE_S)


def test_the_lease_of_a_pod_that_has_ended_is_taken_at_once(workspace: Workspace) -> None:
    workspace.create_nodes(2)
    pod = ReplicaPod(workspace.api, workspace.namespace, "first")
    first = replica(workspace, pod)
    workspace.create_pod("before")
    eventually(lambda: "before" in workspace.bindings(), "the first replica leads")
    replica(workspace, ReplicaPod(workspace.api, workspace.namespace, "second"))
    # 1. Killed, and its Pod still reported as running: the Lease is respected.
    first.process.signal(signal.SIGKILL)
    assert first.process.wait() == -signal.SIGKILL
    until = runs_out_at(workspace)
    workspace.create_pod("after")
    assert holder(workspace) == "first"
    # 2. Its end is reported: the Lease changes hands while it has still long to run.
    pod.report_end()
    eventually(lambda: holder(workspace) == "second", "the standby takes the Lease")
    assert datetime.now(UTC) < until
    eventually(lambda: "after" in workspace.bindings(), "the standby leads")


def test_the_lease_of_a_pod_that_was_deleted_by_force_is_respected_while_its_process_runs_and_after(
    workspace: Workspace,
) -> None:
    workspace.create_nodes(2)
    # On a node, so that only a forced deletion removes the object at once.
    pod = ReplicaPod(workspace.api, workspace.namespace, "first", node="node-0")
    first = replica(workspace, pod)
    workspace.create_pod("before")
    eventually(lambda: "before" in workspace.bindings(), "the first replica leads")
    second = replica(workspace, ReplicaPod(workspace.api, workspace.namespace, "second", node="node-1"))
    transitions = lease_of(workspace)["leaseTransitions"]

    def looks_in_vain() -> int:
        """How often the standby found no Pod of the holder."""
        return second.process.log_text().count("not known to have ended")

    def check_there_is_one_leader() -> None:
        assert holder(workspace) == "first"
        assert lease_of(workspace)["leaseTransitions"] == transitions
        assert "became leader" not in second.process.log_text()

    # 1. Its Pod is gone, and it renews the Lease and binds as before; the standby looks for the Pod meanwhile.
    pod.delete_by_force()
    assert "first" not in {found["metadata"]["name"] for found in workspace.pods()}
    already = looks_in_vain()
    renewed: set[str] = set()
    while len(renewed) < LOOKS or looks_in_vain() < already + LOOKS:
        eventually(lambda: renewals(workspace) not in renewed, "the leader renews its Lease")
        renewed.add(renewals(workspace))
        check_there_is_one_leader()
    workspace.create_pod("meanwhile")
    eventually(lambda: "meanwhile" in workspace.bindings(), "the leader goes on binding")
    check_there_is_one_leader()
    # 2. The process ends as well, which nobody can know: its Lease has to run out.
    first.process.signal(signal.SIGKILL)
    assert first.process.wait() == -signal.SIGKILL
    until = runs_out_at(workspace)
    already = looks_in_vain()
    eventually(lambda: looks_in_vain() >= already + LOOKS, "the standby looks for the Pod", state=looks_in_vain)
    check_there_is_one_leader()
    assert datetime.now(UTC) < until
