"""Preemption on a real apiserver while pods vanish by themselves: its refusals, and what comes of them.

A pod that is gone, or that has a namesake by now, is what preemption wanted anyway: no fault is reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kscheduler.api.objects import Pod
from kscheduler.client.credentials import load_credentials
from kscheduler.client.kube import KubeClient
from kscheduler.client.protocol import PodStatusPatch, nothing
from kscheduler.config.load import default_config
from kscheduler.errors import APIError
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Scheduler
from kscheduler.testing.controlplane import ControlPlane, RequestFailed, verify, workload
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.load import Loading, create, nodes, pods
from kscheduler.testing.controlplane.patience import Patience, eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.parity.manifests import priority_class
from tests.support.clocks import CLOCK

NODE = "node-0"  # of 4 cpu
PRIORITIES = {"low": 10, "middling": 100, "important": 1000}

Act = Callable[[], object]


class Meddled(KubeClient):
    """Just before a write goes out, somebody else may act."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.before: dict[tuple[str, str], Act] = {}  # (what is written, pod name) -> what somebody does first, once
        self._refused: list[tuple[str, str, int]] = []  # (what is written, pod name, status)

    def refusals(self, *names: str) -> list[tuple[str, str, int]]:
        """What could not be written about these pods: (what, pod name, status)."""
        return sorted(refusal for refusal in self._refused if refusal[1] in names)

    async def patch_pod_status(self, pod: Pod, patch: PodStatusPatch, on_overdue: Callable[[], None] = nothing) -> None:
        await self._write(_name_of(patch), pod.metadata.name, super().patch_pod_status(pod, patch, on_overdue))

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        await self._write("delete", name, super().delete_pod(namespace, name, uid))

    async def _write(self, what: str, name: str, write: Coroutine[Any, Any, None]) -> None:
        act = self.before.pop((what, name), None)
        if act is not None:
            await asyncio.to_thread(act)
        try:
            await write
        except APIError as error:
            self._refused.append((what, name, error.status))
            raise


def _name_of(patch: PodStatusPatch) -> str:
    if patch.nominated_node_name is not None:
        return "nominate" if patch.nominated_node_name else "clear"
    assert patch.condition is not None
    return "mark" if patch.condition.type == "DisruptionTarget" else "condition"


class Stage:
    """One node, full of pods that a more important one may drive out, and what others do to them."""

    def __init__(self, workspace: Workspace, client: Meddled) -> None:
        self.workspace = workspace
        self.client = client

    def place(self, name: str, cpu: str, **spec: Any) -> None:
        """A pod that is on the node already, and ends at once when it has to."""
        self.want(name, cpu, nodeName=NODE, **{"terminationGracePeriodSeconds": 0, **spec})

    def want(self, name: str, cpu: str, priority: str = "", **spec: Any) -> None:
        if priority:
            spec["priorityClassName"] = priority
        self.workspace.create(workload.pod(name, requests={"cpu": cpu, "memory": "1Mi"}, spec=spec))

    def remove(self, name: str) -> None:
        self.workspace.api.delete(self._path(name))

    def replace(self, name: str) -> None:
        """Another pod under the name, so small that there is always room for it."""
        self.remove(name)
        self.want(name, "10m")

    def bind(self, name: str, node_name: str) -> None:
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
        self.workspace.api.create(f"{self._path(name)}/binding", {**binding, "target": {"name": node_name}})

    def _path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.workspace.namespace}/pods/{name}"

    async def until(self, is_so: Callable[[], object], what: str) -> None:
        """Wait, and let the scheduler work meanwhile."""
        patience = Patience(what)
        while not await asyncio.to_thread(is_so):
            await patience.pause_loop()

    async def until_bound(self, name: str, node_name: str = NODE) -> None:
        await self.until(lambda: self.workspace.bindings().get(name) == node_name, f"{name} is bound to {node_name}")

    def nomination(self, name: str) -> str:
        return str(self.workspace.pod(name)["status"].get("nominatedNodeName", ""))


@pytest.fixture
def priorities(control_plane: ControlPlane) -> None:
    """Classes by which pods are more or less important; they stay, as they have no namespace."""
    control_plane.api.apply(*(priority_class(name, value) for name, value in PRIORITIES.items()))


@pytest.fixture
async def stage(workspace: Workspace, priorities: None) -> AsyncIterator[Stage]:
    workspace.create_node(NODE)
    kubeconfig = str(workspace.control_plane.admin_kubeconfig)
    client = Meddled(await load_credentials(CLOCK, kubeconfig=kubeconfig), CLOCK, qps=-1)
    scheduler = Scheduler(
        client, default_config(), clock=CLOCK, rng=random.Random(1), metrics=Metrics(), stopwatch=time.perf_counter
    )
    tasks = [asyncio.ensure_future(work) for work in (scheduler.observe(), scheduler.schedule())]
    yield Stage(workspace, client)
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    await client.close()


def loud(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the scheduler warned of."""
    return [
        f"{record.getMessage()}: {getattr(record, 'err', '')}"
        for record in caplog.records
        if record.levelno > logging.INFO and record.name.startswith("kscheduler")
    ]


@pytest.mark.parametrize("write", ["mark", "delete"])
async def test_a_victim_that_vanishes_by_itself_is_as_good_as_ended(
    stage: Stage, write: str, caplog: pytest.LogCaptureFixture
) -> None:
    stage.place("victim", "3")
    stage.client.before[write, "victim"] = lambda: stage.remove("victim")
    stage.want("greater", "3", "important")
    await stage.until_bound("greater")
    await stage.until(lambda: stage.client.refusals("victim"), "the write is answered")
    assert stage.client.refusals("victim") == [(write, "victim", 404)]
    assert loud(caplog) == []


@pytest.mark.parametrize("write", ["mark", "delete"])
async def test_a_namesake_of_a_victim_is_left_alone(stage: Stage, write: str, caplog: pytest.LogCaptureFixture) -> None:
    stage.place("victim", "3")
    stage.client.before[write, "victim"] = lambda: stage.replace("victim")
    stage.want("greater", "3", "important")
    await stage.until_bound("greater")
    await stage.until_bound("victim")
    await stage.until(lambda: stage.client.refusals("victim"), "the write is answered")
    assert stage.client.refusals("victim") == [(write, "victim", 409)]
    assert "deletionTimestamp" not in stage.workspace.pod("victim")["metadata"]
    assert loud(caplog) == []


async def test_one_of_several_victims_may_vanish(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("one", "two", "three"):
        stage.place(name, "1")
    stage.client.before["mark", "one"] = lambda: stage.remove("one")
    stage.client.before["delete", "three"] = lambda: stage.remove("three")
    stage.want("greater", "4", "important")
    await stage.until_bound("greater")
    await stage.until(lambda: len(stage.client.refusals("one", "three")) == 2, "both writes are answered")
    assert stage.client.refusals("one", "two", "three") == [("delete", "three", 404), ("mark", "one", 404)]
    assert loud(caplog) == []


async def test_a_pod_that_is_deleted_before_its_nomination_is_written_leaves_the_room_to_others(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.place("victim", "3")
    stage.client.before["nominate", "greater"] = lambda: stage.remove("greater")
    stage.want("greater", "3", "important")
    await stage.until(lambda: stage.client.refusals("greater"), "the nomination is refused")
    stage.want("next", "3")
    await stage.until_bound("next")
    assert stage.client.refusals("greater") == [("nominate", "greater", 404)]
    assert loud(caplog) == []


async def test_a_nomination_is_not_written_to_a_namesake(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.workspace.create_node("node-1", capacity={"cpu": "1", "memory": "1Gi", "pods": "10"})
    stage.place("victim", "3")
    stage.client.before["nominate", "greater"] = lambda: stage.replace("greater")
    stage.want("greater", "3", "important")
    await stage.until(lambda: stage.client.refusals("greater"), "the nomination is refused")
    await stage.until(lambda: "greater" in stage.workspace.bindings(), "its namesake is bound")
    assert stage.client.refusals("greater") == [("nominate", "greater", 409)]
    assert loud(caplog) == []


@pytest.mark.parametrize("end", ["deleted", "replaced", "bound elsewhere"])
async def test_a_nomination_that_is_to_be_cleared_may_be_of_a_pod_that_is_gone_or_bound(
    stage: Stage, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    stage.workspace.create_node("node-1", capacity={"cpu": "1", "memory": "1Gi", "pods": "10"})
    stage.place("slow", "2", terminationGracePeriodSeconds=3600)
    stage.place("quick", "2", priorityClassName="low")
    stage.want("middling", "2", "middling")
    await stage.until(lambda: stage.nomination("middling") == NODE, "the node is promised to the first")
    acts: dict[str, Act] = {
        "deleted": lambda: stage.remove("middling"),
        "replaced": lambda: stage.replace("middling"),
        "bound elsewhere": lambda: stage.bind("middling", "node-1"),
    }
    stage.client.before["clear", "middling"] = acts[end]
    stage.want("greater", "4", "important")
    await stage.until(lambda: ("clear", "middling") not in stage.client.before, "the promise is taken back")
    await stage.until(lambda: stage.nomination("greater") == NODE, "the node is promised to the second")
    stage.remove("slow")
    await stage.until_bound("greater")
    statuses = {"deleted": [404], "replaced": [409], "bound elsewhere": []}[end]
    assert [status for what, _, status in stage.client.refusals("middling") if what == "clear"] == statuses
    assert loud(caplog) == []


# --- many preemptions at a time ---------------------------------------------------------------------------------------

NODES, LESSER, GREATER = 150, 600, 300
DELETIONS, THREADS = 50, 4  # each thread so many


@pytest.mark.slow
def test_pods_that_vanish_among_many_preemptions_make_no_noise(
    fresh_control_plane: Callable[..., ControlPlane],
) -> None:
    """Nodes are full to the last cpu; every critical pod takes the room of two, while pods of both kinds vanish."""
    control_plane = fresh_control_plane(audit=True)
    control_plane.api.apply(*(priority_class(name, value) for name, value in PRIORITIES.items()))
    create(control_plane.credentials, nodes(NODES))
    create(control_plane.credentials, pods(LESSER, templates=[_pod("lesser-{index}", "1")]))
    scheduler = KScheduler(control_plane)
    eventually(lambda: len(_bound(control_plane)) == LESSER, "the cluster is full")
    # 1. Critical pods come, and pods of both kinds are deleted under way.
    template = _pod("greater-{index}", "2", priorityClassName="important")
    loading = Loading(control_plane.credentials, pods(GREATER, templates=[template]))
    eventually(lambda: len(_all(control_plane)) != LESSER, "the first has come")
    with ThreadPoolExecutor(THREADS) as hands:
        list(hands.map(lambda seed: _delete_some(control_plane, random.Random(seed)), range(THREADS)))
    loading.wait()
    # 2. Those that are left find their place.
    eventually(lambda: not _waiting(control_plane), "all critical pods are bound")
    assert verify(control_plane.api, events=False).problems == []
    scheduler.stop()
    # 3. Requests were refused, all for what has vanished, and none of these was reported twice.
    refusals = _refusals(control_plane)
    assert refusals
    assert {code for _, code in refusals} <= {404, 409, 422}, refusals
    text = scheduler.process.log_text()
    assert "Traceback" not in text
    reported = Counter(re.findall(r"^[WE]\d{4} .*\bpod=\"([^\"]+)\"", text, re.MULTILINE))
    assert not [pod for pod, times in reported.items() if times > 1], text


def _pod(name: str, cpu: str, **spec: Any) -> Object:
    spec = {"terminationGracePeriodSeconds": 0, **spec}
    return workload.pod(name, requests={"cpu": cpu, "memory": "1Mi"}, spec=spec)


def _all(control_plane: ControlPlane) -> list[Object]:
    return control_plane.api.list_all("/api/v1/namespaces/default/pods")


def _bound(control_plane: ControlPlane) -> list[Object]:
    return [pod for pod in _all(control_plane) if pod["spec"].get("nodeName")]


def _waiting(control_plane: ControlPlane) -> list[str]:
    names = [pod["metadata"]["name"] for pod in _all(control_plane) if not pod["spec"].get("nodeName")]
    return [name for name in names if name.startswith("greater")]


def _delete_some(control_plane: ControlPlane, rng: random.Random) -> None:
    for _ in range(DELETIONS):
        name = f"lesser-{rng.randrange(LESSER)}" if rng.random() < 0.7 else f"greater-{rng.randrange(GREATER)}"
        with contextlib.suppress(RequestFailed):  # it has gone before
            control_plane.api.delete(f"/api/v1/namespaces/default/pods/{name}")


def _refusals(control_plane: ControlPlane) -> Counter[tuple[str, int]]:
    """What the scheduler asked of pods in vain: (verb and subresource, status) -> how often."""
    return Counter(
        (f"{event['verb']} {event['objectRef'].get('subresource', '')}".strip(), event["responseStatus"]["code"])
        for event in control_plane.apiserver.audit_events()
        if event.get("objectRef", {}).get("resource") == "pods"
        and event.get("userAgent", "").startswith("kscheduler")
        and event.get("responseStatus", {}).get("code", 0) >= 400
    )
