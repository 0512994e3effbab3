"""Leader election on a real apiserver."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from kscheduler.client.kube import KubeClient
from kscheduler.client.leaderelection import ElectionConfig, LeaderElector
from kscheduler.testing.controlplane import ControlPlane
from kscheduler.testing.controlplane.patience import ended
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


@dataclass
class Candidate:
    client: KubeClient
    elector: LeaderElector
    task: asyncio.Future[None]
    started: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.fixture
async def start(workspace: Workspace) -> AsyncIterator[Callable[[str], Candidate]]:
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

    def start(name: str) -> Candidate:
        client = clients[len(candidates)]
        started = asyncio.Event()
        config = ElectionConfig(name, namespace, "kscheduler", 4.0, 3.0, 1.0)
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


async def test_a_released_lease_changes_hands_at_once(workspace: Workspace, start: Callable[[str], Candidate]) -> None:
    a = start("a")
    await ended(a.started.wait(), "a leads")
    spec = lease(workspace)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 4, 0)
    b = start("b")
    await asyncio.sleep(1.5)
    assert a.elector.is_leader
    assert not b.elector.is_leader
    released = time.monotonic()
    await a.elector.stop()
    await a.task
    await ended(b.started.wait(), "b leads")
    assert time.monotonic() - released < 0.9  # the watch: a poll comes after a second at the earliest
    spec = lease(workspace)
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)


async def test_a_dead_leader_is_succeeded(workspace: Workspace, start: Callable[[str], Candidate]) -> None:
    a = start("a")
    await ended(a.started.wait(), "a leads")
    b = start("b")
    await asyncio.sleep(1.2)
    a.task.cancel()
    died = time.monotonic()
    await ended(b.started.wait(), "b leads")
    assert 2.0 < time.monotonic() - died < 4.0 + 1.0
    assert lease(workspace)["holderIdentity"] == "b"


async def test_a_kube_scheduler_on_the_same_lease_is_kept_out(
    control_plane: ControlPlane, workspace: Workspace, start: Callable[[str], Candidate]
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
