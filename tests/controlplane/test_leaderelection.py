"""Leader election on a real apiserver."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime

import pytest

from kscheduler.client.kube import KubeClient
from kscheduler.client.leaderelection import ElectionConfig, LeaderElector
from kscheduler.testing.controlplane import ControlPlane
from kscheduler.testing.controlplane.patience import ended, until
from kscheduler.testing.controlplane.workspace import Workspace
from tests.support.clocks import CLOCK

# Under a namespaced Role only: what deploy/ gives.
RULES = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": ["kscheduler"],
        "verbs": ["get", "list", "watch", "update"],
    },
]


# Seconds for which a Lease is valid, within which it has to be renewed, and between two tries.
SHORT = (4.0, 3.0, 1.0)
LONG = (7200.0, 5400.0, 3600.0)  # a candidate that has only its tries comes too late for any test


@dataclass
class Candidate:
    client: KubeClient
    elector: LeaderElector
    task: asyncio.Future[None]
    started: asyncio.Event = field(default_factory=asyncio.Event)


Start = Callable[..., Candidate]  # name, and seconds other than SHORT


@pytest.fixture
async def start(workspace: Workspace) -> AsyncIterator[Start]:
    namespace = workspace.namespace
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    path = workspace.control_plane.kubeconfig_for_service_account(namespace, "kscheduler")
    workspace.api.create(f"{rbac}/roles", {"metadata": {"name": "elect"}, "rules": RULES})
    subject = {"kind": "ServiceAccount", "name": "kscheduler", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "elect"}
    workspace.api.create(
        f"{rbac}/rolebindings", {"metadata": {"name": "elect"}, "subjects": [subject], "roleRef": role}
    )
    clients = [await KubeClient.connect(CLOCK, kubeconfig=str(path)) for _ in range(2)]
    candidates: list[Candidate] = []

    def start(name: str, *seconds: float) -> Candidate:
        client = clients[len(candidates)]
        started = asyncio.Event()
        config = ElectionConfig(name, namespace, "kscheduler", *(seconds or SHORT))
        elector = LeaderElector(client, CLOCK, random.Random(name), config, on_started=started.set)
        candidates.append(Candidate(client, elector, asyncio.ensure_future(elector.run()), started))
        return candidates[-1]

    yield start
    for candidate in candidates:
        candidate.task.cancel()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await candidate.task
    for client in clients:
        await client.close()


def lease(workspace: Workspace) -> dict[str, object]:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{workspace.namespace}/leases/kscheduler"
    spec: dict[str, object] = workspace.api.get(path)["spec"]
    return spec


def written(spec: dict[str, object], name: str) -> datetime:
    """A time in a Lease."""
    return datetime.fromisoformat(str(spec[name]))


async def test_a_released_lease_changes_hands_at_once(workspace: Workspace, start: Start) -> None:
    a = start("a", *LONG)
    await ended(a.started.wait(), "a leads")
    spec = lease(workspace)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 7200, 0)
    b = start("b", *LONG)
    await until(lambda: b.elector.leader_identity == "a", "b has seen the Lease")
    assert a.elector.is_leader
    assert not b.elector.is_leader
    await a.elector.stop()
    await a.task
    await ended(b.started.wait(), "b leads: the watch shows it, since it does not try again before an hour is over")
    spec = lease(workspace)
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)


async def test_a_dead_leader_is_succeeded(workspace: Workspace, start: Start) -> None:
    a = start("a")
    await ended(a.started.wait(), "a leads")
    b = start("b")
    await until(lambda: b.elector.leader_identity == "a", "b has seen the Lease")
    a.task.cancel()
    await asyncio.gather(a.task, return_exceptions=True)
    renewed = written(lease(workspace), "renewTime")
    await ended(b.started.wait(), "b leads")
    spec = lease(workspace)
    assert spec["holderIdentity"] == "b"
    assert (written(spec, "acquireTime") - renewed).total_seconds() >= 4.0, "the Lease has run out before"


async def test_a_kube_scheduler_on_the_same_lease_is_kept_out(
    control_plane: ControlPlane, workspace: Workspace, start: Start
) -> None:
    """And the other way round: what it holds we respect. See the unit tests for its record in detail."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{workspace.namespace}/leases"
    record = {
        "holderIdentity": "host_uuid",
        "leaseDurationSeconds": 3,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 4,
    }
    workspace.api.create(path, {"metadata": {"name": "kscheduler"}, "spec": record})
    a = start("a")
    began = time.monotonic()
    await ended(a.started.wait(), "a leads")
    assert time.monotonic() - began >= 3.0
    assert lease(workspace)["leaseTransitions"] == 5
