"""How fast anybody could bind: a client that decides nothing, puts pod after pod on node after node, and tells nobody.

    python -m perf.bare_client KUBECONFIG

It lists what there is, then writes all bindings through the lane that kscheduler's go through. No watch, no Events:
what it reaches on a control plane is the room above a scheduler there. `perf.compare_kube_scheduler --bare` runs it as
a third contender.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from kscheduler.client.bind_lane import BindLane
from kscheduler.client.binder import Binder
from kscheduler.client.kube import KubeClient
from kscheduler.client.protocol import NODES, PODS, Binding, Resource
from kscheduler.errors import APIError
from tests.controlplane.harness import ControlPlane, Process

NAME = "bare client"
AT_ONCE = 64  # as kscheduler does by default
QPS = 100_000

T = TypeVar("T")


class BareClient:
    """As a process beside a control plane."""

    def __init__(self, control_plane: ControlPlane) -> None:
        command = [sys.executable, "-m", "perf.bare_client", str(control_plane.admin_kubeconfig)]
        repository = Path(__file__).resolve().parents[1]
        self.process: Process = control_plane.start_process("bare-client", command, directory=repository)

    def stop(self) -> None:
        self.process.stop()


class _Clock:
    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()


async def bind_all(kubeconfig: str) -> int:
    """Bind all pods that have no node; returns how many were not bound."""
    client = await KubeClient.connect(_Clock(), kubeconfig=kubeconfig, qps=QPS, burst=QPS)
    try:
        nodes = [node.metadata.name for node in await _list(client, NODES)]
        pods = [pod.metadata for pod in await _list(client, PODS) if not pod.spec.node_name]
        lane = BindLane(client, Binder(client, random.Random(0)), limit=AT_ONCE)
        failed: list[APIError] = []

        def answered(error: APIError | None) -> None:
            if error is not None:
                failed.append(error)

        for number, pod in enumerate(pods):
            lane.submit(Binding(pod.namespace, pod.name, pod.uid, nodes[number % len(nodes)]), answered)
        await lane.drain(3600.0)
        return len(failed)
    finally:
        await client.close()


async def _list(client: KubeClient, resource: Resource[T]) -> list[T]:
    found: list[T] = []
    token = ""
    while True:
        page = await client.list_page(resource, continue_token=token)
        found += page.items
        token = page.continue_token
        if not token:
            return found


async def _serve(kubeconfig: str) -> None:
    """Bind, then wait to be stopped: whoever measures reads this process's times."""
    failed: Any = await bind_all(kubeconfig)
    print(f"{failed} pods were not bound", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.install()
    asyncio.run(_serve(sys.argv[1]))
