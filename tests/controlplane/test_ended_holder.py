"""A killed leader whose Pod has ended by the kubelet's report: the standby does not wait for its Lease to run out."""

from __future__ import annotations

import signal
from datetime import datetime, timedelta, timezone

import pytest

from tests.controlplane.harness.kscheduler import KScheduler
from tests.controlplane.harness.patience import eventually
from tests.controlplane.harness.workspace import Workspace

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/ended-holder"
LEASE_S = 120  # far longer than the test takes
NOBODY = "nobody"  # the scheduler of the replicas' own Pods, which nothing is to place

pytestmark = pytest.mark.slow


def replica(workspace: Workspace, name: str) -> KScheduler:
    """A scheduler process, and the Pod it says it is."""
    workspace.create_pod(name, scheduler_name=NOBODY)
    pod = workspace.pod(name)["metadata"]
    lease = {"leaseDuration": f"{LEASE_S}s", "renewDeadline": f"{LEASE_S - 20}s", "retryPeriod": "1s"}
    return KScheduler(
        workspace.control_plane,
        name=name,
        leader_elect=True,
        lease={**lease, "resourceName": "ended-holder"},
        extra_flags=("--leader-elect-replace-ended-holder",),
        environment={"POD_NAMESPACE": pod["namespace"], "POD_NAME": name, "POD_UID": pod["uid"]},
    )


def holder(workspace: Workspace) -> str:
    """The name of the Pod that holds the Lease."""
    return str(workspace.api.get(LEASE)["spec"].get("holderIdentity", "")).partition("_")[0]


def runs_out_at(workspace: Workspace) -> datetime:
    renewed = workspace.api.get(LEASE)["spec"]["renewTime"]
    return datetime.fromisoformat(renewed.replace("Z", "+00:00")) + timedelta(seconds=LEASE_S)


def report_the_end(workspace: Workspace, name: str) -> None:
    """What a kubelet writes about a Pod whose only container was killed."""
    terminated = {"exitCode": 137, "reason": "Error"}
    container = {"name": "pause", "image": "pause", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": "Failed", "containerStatuses": [{**container, "state": {"terminated": terminated}}]}
    workspace.api.patch(f"/api/v1/namespaces/{workspace.namespace}/pods/{name}/status", {"status": status})


def test_the_lease_of_a_pod_that_has_ended_is_taken_at_once(workspace: Workspace) -> None:
    workspace.create_nodes(2)
    first = replica(workspace, "first")
    workspace.create_pod("before")
    eventually(lambda: "before" in workspace.bindings(), "the first replica leads")
    replica(workspace, "second")
    # 1. Killed, and its Pod still said to run: the Lease is respected.
    first.process.signal(signal.SIGKILL)
    assert first.process.wait() == -signal.SIGKILL
    until = runs_out_at(workspace)
    workspace.create_pod("after")
    assert holder(workspace) == "first"
    # 2. Its end is reported: the Lease changes hands while it has still long to run.
    report_the_end(workspace, "first")
    eventually(lambda: holder(workspace) == "second", "the standby takes the Lease")
    assert datetime.now(timezone.utc) < until
    eventually(lambda: "after" in workspace.bindings(), "the standby leads")
